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
        for &id in history.jobs.keys().filter(|id| here(id)) {
            style.colours.insert(id, style.colours.len());
            let taken: Vec<usize> = style
                .tracks
                .iter()
                .filter(|(other, _)| history.nodes.iter().any(|node| run_together(node, id, **other)))
                .map(|(_, track)| *track)
                .collect();
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
