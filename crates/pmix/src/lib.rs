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
//!    |<--Word--  a piece of a word of this node; the starters give all to all servers, in one order
//!    |---Word--> a piece of a word of any node
//!    |<--Spawn-- a rank wants more ranks
//!    |---Admit--> their places; <--Admitted-- variables of those of this node; ---Spawned--> the answer
//!    |---Flush, <--Flushed--- the ranks are dead, and what they have sent before has come
//!    '-- end of file: the job is over, or the starter is dead: the process ends
//! ```
//!
//! | module | subject |
//! |---|---|
//! | [`wire`] | messages between starter and server |
//! | [`server`] | the life of the process |
//! | [`library`] | libpmix: the functions that are called, and the upcalls; no other module has `unsafe` |
//! | [`machine`] | what the servers of all nodes know together, changed by words in one order; pure |
//! | [`spaces`], [`names`], [`gathers`] | its parts: namespaces, published names, operations of several |
//! | [`fences`] | fences of all ranks, by their numbers |
//! | [`status`] | numbers by which operations end |
//! | [`texts`] | texts for the user, as libraries send them |
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod fences;
pub mod gathers;
pub mod library;
pub mod machine;
pub mod names;
pub mod server;
pub mod spaces;
pub mod status;
pub mod texts;
pub mod wire;
