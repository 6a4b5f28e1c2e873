//! `tutti advise`: which running jobs leave slots, and which jobs could fill them.
//!
//! Made from the list of jobs alone, here: the controller knows of each job how much of its slots' time it
//! uses ([`JobRow::busy_permille`]). It is advice: nothing is changed by it.

use std::process::ExitCode;

use serde_json::json;

use super::answer::OTHER_VERSION;
use crate::cluster::{self, Answer, JobRow, Request};
use crate::stdout;
use tutti_client::table::aligned;
use tutti_client::{states, users};
use tutti_protocol::users::JobState;

/// Busy part of its slots' time, in thousandths, above which a job leaves nothing that is worth a word.
const BUSY_MAX_PERMILLE: u32 = 850;

/// A running job that leaves slots.
#[derive(Debug, PartialEq, Eq)]
struct Giver {
    job: u64,
    /// Thousandths of a slot that it leaves, in all.
    left_milli: u64,
    /// Whether it is a filler itself.
    fills: bool,
}

/// A job that could fill what another leaves.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    job: u64,
    beside: u64,
    /// Thousandths of a slot that it would have, at most.
    milli: u64,
    /// Whether it is offered already.
    fills: bool,
    /// The other could fill what this one leaves, too.
    mutual: bool,
}

/// The advice, givers and offers by how much it is.
fn advice(rows: &[JobRow]) -> (Vec<Giver>, Vec<Offer>) {
    let left = |row: &JobRow| {
        let busy = row.busy_permille.filter(|busy| *busy <= BUSY_MAX_PERMILLE && row.gang)?;
        (row.state == JobState::Running && !row.exclusive).then(|| row.ranks * u64::from(1000 - busy))
    };
    let mut givers: Vec<Giver> = rows
        .iter()
        .filter_map(|row| Some(Giver { job: row.job.0, left_milli: left(row)?, fills: row.fill }))
        .collect();
    givers.sort_by_key(|giver| std::cmp::Reverse(giver.left_milli));
    let mut offers = Vec::new();
    // What a filler leaves is for those that it is behind.
    for giver in rows.iter().filter(|row| !row.fill) {
        let Some(left_milli) = left(giver) else { continue };
        for row in rows.iter().filter(|row| row.job != giver.job && row.gang && !row.exclusive) {
            // One that waits may come to any node.
            let common = match row.state {
                JobState::Running => giver.nodes.iter().filter(|node| row.nodes.contains(node)).count(),
                JobState::Waiting => giver.nodes.len(),
                _ => 0,
            };
            let part = left_milli * common as u64 / (giver.nodes.len() as u64).max(1);
            let milli = part.min(row.ranks * 1000);
            if milli > 0 {
                let mutual = !row.fill && left(row).is_some() && row.state == JobState::Running;
                let (job, beside) = (row.job.0, giver.job.0);
                offers.push(Offer { job, beside, milli, fills: row.fill, mutual });
            }
        }
    }
    offers.sort_by_key(|offer| std::cmp::Reverse(offer.milli));
    (givers, offers)
}

/// Thousandths with one digit behind the point.
fn tenths(milli: u64) -> String {
    format!("{}.{}", milli / 1000, milli % 1000 / 100)
}

fn owner(rows: &[JobRow], job: u64) -> String {
    rows.iter().find(|row| row.job.0 == job).map_or_else(|| "-".into(), |row| users::name(row.uid))
}

fn text(rows: &[JobRow]) -> String {
    let (givers, offers) = advice(rows);
    let known = |row: &&JobRow| row.busy_permille.is_some() && row.state == JobState::Running;
    if rows.iter().filter(known).count() == 0 {
        return "no running job has been measured for long enough\n".into();
    }
    let mut table = vec![["JOB", "STATE", "USER", "RANKS", "BUSY", "LEAVES"].map(str::to_owned).to_vec()];
    for row in rows.iter().filter(known) {
        let giver = givers.iter().find(|giver| giver.job == row.job.0);
        let busy = u64::from(row.busy_permille.unwrap_or(0));
        table.push(vec![
            row.job.to_string(),
            states::of(row).to_owned(),
            users::name(row.uid),
            row.ranks.to_string(),
            format!("{}.{}%", busy / 10, busy % 10),
            giver.map_or_else(|| "-".into(), |giver| tenths(giver.left_milli)),
        ]);
    }
    let mut text = aligned(&table, &[true, false, false, true, true, true]);
    for offer in &offers {
        let (job, beside) = (offer.job, offer.beside);
        let (user, other) = (owner(rows, job), owner(rows, beside));
        let slots = tenths(offer.milli);
        // Of a pair it is said once.
        if offer.mutual && job < beside {
            text.push_str(&format!(
                "jobs {job} ({user}) and {beside} ({other}) could fill each other, both submitted with --fill\n"
            ));
        } else if offer.fills {
            text.push_str(&format!("job {job} ({user}) fills job {beside} ({other}): up to {slots} slots\n"));
        } else if !offer.mutual {
            text.push_str(&format!(
                "job {job} ({user}) could fill job {beside} ({other}), submitted with --fill: up to {slots} slots\n"
            ));
        }
    }
    if offers.is_empty() {
        text.push_str("there is nothing to be filled, or nobody to fill it\n");
    }
    text
}

