//! `tutti submit`: a job that nobody waits for.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;
use tutti_client::at;
use tutti_os::stderr::print_line;

use super::answer::OTHER_VERSION;
use crate::cluster::{self, Answer};
use crate::options::{self, Launcher};
use crate::{front, stdout};

pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = &match options::expanded(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            print_line(format_args!("tutti submit: {error}"));
            return ExitCode::from(options::USAGE);
        }
    };
    if let Some(target) = at::target() {
        return submit_at(&target, arguments);
    }
    let front::Submission { submit, in_json, origin } = match front::submission(arguments) {
        Ok(submission) => submission,
        Err(status) => return status,
    };
    if let Err(text) = front::start_daemon_if_missing() {
        print_line(format_args!("tutti submit: {text}"));
        return ExitCode::FAILURE;
    }
    let answer = cluster::submit(submit, &mut cluster::complain).map_err(|error| error.to_string());
    if let (Ok(Answer::Job(job)), Some(origin)) = (&answer, &origin) {
        origin.follow(*job);
    }
    report_number(answer, in_json)
}

/// Submits on another host, where the command line is read.
fn submit_at(target: &str, arguments: &[OsString]) -> ExitCode {
    let in_json = match options::parse_as(arguments, Launcher::Submit) {
        Ok(options::Request::Run(options)) => options.beside.json,
        Ok(_) => return front::submission(arguments).map_or_else(|status| status, |_| ExitCode::SUCCESS),
        Err(_) => false,
    };
    let start = front::start_of(arguments, at::Launcher::Submit);
    report_number(start.and_then(|start| cluster::start_at(target, start)), in_json)
}

fn report_number(answer: Result<Answer, String>, in_json: bool) -> ExitCode {
    match answer {
        Ok(Answer::Job(job)) if in_json => stdout::print(Some(format!("{}\n", json!({ "job": job }))), ""),
        Ok(Answer::Job(job)) => stdout::print(Some(format!("job {job}\n")), ""),
        Ok(_) => stdout::print(None, OTHER_VERSION),
        Err(text) => {
            print_line(format_args!("tutti submit: {text}"));
            ExitCode::FAILURE
        }
    }
}
