//! `tutti ps`: which jobs are listed, of the daemon of this node, of its log, and of other users' daemons.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use serde_json::json;
use tutti_client::filter::Filter;
use tutti_client::history::{self, Bound};
use tutti_client::{at, others, states};
use tutti_os::stderr::print_line;
use tutti_protocol::paths;

use super::answer::{OTHER_VERSION, show};
use super::jobs::{number_of, print_jobs};
use crate::cluster::{self, Answer, JobId, JobRow, JobState, Request};
use crate::stdout;

/// Jobs that are over, as far as they are listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over(Bound);

impl Over {
    /// None: only those are listed that are not over.
    ///
    /// # Errors
    /// When a limit is given all the same; a text for the user.
    pub(super) fn of(all: bool, filter: &Filter, limit: Option<u32>) -> Result<Option<Self>, String> {
        if all || filter.state.iter().any(|state| state == "over") {
            return Ok(Some(Over(limit.map_or(Bound::LATELY, |limit| Bound::newest(limit as usize)))));
        }
        match limit {
            None => Ok(None),
            Some(_) => Err("--limit is about jobs that are over: it needs --all or --history".into()),
        }
    }

    /// Leaves the rows of a daemon that are meant, and adds those that only the log has; the line about what
    /// is left out.
    fn list(self, rows: &mut Vec<JobRow>, is_alone: bool, filter: &Filter) -> Option<&'static str> {
        let takes = |row: &JobRow| filter.takes(states::of(row), &row.name, row.uid);
        // What the daemon knows of itself is newer.
        let known: BTreeMap<JobId, bool> =
            rows.iter().map(|row| (row.job, row.state == JobState::Over && takes(row))).collect();
        let is_wanted = |row: &JobRow| known.get(&row.job).copied().unwrap_or_else(|| takes(row));
        rows.retain(takes);
        // The log of this machine says nothing of another one's cluster.
        let before = match at::target() {
            None => history::newest(is_alone, self.0, is_wanted),
            Some(_) => history::Past::default(),
        };
        rows.extend(before.rows.into_iter().filter(|row| !known.contains_key(&row.job)));
        rows.sort_by_key(|row| row.job);
        (self.0.apply(rows) | before.is_cut)
            .then_some("older jobs are left out: --limit lists more, --history those of the page's history")
    }
}

/// Prints the jobs. Where there is no daemon, nothing runs.
///
/// # Errors
/// When a daemon has died, or one that is named does not answer; a text for the user.
pub(super) fn run(
    over: Option<Over>,
    filter: &Filter,
    (json, with_others): (bool, bool),
) -> Result<ExitCode, String> {
    let all = over.is_some();
    filter.check()?;
    // Whoever names a socket or a host means a daemon.
    let is_at = at::target().is_some();
    let answer = if (paths::is_named() || is_at) && !all {
        Some(cluster::request(&Request::Jobs { all })?.0)
    } else {
        cluster::request_if_running(&Request::Jobs { all })?
    };
    let is_alone = answer.is_none();
    let mut others = if is_at || json && !with_others { Vec::new() } else { others::jobs() };
    if is_alone && !all && others.is_empty() && cluster::has_died() {
        cluster::request(&Request::Jobs { all })?;
    }
    let mut rows = match answer {
        None => Vec::new(),
        Some(Answer::Jobs(rows)) => rows,
        Some(_) => return Err(OTHER_VERSION.into()),
    };
    // Root's daemon has listed them already.
    let listed: BTreeSet<(u32, u64)> = rows.iter().map(|row| (row.uid, row.job.0)).collect();
    others.retain(|other| !listed.contains(&(other.uid, other.job)));
    others.retain(|other| filter.takes(states::word(other.state), "", other.uid));
    let rest = match over {
        Some(over) => over.list(&mut rows, is_alone, filter),
        None => {
            rows.retain(|row| filter.takes(states::of(row), &row.name, row.uid));
            None
        }
    };
    if !json {
        let rest = rest.map_or_else(String::new, |rest| format!("{rest}\n"));
        return Ok(stdout::print(Some(print_jobs(&rows, &others) + &rest), ""));
    }
    rest.iter().for_each(|rest| print_line(format_args!("tutti ps: {rest}")));
    let own = rows.iter().map(|row| serde_json::to_value(row).expect("rows are serialisable"));
    let theirs = others.iter().map(|other| {
        let mut value = serde_json::to_value(other).expect("rows are serialisable");
        value["job"] = json!(number_of(other));
        value
    });
    show(&own.chain(theirs).collect::<Vec<_>>(), true, |_| String::new())
}
