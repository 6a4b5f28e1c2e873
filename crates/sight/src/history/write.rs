//! Writer of the history: one transaction for all that is known of a moment.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tutti_client::report::{Job, Key, Node, Report, Share};
use tutti_os::stderr::print_line;

use super::keep;
use super::{Bounds, Entry};
use crate::log::Event;
use crate::tail::Position;

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Daemons say where a job is in the matrix once a second: one that has begun lately may not be placed yet.
const PLACED_MS: i64 = 5000;
/// A row takes about so much beside its text: numbers, its header, its places in indices.
const ROW_BYTES: i64 = 48;
/// A process that comes later than it was to by more than this leaves a gap.
const AWAY_MS: i64 = 5000;
/// Load is kept in steps of so many thousandths, so that noise is no change.
const STEP_PERMILLE: u32 = 50;

/// Stretch of a job that goes on.
#[derive(Debug)]
struct Open {
    row: i64,
    rows: String,
    slots: String,
    asked: Option<u32>,
    /// Time that the job had had when the stretch began, in ms.
    served_ms: u64,
}

/// Load of a node at a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) is_alive: bool,
    pub(super) jobs: u32,
    pub(super) ranks: u64,
    /// Part of its slots' time that jobs compute, in thousandths.
    pub(super) busy_permille: u32,
}

/// Sums of a node over a minute.
#[derive(Debug, Default)]
struct Sums {
    minute: i64,
    seconds: u32,
    jobs: u64,
    ranks: u64,
    busy: u64,
}

/// Node in the database, with its last load.
#[derive(Debug)]
struct Known {
    id: i64,
    last: Option<Load>,
    sums: Sums,
}

/// Bytes of the day, and the gap that begins where they are used up.
#[derive(Debug, Default)]
struct Budget {
    day: i64,
    spent: i64,
    /// Row of the gap.
    gap: Option<i64>,
}

/// The one that writes.
#[derive(Debug)]
pub(super) struct Writer {
    connection: Connection,
    bounds: Bounds,
    state: State,
}

/// State between two records.
#[derive(Debug, Default)]
struct State {
    seen_ms: i64,
    open: BTreeMap<u64, Open>,
    nodes: BTreeMap<String, Known>,
    budget: Budget,
    /// The gap in which daemons say nothing: its row.
    silence: Option<i64>,
    tidied_ms: i64,
}

impl Writer {
    /// Takes over a database: stretches that were open end where it was last written.
    pub(super) fn new(connection: Connection, bounds: Bounds) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
        let mut state = State { seen_ms: mark(&connection, "seen_ms")?.unwrap_or(0), ..State::default() };
        state.budget.day = mark(&connection, "day")?.unwrap_or(0);
        state.budget.spent = mark(&connection, "day_bytes")?.unwrap_or(0);
        connection.execute("UPDATE place SET until_ms = ?1 WHERE until_ms IS NULL", [state.seen_ms])?;
        connection.execute("UPDATE gap SET until_ms = ?1 WHERE until_ms IS NULL", [state.seen_ms])?;
        Ok(Writer { connection, bounds, state })
    }

    /// Pages that the database may have; for tests of a full disk.
    #[cfg(test)]
    pub(super) fn bound_pages(&self, pages: i64) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "max_page_count", pages)
    }

    pub(super) fn position(&self) -> Option<Position> {
        let part = |name| mark(&self.connection, name).ok().flatten();
        Some(Position { inode: part("log_inode")? as u64, offset: part("log_offset")? as u64 })
    }

    /// Records a moment; `failed_ms`: since when nothing could be written.
    pub(super) fn record(&mut self, entry: &Entry<'_>, failed_ms: Option<i64>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        let state = &mut self.state;
        let now_ms = entry.now_ms;
        // A clock that was set back ends nothing before it began.
        let is_first = state.seen_ms == 0;
        let is_away = !is_first && now_ms.saturating_sub(state.seen_ms) > AWAY_MS + entry.pause_ms;
        let is_set_back = now_ms.saturating_add(AWAY_MS) < state.seen_ms;
        if let Some(from_ms) = failed_ms {
            put_gap(&transaction, from_ms, Some(now_ms), "the history could not be written")?;
        } else if is_away {
            put_gap(&transaction, state.seen_ms, Some(now_ms), "the history was not being written")?;
        } else if is_set_back {
            put_gap(&transaction, now_ms, Some(state.seen_ms), "the clock was set back")?;
            let seconds = state.seen_ms.saturating_sub(now_ms) / 1000;
            print_line(format_args!(
                "tutti-sight: the clock was set back by {seconds} s: the time that comes again is a gap"
            ));
        }
        if is_away || is_set_back {
            // A clock that has jumped may jump back: what it takes for old stays for a while.
            state.tidied_ms = now_ms;
        }
        if entry.is_lost {
            let from_ms = if is_first { now_ms } else { state.seen_ms };
            put_gap(&transaction, from_ms, Some(now_ms), "the log of events has gone on without us")?;
        }
        state.budget.begin(&transaction, now_ms, self.bounds)?;
        for event in entry.events {
            state.put_event(&transaction, event)?;
        }
        if let Some(report) = entry.report {
            state.put_report(&transaction, report, now_ms)?;
        }
        if (now_ms - state.tidied_ms).abs() >= keep::EVERY_MS {
            state.tidied_ms = now_ms;
            keep::tidy(&transaction, now_ms, self.bounds)?;
        }
        state.seen_ms = now_ms;
        if is_first {
            set_mark(&transaction, "begun_ms", now_ms)?;
        }
        set_mark(&transaction, "seen_ms", now_ms)?;
        set_mark(&transaction, "day", state.budget.day)?;
        set_mark(&transaction, "day_bytes", state.budget.spent)?;
        if let Some(position) = entry.position {
            set_mark(&transaction, "log_inode", position.inode as i64)?;
            set_mark(&transaction, "log_offset", position.offset as i64)?;
        }
        transaction.commit()
    }
}

