//! Answers from the history, as JSON. Each has a connection of its own, and a bound of rows.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde::Serialize;
use serde_json::{Value, json};
use tutti_client::users;
use tutti_os::stderr::escape_control;

use super::reader;

/// Jobs of one answer, at most.
pub const JOBS_MAX: u32 = 20_000;
/// Points of a node's load in one answer, about.
const POINTS: i64 = 600;
/// Users of one answer, at most.
const USERS_MAX: u32 = 1000;
/// Gaps of one answer, at most.
const GAPS_MAX: u32 = 2000;

/// Span of time, in ms since 1970; both ends belong to it.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Begin.
    pub from_ms: i64,
    /// End.
    pub until_ms: i64,
}

/// Jobs that are meant; what is empty leaves all.
#[derive(Clone, Debug, Default)]
pub struct Meant {
    /// Users.
    pub uids: Vec<u32>,
    /// Names.
    pub names: Vec<String>,
    /// States.
    pub states: Vec<State>,
    /// Only those behind this one in the list: its submission, in ms since 1970, and its number.
    pub behind: Option<(i64, i64)>,
}

/// State of a job, as far as the history knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Before its start.
    Waiting,
    /// Between start and end.
    Running,
    /// Behind its end.
    Over,
}

impl State {
    /// State of this name.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "waiting" => Some(State::Waiting),
            "running" => Some(State::Running),
            "over" => Some(State::Over),
            _ => None,
        }
    }

    /// Rows that are in it.
    fn condition(self) -> &'static str {
        match self {
            State::Waiting => "(ended_ms IS NULL AND started_ms IS NULL)",
            State::Running => "(ended_ms IS NULL AND started_ms IS NOT NULL)",
            State::Over => "ended_ms IS NOT NULL",
        }
    }
}

impl Meant {
    /// Further conditions, and the values in them.
    fn conditions(&self) -> (String, Vec<Sql>) {
        let mut text = String::new();
        let mut one_of = |column: &str, count: usize| {
            if count > 0 {
                text.push_str(&format!(" AND {column} IN ({})", vec!["?"; count].join(", ")));
            }
        };
        one_of("uid", self.uids.len());
        one_of("name", self.names.len());
        if !self.states.is_empty() {
            let states: Vec<&str> = self.states.iter().map(|state| state.condition()).collect();
            text.push_str(&format!(" AND ({})", states.join(" OR ")));
        }
        let uids = self.uids.iter().map(|uid| Sql::Integer((*uid).into()));
        let mut values: Vec<Sql> =
            uids.chain(self.names.iter().map(|name| Sql::Text(name.clone()))).collect();
        if let Some((submitted_ms, job)) = self.behind {
            text.push_str(" AND (submitted_ms, job) < (?, ?)");
            values.extend([submitted_ms, job].map(Sql::Integer));
        }
        (text, values)
    }
}

/// A job.
#[derive(Debug, Serialize)]
pub struct Job {
    job: Option<i64>,
    uid: Option<u32>,
    user: Option<String>,
    name: Option<String>,
    command: Option<String>,
    ranks: Option<i64>,
    nodes: Vec<String>,
    submitted_ms: Option<i64>,
    started_ms: Option<i64>,
    ended_ms: Option<i64>,
    status: Option<i64>,
    cause: Option<String>,
    cpu_us: Option<i64>,
    largest_bytes: Option<i64>,
}

/// Columns of a job, in the order in which [`Job::of`] reads them.
const JOB: &str = "job, uid, name, command, ranks, nodes, submitted_ms, started_ms, ended_ms, status, cause,
           cpu_us, largest_bytes";

impl Job {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text =
            |at: usize| row.get::<_, Option<String>>(at).map(|text| text.map(|text| escape_control(&text)));
        let number = |at: usize| row.get::<_, Option<i64>>(at);
        let uid = row.get::<_, Option<u32>>(1)?;
        Ok(Job {
            job: number(0)?,
            uid,
            user: uid.map(users::name).map(|name| escape_control(&name)),
            name: text(2)?,
            command: text(3)?,
            ranks: number(4)?,
            nodes: text(5)?.unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            submitted_ms: number(6)?,
            started_ms: number(7)?,
            ended_ms: number(8)?,
            status: number(9)?,
            cause: text(10)?,
            cpu_us: number(11)?,
            largest_bytes: number(12)?,
        })
    }
}

/// From when until when nothing is known, and why.
type Gap = (i64, Option<i64>, String);

