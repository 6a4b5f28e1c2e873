//! Looks of jobs in all pictures of a timeline: their colours and hatchings, and their tracks in a strip.

use std::collections::BTreeMap;
use std::fmt::Write;

use tutti_svg::COLOURS;

use super::clock::Clock;
use super::log::{History, Node, Span};

/// Which jobs are drawn, and how.
#[derive(Debug, Default)]
pub struct Style {
    /// Place among the colours.
    colours: BTreeMap<u64, usize>,
    /// Jobs that run at the same time on a node share its strip.
    tracks: BTreeMap<u64, usize>,
    /// Of the axis.
    pub clock: Clock,
}

impl Style {
    /// The looks of all jobs that run within a span.
    pub fn new(history: &History, (from, to): Span) -> Self {
        let mut style = Style { clock: Clock::of_system(from), ..Style::default() };
        let here = |id: &u64| {
            let job = &history.jobs[id];
            job.submitted_us < to && job.over_us.is_none_or(|over| over > from)
        };
        let stays: Vec<Stays<'_>> = history.nodes.iter().map(Stays::of).collect();
        for &id in history.jobs.keys().filter(|id| here(id)) {
            style.colours.insert(id, style.colours.len());
            let beside = stays.iter().flat_map(|stays| stays.beside(id));
            let taken: Vec<usize> = beside.filter_map(|other| style.tracks.get(&other).copied()).collect();
            let free = (0..).find(|track| !taken.contains(track)).unwrap_or(0);
            style.tracks.insert(id, free);
        }
        style
    }

    /// The jobs, by number.
    pub fn jobs(&self) -> impl Iterator<Item = u64> {
        self.colours.keys().copied()
    }

    /// Track of a job in the strips of its nodes, from 0; none: it does not run within the span.
    pub fn track(&self, job: u64) -> Option<usize> {
        self.tracks.get(&job).copied()
    }

    /// Colour or hatching that a job is filled with.
    pub fn fill(&self, job: u64) -> String {
        let index = self.colours.get(&job).copied().unwrap_or(0);
        match index / COLOURS.len() % 3 {
            0 => COLOURS[index % COLOURS.len()].to_owned(),
            kind => format!("url(#hatch{kind}-{})", index % COLOURS.len()),
        }
    }

    /// The hatchings.
    pub fn patterns() -> String {
        let mut text = String::from("<defs>\n");
        for (index, colour) in COLOURS.iter().enumerate() {
            _ = writeln!(
                text,
                "<pattern id=\"hatch1-{index}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
                 <rect width=\"6\" height=\"6\" fill=\"white\"/><rect width=\"3.5\" height=\"6\" fill=\"{colour}\"/></pattern>\n\
                 <pattern id=\"hatch2-{index}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
                 <rect width=\"5\" height=\"5\" fill=\"{colour}\"/><circle cx=\"2.5\" cy=\"2.5\" r=\"1.3\" fill=\"white\"/></pattern>"
            );
        }
        text.push_str(
            "<pattern id=\"lost\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
             <rect width=\"7\" height=\"7\" fill=\"#ddd\"/><rect width=\"2\" height=\"7\" fill=\"#888\"/></pattern>\n</defs>\n",
        );
        text
    }
}

/// Jobs of a node by the time from their first run to the end of their last one: of ten thousand a few were
/// there at the same time.
struct Stays<'a> {
    node: &'a Node,
    /// Begin and end of each, and the latest end up to it, by begin.
    spans: Vec<(Span, u64, u64)>,
}

impl<'a> Stays<'a> {
    fn of(node: &'a Node) -> Self {
        let whole = |(job, runs): (&u64, &Vec<Span>)| {
            Some(((runs.first()?.0, runs.iter().map(|run| run.1).max()?), *job))
        };
        let mut found: Vec<(Span, u64)> = node.runs.iter().filter_map(whole).collect();
        found.sort_unstable();
        let mut latest = 0;
        let spans = found.into_iter().map(|(span, job)| {
            latest = latest.max(span.1);
            (span, job, latest)
        });
        Stays { node, spans: spans.collect() }
    }

    /// The jobs that ran together with this one.
    fn beside(&self, id: u64) -> impl Iterator<Item = u64> {
        let runs = self.node.runs.get(&id).map(Vec::as_slice).unwrap_or_default();
        let (from, to) =
            (runs.first().map_or(0, |run| run.0), runs.iter().map(|run| run.1).max().unwrap_or(0));
        let before = self.spans.partition_point(|(span, ..)| span.0 < to);
        let open = self.spans[..before].iter().rev().take_while(move |(.., latest)| *latest > from);
        open.map(|(_, job, _)| *job).filter(move |job| *job != id && run_together(self.node, id, *job))
    }
}

/// For more than a quarter of the time of the shorter one: overlap in a switch does not count, nor the end of
/// a job whose parts have ended one after the other.
fn run_together(node: &Node, one: u64, other: u64) -> bool {
    let (Some(a), Some(b)) = (node.runs.get(&one), node.runs.get(&other)) else { return false };
    let sum = |runs: &[Span]| runs.iter().map(|(from, to)| to - from).sum::<u64>();
    let (mut i, mut j, mut both) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        both += a[i].1.min(b[j].1).saturating_sub(a[i].0.max(b[j].0));
        if a[i].1 < b[j].1 { i += 1 } else { j += 1 }
    }
    both * 4 > sum(a).min(sum(b))
}

#[cfg(test)]
mod tests {
    use tutti_testkit::{Random, seed};

    use super::*;
    use crate::timeline::log::Job;

    #[test]
    fn timeline_tracks_are_those_that_a_look_at_all_pairs_of_jobs_gives() {
        let seed = seed();
        let mut random = Random::new(seed);
        for round in 0..50 {
            let mut history = History::default();
            let names = ["a", "b", "c"];
            history.nodes.extend(names.map(|name| Node { name: name.into(), ..Node::default() }));
            for id in 1..=40 {
                let begin = random.below(2000);
                for node in &mut history.nodes {
                    let mut at = begin;
                    let runs = (0..random.below(5)).map(|_| {
                        let from = at + random.below(60);
                        at = from + 1 + random.below(80);
                        (from, at)
                    });
                    node.runs.insert(id, runs.collect());
                }
                history.jobs.insert(id, Job { submitted_us: begin, ..Job::default() });
            }
            let mut expected: BTreeMap<u64, usize> = BTreeMap::new();
            for id in 1..=40 {
                let together = |other: u64| history.nodes.iter().any(|node| run_together(node, id, other));
                let taken: Vec<usize> =
                    expected.iter().filter(|(other, _)| together(**other)).map(|(_, track)| *track).collect();
                expected.insert(id, (0..).find(|track| !taken.contains(track)).expect("one is free"));
            }
            assert_eq!(Style::new(&history, (0, 10_000)).tracks, expected, "seed {seed}, round {round}");
        }
    }
}
