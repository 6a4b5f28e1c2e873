//! `tutti logs`: what a job has written. The files of a submitted job are read here, as the user; where they
//! are not to be had, and of a job without files, the daemon of the node where it was submitted has the last
//! MiB. Of a job that no daemon knows any more, the log of events has the names of the files.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use tutti_os::stderr::{escape_control, print_line};
use tutti_os::stdout;
use tutti_protocol::wire::{FrameHeader, Kind, Report};

use crate::cluster::{self, Answer, JobId, JobRow, JobState, Request};
use crate::output::{self, Reader};
use tutti_client::history;

/// Between two looks at the files of a job that runs.
const POLL: Duration = Duration::from_millis(100);
/// Looks at the files for each question whether the job is over.
const POLLS_MAX: u32 = 5;
/// Questions that a daemon may fail to answer, one after the other: another may take its place.
const UNANSWERED_MAX: u32 = 60;

/// Shows what a job has written; with `follow` until it is over. Of an array what each task has, below a line
/// that names it.
pub(super) fn run(job: JobId, follow: bool) -> Result<ExitCode, String> {
    let row = match cluster::request_if_running(&Request::Job(job)) {
        Ok(answer) => match answer.map(only_row).transpose()? {
            Some(row) => row,
            None => return show_from_log(job, true).ok_or_else(|| unknown(job))?,
        },
        // The daemon knows it no longer.
        Err(text) => return show_from_log(job, false).ok_or(text)?,
    };
    match row.array() {
        None => show(job, row, follow),
        Some(_) if follow => Err(format!("job {job} is an array: follow one task of it, such as {job}_TASK")),
        Some(array) => {
            let mut status = ExitCode::SUCCESS;
            for task in &array.tasks {
                let Some(row) = array.job_of(job, *task).and_then(|id| row_of(id).ok()) else { continue };
                if row.state == JobState::Waiting {
                    continue;
                }
                let heading = format!("==> {} <==\n", row.number());
                if !stdout::print(&heading) {
                    return Ok(ExitCode::FAILURE);
                }
                if show(row.job, row, false)? != ExitCode::SUCCESS {
                    status = ExitCode::FAILURE;
                }
            }
            Ok(status)
        }
    }
}

fn show(job: JobId, mut row: JobRow, follow: bool) -> Result<ExitCode, String> {
    let mut unanswered = 0;
    // The daemon decides what this user may see.
    let follows = follow && row.state != JobState::Over;
    let lately = Some(Lately::request(job)?).filter(|_| !follows);
    if follows && row.output.is_empty() {
        print_line(format_args!(
            "tutti logs: job {job} writes no file (-o none): what it has written last (1 MiB) follows at its end"
        ));
    }
    let mut reader = None;
    loop {
        let is_over = row.state == JobState::Over;
        reader = reader.or_else(|| Reader::open(&row));
        for _ in 0..if is_over { 1 } else { POLLS_MAX } {
            if reader.as_mut().is_some_and(|reader| !reader.copy().unwrap_or(false)) {
                return Ok(ExitCode::FAILURE);
            }
            if is_over || !follow {
                break;
            }
            std::thread::sleep(POLL);
        }
        if is_over || !follow {
            break;
        }
        match row_of(job) {
            Ok(now) => (row, unanswered) = (now, 0),
            Err(text) if unanswered >= UNANSWERED_MAX => return Err(text),
            Err(_) => unanswered += 1,
        }
    }
    let lately = match lately {
        Some(lately) => lately,
        None => Lately::request(job)?,
    };
    if reader.is_none() && !lately.show() {
        return Ok(ExitCode::FAILURE);
    }
    if reader.is_none()
        && let Some(name) = row.output.first()
        && row.output_state.inode.is_some()
    {
        let name = output::shown(name);
        print_line(format_args!(
            "tutti logs: {name} is not here, or is another file by now: this is what job {job} has written lately (1 MiB)"
        ));
    }
    if let Some(text) = super::status::lost(&row) {
        print_line(format_args!("tutti logs: {text}"));
    }
    lately.ends.iter().for_each(|text| print_line(format_args!("tutti logs: {text}")));
    Ok(ExitCode::SUCCESS)
}

fn row_of(job: JobId) -> Result<JobRow, String> {
    only_row(cluster::request(&Request::Job(job))?.0)
}

fn only_row(answer: Answer) -> Result<JobRow, String> {
    match answer {
        Answer::Jobs(mut rows) if rows.len() == 1 => Ok(rows.remove(0)),
        _ => Err(super::answer::OTHER_VERSION.into()),
    }
}

fn unknown(job: JobId) -> String {
    format!("there is no job {job} in the log, and no daemon to ask")
}

/// Shows the files of a job that no daemon knows; none: no log has it. The last MiB of a job without files is
/// lost with its daemon.
fn show_from_log(job: JobId, is_alone: bool) -> Option<Result<ExitCode, String>> {
    let row = history::of_job(job, is_alone)?;
    let Some(mut reader) = Reader::open(&row) else {
        return Some(Err(match row.output.first() {
            None => format!("job {job} wrote no file, and what its daemon had of its output went with it"),
            Some(name) => format!("{} is not here, or is another file by now", output::shown(name)),
        }));
    };
    let shown = reader.copy().map(|is_open| if is_open { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    let remarks = super::status::lost(&row).into_iter().chain(row.cause.clone());
    remarks.for_each(|text| print_line(format_args!("tutti logs: {}", escape_control(&text))));
    Some(shown)
}

/// Output that the daemon has kept.
struct Lately {
    frames: Vec<(Kind, Vec<u8>)>,
    /// Why the job has ended.
    ends: Vec<String>,
}

impl Lately {
    fn request(job: JobId) -> Result<Self, String> {
        let (_, mut frames) = cluster::request(&Request::Logs(job))?;
        let mut lately = Lately { frames: Vec::new(), ends: Vec::new() };
        while let Some((FrameHeader { kind, .. }, payload)) = frames.next_frame()? {
            match kind {
                Kind::Output | Kind::Errors => lately.frames.push((kind, payload)),
                Kind::Report => {
                    if let Ok(Report::Warning(text)) = serde_json::from_slice(&payload) {
                        lately.ends.push(text);
                    }
                }
                _ => {}
            }
        }
        Ok(lately)
    }

    /// Prints it. `false`: not all of it can be written.
    fn show(&self) -> bool {
        let mut errors = io::stderr().lock();
        self.frames.iter().all(|(kind, bytes)| match kind {
            Kind::Errors => errors.write_all(bytes).is_ok(),
            _ => stdout::write(bytes).inspect_err(stdout::report).is_ok(),
        })
    }
}
