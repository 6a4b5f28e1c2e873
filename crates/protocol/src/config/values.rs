//! Values of `tutti.toml`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use crate::gpus::Gpus;
use crate::ports::Ports;
use crate::size;

/// Characters of a text, at most.
const TEXT_CHARS_MAX: usize = 4096;
/// Names in a list, at most.
const NAMES_MAX: usize = 1 << 16;
/// Characters of a wrong value that are shown.
const SHOWN_CHARS: usize = 40;

/// Kinds of values that a key may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number in a range.
    Count(u64, u64),
    /// A time with its unit in quotes, in a range of ms.
    Duration(u64, u64),
    /// An amount of memory in quotes, of so many bytes at least.
    Size(u64),
    /// true or false.
    Switch,
    /// A text that is not empty.
    Text,
    /// A path that begins with a slash.
    Path,
    /// Address and port.
    Socket,
    /// An address.
    Address,
    /// A range of ports.
    Ports,
    /// GPUs: how many, or their numbers.
    Gpus,
    /// A word of these.
    Choice(&'static [&'static str]),
    /// A list of names, none twice.
    Names,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A time in ms.
    Ms(u64),
    /// Memory.
    Bytes(u64),
    /// Yes or no.
    Switch(bool),
    /// A text, path, address or word.
    Text(String),
    /// A list of names.
    Names(Vec<String>),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kind::Count(least, most) => write!(f, "a whole number from {least} to {most}"),
            Kind::Duration(least, most) => write!(
                f,
                "a time in quotes from {} to {}, with ms, s, m, h or d, such as \"10s\"",
                duration_text(least),
                duration_text(most)
            ),
            Kind::Size(0) => {
                f.write_str("an amount of memory in quotes, with K, M, G or T, such as \"512M\"")
            }
            Kind::Size(least) => {
                let least = size::text(least);
                write!(f, "an amount of memory in quotes from {least}, with K, M, G or T, such as \"512M\"")
            }
            Kind::Switch => f.write_str("true or false"),
            Kind::Text => f.write_str("a text in quotes"),
            Kind::Path => f.write_str("a path in quotes that begins with /"),
            Kind::Socket => f.write_str("an address and a port in quotes, such as \"10.0.0.1:7411\""),
            Kind::Address => f.write_str("an address in quotes, such as \"10.0.0.1\""),
            Kind::Ports => {
                f.write_str("a range of ports from 1024 to 65535 in quotes, such as \"7420-7499\"")
            }
            Kind::Gpus => {
                f.write_str("a number of GPUs up to 64, or their numbers in quotes, such as \"0-3\"")
            }
            Kind::Choice(words) => write!(f, "one of \"{}\"", words.join("\", \"")),
            Kind::Names => f.write_str("a list of names, such as [\"node1\", \"node2\"]"),
        }
    }
}

