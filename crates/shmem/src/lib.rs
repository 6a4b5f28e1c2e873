//! OpenSHMEM 1.5: what stands behind the symbols of `libsma.so.1`.
//!
//! | module | what it is |
//! |---|---|
//! | [`api`] | one body for each family of functions |
//! | [`start`], [`size`] | start and end, beside MPI or alone |
//! | [`memory`], [`statics`] | where a symmetric address lies in the memory of another PE |
//! | [`pes`] | this PE and how many there are |
//! | [`nodes`] | the memory of PEs on other nodes |
//! | [`heap`] | which parts of the heap are taken; pure |
//! | [`team`], [`context`] | handles; collective operations run on MPI's engine |
//! | [`lock`] | locks in symmetric memory |
//! | [`element`], [`comparison`] | what can be done with a type; how words are compared |
//! | [`fault`] | wrong arguments end the job with one line |
//!
//! Every operation on the memory of another PE of this node is done when its call returns, by stores and
//! atomic instructions of the caller, without a lock; so `_nbi` functions are the same as the others.

pub mod api;
mod argument_names;
pub mod comparison;
pub mod context;
pub mod element;
mod environment;
pub mod fault;
pub mod heap;
pub mod lock;
pub mod memory;
pub mod nodes;
pub mod pes;
pub mod size;
pub mod start;
pub mod statics;
pub mod team;
