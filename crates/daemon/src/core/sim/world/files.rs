//! Output files of submitted jobs: no byte twice, none out of order, and of a job that has ended well none is
//! missing.

use std::collections::BTreeMap;

use tutti_protocol::writer::Open;

use super::{Next, World};
use crate::core::event::{Event, WriterEvent};
use crate::core::sim::writer::Writer;
use crate::message::JobId;
use crate::message::output::is_of_ranks;

impl World {
    pub(super) fn open_files(&mut self, node: usize, job: JobId, open: &Open) {
        let incarnation = self.machines[node].incarnation;
        self.machines[node].writers.insert(job, Writer::new(open.clone()));
        self.later(40, Next::Writer(node, incarnation, job));
    }

    pub(super) fn write_files(&mut self, node: usize, job: JobId, frames: &[u8]) {
        let incarnation = self.machines[node].incarnation;
        if let Some(writer) = self.machines[node].writers.get_mut(&job) {
            writer.put(frames);
            self.later(20, Next::Writer(node, incarnation, job));
        }
    }

    pub(super) fn step_writer(&mut self, node: usize, job: JobId) {
        let dies = !self.peace && self.random.below(100) == 0;
        let bytes = if dies { self.random.below(3000) as usize } else { usize::MAX };
        let machine = &mut self.machines[node];
        let Some(writer) = machine.writers.get_mut(&job) else { return };
        let event = writer.step(machine.disk.entry(job).or_default(), bytes);
        if dies {
            machine.writers.remove(&job);
            self.deliver(node, Event::Writer(job, WriterEvent::Gone("killed".into())));
        } else if let Some(event) = event {
            self.deliver(node, Event::Writer(job, event));
        }
    }

    /// A daemon dies: its writers write a part of what they have, and end before another opens anything.
    pub(super) fn end_writers(&mut self, node: usize) {
        for (job, mut writer) in std::mem::take(&mut self.machines[node].writers) {
            let bytes = if self.random.below(2) == 0 { usize::MAX } else { self.random.below(3000) as usize };
            let files = self.machines[node].disk.entry(job).or_default();
            let _ = writer.step(files, bytes);
        }
    }

    pub(super) fn check_files(&self) {
        let Some(controller) =
            self.machines[0].core.as_ref().and_then(|core| core.subsystems.controller.as_ref())
        else {
            return;
        };
        for (job, launch) in &self.launches {
            let Some(output) = launch.output.as_ref().filter(|_| launch.detached) else { continue };
            let of_ranks = is_of_ranks(output.out.as_ref().expect("a pattern").as_bytes());
            let origin = self.machines.iter().position(|machine| machine.disk.contains_key(job));
            let files = origin.map_or(&[][..], |origin| &self.machines[origin].disk[job]);
            let is_complete = controller.is_complete(*job);
            let parts = self.lines.iter().filter(|((of, _), _)| of == job);
            let lines: BTreeMap<u64, u64> =
                parts.flat_map(|(_, (ranks, lines))| ranks.clone().map(|rank| (rank, *lines))).collect();
            if of_ranks {
                for (rank, lines) in lines {
                    let tokens = files.get(rank as usize).map_or_else(Vec::new, |file| tokens(file));
                    // The last one may not be whole.
                    let whole = tokens.len().saturating_sub(usize::from(!is_complete));
                    let expected: Vec<u64> = (0..whole as u64).collect();
                    assert_eq!(&tokens[..whole], expected, "output of rank {rank} of job {job}");
                    assert!(
                        !is_complete || tokens.len() as u64 == lines,
                        "rank {rank} of job {job}: {tokens:?} of {lines}"
                    );
                }
            } else if is_complete {
                let mut found = files.first().map_or_else(Vec::new, |file| tokens(file));
                let mut expected: Vec<u64> = lines.values().flat_map(|lines| 0..*lines).collect();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "output of job {job}");
            }
        }
    }
}

/// The numbers of the frames in a file.
fn tokens(file: &[u8]) -> Vec<u64> {
    let text = std::str::from_utf8(file).expect("text");
    let words = text.split(['x', ' ']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().expect("a number")).collect()
}
