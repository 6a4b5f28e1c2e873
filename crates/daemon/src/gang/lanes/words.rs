//! What switch threads say to each other, and its bytes. The fuzzer has this file to itself (`fuzz/targets`).
//!
//! | word | way | meaning |
//! |---|---|---|
//! | [`Word`] | down | plans and orders of the scheduler, slots of jobs |
//! | [`tutti_sched::Report`] | up | what nodes have reached |
//!
//! A lane has one kind each way, so a word does not say which it is; nor have its fields names, since both ends are of one version.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_sched::{Down, JobId, Part};

/// What goes down the tree from thread to thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Word {
    /// A plan or an order.
    Sched(Down),
    /// The slots of a job.
    Slots(JobId, Vec<Part>),
}

/// The bytes of a word, behind those of `into`.
pub fn encode(word: &impl Serialize, into: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(word, into).expect("words are serialisable")
}

/// What [`encode`] has made; nothing, if it is anything else.
pub fn read_word<T: DeserializeOwned>(word: &[u8]) -> Option<T> {
    postcard::take_from_bytes(word).ok().and_then(|(word, rest)| rest.is_empty().then_some(word))
}
