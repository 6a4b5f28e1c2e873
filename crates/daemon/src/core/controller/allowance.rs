//! Limits of users and groups (`[limits]` of the configuration), and what queues give.
//!
//! ```text
//! submitted --never possible--> refused, one line with the limit and its place
//!           --not now---------> filed, not asked for at the scheduler: "waits: alice has 16 of 16 slots"
//!           --else------------> the scheduler is asked for it
//! ```
//!
//! What counts is what the jobs have that the scheduler has been asked for, and those that run already. A job
//! ends: those that wait are looked at anew, in their order. A limit that is lowered ends nobody. Limits are
//! for jobs that are given to the cluster; one that its `mpiexec` has started runs on without turns.

use std::collections::BTreeMap;

use tutti_protocol::config::{Rules, Scope, Value};
use tutti_protocol::size;
use tutti_sched::{Demand, Place, WEIGHT_DEFAULT};

use super::Controller;
use super::arrays::FullArrays;
use super::job::JobRecord;
use crate::core::local::LocalNode;
use crate::members::{Members, NodeId};
use crate::message::{Account, Change, Host, JobId, Launch, Submit, User};
use tutti_protocol::config::schema::MEMORY_PER_NODE;
use tutti_protocol::config::values::duration_text;

/// Amounts that a job, or all jobs of somebody, have of what is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Use {
    ranks: u64,
    slots: u64,
    nodes: u64,
    memory: u64,
    jobs: u64,
}

/// Amounts that are counted, by their names in the file.
const COUNTED: [&str; 5] = ["ranks", "slots", "nodes", "memory", "jobs"];

impl Use {
    fn get(&self, name: &str) -> u64 {
        match name {
            "ranks" => self.ranks,
            "slots" => self.slots,
            "nodes" => self.nodes,
            "memory" => self.memory,
            _ => self.jobs,
        }
    }

    fn add(&mut self, other: Use) {
        self.ranks += other.ranks;
        self.slots += other.slots;
        self.nodes += other.nodes;
        self.memory = self.memory.saturating_add(other.memory);
        self.jobs += other.jobs;
    }

    /// Asks for no less of anything.
    fn is_no_less_than(&self, other: &Use) -> bool {
        COUNTED.iter().all(|name| self.get(name) >= other.get(name))
    }

    /// Of a job that has its nodes.
    fn placed(members: &Members, launch: &Launch) -> Self {
        if launch.steps.owner.is_some() {
            // It has what its job has.
            return Use::default();
        }
        let slots = |(node, ranks): &(NodeId, u64)| {
            let slots = members.nodes.get(node).map_or(u64::MAX, |member| u64::from(member.about.slots));
            *ranks.min(&slots)
        };
        let places = launch.places();
        let nodes = places.len() as u64;
        Use {
            ranks: launch.ranks(),
            slots: places.iter().map(slots).sum(),
            nodes,
            memory: launch.terms.memory_bytes.saturating_mul(nodes),
            jobs: 1,
        }
    }

    /// Of a job that asks for nodes: on as many as it may get.
    fn asked(members: &Members, demand: &Demand) -> Self {
        let ranks = demand.place.ranks();
        let all: u64 = members.alive().map(|(_, member)| u64::from(member.about.slots)).sum();
        let nodes = match &demand.place {
            Place::Any { nodes, .. } => u64::from(*nodes),
            Place::PerNode { per_node, ranks } => u64::from(ranks.div_ceil((*per_node).max(1))),
            Place::Given(parts) => parts.len() as u64,
            Place::Fewest { .. } => {
                let least = members.alive().map(|(_, member)| u64::from(member.about.slots.max(1))).min();
                ranks.div_ceil(least.unwrap_or(1)).clamp(1, members.alive().count().max(1) as u64)
            }
        };
        let memory = demand.memory_bytes.saturating_mul(nodes);
        Use { ranks, slots: ranks.min(all), nodes, memory, jobs: 1 }
    }
}

/// Accounts that have had as much as they may while waiting jobs were looked at one after the other: the
/// first that did not fit, and why. Whoever asks for no less does not fit either, and is not worth another
/// count of all jobs: a user may have thousands that wait.
#[derive(Debug, Default)]
pub(super) struct Full {
    accounts: BTreeMap<Account, (Use, String)>,
    pub(super) arrays: FullArrays,
}

/// A user or group in words.
fn owner(scope: &Scope, name: &str) -> String {
    match scope {
        Scope::Group(group) => format!("group {group}"),
        Scope::Each | Scope::User(_) => name.to_owned(),
    }
}

