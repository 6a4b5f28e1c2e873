//! `tutti doctor`: what keeps Tutti from working well here, and what to do about it.
//!
//! ```text
//! facts (crate::doctor::facts, read by this process)  --\
//! the program, as this user finds it (doctor/file)  --> checks (pure) -> a line each, exit status
//! all nodes of a cluster (doctor/nodes, probe)      --/
//! ```
//!
//! A line begins with `OK`, `MAY` (it works, and could work better) or `FIX`. The exit status is 1 if there
//! is a FIX.

mod checks;
mod facts;
mod file;
mod nodes;
mod probe;

use std::ffi::OsString;
use std::process::ExitCode;

use facts::Facts;
use serde_json::json;
use tutti_os::stderr::escape_control;

use crate::plain_name::Owner;
use crate::stdout;
use checks::{Check, Verdict};

/// Options of `tutti doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// A program that is to be found here, and can run
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
    /// For scripts
    #[arg(long)]
    json: bool,
    /// What a rank of the doctor's own job is to do
    #[arg(long, hide = true, value_name = "TASK")]
    rank: Option<String>,
}

/// Checks this machine, and the nodes of the cluster if it has one, and prints the findings.
///
/// # Errors
/// A rank that cannot do what it should; else what cannot be found out is a line too.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    if let Some(task) = &options.rank {
        return probe::run(task).map(|()| ExitCode::SUCCESS);
    }
    let facts = Facts::read();
    let mut checks = checks::of_machine(&facts);
    checks.push(checks::of_plain_name(&Owner::read()));
    checks
        .extend(options.program.as_ref().map(|program| checks::of_program(program, &file::inspect(program))));
    checks.extend(match nodes::checks(options.program.as_deref()) {
        Ok(checks) => checks,
        Err(text) => vec![checks::fix("nodes", text, "see `tutti nodes` and the daemons' logs")],
    });
    let status = if checks.iter().any(|check| check.verdict == Verdict::Fix) { 1 } else { 0 };
    let text = if options.json {
        let all = json!({ "ok": status == 0, "checks": checks, "facts": facts });
        serde_json::to_string_pretty(&all).expect("checks are serialisable") + "\n"
    } else {
        checks.iter().map(line).collect()
    };
    match stdout::print(Some(text), "") {
        printed if printed == ExitCode::SUCCESS => Ok(ExitCode::from(status)),
        failed => Ok(failed),
    }
}

fn line(check: &Check) -> String {
    let mut text =
        format!("{:<4} {:<16} {}\n", check.verdict.word(), check.subject, escape_control(&check.found));
    if let Some(advice) = &check.advice {
        text.push_str(&format!("{:<21} -> {}\n", "", escape_control(advice)));
    }
    text
}
