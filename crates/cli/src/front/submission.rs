//! Command lines of jobs that another front end, or none, looks after: `tutti submit`, and those that were
//! typed on another host.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use tutti_client::at;
use tutti_os::stderr::{escape_control, print_line};
use tutti_protocol::wire::Input;

use super::command::{refuse, report_ignored, with_environment};
use crate::cluster::{self, Script};
use crate::description::{self, Place};
use crate::nodes::{Nodes, Wanted};
use crate::options::{self, Launcher, Options, Request, USAGE};
use crate::origin::OriginServer;
use crate::script::Head;
use crate::{output, program, script, stdout};

/// Refusal of served files with `--at`: their server ends with its front end, which is on another host.
const NO_ORIGIN: &str = "files of the submitting machine are for commands on a node, not for --at";

/// Task of `tutti submit`.
pub struct Submission {
    /// The job.
    pub submit: cluster::Submit,
    /// The answer is to be JSON.
    pub in_json: bool,
    /// Serves its files.
    pub origin: Option<OriginServer>,
}

/// Parses and checks the command line of `tutti submit`.
///
/// # Errors
/// When it is wrong; the error is printed, this is the exit status.
pub fn submission(arguments: &[OsString]) -> Result<Submission, ExitCode> {
    let name = "tutti submit";
    match options::parse_as(arguments, Launcher::Submit) {
        Ok(Request::Version) => Err(stdout::print(Some(format!("{}\n", options::VERSION)), "")),
        Ok(Request::Help) => Err(stdout::print(Some(options::help(name, Launcher::Submit)), "")),
        _ => submission_of(name, arguments, false).map_err(|(text, status)| refuse(name, &text, status)),
    }
}

/// The same; `is_silent`: nobody reads remarks.
fn submission_of(name: &str, arguments: &[OsString], is_silent: bool) -> Result<Submission, (String, u8)> {
    let parsed = options::parse_as(arguments, Launcher::Submit);
    let parsed =
        parsed.map_err(|error| error.to_string()).and_then(|request| with_script(request, arguments));
    let mut head = Head::default();
    let parsed = parsed.map(|(request, found)| {
        head = found;
        request
    });
    let mut options = match parsed {
        Ok(Request::Run(options)) => with_environment(*options).map_err(|text| (text, USAGE))?,
        Ok(_) => return Err(("no program is given".into(), USAGE)),
        Err(text) => return Err((text, USAGE)),
    };
    options.cluster = true;
    if !is_silent {
        report_ignored(name, &options);
        report_script(name, &options, &head);
    }
    let described = description::describe(&options)?;
    let mut job = described.job;
    let origin = OriginServer::start(&options.beside.files, &mut job).map_err(|text| (text, 1))?;
    if is_silent && origin.is_some() {
        return Err((NO_ORIGIN.into(), USAGE));
    }
    // There is no front end that would do it.
    job.label = options.output.label;
    job.terminal = None;
    // It has no input of its own; a front end that attaches only watches.
    job.input = Input::None;
    let nodes = match described.nodes {
        Nodes::Cluster(wanted) => wanted,
        _ => Wanted::default(),
    };
    let output = output::wanted(&options).map_err(|text| (text, 1))?;
    let (batch, script) = (described.batch, Script { is_script: head.is_script, ..described.script });
    cluster::submission(&job, &nodes, described.per_node, options.terms, &batch)
        .map(|submit| Submission {
            submit: cluster::Submit { output, script, ..submit },
            in_json: options.beside.json,
            origin,
        })
        .map_err(|text| (text, 1))
}

/// The request of a command line that was typed on another host.
///
/// # Errors
/// When it is wrong; a text for the user.
pub fn request_of(
    arguments: &[OsString],
    launcher: at::Launcher,
    hosts: &[String],
    place: Place,
) -> Result<cluster::Request, String> {
    let launcher = match launcher {
        at::Launcher::Run => Launcher::Run,
        at::Launcher::Mpiexec => Launcher::Mpiexec,
        at::Launcher::Submit => {
            return submission_of("tutti submit", arguments, true)
                .map(|submission| cluster::Request::Submit(Box::new(submission.submit)))
                .map_err(|(text, _)| text);
        }
    };
    let mut options = match options::parse_as(arguments, launcher).map_err(|error| error.to_string())? {
        Request::Run(options) => with_environment(*options)?,
        _ => return Err("no program is given".into()),
    };
    options.cluster = true;
    if let Some(first) = options.programs.first_mut().filter(|first| first.hosts.is_empty()) {
        first.hosts = hosts.to_vec();
    }
    let mut described = description::describe_from(&options, place).map_err(|(text, _)| text)?;
    if OriginServer::start(&options.beside.files, &mut described.job)?.is_some() {
        return Err(NO_ORIGIN.into());
    }
    let Nodes::Cluster(nodes) = &described.nodes else {
        return Err("this option is for jobs of one machine, and --at means a cluster".into());
    };
    let submit =
        cluster::submission(&described.job, nodes, described.per_node, described.terms, &described.batch)?;
    Ok(cluster::Request::Run(Box::new(cluster::Submit { script: described.script, ..submit })))
}

/// The options of a script count as if they came before those of the command line, which win.
fn with_script(request: Request, arguments: &[OsString]) -> Result<(Request, Head), String> {
    let Request::Run(given) = &request else { return Ok((request, Head::default())) };
    let [program] = &given.programs[..] else { return Ok((request, Head::default())) };
    let (word, directory) = (&program.words[0], program.directory.as_deref());
    let path = std::env::var_os("PATH");
    let Ok(file) = program::find(word, directory, program.search_path.as_deref(), path.as_deref()) else {
        // The reason for a refusal is printed later.
        return Ok((request, Head::default()));
    };
    let file = directory.map_or_else(|| file.clone(), |directory| Path::new(directory).join(&file));
    let head = script::head(&file).map_err(|error| error.to_string())?;
    let mut words = head.options.clone();
    if words.is_empty() {
        return Ok((request, head));
    }
    words.extend_from_slice(arguments);
    let mut both = options::parse_as(&words, Launcher::Submit).map_err(|error| error.to_string())?;
    if let Request::Run(both) = &mut both {
        // Lists do not add up.
        if let [script] = &mut both.programs[..]
            && !(program.hosts.is_empty() && program.host_files.is_empty())
        {
            (script.hosts, script.host_files) = (program.hosts.clone(), program.host_files.clone());
        }
        if !given.batch.after.is_empty() {
            both.batch.after.clone_from(&given.batch.after);
        }
        let excluded = &given.batch.rules().excluded;
        if !excluded.is_empty() {
            both.batch.rules_mut().excluded.clone_from(excluded);
        }
    }
    Ok((both, head))
}

/// Whether a program runs once, and what of a script is not read.
fn report_script(name: &str, options: &Options, head: &Head) {
    let [program] = &options.programs[..] else { return };
    let file = escape_control(&program.words[0].to_string_lossy());
    if options.remarks.verbose {
        let how = match head.is_script {
            true => {
                "is a script: it runs once, on the first of its nodes, and mpiexec in it starts the ranks"
            }
            false => "is no script: it is started on each rank",
        };
        print_line(format_args!("{name}: {file} {how}"));
    }
    if let Some(line) = head.foreign_line(&file).filter(|_| !options.remarks.quiet) {
        print_line(format_args!("{name}: {line}"));
    }
}
