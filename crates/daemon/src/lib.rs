//! `tuttid`: one daemon on each node of a cluster, and what it is made of.
//!
//! ```text
//! user's program --local socket--> shell --Event--> Core --Action--> shell --TLS--> other daemons
//!                                                                      \--wire--> tutti-starter, one for each job here
//! ```
//!
//! [`core`] thinks: it has no sockets, no clock and no processes. [`shell`] has all of that, and no opinion.
//! [`message`] is what is said; [`members`] the list of nodes and the tree; [`key`] the credential of a
//! cluster, [`configuration`] what a keeper sets, [`engine`] what a batch system says in its place.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod accounts;
pub mod configuration;
pub mod core;
pub mod engine;
pub mod gang;
pub mod ids;
pub mod key;
pub mod log;
pub mod members;
pub mod message;
pub mod pids;
pub mod script_runner;
pub mod shell;
