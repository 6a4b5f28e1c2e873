//! `mpiexec`'s life: parse, check, start a starter for each node, then one poll loop until the job is over.
//! Of several starters it is the hub: they know nothing of each other.
//!
//! | from | what happens |
//! |---|---|
//! | a starter | output is written; while it cannot be, nothing more is read, so the ranks wait in their writes |
//! | a starter | the job ends on its node: it is killed on the others |
//! | all starters | where their ranks are reached: the addresses of all go to all, which start their ranks |
//! | all starters | all their ranks are in a barrier of PMI: what all have put goes to all |
//! | INT, TERM, HUP, QUIT | forwarded, to a stopped job after it runs again; a second one, or a second later: killed |
//! | TSTP | the job is stopped, then we are; CONT: both run again |
//! | USR1, USR2, WINCH | forwarded; the terminals of the ranks get the size of ours first |
//! | `~.` typed, HUP with --detach-on-hangup | a job of the cluster is left alone |
//! | stdin | read for the ranks that get it, a terminal only while we are in its foreground |
//! | the end of the daemon's wire | its successor is awaited, and told how far the output has come |
//! | our stdout has no reader | the job is killed, we die of SIGPIPE as any program of a pipeline does |

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::stdio::stdin;
use rustix::termios::isatty;
use tutti_client::at;
use tutti_os::Signals;
use tutti_os::netns::Namespaces;
use tutti_os::stderr::{escape_control, print_line};
use tutti_protocol::variables;
use tutti_protocol::wire::{Adopted, Counted, Input, Kind, Used};

use crate::cluster::{self, JobId, Script};
pub use crate::description::Place;
use crate::description::{self, Described};
use crate::link::{self, Link};
use crate::nodes::{Nodes, Wanted};
use crate::options::{self, Launcher, OptionError, Options, Request, USAGE};
use crate::origin::{self, OriginServer};
use crate::output;
use crate::script::Head;
use crate::stdio::Stdio;
use crate::{hosts, program, script, stdout, up};

mod comeback;
mod ending;
mod enrolment;
mod escape;
mod floor;
mod hub;
mod signals;
mod stall;
mod streams;
mod terminal;
mod watch;

use comeback::Comeback;
use enrolment::Enrolment;
use escape::Escape;
use floor::Floor;
use stall::StallJudge;
use terminal::{Keys, in_foreground};
use watch::Watch;

/// Runs the command line under the given name.
pub fn run(name: &'static str, arguments: Vec<OsString>) -> ExitCode {
    if arguments.first().is_some_and(|first| first == "--adopt-singleton") {
        return adopt(name, &arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == origin::WORD) {
        return origin::run();
    }
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
        arguments: arguments.iter().map(|word| word.clone().into()).collect(),
        hosts: Vec::new(),
        directory: directory.into_os_string().into(),
        terminal: place.terminal,
        types: place.types,
    })
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

/// Refusal of served files with `--at`: their server ends with its front end, which is on another host.
const NO_ORIGIN: &str = "files of the submitting machine are for commands on a node, not for --at";
/// Daemons that were started for one job leave when they were not needed for so long.
const LEAVE_SECONDS: &str = "60";

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

