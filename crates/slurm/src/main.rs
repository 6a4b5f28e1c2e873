//! Slurm's commands on a cluster of Tutti: `sbatch`, `srun`, `salloc`, `squeue`, `sacct`, `scancel`,
//! `sinfo`, `scontrol`, `sacctmgr` and `sshare`, one program that behaves by the name it is called by. Tools
//! and scripts for Slurm work unmodified.
//!
//! | file | what |
//! |---|---|
//! | getopt, wanted, wanted/script | command lines and `#SBATCH` lines |
//! | forms, patterns | values as they are written |
//! | refusal | what is refused, and its status |
//! | note | what is kept with a job in Slurm's terms |
//! | view, fields, table | jobs as the listing commands show them |
//! | wanted/submit, wanted/launch | a job or a step on its way to Tutti |
//! | note/inside | its environment where it runs |
//! | the rest | one command each |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unreachable_pub, missing_docs, reason = "a program: no other crate uses it")]

mod accounts;
mod forms;
mod getopt;
mod identity;
mod moments;
mod names;
mod note;
mod output;
mod patterns;
mod query;
mod refusal;
mod reservations;
mod sacct;
mod sbatch;
mod scancel;
mod scontrol;
mod selection;
mod sinfo;
mod squeue;
#[cfg(test)]
mod surface;
mod table;
mod view;
mod wanted;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use names::SCRIPT_NAME;
use note::inside;
use output::complain;
use tutti_client::{at, configured};
use wanted::launch;

/// Names of the commands, all of which ask a daemon.
const COMMANDS: [&str; 8] = ["sbatch", "srun", "salloc", "squeue", "sacct", "scancel", "sinfo", "scontrol"];

fn main() -> ExitCode {
    tutti_os::settle_signals();
    tutti_os::settle_stdout();
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words: Result<Vec<String>, OsString> = arguments.map(OsString::into_string).collect();
    let words = match words {
        Ok(words) => words,
        Err(word) => {
            complain(&name, &format!("error: {word:?} is not UTF-8"));
            return ExitCode::FAILURE;
        }
    };
    if COMMANDS.contains(&name.as_str()) && at::target().is_none() {
        match configured::host() {
            Ok(host) => host.into_iter().for_each(at::set),
            Err(text) => {
                complain(&name, &format!("error: {text}"));
                return ExitCode::FAILURE;
            }
        }
    }
    match name.as_str() {
        "sbatch" => sbatch::run(&words),
        "srun" => launch::srun(&words),
        "salloc" => launch::salloc(&words),
        "squeue" => squeue::run(&words),
        "sacct" => sacct::run(&words),
        "scancel" => scancel::run(&words),
        "sinfo" => sinfo::run(&words),
        "scontrol" => scontrol::run(&words),
        "sacctmgr" => accounts::manager(&words),
        "sshare" => accounts::shares(&words),
        SCRIPT_NAME => inside::run_script(&words),
        _ => match words.split_first() {
            Some((first, rest)) if first == "task" => inside::run_task(rest),
            Some((first, rest)) if first == "allocation" => inside::run_allocation(rest),
            Some((first, rest)) if first == "timer" => inside::run_timer(rest),
            _ => {
                complain(
                    "tutti-slurm",
                    "call it as sbatch, srun, salloc, squeue, sacct, scancel, sinfo or scontrol",
                );
                ExitCode::FAILURE
            }
        },
    }
}
