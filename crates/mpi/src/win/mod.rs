//! One-sided communication (MPI chapter 12): windows on memory that other ranks read, write and change.
//!
//! | module | what |
//! |---|---|
//! | [`window`] | a window as this process sees it: how the memory of each rank is reached |
//! | [`epoch`] | which accesses are allowed now; pure |
//! | [`creation`] | makes windows and frees them; attaches memory |
//! | [`operations`] | put, get, the accumulate family |
//! | [`other_nodes`] | the same where the target is on another node, or of another launch |
//! | [`way`] | the network of the job or the connection to a guest |
//! | [`synchronisation`] | fence, post-start-complete-wait, locks, flush |
//! | [`hints`] | info keys of windows |
//!
//! On a rank of the same node each operation is done when its call returns, so a flush is a fence of the
//! processor, and a request is done when it is made. Operations on ranks of other nodes are records
//! ([`tutti_runtime::remote_memory`]); a flush waits for them. So are those on ranks of other launches
//! ([`crate::engine::GuestMemory`]), whichever node they are on.

pub mod creation;
pub mod epoch;
pub mod hints;
pub mod operations;
pub mod other_nodes;
pub mod synchronisation;
pub mod way;
pub mod window;