/// An amount of what is limited.
fn amount(name: &str, value: u64) -> String {
    if name == "memory" { size::text(value) } else { value.to_string() }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Count(number) | Value::Ms(number) | Value::Bytes(number) => *number,
        _ => 0,
    }
}

/// A user as the rules know him.
#[derive(Debug)]
struct Person {
    account: Account,
    name: Option<String>,
    group: Option<String>,
}

impl Person {
    fn of(local: &LocalNode, user: User) -> Self {
        let account = user.account();
        let (name, group) = ((local.config.user_name)(account.uid), (local.config.group_name)(account.gid));
        Person { account, name, group }
    }

    fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("user {}", self.account.uid))
    }

    fn limits(&self, rules: &Rules, name: &str) -> Vec<(Scope, u64, String)> {
        // Numbers are names too, where there is no other.
        let user = self.name.clone().unwrap_or_else(|| self.account.uid.to_string());
        let group = self.group.clone().unwrap_or_else(|| self.account.gid.to_string());
        let limits = rules.limits_of(Some(&user), Some(&group), name);
        limits.into_iter().map(|(scope, value, place)| (scope, number(&value), place)).collect()
    }
}

/// A job gets what its queue gives.
///
/// # Errors
/// When there is no such queue, or the job wants more than it has: a text for the user.
pub(super) fn enter_queue(rules: &Rules, submit: &mut Submit) -> Result<(), String> {
    let given = submit.batch.weight;
    submit.batch.time_from.clear();
    submit.terms.weight = given.unwrap_or(submit.terms.weight);
    let name = submit.batch.queue.clone();
    if name.is_empty() {
        return Ok(());
    }
    let Some(queue) = rules.queues.get(&name) else {
        let known: Vec<&str> = rules.queues.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(format!("there is no queue {name:?}; there are: {known}"));
    };
    submit.terms.weight = given.or(queue.weight()).unwrap_or(WEIGHT_DEFAULT);
    submit.terms.exclusive |= queue.exclusive();
    if let Some(most_ms) = queue.time_ms() {
        let line = queue.0.line("time");
        bound_time(submit, most_ms, &format!("[queue.{name}] in {}:{line}", rules.path))?;
    }
    if queue.nodes().is_empty() {
        return Ok(());
    }
    if let Some(host) = submit.hosts.iter().find(|host| !queue.nodes().contains(&host.name)) {
        return Err(format!("node {} is not one of queue {name}: {}", host.name, queue.nodes().join(", ")));
    }
    if submit.hosts.is_empty() {
        let host = |node: &String| Host { name: node.clone(), ranks: None };
        submit.hosts = queue.nodes().iter().map(host).collect();
    }
    Ok(())
}

/// A job without a time limit has this one, and none has a longer one.
fn bound_time(submit: &mut Submit, most_ms: u64, place: &str) -> Result<(), String> {
    match submit.batch.limit() {
        Some((ms, option)) if ms > most_ms => Err(format!(
            "{option}: {} is more than the {} of {place}",
            duration_text(ms),
            duration_text(most_ms)
        )),
        Some(_) => Ok(()),
        None => {
            submit.batch.time_ms = Some(most_ms);
            submit.batch.time_from = place.to_owned();
            Ok(())
        }
    }
}

impl Controller {
    /// Limits that a job keeps or not, whatever others have.
    ///
    /// # Errors
    /// When the job could never run: a text for the user.
    pub(super) fn check_terms(
        &self,
        local: &LocalNode,
        user: User,
        submit: &mut Submit,
        jobs: u64,
    ) -> Result<(), String> {
        let (rules, person) = (&self.rules, Person::of(local, user));
        for (_, most_ms, place) in person.limits(rules, "time") {
            bound_time(submit, most_ms, &place)?;
        }
        self.check_weight(&person, submit.terms.weight)?;
        if submit.terms.exclusive {
            let name = person.name.clone().unwrap_or_default();
            let of = rules.limits_of(Some(&name), person.group.as_deref(), "exclusive");
            if let Some((scope, _, place)) = of.iter().find(|(_, value, _)| *value == Value::Switch(false)) {
                let whose = owner(scope, &person.shown());
                return Err(format!("{whose} may have no nodes alone (--exclusive): {place}"));
            }
        }
        if let Some((scope, _, place)) = person.limits(rules, "memory").first()
            && submit.terms.memory_bytes == 0
        {
            let whose = owner(scope, &person.shown());
            return Err(format!(
                "the memory of {whose} is limited: say what the job needs with --memory ({place})"
            ));
        }
        for (scope, most, place) in person.limits(rules, MEMORY_PER_NODE) {
            if submit.terms.memory_bytes > most {
                let (wanted, whose) = (size::text(submit.terms.memory_bytes), owner(&scope, &person.shown()));
                let most = size::text(most);
                return Err(format!(
                    "--memory: {wanted} is more than the {most} that {whose} may have on a node: {place}"
                ));
            }
        }
        for (scope, most, place) in person.limits(rules, "waiting") {
            let is_his = |job: &&JobRecord| is_in(&scope, user, job.launch.user);
            let waiting = self.jobs.records.values().filter(is_his);
            let waiting = waiting.filter(|job| job.queued.is_some() && !job.is_ending()).count() as u64;
            if waiting.saturating_add(jobs) > most {
                let whose = owner(&scope, &person.shown());
                return Err(format!("{whose} has {waiting} of {most} waiting jobs: {place}"));
            }
        }
        Ok(())
    }

