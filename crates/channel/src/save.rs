//! An endpoint as bytes, and back. The bytes carry a version and a checksum; reading them is total.
//!
//! ```text
//! "TutC"  version (4)  length of what follows (8)
//! identity, sizes that must not differ
//! flows: rank, words, rounds, records in the FIFO
//! bulk messages on their way out, in order; places of the table of those on their way in; events not fetched
//! CRC-32 of all before (4)
//! ```
//!
//! What is under way in the network is void: an endpoint comes back under another incarnation and sends again
//! what was not acknowledged. Since the receiver's `rcv_nxt` and the bits of a bulk message are saved at the
//! same cut, nothing is taken twice. Timers, the window and measured times begin anew.

use crate::config::{Config, ConfigError};
use crate::endpoint::Endpoint;
use crate::packet::BITMAP_WORDS;
use crate::ports::FlowMemory;
use crate::types::{Identity, Incarnation, Key, Now, Rank};

pub(crate) const VERSION: u32 = 3;
const MAGIC: [u8; 4] = *b"TutC";
pub(crate) const HEAD_BYTES: usize = 16;

/// Why saved bytes are not an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Bytes of something else, or cut short.
    #[error("not a saved endpoint")]
    Foreign,
    /// Saved by a version that this one does not read.
    #[error("saved in format {0}, this version reads {VERSION}")]
    Version(u32),
    /// The bytes have changed since they were saved.
    #[error("the checksum is {found:#010x}, not {found_crc:#010x}")]
    Checksum {
        /// As saved.
        found_crc: u32,
        /// Of the bytes there are.
        found: u32,
    },
    /// The checksum is right and the contents are not: a bug of who saved it.
    #[error("inconsistent: {0}")]
    Inconsistent(&'static str),
    /// Saved with another value of a number that the job must agree on.
    #[error("saved with {name} {saved}, to be restored with {given}")]
    Differs {
        /// Which number.
        name: &'static str,
        /// As saved.
        saved: u64,
        /// As configured now.
        given: u64,
    },
    /// The flow to this rank has no memory.
    #[error("no memory for the flow to rank {0}")]
    NoMemory(u32),
    /// The records of a flow do not fit in the memory given for it.
    #[error("the records to rank {0} do not fit in its FIFO")]
    FifoTooSmall(u32),
    /// The endpoint cannot be made.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Writes little-endian numbers.
pub(crate) struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }
}

/// Reads them; what is not there is an error.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RestoreError> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(RestoreError::Inconsistent("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RestoreError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, RestoreError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], RestoreError> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    /// A count of things, at most `most`.
    pub(crate) fn count(&mut self, most: usize, what: &'static str) -> Result<usize, RestoreError> {
        let count = self.u32()? as usize;
        if count <= most { Ok(count) } else { Err(RestoreError::Inconsistent(what)) }
    }

    pub(crate) fn words(&mut self) -> Result<[u64; BITMAP_WORDS], RestoreError> {
        let mut words = [0; BITMAP_WORDS];
        for word in &mut words {
            *word = self.u64()?;
        }
        Ok(words)
    }

    /// The bytes of a bulk message.
    pub(crate) fn bulk_bytes(&mut self, config: &Config) -> Result<u64, RestoreError> {
        let bytes = self.u64()?;
        if bytes <= config.bulk_bytes_max() {
            Ok(bytes)
        } else {
            Err(RestoreError::Inconsistent("a message is too long"))
        }
    }
}

impl<M: FlowMemory> Endpoint<M> {
    /// Appends the endpoint to `into`. The rank must not be inside a call.
    pub fn save(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&MAGIC);
        let mut writer = Writer(into);
        writer.u32(VERSION);
        writer.u64(0);
        let identity = self.identity();
        writer.u64(identity.key.0);
        writer.u32(identity.incarnation.0);
        writer.u32(identity.rank.0);
        for (_, value) in agreed(self.config()) {
            writer.u64(value);
        }
        self.save_state(&mut writer);
        let length = (into.len() - start - HEAD_BYTES) as u64;
        into[start + 8..start + HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
        let crc = crc32(&into[start..]);
        into.extend_from_slice(&crc.to_le_bytes());
    }

