//! Reports of the daemon of this node and those of other users report at one moment, and what follows from
//! it: jobs with the shares that they ask for and have, nodes, users. Pure: no clock, no socket.
//!
//! | value | from |
//! |---|---|
//! | share asked | the job's weight over those of all jobs that have one of its slots too; the least of its slots |
//! | messages a second | growth of [`reported::Place::messages`] since a report of the last ten seconds |
//! | share had | growth of [`reported::Place::served_ms`] since a report of the last ten seconds, or since the job's start; a job in every row has all |

mod shares;

use std::collections::{BTreeMap, BTreeSet};

use crate::filter::Filter;
use crate::{states, users};
use tutti_protocol::public::PublicRow;
use tutti_protocol::settings::Setting;
use tutti_protocol::users::watch::Picture;
use tutti_protocol::users::{self as reported, JobRow, JobState, NodeRow, Prices, SuspendedBy};
use tutti_sched::NodeId;
use tutti_sched::shares::Standing;

pub use shares::Before;
use shares::asked_permille;

/// Answers at one moment.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// When, in ms since 1970.
    pub at_ms: u64,
    /// A daemon has answered.
    pub daemon: bool,
    /// Jobs that are not over.
    pub jobs: Vec<JobRow>,
    /// Jobs of other users' daemons on this machine.
    pub others: Vec<PublicRow>,
    /// Nodes.
    pub nodes: Vec<NodeRow>,
    /// Use by users.
    pub prices: Prices,
    /// Configuration.
    pub settings: Vec<Setting>,
}

impl Answers {
    /// Answers of a daemon that is followed; moment and jobs of others are the caller's.
    #[must_use]
    pub fn of(picture: &Picture) -> Self {
        let settings = picture.settings().iter().filter(|setting| is_limit(setting)).cloned();
        Answers {
            daemon: true,
            jobs: picture.jobs().cloned().collect(),
            nodes: picture.nodes().cloned().collect(),
            prices: picture.prices(),
            settings: settings.collect(),
            ..Answers::default()
        }
    }
}

/// Limits are of interest, and nothing else.
pub(crate) fn is_limit(row: &Setting) -> bool {
    row.key.starts_with("limits.")
}

/// A job by its daemon: one's own, or that of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// User whose daemon has it, if not the one that was asked.
    pub other: Option<u32>,
    /// Number there.
    pub job: u64,
}

/// A job as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Number and user.
    pub id: Id,
    /// Word for its state ([`states::WORDS`]).
    pub state: &'static str,
    /// Ranks and nodes.
    pub size: Size,
    /// Since when.
    pub time: Time,
    /// Parts of the time.
    pub share: Share,
    /// Place in the matrix.
    pub place: Place,
    /// Name, command, remarks.
    pub label: Label,
    /// Deadlock of its ranks, if there is one.
    pub deadlock: Option<Deadlock>,
}

/// Ranks that wait for each other for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlock {
    /// Line for readers.
    pub line: String,
    /// Ranks of which each waits for the next one, and the last for the first; empty: not known.
    pub cycle: Vec<u32>,
}

/// Number of a job, and its user.
#[derive(Clone, Debug, PartialEq)]
pub struct Id {
    /// Number with the daemon that has it.
    pub key: Key,
    /// Number as people write it: `12`, `12_3` for a task of an array, `USER/12` for a job of another daemon.
    pub number: String,
    /// Number of the user.
    pub uid: u32,
    /// Name of the user.
    pub user: String,
}

/// Size.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// Ranks of all nodes.
    pub ranks: u64,
    /// Names of its nodes.
    pub nodes: Vec<String>,
    /// Ranks on each.
    pub node_ranks: Vec<u64>,
    /// As many nodes as that; other users' daemons do not name them.
    pub node_count: u64,
}

/// Age.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// Since when it runs, or waits, in ms since 1970.
    pub since_ms: u64,
    /// Set while ranks run; else the job waits.
    pub runs: bool,
}

/// Parts of the time that it wants and has, in thousandths; none: it takes no turns, or that is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Weight beside other jobs.
    pub weight: Option<u32>,
    /// Part that it asks for.
    pub asked_permille: Option<u32>,
    /// Part that it has had.
    pub had_permille: Option<u32>,
    /// Of its slots' time what it uses.
    pub busy_permille: Option<u32>,
}

