//! Reservations: nodes that only jobs of some users get for a time (`tutti reserve`).
//!
//! ```text
//! Reserve, Unreserve --> kept in a file --> the scheduler is notified --> Done
//!                           '-- no room on the disk: refused, and nothing has changed
//! time passes: one begins or is over --> the scheduler is notified
//! ```
//!
//! The scheduler has the nodes and the time ([`tutti_sched::Reservation`]); names, users and ends are here. A
//! job that names a reservation is kept from the scheduler until that has begun. Jobs that have nodes when a
//! reservation is made keep them. A change is made when the one before is kept.

use std::collections::BTreeSet;

use tutti_protocol::reservation::{RESERVATIONS_MAX, Reservation};
use tutti_protocol::wait_kind::WaitKind;
use tutti_sched::Wait;

use super::Controller;
use super::answers::Asker;
use super::drains::Kept;
use super::job::JobRecord;
use super::placement::named_node;
use super::reserved::Change;
use crate::core::action::Action;
use crate::core::job_event::JobEvent;
use crate::core::local::LocalNode;
use crate::gang::Command;
use crate::members::Members;
use crate::message::{Answer, JobId, Routed, Submit, User};

impl Controller {
    /// The reservations of an earlier incarnation of the controller.
    pub(in crate::core) fn take_reservations(&mut self, all: Vec<Reservation>) {
        self.reservations.all = all;
    }

    /// Word to the scheduler which nodes are reserved.
    pub(in crate::core) fn reserve_command(&mut self, local: &LocalNode) -> Action {
        self.reservations.told = Some(self.reservations.state(local));
        self.reservations.command(local)
    }

    /// Makes a reservation; it is answered when that is kept. Gives what is to be done for that now. If it is
    /// asked for `again`, an earlier controller may have kept it already.
    ///
    /// # Errors
    /// When it cannot be; a text for the user.
    pub(super) fn reserve(
        &mut self,
        local: &LocalNode,
        asker: Asker,
        mut new: Reservation,
        again: bool,
    ) -> Result<Option<Action>, String> {
        let members = self.check_keeper(local, asker.user)?;
        let now_ms = local.wall_ms;
        new.from_ms = new.from_ms.max(now_ms);
        let mut nodes = BTreeSet::new();
        for node in &new.nodes {
            nodes.insert(named_node(members, node).map_err(|error| error.to_string())?.1);
        }
        new.nodes = nodes.into_iter().collect();
        new.users.sort_unstable();
        new.users.dedup();
        new.check(now_ms)?;
        new.by = asker.user.uid;
        let known = self.reservations.of(&new.name, now_ms).filter(|known| again && new.is_same_as(known));
        if let Some(known) = known.cloned() {
            let change = Change { requester: asker.requester, new: Ok(known) };
            return Ok(self.begin_change(local, change));
        }
        let on_their_way = || self.reservations.changes.iter().filter_map(|change| change.new.as_ref().ok());
        let mut others =
            self.reservations.all.iter().filter(|one| !one.is_over(now_ms)).chain(on_their_way());
        if others.clone().any(|one| one.name == new.name) {
            return Err(format!("there is a reservation {} already", new.name));
        }
        if others.clone().count() >= RESERVATIONS_MAX {
            return Err(format!("there are {RESERVATIONS_MAX} reservations, which are as many as may be"));
        }
        if let Some((node, other)) = others.find_map(|one| Some((new.meets(one)?, &one.name))) {
            return Err(format!("{node} is reserved at that time: reservation {other}"));
        }
        // Numbers of reservations that are forgotten are not given again: files of jobs may name them.
        let last = self.reservations.all.iter().chain(on_their_way()).map(|one| one.number).max();
        let clock = u32::try_from(now_ms / 1000).unwrap_or(u32::MAX);
        new.number = clock.max(last.map_or(0, |last| last.saturating_add(1)));
        Ok(self.begin_change(local, Change { requester: asker.requester, new: Ok(new) }))
    }

    /// Removes a reservation; its jobs go on, and its nodes are for all. As above.
    ///
    /// # Errors
    /// When there is none; a text for the user.
    pub(super) fn unreserve(
        &mut self,
        local: &LocalNode,
        asker: Asker,
        name: String,
        again: bool,
    ) -> Result<Option<Action>, String> {
        self.check_keeper(local, asker.user)?;
        if self.reservations.of(&name, local.wall_ms).is_none() && !again {
            return Err(format!("there is no reservation {name}"));
        }
        Ok(self.begin_change(local, Change { requester: asker.requester, new: Err(name) }))
    }

