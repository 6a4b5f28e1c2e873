//! `tutti top`: nodes, jobs and users, once as text or live on a terminal. `tutti` starts it in its own place
//! (`exec`), so it has the terminal, the signals and the status to itself.
//!
//! ```text
//! gather, report (pure; both of `tutti_client`): daemons --Answers--> Report --> once: text, JSON
//!                                                                 \-> model (pure: state + events -> effects)
//!                                                                      live: threads, terminal <--> screen (pure)
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod live;
mod model;
mod once;

mod screen;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use tutti_client::top_options::Options;
use tutti_os::stderr::print_line;
use tutti_protocol::daemon_options::{complaint, print_asked};

#[cfg(test)]
use tutti_client::report::Answers;
use tutti_client::report::{Before, Report};
use tutti_client::{gather, requests};

#[cfg(test)]
mod hostile;
#[cfg(test)]
#[path = "../fuzz/targets/readers.rs"]
mod readers;
#[cfg(test)]
#[path = "../../client/src/report/samples.rs"]
#[allow(dead_code, reason = "its other half is for tests of the reports")]
mod samples;
#[cfg(test)]
#[path = "../fuzz/targets/seeds.rs"]
mod seeds;

#[derive(Debug, Parser)]
#[command(name = "tutti top", about = "Nodes, jobs and users, live")]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    tutti_os::settle_signals();
    tutti_os::settle_stdout();
    let options = match Line::try_parse() {
        Ok(line) => line.options,
        Err(error) if error.use_stderr() => {
            print_line(format_args!("tutti top: {}", complaint(&error)));
            return ExitCode::from(error.exit_code() as u8);
        }
        Err(error) => return print_asked(&error),
    };
    match run(&options) {
        Ok(status) => status,
        Err(text) => {
            print_line(format_args!("tutti top: {text}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, String> {
    let filter = options.filter();
    filter.check()?;
    if options.once || options.json { once(options) } else { live::run(options) }
}

/// Shows one report; shares are those since each job's start.
fn once(options: &Options) -> Result<ExitCode, String> {
    let answers = gather::answers(&mut |text| print_line(format_args!("tutti top: {text}")))?;
    if !answers.daemon && answers.others.is_empty() && requests::has_died() {
        requests::connect()?;
    }
    let before = Before::default();
    let report = Report::new(&answers, &before, &options.filter());
    let text = match options.json {
        true => format!("{:#}\n", once::json(&answers, &report)),
        false => once::text(&report),
    };
    Ok(if tutti_os::stdout::print(&text) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