/// Where it is in the matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place {
    /// Time in which it was to run and was not idle, in ms.
    pub served_ms: u64,
    /// Rows of the matrix, from 0 on.
    pub rows: Vec<u32>,
    /// Slots by node; empty: not known.
    pub slots: Vec<(String, Vec<u32>)>,
    /// Messages that its ranks have sent.
    pub sent: Sent,
}

/// Messages that the ranks of a job have sent, as they say themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// All; 0: none, or not known.
    pub messages: u64,
    /// In a second; none: not known.
    pub per_s: Option<u64>,
}

/// Text beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Name that its user has given; empty: none.
    pub name: String,
    /// Command line, shortened.
    pub command: String,
    /// Reasons why it waits, and its ties with others; a line each.
    pub remarks: Vec<String>,
}

/// A node as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name.
    pub name: String,
    /// In one word: `up`, `lost`, `draining` (with ranks of earlier jobs) or `drained`.
    pub state: &'static str,
    /// Cores for ranks.
    pub slots: u32,
    /// Ranks on it.
    pub ranks: u64,
    /// Memory for jobs; 0: not known.
    pub memory_bytes: u64,
    /// Memory that its jobs have declared.
    pub declared_bytes: u64,
    /// The job in each slot of each row that has one, by row and slot.
    pub cells: BTreeMap<(u32, u32), Key>,
    /// Jobs without turns, and those whose slots are not known, with their ranks here.
    pub beside: Vec<(Key, u64)>,
}

impl Node {
    /// Whether its daemon answers.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.state != "lost"
    }
}

/// A user as shown.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Name of the user.
    pub name: String,
    /// Sums over the jobs.
    pub count: Count,
    /// Figures of the shares, if he has jobs that can run at the daemon that was asked.
    pub standing: Option<Standing>,
    /// Of all that was used, in millionths.
    pub used_ppm: Option<u32>,
    /// Limits that the configuration grants him, by name.
    pub limits: Vec<(String, String)>,
}

/// Sums over the jobs of a user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// Jobs that have nodes.
    pub running: u64,
    /// Jobs that have none yet.
    pub waiting: u64,
    /// Ranks of those that have nodes.
    pub ranks: u64,
    /// Slots of nodes that they have.
    pub slots: u64,
}

/// View of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// When, in ms since 1970.
    pub at_ms: u64,
    /// A daemon has answered.
    pub daemon: bool,
    /// Jobs that are not over.
    pub jobs: Vec<Job>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Users with jobs or a standing.
    pub users: Vec<User>,
    /// Rows of the matrix.
    pub row_count: u32,
    /// Numbers of tasks of arrays as people write them, also of those that the filter leaves out.
    pub tasks: BTreeMap<Key, String>,
}

impl Report {
    /// Rows to show of the jobs that the filter takes; nodes and users count all.
    pub fn new(answers: &Answers, before: &Before, filter: &Filter) -> Self {
        let places = places(answers);
        let row_count = places.values().flat_map(|place| &place.rows).max();
        let row_count = row_count.map_or(0, |last| last.saturating_add(1));
        let asked = asked_permille(&answers.jobs, &places);
        let of_row = |row: &JobRow| {
            let mut place = places.get(&row.job.0).cloned().unwrap_or_default();
            place.sent.per_s = before.messages_per_s(answers.at_ms, row.job.0, place.sent.messages);
            let share = Share {
                weight: row.gang.then_some(row.weight),
                asked_permille: asked.get(&row.job.0).copied(),
                had_permille: before.had_permille(answers.at_ms, row, &place, row_count),
                busy_permille: row.busy_permille,
            };
            job_of_row(row, share, place)
        };
        let mut jobs: Vec<Job> = answers.jobs.iter().map(of_row).collect();
        let nodes = nodes(&answers.nodes, &jobs);
        let listed: BTreeSet<(u32, u64)> = answers.jobs.iter().map(|row| (row.uid, row.job.0)).collect();
        // Root's daemon has listed them already.
        let others = answers.others.iter().filter(|other| !listed.contains(&(other.uid, other.job)));
        jobs.extend(others.map(job_of_other));
        let users = all_users(answers, &jobs);
        jobs.retain(|job| filter.takes(job.state, &job.label.name, job.id.uid));
        let is_task = |row: &&JobRow| row.array_task().is_some();
        let number = |row: &JobRow| (Key { other: None, job: row.job.0 }, row.number());
        let tasks = answers.jobs.iter().filter(is_task).map(number).collect();
        Report { at_ms: answers.at_ms, daemon: answers.daemon, jobs, nodes, users, row_count, tasks }
    }

