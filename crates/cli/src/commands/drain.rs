//! `tutti drain` and `tutti undrain`: nodes to which no new ranks come.

use std::process::ExitCode;

use tutti_client::moments::instant;
use tutti_client::users;
use tutti_os::stderr::{escape_control, print_line};

use crate::cluster::{self, NodeRow, Request};

/// Asks for each node; a line for each refusal.
pub(super) fn run(command: &str, nodes: &[String], request: impl Fn(String) -> Request) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for node in nodes {
        if let Err(why) = cluster::request(&request(node.clone())) {
            print_line(format_args!("tutti {command}: {why}"));
            status = ExitCode::FAILURE;
        }
    }
    status
}

/// A line for each drained node, below the table of nodes.
pub(super) fn reasons(rows: &[NodeRow]) -> String {
    let line = |row: &NodeRow| {
        let drained = row.drain()?;
        let (since, user) = (instant(drained.since_ms), users::name(drained.uid));
        Some(format!("{} is drained since {since} by {user}: {}\n", row.name, escape_control(&drained.why)))
    };
    rows.iter().filter_map(line).collect()
}
