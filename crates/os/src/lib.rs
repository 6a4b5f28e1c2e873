//! Access to the kernel of a node: for starter, daemon and command line. Nothing here knows a job's protocol.
//!
//! | module | subject |
//! |---|---|
//! | [`cgroup`] | cgroups of jobs where they can be made, by version 2 or 1 |
//! | [`stat`] | state, parent and owner of a process, from /proc |
//! | [`descendants`] | what remains of a job when its ranks are dead, and its end |
//! | [`session`] | limits and priorities of a user's session |
//! | [`cpu_list`] | sets of cores |
//! | [`machine`] | cores, caches, and times that are measured |
//! | [`memory`] | memory of the machine |
//! | [`oom`] | whom the kernel kills for want of memory |
//! | [`netns`] | network namespaces for virtual nodes |
//! | [`rtnetlink`] | interfaces, bridges, cables and addresses |
//! | [`random`] | random bytes |
//! | `plain_file` | files that may be another user's |
//! | [`stderr`] | lines for people |
//! | [`stdout`] | texts of commands |
//! | `unix_listeners` | local sockets that listen under abstract names, and whose they are |
//! | `tcp_peer` | the user at the other end of a TCP connection |
//! | [`rtkit`] | real time from RealtimeKit, over D-Bus |
//! | `sys` | the system calls that need `unsafe`: signals, fork, priority, identity; all others are safe Rust on `rustix` |
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cgroup;
pub mod cpu_list;
pub mod descendants;
pub mod load;
mod look;
pub mod machine;
pub mod memory;
pub mod netns;
pub mod oom;
mod plain_file;
pub mod random;
pub mod rtkit;
pub mod rtnetlink;
pub mod session;
pub mod slurm;
pub mod stat;
pub mod stderr;
pub mod stdout;
mod sys;
mod tcp_peer;
mod unix_listeners;

pub use look::look;
pub use plain_file::{open_file, open_with_facts, read_all, read_file};
pub use sys::{
    Child, Entry, EntryFailure, EntryStep, Failure, Identity, PriorityClass, Signals, Step, TrafficCounter,
    become_this_user, bind, close_inherited_on_exec, enter_mount_namespace, flush_file, fork_helper,
    fork_rank, fork_sibling, fork_starter, give_memory_back, handle_trapped_calls, hide_process,
    ignore_signal, io_priority, kernel, leave_network_namespace, mount_fuse, mount_memory, namespace_owner,
    peer_groups, peer_pidfd, prefer_this_thread, raise_default, settle_signals, settle_stdout, signal_name,
    take_descriptor, take_refused_call, take_stdin, take_stdout, unblock_signals, unmount, used_by_children,
    with_file_rights_of, without_signals,
};
pub use tcp_peer::{TcpPeer, tcp_peer};
pub use unix_listeners::abstract_listeners;
