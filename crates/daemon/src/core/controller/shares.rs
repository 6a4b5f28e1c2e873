//! Whose share a job has: names of the configuration become numbers when a job is given to the scheduler, and
//! again when the configuration is another.

use tutti_protocol::config::rules::SHARE_DEFAULT;
use tutti_protocol::users::Prices;
use tutti_sched::shares::Owner;

use super::Controller;
use crate::core::action::Action;
use crate::core::local::LocalNode;
use crate::core::outbox::Outbox;
use crate::gang::{Command, ServedReport};
use crate::message::User;

impl Controller {
    /// What a user may have beside others.
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
    pub(super) fn tell_owners(&self, local: &LocalNode, out: &mut Outbox) {
        for (id, job) in self.jobs.records.iter().filter(|(_, job)| !job.over) {
            out.act(Action::Gang(Command::Owner(*id, self.owner(local, job.launch.user))));
        }
    }

    pub(super) fn prices(&self) -> Prices {
        let ServedReport { processor, users, prices, left_out, .. } = self.served.clone();
        Prices { processor, half_life_ms: self.rules.half_life_ms(), users, nodes: prices, left_out }
    }
}