    /// The jobs by number.
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<Key, &Job> {
        self.jobs.iter().map(|job| (job.id.key, job)).collect()
    }

    /// Number of a job of the daemon that was asked, as people write it.
    #[must_use]
    pub fn number(&self, key: Key) -> String {
        self.tasks.get(&key).cloned().unwrap_or_else(|| key.job.to_string())
    }
}

/// Where the daemon says that jobs are, with the names of the nodes.
fn places(answers: &Answers) -> BTreeMap<u64, Place> {
    let names: BTreeMap<NodeId, &str> =
        answers.nodes.iter().map(|node| (node.node, node.name.as_str())).collect();
    let of = |place: &reported::Place| {
        let slots = place
            .slots
            .iter()
            .filter_map(|(node, slots)| Some(((*names.get(node)?).to_owned(), slots.clone())));
        let (served_ms, rows) = (place.served_ms, place.rows.clone());
        let sent = Sent { messages: place.messages, per_s: None };
        (place.job.0, Place { served_ms, rows, slots: slots.collect(), sent })
    };
    answers.prices.places.iter().map(of).collect()
}

fn job_of_row(row: &JobRow, share: Share, place: Place) -> Job {
    Job {
        id: Id {
            key: Key { other: None, job: row.job.0 },
            number: row.number(),
            uid: row.uid,
            user: users::name(row.uid),
        },
        state: states::of(row),
        size: Size {
            ranks: row.ranks,
            nodes: row.nodes.clone(),
            node_ranks: node_ranks(row),
            node_count: row.nodes.len() as u64,
        },
        time: Time { since_ms: row.started_ms.unwrap_or(row.submitted_ms), runs: row.started_ms.is_some() },
        share,
        place,
        label: Label { name: row.name.clone(), command: row.command.clone(), remarks: remarks(row) },
        deadlock: row.deadlock.clone().map(|line| Deadlock { line, cycle: row.cycle().to_vec() }),
    }
}

/// Ranks on each node: those from its first one up to the next node's.
fn node_ranks(row: &JobRow) -> Vec<u64> {
    let first = |at: usize| row.first_ranks.get(at).map(|first| u64::from(*first));
    let of_node = |at: usize| match (first(at), first(at + 1)) {
        (Some(first), next) => next.unwrap_or(row.ranks).saturating_sub(first),
        (None, _) => row.ranks / row.nodes.len() as u64,
    };
    (0..row.nodes.len()).map(of_node).collect()
}

/// Reasons why a job waits, and jobs that it waits for.
fn remarks(row: &JobRow) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(row.waits.iter().map(|why| format!("waits: {why}")));
    if let Some(suspended) = &row.suspended {
        lines.push(match suspended.why {
            SuspendedBy::User => format!("suspended by {}", users::name(suspended.uid)),
            SuspendedBy::Deadlock => "suspended: its ranks wait for each other for ever".into(),
            SuspendedBy::Idle => "suspended: it did no work".into(),
        });
    }
    lines.extend(row.deadlock.clone());
    if !row.unfrozen.is_empty() {
        lines.push(format!("not frozen yet on {}", row.unfrozen.join(", ")));
    }
    lines.extend(row.put_out.iter().map(|(node, why)| format!("{why} ({node})")));
    if !row.connected.is_empty() {
        let jobs: Vec<String> = row.connected.iter().map(ToString::to_string).collect();
        lines.push(format!("connected to job {}", jobs.join(", ")));
    }
    if !row.gang {
        lines.push("takes no turns: it runs all the time".into());
    } else if row.fill {
        lines.push("fills what jobs with turns leave".into());
    }
    lines
}

fn job_of_other(other: &PublicRow) -> Job {
    let user = users::name(other.uid);
    Job {
        id: Id {
            key: Key { other: Some(other.uid), job: other.job },
            number: format!("{user}/{}", other.job),
            uid: other.uid,
            user,
        },
        state: states::word(other.state),
        size: Size { ranks: other.ranks, nodes: Vec::new(), node_ranks: Vec::new(), node_count: other.nodes },
        time: Time {
            since_ms: other.since_ms,
            runs: [JobState::Running, JobState::Suspended].contains(&other.state),
        },
        share: Share::default(),
        place: Place::default(),
        label: Label {
            name: String::new(),
            command: other.command.clone(),
            remarks: vec!["of another daemon: that user and root alone control it".into()],
        },
        deadlock: None,
    }
}

