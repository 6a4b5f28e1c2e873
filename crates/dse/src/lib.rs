//! The programming model of DSE (`tutti_dse.h`): processor elements with local and global memory.
//!
//! | module | what it is |
//! |---|---|
//! | [`element`] | start, end, and the memory that elements share |
//! | [`access`] | reads and writes of global memory, with and without confirmation |
//! | [`process`] | processes on other elements |
//! | [`element::exclusion`] | locks and semaphores |
//! | [`element::topology`] | who is whose neighbour; pure but for what the program has chosen |
//! | [`element::relay`] | what is forwarded from neighbour to neighbour |
//! | [`link`], [`message`], [`server`] | kernel and process of an element as two processes |
//! | [`stamps`] | when what happened, of process and kernel |
//! | [`fault`] | codes and texts of what is refused |
//!
//! An element is a PE of OpenSHMEM, and global memory is a block of its symmetric heap: reads and writes are
//! stores inside a node and records of remote memory between nodes. Wrong arguments are found here, so that
//! OpenSHMEM, which ends the job for them, never sees them.

pub mod access;
pub mod element;
pub mod fault;
mod link;
mod message;
pub mod process;
pub mod server;
pub mod stamps;
mod word;
