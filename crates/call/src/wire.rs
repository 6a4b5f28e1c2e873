//! Messages between ranks; pure.
//!
//! | message | bytes |
//! |---|---|
//! | call | kind 1, flags 1, room for the answer 2, number 2, check 2, name 8, signature 8; arguments |
//! | answer | kind 1, status 1, zero 2, number 2, check 2, lines given back 8; data |
//! | credit | kind 1, lane 1, zero 6, lines given back 8 |
//! | up, down | kind 1, zero 7, calls sent 8, functions ended 8 |
//! | part | kind 1, flags 1, zero 2, number 2, check 2; data before those of a call or an answer |
//! | posts | kind 1, zero 7; each: name 8, signature 8, bytes 8; arguments, to a multiple of 8 |
//!
//! A name is module 4, offset 4.
//!
//! A message comes out of memory that other ranks write: what is too short or unknown is none.

use crate::flow::Lane;
use crate::function::Name;

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
/// Bytes before the data of a part.
pub(crate) const PART_BYTES: usize = 8;
/// Bytes before the first packed post.
pub(crate) const POSTS_BYTES: usize = 8;
/// Bytes before the arguments of a packed post.
const POST_BYTES: usize = 24;
/// Bytes of the longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = CALL_BYTES + ARGUMENT_BYTES_MAX;

const CALL: u8 = 1;
const ANSWER: u8 = 2;
const CREDIT: u8 = 3;
const UP: u8 = 4;
const DOWN: u8 = 5;
const PART: u8 = 6;
const POSTS: u8 = 7;
/// No answer is expected; a part belongs to a call.
const IS_POST: u8 = 1;
/// The answer may come in parts.
const IS_LONG: u8 = 2;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Number {
    pub(crate) index: u16,
    pub(crate) check: u16,
}

impl Number {
    /// Both parts in one.
    pub(crate) fn packed(self) -> u32 {
        u32::from(self.index) << 16 | u32::from(self.check)
    }

    /// Number of both parts in one.
    pub(crate) fn of(packed: u32) -> Self {
        Number { index: (packed >> 16) as u16, check: packed as u16 }
    }
}

/// Answer that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) number: Number,
    /// Bytes of the answer in one message, at most.
    pub(crate) room: u16,
    /// Whether parts may come before it.
    pub(crate) is_long: bool,
}

/// Data that a part stands in front of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PartOf {
    /// The next call of the sender.
    Call,
    /// The answer to this call.
    Answer(Number),
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A function is to run. Without `reply` nobody waits for it.
    Call { reply: Option<Asked>, name: Name, signature: u64, arguments: &'a [u8] },
    /// A function has ended.
    Answer { number: Number, status: i8, returned: u64, data: &'a [u8] },
    /// The sender has taken more of the receiver's calls of a lane.
    Credit { lane: Lane, returned: u64 },
    /// Data that found no room in the message that follows.
    Part { of: PartOf, data: &'a [u8] },
    /// Functions that nobody waits for.
    Posts(Posts<'a>),
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
            Message::Call { reply, name, signature, arguments } => {
                let mut bytes = match reply {
                    Some(Asked { number, room, is_long }) => {
                        head(CALL, if is_long { IS_LONG } else { 0 }, room, number)
                    }
                    None => head(CALL, IS_POST, 0, none),
                };
                bytes.extend(name.module.to_ne_bytes());
                bytes.extend(name.offset.to_ne_bytes());
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
            Message::Credit { lane, returned } => {
                let mut bytes = head(CREDIT, lane as u8, 0, none);
                bytes.extend(returned.to_ne_bytes());
                bytes
            }
            Message::Part { of, data } => {
                let mut bytes = match of {
                    PartOf::Call => head(PART, IS_POST, 0, none),
                    PartOf::Answer(number) => head(PART, 0, 0, number),
                };
                bytes.extend(data);
                bytes
            }
            Message::Posts(posts) => posts.message.to_vec(),
            Message::Up(sums) | Message::Down(sums) => {
                let kind = if let Message::Up(_) = self { UP } else { DOWN };
                let mut bytes = head(kind, 0, 0, none);
                bytes.extend(sums.sent.to_ne_bytes());
                bytes.extend(sums.ended.to_ne_bytes());
                bytes
            }
        }
    }

    /// Record that has come; none for one that no rank sends.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let named = || Some(Number { index: short(bytes, 4)?, check: short(bytes, 6)? });
        let sums = || Some(Sums { sent: word(bytes, 8)?, ended: word(bytes, 16)? });
        Some(match *bytes.first()? {
            CALL => Message::Call {
                reply: if *bytes.get(1)? & IS_POST == 0 {
                    let is_long = *bytes.get(1)? & IS_LONG != 0;
                    Some(Asked { number: named()?, room: short(bytes, 2)?, is_long })
                } else {
                    None
                },
                name: Name { module: place(bytes, 8)?, offset: place(bytes, 12)? },
                signature: word(bytes, 16)?,
                arguments: bytes.get(CALL_BYTES..)?,
            },
            ANSWER => Message::Answer {
                number: named()?,
                status: *bytes.get(1)? as i8,
                returned: word(bytes, 8)?,
                data: bytes.get(ANSWER_BYTES..)?,
            },
            CREDIT => Message::Credit {
                lane: *Lane::ALL.get(usize::from(*bytes.get(1)?))?,
                returned: word(bytes, 8)?,
            },
            PART => Message::Part {
                of: if *bytes.get(1)? & IS_POST == 0 { PartOf::Answer(named()?) } else { PartOf::Call },
                data: bytes.get(PART_BYTES..)?,
            },
            POSTS => Message::Posts(Posts { message: bytes, at: bytes.get(..POSTS_BYTES)?.len() }),
            UP => Message::Up(sums()?),
            DOWN => Message::Down(sums()?),
            _ => return None,
        })
    }
}

/// Packed posts of a message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posts<'a> {
    message: &'a [u8],
    at: usize,
}