fn as_json(rows: &[JobRow]) -> serde_json::Value {
    let (givers, offers) = advice(rows);
    let giver = |one: &Giver| json!({ "job": one.job, "left_milli": one.left_milli, "fills": one.fills });
    let offer = |one: &Offer| {
        json!({
            "job": one.job, "beside": one.beside, "milli": one.milli, "fills": one.fills, "mutual": one.mutual,
        })
    };
    json!({
        "leave": givers.iter().map(giver).collect::<Vec<_>>(),
        "offers": offers.iter().map(offer).collect::<Vec<_>>(),
    })
}

/// `tutti advise`.
///
/// # Errors
/// When no daemon answers; a text for the user.
pub(super) fn run(in_json: bool) -> Result<ExitCode, String> {
    let rows = match cluster::request(&Request::Jobs { all: false })?.0 {
        Answer::Jobs(rows) => rows,
        _ => return Err(OTHER_VERSION.into()),
    };
    let text = if in_json { format!("{:#}\n", as_json(&rows)) } else { text(&rows) };
    Ok(stdout::print(Some(text), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job of so many ranks on these nodes that uses so many thousandths of its slots.
    fn row(job: u64, ranks: u64, nodes: &[&str], busy: Option<u32>) -> JobRow {
        let value = json!({
            "job": job, "uid": 0, "state": "running", "name": "", "ranks": ranks, "nodes": nodes,
            "command": "a.out", "submitted_ms": 0, "started_ms": 0, "ended_ms": null, "status": null,
            "weight": 100, "exclusive": false, "memory_bytes": 0, "limits_memory": false, "enrolled": false,
            "gang": true, "fill": false, "turns": 1, "waits": null, "pids": [], "busy_permille": busy,
            "limit_ms": null, "first_ranks": [],
        });
        serde_json::from_value(value).expect("a row")
    }

    fn offer(job: u64, beside: u64, milli: u64) -> Offer {
        Offer { job, beside, milli, fills: false, mutual: false }
    }

    #[test]
    fn advice_lists_free_slots_and_jobs_that_could_fill_them() {
        let rows = [
            row(1, 4, &["a", "b"], Some(600)),
            row(2, 2, &["b"], Some(990)),
            row(3, 2, &["c"], Some(990)),
            row(4, 1, &["a"], None),
        ];
        let (givers, offers) = advice(&rows);
        assert_eq!(givers, [Giver { job: 1, left_milli: 1600, fills: false }]);
        assert_eq!(offers, [offer(2, 1, 800), offer(4, 1, 800)], "those on its nodes, half of it on each");
        let text = text(&rows);
        assert!(text.contains("could fill job 1 (root), submitted with --fill: up to 0.8 slots"), "{text}");
    }

    #[test]
    fn advice_names_two_coarse_jobs_once_and_those_that_fill_already() {
        let mut rows = vec![row(1, 2, &["a"], Some(850)), row(2, 2, &["a"], Some(500))];
        let said = text(&rows);
        let pair = "jobs 1 (root) and 2 (root) could fill each other, both submitted with --fill\n";
        assert_eq!(said.matches("could fill").count(), 1, "{said}");
        assert!(said.ends_with(pair), "{said}");
        rows[1].fill = true;
        let said = text(&rows);
        assert!(said.ends_with("job 2 (root) fills job 1 (root): up to 0.3 slots\n"), "{said}");
    }

    #[test]
    fn advice_leaves_out_busy_jobs_and_jobs_without_turns() {
        let mut rows = vec![row(1, 2, &["a"], Some(851)), row(2, 2, &["a"], None)];
        assert_eq!(advice(&rows), (Vec::new(), Vec::new()));
        assert!(text(&rows).ends_with("there is nothing to be filled, or nobody to fill it\n"));
        (rows[0].busy_permille, rows[1].gang) = (Some(100), false);
        assert!(advice(&rows).1.is_empty(), "a job without turns runs all the time");
        rows[0].exclusive = true;
        assert!(advice(&rows).0.is_empty(), "nobody else comes to its nodes");
        assert_eq!(text(&[row(2, 2, &["a"], None)]), "no running job has been measured for long enough\n");
    }
}