    /// Other values of a job are within what its user may have.
    ///
    /// # Errors
    /// When they are not: a text for the user.
    pub(super) fn check_changed(
        &self,
        local: &LocalNode,
        user: User,
        queue: &str,
        change: &Change,
    ) -> Result<(), String> {
        let person = Person::of(local, user);
        if let Some(ms) = change.time_ms {
            let of_queue = self.rules.queues.get(queue).and_then(|of_queue| {
                let place = format!("[queue.{queue}] in {}:{}", self.rules.path, of_queue.0.line("time"));
                Some((of_queue.time_ms()?, place))
            });
            let of_user =
                person.limits(&self.rules, "time").into_iter().map(|(_, most_ms, place)| (most_ms, place));
            for (most_ms, place) in of_queue.into_iter().chain(of_user) {
                if ms > most_ms {
                    let (wanted, most) = (duration_text(ms), duration_text(most_ms));
                    return Err(format!("--time: {wanted} is more than the {most} of {place}"));
                }
            }
        }
        change.weight.map_or(Ok(()), |weight| self.check_weight(&person, weight))
    }

    fn check_weight(&self, person: &Person, weight: u32) -> Result<(), String> {
        for (scope, most, place) in person.limits(&self.rules, "weight_max") {
            if u64::from(weight) > most {
                let whose = owner(&scope, &person.shown());
                return Err(format!("a weight of {weight} is more than the {most} of {whose}: {place}"));
            }
        }
        Ok(())
    }

