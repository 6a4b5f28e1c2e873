//! One-sided communication (MPI chapter 12): windows on memory that other ranks read, write and change.
//!
//! | module | what |
//! |---|---|
//! | [`window`] | a window as this process sees it: how the memory of each rank is reached |
//! | [`epoch`] | which accesses are allowed now; pure |
//! | [`creation`] | makes windows and frees them; attaches memory |
//! | [`operations`] | put, get, the accumulate family |
//! | [`synchronisation`] | fence, post-start-complete-wait, locks, flush |
//! | [`hints`] | info keys of windows |
//!
//! All ranks of a window are on one node. Each operation is done when its call returns, so a flush is a fence
//! of the processor, and a request is done when it is made.

pub mod creation;
pub mod epoch;
pub mod hints;
pub mod operations;
pub mod synchronisation;
pub mod window;
