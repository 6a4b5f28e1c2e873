//! The wait-for graph, as a list for people and for Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tutti_os::stderr::escape_control;

use super::waits::{communicator, named};
use crate::deadlock::Deadlock;
use crate::state::{Alternative, Doing, RankView, Snapshot, Wait, What};

/// The targets of parts that must all end: "rank 1", "all of ranks 1-3".
fn targets(one: &Alternative) -> String {
    let mut peers: Vec<u32> = one.all.iter().filter_map(|wait| wait.peer).collect();
    peers.sort_unstable();
    peers.dedup();
    let mut parts = Vec::new();
    if !peers.is_empty() {
        parts.push(named(&peers));
    }
    if one.all.iter().any(|wait| wait.peer.is_none() && wait.what != What::Other) {
        parts.push("any rank".into());
    }
    if one.more || one.all.is_empty() || one.all.iter().any(|wait| wait.what == What::Other) {
        parts.push("something that is not listed".into());
    }
    let all = if peers.len() > 1 || parts.len() > 1 { "all of " } else { "" };
    format!("{all}{}", parts.join(" and "))
}

fn targets_text(any: &[Alternative], more: bool) -> String {
    let mut parts: Vec<String> = any.iter().map(targets).collect();
    parts.dedup();
    if more || any.is_empty() {
        parts.push("something that is not listed".into());
    }
    let any = if parts.len() > 1 { "any of: " } else { "" };
    format!("{any}{}", parts.join("; "))
}

impl Snapshot {
    /// The waiting ranks by their targets; those with the same targets share a line.
    pub(super) fn put_graph(&self, found: Option<&Deadlock>, text: &mut String) {
        let mut by_targets: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for view in self.nodes.iter().flat_map(|node| &node.ranks) {
            if let Doing::Waits { any, more, .. } = &view.doing {
                by_targets.entry(targets_text(any, *more)).or_default().push(view.rank);
            }
        }
        let mut lines: Vec<(Vec<u32>, String)> =
            by_targets.into_iter().map(|(text, ranks)| (ranks, text)).collect();
        lines.sort();
        if lines.is_empty() {
            return;
        }
        text.push_str("wait-for graph:\n");
        for (ranks, targets) in lines {
            let _ = writeln!(text, "  {} -> {targets}", named(&ranks));
        }
        if let Some(cycle) = found.and_then(Deadlock::arrows) {
            let _ = writeln!(text, "  a cycle: {cycle}");
        }
    }

    /// The same for Graphviz: an arrow for each wait. Dashed: another one is enough; dotted: the data are
    /// under way; red: it waits for ever.
    pub fn dot(&self) -> String {
        let found = self.deadlock();
        let mut text = format!("digraph \"job {}\" {{\n", self.job);
        for view in self.nodes.iter().flat_map(|node| &node.ranks) {
            put_rank(view, found.as_ref(), &mut text);
        }
        text.push_str("}\n");
        text
    }
}

fn put_rank(view: &RankView, found: Option<&Deadlock>, text: &mut String) {
    let rank = view.rank;
    let (does, alternatives): (&str, &[Alternative]) = match &view.doing {
        Doing::Waits { call, any, .. } => (call.as_deref().unwrap_or("waits"), any),
        Doing::Runs => ("runs", &[]),
        Doing::Elsewhere => ("is elsewhere", &[]),
        Doing::HasLeft => ("has left", &[]),
    };
    let is_stuck = found.is_some_and(|found| found.ranks.binary_search(&rank).is_ok());
    let color = if is_stuck { ", color=red" } else { "" };
    let _ = writeln!(text, "  {rank} [label=\"rank {rank}\\n{}\"{color}];", quoted(does));
    for one in alternatives {
        for wait in &one.all {
            let style = match (wait.matched, alternatives.len()) {
                (true, _) => "dotted",
                (false, 1) => "solid",
                _ => "dashed",
            };
            let target = match wait.peer {
                Some(peer) => peer.to_string(),
                None if wait.what == What::Other => "something".into(),
                None => "\"any rank\"".into(),
            };
            let _ = writeln!(text, "  {rank} -> {target} [label=\"{}\", style={style}{color}];", label(wait));
        }
    }
}

