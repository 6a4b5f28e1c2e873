//! `tutti nodes`: the nodes of the cluster.

use std::collections::BTreeSet;
use std::process::ExitCode;

use tutti_client::table::aligned;
use tutti_protocol::settings::version_text;
use tutti_protocol::size;

use super::answer::{OTHER_VERSION, show};
use super::drain;
use super::jobs::by;
use crate::cluster::{self, Answer, FreezeMethod, NodeRow, Request};

pub(super) fn run(json: bool) -> Result<ExitCode, String> {
    match cluster::request(&Request::Nodes)?.0 {
        Answer::Nodes(rows) => show(&rows, json, print_nodes),
        _ => Err(OTHER_VERSION.into()),
    }
}

fn print_nodes(rows: &[NodeRow]) -> String {
    let mut table = vec![
        [
            "NODE", "NAME", "STATE", "SLOTS", "RANKS", "PARENT", "MEMORY", "GPUS", "LIMIT", "STOPS",
            "POLICY", "SWITCH", "CONFIG", "ADDRESS",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for row in rows {
        table.push(vec![
            row.node.0.to_string(),
            row.name.clone(),
            row.state().to_owned(),
            row.slots.to_string(),
            row.ranks.to_string(),
            row.parent.map_or_else(|| "-".into(), |parent| parent.to_string()),
            match row.memory_bytes {
                0 => "-".into(),
                bytes => format!("{}/{}", short(row.declared_bytes), short(bytes)),
            },
            match row.gpus().count() {
                0 => "-".into(),
                count => format!("{}/{count}", row.taken_gpus().count()),
            },
            if row.limits_memory { "enforced" } else { "counted" }.to_owned(),
            by(if row.freezes { FreezeMethod::Cgroup } else { FreezeMethod::Signals }).to_owned(),
            row.policy.clone().unwrap_or_else(|| "-".into()),
            row.preferred.name().to_owned(),
            version_text(row.configuration),
            row.address.clone(),
        ]);
    }
    let right = [true, false, false, true, true, true, true, true, false, false, false, false, false, false];
    let mut right = right.to_vec();
    if rows.iter().all(|row| row.gpus().is_empty()) {
        // Most clusters count none.
        table.iter_mut().for_each(|line| drop(line.remove(7)));
        right.remove(7);
    }
    aligned(&table, &right) + &drain::reasons(rows) + &releases(rows)
}

/// A line about the daemons' releases, in the middle of an upgrade.
fn releases(rows: &[NodeRow]) -> String {
    let alive = || rows.iter().filter(|row| row.alive);
    let all: BTreeSet<&str> = alive().map(|row| row.release.as_str()).collect();
    if all.len() < 2 {
        return String::new();
    }
    let of = |release: &&str| {
        let nodes = alive().filter(|row| row.release == **release).map(|row| row.name.as_str());
        format!(
            "{} on {}",
            if release.is_empty() { "unknown" } else { release },
            nodes.collect::<Vec<_>>().join(" ")
        )
    };
    format!("releases: {}\n", all.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// An amount of memory as users write it.
fn short(bytes: u64) -> String {
    let text = size::text(bytes);
    text.trim_end_matches("iB").trim_end_matches("bytes").replace(' ', "")
}
