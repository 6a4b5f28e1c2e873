//! The starter of a job on a node: what `tutti-starter` is made of, and the wire on which the front end
//! speaks to it.
//!
//! | module | subject |
//! |---|---|
//! | [`starter`] | the poll loop that holds the rest together |
//! | [`parts`] | what a launch makes, until the job's end |
//! | [`launch`] | segment, sockets, pipes, and the fork of every rank |
//! | [`environment`] | program, arguments and environment of a rank |
//! | [`ranks`] | the state of each, and which one ended the job |
//! | [`readiness`] | one poll over all of it |
//! | [`tickets`] | the socket on which ranks redeem their tickets |
//! | [`spawning`] | ranks that other ranks ask for |
//! | [`connections`] | which other launches its ranks are connected to |
//! | [`output`] | stdout and stderr of the ranks: whole lines, back-pressure |
//! | [`input`] | stdin of the ranks that get one |
//! | [`foreign`] | the servers by which programs of other MPIs start |
//! | [`pmi`] | the one for MPICH and its relatives |
//! | [`pmix`] | the one for Open MPI, a process of its own |
//! | [`unserved`] | programs of other MPIs that these servers do not reach |
//! | [`binding`] | which rank may run on which cores |
//! | [`regions`] | regions of this job for other jobs, and the process that serves them |
//! | [`memory_watch`] | whether the job is hit when the memory of its user is used up |
//! | [`origin`] | files of the node where the job was submitted, mounted for its ranks |
//! | [`exited`] | answers for ranks that have left, in a job on several nodes |
//! | [`network_context`] | channels of ranks that are frozen for a strict switch: tested, copied, compared |
//! | [`stand_in`] | operations of other nodes on the memory of ranks that stand still |
//! | [`writer`] | the files of a submitted job's output, written by a process of its user |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod binding;
pub mod connections;
pub mod environment;
pub mod exited;
pub mod foreign;
pub mod holders;
pub mod input;
pub mod keeper;
pub mod launch;
pub mod memory_watch;
pub mod network_context;
pub mod origin;
pub mod output;
pub mod pages;
pub mod parts;
pub mod pmi;
pub mod pmix;
pub mod ranks;
pub mod readiness;
pub mod regions;
pub mod spawning;
pub mod stand_in;
pub mod starter;
pub mod tickets;
pub mod unserved;
pub mod writer;
