//! Attacks of hostile local users on root's daemons, and what becomes of them. The users are made by the
//! test, so it needs root; elsewhere each test prints one line that says so.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod about_others;
mod accounts;
mod beside;
mod cgroups;
#[path = "../cluster/cluster.rs"]
#[allow(dead_code)]
mod cluster;
mod crowd;
mod each_fault;
mod enrolment;
mod escapes;
mod folders;
mod frames;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;
mod heaps;
mod history;
mod identity;
mod inheritance;
#[path = "../cluster/leftovers.rs"]
#[allow(dead_code)]
mod leftovers;
mod locks;
mod machine;
mod malformed;
mod memory;
mod moves;
mod no_room;
mod nothing_left;
mod numbers;
mod open_mpi;
mod orphans;
mod output;
mod passed;
mod queue;
mod reads;
mod rubbish;
mod scripts;
mod services;
mod shares;
mod shown;
mod siege;
mod sleepers;
mod strangers;
mod switch_thread;
mod terms;
mod tracer;
mod user_memory;
mod want_of_memory;

pub use cluster::Cluster;
pub use machine::Machine;
