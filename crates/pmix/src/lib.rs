//! The PMIx server of a job on a node, by which programs of Open MPI start: a process of its own beside the
//! starter, `tutti-pmix`. It loads the machine's or the program's own `libpmix.so.2` at run time. That
//! library has threads, and may fall: no process of Tutti but this one has it in its memory.
//!
//! ```text
//! starter --Begin--> tutti-pmix --dlopen, PMIx_server_init--> libpmix <--TCP, loopback--> ranks
//!    |<--Ready: variables of each rank--'
//!    |   (the ranks start)
//!    |<--Connected, Finalized, Abort, Log-- upcalls of libpmix
//!    |<--Fence-- all ranks of this node are in a fence that spans nodes
//!    |---Fenced--> what all nodes have given
//!    |---Flush, <--Flushed--- the ranks are dead, and what they have sent before has come
//!    '-- end of file: the job is over, or the starter is dead: the process ends
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`wire`] | messages between starter and server |
//! | [`server`] | the life of the process |
//! | [`library`] | libpmix: the functions that are called, and the upcalls; the only module with `unsafe` |
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod library;
pub mod server;
pub mod wire;
