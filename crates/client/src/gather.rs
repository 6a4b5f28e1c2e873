//! Asks the daemon of this node, and those of other users.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{others, requests};
use tutti_protocol::paths;
use tutti_protocol::settings::Setting;
use tutti_protocol::users::{Answer, JobRow, NodeRow, Prices, Request};

use crate::report::{Answers, is_limit};

/// A daemon whose answer is none that this program knows.
pub(crate) const OTHER_VERSION: &str = "the daemon is of another version";

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Answers at this moment. Lines about a daemon that keeps silent go to `notify`.
///
/// # Errors
/// When a daemon refuses, is not trusted, or keeps silent; when there is none although one is named. A text
/// for the user.
pub fn answers(notify: &mut dyn FnMut(&str)) -> Result<Answers, String> {
    let mut answers = Answers::default();
    let jobs = if paths::is_named() {
        // Whoever names a socket means a daemon.
        Some(requests::request_with(&Request::Jobs { all: false }, notify)?.0)
    } else {
        requests::request_if_running_with(&Request::Jobs { all: false }, notify)?
    };
    if let Some(jobs) = jobs {
        answers.daemon = true;
        answers.jobs = jobs_of(jobs)?;
        answers.nodes = nodes_of(requests::request_with(&Request::Nodes, notify)?.0)?;
        answers.prices = prices_of(requests::request_with(&Request::Prices, notify)?.0)?;
        answers.settings = settings_of(requests::request_with(&Request::Configuration, notify)?.0)?;
    }
    answers.others = others::jobs();
    answers.at_ms = now_ms();
    Ok(answers)
}

fn jobs_of(answer: Answer) -> Result<Vec<JobRow>, String> {
    match answer {
        Answer::Jobs(rows) => Ok(rows),
        _ => Err(OTHER_VERSION.into()),
    }
}

fn nodes_of(answer: Answer) -> Result<Vec<NodeRow>, String> {
    match answer {
        Answer::Nodes(rows) => Ok(rows),
        _ => Err(OTHER_VERSION.into()),
    }
}

fn prices_of(answer: Answer) -> Result<Prices, String> {
    match answer {
        Answer::Prices(prices) => Ok(*prices),
        _ => Err(OTHER_VERSION.into()),
    }
}

fn settings_of(answer: Answer) -> Result<Vec<Setting>, String> {
    match answer {
        Answer::Configuration(rows) => Ok(rows.into_iter().filter(is_limit).collect()),
        _ => Err(OTHER_VERSION.into()),
    }
}
