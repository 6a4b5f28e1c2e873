//! Clusters of real daemons on this machine: jobs over several nodes, what users do to them, and what happens
//! when something dies.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod allocations;
mod attach;
mod batch;
mod board;
mod browser;
mod cluster;
mod comeback;
mod configuration;
mod connected;
#[path = "../launch/console.rs"]
mod console;
mod dead_daemons;
mod deadlocks;
mod doctor;
mod drains;
mod each_fault;
mod far;
mod faults;
mod filling;
mod front_ends;
mod full_disk;
mod gangs;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;
mod hostile;
mod jobs;
mod keeper_scripts;
mod keeping;
mod late;
mod leftovers;
mod limits;
mod nodes;
mod on_demand;
mod other_users;
mod output;
mod page;
mod past_jobs;
mod phases;
mod polite;
mod programs;
mod reservations;
mod scripts;
mod sharing;
mod spawn;
#[path = "../gang/steered.rs"]
mod steered;
mod stuck;
mod stuck_memory;
mod terminal;
mod termination;
mod timeline;
mod top;
mod trace_op;
mod two_users;
mod watched;
mod why;

use tutti_tests::program;

pub use cluster::Cluster;

impl Cluster {
    /// A shell at a terminal, with `$tutti` and `$rank` set.
    fn at_terminal(&self, script: &str, more: &[(&str, &std::ffi::OsStr)]) -> console::Terminal {
        let (tutti, socket) = (program("tutti"), self.folder.join("tuttid.sock"));
        let mut variables = vec![
            ("tutti", tutti.get_program()),
            ("rank", harness::RANK.as_ref()),
            ("TUTTI_DIR", self.folder.as_os_str()),
            ("TUTTI_DAEMON", socket.as_os_str()),
        ];
        variables.extend_from_slice(more);
        console::Terminal::run(script, &variables)
    }
}
