//! The protocol of shared memory between nodes: home-based lazy release consistency, several writers at once.
//!
//! ```text
//! store      the first one to a unit in an interval faults: a copy gets a twin, the unit is written
//! release    differences of copies and twins go to the homes; when all are applied the interval closes:
//!            its number and its units (write notices) are known with the vector time that is handed on
//! acquire    a vector time comes with the notices that this node lacks; copies of their units are dropped
//! miss       an absent unit is fetched from its home, which has all that the vector time covers
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`mod@unit`] | units of coherence, runs of them, which node is the home of one |
//! | [`time`] | vector times |
//! | [`interval`] | the log of write notices |
//! | [`page`] | what this node has of each unit |
//! | [`notes`] | which bytes compiled code has noted as stored |
//! | [`ahead`] | which bytes stores through an index will reach |
//! | [`check`] | races and lost stores, when they are looked for |
//! | [`difference`] | which bytes of a copy are not those of its twin |
//! | [`message`] | records and messages between nodes |
//! | [`sync`] | locks, barriers and flags, at the node that keeps them |
//! | [`token`] | locks that a node has borrowed, for its ranks to hand over |
//! | [`blocks`] | the heap |
//! | [`violation`] | mistakes of a program |
//! | [`member`] | one node: calls of the program, records of others |
//!
//! A node is a rank: there is one on each node. Nothing here has I/O, a clock, threads or `unsafe`; memory
//! and network are the traits [`member::Frames`] and [`member::Port`]. The simulator (`sim`, in tests) runs
//! several members with slow replies against a checker that knows what each read must see.

/// Whether the simulation in this thread leaves a rule out.
#[cfg(test)]
macro_rules! mutated {
    ($which:ident) => {
        crate::core::sim::is_left_out(crate::core::sim::Mutation::$which)
    };
}
#[cfg(not(test))]
macro_rules! mutated {
    ($which:ident) => {
        false
    };
}

pub mod ahead;
pub mod blocks;
pub mod check;
pub mod difference;
pub mod interval;
pub mod member;
pub mod message;
pub mod notes;
pub mod page;
pub mod sync;
pub mod time;
pub mod token;
pub mod unit;
pub mod violation;

#[cfg(test)]
mod sim;
