//! Launches that are connected to each other (MPI_Comm_connect, MPI_Comm_join): the scheduler brings them to
//! the same turns where their slots allow.
//!
//! ```text
//! rank --public number of the other launch--> starter --> PartState::connected --> JobRecord::connected
//!      --> a pair, if both say so of each other, for one user --> Command::Connected --> scheduler
//! ```
//!
//! A starter is its user's, who may say anything in its place. So a word counts only for jobs that the
//! controller knows, that run for the same user by the kernel's word, and that both say it: a lie moves the
//! liar's own jobs alone. Pairs are told as they change. They follow from what the parts say, so a controller
//! that has just begun finds them anew.

use std::collections::{BTreeMap, BTreeSet};

use super::job::JobRecord;
use super::{Controller, log};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::gang::Command;
use crate::message::JobId;

/// Pairs of a user that count. The others' launches have turns of their own.
const PAIRS_MAX: usize = 64;

/// Two jobs, the lower number first.
pub(super) type Pair = (JobId, JobId);

impl Controller {
    /// A job is connected to others than before.
    pub(super) fn settle_connections(&mut self, cx: Context<'_>) {
        let jobs = || self.jobs.records.values().filter(|job| job.connected.others().next().is_some());
        let by_number: BTreeMap<(u32, u64), &JobRecord> =
            jobs().map(|job| ((job.launch.user.uid, job.connected.own()), job)).collect();
        let mut pairs = BTreeSet::new();
        let mut of_users: BTreeMap<u32, usize> = BTreeMap::new();
        for job in jobs() {
            let uid = job.launch.user.uid;
            let others = job.connected.others().filter_map(|number| by_number.get(&(uid, number)));
            for other in others.filter(|other| other.id > job.id && other.connected.has(&job.connected)) {
                let count = of_users.entry(uid).or_default();
                if *count < PAIRS_MAX && pairs.insert((job.id, other.id)) {
                    *count += 1;
                }
            }
        }
        let tell = |(one, other): &Pair, connected| {
            cx.out.act(Action::Gang(Command::Connected(*one, *other, connected)));
        };
        self.connections.difference(&pairs).for_each(|pair| tell(pair, false));
        pairs.difference(&self.connections).for_each(|pair| tell(pair, true));
        let before = std::mem::replace(&mut self.connections, pairs.clone());
        before.difference(&pairs).for_each(|pair| self.log_connection(cx, *pair, false));
        pairs.difference(&before).for_each(|pair| self.log_connection(cx, *pair, true));
    }

    /// Both jobs have a line of it, unless they are over, or have had many.
    fn log_connection(&mut self, cx: Context<'_>, (one, other): Pair, connected: bool) {
        let (event, what) =
            if connected { ("connected", "connected to") } else { ("parted", "no longer connected to") };
        for (job, with) in [(one, other), (other, one)] {
            let Some(record) = self.jobs.get_mut(job).filter(|record| !record.is_over()) else { continue };
            if record.connected.take_line() {
                let text = format!("{what} job {with}");
                log::log(cx, job, JobEvent { event, text, ..JobEvent::default() });
            }
        }
    }

    /// The jobs that a job is connected to.
    pub(super) fn connected_to(&self, job: JobId) -> Vec<JobId> {
        let others = self.connections.iter().filter_map(|(one, other)| match job {
            job if job == *one => Some(*other),
            job if job == *other => Some(*one),
            _ => None,
        });
        others.collect()
    }
}
