//! Parts of the time that jobs ask for and have, and messages that they send, from reports of the last
//! seconds.

use std::collections::{BTreeMap, VecDeque};

use tutti_protocol::users::{self as reported, JobRow, JobState};

use super::{Answers, Place};

/// Reports that a share is taken over, at most, in ms: long enough for turns of a second.
pub(super) const WINDOW_MS: u64 = 10_000;
/// Shortest time that a share needs: the daemon says once a second what jobs have had.
const WINDOW_MIN_MS: u64 = 2000;

/// Use of a job in an earlier report.
#[derive(Clone, Copy, Debug)]
struct Had {
    served_ms: u64,
    messages: u64,
}

/// Earlier use of jobs: by report its moment, and by job.
#[derive(Clone, Debug, Default)]
pub struct Before {
    reports: VecDeque<(u64, BTreeMap<u64, Had>)>,
}

impl Before {
    /// Keeps a report for the next ones.
    pub fn add(&mut self, answers: &Answers) {
        // A clock that was set back makes the old ones useless.
        let is_old = |at_ms: u64| at_ms > answers.at_ms || at_ms + WINDOW_MS < answers.at_ms;
        while self.reports.front().is_some_and(|(at_ms, _)| is_old(*at_ms)) {
            self.reports.pop_front();
        }
        let had = |place: &reported::Place| {
            (place.job.0, Had { served_ms: place.served_ms, messages: place.messages })
        };
        self.reports.push_back((answers.at_ms, answers.prices.places.iter().map(had).collect()));
    }

    /// Number of reports that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.reports.len()
    }

    /// Part of the time that a job has had, in thousandths; none: it takes no turns, or that is not known.
    pub(super) fn had_permille(
        &self,
        at_ms: u64,
        row: &JobRow,
        place: &Place,
        row_count: u32,
    ) -> Option<u32> {
        if !row.gang || row.state != JobState::Running {
            return None;
        }
        // The daemon need not count what is never interrupted.
        if row_count > 0 && place.rows.len() as u32 == row_count {
            return Some(1000);
        }
        self.permille(at_ms, row, place.served_ms)
    }

    /// Thousandths of the time from the oldest report that has the job to this one; of the time since its
    /// start where there is none.
    fn permille(&self, at_ms: u64, row: &JobRow, served_ms: u64) -> Option<u32> {
        let part = |had_ms: u64, time_ms: u64| {
            (u128::from(had_ms) * 1000 / u128::from(time_ms.max(1))).min(1000) as u32
        };
        let known = |(then_ms, had): &(u64, BTreeMap<u64, Had>)| {
            let time_ms = at_ms.checked_sub(*then_ms).filter(|time_ms| *time_ms >= WINDOW_MIN_MS)?;
            // A new controller counts from 0 on.
            let had_ms = served_ms.checked_sub(had.get(&row.job.0)?.served_ms)?;
            Some(part(had_ms, time_ms))
        };
        let since_start = || {
            let time_ms = at_ms.checked_sub(row.started_ms?).filter(|time_ms| *time_ms >= WINDOW_MIN_MS)?;
            Some(part(served_ms, time_ms))
        };
        self.reports.iter().find_map(known).or_else(since_start)
    }

    /// Messages of a job in a second, since the oldest report that has it.
    pub(super) fn messages_per_s(&self, at_ms: u64, job: u64, messages: u64) -> Option<u64> {
        let known = |(then_ms, had): &(u64, BTreeMap<u64, Had>)| {
            let time_ms = at_ms.checked_sub(*then_ms).filter(|time_ms| *time_ms >= WINDOW_MIN_MS)?;
            // A process that has taken the place of another one counts from 0 on.
            let sent = messages.checked_sub(had.get(&job)?.messages)?;
            u64::try_from(u128::from(sent) * 1000 / u128::from(time_ms)).ok()
        };
        self.reports.iter().find_map(known)
    }
}

/// A job that takes its turns and runs.
fn takes_turns(row: &JobRow) -> bool {
    row.gang && !row.fill && row.state == JobState::Running
}

/// Of each job that takes turns the least part of the weights in one of its slots, in thousandths.
pub(super) fn asked_permille(rows: &[JobRow], places: &BTreeMap<u64, Place>) -> BTreeMap<u64, u32> {
    let all = |row: &JobRow| places.get(&row.job.0).map_or(&[][..], |place| &place.slots);
    let mut weights: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| takes_turns(row)) {
        for (node, slots) in all(row) {
            for slot in slots {
                *weights.entry((node, *slot)).or_default() += u64::from(row.weight);
            }
        }
    }
    let mut asked = BTreeMap::new();
    for row in rows.iter().filter(|row| takes_turns(row)) {
        let all = all(row).iter().flat_map(|(node, slots)| slots.iter().map(move |slot| (node, *slot)));
        let most = all.filter_map(|(node, slot)| weights.get(&(node.as_str(), slot))).max();
        if let Some(most) = most.filter(|most| **most > 0) {
            asked.insert(row.job.0, (u64::from(row.weight) * 1000 / most) as u32);
        }
    }
    asked
}
