//! Answers from the history, as JSON. Each has a connection of its own, and a bound of rows.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde_json::{Value, json};
use tutti_client::users;
use tutti_os::stderr::escape_control;

use super::reader;

/// Jobs of one answer, at most.
pub const JOBS_MAX: u32 = 20_000;
/// Points of a node's load in one answer, about.
const POINTS: i64 = 600;
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

/// Jobs that were there in a span, those that were submitted last first.
///
/// # Errors
/// When the history cannot be read.
pub fn jobs(folder: &Path, span: Span, uids: &[u32], limit: u32) -> rusqlite::Result<Value> {
    let connection = reader(folder)?;
    let marks = vec!["?"; uids.len()].join(", ");
    let of_users = if uids.is_empty() { String::new() } else { format!("AND uid IN ({marks})") };
    let sql = format!(
        "SELECT job, uid, name, command, ranks, nodes, submitted_ms, started_ms, ended_ms, status, cause,
           cpu_us, largest_bytes FROM job
         WHERE submitted_ms <= ? AND coalesce(ended_ms, ?) >= ? {of_users}
         ORDER BY submitted_ms DESC, job DESC LIMIT ?"
    );
    let mut values = vec![span.until_ms, i64::MAX, span.from_ms];
    values.extend(uids.iter().map(|uid| i64::from(*uid)));
    values.push(i64::from(limit.min(JOBS_MAX)));
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), job)?;
    Ok(json!({
        "jobs": rows.collect::<rusqlite::Result<Vec<Value>>>()?,
        "gaps": gaps(&connection, span)?,
    }))
}

fn job(row: &Row<'_>) -> rusqlite::Result<Value> {
    let text =
        |name: &str| row.get::<_, Option<String>>(name).map(|text| text.map(|text| escape_control(&text)));
    let number = |name: &str| row.get::<_, Option<i64>>(name);
    let uid = row.get::<_, Option<u32>>("uid")?;
    let nodes = text("nodes")?.unwrap_or_default();
    Ok(json!({
        "job": number("job")?,
        "uid": uid,
        "user": uid.map(users::name).map(|name| escape_control(&name)),
        "name": text("name")?,
        "command": text("command")?,
        "ranks": number("ranks")?,
        "nodes": nodes.split_whitespace().collect::<Vec<_>>(),
        "submitted_ms": number("submitted_ms")?,
        "started_ms": number("started_ms")?,
        "ended_ms": number("ended_ms")?,
        "status": number("status")?,
        "cause": text("cause")?,
        "cpu_us": number("cpu_us")?,
        "largest_bytes": number("largest_bytes")?,
    }))
}

/// One job with its stretches; `null`: the history does not have it.
///
/// # Errors
/// When the history cannot be read.
pub fn one(folder: &Path, id: u64) -> rusqlite::Result<Value> {
    let connection = reader(folder)?;
    let mut statement = connection.prepare("SELECT * FROM job WHERE job = ?1")?;
    let Some(mut found) = statement.query_map([id], job)?.next().transpose()? else { return Ok(Value::Null) };
    let mut statement = connection.prepare("SELECT * FROM place WHERE job = ?1 ORDER BY from_ms LIMIT ?2")?;
    let places = statement.query_map(params![id, JOBS_MAX], place)?;
    found["places"] = json!(places.collect::<rusqlite::Result<Vec<Value>>>()?);
    Ok(found)
}

fn place(row: &Row<'_>) -> rusqlite::Result<Value> {
    let value = |name: &str| row.get::<_, Option<i64>>(name);
    let text = |name: &str| row.get::<_, String>(name).map(|text| escape_control(&text));
    Ok(json!([
        value("job")?,
        value("from_ms")?,
        value("until_ms")?,
        text("rows")?,
        text("slots")?,
        value("asked")?,
        value("served_ms")?,
    ]))
}

/// Facts for a picture of a span: jobs, stretches, load of nodes, gaps.
///
/// # Errors
/// When the history cannot be read.
pub fn timeline(folder: &Path, span: Span) -> rusqlite::Result<Value> {
    let connection = reader(folder)?;
    let mut statement = connection.prepare(
        "SELECT * FROM place WHERE from_ms <= ?1 AND coalesce(until_ms, ?1) >= ?2
         ORDER BY from_ms DESC LIMIT ?3",
    )?;
    let places = statement.query_map(params![span.until_ms, span.from_ms, JOBS_MAX], place)?;
    let places = places.collect::<rusqlite::Result<Vec<Value>>>()?;
    let mut result = jobs(folder, span, &[], JOBS_MAX)?;
    result["places"] = json!(places);
    // Nothing is known of what was before.
    let begun: Option<i64> = connection
        .query_row("SELECT value FROM mark WHERE name = 'begun_ms'", (), |row| row.get(0))
        .optional()?;
    if let (Some(begun_ms), Some(gaps)) = (begun, result["gaps"].as_array_mut())
        && begun_ms > span.from_ms
    {
        gaps.insert(0, json!([span.from_ms, begun_ms.min(span.until_ms), "the history begins behind this"]));
    }
    result["nodes"] = json!(load(&connection, span)?);
    result["from_ms"] = json!(span.from_ms);
    result["until_ms"] = json!(span.until_ms);
    Ok(result)
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

fn gaps(connection: &Connection, span: Span) -> rusqlite::Result<Vec<Value>> {
    let mut statement = connection.prepare(
        "SELECT from_ms, until_ms, why FROM gap WHERE from_ms <= ?1 AND coalesce(until_ms, ?1) >= ?2
         ORDER BY from_ms LIMIT ?3",
    )?;
    let gap = |row: &Row<'_>| {
        let (from_ms, until_ms): (i64, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(json!([from_ms, until_ms, row.get::<_, String>(2)?]))
    };
    statement.query_map(params![span.until_ms, span.from_ms, GAPS_MAX], gap)?.collect()
}

/// Bytes of the database.
pub fn bytes(folder: &Path) -> u64 {
    let of = |more: &str| {
        std::fs::metadata(folder.join(format!("{}{more}", super::FILE))).map_or(0, |found| found.len())
    };
    of("") + of("-wal")
}