fn label(wait: &Wait) -> String {
    let what = match wait.what {
        What::Receive => "receive",
        What::Send => "send",
        What::Probe => "probe",
        What::Member => "collective",
        What::Window => "window",
        What::Lock => "lock of a window",
        What::Place | What::Held => "place",
        What::Word => return "word".into(),
        What::Page => return "page".into(),
        What::SharedLock | What::SharedHolder => return numbered("lock", wait),
        What::Barrier => return numbered("barrier", wait),
        What::Pause => return numbered("pause", wait),
        What::Other => return String::new(),
    };
    let tag = wait.tag.map_or_else(String::new, |tag| format!(" tag {tag}"));
    format!("{what}{tag}\\n{}", communicator(wait.context))
}

/// An object of shared memory.
fn numbered(what: &str, wait: &Wait) -> String {
    wait.tag.map_or_else(|| what.into(), |tag| format!("{what} {tag}"))
}

/// A name of a function comes from the memory of a program, or from a file.
fn quoted(text: &str) -> String {
    escape_control(text).replace(['"', '\\'], "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::View;

    fn receive(peer: Option<u32>) -> Wait {
        Wait { what: What::Receive, matched: false, peer, tag: Some(7), context: 0, bytes: 4, moved: 0 }
    }

    fn waits(rank: u32, any: &[&[Option<u32>]]) -> RankView {
        let alternative = |peers: &&[Option<u32>]| Alternative {
            all: peers.iter().map(|peer| receive(*peer)).collect(),
            more: false,
        };
        let any = any.iter().map(alternative).collect();
        let call = Some("MPI_Wait".into());
        let doing = Doing::Waits {
            call,
            any,
            background: Vec::new(),
            more: false,
            signals: false,
            armed: false,
            sure: true,
            unasked: 0,
        };
        RankView { rank, pid: 1, doing, taking: false, unread: None }
    }

    fn snapshot() -> Snapshot {
        let ranks = vec![
            waits(0, &[&[Some(1)]]),
            waits(1, &[&[Some(0), Some(4)]]),
            waits(2, &[&[Some(4)], &[None]]),
            waits(3, &[&[Some(4)]]),
            RankView { rank: 4, pid: 1, doing: Doing::Runs, taking: false, unread: None },
            waits(5, &[&[Some(4)]]),
        ];
        let nodes = vec![View { ranks, ..View::default() }];
        Snapshot { job: 3, command: "a".into(), ranks: 6, taken_ms: 0, room: None, nodes }
    }

    #[test]
    fn snapshot_graph_groups_equal_waits_and_draws_cycles() {
        let (snapshot, mut text) = (snapshot(), String::new());
        snapshot.put_graph(snapshot.deadlock().as_ref(), &mut text);
        assert_eq!(
            text,
            "wait-for graph:\n  rank 0 -> rank 1\n  rank 1 -> all of ranks 0, 4\n  \
             rank 2 -> any of: rank 4; any rank\n  ranks 3, 5 -> rank 4\n  a cycle: rank 0 -> rank 1 -> rank 0\n"
        );
    }

    #[test]
    fn snapshot_graph_marks_deadlocked_ranks_red() {
        let text = snapshot().dot();
        assert!(text.starts_with("digraph \"job 3\" {\n") && text.ends_with("}\n"), "{text}");
        for line in [
            "  0 [label=\"rank 0\\nMPI_Wait\", color=red];",
            "  1 -> 4 [label=\"receive tag 7\\nMPI_COMM_WORLD\", style=solid, color=red];",
            "  2 -> \"any rank\" [label=\"receive tag 7\\nMPI_COMM_WORLD\", style=dashed];",
            "  4 [label=\"rank 4\\nruns\"];",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.matches(" -> ").count(), 7);
    }
}