/// A page of jobs.
#[derive(Debug, Serialize)]
pub struct Jobs {
    /// Rows, the one that was submitted last first.
    jobs: Vec<Job>,
    /// Set where older ones are left out.
    more: bool,
    gaps: Vec<Gap>,
}

/// Statement for the jobs that are meant, with its values: an index has them in their order, and is read
/// until there are enough. It gives one more than the limit, which says that there are more.
pub(super) fn question(span: Span, meant: &Meant, limit: u32) -> (String, Vec<Sql>) {
    let (conditions, more) = meant.conditions();
    let sql = format!(
        "SELECT {JOB} FROM job WHERE submitted_ms <= ? AND coalesce(ended_ms, ?) >= ?{conditions}
         ORDER BY submitted_ms DESC, job DESC LIMIT ?"
    );
    // The index is entered at the first row of the page.
    let until_ms = meant.behind.map_or(span.until_ms, |(submitted_ms, _)| span.until_ms.min(submitted_ms));
    let values = [until_ms, i64::MAX, span.from_ms].map(Sql::Integer).into_iter().chain(more);
    (sql, values.chain([Sql::Integer(i64::from(limit) + 1)]).collect())
}

/// Jobs that were there in a span, so many at most.
///
/// # Errors
/// When the history cannot be read.
pub fn jobs(folder: &Path, span: Span, meant: &Meant, limit: u32) -> rusqlite::Result<Jobs> {
    let connection = reader(folder)?;
    let limit = limit.min(JOBS_MAX);
    let (sql, values) = question(span, meant, limit);
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), Job::of)?;
    let mut jobs = rows.collect::<rusqlite::Result<Vec<Job>>>()?;
    let is_cut = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    Ok(Jobs { jobs, more: is_cut, gaps: gaps(&connection, span)? })
}

/// User who has jobs in the history.
#[derive(Debug, Serialize)]
pub struct User {
    uid: u32,
    user: String,
}

/// Users who have jobs, in the order of their numbers: one step of the index for each.
///
/// # Errors
/// When the history cannot be read.
pub fn all_users(folder: &Path) -> rusqlite::Result<Vec<User>> {
    let connection = reader(folder)?;
    let mut statement = connection.prepare(
        "WITH RECURSIVE next(uid) AS (SELECT min(uid) FROM job UNION ALL
           SELECT (SELECT min(uid) FROM job WHERE uid > next.uid) FROM next WHERE next.uid IS NOT NULL)
         SELECT uid FROM next WHERE uid IS NOT NULL LIMIT ?1",
    )?;
    let user = |row: &Row<'_>| {
        let uid = row.get(0)?;
        Ok(User { uid, user: escape_control(&users::name(uid)) })
    };
    statement.query_map([USERS_MAX], user)?.collect()
}

/// One job with its stretches; `null`: the history does not have it.
///
/// # Errors
/// When the history cannot be read.
pub fn one(folder: &Path, id: u64) -> rusqlite::Result<Value> {
    let connection = reader(folder)?;
    let mut statement = connection.prepare(&format!("SELECT {JOB} FROM job WHERE job = ?1"))?;
    let Some(found) = statement.query_map([id], Job::of)?.next().transpose()? else { return Ok(Value::Null) };
    let mut found = json!(found);
    let mut statement = connection.prepare("SELECT * FROM place WHERE job = ?1 ORDER BY from_ms LIMIT ?2")?;
    let places = statement.query_map(params![id, JOBS_MAX], place)?;
    found["places"] = json!(places.collect::<rusqlite::Result<Vec<Place>>>()?);
    Ok(found)
}

/// Job, from, until, rows, slots, share asked, time had.
type Place = (i64, i64, Option<i64>, String, String, Option<i64>, Option<i64>);

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    let text = |at: usize| row.get::<_, String>(at).map(|text| escape_control(&text));
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, text(3)?, text(4)?, row.get(5)?, row.get(6)?))
}

/// Facts for a picture of a span.
#[derive(Debug, Serialize)]
pub struct Timeline {
    #[serde(flatten)]
    jobs: Jobs,
    places: Vec<Place>,
    /// Points of load by node.
    nodes: BTreeMap<String, Vec<Value>>,
    from_ms: i64,
    until_ms: i64,
}

