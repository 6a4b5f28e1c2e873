//! Command lines of jobs that have their front end here, from their words to its start.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use rustix::stdio::stdin;
use rustix::termios::isatty;
use tutti_client::at;
use tutti_os::stderr::{escape_control, print_line};
use tutti_protocol::variables;
use tutti_protocol::wire::{Adopted, Input};

use super::Front;
use super::enrolment::{self, Enrolment};
use super::stall::StallJudge;
use crate::cluster::{self, JobId};
use crate::description::{self, Described, Place};
use crate::link::{self, Link};
use crate::nodes::Nodes;
use crate::options::{self, Launcher, OptionError, Options, Request, USAGE};
use crate::origin::{self, OriginServer};
use crate::plain_name::Owner;
use crate::{hosts, stdout, up};

/// Daemons that were started for one job leave when they were not needed for so long.
const LEAVE_SECONDS: &str = "60";

/// Runs the command line under the given name.
pub fn run(name: &'static str, arguments: Vec<OsString>) -> ExitCode {
    if arguments.first().is_some_and(|first| first == "--adopt-singleton") {
        return adopt(name, &arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == origin::WORD) {
        return origin::run();
    }
    let arguments = match options::expanded(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return refuse(name, &error.to_string(), USAGE),
    };
    let launcher = match name {
        "tutti run" => Launcher::Run,
        "tutti alloc" => Launcher::Alloc,
        _ => Launcher::Mpiexec,
    };
    let mut parsed = options::parse_as(&arguments, launcher);
    if launcher == Launcher::Alloc && parsed == Err(OptionError::NoProgram) {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        let words: Vec<_> =
            arguments.iter().cloned().chain([shell.unwrap_or_else(|| "/bin/sh".into())]).collect();
        parsed = options::parse_as(&words, launcher);
    }
    let mut options = match parsed {
        Ok(Request::Run(options)) => match with_environment(*options) {
            Ok(options) => options,
            Err(text) => return refuse(name, &text, USAGE),
        },
        Ok(Request::Version) => return stdout::print(Some(format!("{}\n", options::VERSION)), ""),
        Ok(Request::Help) => return stdout::print(Some(options::help(name, launcher)), ""),
        Err(error) => return refuse(name, &error.to_string(), USAGE),
    };
    options.step = launcher != Launcher::Alloc && is_step(&options);
    options.cluster = match launcher {
        Launcher::Run => is_for_the_cluster(&options),
        Launcher::Alloc => true,
        _ => false,
    };
    options.cluster |= options.step;
    report_ignored(name, &options);
    report_plain_name(name, &options);
    if let Some(target) = at::target() {
        if launcher != Launcher::Run {
            return refuse(name, "--at is for tutti run, tutti submit and the commands for jobs", USAGE);
        }
        let start = start_of(&arguments, at::Launcher::Run);
        return start
            .map_or_else(|text| refuse(name, &text, 1), |start| run_at(name, options, start, &target));
    }
    match hosts::far(&options).map(|hosts| run_on_hosts(name, launcher, &options, &arguments, &hosts)) {
        Some(Ok(status)) => return status,
        Some(Err(text)) => return refuse(name, &text, 1),
        None => {}
    }
    if launcher == Launcher::Alloc
        && let Err(text) = prepare_allocation(&mut options)
    {
        return refuse(name, &text, 1);
    }
    match description::describe(&options) {
        Ok(mut described) => {
            described.script.is_script = launcher == Launcher::Alloc;
            let is_local = !matches!(described.nodes, Nodes::Cluster(_));
            if is_local {
                described.job.number = enrolment::draw_number();
            }
            if let Some(limit) = described.batch.time_ms.filter(|_| is_local).map(Duration::from_millis) {
                options.timeout = Some(options.timeout.map_or(limit, |timeout| timeout.min(limit)));
            }
            report_cores(name, &options, &described);
            let origin = match OriginServer::start(&options.beside.files, &mut described.job) {
                Ok(origin) => origin,
                Err(text) => return refuse(name, &text, 1),
            };
            match Front::start(name, options, described.job.id, described.job.ranks(), || {
                link::start_all(&described)
            }) {
                Ok(mut front) => {
                    let nodes = described.nodes.first_ranks().len();
                    front.enrolment = is_local
                        .then(|| {
                            Enrolment::new(&described.job, nodes, described.terms, &described.batch.name)
                        })
                        .flatten();
                    front.origin = origin;
                    front.judge = is_local.then(|| StallJudge::new(&described.job, nodes)).flatten();
                    ExitCode::from(front.run())
                }
                Err(error) => refuse(name, &error, 1),
            }
        }
        Err((text, status)) => refuse(name, &text, status),
    }
}

/// Runs a job of the cluster of another host; its command line is read there.
fn run_at(name: &'static str, options: Options, start: at::Start, target: &str) -> ExitCode {
    let link =
        || Ok((vec![Link::begun(at::open(target, &at::Opening::Start(Box::new(start)))?.into())?], None));
    match Front::start(name, options, 0, 0, link) {
        Ok(mut front) => ExitCode::from(front.run()),
        Err(error) => refuse(name, &error, 1),
    }
}

/// Runs a job on the hosts of a file that the environment names: daemons are started there, and end with it.
fn run_on_hosts(
    name: &'static str,
    launcher: Launcher,
    options: &Options,
    arguments: &[OsString],
    hosts: &[cluster::Host],
) -> Result<ExitCode, String> {
    let launcher = match launcher {
        Launcher::Run => at::Launcher::Run,
        Launcher::Mpiexec => at::Launcher::Mpiexec,
        _ => return Err("the hosts of this environment are for mpiexec and tutti run".into()),
    };
    let names: Vec<String> = hosts.iter().map(|host| host.name.clone()).collect();
    let slots: Vec<Option<u32>> = hosts.iter().map(|host| host.ranks).collect();
    // Where this front end is killed, they leave by themselves.
    let flags = ["--leave-after".to_owned(), LEAVE_SECONDS.to_owned()];
    let started = up::hosts::start(&names, &slots, &flags)?;
    let dealt = hosts.iter().map(|host| match host.ranks {
        Some(ranks) => format!("{}:{ranks}", host.name),
        None => host.name.clone(),
    });
    let start = at::Start { hosts: dealt.collect(), ..start_of(arguments, launcher)? };
    let status = run_at(name, options.clone(), start, &started.target());
    started.end();
    Ok(status)
}

/// A command line for another host, with what it sees of this one.
pub fn start_of(arguments: &[OsString], launcher: at::Launcher) -> Result<at::Start, String> {
    let directory =
        std::env::current_dir().map_err(|error| format!("cannot name the working directory: {error}"))?;
    let place = Place::here();
    Ok(at::Start {
        launcher,
        arguments: options::for_earlier(arguments, launcher).into_iter().map(Into::into).collect(),
        hosts: Vec::new(),
        directory: directory.into_os_string().into(),
        terminal: place.terminal,
        types: place.types,
    })
}

/// Becomes the front end of a process that was started without `mpiexec` and wants more ranks
/// (`mpiexec --adopt-singleton PID:CONNECTION:SEGMENT:STATUS`, the numbers of descriptors): rank 0 of a job
/// that is made for it. It takes no turns.
fn adopt(name: &'static str, arguments: &[OsString]) -> ExitCode {
    let numbers = arguments
        .first()
        .and_then(|numbers| numbers.to_str())
        .map(|numbers| numbers.split(':').filter_map(|number| number.parse().ok()).collect::<Vec<i32>>());
    let Some([pid, connection, segment, status]) =
        numbers.as_deref().and_then(|numbers| numbers.first_chunk())
    else {
        return refuse(name, "--adopt-singleton is used by programs, which start mpiexec with it", USAGE);
    };
    let take = |number: i32| tutti_os::take_descriptor(number).map_err(|error| error.to_string());
    let start = || -> Result<Front, String> {
        let (status, given) = (take(*status)?, [take(*connection)?, take(*segment)?]);
        let options = match options::parse_as(&arguments[1..], Launcher::Mpiexec) {
            Ok(Request::Run(options)) => *options,
            _ => return Err("--adopt-singleton is followed by a program".into()),
        };
        let mut described = description::describe(&options).map_err(|(text, _)| text)?;
        described.job.adopted =
            Some(Adopted { pid: pid.cast_unsigned(), connection: *connection, segment: *segment });
        // The starter inherits these, and nothing else may keep them open.
        for descriptor in &given {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())
                .map_err(|error| error.to_string())?;
        }
        let mut front = Front::start(name, options, described.job.id, 0, || link::start_all(&described))?;
        front.adopted = Some(status);
        Ok(front)
    };
    match start() {
        Ok(mut front) => ExitCode::from(front.run()),
        Err(error) => refuse(name, &error, 1),
    }
}

