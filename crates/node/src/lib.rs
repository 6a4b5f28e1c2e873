//! The starter of a job on a node: what `tutti-starter` is made of, and the wire on which the front end speaks to it.
//!
//! | module | subject |
//! |---|---|
//! | [`wire`] | frames between front end and starter; the description of a job; how a job ended |
//! | [`starter`] | the poll loop that holds the rest together |
//! | [`launch`] | segment, sockets, pipes, and the fork of every rank |
//! | [`environment`] | program, arguments and environment of a rank |
//! | [`ranks`] | what is known of each, who ended the job |
//! | [`readiness`] | one poll over all of it |
//! | [`tickets`] | the socket on which ranks redeem their tickets |
//! | [`output`] | stdout and stderr of the ranks: whole lines, back-pressure |
//! | [`input`] | stdin of the ranks that get one |
//! | [`pmi`] | by which programs of other MPIs start |
//! | [`binding`] | which rank may run on which cores |
//! | [`netns`] | network namespaces for virtual nodes, made by the front end |
//! | [`exited`] | answers for ranks that have left, in a job on several nodes |
//! | [`snapshot`] | the state of all channels of a job at one moment |
//! | [`say`] | lines for people |
//! | [`cgroup`] | the job's cgroup where one can be made |
//! | [`descendants`] | what stays behind when ranks are dead, and its end |
//! | [`page`] | where a daemon finds the page on which it tells a job of its turns |
//! | [`session`] | what a job begins with that is its user's session's |
//! | [`stat`] | what the kernel says of a process in a line |
//! | [`writer`] | the files of a submitted job's output, written by a process of its user |
//! | [`os`] | the system calls that need `unsafe` |
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod binding;
pub mod cgroup;
pub mod descendants;
pub mod environment;
pub mod exited;
pub mod facts;
pub mod input;
pub mod keeper;
pub mod launch;
pub mod netns;
pub mod os;
pub mod output;
pub mod page;
pub mod pmi;
pub mod ranks;
pub mod readiness;
pub mod rtkit;
pub mod say;
pub mod session;
pub mod snapshot;
pub mod starter;
pub mod stat;
pub mod tickets;
pub mod wire;
pub mod writer;
