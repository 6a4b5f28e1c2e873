//! A range of ports that a keeper opens in a firewall for the ranks of a node.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Environment variable of a rank: the range, for the sockets that the rank opens itself.
pub const VARIABLE: &str = "TUTTI_PORTS";
/// Below it stand the ports of services, which only root may bind.
const FIRST_MIN: u16 = 1024;

/// Ports from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// All of them.
    #[must_use]
    pub fn range(self) -> std::ops::RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (first, last) = text.split_once('-')?;
            Some(Ports { first: first.trim().parse().ok()?, last: last.trim().parse().ok()? })
        };
        let wanted =
            || format!("{text:?} is not a range of ports from {FIRST_MIN} to 65535, such as 7420-7499");
        parsed().filter(|ports| ports.first >= FIRST_MIN && ports.first <= ports.last).ok_or_else(wanted)
    }
}

impl TryFrom<String> for Ports {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Ports> for String {
    fn from(ports: Ports) -> String {
        ports.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_range_that_anybody_may_bind() {
        let ports: Ports = "7420-7499".parse().unwrap();
        assert_eq!((ports.range().count(), ports.to_string().as_str()), (80, "7420-7499"));
        assert_eq!("1024 - 65535".parse::<Ports>().unwrap().range().count(), 64512);
        for wrong in ["", "7420", "7420-", "-7420", "7421-7420", "1023-2000", "7420-65536", "a-b", "1-2-3"] {
            assert!(wrong.parse::<Ports>().unwrap_err().contains("is not a range of ports"), "{wrong}");
        }
    }
}
