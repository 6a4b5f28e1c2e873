//! Notes of what the data of a buffer are: made when a type is committed while the program is being checked,
//! kept with the type's program.
//!
//! With a message travels one [`SignatureWord`]: the basic type when all elements have the same, and 56 bits
//! of the hash of the sequence. The receiver compares the hash with that of as many elements of its own type
//! (MPI 3.3.1: the message may be shorter than the buffer). Bytes (MPI_BYTE, MPI_PACKED) match everything: on
//! this machine the bytes are the same, so no result is wrong.

use crate::element::Element;
use crate::part::Part;
use crate::signature::Signature;

/// Note of what the data of a type are.
#[derive(Clone, Debug)]
pub struct Note {
    name: Box<str>,
    signature: Signature,
    /// Bytes of one element.
    size: usize,
    matches_all: bool,
}

/// Word that travels with a message: 0 when nothing is known.
///
/// | bits | |
/// |---|---|
/// | 56..63 | number of the basic type of all elements, [`MIXED`] or [`ANY`] |
/// | 0..55 | hash of the signature |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureWord(pub u64);

/// Elements of several basic types.
const MIXED: u64 = 1;
/// Bytes that match everything.
const ANY: u64 = 2;
/// Number of the first entry of [`BASICS`].
const FIRST: u64 = 16;

/// The basic types that data can be made of, and what users call them.
const BASICS: [(Element, &str); 21] = [
    (Element::Signed(1), "8-bit integer"),
    (Element::Signed(2), "16-bit integer"),
    (Element::Signed(4), "32-bit integer (MPI_INT)"),
    (Element::Signed(8), "64-bit integer (MPI_LONG)"),
    (Element::Unsigned(1), "unsigned 8-bit integer"),
    (Element::Unsigned(2), "unsigned 16-bit integer"),
    (Element::Unsigned(4), "unsigned 32-bit integer (MPI_UNSIGNED)"),
    (Element::Unsigned(8), "unsigned 64-bit integer (MPI_UNSIGNED_LONG)"),
    (Element::Float(2), "16-bit floating point number"),
    (Element::Float(4), "32-bit floating point number (MPI_FLOAT)"),
    (Element::Float(8), "64-bit floating point number (MPI_DOUBLE)"),
    (Element::Float(16), "long double (MPI_LONG_DOUBLE)"),
    (Element::Complex(4), "complex number of 32-bit parts"),
    (Element::Complex(8), "complex number of 64-bit parts"),
    (Element::Complex(16), "complex number of long doubles"),
    (Element::Quad { complex: false }, "128-bit floating point number"),
    (Element::Quad { complex: true }, "complex number of 128-bit parts"),
    (Element::Logical(1), "logical value of one byte"),
    (Element::Logical(4), "logical value of four bytes"),
    (Element::Character(1), "character"),
    (Element::Byte, "byte"),
];

impl Note {
    /// Of a type that has data.
    pub fn new(part: &Part, name: &[u8], size: usize) -> Self {
        let signature = part.signature.clone();
        let is_bytes = signature.only_basic().is_some_and(|basic| basic.element == Element::Byte);
        Note { name: String::from_utf8_lossy(name).into(), matches_all: is_bytes, signature, size }
    }

    fn whole(&self, bytes: usize) -> Option<Signature> {
        self.signature.repeat((bytes / self.size) as i128)
    }

    pub(crate) fn word(&self, bytes: usize) -> SignatureWord {
        if bytes == 0 {
            return SignatureWord(0);
        }
        let number = match self.signature.only_basic() {
            _ if self.matches_all => ANY,
            None => MIXED,
            Some(basic) => {
                let position = BASICS.iter().position(|entry| entry.0 == basic.element);
                position.map_or(MIXED, |position| FIRST + position as u64)
            }
        };
        SignatureWord(number << 56 | self.whole(bytes).map_or(0, |signature| short(signature.hash)))
    }

    /// Whether a receive of `capacity` bytes of this type may take a message of `bytes` bytes with this word.
    pub(crate) fn takes(&self, capacity: usize, theirs: SignatureWord, bytes: usize) -> bool {
        let Some(mine) = self.whole(capacity) else { return true };
        if theirs.is_any() || self.matches_all || bytes > capacity {
            // A message that is too long is an error of its own.
            return true;
        }
        let (elements, left) = mine.elements_in(bytes as i128);
        left == 0 && theirs.hash() == short(mine.hash_of_first(elements))
    }

    pub(crate) fn describe(&self, bytes: usize) -> String {
        let count = bytes / self.size;
        if !self.name.is_empty() {
            return format!("{count} x {}", self.name);
        }
        match self.signature.only_basic() {
            Some(_) => {
                format!("{count} x a derived type ({})", self.word(bytes).describe(bytes))
            }
            None => format!("{count} x a derived type of several basic types ({bytes} bytes)"),
        }
    }
}

impl SignatureWord {
    /// Whether nothing is known, or it matches everything.
    pub fn is_any(self) -> bool {
        self.0 == 0 || self.0 >> 56 == ANY
    }

    fn hash(self) -> u64 {
        short(self.0)
    }

    /// `bytes` bytes of data with this word, in words.
    pub fn describe(self, bytes: usize) -> String {
        let number = self.0 >> 56;
        match number.checked_sub(FIRST).and_then(|index| BASICS.get(index as usize)) {
            Some((element, name)) => format!("{} x {name}", bytes / element.bytes()),
            None if number == MIXED => format!("{bytes} bytes of several basic types"),
            None => format!("{bytes} bytes"),
        }
    }
}

fn short(hash: u64) -> u64 {
    hash & ((1 << 56) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Wire;

    fn note(element: Element, name: &str) -> Note {
        Note::new(&Part::of_element(element, Wire::Same), name.as_bytes(), element.bytes())
    }

    #[test]
    fn signature_note_allows_shorter_messages_of_the_same_type() {
        let int = note(Element::Signed(4), "MPI_INT");
        let double = note(Element::Float(8), "MPI_DOUBLE");
        assert!(int.takes(40, int.word(12), 12));
        assert!(int.takes(40, int.word(40), 40));
        assert!(!int.takes(40, double.word(16), 16));
        assert!(!double.takes(64, int.word(16), 16));
        assert!(!double.takes(64, int.word(12), 12), "half an element");
        assert!(double.takes(64, SignatureWord(0), 16), "of an unknown message nothing is said");
        assert!(int.takes(8, double.word(16), 16), "too long is another error");
    }

    #[test]
    fn signature_note_bytes_match_everything() {
        let int = note(Element::Signed(4), "MPI_INT");
        let byte = note(Element::Byte, "MPI_BYTE");
        assert!(byte.takes(40, int.word(12), 12) && int.takes(40, byte.word(12), 12));
    }

    #[test]
    fn signature_note_uses_mpi_names() {
        let int = note(Element::Signed(4), "MPI_INT");
        assert_eq!(int.describe(12), "3 x MPI_INT");
        assert_eq!(int.word(12).describe(12), "3 x 32-bit integer (MPI_INT)");
        assert_eq!(
            note(Element::Signed(4), "").describe(8),
            "2 x a derived type (2 x 32-bit integer (MPI_INT))"
        );
        assert_eq!(SignatureWord(0).describe(5), "5 bytes");
    }
}
