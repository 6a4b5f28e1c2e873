//! Messages between ranks; pure.
//!
//! | message | bytes |
//! |---|---|
//! | call | kind 1, flags 1, room for the answer 2, number 2, check 2, module 4, offset 4, signature 8; arguments |
//! | answer | kind 1, status 1, zero 2, number 2, check 2, lines given back 8; data |
//! | credit | kind 1, zero 7, lines given back 8 |
//! | up, down | kind 1, zero 7, calls sent 8, functions ended 8 |
//!
//! A message comes out of memory that other ranks write: what is too short or unknown is none.

/// Bytes of arguments at most.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 2048;
/// Bytes of a result at most.
pub(crate) const RESULT_BYTES_MAX: usize = 2048;
/// Bytes of an answer for which every call has room: the text of an exception.
pub(crate) const TEXT_BYTES: usize = 200;
/// Bytes before the arguments.
pub(crate) const CALL_BYTES: usize = 24;
/// Bytes before the data of an answer.
pub(crate) const ANSWER_BYTES: usize = 16;
/// Bytes of the longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = CALL_BYTES + ARGUMENT_BYTES_MAX;

const CALL: u8 = 1;
const ANSWER: u8 = 2;
const CREDIT: u8 = 3;
const UP: u8 = 4;
const DOWN: u8 = 5;
/// No answer is expected.
const IS_POST: u8 = 1;

/// How many calls have been sent, and how many functions have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sums {
    /// Calls sent.
    pub sent: u64,
    /// Functions ended.
    pub ended: u64,
}

/// Names an open call to whoever answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) index: u16,
    pub(crate) check: u16,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A function is to run. Without `reply` nobody waits for it.
    Call { reply: Option<(Number, u16)>, module: u32, offset: u32, signature: u64, arguments: &'a [u8] },
    /// A function has ended.
    Answer { number: Number, status: i8, returned: u64, data: &'a [u8] },
    /// The sender has taken more of the receiver's calls.
    Credit { returned: u64 },
    /// Word that all below the sender have come to the meeting.
    Up(Sums),
    /// Word that all have come to the meeting.
    Down(Sums),
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..at + BYTES)?.try_into().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    number(bytes, at).map(u64::from_ne_bytes)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    number(bytes, at).map(u16::from_ne_bytes)
}

fn place(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_ne_bytes)
}

impl<'a> Message<'a> {
    /// As it travels.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let head = |kind: u8, more: u8, room: u16, number: Number| {
            let mut bytes = Vec::with_capacity(MESSAGE_BYTES_MAX);
            bytes.extend([kind, more]);
            bytes.extend(room.to_ne_bytes());
            bytes.extend(number.index.to_ne_bytes());
            bytes.extend(number.check.to_ne_bytes());
            bytes
        };
        let none = Number { index: 0, check: 0 };
        match *self {
            Message::Call { reply, module, offset, signature, arguments } => {
                let mut bytes = match reply {
                    Some((number, room)) => head(CALL, 0, room, number),
                    None => head(CALL, IS_POST, 0, none),
                };
                bytes.extend(module.to_ne_bytes());
                bytes.extend(offset.to_ne_bytes());
                bytes.extend(signature.to_ne_bytes());
                bytes.extend(arguments);
                bytes
            }
            Message::Answer { number, status, returned, data } => {
                let mut bytes = head(ANSWER, status as u8, 0, number);
                bytes.extend(returned.to_ne_bytes());
                bytes.extend(data);
                bytes
            }
            Message::Credit { returned } => {
                let mut bytes = head(CREDIT, 0, 0, none);
                bytes.extend(returned.to_ne_bytes());
                bytes
            }
            Message::Up(sums) | Message::Down(sums) => {
                let kind = if let Message::Up(_) = self { UP } else { DOWN };
                let mut bytes = head(kind, 0, 0, none);
                bytes.extend(sums.sent.to_ne_bytes());
                bytes.extend(sums.ended.to_ne_bytes());
                bytes
            }
        }
    }

    /// What has come; none of what no rank sends.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let named = || Some(Number { index: short(bytes, 4)?, check: short(bytes, 6)? });
        let sums = || Some(Sums { sent: word(bytes, 8)?, ended: word(bytes, 16)? });
        Some(match *bytes.first()? {
            CALL => Message::Call {
                reply: if *bytes.get(1)? & IS_POST == 0 { Some((named()?, short(bytes, 2)?)) } else { None },
                module: place(bytes, 8)?,
                offset: place(bytes, 12)?,
                signature: word(bytes, 16)?,
                arguments: bytes.get(CALL_BYTES..)?,
            },
            ANSWER => Message::Answer {
                number: named()?,
                status: *bytes.get(1)? as i8,
                returned: word(bytes, 8)?,
                data: bytes.get(ANSWER_BYTES..)?,
            },
            CREDIT => Message::Credit { returned: word(bytes, 8)? },
            UP => Message::Up(sums()?),
            DOWN => Message::Down(sums()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent_and_shortened_ones_are_none() {
        let number = Number { index: 513, check: 65535 };
        let sums = Sums { sent: 1 << 40, ended: 3 };
        let call = |reply| Message::Call {
            reply,
            module: 7,
            offset: u32::MAX,
            signature: 9 << 60,
            arguments: &[1, 2, 3],
        };
        let all = [
            call(Some((number, 2048))),
            call(None),
            Message::Answer { number, status: -21, returned: 5, data: b"text" },
            Message::Credit { returned: u64::MAX },
            Message::Up(sums),
            Message::Down(sums),
        ];
        for message in all {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Some(message));
            let head = bytes.len().min(if let Message::Call { .. } = message { CALL_BYTES } else { 16 });
            (0..head).for_each(|some| assert_eq!(Message::decode(&bytes[..some]), None, "{message:?}"));
        }
        assert_eq!(Message::decode(&[0; 64]), None);
        assert_eq!(Message::decode(&[6; 64]), None);
    }
}