/// Packed post; its arguments lie between two places of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) name: Name,
    pub(crate) signature: u64,
    pub(crate) arguments: std::ops::Range<usize>,
}

impl Posts<'_> {
    /// A message without a post.
    pub(crate) fn begin(capacity: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(capacity);
        message.extend([POSTS, 0, 0, 0, 0, 0, 0, 0]);
        message
    }

    /// Bytes of a post with so many of arguments.
    pub(crate) fn bytes_of(arguments: usize) -> usize {
        POST_BYTES + arguments.next_multiple_of(8)
    }

    /// Adds a post to a message.
    pub(crate) fn add(message: &mut Vec<u8>, name: Name, signature: u64, arguments: &[u8]) {
        message.extend(name.module.to_ne_bytes());
        message.extend(name.offset.to_ne_bytes());
        message.extend(signature.to_ne_bytes());
        message.extend((arguments.len() as u64).to_ne_bytes());
        message.extend(arguments);
        message.resize(message.len().next_multiple_of(8), 0);
    }
}

impl Iterator for Posts<'_> {
    type Item = Post;

    fn next(&mut self) -> Option<Post> {
        let begin = self.at.checked_add(POST_BYTES)?;
        let name = Name { module: place(self.message, self.at)?, offset: place(self.message, self.at + 4)? };
        let signature = word(self.message, self.at + 8)?;
        let end = begin.checked_add(usize::try_from(word(self.message, self.at + 16)?).ok()?)?;
        self.message.get(begin..end)?;
        self.at = end.next_multiple_of(8);
        Some(Post { name, signature, arguments: begin..end })
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
            name: Name { module: 7, offset: u32::MAX },
            signature: 9 << 60,
            arguments: &[1, 2, 3],
        };
        let all = [
            call(Some(Asked { number, room: 2048, is_long: false })),
            call(Some(Asked { number, room: 200, is_long: true })),
            call(None),
            Message::Answer { number, status: -21, returned: 5, data: b"text" },
            Message::Credit { lane: Lane::Ordinary, returned: u64::MAX },
            Message::Credit { lane: Lane::Quick, returned: 7 },
            Message::Up(sums),
            Message::Down(sums),
            Message::Part { of: PartOf::Call, data: b"first half" },
            Message::Part { of: PartOf::Answer(number), data: b"first half" },
        ];
        for message in all {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Some(message));
            let head = match message {
                Message::Call { .. } => CALL_BYTES,
                Message::Part { .. } => PART_BYTES,
                _ => bytes.len().min(16),
            };
            (0..head).for_each(|some| assert_eq!(Message::decode(&bytes[..some]), None, "{message:?}"));
        }
        assert_eq!(Message::decode(&[0; 64]), None);
        assert_eq!(Message::decode(&[8; 64]), None);
    }

    #[test]
    fn packed_posts_come_as_they_were_added_and_end_where_one_is_cut() {
        let mut message = Posts::begin(0);
        let all: Vec<Vec<u8>> = [0, 1, 7, 8, 9, 200].map(|bytes| vec![bytes as u8; bytes]).into();
        let name = |number: usize| Name { module: number as u32, offset: 64 };
        for (number, arguments) in all.iter().enumerate() {
            let before = message.len();
            Posts::add(&mut message, name(number), number as u64 + 5, arguments);
            assert_eq!(message.len() - before, Posts::bytes_of(arguments.len()));
        }
        for end in 0..=message.len() {
            let decoded = Message::decode(&message[..end]);
            let Some(Message::Posts(posts)) = decoded else {
                assert!(end < POSTS_BYTES, "{end}: {decoded:?}");
                continue;
            };
            let found: Vec<Post> = posts.collect();
            assert!(found.len() <= all.len());
            for (number, post) in found.iter().enumerate() {
                assert_eq!((post.name, post.signature), (name(number), number as u64 + 5));
                assert_eq!(message[post.arguments.clone()], all[number]);
                assert_eq!(post.arguments.start % 8, 0);
            }
            assert!(end < message.len() || found.len() == all.len());
        }
        // A length that points out of the message.
        message[POSTS_BYTES + 16..POSTS_BYTES + 24].fill(0xff);
        let Some(Message::Posts(mut posts)) = Message::decode(&message) else { panic!("no posts") };
        assert_eq!(posts.next(), None);
    }
}