fn nodes(rows: &[NodeRow], jobs: &[Job]) -> Vec<Node> {
    let at: BTreeMap<&str, usize> =
        rows.iter().enumerate().map(|(at, row)| (row.name.as_str(), at)).collect();
    let empty = |row: &NodeRow| Node {
        name: row.name.clone(),
        state: row.state(),
        slots: row.slots,
        ranks: row.ranks,
        memory_bytes: row.memory_bytes,
        declared_bytes: row.declared_bytes,
        cells: BTreeMap::new(),
        beside: Vec::new(),
    };
    let mut nodes: Vec<Node> = rows.iter().map(empty).collect();
    for job in jobs {
        let is_placed = !job.place.rows.is_empty() && !job.place.slots.is_empty();
        for (name, slots) in job.place.slots.iter().filter(|_| is_placed) {
            let Some(node) = at.get(name.as_str()).map(|at| &mut nodes[*at]) else { continue };
            for slot in slots.iter().filter(|slot| **slot < node.slots) {
                node.cells.extend(job.place.rows.iter().map(|row| ((*row, *slot), job.id.key)));
            }
        }
        for (name, ranks) in job.size.nodes.iter().zip(&job.size.node_ranks).filter(|_| !is_placed) {
            if let Some(at) = at.get(name.as_str()) {
                nodes[*at].beside.push((job.id.key, *ranks));
            }
        }
    }
    nodes
}

fn all_users(answers: &Answers, jobs: &[Job]) -> Vec<User> {
    let mut found: BTreeMap<u32, User> = BTreeMap::new();
    let empty = |uid: u32| User {
        uid,
        name: users::name(uid),
        count: Count::default(),
        standing: None,
        used_ppm: None,
        limits: Vec::new(),
    };
    for job in jobs {
        let user = found.entry(job.id.uid).or_insert_with(|| empty(job.id.uid));
        if job.state == "waiting" {
            user.count.waiting += 1;
            continue;
        }
        user.count.running += 1;
        user.count.ranks = user.count.ranks.saturating_add(job.size.ranks);
        let slots: u64 = job.place.slots.iter().map(|(_, slots)| slots.len() as u64).sum();
        let slots = if slots > 0 { slots } else { job.size.ranks };
        user.count.slots = user.count.slots.saturating_add(slots);
    }
    let all: u128 = answers.prices.users.iter().map(|one| u128::from(one.used_ns)).sum();
    for standing in &answers.prices.users {
        let user = found.entry(standing.user).or_insert_with(|| empty(standing.user));
        user.used_ppm = Some((u128::from(standing.used_ns) * 1_000_000 / all.max(1)) as u32);
        user.standing = Some(*standing);
    }
    for user in found.values_mut() {
        user.limits = limits(&answers.settings, &user.name);
    }
    found.into_values().collect()
}

/// The limits of a user: his own go before those of each user.
fn limits(settings: &[Setting], user: &str) -> Vec<(String, String)> {
    let own = format!("limits.user.{user}.");
    let mut limits: BTreeMap<&str, &str> = BTreeMap::new();
    let of_each = |key: &'_ str| -> Option<usize> {
        let name = key.strip_prefix("limits.")?;
        (!name.contains('.')).then_some("limits.".len())
    };
    for setting in settings {
        if let Some(at) = of_each(&setting.key) {
            limits.entry(&setting.key[at..]).or_insert(&setting.value);
        }
    }
    for setting in settings.iter().filter(|setting| setting.key.starts_with(&own)) {
        limits.insert(&setting.key[own.len()..], &setting.value);
    }
    limits.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Use of a limit by a user: `slots 3/16`.
pub fn limits_of(user: &User) -> String {
    let limit = |(name, value): &(String, String)| {
        let has = match name.as_str() {
            "slots" => Some(user.count.slots),
            "ranks" => Some(user.count.ranks),
            "jobs" => Some(user.count.running),
            "waiting" => Some(user.count.waiting),
            _ => None,
        };
        has.map_or_else(|| format!("{name} {value}"), |has| format!("{name} {has}/{value}"))
    };
    let limits: Vec<String> = user.limits.iter().map(limit).collect();
    if limits.is_empty() { "-".into() } else { limits.join(", ") }
}

#[cfg(test)]
mod tests;
