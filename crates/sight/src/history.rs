//! History in an embedded database: jobs, where they stood in the matrix from when on, load of nodes, gaps.
//!
//! | table | a row is | kept |
//! |---|---|---|
//! | `job` | a job, from the log of events | [`Bounds::keep_ms`] |
//! | `place` | a stretch of a job with the same rows, slots and share asked | the same |
//! | `sample` | jobs, ranks and load of a node, where they have changed since the second before | a day |
//! | `minute` | means of the samples of a node over a minute | [`Bounds::keep_ms`] |
//! | `gap` | a stretch of which the history knows nothing, and why | the same |
//! | `mark` | place in the log, last moment seen, bytes of the day | one row each |
//!
//! [`History::record`] is called once a second with what there is, in one transaction. It never fails: a full
//! disk is a gap, a database that is damaged or of a newer release is set aside, and a new one begins. Both
//! are said once. A reader ([`read`]) has a connection of its own.

mod keep;
pub mod read;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tutti_client::report::Report;
use tutti_os::stderr::print_line;

use crate::log::Event;
use crate::tail::Position;
use write::Writer;

/// Name of the file in the folder.
pub const FILE: &str = "history.db";
/// Mark of our databases ("tuti").
const APPLICATION: i64 = 0x7475_7469;
/// Version of the tables: the one before has other indices.
const VERSION: i64 = 2;
/// A reader, or a copy that is being made, may hold the database for so long.
const BUSY: Duration = Duration::from_secs(2);

/// Settings of a new database; none of them can be made in a transaction.
const SETTINGS: &str = "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;";

const TABLES: &str = "
PRAGMA application_id = 1953854569;
CREATE TABLE job(job INTEGER PRIMARY KEY, uid INTEGER, name TEXT, command TEXT, ranks INTEGER, nodes TEXT,
  submitted_ms INTEGER, started_ms INTEGER, ended_ms INTEGER, status INTEGER, cause TEXT, cpu_us INTEGER,
  largest_bytes INTEGER);
CREATE TABLE place(job INTEGER, from_ms INTEGER, until_ms INTEGER, rows TEXT, slots TEXT, asked INTEGER,
  served_ms INTEGER);
CREATE INDEX place_job ON place(job);
CREATE TABLE node(node INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE sample(node INTEGER, at_s INTEGER, alive INTEGER, jobs INTEGER, ranks INTEGER, busy INTEGER,
  PRIMARY KEY(node, at_s)) WITHOUT ROWID;
CREATE TABLE minute(node INTEGER, at_min INTEGER, seconds INTEGER, jobs REAL, ranks REAL, busy REAL,
  PRIMARY KEY(node, at_min)) WITHOUT ROWID;
CREATE TABLE gap(from_ms INTEGER, until_ms INTEGER, why TEXT);
CREATE TABLE mark(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;
";

/// Indices of version 1, made in the same way.
const INDICES_BEFORE: &str = "
CREATE INDEX job_submitted ON job(submitted_ms);
CREATE INDEX place_from ON place(from_ms);
";

/// Indices in the order of lists, with the end: what was over before a span costs no look at its row. Those
/// of a database of before are replaced.
const INDICES: &str = "
DROP INDEX IF EXISTS job_submitted;
DROP INDEX IF EXISTS place_from;
CREATE INDEX job_span ON job(submitted_ms, job, ended_ms);
CREATE INDEX job_user ON job(uid, submitted_ms, job, ended_ms);
CREATE INDEX job_name ON job(name, submitted_ms, job, ended_ms);
CREATE INDEX place_span ON place(from_ms, until_ms);
PRAGMA user_version = 2;
";

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Length, in ms.
    pub keep_ms: i64,
    /// Bytes that are written on a day (UTC), at most, about: what has been written counts, with what each
    /// row costs beside its text.
    pub day_bytes: i64,
}

/// Moment that is recorded at once.
#[derive(Debug)]
pub struct Entry<'a> {
    /// When, in ms since 1970.
    pub now_ms: i64,
    /// Time that was to pass since the record before, in ms.
    pub pause_ms: i64,
    /// Events of the log.
    pub events: &'a [Event],
    /// Place in the log behind them.
    pub position: Option<Position>,
    /// Events before these are gone.
    pub is_lost: bool,
    /// Report of the daemons; none: they have not been asked.
    pub report: Option<&'a Report>,
}

/// The history of a cluster, or the reason why there is none now.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    bounds: Bounds,
    writer: Option<Writer>,
    /// Since when nothing could be written, in ms since 1970.
    failed_ms: Option<i64>,
}

impl History {
    /// History in this folder; one that cannot be opened is tried again with each record.
    pub fn open(folder: &Path, bounds: Bounds) -> Self {
        let mut history = History { folder: folder.to_owned(), bounds, writer: None, failed_ms: None };
        if let Err(error) = history.connect() {
            history.handle_error(&error, now_ms());
        }
        history
    }

    /// Place in the log up to which events are kept, where the history can be written.
    pub fn position(&self) -> Option<Position> {
        self.writer.as_ref()?.position()
    }

    /// Whether the history can be written; one that could not is opened anew.
    pub fn is_open(&mut self) -> bool {
        let opened = self.connect();
        opened.map_err(|error| self.handle_error(&error, now_ms())).is_ok()
    }