fn mark(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT value FROM mark WHERE name = ?1", [name], |row| row.get(0)).optional()
}

fn set_mark(transaction: &Transaction<'_>, name: &str, value: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("INSERT OR REPLACE INTO mark VALUES (?1, ?2)")?
        .execute(params![name, value])?;
    Ok(())
}

/// Row of a gap; one without an end goes on.
fn put_gap(
    transaction: &Transaction<'_>,
    from_ms: i64,
    until_ms: Option<i64>,
    why: &str,
) -> rusqlite::Result<i64> {
    transaction.execute("INSERT INTO gap VALUES (?1, ?2, ?3)", params![from_ms, until_ms, why])?;
    Ok(transaction.last_insert_rowid())
}

fn end_gap(transaction: &Transaction<'_>, row: i64, now_ms: i64) -> rusqlite::Result<()> {
    transaction.execute("UPDATE gap SET until_ms = max(from_ms, ?2) WHERE rowid = ?1", [row, now_ms])?;
    Ok(())
}

impl Budget {
    /// A new day has new bytes.
    fn begin(&mut self, transaction: &Transaction<'_>, now_ms: i64, bounds: Bounds) -> rusqlite::Result<()> {
        let day = now_ms / DAY_MS;
        // A clock that is set back over midnight brings no new bytes; one that was far ahead does.
        if day > self.day || day + 1 < self.day {
            (self.day, self.spent) = (day, 0);
        }
        let is_used_up = self.spent >= bounds.day_bytes;
        match (self.gap, is_used_up) {
            (None, true) => {
                let why = format!("the {} bytes of the day are used up", bounds.day_bytes);
                self.gap = Some(put_gap(transaction, now_ms, None, &why)?);
            }
            (Some(row), false) => {
                end_gap(transaction, row, now_ms)?;
                self.gap = None;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a row with so many bytes of text may be written.
    fn take(&mut self, text_bytes: usize) -> bool {
        if self.gap.is_some() {
            return false;
        }
        self.spent += ROW_BYTES + text_bytes as i64;
        true
    }
}

impl State {
    /// Takes a line of the log. One that is read twice changes nothing. Where the clock was set back
    /// meanwhile a job starts at its submission at the earliest, and ends at its start: else no span would
    /// have it.
    fn put_event(&mut self, transaction: &Transaction<'_>, event: &Event) -> rusqlite::Result<()> {
        // A damaged line may have numbers for which a database has no room.
        let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        let (Some(job), Some(ms)) = (number(event.job), number(Some(event.ms))) else { return Ok(()) };
        let text = event.text.as_str();
        match event.event.as_str() {
            "submitted" => {
                self.forget_other(transaction, job, ms)?;
                let nodes = event.nodes.join(" ");
                if !self.budget.take(text.len() + event.submitted.name.len() + nodes.len()) {
                    return Ok(());
                }
                transaction
                    .prepare_cached(
                        "INSERT INTO job(job, uid, name, command, ranks, nodes, submitted_ms)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(job) DO NOTHING",
                    )?
                    .execute(params![
                        job,
                        event.submitted.uid,
                        event.submitted.name,
                        text,
                        number(event.submitted.ranks),
                        nodes,
                        ms
                    ])?;
            }
            "refused" => {
                transaction.prepare_cached("DELETE FROM job WHERE job = ?1")?.execute([job])?;
            }
            "placed" => {
                let nodes = event.nodes.join(" ");
                self.budget.spent += nodes.len() as i64;
                transaction
                    .prepare_cached("UPDATE job SET nodes = ?2 WHERE job = ?1")?
                    .execute(params![job, nodes])?;
            }
            "started" => {
                transaction
                    .prepare_cached("UPDATE job SET started_ms = max(?2, submitted_ms) WHERE job = ?1")?
                    .execute(params![job, ms])?;
            }
            "over" => {
                self.budget.spent += text.len() as i64;
                transaction
                    .prepare_cached(
                        "UPDATE job SET ended_ms = max(?2, coalesce(started_ms, submitted_ms)), status = ?3,
                           cause = ?4, cpu_us = ?5, largest_bytes = ?6 WHERE job = ?1",
                    )?
                    .execute(params![
                        job,
                        ms,
                        event.status,
                        Some(text).filter(|text| !text.is_empty()),
                        number(event.used.cpu_us),
                        number(event.used.largest_bytes)
                    ])?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes an earlier job of this number: numbers come again where the state folder was new.
    fn forget_other(&mut self, transaction: &Transaction<'_>, job: i64, ms: i64) -> rusqlite::Result<()> {
        let gone = transaction
            .prepare_cached("DELETE FROM job WHERE job = ?1 AND submitted_ms <> ?2")?
            .execute([job, ms])?;
        if gone > 0 {
            transaction.prepare_cached("DELETE FROM place WHERE job = ?1")?.execute([job])?;
            self.open.remove(&(job as u64));
        }
        Ok(())
    }

    fn put_report(
        &mut self,
        transaction: &Transaction<'_>,
        report: &Report,
        now_ms: i64,
    ) -> rusqlite::Result<()> {
        if !report.daemon {
            if self.silence.is_none() {
                self.silence = Some(put_gap(transaction, now_ms, None, "no daemon answered")?);
                self.end_places(transaction, now_ms, |_| true)?;
                self.nodes.clear();
            }
            return Ok(());
        }
        if let Some(row) = self.silence.take() {
            end_gap(transaction, row, now_ms)?;
        }
        // Jobs of other daemons are in their histories.
        let placed = |job: &&Job| {
            let is_known = !job.place.rows.is_empty() || job.share.weight.is_none();
            let is_new = now_ms - (job.time.since_ms as i64) < PLACED_MS;
            job.id.key.other.is_none() && job.time.runs && (is_known || !is_new)
        };
        let jobs: BTreeMap<u64, &Job> =
            report.jobs.iter().filter(placed).map(|job| (job.id.key.job, job)).collect();
        self.end_places(transaction, now_ms, |job| !jobs.contains_key(&job))?;
        for (id, job) in &jobs {
            self.put_place(transaction, *id, job, now_ms)?;
        }
        let shares = report.jobs.iter().map(|job| (job.id.key, &job.share)).collect();
        for node in &report.nodes {
            self.put_load(transaction, node, load(node, &shares), now_ms)?;
        }
        Ok(())
    }

    fn end_places(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: i64,
        is_ended: impl Fn(u64) -> bool,
    ) -> rusqlite::Result<()> {
        let ended: Vec<u64> = self.open.keys().copied().filter(|job| is_ended(*job)).collect();
        for job in ended {
            let open = self.open.remove(&job).expect("it is one of them");
            // The log knows the end better than a look each second.
            transaction
                .prepare_cached(
                    "UPDATE place SET until_ms = max(from_ms,
                       min(?2, coalesce((SELECT ended_ms FROM job WHERE job = place.job), ?2)))
                     WHERE rowid = ?1",
                )?
                .execute([open.row, now_ms])?;
        }
        Ok(())
    }

    fn put_place(
        &mut self,
        transaction: &Transaction<'_>,
        id: u64,
        job: &Job,
        now_ms: i64,
    ) -> rusqlite::Result<()> {
        let rows = job.place.rows.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let slots = slots_text(job);
        let served_ms = job.place.served_ms;
        if let Some(open) = self.open.get_mut(&id) {
            let is_same = (&open.rows, &open.slots, open.asked) == (&rows, &slots, job.share.asked_permille);
            let had_ms = served_ms.saturating_sub(open.served_ms);
            if is_same {
                return Ok(());
            }
            transaction
                .prepare_cached(
                    "UPDATE place SET until_ms = max(from_ms, ?2), served_ms = ?3 WHERE rowid = ?1",
                )?
                .execute(params![open.row, now_ms, had_ms])?;
            self.open.remove(&id);
        }
        if !self.budget.take(rows.len() + slots.len()) {
            return Ok(());
        }
        // The first stretch begins when the ranks did, not at the next look.
        let from_ms = match is_new(transaction, id)? {
            true => now_ms.min(job.time.since_ms as i64),
            false => now_ms,
        };
        let asked = job.share.asked_permille;
        transaction
            .prepare_cached("INSERT INTO place VALUES (?1, ?2, NULL, ?3, ?4, ?5, NULL)")?
            .execute(params![id, from_ms, rows, slots, asked])?;
        let row = transaction.last_insert_rowid();
        self.open.insert(id, Open { row, rows, slots, asked, served_ms });
        Ok(())
    }

    fn put_load(
        &mut self,
        transaction: &Transaction<'_>,
        node: &Node,
        load: Load,
        now_ms: i64,
    ) -> rusqlite::Result<()> {
        if !self.nodes.contains_key(&node.name) {
            transaction.execute("INSERT OR IGNORE INTO node(name) VALUES (?1)", [&node.name])?;
            let id = transaction
                .query_row("SELECT node FROM node WHERE name = ?1", [&node.name], |row| row.get(0))?;
            self.nodes.insert(node.name.clone(), Known { id, last: None, sums: Sums::default() });
        }
        let known = self.nodes.get_mut(&node.name).expect("it has just been put there");
        let minute = now_ms / 60_000;
        if known.sums.minute != minute {
            let sums = std::mem::take(&mut known.sums);
            known.sums.minute = minute;
            if sums.seconds > 0 && self.budget.take(0) {
                let mean = |sum: u64| sum as f64 / f64::from(sums.seconds);
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO minute VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                    .execute(params![
                        known.id,
                        sums.minute,
                        sums.seconds,
                        mean(sums.jobs),
                        mean(sums.ranks),
                        mean(sums.busy)
                    ])?;
            }
        }
        if load.is_alive {
            known.sums.seconds += 1;
            known.sums.jobs += u64::from(load.jobs);
            known.sums.ranks += load.ranks;
            known.sums.busy += u64::from(load.busy_permille);
        }
        let coarse = Load {
            busy_permille: (load.busy_permille + STEP_PERMILLE / 2) / STEP_PERMILLE * STEP_PERMILLE,
            ..load
        };
        if known.last != Some(coarse) && self.budget.take(0) {
            known.last = Some(coarse);
            transaction
                .prepare_cached("INSERT OR REPLACE INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![
                    known.id,
                    now_ms / 1000,
                    coarse.is_alive,
                    coarse.jobs,
                    coarse.ranks,
                    coarse.busy_permille
                ])?;
        }
        Ok(())
    }
}

/// Whether no stretch of the job is known.
fn is_new(transaction: &Transaction<'_>, job: u64) -> rusqlite::Result<bool> {
    let found = transaction
        .prepare_cached("SELECT 1 FROM place WHERE job = ?1 LIMIT 1")?
        .query_row([job], |_| Ok(()))
        .optional()?;
    Ok(found.is_none())
}

/// Slots by node as `n0:0,1 n1:2`; of a job whose slots are not known its nodes alone.
fn slots_text(job: &Job) -> String {
    let of = |(node, slots): (&String, &[u32])| {
        let slots: Vec<usize> = slots.iter().map(|slot| *slot as usize).collect();
        // Blanks and colons part the entries.
        let node = node.replace([' ', ':'], "_");
        format!("{node}:{}", tutti_os::cpu_list::format(&slots))
    };
    let known = job.place.slots.iter().map(|(node, slots)| of((node, slots)));
    let known: Vec<String> = known.collect();
    if known.is_empty() {
        return job.size.nodes.iter().map(|node| of((node, &[]))).collect::<Vec<_>>().join(" ");
    }
    known.join(" ")
}

/// Load of a node by the shares that jobs have had, and how much they compute in them.
pub(super) fn load(node: &Node, shares: &BTreeMap<Key, &Share>) -> Load {
    let mut slots: BTreeMap<_, u64> = node.beside.iter().copied().collect();
    let mut of_key: BTreeMap<_, std::collections::BTreeSet<u32>> = BTreeMap::new();
    for ((_, slot), key) in &node.cells {
        of_key.entry(*key).or_default().insert(*slot);
    }
    slots.extend(of_key.iter().map(|(key, slots)| (*key, slots.len() as u64)));
    let part = |key| {
        let share = shares.get(&key)?;
        let had = u64::from(share.had_permille.unwrap_or(1000));
        Some(had * u64::from(share.busy_permille.unwrap_or(0)))
    };
    let busy_of = |(key, slots): (_, &u64)| u128::from(*slots) * u128::from(part(key).unwrap_or(0));
    let busy: u128 = slots.iter().map(|(key, slots)| busy_of((*key, slots))).sum();
    let busy_permille = busy / 1000 / u128::from(node.slots.max(1));
    Load {
        is_alive: node.is_alive(),
        jobs: slots.len() as u32,
        ranks: node.ranks,
        busy_permille: busy_permille.min(1000) as u32,
    }
}
