//! Gangs on real daemons and real processes: jobs take turns of 5 ms while their messages are under way,
//! while somebody floods them, and while whatever can die does. What is decided by numbers alone is held by
//! the simulator in `crates/sched`.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

#[path = "../cluster/cluster.rs"]
#[allow(dead_code)]
mod cluster;
mod conformance;
mod deaths;
mod file_locks;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;
mod idle;
mod lending;
mod log;
mod page;
mod phases;
mod signals;
mod snapshot;
mod steered;
mod switch_links;
mod traffic;
mod turns;

use cluster::Cluster;