    /// Records what there is; `false`: it could not, and the place in the log is the one before.
    pub fn record(&mut self, entry: &Entry<'_>) -> bool {
        let recorded = self.connect().and_then(|()| {
            let writer = self.writer.as_mut().expect("it is connected");
            writer.record(entry, self.failed_ms)
        });
        match recorded {
            Ok(()) => {
                if self.failed_ms.take().is_some() {
                    print_line("tutti-sight: the history is written again; the gap is marked");
                }
                true
            }
            Err(error) => {
                self.handle_error(&error, entry.now_ms);
                false
            }
        }
    }

    fn connect(&mut self) -> rusqlite::Result<()> {
        if self.writer.is_none() {
            let path = self.folder.join(FILE);
            let connection = self.connection(&path)?;
            self.writer = Some(Writer::new(connection, self.bounds)?);
        }
        Ok(())
    }

    /// A database with our tables: the one that is there, else a new one.
    fn connection(&self, path: &Path) -> rusqlite::Result<Connection> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        let value = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let (application, version) = (value("application_id")?, value("user_version")?);
        let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        if (application, version, tables) == (0, 0, 0) {
            make(&connection)?;
            return Ok(connection);
        }
        let checked: String = connection.query_row("PRAGMA quick_check(1)", (), |row| row.get(0))?;
        if application == APPLICATION && checked == "ok" {
            if version == VERSION && statements(&connection)? == own_statements(INDICES)? {
                return Ok(connection);
            }
            if version == 1 && statements(&connection)? == own_statements(INDICES_BEFORE)? {
                connection.execute_batch(&format!("BEGIN; {INDICES} COMMIT;"))?;
                return Ok(connection);
            }
        }
        drop(connection);
        let (word, why) = match application == APPLICATION && version > VERSION {
            true => ("newer", format!("of a newer release (version {version}, expected {VERSION})")),
            false => {
                ("damaged", format!("none of ours, or damaged ({})", checked.lines().next().unwrap_or("")))
            }
        };
        if !self.set_aside(word, &why) {
            return Err(rusqlite::Error::InvalidPath(path.to_owned()));
        }
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        make(&connection)?;
        Ok(connection)
    }

    /// Gives another name to a database that cannot be used, with what of it is in its log still; one of each
    /// kind is kept. Whether that could be done: else all of it stays.
    fn set_aside(&self, word: &str, why: &str) -> bool {
        let path = self.folder.join(FILE);
        let aside = self.folder.join(format!("history.{word}.db"));
        let moved = std::fs::rename(&path, &aside);
        let (shown, aside_shown) = (path.display(), aside.display());
        if let Err(error) = moved {
            // It is tried again with each record, and said once.
            if self.failed_ms.is_none() {
                print_line(format_args!("tutti-sight: the history {shown} is {why}, and stays: {error}"));
            }
            return false;
        }
        for more in ["-wal", "-shm"] {
            let [from, to] = [&path, &aside].map(|file| PathBuf::from(format!("{}{more}", file.display())));
            if std::fs::rename(from, &to).is_err() {
                // That of the one which was kept before.
                let _ = std::fs::remove_file(to);
            }
        }
        print_line(format_args!(
            "tutti-sight: the history {shown} is {why}: it is {aside_shown} now, and a new one begins"
        ));
        true
    }

    /// Whether an error is the database's own, not one of its disk.
    fn is_damage(&self, error: &rusqlite::Error) -> bool {
        use rusqlite::Error::{
            FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
        };
        let access = rustix::fs::Access::WRITE_OK;
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => true,
            // A damaged head says that it is written by a later SQLite.
            Some(ErrorCode::ReadOnly) => rustix::fs::access(self.folder.join(FILE), access).is_ok(),
            // A value of another type than its column's, a text that is none.
            _ => matches!(
                error,
                InvalidColumnType(..)
                    | IntegralValueOutOfRange(..)
                    | FromSqlConversionFailure(..)
                    | Utf8Error(..)
            ),
        }
    }

    fn handle_error(&mut self, error: &rusqlite::Error, now_ms: i64) {
        self.writer = None;
        if self.is_damage(error) {
            let _ = self.set_aside("damaged", &format!("damaged ({error})"));
        } else if self.failed_ms.is_none() {
            let path = self.folder.join(FILE);
            print_line(format_args!(
                "tutti-sight: cannot write the history {}: {error}; it is tried again each second",
                path.display()
            ));
        }
        self.failed_ms.get_or_insert(now_ms);
    }
}

/// Makes the tables of an empty database.
fn make(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("{SETTINGS} BEGIN; {TABLES} {INDICES} COMMIT;"))
}

/// Statements that have made the tables of a database.
fn statements(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql =
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name";
    connection.prepare(sql)?.query_map((), |row| row.get(0))?.collect()
}

/// The same of a new one with these indices.
fn own_statements(indices: &str) -> rusqlite::Result<Vec<String>> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(TABLES)?;
    connection.execute_batch(indices)?;
    statements(&connection)
}

/// A connection that only reads.
fn reader(folder: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(folder.join(FILE), flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    tutti_client::gather::now_ms() as i64
}

#[cfg(test)]
mod tests;
