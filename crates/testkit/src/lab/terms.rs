//! Terms of a cable: what it does to the frames that it carries.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Parts of a million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share(u32);

impl Share {
    /// Share of so many in a hundred.
    ///
    /// # Panics
    /// When it is not from 0 to 100.
    #[must_use]
    pub fn percent(percent: f64) -> Self {
        assert!((0.0..=100.0).contains(&percent), "{percent} % is no share");
        Share((percent * 10_000.0).round() as u32)
    }

    /// Of a million.
    pub(super) fn of_million(self) -> u32 {
        self.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        number
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Share::percent)
            .ok_or_else(|| format!("'{text}' is no share from 0% to 100%, as 1% or 0.5%"))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// A time or a rate with its unit: the first unit in the list that the text ends with.
fn parse_unit(text: &str, what: &str, units: &[(&str, f64)]) -> Result<u64, String> {
    let found = units.iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some((number * factor) as u64)
    });
    found.ok_or_else(|| {
        let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
        format!("'{text}' is no {what}: a number with one of {}", names.join(", "))
    })
}

/// Reads a time as `50us`, in nanoseconds.
///
/// # Errors
/// When it is none; a line for the user.
pub fn parse_delay(text: &str) -> Result<u64, String> {
    parse_unit(text, "delay", &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// Reads a rate as `100Mbit`, in bits a second.
///
/// # Errors
/// When it is none; a line for the user.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = parse_unit(text, "rate", &[("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)])?;
    if rate < 1000 { Err(format!("'{text}' is no rate: 1kbit is the least")) } else { Ok(rate) }
}

/// Terms of a cable, in each direction alike. The default carries everything at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Frames that are lost.
    pub loss: Share,
    /// Frames that come twice.
    pub duplication: Share,
    /// Frames that are overtaken by those after them.
    pub reordering: Share,
    /// How long a frame is under way, in nanoseconds.
    pub delay_ns: u64,
    /// Bits a second; 0: as many as it can.
    pub rate_bits: u64,
    /// Longest packet, in bytes.
    pub mtu_bytes: u32,
    /// Which frames meet with what follows from it.
    pub seed: u64,
}

/// Of Ethernet.
pub const MTU_BYTES: u32 = 1500;
/// The least and the most that a cable takes.
pub const MTU_RANGE: (u32, u32) = (576, 9000);

impl Default for Terms {
    fn default() -> Self {
        Terms {
            loss: Share::default(),
            duplication: Share::default(),
            reordering: Share::default(),
            delay_ns: 0,
            rate_bits: 0,
            mtu_bytes: MTU_BYTES,
            seed: 1,
        }
    }
}

impl Terms {
    /// Frames go straight through the kernel.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        Terms { mtu_bytes: MTU_BYTES, seed: 1, ..*self } == Terms::default()
    }

    /// With so many percent of frames lost.
    #[must_use]
    pub fn loss(self, percent: f64) -> Self {
        Terms { loss: Share::percent(percent), ..self }
    }

    /// With so many percent of frames that come twice.
    #[must_use]
    pub fn duplication(self, percent: f64) -> Self {
        Terms { duplication: Share::percent(percent), ..self }
    }

    /// With so many percent of frames overtaken by others.
    #[must_use]
    pub fn reordering(self, percent: f64) -> Self {
        Terms { reordering: Share::percent(percent), ..self }
    }

    /// With frames under way for so long.
    #[must_use]
    pub fn delay_us(self, us: u64) -> Self {
        Terms { delay_ns: us * 1000, ..self }
    }

    /// With so many bits a second at most.
    #[must_use]
    pub fn rate_bits(self, bits: u64) -> Self {
        Terms { rate_bits: bits, ..self }
    }

    /// With this longest packet.
    #[must_use]
    pub fn mtu(self, bytes: u32) -> Self {
        Terms { mtu_bytes: bytes, ..self }
    }

    /// With other luck.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Terms { seed, ..self }
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("mtu {}", self.mtu_bytes);
        for (name, share) in [("loss", self.loss), ("dup", self.duplication), ("reorder", self.reordering)] {
            if share != Share::default() {
                write!(text, ", {name} {share}")?;
            }
        }
        if self.delay_ns > 0 {
            write!(text, ", delay {}us", self.delay_ns as f64 / 1e3)?;
        }
        if self.rate_bits > 0 {
            write!(text, ", rate {}Mbit", self.rate_bits as f64 / 1e6)?;
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_terms_of_a_cable_are_read_with_their_units_and_refused_in_one_line() {
        assert_eq!("1%".parse(), Ok(Share(10_000)));
        assert_eq!("0.5%".parse(), Ok(Share(5_000)));
        assert_eq!(parse_delay("50us"), Ok(50_000));
        assert_eq!(parse_delay("1.5ms"), Ok(1_500_000));
        assert_eq!(parse_delay("2s"), Ok(2_000_000_000));
        assert_eq!(parse_rate("100Mbit"), Ok(100_000_000));
        for wrong in ["1", "101%", "-1%", "x%", ""] {
            assert!(wrong.parse::<Share>().unwrap_err().contains("no share"), "{wrong}");
        }
        assert!(parse_delay("5").unwrap_err().ends_with("a number with one of ns, us, ms, s"));
        assert!(parse_rate("0Mbit").unwrap_err().contains("the least"));
        assert!(parse_delay("-1us").is_err());
        let terms = Terms::default().loss(1.0).delay_us(50).mtu(9000);
        assert_eq!(terms.to_string(), "mtu 9000, loss 1%, delay 50us");
        assert!(!terms.is_plain() && Terms::default().mtu(9000).is_plain());
    }
}
