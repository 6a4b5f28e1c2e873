//! `tutti change`: other values for jobs that wait or run.

use std::process::ExitCode;

use tutti_client::job_name::JobName;
use tutti_client::moments;
use tutti_os::stderr::print_line;
use tutti_protocol::time_limit;
use tutti_protocol::users::Change;

use crate::cluster::{self, Request};

/// Options of `tutti change`.
#[derive(Clone, Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("values").required(true).multiple(true).args(["time", "weight", "name", "begin"])))]
pub(super) struct Options {
    /// Their numbers: 7, or 12_3 for a task of an array
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobName>,
    /// How long the ranks may run, from their start on: 10m, 2h, HH:MM:SS
    #[arg(long, short, value_name = "LIMIT", value_parser = time_ms)]
    time: Option<u64>,
    /// Share of the time beside other jobs, 1 to 10000
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// What `tutti ps` calls them
    #[arg(long, short = 'J', value_name = "NAME")]
    name: Option<String>,
    /// When waiting jobs may get nodes: now, +2h, 17:30, 2026-12-24T17:30
    #[arg(long, value_name = "TIME", value_parser = begin_ms)]
    begin: Option<u64>,
}

fn time_ms(text: &str) -> Result<u64, String> {
    let limit = time_limit::parse(text).ok_or_else(|| format!("expected {}", time_limit::EXPECTED))?;
    Ok(limit.as_millis() as u64)
}

fn begin_ms(text: &str) -> Result<u64, String> {
    moments::moment(text).ok_or_else(|| format!("expected {}", moments::BEGIN_EXPECTED))
}

/// Asks for each job; a line for each refusal.
pub(super) fn run(options: &Options) -> Result<ExitCode, String> {
    let Options { jobs, time, weight, name, begin } = options.clone();
    let change = Change { time_ms: time, weight, name, begin_ms: begin, detached: false };
    let mut status = ExitCode::SUCCESS;
    for job in jobs {
        let asked = job.resolve().and_then(|job| cluster::request(&Request::Change(job, change.clone())));
        if let Err(why) = asked {
            print_line(format_args!("tutti change: {why}"));
            status = ExitCode::FAILURE;
        }
    }
    Ok(status)
}