    /// Refuses a demand for more than the user may ever have.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn check_never(&self, local: &LocalNode, user: User, demand: &Demand) -> Result<(), String> {
        let Some(members) = &local.members else { return Ok(()) };
        let (asked, person) = (Use::asked(members, demand), Person::of(local, user));
        for name in COUNTED {
            for (scope, most, place) in person.limits(&self.rules, name) {
                let wanted = asked.get(name);
                if wanted > most {
                    let whose = owner(&scope, &person.shown());
                    let (wanted, most) = (amount(name, wanted), amount(name, most));
                    return Err(format!(
                        "{name}: {wanted} is more than the {most} that {whose} may have: {place}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Why a job has to wait for others of its user or group.
    pub(super) fn over_limit(&self, local: &LocalNode, id: JobId, full: &mut Full) -> Option<String> {
        let members = local.members.as_ref()?;
        let job = self.jobs.get(id)?;
        let (demand, user) = (job.queued.as_ref()?.demand(), job.launch.user);
        let (asked, account) = (Use::asked(members, demand), user.account());
        if let Some((least, text)) = full.accounts.get(&account)
            && asked.is_no_less_than(least)
        {
            return Some(text.clone());
        }
        if let Some(text) = self.over_with(local, members, user, asked) {
            full.accounts.entry(account).or_insert_with(|| (asked, text.clone()));
            return Some(text);
        }
        self.over_on_nodes(local, members, user, demand)
    }

    /// Why a job has to wait since too few nodes have room for what its user declares. Where it comes to
    /// the scheduler says; the nodes' kernels hold what they are to hold.
    fn over_on_nodes(
        &self,
        local: &LocalNode,
        members: &Members,
        user: User,
        demand: &Demand,
    ) -> Option<String> {
        let person = Person::of(local, user);
        let limits = person.limits(&self.rules, MEMORY_PER_NODE);
        let (scope, most, place) = limits.into_iter().next().filter(|_| demand.memory_bytes > 0)?;
        let declared = |node: &NodeId| {
            let here = self.jobs.records.values().filter(|job| !job.is_over() && job.queued.is_none());
            let here = here.filter(|job| is_in(&scope, user, job.launch.user));
            let here = here.filter(|job| job.launch.nodes.contains(node));
            here.fold(0_u64, |sum, job| sum.saturating_add(job.launch.terms.memory_bytes))
        };
        let (nodes, needed) = match &demand.place {
            Place::Given(parts) => (parts.iter().map(|part| part.0).collect::<Vec<_>>(), parts.len()),
            _ => {
                let alive: Vec<_> = members.alive().map(|(node, _)| node).collect();
                (alive, Use::asked(members, demand).nodes as usize)
            }
        };
        let used = nodes.iter().map(|node| (declared(node), *node));
        let full: Vec<_> = used.filter(|(used, _)| used.saturating_add(demand.memory_bytes) > most).collect();
        if nodes.len() - full.len() >= needed {
            return None;
        }
        let (used, node) = full.into_iter().min().filter(|(used, _)| *used > 0)?;
        let (whose, node) = (owner(&scope, &person.shown()), members.name(node));
        let (used, most) = (size::text(used), size::text(most));
        Some(format!("{whose} has declared {used} of {most} of memory on node {node}: {place}"))
    }

    /// Why a job that runs already takes no turns. What it asks for holds as it would for a submission, and
    /// it asks for nothing that would keep others from its node or that the controller is to see to.
    pub(super) fn refuse_in_place(
        &self,
        local: &LocalNode,
        node: NodeId,
        user: User,
        submit: &Submit,
    ) -> Option<String> {
        let (terms, batch) = (submit.terms, &submit.batch);
        let asks = [
            (terms.exclusive, "--exclusive"),
            (terms.memory_bytes > 0, "--memory"),
            (terms.gpus > 0, "--gpus"),
            (terms.phases.is_some(), "--phases"),
            (terms.fill, "--fill"),
            (batch.limit().is_some(), "--time"),
            (!batch.queue.is_empty(), "--queue"),
            (!batch.after.is_empty(), "--after"),
            (batch.rules().held, "--hold"),
            (batch.rules().begin_ms.is_some(), "--begin"),
            (batch.rules().behind_same_name, "--after-same-name"),
            (!batch.rules().excluded.is_empty(), "--exclude"),
            (batch.warning().is_some(), "--signal"),
            (batch.is_requeued_if_lost(), "--requeue"),
        ];
        if let Some((_, option)) = asks.into_iter().find(|(asks, _)| *asks) {
            return Some(format!("{option} is for jobs that are given to the cluster"));
        }
        let person = Person::of(local, user);
        let text = self.check_weight(&person, terms.weight).err();
        text.or_else(|| self.over_when_enrolled(local, node, user, submit))
    }

    fn over_when_enrolled(
        &self,
        local: &LocalNode,
        node: NodeId,
        user: User,
        submit: &Submit,
    ) -> Option<String> {
        let members = local.members.as_ref()?;
        let demand =
            Demand::at(Place::Given(vec![(node, submit.job.ranks().min(u64::from(u32::MAX)) as u32)]));
        let text = self.check_never(local, user, &demand).err();
        text.or_else(|| self.over_with(local, members, user, Use::asked(members, &demand)))
    }

    fn over_with(&self, local: &LocalNode, members: &Members, user: User, asked: Use) -> Option<String> {
        let rules = &self.rules;
        if !rules.has_limits() {
            return None;
        }
        let person = Person::of(local, user);
        for name in COUNTED {
            for (scope, most, place) in person.limits(rules, name) {
                let used = self.used(members, &scope, user).get(name);
                if used.saturating_add(asked.get(name)) > most {
                    let whose = owner(&scope, &person.shown());
                    let (used, most) = (amount(name, used), amount(name, most));
                    return Some(format!("{whose} has {used} of {most} {name}: {place}"));
                }
            }
        }
        None
    }

    /// Amounts that the jobs have that the scheduler has been asked for, or that run.
    fn used(&self, members: &Members, scope: &Scope, user: User) -> Use {
        let mut sum = Use::default();
        for job in
            self.jobs.records.values().filter(|job| !job.is_over() && is_in(scope, user, job.launch.user))
        {
            match &job.queued {
                Some(queued) if queued.is_submitted() => sum.add(Use::asked(members, queued.demand())),
                Some(_) => {}
                None => sum.add(Use::placed(members, &job.launch)),
            }
        }
        sum
    }
}

/// The limits of a user are those of another's jobs too.
fn is_in(scope: &Scope, user: User, other: User) -> bool {
    match scope {
        Scope::Each | Scope::User(_) => user.account().uid == other.account().uid,
        Scope::Group(_) => user.account().gid == other.account().gid,
    }
}
