//! `tutti timeline`: a page that shows who ran where and when, from the logs of the controller.
//!
//! What happened until it was asked for is drawn: nodes tell the controller of their turns once a second, so
//! where something has just happened it waits for that. The logs are read as they stand, so it also works
//! when the daemons are gone, and on a copy of them. The page is one file with everything in it; its script
//! only shows a part larger and the time under the pointer.

mod chart;
mod clock;
mod flags;
mod log;
mod page;
mod past;
mod style;
mod switch;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tutti_client::moments;
use tutti_protocol::paths;

use crate::{file, stdout};
use chart::Chart;
use log::{History, Span};
use style::Style;

/// Nodes tell the head of their turns once a second; until then it is on its way for a moment.
const SETTLE: Duration = Duration::from_millis(1500);

/// Options of `tutti timeline`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// From its submission to its end, with all others that ran meanwhile
    #[arg(value_name = "JOB", conflicts_with_all = ["all", "last", "since", "until"])]
    job: Option<u64>,
    /// All that the logs hold (also with --last alone)
    #[arg(long, short)]
    all: bool,
    /// Only the last so many seconds until now
    #[arg(long, value_name = "SECONDS")]
    last: Option<f64>,
    /// Since this moment: 2026-11-28, "2026-11-28 14:30", 12h, 7d; jobs that the logs do not have any more
    /// come from the history of the page (tutti page)
    #[arg(long, value_name = "MOMENT", conflicts_with = "last", value_parser = moment)]
    since: Option<u64>,
    /// With --since: until this moment
    #[arg(long, value_name = "MOMENT", requires = "since", value_parser = moment)]
    until: Option<u64>,
    /// The page to be written; a name in .svg: the picture alone
    #[arg(long, short, value_name = "FILE", default_value = "timeline.html")]
    output: PathBuf,
    /// Folder of the logs events.jsonl and turns.jsonl (default: that of the daemon's socket)
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
}

/// Writes the page.
///
/// # Errors
/// When there is nothing to be drawn, or nowhere to write it; a text for the user.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    if options.job.is_none() && !options.all && options.last.is_none() && options.since.is_none() {
        return Err("JOB, --all, --last SECONDS or --since MOMENT is needed".into());
    }
    moments::check_order(options.since, options.until)?;
    let is_stream = file::is_stream(&options.output);
    let is_picture = match options.output.extension().and_then(OsStr::to_str) {
        Some("svg") => true,
        Some("html" | "htm") => false,
        _ if is_stream => false,
        _ => {
            return Err(format!(
                "{} is neither a page (.html) nor a picture (.svg): there are no other formats",
                options.output.display()
            ));
        }
    };
    let folder = options.logs.clone().unwrap_or_else(|| folder_of(options.job));
    let (events, turns) = (folder.join(paths::EVENTS), folder.join(paths::TURNS));
    let now = SystemTime::now();
    if options.logs.is_none() && [&events, &turns].iter().any(|log| is_fresh(log, now)) {
        // Without a node's last turns a job would seem to run where it was frozen.
        std::thread::sleep(SETTLE);
    }
    let until_us = now.duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_micros() as u64);
    let until_us = options.until.map_or(until_us, |ms| until_us.min(ms * 1000));
    let is_named = options.logs.is_some() || paths::is_named();
    let mut history = log::read((&events, &turns), is_named, until_us)?;
    let span = match options.since {
        Some(since_ms) => {
            past::add(&mut history, (since_ms * 1000, until_us));
            history.span_since(since_ms * 1000, until_us)?
        }
        None => history.span(options.job, options.last)?,
    };
    let history = history.only(span);
    let text = if is_picture {
        let style = Style::new(&history, span);
        Chart { history: &history, style: &style, span, events: true }.draw()
    } else {
        page::page(&history, span, options.job)
    };
    file::write(&options.output, text.as_bytes())?;
    // A page on stdout ends with its last line.
    let printed = if is_stream {
        String::new()
    } else {
        format!("{}: {} KiB\n", options.output.display(), text.len().div_ceil(1024))
    };
    Ok(stdout::print(Some(printed), ""))
}

