//! Shares of jobs: names of the configuration become numbers when a job is given to the scheduler, and
//! again when the configuration is another.

use std::collections::BTreeMap;

use tutti_protocol::config::rules::SHARE_DEFAULT;
use tutti_protocol::users::{Place, Prices};
use tutti_sched::JobId;
use tutti_sched::shares::Owner;

use super::Controller;
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::local::LocalNode;
use crate::gang::{Command, ServedReport};
use crate::message::User;

impl Controller {
    /// Owner of a user's jobs, with what he may have beside others.
    pub(super) fn owner(&self, local: &LocalNode, user: User) -> Owner {
        let account = user.account();
        let (users, groups) = (&self.rules.user_shares, &self.rules.group_shares);
        let look_up =
            |name: fn(u32) -> Option<String>, number: u32| name(number).unwrap_or(number.to_string());
        let share =
            (!users.is_empty()).then(|| users.get(&look_up(local.config.user_name, account.uid)).copied());
        let group = (!groups.is_empty()).then(|| groups.get(&look_up(local.config.group_name, account.gid)));
        Owner {
            user: account.uid,
            share: share.flatten().unwrap_or(SHARE_DEFAULT),
            group: group.flatten().map(|share| (account.gid, *share)),
        }
    }

    /// The configuration is another: so may be the shares of those that the scheduler has.
    pub(super) fn tell_owners(&self, cx: Context<'_>) {
        for (id, job) in self.jobs.records.iter().filter(|(_, job)| !job.is_over()) {
            cx.out.act(Action::Gang(Command::Owner(*id, self.owner(cx.local, job.launch.user))));
        }
    }

    pub(super) fn prices(&self) -> Prices {
        let mut places = places(&self.served);
        for (job, messages) in self.messages.all() {
            match places.binary_search_by_key(&job, |place| place.job) {
                Ok(at) => places[at].messages = messages,
                Err(at) => places.insert(at, Place { job, messages, ..Place::default() }),
            }
        }
        let ServedReport { processor, users, prices, left_out, .. } = self.served.clone();
        let half_life_ms = self.rules.half_life_ms();
        let (sharers, hides_others) = self.sharers.clone();
        Prices { processor, half_life_ms, users, nodes: prices, left_out, places, sharers, hides_others }
    }

    /// Daemons of other users share this machine with this one, or no more.
    pub(in crate::core) fn set_sharers(&mut self, sharers: Vec<u32>, hides_others: bool) {
        self.sharers = (sharers, hides_others);
    }
}

/// Time that jobs have had, and where they are in the matrix, by number.
fn places(served: &ServedReport) -> Vec<Place> {
    let place = |job: JobId| Place { job, ..Place::default() };
    let mut places: BTreeMap<JobId, Place> = BTreeMap::new();
    for one in &served.jobs {
        places.insert(one.job, Place { served_ms: one.served_ms, ..place(one.job) });
    }
    for (row, job) in &served.rows {
        places.entry(*job).or_insert_with(|| place(*job)).rows.push(*row);
    }
    for (job, node, slots) in &served.slots {
        let slots = (*node, slots.iter().collect());
        places.entry(*job).or_insert_with(|| place(*job)).slots.push(slots);
    }
    places.into_values().collect()
}
