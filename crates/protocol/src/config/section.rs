//! The keys of one section of the file.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::values::Value;

/// A value with its line in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The value.
    pub value: Value,
    /// Where.
    pub line: u32,
}

/// The keys of a section that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section(pub BTreeMap<String, Placed>);

impl Section {
    /// A number.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.0.get(name)?.value {
            Value::Count(number) => Some(number),
            _ => None,
        }
    }

    /// A time in ms.
    #[must_use]
    pub fn ms(&self, name: &str) -> Option<u64> {
        match self.0.get(name)?.value {
            Value::Ms(ms) => Some(ms),
            _ => None,
        }
    }

    /// Memory.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<u64> {
        match self.0.get(name)?.value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// true or false.
    #[must_use]
    pub fn switch(&self, name: &str) -> Option<bool> {
        match self.0.get(name)?.value {
            Value::Switch(yes) => Some(yes),
            _ => None,
        }
    }

    /// A text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.0.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Names.
    #[must_use]
    pub fn names(&self, name: &str) -> &[String] {
        match self.0.get(name).map(|placed| &placed.value) {
            Some(Value::Names(names)) => names,
            _ => &[],
        }
    }

    /// The line of a key, 0 where it is not given.
    #[must_use]
    pub fn line(&self, name: &str) -> u32 {
        self.0.get(name).map_or(0, |placed| placed.line)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, placed)| writeln!(f, "{name} = {}", placed.value))
    }
}
