//! Values as bytes that a later release may add to: messages between daemons, words of switch threads,
//! journals. [`encode`] writes, [`decode`] reads; both follow the fields of a type in their order.
//!
//! ```text
//! struct   | bytes: varint | field | field | ...        enum   | variant: varint | bytes: varint | what it carries |
//! list     | count: varint | value | ...                text   | bytes: varint | bytes |
//! number   varint (7 bits a byte, lowest first; signed: zigzag)          Option   0, or 1 and the value
//! tuple, newtype: their values and nothing else
//! ```
//!
//! What may change from release to release, and stays readable both ways:
//!
//! - **A field more, as the last one**, with `#[serde(default)]`. An older reader skips it by the struct's
//!   length; a newer one that does not find it takes the default.
//! - **A variant more, as the last one.** An older reader refuses the value by name
//!   ([`DecodeError::UnknownVariant`]), and knows where the next one begins if it has a length of its own.
//!
//! Nothing else may: no field or variant is removed, moved or given another type; tuples never change.
//!
//! [`decode`] is total: any bytes are a value or a named error, and memory grows with the bytes alone.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

mod reader;
mod writer;

/// Why bytes are not the value that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Bytes end before the value does.
    Short,
    /// Bytes left behind the value: so many.
    Rest(usize),
    /// An enum has a variant of this number, which a later release has added.
    UnknownVariant {
        /// The enum.
        name: &'static str,
        /// The variant's number.
        variant: u32,
    },
    /// Any other fault of the bytes.
    Invalid(String),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Short => f.write_str("it ends too early"),
            DecodeError::Rest(bytes) => write!(f, "{bytes} bytes behind it"),
            DecodeError::UnknownVariant { name, variant } => {
                write!(f, "{name} number {variant} is of a later release")
            }
            DecodeError::Invalid(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(text: T) -> Self {
        DecodeError::Invalid(text.to_string())
    }
}

/// Appends a value to `out`.
///
/// # Panics
/// When the type is not of those that travel: lists and maps whose length is not known, 128 bits.
pub fn encode_behind<T: Serialize + ?Sized>(value: &T, out: Vec<u8>) -> Vec<u8> {
    let mut writer = writer::Writer(out);
    value.serialize(&mut writer).expect("the types that travel are serialisable");
    writer.0
}

/// The bytes of a value.
///
/// # Panics
/// As [`encode_behind`].
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    encode_behind(value, Vec::new())
}

/// The value whose bytes these are, from the first to the last.
///
/// # Errors
/// When they are not those of such a value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut reader = reader::Reader(bytes);
    let value = T::deserialize(&mut reader)?;
    if reader.0.is_empty() { Ok(value) } else { Err(DecodeError::Rest(reader.0.len())) }
}

#[cfg(test)]
mod tests;
