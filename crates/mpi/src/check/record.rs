//! Records of collective calls, which ranks tell each other: function, root, operation, data; and the search
//! for what does not match in the records of all.
//!
//! Data are said piece by piece: what a rank sends to each other one and what it expects from each. So one
//! rule covers all functions: what `i` sends to `j` must be what `j` expects from `i` (MPI 6.1: the
//! signatures are equal). A reduction's elements must be the same on all ranks.
//!
//! | words | |
//! |---|---|
//! | 0, 1, 2 | function, root, operation, as numbers that are equal when they match; 0 when nothing is said |
//! | 3, 4 | elements of a reduction: [`SignatureWord`], bytes + 1 |
//! | 5 | hash of the counts of a reduce-scatter |
//! | 6 | where MPI_IN_PLACE is for all ranks or for none: 1 not in place, 2 in place |
//! | 7..31 | the call as text |
//! | 31.. | for each rank: what goes to it and what is expected from it, each as [`SignatureWord`] and bytes + 1; 0 when nothing is said |

use std::hash::{DefaultHasher, Hash, Hasher};

use tutti_datatype::{Buffer, SignatureWord};

use crate::collective::work::{Pieces, Reduction, Root, Work};

const TEXT_WORDS: usize = 24;
const IN_PLACE_AT: usize = 6;
const TEXT_AT: usize = 7;
const PIECES_AT: usize = TEXT_AT + TEXT_WORDS;
const PIECE_WORDS: usize = 4;
/// Details that are said of pieces that do not match.
const DETAILS_MAX: usize = 4;

/// A rank's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record(Vec<u64>);

/// Words of a record on a communicator of so many ranks.
pub fn words(ranks: usize) -> usize {
    PIECES_AT + ranks * PIECE_WORDS
}

/// Rank that says the record.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    /// Rank in the communicator.
    pub me: usize,
    /// Number of ranks in the communicator.
    pub ranks: usize,
    /// Whether it is an intercommunicator, of whose data nothing is said.
    pub is_inter: bool,
}

impl Record {
    /// The record of a call that has no work: one that makes a communicator.
    pub fn of_creation(function: &str, speaker: Speaker) -> Self {
        let mut record = Record(vec![0; words(speaker.ranks)]);
        record.0[0] = hash(function.strip_suffix("_c").unwrap_or(function));
        record.set_text(function);
        record
    }

    /// The record of a call.
    pub fn of(function: &str, speaker: Speaker, work: &Work) -> Self {
        let mut record = Record::of_creation(function, speaker);
        let mut parts = Vec::new();
        let in_place = in_place(function, work);
        record.0[IN_PLACE_AT] = in_place.map_or(0, |in_place| 1 + u64::from(in_place));
        if let Some(reduction) = reduction_of(work) {
            // Beside the root of an intercommunicator no argument but the root counts (6.9.1).
            if root_of(work) != Some(Root::NoRank) {
                record.0[2] = hash(reduction.reducer.operation_name());
                parts.push(elements(reduction).describe());
                parts.push(reduction.reducer.operation_name().into());
                parts.extend((in_place == Some(true)).then(|| "in place".to_owned()));
            }
        }
        if !speaker.is_inter {
            record.describe_data(speaker, work, &mut parts);
        }
        if let Some(root) = root_of(work) {
            if let Root::Local(root) = root {
                record.0[1] = root as u64 + 1;
            }
            parts.push(root_text(root));
        }
        if !parts.is_empty() {
            record.set_text(&format!("{function}({})", parts.join(", ")));
        }
        record
    }

    /// A record as it has arrived.
    pub fn from_words(words: &[u64]) -> Self {
        Record(words.to_vec())
    }

