//! Rest of a job that is over: what the list needs of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_protocol::wire::{Inherits, Program};

use super::JobRecord;
use crate::message::Launch;

/// A directory of a job that is over: no path is longer.
const DIRECTORY_BYTES_MAX: usize = 4 << 10;

impl JobRecord {
    /// Drops what the list does not need: what its user has said at length, and what became of each rank, is
    /// not kept.
    pub(in crate::core::controller) fn shed(&mut self) {
        let ranks = self.launch.job.ranks();
        let mut launch = Launch::clone(&self.launch);
        launch.environment.clear();
        launch.groups = Vec::new();
        launch.session = None;
        launch.set_demand(None);
        // The names of its output are shown below it.
        if launch.directory.as_bytes().len() > DIRECTORY_BYTES_MAX {
            launch.directory = "".into();
        }
        launch.job.programs.truncate(1);
        launch.job.programs.shrink_to_fit();
        for program in &mut launch.job.programs {
            *program = Program {
                file: "".into(),
                arguments: Vec::new(),
                // No job has more.
                ranks: u32::try_from(ranks).unwrap_or(u32::MAX),
                directory: None,
                inherits: Inherits::All,
                variables: Vec::new(),
            };
        }
        self.launch = Arc::new(launch);
        (self.order.launch, self.order.peers, self.order.stuck) = (None, None, None);
        (self.order.fence, self.order.signals) = (Arc::default(), Vec::new());
        self.order.spawn = Arc::default();
        self.reports.clear();
        (self.reported, self.reported_left) = (BTreeMap::new(), BTreeSet::new());
        self.news.left = Vec::new();
        self.counted = BTreeMap::new();
        self.end.shed();
    }

    /// Memory that it takes when it is over, about.
    pub(in crate::core::controller) fn held_bytes(&self) -> usize {
        let output: usize = self
            .launch
            .output
            .iter()
            .flat_map(|output| output.out.iter().chain(&output.errors))
            .map(|name| name.as_bytes().len())
            .sum();
        let texts = self.command.len() + self.end.cause().map_or(0, str::len) + output;
        size_of::<Self>() + size_of::<Launch>() + texts + self.launch.memory_bytes_held()
    }
}

/// Cuts a text that is longer.
pub(in crate::core::controller) fn shorten(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str("...");
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let cut = |text: &str, bytes| {
            let mut text = text.to_owned();
            shorten(&mut text, bytes);
            text
        };
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 4), "long...");
        assert_eq!(cut("\u{e4}\u{e4}\u{e4}", 3), "\u{e4}...");
    }
}
