//! A datagram: 48 bytes of header, then what its kind carries. Little endian.
//!
//! ```text
//!  0 magic    4 incarnation    8 key (8)
//! 16 from    20 to            24 kind, flags, length of what follows (2)
//! 28 seq     32 ack           36 rewind     40 echo     44 credit (2)  46 zero (2)
//! ```
//!
//! | kind | seq | rewind | echo | what follows |
//! |---|---|---|---|---|
//! | Data | first record | sender's round | - | records, as they lie in the send FIFO |
//! | Ack | - | - | - | - |
//! | Nack | - | - | the refused round | - |
//! | Probe | next to send | sender's round | number of the probe | - |
//! | Answer | - | - | number of the probe | - |
//! | Fragment | order of sending | - | - | name (8), offset (8), bytes |
//! | BulkAck | - | - | order that caused it | name (8), base (4), zero (4), bitmap words (8 each) |
//! | BulkProbe | order of sending | - | - | name (8) |
//! | SteadyProbe | - | generation | number of the probe | - |
//! | SteadyAnswer | - | generation | number of the probe | - |
//! | Piece | number of the cut datagram | - | - | offset (4), length (4) of it, bytes |
//! | PathProbe | - | - | number of the probe | zeros, up to the longest datagram |
//! | PathAnswer | - | - | number of the probe | - |
//!
//! Every packet of a flow acknowledges the other direction: `ack` is the next record expected, [`FULL`] says
//! that this record was refused for want of room, `credit` how much may be under way ([`CREDIT_UNIT_BYTES`]).
//! There is no checksum: UDP has one where there is a wire.
//!
//! [`parse`] is total: any bytes are a packet or a named [`Rejection`], and what it returns has been checked.

use crate::types::{BulkId, Generation, Incarnation, Key, Rank, Seq};

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 48;
/// Bytes of name and offset in front of a fragment's data.
pub const FRAGMENT_HEAD_BYTES: usize = 16;
/// Bytes of a fragment before its data.
pub const FRAGMENT_BYTES_BEFORE: usize = HEADER_BYTES + FRAGMENT_HEAD_BYTES;
/// Bytes of a datagram that every path takes: the least MTU of IPv6 without its and UDP's header.
pub const SHORT_BYTES: usize = 1280 - 40 - 8;
/// Bytes of place and length in front of a piece's data.
pub const PIECE_HEAD_BYTES: usize = 8;
/// Bytes of every piece of a datagram but the last.
pub const PIECE_BYTES: usize = SHORT_BYTES - HEADER_BYTES - PIECE_HEAD_BYTES;
/// Words of 64 fragments in the bitmap of a bulk acknowledgement, at most.
pub const BITMAP_WORDS: usize = 16;
/// Bytes of kernel receive buffer that one unit of credit stands for.
pub const CREDIT_UNIT_BYTES: u32 = 256;
/// Bytes of the longest packet without data of the user.
pub const CONTROL_BYTES_MAX: usize = HEADER_BYTES + 16 + BITMAP_WORDS * 8;

/// Flag: the sender has to wait, so acknowledge at once.
pub const ACK_NOW: u8 = 1;
/// Flag: record `ack` was refused because its receiver has no room.
pub const FULL: u8 = 2;
/// Flag: the rank has left; who answers stands in for it.
pub const GONE: u8 = 4;
/// Flag of a bulk acknowledgement: the message is complete.
pub const DONE: u8 = 8;
/// Flag of a bulk acknowledgement: no such message was accepted.
pub const REFUSED: u8 = 16;
const FLAGS: u8 = ACK_NOW | FULL | GONE | DONE | REFUSED;

const MAGIC: [u8; 4] = *b"Tut1";

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Records of the eager stream.
    Data = 1,
    /// An acknowledgement on its own.
    Ack = 2,
    /// A record was refused: a gap, or no room ([`FULL`]).
    Nack = 3,
    /// Where are you? Sent instead of a window of data when acknowledgements fail to come.
    Probe = 4,
    /// Here: answers a probe.
    Answer = 5,
    /// A piece of a bulk message.
    Fragment = 6,
    /// Which fragments of a bulk message are here.
    BulkAck = 7,
    /// Which fragments of this message do you have?
    BulkProbe = 8,
    /// From daemon to daemon: what does your frozen rank hold? Closes the flow at the receiver until thaw.
    SteadyProbe = 9,
    /// From daemon to daemon: everything before `ack`.
    SteadyAnswer = 10,
    /// A piece of a datagram: long ones do not get through.
    Piece = 11,
    /// As long as a datagram can be: do such get through now?
    PathProbe = 12,
    /// Answer to a path probe: such datagrams get through.
    PathAnswer = 13,
}