    /// The record as it travels.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// The call as text.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.0[TEXT_AT..PIECES_AT].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    fn set_text(&mut self, text: &str) {
        let words = &mut self.0[TEXT_AT..PIECES_AT];
        words.fill(0);
        for (word, chunk) in words.iter_mut().zip(text.as_bytes().chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(bytes);
        }
    }

    fn describe_data(&mut self, speaker: Speaker, work: &Work, parts: &mut Vec<String>) {
        let Speaker { me, ranks, .. } = speaker;
        let everyone = 0..ranks;
        match work {
            Work::Barrier | Work::Neighbours(_) => {}
            Work::Broadcast { buffer, root: Root::Local(root) } => {
                parts.push(buffer.describe());
                if *root == me {
                    everyone.for_each(|to| self.sends(to, buffer));
                } else {
                    self.expects(*root, buffer);
                }
            }
            Work::Gather { own, all, root: Root::Local(root), .. } => {
                if let Some(own) = own {
                    self.sends(*root, own);
                    parts.push(format!("sends {}", own.describe()));
                }
                if let Some(all) = all {
                    everyone.filter(|&from| own.is_some() || from != me).for_each(|from| {
                        self.expects(from, &all.piece(from));
                    });
                    parts.push(format!("receives {}", pieces_text(all, ranks, "from")));
                }
            }
            Work::Scatter { all, own, root: Root::Local(root), .. } => {
                if let Some(all) = all {
                    everyone.filter(|&to| own.is_some() || to != me).for_each(|to| {
                        self.sends(to, &all.piece(to));
                    });
                    parts.push(format!("sends {}", pieces_text(all, ranks, "to")));
                }
                if let Some(own) = own {
                    self.expects(*root, own);
                    parts.push(format!("receives {}", own.describe()));
                }
            }
            Work::Allgather { own, all, .. } => {
                let in_place = own.is_none();
                let own = own.clone().unwrap_or_else(|| all.piece(me));
                parts.push(format!("sends {}{}", own.describe(), if in_place { " (in place)" } else { "" }));
                parts.push(format!("receives {}", pieces_text(all, ranks, "from")));
                for other in everyone {
                    self.sends(other, &own);
                    self.expects(other, &all.piece(other));
                }
            }
            Work::Alltoall { send, receive, .. } => {
                let sent = send.as_ref().unwrap_or(receive);
                let in_place = if send.is_none() { " (in place)" } else { "" };
                parts.push(format!("sends {}{in_place}", pieces_text(sent, ranks, "to")));
                parts.push(format!("receives {}", pieces_text(receive, ranks, "from")));
                for other in everyone {
                    self.sends(other, &sent.piece(other));
                    self.expects(other, &receive.piece(other));
                }
            }
            Work::Reduce(reduction, _) | Work::Allreduce(reduction) | Work::Scan { reduction, .. } => {
                self.set_elements(reduction);
            }
            Work::ReduceScatter { reduction, counts } => {
                self.set_elements(reduction);
                self.0[5] = hash(counts);
                if counts.windows(2).any(|w| w[0] != w[1]) {
                    parts.push(format!("counts {counts:?}"));
                }
            }
            Work::Broadcast { .. } | Work::Gather { .. } | Work::Scatter { .. } => {}
        }
    }

    fn set_elements(&mut self, reduction: &Reduction) {
        let data = elements(reduction);
        (self.0[3], self.0[4]) = (data.word().0, data.bytes as u64 + 1);
    }

    fn sends(&mut self, to: usize, data: &Buffer) {
        let at = PIECES_AT + to * PIECE_WORDS;
        (self.0[at], self.0[at + 1]) = (data.word().0, data.bytes as u64 + 1);
    }

    fn expects(&mut self, from: usize, data: &Buffer) {
        let at = PIECES_AT + from * PIECE_WORDS;
        (self.0[at + 2], self.0[at + 3]) = (data.word().0, data.bytes as u64 + 1);
    }

    fn elements(&self) -> Option<Piece> {
        Piece::read(&self.0[3..5])
    }

    fn sent(&self, to: usize) -> Option<Piece> {
        Piece::read(&self.0[PIECES_AT + to * PIECE_WORDS..])
    }

    fn expected(&self, from: usize) -> Option<Piece> {
        Piece::read(&self.0[PIECES_AT + from * PIECE_WORDS + 2..])
    }
}

/// Data that a rank has spoken of.
#[derive(Clone, Copy, Debug)]
struct Piece {
    word: SignatureWord,
    bytes: usize,
}

impl Piece {
    fn read(words: &[u64]) -> Option<Self> {
        Some(Piece { word: SignatureWord(words[0]), bytes: words[1].checked_sub(1)? as usize })
    }

    fn matches(&self, other: &Piece) -> bool {
        let any = self.word.is_any() || other.word.is_any();
        self.bytes == other.bytes && (any || self.word == other.word)
    }

    fn describe(&self) -> String {
        self.word.describe(self.bytes)
    }
}

/// Finds what does not match in the records of all ranks: what it is, and details; none when all is well.
pub fn mismatch(records: &[Record]) -> Option<(&'static str, Vec<String>)> {
    let differs = |word: usize| {
        let mut said = records.iter().map(|record| record.0[word]).filter(|&number| number != 0);
        let first = said.next();
        said.any(|number| Some(number) != first)
    };
    for (word, what) in
        [(0, "different functions"), (1, "different roots"), (2, "different reduction operations")]
    {
        if differs(word) {
            return Some((what, Vec::new()));
        }
    }
    if differs(IN_PLACE_AT) {
        return Some(("MPI_IN_PLACE on some ranks only", Vec::new()));
    }
    let first = records[0].elements();
    let is_like_first = |record: &Record| match (&first, record.elements()) {
        (Some(first), Some(other)) => first.matches(&other),
        _ => true,
    };
    if !records.iter().all(is_like_first) {
        return Some(("different counts or types", Vec::new()));
    }
    if differs(5) {
        return Some(("different counts", Vec::new()));
    }
    let details = unmatched_pieces(records);
    (!details.is_empty()).then_some(("counts or types that do not match", details))
}

fn unmatched_pieces(records: &[Record]) -> Vec<String> {
    let mut details = Vec::new();
    for (from, sender) in records.iter().enumerate() {
        for (to, receiver) in records.iter().enumerate() {
            let (Some(sent), Some(expected)) = (sender.sent(to), receiver.expected(from)) else { continue };
            if !sent.matches(&expected) && details.len() < DETAILS_MAX {
                details.push(format!(
                    "rank {from} sends {} to rank {to}, which expects {}",
                    sent.describe(),
                    expected.describe()
                ));
            }
        }
    }
    details
}

