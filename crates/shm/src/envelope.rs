//! Kinds and heads of messages: the kinds of messages inside a node and between nodes, and the head of a
//! record between nodes, which is there what an envelope is inside a node. The engine of each rank writes and
//! reads them; a snapshot reads them too.
//!
//! Little endian:
//!
//! ```text
//! 0 kind, three zeros   4 context   8 tag   12 message number   16 bytes of the message (8)   24 word (8)
//! 32 what the data are (8), only if the bit SIGNED of the kind is set: while the program is being checked
//! ```

/// A whole small message.
pub const EAGER: u8 = 2;
/// A message whose data follow.
pub const STREAM: u8 = 3;
/// A message whose data are asked for.
pub const RTS: u8 = 4;
/// Answer: the data may come.
pub const CTS: u8 = 5;
/// Answer: the data are there.
pub const FIN: u8 = 6;
/// Inside a node, answer: both copy.
pub const COOP: u8 = 7;
/// Inside a node: a receive is advertised to its sender.
pub const RTR: u8 = 8;
/// Inside a node: a message that is written to an advertised receive.
pub const WRITE: u8 = 9;
/// The sender asks for a message back that is announced.
pub const CANCEL: u8 = 10;
/// Answer: no receive had taken it, and none will.
pub const CANCELLED: u8 = 11;
/// Between nodes: the next data of the message that is streaming.
pub const PART: u8 = 7;
/// Between nodes: nothing new but the credit.
pub const CREDIT: u8 = 8;

/// Between nodes, to rank 0: a question about published names ([`crate::names`]).
pub const NAMES: u8 = 12;
/// Answer.
pub const NAMED: u8 = 13;

/// Between nodes: a receive is advertised to its sender.
pub const FAR_RTR: u8 = 14;
/// Between nodes: a message that is written to an advertised receive.
pub const FAR_WRITE: u8 = 15;
/// Between nodes: an advertised receive is to be written to no more.
pub const RTR_VOID: u8 = 16;
/// Answer: nothing is written to it that was not announced before.
pub const RTR_VOIDED: u8 = 17;

/// Contexts of a communicator: messages of the user, collective operations, and four more.
pub const CONTEXTS_PER_COMM: u32 = 6;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 32;
/// Bytes of a head that says what the data are.
pub const SIGNED_HEAD_BYTES: usize = HEAD_BYTES + 8;
/// Beside the kind: the head is a long one.
const SIGNED: u8 = 0x80;

/// The head of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Kind of the message.
    pub kind: u8,
    /// Matching: context of the communicator.
    pub context: u32,
    /// Matching: tag.
    pub tag: i32,
    /// Which announced message it is about.
    pub number: u32,
    /// Bytes of the whole message.
    pub length: u64,
    /// CTS and FAR_RTR: the name of the bulk message; about an advertised receive its number; else the eager
    /// bytes that the sender of the record has released.
    pub word: u64,
    /// Signature of the data, while the program is being checked; 0 when nothing is known.
    pub signature: u64,
}

impl Head {
    /// Bytes of this head on the wire.
    #[inline]
    pub fn bytes(&self) -> usize {
        if self.signature == 0 { HEAD_BYTES } else { SIGNED_HEAD_BYTES }
    }

    /// As bytes, of which the first [`Head::bytes`] go on the wire.
    #[inline]
    pub fn encode(&self) -> [u8; SIGNED_HEAD_BYTES] {
        let mut bytes = [0; SIGNED_HEAD_BYTES];
        bytes[0] = if self.signature == 0 { self.kind } else { self.kind | SIGNED };
        bytes[4..8].copy_from_slice(&self.context.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.tag.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.word.to_le_bytes());
        bytes[32..].copy_from_slice(&self.signature.to_le_bytes());
        bytes
    }

    /// From a record: its head and what follows; none when it is too short.
    #[inline]
    pub fn decode(record: &[u8]) -> Option<(Head, &[u8])> {
        let (head, rest) = record.split_first_chunk::<HEAD_BYTES>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (signature, rest) = match head[0] & SIGNED {
            0 => (0, rest),
            _ => {
                let (signature, rest) = rest.split_first_chunk::<8>()?;
                (u64::from_le_bytes(*signature), rest)
            }
        };
        let decoded = Head {
            kind: head[0] & !SIGNED,
            context: word(4),
            tag: word(8).cast_signed(),
            number: word(12),
            length: long(16),
            word: long(24),
            signature,
        };
        Some((decoded, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelope_header_round_trips() {
        let head = Head {
            kind: 5,
            context: 1 << 31,
            tag: -7,
            number: u32::MAX,
            length: 1 << 40,
            word: u64::MAX - 1,
            signature: 0,
        };
        for head in [head, Head { signature: u64::MAX - 2, ..head }] {
            let mut record = head.encode()[..head.bytes()].to_vec();
            record.extend_from_slice(b"data");
            assert_eq!(Head::decode(&record), Some((head, &b"data"[..])));
            assert_eq!(Head::decode(&record[..head.bytes() - 1]), None);
        }
    }
}