    fn check_keeper<'a>(&self, local: &'a LocalNode, user: User) -> Result<&'a Members, String> {
        if !local.may(user, None) {
            return Err("only the owner of the daemons may reserve nodes".into());
        }
        local.members.as_ref().ok_or_else(|| "this node is not the controller".into())
    }

    fn begin_change(&mut self, local: &LocalNode, change: Change) -> Option<Action> {
        self.reservations.changes.push_back(change);
        let is_only_one = self.reservations.changes.len() == 1;
        self.reservations.write_next(local.wall_ms).filter(|_| is_only_one)
    }

    /// The next change is kept, or cannot be.
    pub(in crate::core) fn handle_reservations_kept(
        &mut self,
        local: &LocalNode,
        kept: Result<(), String>,
    ) -> Option<Kept> {
        let all = self.reservations.changed(local.wall_ms)?;
        let Change { requester, new } = self.reservations.changes.pop_front()?;
        let mut actions = Vec::new();
        let answer = match kept {
            Ok(()) => {
                self.reservations.all = all;
                actions.push(self.reserve_command(local));
                let (event, name) = match new {
                    Ok(new) => ("reserved", new.name),
                    Err(name) => ("unreserved", name),
                };
                actions.push(Action::Log(JobEvent::node(local.wall_ms, event, &name)));
                actions.extend(self.recall_reserved());
                // Jobs whose reservation has come, or is none any more, are not with the scheduler.
                self.retry_waiting();
                Answer::Done
            }
            Err(why) => Answer::Refused(format!("the controller cannot keep it: {why}")),
        };
        self.answers.remember(requester, answer.clone());
        actions.extend(self.reservations.write_next(local.wall_ms));
        let (from, request_id) = requester;
        Some(Kept { actions, answer: Some((from, Routed::answer(request_id, answer))) })
    }

    /// Jobs that name a reservation are asked for anew: theirs may be another one by now.
    fn recall_reserved(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (id, job) in &mut self.jobs.records {
            let names_one = !job.launch.batch.rules().reservation.is_empty();
            if let Some(queued) = job.queued.as_mut().filter(|_| names_one)
                && queued.withdraw()
            {
                actions.push(Action::Gang(Command::Withdraw(*id)));
            }
        }
        actions
    }

    /// Tells the scheduler when a reservation has begun or is over, or the clock was set.
    pub(super) fn pass_reservations(&mut self, local: &LocalNode) -> Option<Action> {
        if self.reservations.is_up_to_date(local) {
            return None;
        }
        self.retry_waiting();
        Some(self.reserve_command(local))
    }

    /// Refuses a job that names a reservation which is none, or not for its user. Gives that.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn check_reservation(
        &self,
        local: &LocalNode,
        user: User,
        submit: &Submit,
    ) -> Result<Option<&Reservation>, String> {
        let name = &submit.batch.rules().reservation;
        if name.is_empty() {
            return Ok(None);
        }
        let Some(found) = self.reservations.of(name, local.wall_ms) else {
            return Err(format!("--reservation: there is no reservation {name}"));
        };
        if !found.is_for(user.uid) && !local.may(user, None) {
            return Err(format!("--reservation: reservation {name} is not for you"));
        }
        Ok(Some(found))
    }

    /// Why a job's reservation keeps it from the scheduler.
    pub(super) fn reservation_text(&self, local: &LocalNode, id: JobId) -> Option<(WaitKind, String)> {
        let name = &self.jobs.get(id)?.launch.batch.rules().reservation;
        let text = self.reservations.text(name, local.wall_ms).filter(|_| !name.is_empty())?;
        Some((WaitKind::Reservation, text))
    }

    /// Number of the reservation in which a job runs.
    pub(super) fn reservation_number(&self, local: &LocalNode, job: &JobRecord) -> Option<u32> {
        let name = &job.launch.batch.rules().reservation;
        let found = self.reservations.of(name, local.wall_ms).filter(|_| !name.is_empty());
        found.map(|found| found.number)
    }

    /// Why a job waits, as people read it, and the kind of that.
    pub(super) fn wait_text(&self, why: &Wait) -> (WaitKind, String) {
        let Wait::Reserved { reservation, .. } = *why else { return (WaitKind::Resources, why.to_string()) };
        let name = self.reservations.all.iter().find(|one| one.number == reservation);
        let name = name.map(|one| format!(": {}", one.name)).unwrap_or_default();
        (WaitKind::Reservation, format!("{why}{name}"))
    }
}