fn elements(reduction: &Reduction) -> Buffer {
    let datatype = &reduction.reducer.datatype;
    datatype.buffer(std::ptr::null_mut(), reduction.count).unwrap_or(Buffer::empty())
}

/// Whether a call is in place, where all ranks or none must be (MPI 6.7, 6.8, 6.9.6, 6.10.1).
/// MPI_Reduce_scatter and scans are in place on each rank as it likes, rooted calls at the root only.
fn in_place(function: &str, work: &Work) -> Option<bool> {
    match work {
        Work::Allgather { own, .. } => Some(own.is_none()),
        Work::Alltoall { send, .. } => Some(send.is_none()),
        Work::ReduceScatter { .. } if !is_block(function) => None,
        // Without elements both addresses may be null.
        Work::Allreduce(reduction) | Work::ReduceScatter { reduction, .. } => {
            (!reduction.receive.is_null()).then(|| reduction.send == reduction.receive.cast_const())
        }
        _ => None,
    }
}

fn is_block(function: &str) -> bool {
    function.contains("educe_scatter_block")
}

/// The reduction of a call that has one.
pub fn reduction_of(work: &Work) -> Option<&Reduction> {
    match work {
        Work::Reduce(reduction, _)
        | Work::Allreduce(reduction)
        | Work::ReduceScatter { reduction, .. }
        | Work::Scan { reduction, .. } => Some(reduction),
        _ => None,
    }
}

fn root_of(work: &Work) -> Option<Root> {
    match work {
        Work::Broadcast { root, .. }
        | Work::Gather { root, .. }
        | Work::Scatter { root, .. }
        | Work::Reduce(_, root) => Some(*root),
        _ => None,
    }
}

fn root_text(root: Root) -> String {
    match root {
        Root::Local(root) => format!("root {root}"),
        Root::Myself => "root MPI_ROOT".into(),
        Root::NoRank => "root MPI_PROC_NULL".into(),
        Root::Remote(root) => format!("root {root} of the other group"),
    }
}

/// Pieces in words: equal ones once, others by their bytes.
fn pieces_text(pieces: &Pieces, ranks: usize, direction: &str) -> String {
    let all: Vec<Buffer> = (0..ranks).map(|rank| pieces.piece(rank)).collect();
    let is_uniform = all.windows(2).all(|w| w[0].bytes == w[1].bytes && w[0].word() == w[1].word());
    match all.first() {
        Some(first) if is_uniform => format!("{} {direction} each", first.describe()),
        _ => {
            let bytes: usize = all.iter().map(|piece| piece.bytes).sum();
            format!("{bytes} bytes {direction} all together")
        }
    }
}

fn hash(what: impl Hash) -> u64 {
    // The same on all ranks: the hasher has no random key.
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEAKER: Speaker = Speaker { me: 0, ranks: 3, is_inter: false };

    fn record(function: &str) -> Record {
        Record::of_creation(function, SPEAKER)
    }

    #[test]
    fn collective_record_large_count_is_the_same_function() {
        assert_eq!(mismatch(&[record("MPI_Bcast"), record("MPI_Bcast_c")]), None);
        let (what, _) = mismatch(&[record("MPI_Bcast"), record("MPI_Ibcast")]).unwrap();
        assert_eq!(what, "different functions");
    }

    #[test]
    fn collective_record_finds_a_different_root() {
        let work = |root| Work::Broadcast { buffer: Buffer::empty(), root: Root::Local(root) };
        let say = |root| Record::of("MPI_Bcast", SPEAKER, &work(root));
        assert_eq!(say(1).text(), "MPI_Bcast(0 bytes, root 1)");
        assert_eq!(mismatch(&[say(1), say(1), say(2)]).unwrap().0, "different roots");
        assert_eq!(mismatch(&[say(1), say(1), say(1)]), None);
    }

    #[test]
    fn collective_record_compares_pieces() {
        let data = |bytes| Buffer::contiguous(std::ptr::null_mut(), bytes);
        let mut records: Vec<Record> = (0..3).map(|_| record("MPI_Alltoallv")).collect();
        for from in 0..3 {
            for to in 0..3 {
                records[from].sends(to, &data(from + 10 * to));
                records[to].expects(from, &data(from + 10 * to));
            }
        }
        assert_eq!(mismatch(&records), None);
        records[1].expects(2, &data(99));
        let (_, details) = mismatch(&records).unwrap();
        assert_eq!(details, ["rank 2 sends 12 bytes to rank 1, which expects 99 bytes"]);
    }

    #[test]
    fn collective_record_round_trips() {
        let record = record("MPI_Allgather");
        assert_eq!(Record::from_words(record.words()), record);
        assert_eq!(record.words().len(), words(3));
        assert_eq!(record.text(), "MPI_Allgather");
    }
}
