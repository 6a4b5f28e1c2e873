//! The environment of a job as daemons hold it: one piece of memory, shared by all that hold the same one.
//!
//! A user decides how long it is and how many variables it has; as texts of their own a million short ones
//! would take twenty times their bytes. In messages it is a list of pairs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::wire::{BorrowedText, Text};

/// Variables: each name and each value ends with a zero byte, which neither can have in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(Arc<Vec<u8>>);

impl Environment {
    fn of(mut bytes: Vec<u8>) -> Self {
        bytes.shrink_to_fit();
        Environment(Arc::new(bytes))
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let mut texts = self.0.split(|byte| *byte == 0).map(OsStr::from_bytes);
        // Behind the last zero there is nothing.
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Takes the place of one that is not needed any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl fmt::Debug for Environment {
    /// A job is printed in tests and logs; what is in its environment is its user's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} bytes)", self.bytes())
    }
}

impl FromIterator<(Text, Text)> for Environment {
    /// A text ends where a zero byte is in it, as for the kernel.
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(pairs: I) -> Self {
        let mut bytes = Vec::new();
        for (name, value) in pairs {
            for text in [name, value] {
                bytes.extend(text.as_bytes().iter().take_while(|byte| **byte != 0));
                bytes.push(0);
            }
        }
        Environment::of(bytes)
    }
}

impl Serialize for Environment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Between daemons it must be known how many there are.
        let pairs = self.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let pairs: Vec<_> = pairs.map(|(name, value)| (BorrowedText(name), BorrowedText(value))).collect();
        serializer.collect_seq(pairs)
    }
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Pairs)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Environment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names and values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<Environment, A::Error> {
        let mut bytes = Vec::new();
        while let Some((name, value)) = pairs.next_element::<(Text, Text)>()? {
            for text in [name, value] {
                if text.as_bytes().contains(&0) {
                    return Err(A::Error::custom("a variable has a zero byte in it"));
                }
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(0);
            }
        }
        Ok(Environment::of(bytes))
    }
}

/// Environments that are held somewhere here. A user submits most jobs with the same one. Of one that is not
/// held any more only its place here is left.
#[derive(Debug, Default)]
pub struct Environments(Vec<Weak<Vec<u8>>>);

impl Environments {
    /// An equal one, from now on shared by all that hold it.
    pub fn share(&mut self, environment: &mut Environment) {
        self.0.retain(|known| known.strong_count() > 0);
        match self.0.iter().filter_map(Weak::upgrade).find(|known| *known == environment.0) {
            Some(known) => environment.0 = known,
            None => self.0.push(Arc::downgrade(&environment.0)),
        }
    }

    /// Bytes that these take together, each shared one counted once.
    pub fn bytes_of<'a>(held: impl Iterator<Item = &'a Environment>) -> usize {
        let mut seen = BTreeSet::new();
        let new = held.filter(|environment| seen.insert(Arc::as_ptr(&environment.0)));
        new.map(Environment::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| (Text::from(*name), Text::from(*value))).collect()
    }

    #[test]
    fn environment_is_the_same_behind_json_and_bytes() {
        let odd = (Text::Bytes(vec![b'N', 0xff]), Text::Bytes(vec![0xfe]));
        for environment in [
            Environment::default(),
            environment(&[("A", "1"), ("EMPTY", ""), ("PATH", "/bin:/usr/bin")]),
            [odd].into_iter().collect(),
        ] {
            let json = serde_json::to_vec(&environment).unwrap();
            assert_eq!(serde_json::from_slice::<Environment>(&json).unwrap(), environment);
            let bytes = crate::codec::encode(&environment);
            assert_eq!(crate::codec::decode::<Environment>(&bytes).unwrap(), environment);
        }
        let three = environment(&[("A", "1"), ("EMPTY", ""), ("PATH", "/bin")]);
        let pairs: Vec<_> = three.iter().map(|(name, value)| (name.to_str(), value.to_str())).collect();
        assert_eq!(pairs, [(Some("A"), Some("1")), (Some("EMPTY"), Some("")), (Some("PATH"), Some("/bin"))]);
    }

    #[test]
    fn environment_with_a_zero_byte_is_refused() {
        for json in ["[[\"A\\u0000B\",\"1\"]]", "[[\"A\",\"1\\u0000\"]]", "[[\"A\"]]", "[\"A\"]", "{}"] {
            assert!(serde_json::from_str::<Environment>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn environments_that_are_equal_are_held_once() {
        let mut known = Environments::default();
        let mut held: Vec<Environment> = (0..3).map(|_| environment(&[("A", "1")])).collect();
        held.push(environment(&[("A", "2")]));
        assert_eq!(Environments::bytes_of(held.iter()), 16);
        held.iter_mut().for_each(|one| known.share(one));
        assert_eq!((Environments::bytes_of(held.iter()), known.0.len()), (8, 2));
        drop(held);
        known.share(&mut environment(&[("A", "3")]));
        assert_eq!(known.0.len(), 1, "what nobody holds is forgotten");
    }
}
