//! Datagrams between two switch threads, sealed by keys that both daemons draw from their TLS link: nobody
//! else can make one, read one or say one again.
//!
//! | bytes | |
//! |---|---|
//! | 8 | tag: which link; drawn from it, so that it means nothing to others |
//! | 8 | number of the datagram, from 1; the nonce, never used twice |
//! | rest | ChaCha20-Poly1305 of what it says; the first 16 bytes are sealed along |

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// In front of what is sealed.
pub(super) const HEADER_BYTES: usize = 16;
/// Behind it.
pub(super) const TAG_BYTES: usize = 16;
/// Names what the secret is drawn for (RFC 5705).
pub(crate) const LABEL: &[u8] = b"EXPORTER-tutti-switch";
/// For each direction a key of 32 bytes and a tag of 8.
pub const SECRET_BYTES: usize = 2 * 40;

/// Secret that both ends of a TLS link know and nobody else.
pub type Secret = [u8; SECRET_BYTES];

pub(super) type Tag = [u8; 8];

pub(super) struct Seal {
    seal: LessSafeKey,
    open: LessSafeKey,
    tag_out: Tag,
    tag_in: Tag,
    /// The newest number heard, and which of the 64 before it have been (the lowest bit: itself).
    newest: u64,
    window: u64,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Seal").field("newest", &self.newest).finish_non_exhaustive()
    }
}

/// Why a datagram is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Sealed by somebody else than it says, or changed.
    Forged,
    /// Received before, or so late that nobody knows.
    Replayed,
}

impl Seal {
    /// The end of who has dialled, or the other one.
    pub(super) fn new(secret: &Secret, dialled: bool) -> Self {
        let (there, back) = secret.split_at(SECRET_BYTES / 2);
        let (to, from) = if dialled { (there, back) } else { (back, there) };
        let key = |bytes: &[u8]| {
            LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes[..32]).expect("a key of 32 bytes"))
        };
        let tag = |bytes: &[u8]| bytes[32..].try_into().expect("the 8 bytes behind the key");
        Seal { seal: key(to), open: key(from), tag_out: tag(to), tag_in: tag(from), newest: 0, window: 0 }
    }

    /// The tag and the number of what may be a datagram.
    pub(super) fn header(datagram: &[u8]) -> Option<(Tag, u64)> {
        let (tag, rest) = datagram.split_first_chunk()?;
        let (number, _) = rest.split_first_chunk()?;
        (datagram.len() >= HEADER_BYTES + TAG_BYTES).then_some((*tag, u64::from_le_bytes(*number)))
    }

    pub(super) fn is_from(&self, tag: Tag) -> bool {
        self.tag_in == tag
    }

    /// Seals what stands in `datagram` from [`HEADER_BYTES`] on, `length` bytes; how long it is then.
    pub(super) fn seal(&self, number: u64, datagram: &mut [u8], length: usize) -> usize {
        let (header, rest) = datagram.split_at_mut(HEADER_BYTES);
        header[..8].copy_from_slice(&self.tag_out);
        header[8..].copy_from_slice(&number.to_le_bytes());
        let (text, behind) = rest.split_at_mut(length);
        let tag = self.seal.seal_in_place_separate_tag(nonce(number), Aad::from(&*header), text);
        behind[..TAG_BYTES].copy_from_slice(tag.expect("far shorter than the cipher's limit").as_ref());
        HEADER_BYTES + length + TAG_BYTES
    }

    /// Opens the datagram with this number, if it is the other side's and has not come before; returns what
    /// it says, and whether it is the newest.
    ///
    /// # Errors
    /// Why it counts for nothing.
    pub(super) fn open<'a>(
        &mut self,
        number: u64,
        datagram: &'a mut [u8],
    ) -> Result<(&'a [u8], bool), Refused> {
        let (header, text) = datagram.split_at_mut(HEADER_BYTES);
        let opened = self.open.open_in_place(nonce(number), Aad::from(&*header), text);
        let text = opened.map_err(|_| Refused::Forged)?;
        let is_newest = number > self.newest;
        if is_newest {
            self.window = self.window.checked_shl((number - self.newest).min(64) as u32).unwrap_or(0) | 1;
            self.newest = number;
        } else {
            let age = self.newest - number;
            if age >= 64 || self.window >> age & 1 == 1 {
                return Err(Refused::Replayed);
            }
            self.window |= 1 << age;
        }
        Ok((text, is_newest))
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Seal, Seal) {
        let secret = std::array::from_fn(|at| at as u8 * 3);
        (Seal::new(&secret, true), Seal::new(&secret, false))
    }

    fn sealed(by: &Seal, number: u64, text: &[u8]) -> Vec<u8> {
        let mut datagram = vec![0; HEADER_BYTES + text.len() + TAG_BYTES];
        datagram[HEADER_BYTES..HEADER_BYTES + text.len()].copy_from_slice(text);
        let length = by.seal(number, &mut datagram, text.len());
        assert_eq!(length, datagram.len());
        datagram
    }

    #[test]
    fn seal_opens_once() {
        let (one, mut other) = pair();
        for (number, newest) in [(1, true), (3, true), (2, false), (90, true), (27, false)] {
            let datagram = sealed(&one, number, b"switch");
            let (tag, named) = Seal::header(&datagram).unwrap();
            assert!(other.is_from(tag) && named == number);
            assert_eq!(other.open(number, &mut datagram.clone()), Ok((&b"switch"[..], newest)));
            assert_eq!(other.open(number, &mut datagram.clone()), Err(Refused::Replayed));
        }
        assert_eq!(other.open(26, &mut sealed(&one, 26, b"old")), Err(Refused::Replayed));
    }

    #[test]
    fn seal_refuses_changes_and_replays() {
        let (mut one, mut other) = pair();
        let datagram = sealed(&one, 7, b"freeze");
        for at in 8..datagram.len() {
            let mut changed = datagram.clone();
            changed[at] ^= 0x10;
            let number = Seal::header(&changed).unwrap().1;
            assert_eq!(other.open(number, &mut changed), Err(Refused::Forged), "byte {at}");
        }
        let (tag, number) = Seal::header(&datagram).unwrap();
        assert!(!one.is_from(tag));
        assert_eq!(one.open(number, &mut datagram.clone()), Err(Refused::Forged), "one's own");
        assert!(other.open(number, &mut datagram.clone()).is_ok());
        assert_eq!(Seal::header(&datagram[..31]), None);
    }
}
