//! Messages of switch threads to each other, and their bytes. The fuzzer has this file to itself
//! (`fuzz/targets`).
//!
//! | message | way | meaning |
//! |---|---|---|
//! | [`SwitchMessage`] | down | plans and orders of the scheduler, slots of jobs |
//! | [`tutti_sched::Report`] | up | what nodes have reached |
//!
//! A switch link has one kind each way, so a message does not say which it is. A word that a later release
//! has added is left out and counted ([`tutti_protocol::codec`]).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_protocol::codec;
use tutti_sched::{Down, JobId, Part};

/// Message that goes down the tree from thread to thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SwitchMessage {
    /// A plan or an order.
    Sched(Down),
    /// The slots of a job.
    Slots(JobId, Vec<Part>),
}

/// The bytes of a message, behind those of `into`.
pub(crate) fn encode(message: &impl Serialize, into: Vec<u8>) -> Vec<u8> {
    codec::encode_behind(message, into)
}

/// Decodes what [`encode`] has made; returns nothing, if it is anything else.
pub(crate) fn decode_message<T: DeserializeOwned>(message: &[u8]) -> Option<T> {
    codec::decode(message).ok()
}
