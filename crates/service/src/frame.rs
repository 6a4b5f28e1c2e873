//! Packets between a service and its clients; pure.
//!
//! | packet | bytes |
//! |---|---|
//! | ask | magic 4, kind 4, number 8, deadline 8, hash of the signature 8, function 4, zero 4; data |
//! | reply | magic 4, status 4, number 8; data |
//!
//! A packet comes from another user's process: what is no packet closes its connection.

use core::ffi::c_int;

/// Bytes of arguments, of a result, and of all signatures together, at most.
pub const DATA_BYTES_MAX: usize = 32 << 10;
const ASK_BYTES: usize = 40;
const REPLY_BYTES: usize = 16;
/// Bytes of the longest packet.
pub(crate) const PACKET_BYTES_MAX: usize = ASK_BYTES + DATA_BYTES_MAX;
const ASK_MAGIC: u32 = 0x5453_7631;
const REPLY_MAGIC: u32 = 0x5452_7631;

/// Question of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask<'a> {
    /// Asks for the signatures, a line each.
    Open,
    /// Runs a function.
    Call { number: u64, deadline_ns: u64, hash: u64, function: u32, data: &'a [u8] },
}

/// Answer of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) status: c_int,
    /// Number of the call; 0 for [`Ask::Open`].
    pub(crate) number: u64,
    pub(crate) data: &'a [u8],
}

/// Hash of a signature (FNV-1a).
pub(crate) fn hash(signature: &str) -> u64 {
    signature.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl<'a> Ask<'a> {
    /// As it travels.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, number, deadline_ns, hash, function, data) = match *self {
            Ask::Open => (1_u32, 0, 0, 0, 0, &[][..]),
            Ask::Call { number, deadline_ns, hash, function, data } => {
                (2, number, deadline_ns, hash, function, data)
            }
        };
        let mut bytes = Vec::with_capacity(ASK_BYTES + data.len());
        bytes.extend(ASK_MAGIC.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        [number, deadline_ns, hash].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(u64::from(function).to_le_bytes());
        bytes.extend(data);
        bytes
    }

    /// A question that has come; none of what no client sends.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let is_right = half(bytes, 0)? == ASK_MAGIC && bytes.len() <= PACKET_BYTES_MAX;
        let (kind, data) = (half(bytes, 4)?, bytes.get(ASK_BYTES..)?);
        Some(match kind {
            1 if is_right && data.is_empty() => Ask::Open,
            2 if is_right => Ask::Call {
                number: word(bytes, 8)?,
                deadline_ns: word(bytes, 16)?,
                hash: word(bytes, 24)?,
                function: u32::try_from(word(bytes, 32)?).ok()?,
                data,
            },
            _ => return None,
        })
    }
}

impl<'a> Reply<'a> {
    /// As it travels.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REPLY_BYTES + self.data.len());
        bytes.extend(REPLY_MAGIC.to_le_bytes());
        bytes.extend(self.status.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.data);
        bytes
    }

    /// An answer that has come; none of what no service sends.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let is_right = half(bytes, 0)? == REPLY_MAGIC && bytes.len() <= PACKET_BYTES_MAX;
        let reply = Reply {
            status: half(bytes, 4)? as c_int,
            number: word(bytes, 8)?,
            data: bytes.get(REPLY_BYTES..)?,
        };
        is_right.then_some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_as_they_were_sent_and_others_are_none() {
        let call = Ask::Call {
            number: 7,
            deadline_ns: u64::MAX,
            hash: hash("get(i64)->str"),
            function: 3,
            data: b"data",
        };
        for ask in [Ask::Open, call] {
            let bytes = ask.encode();
            assert_eq!(Ask::decode(&bytes), Some(ask));
            (0..ASK_BYTES).for_each(|some| assert_eq!(Ask::decode(&bytes[..some]), None));
            assert_eq!(Reply::decode(&bytes), None);
        }
        let reply = Reply { status: -21, number: 9, data: b"text" };
        let bytes = reply.encode();
        assert_eq!(Reply::decode(&bytes), Some(reply));
        (0..REPLY_BYTES).for_each(|some| assert_eq!(Reply::decode(&bytes[..some]), None));
        assert_eq!(Ask::decode(&[0; 100]), None);
        assert_eq!(Ask::decode(&[Ask::Open.encode(), vec![1]].concat()), None);
        assert_eq!(Ask::decode(&[call.encode(), vec![0; DATA_BYTES_MAX]].concat()), None);
    }

    /// Packets are written as they were read.
    #[test]
    fn packets_that_are_nearly_right_are_read_or_refused() {
        let call = Ask::Call { number: 1, deadline_ns: 2, hash: 3, function: 4, data: b"some data" };
        let reply = Reply { status: -21, number: 9, data: b"text" };
        let samples = [Ask::Open.encode(), call.encode(), reply.encode(), vec![0; 100]];
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            match Ask::decode(bytes) {
                Some(call @ Ask::Call { .. }) => assert_eq!(call.encode(), bytes),
                Some(Ask::Open) => assert_eq!(bytes.len(), ASK_BYTES),
                None => {}
            }
            if let Some(reply) = Reply::decode(bytes) {
                assert_eq!(reply.encode(), bytes);
            }
        });
    }
}