/// The fixed part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The job's secret.
    pub key: Key,
    /// The job's incarnation.
    pub incarnation: Incarnation,
    /// The rank that sends the packet.
    pub from: Rank,
    /// The rank that it is for.
    pub to: Rank,
    /// Kind of the packet.
    pub kind: Kind,
    /// [`ACK_NOW`], [`FULL`], [`GONE`], [`DONE`], [`REFUSED`].
    pub flags: u8,
    /// See the table of the module.
    pub seq: Seq,
    /// The next record that the sender of this packet expects.
    pub ack: Seq,
    /// Round of (re)transmission, or generation.
    pub rewind: u32,
    /// See the table of the module.
    pub echo: u32,
    /// Units of receive buffer that the other side may have under way.
    pub credit: u16,
}

impl Header {
    /// The generation in a control message.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation(self.rewind)
    }
}

/// Contents behind the header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Records; walk them with [`Records`].
    Data(&'a [u8]),
    /// Bytes without meaning, or none: all others.
    Empty,
    /// A piece of bulk message `id` that belongs at `offset`; never empty.
    Fragment {
        /// The receiver's name of the message.
        id: BulkId,
        /// Where in the message the bytes belong.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// All fragments before `base` are here, and those whose bits are set, counted from `base` rounded down
    /// to 64.
    BulkAck {
        /// The receiver's name of the message.
        id: BulkId,
        /// The first fragment that is missing.
        base: u32,
        /// Bitmap, 8 bytes a word, at most [`BITMAP_WORDS`].
        words: &'a [u8],
    },
    /// A question about bulk message `id`.
    BulkProbe {
        /// The receiver's name of the message.
        id: BulkId,
    },
    /// The bytes at `offset` of a datagram of `whole` bytes: [`PIECE_BYTES`] or the rest of it, from a
    /// multiple of that.
    Piece {
        /// Where in the datagram they belong.
        offset: usize,
        /// Bytes of the datagram.
        whole: usize,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Fewer bytes than a header.
    #[error("a datagram of {0} bytes is shorter than a header")]
    Short(usize),
    /// Datagram of something else, or of another version.
    #[error("not a packet of this protocol")]
    Foreign,
    /// A kind that does not exist.
    #[error("kind {0} does not exist")]
    Kind(u8),
    /// Flags that do not exist, or bytes that must be zero.
    #[error("bits are set that have no meaning")]
    Reserved,
    /// The length in the header is not that of the datagram.
    #[error("the header says {announced} bytes follow, {found} do")]
    Length {
        /// Bytes that the header announces.
        announced: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// Too short or too long for its kind.
    #[error("{0:?} with {1} bytes behind its header")]
    Body(Kind, usize),
}

/// Writes a header in front of `length` bytes.
///
/// # Panics
/// When `into` is shorter than a header.
#[inline]
pub fn write_header(header: &Header, length: usize, into: &mut [u8]) {
    let into: &mut [u8; HEADER_BYTES] = into.first_chunk_mut().expect("room for a header");
    debug_assert!(length <= usize::from(u16::MAX));
    into[0..4].copy_from_slice(&MAGIC);
    into[4..8].copy_from_slice(&header.incarnation.0.to_le_bytes());
    into[8..16].copy_from_slice(&header.key.0.to_le_bytes());
    into[16..20].copy_from_slice(&header.from.0.to_le_bytes());
    into[20..24].copy_from_slice(&header.to.0.to_le_bytes());
    into[24] = header.kind as u8;
    into[25] = header.flags;
    into[26..28].copy_from_slice(&(length as u16).to_le_bytes());
    into[28..32].copy_from_slice(&header.seq.0.to_le_bytes());
    into[32..36].copy_from_slice(&header.ack.0.to_le_bytes());
    into[36..40].copy_from_slice(&header.rewind.to_le_bytes());
    into[40..44].copy_from_slice(&header.echo.to_le_bytes());
    into[44..46].copy_from_slice(&header.credit.to_le_bytes());
    into[46..48].fill(0);
}

/// Reads a datagram.
///
/// # Errors
/// What is wrong with it.
#[inline]
pub fn parse(datagram: &[u8]) -> Result<(Header, Body<'_>), Rejection> {
    let Some((head, rest)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
        return Err(Rejection::Short(datagram.len()));
    };
    Ok((parse_header(head, rest.len())?, parse_body(kind_of(head[24])?, rest)?))
}

/// Reads a fragment whose data, so many bytes, do not follow its head: header, name and offset. `None`: it is
/// none, or nothing that [`parse`] takes.
#[inline]
#[must_use]
pub fn parse_fragment(head: &[u8], bytes: usize) -> Option<(Header, BulkId, u64)> {
    let (fixed, rest) = head.split_first_chunk::<HEADER_BYTES>()?;
    let header = parse_header(fixed, rest.len() + bytes).ok()?;
    let is_one = header.kind == Kind::Fragment && rest.len() == FRAGMENT_HEAD_BYTES && bytes > 0;
    is_one.then(|| (header, BulkId::from_bits(u64_at(rest, 0)), u64_at(rest, 8)))
}

#[inline]
fn parse_header(head: &[u8; HEADER_BYTES], found: usize) -> Result<Header, Rejection> {
    if head[0..4] != MAGIC {
        return Err(Rejection::Foreign);
    }
    let kind = kind_of(head[24])?;
    if head[25] & !FLAGS != 0 || head[46] != 0 || head[47] != 0 {
        return Err(Rejection::Reserved);
    }
    let announced = usize::from(u16::from_le_bytes([head[26], head[27]]));
    if announced != found {
        return Err(Rejection::Length { announced, found });
    }
    Ok(Header {
        key: Key(u64_at(head, 8)),
        incarnation: Incarnation(u32_at(head, 4)),
        from: Rank(u32_at(head, 16)),
        to: Rank(u32_at(head, 20)),
        kind,
        flags: head[25],
        seq: Seq(u32_at(head, 28)),
        ack: Seq(u32_at(head, 32)),
        rewind: u32_at(head, 36),
        echo: u32_at(head, 40),
        credit: u16::from_le_bytes([head[44], head[45]]),
    })
}

/// Writes name and offset of a fragment.
#[inline]
pub fn write_fragment_head(id: BulkId, offset: u64, into: &mut [u8]) {
    into[0..8].copy_from_slice(&id.to_bits().to_le_bytes());
    into[8..16].copy_from_slice(&offset.to_le_bytes());
}

/// Where the data behind a fragment's head, as it leaves, belong in their message: offset and bytes.
///
/// # Panics
/// When `head` is not [`FRAGMENT_BYTES_BEFORE`] long.
#[inline]
#[must_use]
pub fn fragment_place(head: &[u8]) -> (u64, usize) {
    assert_eq!(head.len(), FRAGMENT_BYTES_BEFORE, "the head of a fragment");
    let length = usize::from(u16::from_le_bytes([head[26], head[27]]));
    (u64_at(head, HEADER_BYTES + 8), length - FRAGMENT_HEAD_BYTES)
}

/// Writes place and length of a piece.
pub fn write_piece_head(offset: usize, whole: usize, into: &mut [u8]) {
    into[0..4].copy_from_slice(&(offset as u32).to_le_bytes());
    into[4..8].copy_from_slice(&(whole as u32).to_le_bytes());
}

/// Writes the body of a bulk acknowledgement and returns its length. `words` without its last zeros is
/// enough.
pub fn write_bulk_ack(id: BulkId, base: u32, words: &[u64], into: &mut [u8]) -> usize {
    into[0..8].copy_from_slice(&id.to_bits().to_le_bytes());
    into[8..12].copy_from_slice(&base.to_le_bytes());
    into[12..16].fill(0);
    for (word, place) in words.iter().zip(into[16..].chunks_exact_mut(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    16 + words.len() * 8
}

#[inline]
fn kind_of(byte: u8) -> Result<Kind, Rejection> {
    Ok(match byte {
        1 => Kind::Data,
        2 => Kind::Ack,
        3 => Kind::Nack,
        4 => Kind::Probe,
        5 => Kind::Answer,
        6 => Kind::Fragment,
        7 => Kind::BulkAck,
        8 => Kind::BulkProbe,
        9 => Kind::SteadyProbe,
        10 => Kind::SteadyAnswer,
        11 => Kind::Piece,
        12 => Kind::PathProbe,
        13 => Kind::PathAnswer,
        other => return Err(Rejection::Kind(other)),
    })
}

#[inline]
fn parse_body(kind: Kind, rest: &[u8]) -> Result<Body<'_>, Rejection> {
    let wrong = Err(Rejection::Body(kind, rest.len()));
    match kind {
        Kind::Data if rest.len() >= RECORD_HEAD_BYTES => Ok(Body::Data(rest)),
        Kind::Fragment if rest.len() > FRAGMENT_HEAD_BYTES => Ok(Body::Fragment {
            id: BulkId::from_bits(u64_at(rest, 0)),
            offset: u64_at(rest, 8),
            bytes: &rest[FRAGMENT_HEAD_BYTES..],
        }),
        Kind::BulkAck
            if rest.len() >= 16 && rest.len() <= 16 + BITMAP_WORDS * 8 && rest.len().is_multiple_of(8) =>
        {
            if u32_at(rest, 12) != 0 {
                return Err(Rejection::Reserved);
            }
            let (id, base) = (BulkId::from_bits(u64_at(rest, 0)), u32_at(rest, 8));
            Ok(Body::BulkAck { id, base, words: &rest[16..] })
        }
        Kind::BulkProbe if rest.len() == 8 => Ok(Body::BulkProbe { id: BulkId::from_bits(u64_at(rest, 0)) }),
        Kind::Piece if rest.len() > PIECE_HEAD_BYTES => {
            let (offset, whole) = (u32_at(rest, 0) as usize, u32_at(rest, 4) as usize);
            let bytes = &rest[PIECE_HEAD_BYTES..];
            let is_piece = offset.is_multiple_of(PIECE_BYTES)
                && whole.checked_sub(offset).is_some_and(|left| bytes.len() == left.min(PIECE_BYTES));
            if is_piece { Ok(Body::Piece { offset, whole, bytes }) } else { wrong }
        }
        Kind::Data | Kind::Fragment | Kind::BulkAck | Kind::BulkProbe | Kind::Piece => wrong,
        Kind::PathProbe => Ok(Body::Empty),
        _ if rest.is_empty() => Ok(Body::Empty),
        _ => wrong,
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Bytes in front of each record, in the FIFO and in a packet: its length (4), its number (4).
pub const RECORD_HEAD_BYTES: usize = 8;

/// Bytes that a record of `length` takes in the FIFO and in a packet.
#[inline]
#[must_use]
pub fn record_bytes(length: usize) -> usize {
    RECORD_HEAD_BYTES + length.next_multiple_of(8)
}

/// Writes a record's head.
#[inline]
pub fn write_record_head(seq: Seq, length: u32, into: &mut [u8]) {
    into[0..4].copy_from_slice(&length.to_le_bytes());
    into[4..8].copy_from_slice(&seq.0.to_le_bytes());
}

/// Walks the records of a packet or of a stretch of FIFO. Yields what is whole and numbered as expected; ends
/// at the first that is not, and [`Records::rest`] is then not empty.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    next: Seq,
}

impl<'a> Records<'a> {
    /// Records from number `first` on.
    #[must_use]
    pub fn new(first: Seq, bytes: &'a [u8]) -> Self {
        Records { rest: bytes, next: first }
    }

    /// The bytes not walked yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (Seq, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (head, data) = self.rest.split_first_chunk::<RECORD_HEAD_BYTES>()?;
        let (length, seq) = (u32_at(head, 0) as usize, Seq(u32_at(head, 4)));
        if seq != self.next || length > data.len() || length.next_multiple_of(8) > data.len() {
            return None;
        }
        self.rest = &data[length.next_multiple_of(8)..];
        self.next = seq.plus(1);
        Some((seq, &data[..length]))
    }
}

#[cfg(test)]
mod tests;