    /// An endpoint from what [`save`](Endpoint::save) wrote, under another incarnation. `memory` gives the
    /// memory of the flow to a rank. All endpoints of a job are restored from the same cut, or change with
    /// [`handle_incarnation`](Endpoint::handle_incarnation).
    ///
    /// # Errors
    /// The bytes are not a saved endpoint of this configuration.
    pub fn restore(
        saved: &[u8],
        incarnation: Incarnation,
        config: Config,
        now: Now,
        mut memory: impl FnMut(Rank) -> Option<M>,
    ) -> Result<Self, RestoreError> {
        let mut reader = open(saved, MAGIC, VERSION)?;
        let key = Key(reader.u64()?);
        let before = reader.u32()?;
        let identity = Identity { key, incarnation, rank: Rank(reader.u32()?) };
        if before == incarnation.0 {
            return Err(RestoreError::Inconsistent("the incarnation has to change"));
        }
        for (name, given) in agreed(&config) {
            let saved = reader.u64()?;
            if saved != given {
                return Err(RestoreError::Differs { name, saved, given });
            }
        }
        let endpoint = Self::restore_state(identity, config, now, &mut reader, &mut memory)?;
        if reader.0.is_empty() { Ok(endpoint) } else { Err(RestoreError::Inconsistent("something follows")) }
    }
}

/// The numbers that must be those of the time of saving.
fn agreed(config: &Config) -> [(&'static str, u64); 4] {
    [
        ("datagram_bytes", config.datagram_bytes as u64),
        ("fifo_records", u64::from(config.fifo_records)),
        ("bulk_out_max", u64::from(config.bulk_out_max)),
        ("bulk_in_max", u64::from(config.bulk_in_max)),
    ]
}

/// Checks magic, version, length and checksum of something saved.
pub(crate) fn open(saved: &[u8], magic: [u8; 4], known: u32) -> Result<Reader<'_>, RestoreError> {
    if saved.len() < HEAD_BYTES + 4 || saved[..4] != magic {
        return Err(RestoreError::Foreign);
    }
    let mut head = Reader(&saved[4..HEAD_BYTES]);
    let (version, length) = (head.u32()?, head.u64()?);
    if version != known {
        return Err(RestoreError::Version(version));
    }
    let (contents, crc) = saved.split_at(saved.len() - 4);
    if length != (contents.len() - HEAD_BYTES) as u64 {
        return Err(RestoreError::Foreign);
    }
    let (found_crc, found) = (u32::from_le_bytes(crc.try_into().expect("four bytes")), crc32(contents));
    if found_crc != found {
        return Err(RestoreError::Checksum { found_crc, found });
    }
    Ok(Reader(&contents[HEAD_BYTES..]))
}

/// Remainders of a byte that is followed by so many zero bytes, by its value.
static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut value = 0;
    while value < 256 {
        let (mut crc, mut bit) = (value as u32, 0);
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][value] = crc;
        value += 1;
    }
    let mut at = 256;
    while at < 8 * 256 {
        let before = tables[at / 256 - 1][at % 256];
        tables[at / 256][at % 256] = before >> 8 ^ tables[0][(before & 255) as usize];
        at += 1;
    }
    tables
}

/// CRC-32 (IEEE 802.3), eight bytes at a time: a strict switch waits for it.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(crc);
        let remainder = |(table, byte): (&[u32; 256], u8)| table[usize::from(byte)];
        crc = CRC_TABLES.iter().rev().zip(mixed.to_le_bytes()).map(remainder).fold(0, |sum, one| sum ^ one);
    }
    let byte = |crc: u32, byte: &u8| crc >> 8 ^ CRC_TABLES[0][(crc as u8 ^ byte) as usize];
    !rest.iter().fold(crc, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_matches_the_standard_check_value() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(&[0; 32]), 0x190a_55ad);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414f_a339);
    }
}