impl Kind {
    /// Reads a value; the error says what it is and what is allowed.
    pub(super) fn read(self, value: &DeValue<'_>) -> Result<Value, String> {
        let wrong = || format!("{} is not {self}", shown(value));
        let text = || value.as_str().ok_or_else(wrong);
        match self {
            Kind::Count(least, most) => {
                let number = whole_number(value).ok_or_else(wrong)?;
                (least..=most).contains(&number).then_some(Value::Count(number)).ok_or_else(wrong)
            }
            Kind::Duration(least, most) => {
                let ms = duration(text()?).ok_or_else(wrong)?;
                (least..=most).contains(&ms).then_some(Value::Ms(ms)).ok_or_else(wrong)
            }
            Kind::Size(least) => {
                let text = text()?;
                let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
                let bytes = size::parse(text).ok().filter(|_| has_unit).ok_or_else(wrong)?;
                (bytes >= least).then_some(Value::Bytes(bytes)).ok_or_else(wrong)
            }
            Kind::Switch => value.as_bool().map(Value::Switch).ok_or_else(wrong),
            Kind::Text => {
                let text = text()?;
                let is_one = !text.trim().is_empty()
                    && text.chars().count() <= TEXT_CHARS_MAX
                    && !text.contains(char::is_control);
                is_one.then(|| Value::Text(text.to_owned())).ok_or_else(wrong)
            }
            Kind::Path => {
                let text = text()?;
                let is_one =
                    text.starts_with('/') && text.len() <= TEXT_CHARS_MAX && !text.contains(char::is_control);
                is_one.then(|| Value::Text(text.to_owned())).ok_or_else(wrong)
            }
            Kind::Socket => {
                let address: SocketAddr = text()?.parse().map_err(|_| wrong())?;
                Ok(Value::Text(address.to_string()))
            }
            Kind::Address => {
                let address: IpAddr = text()?.parse().map_err(|_| wrong())?;
                Ok(Value::Text(address.to_string()))
            }
            Kind::Ports => {
                let ports: Ports = text()?.parse().map_err(|_| wrong())?;
                Ok(Value::Text(ports.to_string()))
            }
            Kind::Gpus => {
                let count = whole_number(value).map(|count| count.to_string());
                let text = count.as_deref().map_or_else(text, Ok)?;
                text.parse::<Gpus>().map_err(|_| wrong())?;
                Ok(Value::Text(text.to_owned()))
            }
            Kind::Choice(words) => {
                let text = text()?;
                words.contains(&text).then(|| Value::Text(text.to_owned())).ok_or_else(wrong)
            }
            Kind::Names => {
                let list = value.as_array().filter(|list| list.len() <= NAMES_MAX).ok_or_else(wrong)?;
                let mut names: Vec<String> = Vec::new();
                let mut seen = std::collections::BTreeSet::new();
                for entry in list.iter() {
                    let name = entry.as_ref().as_str().filter(|name| is_name(name)).ok_or_else(wrong)?;
                    if !seen.insert(name) {
                        return Err(format!("{name:?} is in the list twice"));
                    }
                    names.push(name.to_owned());
                }
                if names.is_empty() {
                    return Err("the list is empty; without the key all nodes are meant".into());
                }
                Ok(Value::Names(names))
            }
        }
    }
}

/// A name of a node, queue, user or group.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// A number that is not negative.
pub(super) fn whole_number(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str().trim_start_matches('+'), number.radix()).ok()
}

/// A wrong value, as it was written and not too long.
pub(super) fn shown(value: &DeValue<'_>) -> String {
    let text = match value {
        DeValue::String(text) => format!("{:?}", text.chars().take(2 * SHOWN_CHARS).collect::<String>()),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        DeValue::Datetime(moment) => moment.to_string(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    };
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// A time with its units, `1h30m` or `0.5s`, in ms.
#[must_use]
pub fn duration(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut sum = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let unit_ms = match &behind[..letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(times(number, unit_ms)?)?;
        rest = &behind[letters..];
    }
    Some(sum)
}

/// A decimal number times a unit, rounded down.
fn times(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(part.len() as u32);
    let part: u64 = part.parse().ok()?;
    let fraction = u128::from(part) * u128::from(unit) / u128::from(scale);
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(u64::try_from(fraction).ok()?)
}

/// A time as it is written: the largest units that come out even.
#[must_use]
pub fn duration_text(ms: u64) -> String {
    if ms == 0 {
        return "0s".into();
    }
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let (mut rest, mut text) = (ms, String::new());
    for (unit, name) in units {
        if rest >= unit {
            text.push_str(&format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    text
}

/// As it is written in the file.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(number) => write!(f, "{number}"),
            Value::Ms(ms) => write!(f, "\"{}\"", duration_text(*ms)),
            Value::Bytes(bytes) => {
                let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
                let even = units.iter().find(|(shift, _)| *bytes >= 1 << shift && bytes % (1 << shift) == 0);
                let (shift, unit) = even.copied().unwrap_or((10, 'K'));
                write!(f, "\"{}{unit}\"", bytes.div_ceil(1 << shift))
            }
            Value::Switch(yes) => write!(f, "{yes}"),
            Value::Text(text) => write!(f, "{}", quoted(text)),
            Value::Names(names) => {
                let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
                write!(f, "[{}]", names.join(", "))
            }
        }
    }
}

/// A text as TOML has it.
#[must_use]
pub fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => format!("\\u{:04X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_times_have_units() {
        for (text, ms) in [
            ("100ms", 100),
            ("10s", 10_000),
            ("0.5s", 500),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Some(ms), "{text}");
        }
        for text in ["", "10", "ms", "1.s", ".5s", "-1s", "10 s", "1w", "99999999999999999999d", "1s2"] {
            assert_eq!(duration(text), None, "{text}");
        }
        for ms in [0, 5, 999, 1000, 90_000, 86_400_000, 90_061_001] {
            assert_eq!(duration(&duration_text(ms)), Some(ms));
        }
    }
}
