//! The performance variables of the tool information interface (MPI 15.3.7), by number: the counters of
//! [`crate::stats`] first, then lengths of queues, collective operations by algorithm, and files.
//!
//! `tool` reads them for tools' handles, `api` describes them.

use core::ffi::c_int;

use crate::abi::{MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_LEVEL};
use crate::engine::Engine;
use crate::stats::{COUNTERS, Counter};
use crate::tally::{self, Algorithm};
use tutti_rma::wire::Refusal;
use tutti_runtime::rank::Rank;

/// How a variable behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Grows; a handle counts from its start.
    Counter,
    /// Value at present; it is neither started, stopped nor written.
    Level,
}

impl Class {
    /// As the standard calls it.
    pub fn code(self) -> c_int {
        match self {
            Class::Counter => MPI_T_PVAR_CLASS_COUNTER,
            Class::Level => MPI_T_PVAR_CLASS_LEVEL,
        }
    }
}

/// A performance variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Name.
    pub name: &'static str,
    /// Description of its value.
    pub meaning: &'static str,
    /// The category it belongs to, by name.
    pub category: &'static str,
    /// How it behaves.
    pub class: Class,
    value: Value,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    /// Place in [`COUNTERS`].
    Counted(usize),
    Computed(fn(&Engine, &Rank) -> u64),
}

impl Variable {
    /// Value of the variable.
    pub fn value(&self, engine: &Engine, rank: &Rank) -> u64 {
        match self.value {
            Value::Counted(counter) => (COUNTERS[counter].value)(&engine.counted()),
            Value::Computed(value) => value(engine, rank),
        }
    }
}

const fn counter(
    category: &'static str,
    name: &'static str,
    meaning: &'static str,
    value: fn(&Engine, &Rank) -> u64,
) -> Variable {
    Variable { name, meaning, category, class: Class::Counter, value: Value::Computed(value) }
}

macro_rules! collective {
    ($name:literal, $meaning:literal, $algorithm:ident) => {
        counter("tutti.collectives", $name, $meaning, |_, _| {
            tally::COLLECTIVES[Algorithm::$algorithm as usize].value()
        })
    };
}

macro_rules! refused {
    ($name:literal, $meaning:literal, $refusal:ident) => {
        counter(
            "tutti.remote_memory",
            $name,
            concat!("operations of ranks of other nodes that were refused here: ", $meaning),
            |_, rank| rank.refused_for(Refusal::$refusal),
        )
    };
}

const QUEUES: &str = "tutti.queues";
const FILES: &str = "tutti.files";

/// Variables that are no counters of [`COUNTERS`].
static MORE: [Variable; 19] = [
    Variable {
        name: "posted_length",
        meaning: "receives that are posted and have no message yet",
        category: QUEUES,
        class: Class::Level,
        value: Value::Computed(|engine, _| engine.posted_count() as u64),
    },
    Variable {
        name: "unexpected_length",
        meaning: "messages that have arrived and have no receive yet",
        category: QUEUES,
        class: Class::Level,
        value: Value::Computed(|engine, _| u64::from(engine.unasked())),
    },
    collective!(
        "collectives_slots",
        "small collective operations through slots in the memory of a node",
        Slots
    ),
    collective!("collectives_single_copy", "collective operations by single copies on a node", SingleCopy),
    collective!("collectives_tree", "collective operations by messages along a tree", Tree),
    collective!("collectives_direct", "collective operations by messages from each rank to each", Direct),
    collective!("collectives_in_parts", "reductions in parts", Reduction),
    collective!("collectives_edges", "collective operations along the edges of a topology", Edges),
    collective!("collectives_two_groups", "collective operations of intercommunicators", TwoGroups),
    counter(
        FILES,
        "file_bytes_read",
        "bytes that this process has read from files, for itself and others",
        |_, _| tally::FILE_BYTES_READ.value(),
    ),
    counter(
        FILES,
        "file_bytes_written",
        "bytes that this process has written to files, for itself and others",
        |_, _| tally::FILE_BYTES_WRITTEN.value(),
    ),
    counter(
        FILES,
        "files_aggregated",
        "collective accesses of this rank that went through aggregators",
        |_, _| tally::FILES_AGGREGATED.value(),
    ),
    counter(FILES, "file_bytes_aggregated", "bytes of this rank in those accesses", |_, _| {
        tally::FILE_BYTES_AGGREGATED.value()
    }),
    refused!("refused_no_region", "there is no such region, or not any more", NoRegion),
    refused!("refused_no_right", "the region does not allow it", NoRight),
    refused!("refused_out_of_range", "the region ends before", OutOfRange),
    refused!("refused_unaligned", "elements are not aligned", Unaligned),
    refused!("refused_malformed", "the record makes no sense", Malformed),
    refused!("refused_full", "the queue has no room", Full),
];

/// How many there are.
pub const COUNT: usize = COUNTERS.len() + MORE.len();

/// All of them, in the order of their numbers.
pub fn all() -> impl Iterator<Item = Variable> {
    (0..COUNT).map(of)
}

/// The variable of a number below [`COUNT`].
pub fn of(index: usize) -> Variable {
    match COUNTERS.get(index) {
        Some(Counter { name, meaning, category, .. }) => {
            Variable { name, meaning, category, class: Class::Counter, value: Value::Counted(index) }
        }
        None => MORE[index - COUNTERS.len()],
    }
}