fn moment(text: &str) -> Result<u64, String> {
    let now_ms = tutti_client::gather::now_ms();
    moments::parse(text, now_ms).ok_or_else(|| format!("{} is expected", moments::EXPECTED))
}

/// The folder whose logs have the job; else that of the node's daemon.
fn folder_of(job: Option<u64>) -> PathBuf {
    let folders = paths::histories();
    let has = |folder: &&PathBuf| {
        let events = folder.join(paths::EVENTS);
        let read = || log::read((&events, &folder.join(paths::TURNS)), paths::is_named(), u64::MAX).ok();
        events.exists() && job.is_some_and(|job| read().is_some_and(|found| found.jobs.contains_key(&job)))
    };
    let found = folders
        .iter()
        .find(has)
        .or_else(|| folders.iter().find(|folder| folder.join(paths::EVENTS).exists()));
    found.or(folders.first()).cloned().unwrap_or_else(paths::of_node)
}

/// True if it has been written to so lately that what nodes have done since may be on its way.
fn is_fresh(log: &Path, now: SystemTime) -> bool {
    let written = std::fs::metadata(log).and_then(|log| log.modified());
    written.is_ok_and(|written| now.duration_since(written).unwrap_or_default() < SETTLE)
}

impl History {
    /// Span to be drawn: a job's time or all, with a little room at both ends.
    fn span(&self, job: Option<u64>, last: Option<f64>) -> Result<Span, String> {
        let (mut from, mut to) = match job {
            Some(id) => {
                let job = self.jobs.get(&id).ok_or(format!("the logs have no job {id}"))?;
                (job.submitted_us, job.over_us.unwrap_or(self.until_us))
            }
            None => (self.jobs.values().map(|job| job.submitted_us).min().unwrap_or(0), self.until_us),
        };
        if from == 0 || to <= from {
            return Err("the logs have no job yet".into());
        }
        let room = (to - from) / 60;
        (from, to) = (from.saturating_sub(room), to + room);
        if let Some(seconds) = last {
            if !(seconds.is_finite() && seconds > 0.0) {
                return Err(format!("--last {seconds} is not a number of seconds"));
            }
            // Until now, not until the end of the room behind it.
            to = self.until_us;
            from = from.max(to.saturating_sub((seconds * 1e6) as u64));
            if from >= to {
                return Err("the logs have no job in that time".into());
            }
        }
        Ok((from, to))
    }

    /// From a moment to another one.
    fn span_since(&self, from_us: u64, to_us: u64) -> Result<Span, String> {
        let is_inside =
            |job: &log::Job| job.submitted_us < to_us && job.over_us.is_none_or(|over| over > from_us);
        if !self.jobs.values().any(is_inside) {
            return Err("there is no job in that time".into());
        }
        let first_us = self.jobs.values().filter(|job| is_inside(job)).map(|job| job.submitted_us).min();
        Ok((from_us.max(first_us.unwrap_or(0)), to_us))
    }

    /// Keeps what matters within a span: jobs of that time, nodes that were used, marks inside.
    fn only(mut self, (from, to): Span) -> Self {
        self.jobs.retain(|_, job| job.submitted_us < to && job.over_us.is_none_or(|over| over > from));
        self.marks.retain(|mark| mark.us >= from && mark.us <= to);
        self.nodes.retain(|node| {
            self.jobs.values().any(|job| job.nodes.contains(&node.name))
                || node.lost.iter().any(|lost| lost.0 < to && lost.1 > from)
        });
        self
    }

    /// The moment from which times are counted: the first submission.
    fn start_us(&self) -> u64 {
        self.jobs.values().map(|job| job.submitted_us).min().unwrap_or(0)
    }
}