/// Becomes the front end of a job of the cluster.
pub fn attach(job: JobId) -> ExitCode {
    let name = "tutti attach";
    let words = [OsString::from("job")];
    let Ok(Request::Run(options)) = options::parse(&words) else {
        unreachable!("a program alone is a command line")
    };
    let link = || Ok((vec![Link::request(&cluster::Request::Attach(job))?], None));
    match Front::start(name, *options, 0, 0, link) {
        Ok(mut front) => {
            front.comeback.attached();
            ExitCode::from(front.run())
        }
        Err(error) => refuse(name, &error, 1),
    }
}

/// Where there is no daemon and none was named, the one of this user is started, as `mpiexec` does it.
///
/// # Errors
/// When it cannot be started; a text for the user.
pub fn start_daemon_if_missing() -> Result<(), String> {
    enrolment::start_daemon_if_missing()
}

/// A shell or a command gets the terminal, and there is a daemon.
fn prepare_allocation(options: &mut Options) -> Result<(), String> {
    let [program] = &options.programs[..] else {
        return Err("an allocation has one command: mpiexec in it starts programs".into());
    };
    if options.remarks.verbose {
        let word = program.words[0].to_string_lossy();
        let word = escape_control(&word);
        print_line(format_args!(
            "tutti alloc: {word} runs once, on the first of its nodes, and mpiexec in it starts the ranks"
        ));
    }
    let has_terminal = isatty(stdin()) && isatty(rustix::stdio::stdout());
    options.pty |= has_terminal && options.output.stdout.is_none() && options.input == Input::Rank(0);
    start_daemon_if_missing()
}

