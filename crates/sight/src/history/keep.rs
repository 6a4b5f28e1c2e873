//! Removes what is too old, in small steps, and gives its room back to the disk.

use rusqlite::Transaction;

use super::Bounds;

/// Between two times, in ms.
pub(super) const EVERY_MS: i64 = 10 * 60 * 1000;
/// Seconds are kept for a day.
const SAMPLES_S: i64 = 24 * 3600;
/// Jobs that have no end, and no place, are kept for a year: they may be held.
const ENDLESS_MS: i64 = 366 * 24 * 3600 * 1000;
/// Rows that go at once, of each table: a writer is held up for no longer.
const ROWS: i64 = 20_000;
/// Pages that go back to the disk at once.
const PAGES: i64 = 2000;

/// Removes rows that are older than the bounds allow.
pub(super) fn tidy(transaction: &Transaction<'_>, now_ms: i64, bounds: Bounds) -> rusqlite::Result<()> {
    let oldest_ms = now_ms - bounds.keep_ms;
    let old = [
        ("job WHERE ended_ms < ?1", "job", oldest_ms),
        // One without an end may run or wait yet: a row that has gone does not come back.
        (
            "job WHERE ended_ms IS NULL AND submitted_ms < ?1 AND NOT EXISTS
               (SELECT 1 FROM place WHERE place.job = job.job AND until_ms IS NULL)",
            "job",
            now_ms.saturating_sub(bounds.keep_ms.max(ENDLESS_MS)),
        ),
        ("place WHERE until_ms < ?1", "rowid", oldest_ms),
        ("gap WHERE until_ms < ?1", "rowid", oldest_ms),
    ];
    for (rows, key, oldest) in old {
        let table = rows.split(' ').next().unwrap_or_default();
        let sql = format!("DELETE FROM {table} WHERE {key} IN (SELECT {key} FROM {rows} LIMIT {ROWS})");
        transaction.execute(&sql, [oldest])?;
    }
    transaction.execute("DELETE FROM minute WHERE at_min < ?1", [oldest_ms / 60_000])?;
    // Samples are changes: a node's last one before the bound holds at the bound.
    transaction.execute(
        "DELETE FROM sample WHERE at_s <
           (SELECT max(s.at_s) FROM sample s WHERE s.node = sample.node AND s.at_s <= ?1)",
        [now_ms / 1000 - SAMPLES_S],
    )?;
    // Each step of this statement frees a page.
    let mut vacuum = transaction.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut freed = vacuum.query(())?;
    while freed.next()?.is_some() {}
    Ok(())
}
