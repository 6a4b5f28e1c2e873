//! Wrong records on purpose: `TUTTI_FORGE_RECORDS=N` lets a rank put N of them behind every record, to the
//! same rank and through the same channel, so they come in right packets. Tests count that all are refused.
//!
//! | forgery | refused as |
//! |---|---|
//! | a kind that nobody has | kind |
//! | the beginning of a head | form, or malformed |
//! | a message that is shorter or longer than it says, or longer than any | length |
//! | a part of no message | order |
//! | an answer to what was not asked, a message to a receive that was not advertised | answer |
//! | credit for what was never sent | credit |
//! | an operation that makes no sense | malformed |
//! | a right one on memory of another generation | no region |
//!
//! Answers of remote memory are not followed: each refusal is answered, and there would be no end.

use std::collections::HashMap;

use tutti_rma::wire;
use tutti_shm::envelope::{
    CANCELLED, CREDIT, CTS, EAGER, FAR_RTR, FAR_WRITE, FIN, HEAD_BYTES, Head, NAMED, PART, RTR_VOID,
    RTR_VOIDED, RTS, STREAM,
};
use tutti_testkit::Random;

/// Environment variable with the number of wrong records behind every record.
const FORGE_VARIABLE: &str = "TUTTI_FORGE_RECORDS";
/// Kinds of messages end here; from [`FREE_KIND`] on none is used.
const MESSAGE_KINDS_END: u8 = 0x20;
const FREE_KIND: u8 = 18;
/// Kinds of remote memory that are no answers.
const OPERATIONS: std::ops::Range<u8> = 0x20..0x28;
/// Bytes behind a wrong head, at most.
const DATA_BYTES_MAX: u64 = 60;
/// Numbers of messages and regions from here on were never given.
const NEVER_GIVEN: u32 = 0xf000_0000;

/// Makes them.
#[derive(Debug)]
pub(crate) struct RecordForger {
    each: u32,
    random: Random,
    /// By rank: bytes that are missing of the message that streams there.
    streaming: HashMap<usize, u64>,
    /// The last operation on remote memory, to whichever rank.
    operation: Vec<u8>,
    pub(crate) record: Vec<u8>,
    /// Number of forged records that the channel has taken.
    pub(crate) sent: u64,
}

impl RecordForger {
    /// Creates the forger of a rank, if the environment asks for one.
    pub(crate) fn from_environment(rank: usize) -> Option<Self> {
        let each = std::env::var(FORGE_VARIABLE).ok()?.parse().ok().filter(|each| *each > 0)?;
        // Seeds are those of the ranks.
        let random = Random::new(rank as u64);
        Some(RecordForger {
            each,
            random,
            streaming: HashMap::new(),
            operation: Vec::new(),
            record: Vec::new(),
            sent: 0,
        })
    }

    /// How many follow this record, which has gone to a rank.
    pub(crate) fn follow(&mut self, to: usize, head: &[u8], body: &[u8]) -> u32 {
        if head.first().is_some_and(|kind| wire::KINDS.contains(kind) && !OPERATIONS.contains(kind)) {
            return 0;
        }
        let record = [head, body].concat();
        if record.len() >= wire::HEAD_BYTES && OPERATIONS.contains(&record[0]) {
            self.operation.clone_from(&record);
        }
        if let Some((head, data)) = Head::decode(&record).filter(|(head, _)| head.kind < MESSAGE_KINDS_END) {
            let left = self.streaming.entry(to).or_default();
            match head.kind {
                STREAM => *left = head.length - data.len() as u64,
                PART => *left -= data.len() as u64,
                _ => {}
            }
        }
        self.each
    }

    /// Makes the next one for a rank.
    pub(crate) fn forge(&mut self, to: usize) {
        let streams = self.streaming.get(&to).is_some_and(|left| *left > 0);
        let RecordForger { random, record, operation, .. } = self;
        record.clear();
        let mut below = |limit: u64| random.below(limit);
        let data = vec![0xa5; 1 + below(DATA_BYTES_MAX) as usize];
        let bytes = data.len() as u64;
        let number = NEVER_GIVEN + below(1000) as u32;
        // What a message may say besides must not make it right.
        let any = Head { context: below(50) as u32, tag: below(10) as i32, number, ..Head::default() };
        let (head, data) = match below(10) {
            0 => (
                Head { kind: FREE_KIND + below((MESSAGE_KINDS_END - FREE_KIND).into()) as u8, ..any },
                &[][..],
            ),
            1 => {
                record.push(1 + below((MESSAGE_KINDS_END - 1).into()) as u8);
                return record.resize(1 + below(HEAD_BYTES as u64 - 1) as usize, 0xa5);
            }
            2 => (Head { kind: EAGER, length: bytes + 1 + below(1 << 40), ..any }, &data[..]),
            3 => (Head { kind: STREAM, length: below(bytes + 1), ..any }, &data[..]),
            4 => (Head { kind: RTS, length: u64::MAX - below(1 << 40), ..any }, &[][..]),
            5 if !streams => (Head { kind: PART, ..any }, &data[..]),
            5 | 6 => {
                let answers = [CTS, FIN, CANCELLED, NAMED, FAR_RTR, FAR_WRITE, RTR_VOID, RTR_VOIDED];
                let word = u64::MAX - below(1 << 40);
                (Head { kind: answers[below(answers.len() as u64) as usize], word, ..any }, &[][..])
            }
            7 => (Head { kind: CREDIT, word: u64::MAX - below(1 << 40), ..any }, &[][..]),
            8 if !operation.is_empty() => {
                record.extend_from_slice(operation);
                // Its generation is another, and it gets no answer that ends anything.
                record[15] ^= 0x80;
                return record[16..20].fill(0xff);
            }
            _ => {
                record.push(OPERATIONS.start + below(OPERATIONS.len() as u64) as u8);
                // No region, and no number: the refusal is reported, and ends nothing.
                record.resize(1 + below(DATA_BYTES_MAX) as usize, 0xff);
                if let Some(region) = record.get_mut(8) {
                    *region = 0xf0;
                }
                return;
            }
        };
        record.extend_from_slice(&head.encode()[..head.bytes()]);
        record.extend_from_slice(data);
    }
}