/// `tutti run` asks the cluster, if there is one and no option forbids it.
fn is_for_the_cluster(options: &Options) -> bool {
    !is_elsewhere(options) && cluster::is_there()
}

/// Makes what is started a step of a job: its script says so, in whose environment this front end is.
fn is_step(options: &Options) -> bool {
    !is_elsewhere(options) && std::env::var_os(variables::ALLOCATION).is_some_and(|value| !value.is_empty())
}

/// An option forbids the cluster.
fn is_elsewhere(options: &Options) -> bool {
    options.virtual_nodes.count.is_some()
        || options.virtual_nodes.namespaces.is_some()
        || std::env::var_os(crate::nodes::TRANSPORT_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Reports what of the command line has no effect.
pub(super) fn report_ignored(name: &str, options: &Options) {
    if options.remarks.quiet {
        return;
    }
    if !options.remarks.foreign.is_empty() {
        print_line(format_args!(
            "{name}: {} controls another launcher and is ignored here",
            options.remarks.foreign.join(", ")
        ));
    }
    for (option, why) in &options.remarks.ignored {
        print_line(format_args!("{name}: {option} is ignored: {why}"));
    }
    for (variable, value) in std::env::vars_os() {
        let complaint = variables::complaint(&variable.to_string_lossy(), &value.to_string_lossy());
        complaint.iter().for_each(|text| print_line(format_args!("{name}: {}", escape_control(text))));
    }
}

/// Reports that another program than Tutti's has the name `mpiexec` in PATH.
fn report_plain_name(name: &str, options: &Options) {
    let owner = options.remarks.verbose.then(Owner::read).filter(|owner| *owner != Owner::Nobody);
    if let Some((found, advice)) = owner.and_then(|owner| owner.remark()) {
        print_line(format_args!("{name}: mpiexec in PATH: {}; Tutti's: {advice}", escape_control(&found)));
    }
}

/// Ranks of several cores each have them only where there are so many.
fn report_cores(name: &str, options: &Options, described: &Described) {
    let is_here = !matches!(described.nodes, Nodes::Cluster(_));
    let Some(cores) = options.cores_per_rank.filter(|_| is_here && !options.remarks.quiet) else { return };
    let wanted = described.job.ranks() * u64::from(cores);
    let there = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    if wanted > there {
        print_line(format_args!(
            "{name}: -c {cores} wants {wanted} cores for all ranks, and {there} {} there: they share them",
            if there == 1 { "is" } else { "are" }
        ));
    }
}

/// MPIEXEC_TIMEOUT is MPICH's; there 0 and -1 are no limit.
pub(super) fn with_environment(mut options: Options) -> Result<Options, String> {
    let text = std::env::var("MPIEXEC_TIMEOUT").unwrap_or_default();
    if options.timeout.is_none() && !text.is_empty() {
        let seconds: i32 = text.trim().parse().map_err(|_| {
            format!("MPIEXEC_TIMEOUT={} is no number of seconds", tutti_os::stderr::escape_control(&text))
        })?;
        options.timeout = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    }
    Ok(options)
}

pub(super) fn refuse(name: &str, text: &str, status: u8) -> ExitCode {
    print_line(format_args!("{name}: {text}"));
    ExitCode::from(status)
}