/// Where there is no daemon and none was named, the one of this user is started, as `mpiexec` does it.
///
/// # Errors
/// When it cannot be started; a text for the user.
pub fn start_daemon_if_missing() -> Result<(), String> {
    enrolment::start_daemon_if_missing()
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

/// Makes what is started a step of a job: its script says so, in whose environment this front end is.
fn is_step(options: &Options) -> bool {
    !is_elsewhere(options) && std::env::var_os(variables::ALLOCATION).is_some_and(|value| !value.is_empty())
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

/// An option forbids the cluster.
fn is_elsewhere(options: &Options) -> bool {
    options.virtual_nodes.count.is_some()
        || options.virtual_nodes.namespaces.is_some()
        || std::env::var_os(crate::nodes::TRANSPORT_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Reports what of the command line has no effect.
fn report_ignored(name: &str, options: &Options) {
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
fn with_environment(mut options: Options) -> Result<Options, String> {
    let text = std::env::var("MPIEXEC_TIMEOUT").unwrap_or_default();
    if options.timeout.is_none() && !text.is_empty() {
        let seconds: i32 = text.trim().parse().map_err(|_| {
            format!("MPIEXEC_TIMEOUT={} is no number of seconds", tutti_os::stderr::escape_control(&text))
        })?;
        options.timeout = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    }
    Ok(options)
}

fn refuse(name: &str, text: &str, status: u8) -> ExitCode {
    print_line(format_args!("{name}: {text}"));
    ExitCode::from(status)
}

/// Stages of the job on the way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Running.
    Open,
    /// Asked to end by this signal.
    Requested(i32),
    /// Asked to end, since its time is over.
    TimedOut,
    /// We detach, it continues.
    Detaching,
    /// Being killed; this is our exit status.
    Killed(u8),
}

struct Front {
    name: &'static str,
    options: Options,
    /// By node.
    links: Vec<Link>,
    /// Serves the job's files.
    origin: Option<OriginServer>,
    /// Counts of the ranks of nodes that have left so far, if the user wants to know.
    counted: Option<Counted>,
    /// The switch between the nodes' namespaces works as long as we hold it.
    _namespaces: Option<Namespaces>,
    signals: Signals,
    stdio: Stdio,
    /// Stdin has not ended.
    input_open: bool,
    /// Which link is in the middle of a line longer than a frame.
    floor: Floor,
    end: End,
    /// The node on which the job ended by itself: only it is asked why.
    ender: Option<usize>,
    /// Whether it ended there with status 0: what the other nodes report is a consequence.
    ends_well: bool,
    /// Number of the last order of new ranks, and whether it is not known yet how they began.
    spawn: (u32, bool),
    /// No rank is left, and all starters know it.
    may_leave: bool,
    /// The first part with a reason why it does not start.
    refuser: Option<usize>,
    /// Says that its user has asked for its stop.
    wants_stop: bool,
    /// When we last got SIGCONT.
    continued: Option<Instant>,
    /// When patience, or the job's time, is over.
    deadline: Option<Instant>,
    /// The job's random number.
    job: u64,
    /// Number of the job in the cluster.
    number: Option<JobId>,
    /// The daemon in place of the starters of a job of the cluster.
    daemon: Option<Watch>,
    /// The way to its successor.
    comeback: Comeback,
    /// A job of this machine alone takes turns with the others on it.
    enrolment: Option<Enrolment>,
    /// Of a job on virtual nodes: whether it is in a deadlock, while no daemon looks.
    judge: Option<StallJudge>,
    /// The user's terminal is rank 0's.
    keys: Option<Keys>,
    /// Keys for a job of the cluster may hold the escape.
    escape: Option<Escape>,
    /// Exit status of the job: the first that was not 0.
    status: u8,
    /// Use of the processes of nodes, as their starters have said it.
    used: Option<Used>,
    /// Way to a rank 0 that was there before: it exits with the status that comes here if the job fails.
    adopted: Option<OwnedFd>,
    /// The job is idle, and what its user wants done then has been done.
    idle_acted: bool,
    /// A line about the end of the job, to stand behind all that ranks have written.
    late_notice: Option<String>,
}

impl Front {
    fn start(
        name: &'static str,
        options: Options,
        job: u64,
        ranks: u64,
        links: impl FnOnce() -> Result<(Vec<Link>, Option<Namespaces>), String>,
    ) -> Result<Self, String> {
        let system = |action: &'static str| move |error: io::Error| format!("cannot {action}: {error}");
        let wanted = [
            libc_signal(Signal::INT),
            libc_signal(Signal::TERM),
            libc_signal(Signal::HUP),
            libc_signal(Signal::QUIT),
            libc_signal(Signal::TSTP),
            libc_signal(Signal::CONT),
            libc_signal(Signal::USR1),
            libc_signal(Signal::USR2),
            libc_signal(Signal::WINCH),
        ];
        let mut stdio =
            Stdio::new(options.output.label, options.output.stdout.clone(), options.output.stderr.clone())
                .map_err(system("use standard output"))?;
        // If a starter dies, what it leaves behind is ours to end.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("cannot adopt orphans: {error}"))?;
        let mut keys = options.pty.then(Keys::new).transpose()?;
        let (links, namespaces) = links()?;
        let signals = match Signals::new(&wanted) {
            Ok(signals) => signals,
            Err(error) => {
                links.into_iter().for_each(Link::abandon);
                return Err(system("catch signals")(error));
            }
        };
        // Before the job is sent to them, so that nothing of it has run when a file cannot be written.
        if let Err(text) = stdio.open(ranks) {
            links.into_iter().for_each(Link::abandon);
            return Err(text);
        }
        keys.iter_mut().for_each(Keys::take);
        stdio.raw = keys.is_some();
        let of_cluster = links.iter().any(Link::is_daemon);
        let comeback = Comeback::new(links.iter().find(|link| link.is_daemon()));
        let daemon =
            links.iter().find(|link| link.is_daemon()).and_then(|link| Watch::new(link.descriptor()));
        // The controller sees to that of a job of the cluster.
        let deadline = options.timeout.filter(|_| !of_cluster).map(|timeout| Instant::now() + timeout);
        // A job without input leaves that of its caller alone.
        let input_open = options.input != Input::None;
        Ok(Front {
            name,
            options,
            links,
            _namespaces: namespaces,
            signals,
            input_open,
            floor: Floor::default(),
            origin: None,
            counted: None,
            end: End::Open,
            ender: None,
            ends_well: false,
            spawn: (0, false),
            may_leave: false,
            refuser: None,
            wants_stop: false,
            continued: None,
            deadline,
            job,
            number: None,
            daemon,
            comeback,
            enrolment: None,
            judge: None,
            escape: (of_cluster && rustix::termios::isatty(stdin())).then(Escape::default),
            stdio,
            keys,
            status: 0,
            used: None,
            adopted: None,
            idle_acted: false,
            late_notice: None,
        })
    }

    /// Until the job is over; gives the exit status.
    fn run(&mut self) -> u8 {
        self.links.iter_mut().for_each(Link::send);
        loop {
            self.handle_frames();
            if self.stdio.is_idle() && !self.links.iter().any(Link::is_alive) {
                return self.leave();
            }
            // What the frames say may be due at once, or a while later.
            self.judge_stall();
            let ready = self.wait();
            if ready.signals {
                self.handle_signals();
            }
            if ready.output && !self.stdio.is_idle() {
                self.write();
            }
            if ready.input {
                self.read_input();
            }
            self.take_turns(ready.daemon);
            self.watch_daemon();
            self.come_back();
            for (index, flags) in ready.links {
                if flags.contains(PollFlags::OUT) {
                    self.links[index].send();
                }
                let read = flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
                if read && self.can_read(index) && !self.links[index].receive() {
                    self.bury_starter(index);
                }
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                && let Some(status) = self.handle_deadline()
            {
                return status;
            }
        }
    }

    /// Whether frames of a link may be taken now: not reading the wire is what makes ranks wait when our
    /// stdout does.
    fn can_read(&self, index: usize) -> bool {
        self.stdio.is_idle() && self.floor.may_speak(index)
    }

    fn wait(&mut self) -> Ready {
        let idle = self.stdio.is_idle();
        let input = self.input_open && self.takes_input() && in_foreground();
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.descriptor(), PollFlags::IN)];
        let mut listened = Vec::new();
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.is_connected()) {
            let send = if link.has_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            let receive = if self.can_read(index) { PollFlags::IN } else { PollFlags::empty() };
            // A link that is not read would report its end again and again.
            if !(send | receive).is_empty() {
                polled.push(PollFd::from_borrowed_fd(link.descriptor(), send | receive));
                listened.push(index);
            }
        }
        let output_at = self.stdio.waits_for().map(|descriptor| {
            polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::OUT));
            polled.len() - 1
        });
        let input_at = input.then(|| {
            polled.push(PollFd::from_borrowed_fd(stdin(), PollFlags::IN));
            polled.len() - 1
        });
        let daemon = self.enrolment.as_ref().and_then(Enrolment::link).map(|link| {
            let send = if link.has_to_send() { PollFlags::OUT } else { PollFlags::empty() };
            polled.push(PollFd::from_borrowed_fd(link.descriptor(), send | PollFlags::IN));
            polled.len() - 1
        });
        let wake_at = self.enrolment.as_ref().and_then(Enrolment::wake_at);
        let watch = self.daemon.as_ref().map(Watch::wake_at);
        let judge = self.judge.as_ref().and_then(|judge| judge.wake_at(self.may_judge()));
        let floor = self.floor.wake_at().filter(|_| idle);
        let wakes = [self.deadline, floor, wake_at, watch, judge, self.comeback.wake_at()];
        let mut left =
            wakes.into_iter().flatten().min().map(|wake| wake.saturating_duration_since(Instant::now()));
        if !idle && output_at.is_none() {
            left = Some(Duration::ZERO);
        }
        let timeout = left.map(|left| Timespec::try_from(left).expect("less than a century"));
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return Ready {
                links: Vec::new(),
                signals: false,
                output: false,
                input: false,
                daemon: PollFlags::empty(),
            };
        }
        let flags = |at: usize| polled[at].revents();
        Ready {
            links: listened.iter().enumerate().map(|(at, index)| (*index, flags(at + 1))).collect(),
            signals: !flags(0).is_empty(),
            output: output_at.map_or(!idle, |at| !flags(at).is_empty()),
            input: input_at.is_some_and(|at| !flags(at).is_empty()),
            daemon: daemon.map_or(PollFlags::empty(), flags),
        }
    }

    /// The first status that is not 0 is the job's, unless a rank has ended it well (shmem_global_exit).
    fn note(&mut self, status: u8) {
        if self.status == 0 && !self.ends_well {
            self.status = status;
        }
    }

    /// Sends something to all starters.
    fn put(&mut self, kind: Kind, number: u32, payload: &[u8]) {
        self.links.iter_mut().for_each(|link| link.put(kind, number, payload));
    }

    fn complain(&self, text: &str) {
        let return_first = if self.keys.as_ref().is_some_and(Keys::is_raw) { "\r" } else { "" };
        print_line(format_args!("{}: {text}{return_first}", self.name));
    }
}

struct Ready {
    /// Which links, and for what.
    links: Vec<(usize, PollFlags)>,
    signals: bool,
    output: bool,
    input: bool,
    /// Events for which the daemon of this node is ready.
    daemon: PollFlags,
}

fn libc_signal(signal: Signal) -> i32 {
    signal.as_raw()
}