/// Facts for a picture of a span: jobs, stretches, load of nodes, gaps.
///
/// # Errors
/// When the history cannot be read.
pub fn timeline(folder: &Path, span: Span) -> rusqlite::Result<Timeline> {
    let connection = reader(folder)?;
    let mut statement = connection.prepare(
        "SELECT * FROM place WHERE from_ms <= ?1 AND coalesce(until_ms, ?1) >= ?2
         ORDER BY from_ms DESC LIMIT ?3",
    )?;
    let places = statement.query_map(params![span.until_ms, span.from_ms, JOBS_MAX + 1], place)?;
    let mut places = places.collect::<rusqlite::Result<Vec<Place>>>()?;
    let is_cut = places.len() > JOBS_MAX as usize;
    places.truncate(JOBS_MAX as usize);
    let mut jobs = jobs(folder, span, &Meant::default(), JOBS_MAX)?;
    jobs.more |= is_cut;
    // Nothing is known of what was before.
    let begun: Option<i64> = connection
        .query_row("SELECT value FROM mark WHERE name = 'begun_ms'", (), |row| row.get(0))
        .optional()?;
    if let Some(begun_ms) = begun.filter(|begun_ms| *begun_ms > span.from_ms) {
        let until_ms = begun_ms.min(span.until_ms);
        jobs.gaps.insert(0, (span.from_ms, Some(until_ms), "the history begins behind this".into()));
    }
    let nodes = load(&connection, span)?;
    Ok(Timeline { jobs, places, nodes, from_ms: span.from_ms, until_ms: span.until_ms })
}

/// Points of load by node: moment in ms, jobs, ranks, busy thousandths; `null` where the node was lost.
fn load(connection: &Connection, span: Span) -> rusqlite::Result<BTreeMap<String, Vec<Value>>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut names = connection.prepare("SELECT name FROM node")?;
    for name in names.query_map((), |row| row.get::<_, String>(0))? {
        found.insert(escape_control(&name?), Vec::new());
    }
    let length_s = span.until_ms.saturating_sub(span.from_ms).max(0) / 1000;
    let is_fine = length_s <= 2 * 3600;
    let (sql, step) = if is_fine {
        // Changes only: the last one before the span holds at its beginning.
        let sql = "SELECT name, at_s * 1000, alive, jobs, ranks, busy FROM sample JOIN node USING(node)
             WHERE at_s <= ?2 / 1000 AND at_s >= coalesce((SELECT max(s.at_s) FROM sample s
               WHERE s.node = sample.node AND s.at_s <= ?1 / 1000), 0)
             ORDER BY at_s LIMIT ?4 + 0 * ?3";
        (sql, 1)
    } else {
        let sql = "SELECT name, (at_min / ?3) * ?3 * 60000, 1, avg(jobs), avg(ranks), avg(busy)
             FROM minute JOIN node USING(node) WHERE at_min BETWEEN ?1 / 60000 AND ?2 / 60000
             GROUP BY node, at_min / ?3 ORDER BY at_min LIMIT ?4";
        (sql, (length_s / 60 / POINTS).max(1))
    };
    let mut statement = connection.prepare(sql)?;
    let point = |row: &Row<'_>| {
        let name: String = row.get(0)?;
        let number = |at: usize| {
            Ok::<_, rusqlite::Error>(match row.get::<_, Sql>(at)? {
                Sql::Integer(number) => json!(number),
                Sql::Real(number) => json!((number * 10.0).round() / 10.0),
                _ => Value::Null,
            })
        };
        let is_alive: i64 = row.get(2)?;
        let at = number(1)?;
        let values =
            if is_alive != 0 { json!([at, number(3)?, number(4)?, number(5)?]) } else { json!([at, null]) };
        Ok((name, values))
    };
    let limit = POINTS * 12 * (found.len() as i64 + 1);
    for entry in statement.query_map(params![span.from_ms, span.until_ms, step, limit], point)? {
        let (name, values) = entry?;
        found.entry(escape_control(&name)).or_default().push(values);
    }
    Ok(found)
}

fn gaps(connection: &Connection, span: Span) -> rusqlite::Result<Vec<Gap>> {
    let mut statement = connection.prepare(
        "SELECT from_ms, until_ms, why FROM gap WHERE from_ms <= ?1 AND coalesce(until_ms, ?1) >= ?2
         ORDER BY from_ms LIMIT ?3",
    )?;
    let gap = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    statement.query_map(params![span.until_ms, span.from_ms, GAPS_MAX], gap)?.collect()
}

/// Bytes of the database.
pub fn bytes(folder: &Path) -> u64 {
    let of = |more: &str| {
        std::fs::metadata(folder.join(format!("{}{more}", super::FILE))).map_or(0, |found| found.len())
    };
    of("") + of("-wal")
}
