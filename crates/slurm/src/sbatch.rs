//! `sbatch`: submits a script, from a file, from stdin or from `--wrap`; an array as one submission.
//!
//! The answer is one line on stdout, `Submitted batch job N` or, with `--parsable`, `N`. All else goes to
//! stderr.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tutti_client::requests::{self, JobId};

use crate::getopt::{self, Ends};
use crate::names::VERSION;
use crate::output::{complain, print, refuse_plainly};
use crate::query;
use crate::refusal::Refusal;
use crate::wanted::script;
use crate::wanted::submit::{Folders, Plan, SCRIPT_BYTES_MAX, Source, check_partition, tested};
use crate::wanted::{SPECS, Wanted};

const NAME: &str = "sbatch";

/// Variables that stand for options, behind those of the script and of the command line.
const VARIABLES: [(&str, &str); 20] = [
    ("SBATCH_ACCOUNT", "account"),
    ("SBATCH_ARRAY_INX", "array"),
    ("SBATCH_CLUSTERS", "clusters"),
    ("SBATCH_CONSTRAINT", "constraint"),
    ("SBATCH_ERROR", "error"),
    ("SBATCH_EXCLUSIVE", "exclusive"),
    ("SBATCH_EXPORT", "export"),
    ("SBATCH_GPUS", "gpus"),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node"),
    ("SBATCH_GPUS_PER_TASK", "gpus-per-task"),
    ("SBATCH_GRES", "gres"),
    ("SBATCH_JOB_NAME", "job-name"),
    ("SBATCH_MEM_PER_NODE", "mem"),
    ("SBATCH_OPEN_MODE", "open-mode"),
    ("SBATCH_OUTPUT", "output"),
    ("SBATCH_PARTITION", "partition"),
    ("SBATCH_QOS", "qos"),
    ("SBATCH_RESERVATION", "reservation"),
    ("SBATCH_TIMELIMIT", "time"),
    ("SBATCH_WCKEY", "wckey"),
];

/// Runs the command.
pub fn run(words: &[String]) -> ExitCode {
    let line = match getopt::parse(SPECS, words, Ends::AtOperand) {
        Ok(line) => line,
        Err(error) => return Refusal::from(error).print(NAME),
    };
    let given = |name: &str| line.options.iter().any(|(known, _)| *known == name);
    if given("version") {
        return print(&format!("{VERSION}\n"));
    }
    if given("help") || given("usage") {
        return print("Usage: sbatch [OPTIONS ...] [SCRIPT [ARGUMENTS ...]] | --wrap=COMMAND\n");
    }
    match submit(&line) {
        Ok(status) => status,
        Err(refusal) => refusal.print(NAME),
    }
}

fn submit(line: &getopt::Line) -> Result<ExitCode, Refusal> {
    let failed = |text: String| Refusal::submission(&text);
    let wrap = line.options.iter().rev().find(|(name, _)| *name == "wrap").map(|(_, value)| value.clone());
    let source = source(wrap, &line.operands)?;
    script::check(&source.text)?;
    let mut wanted = Wanted::default();
    for (variable, option) in VARIABLES {
        if let Ok(value) = std::env::var(variable) {
            wanted.set(option, &value)?;
        }
    }
    script::read_options(&String::from_utf8_lossy(&source.text), &mut wanted)?;
    for (name, value) in &line.options {
        wanted.set(name, value)?;
    }
    wanted.settle_gpus().map_err(failed)?;
    let changed = wanted.settle_nodes(query::nodes).map_err(failed)?;
    changed.into_iter().for_each(|line| complain(NAME, &line));
    if !wanted.is_quiet() {
        wanted.ignored_line().into_iter().for_each(|line| complain(NAME, &line));
    }
    check_partition(&wanted)
        .map_err(|text| format!("{text}\nBatch job submission failed: Invalid partition name specified"))?;
    let folders = Folders::of(&wanted)?;
    let plan = Plan::new(&wanted, &source, &folders).map_err(failed)?;
    if wanted.is_test() {
        return Ok(match tested(&wanted) {
            Ok(line) => {
                complain(NAME, &line);
                ExitCode::SUCCESS
            }
            Err(text) => refuse_plainly(&text),
        });
    }
    let job = plan.submit().map_err(failed)?;
    let answer =
        if wanted.is_parsable() { format!("{job}\n") } else { format!("Submitted batch job {job}\n") };
    let status = if wanted.is_quiet() { ExitCode::SUCCESS } else { print(&answer) };
    let elements = wanted.array().map_or(0, |array| array.tasks.len());
    if wanted.waits() { Ok(wait(job, elements)?) } else { Ok(status) }
}

/// Waits for the end: the highest code, and 1 for one that a signal has ended. An array is waited for by
/// its elements, whose numbers follow its own.
fn wait(job: JobId, elements: usize) -> Result<ExitCode, String> {
    let mut highest = 0;
    let jobs = if elements == 0 { job.0..=job.0 } else { job.0 + 1..=job.0 + elements as u64 };
    for number in jobs {
        let code = match requests::wait_for(JobId(number))? {
            Some(status) if status > 128 => 1,
            Some(status) => status,
            None => 1,
        };
        highest = highest.max(code);
    }
    Ok(ExitCode::from(highest))
}

fn source(wrap: Option<String>, operands: &[String]) -> Result<Source, String> {
    if let Some(command) = wrap {
        if !operands.is_empty() {
            return Err("Script arguments not permitted with --wrap option".into());
        }
        let text =
            format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n").into_bytes();
        return limited(Source { text, file: None, arguments: Vec::new(), name: "wrap".into() });
    }
    let mut text = Vec::new();
    let limit = SCRIPT_BYTES_MAX as u64 + 1;
    let Some((file, arguments)) = operands.split_first() else {
        let read = std::io::stdin().lock().take(limit).read_to_end(&mut text);
        read.map_err(|error| format!("Unable to open file /dev/stdin: {error}"))?;
        return limited(Source { text, file: None, arguments: Vec::new(), name: NAME.into() });
    };
    let path = find(file);
    let opened = std::fs::File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut text));
    opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("Unable to open file {file}"),
        _ => format!("Unable to open file {file}: {error}"),
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = if file == "/dev/stdin" || file == "-" { NAME.into() } else { name };
    limited(Source { text, file: Some(path), arguments: arguments.to_vec(), name })
}

fn limited(source: Source) -> Result<Source, String> {
    if source.text.len() > SCRIPT_BYTES_MAX {
        let mib = SCRIPT_BYTES_MAX >> 20;
        return Err(format!("Batch script is larger than {mib} MiB: Job script too large"));
    }
    Ok(source)
}

/// A name without a slash is looked for here, then in PATH.
fn find(file: &str) -> PathBuf {
    let here = PathBuf::from(file);
    if file == "-" {
        return "/dev/stdin".into();
    }
    if file.contains('/') || here.exists() {
        return here;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(file)).find(|file| Path::is_file(file));
    found.unwrap_or(here)
}
