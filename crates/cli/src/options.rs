//! The command line of `mpiexec`: the options of the MPICH and Open MPI families, in one table.
//!
//! A single dash and two mean the same, `--name=value` is `--name value`, `-n4` is `-n 4`. Options end at the
//! first word that is none: the program. A lone `:` begins the next program; options for all programs (marked
//! below) may come before any of them. An option that only controls another launcher is ignored, with a line;
//! one that would change the job, and cannot be done, is refused.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use tutti_client::moments;
use tutti_protocol::array::{Array, InArray};
use tutti_protocol::batch::{After, BATCH_AFTER_MAX, Batch, IDLE_DEFAULT_MS, OnDeadlock, OnIdle, Warning};
use tutti_protocol::mail::{self, Mail};
use tutti_protocol::terms::Terms;
use tutti_protocol::wire::{Binding, Inherits, Input};
use tutti_protocol::{size, time_limit};
use tutti_sched::JobId;
use tutti_shm::ticket::INITIAL_HANDLER_VARIABLE;

use crate::library::Choice;
use crate::{signals, suggest};

mod completed;
mod foreign;
mod help;
mod keys;
mod table;

pub use completed::command;
pub use help::help;
pub use keys::Launcher;
use keys::{Key, OF_A_PROGRAM, Spec, Unfit};
use table::OPTIONS;

/// Text of `--version`. CMake's FindMPI runs it and wants no more than success.
pub const VERSION: &str = concat!("mpiexec (Tutti) ", env!("CARGO_PKG_VERSION"));

/// Exit status of a wrong command line.
pub const USAGE: u8 = 2;

/// The parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The programs, at least one.
    pub programs: Vec<Program>,
    /// Ranks per node, if given.
    pub ranks_per_node: Option<u32>,
    /// Nodes of the cluster, if given.
    pub nodes: Option<u32>,
    /// The job is the cluster's, however many nodes it takes.
    pub cluster: bool,
    /// Step of the job whose script has started this front end.
    pub step: bool,
    /// Ranks with those that are started later, if given.
    pub universe: Option<u32>,
    /// Nodes that are made on this machine.
    pub virtual_nodes: VirtualNodes,
    /// Ranks are dealt out to nodes one by one: the option that says so.
    pub by_node: Option<String>,
    /// Which cores a rank may use.
    pub binding: Binding,
    /// Cores of a rank.
    pub cores_per_rank: Option<u32>,
    /// Print which rank is bound where.
    pub report_bindings: bool,
    /// Refuse more ranks than cores.
    pub no_oversubscribe: bool,
    /// How the job shares nodes and time with others.
    pub terms: Terms,
    /// Name, time and what the job waits for.
    pub batch: Batch,
    /// Further tasks of the command beside the start of the job.
    pub beside: Beside,
    /// Where its output goes.
    pub output: OutputOptions,
    /// Which ranks get stdin.
    pub input: Input,
    /// The terminal is rank 0's.
    pub pty: bool,
    /// A hang-up leaves the job alone.
    pub detach_on_hangup: bool,
    /// End of the job.
    pub timeout: Option<Duration>,
    /// Remarks to the user beside the output.
    pub remarks: Remarks,
}

/// Nodes that a job has made on this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VirtualNodes {
    /// How many, if given.
    pub count: Option<u32>,
    /// How many with a network namespace each, if given.
    pub namespaces: Option<u32>,
    /// MTU of each one's cable; the last holds for the rest, none: the kernel's choice.
    pub mtus: Vec<u32>,
}

/// Further tasks of the command beside the start of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Answers in JSON.
    pub json: bool,
    /// Folders that the command serves to the job's nodes; an empty name: the working directory.
    pub files: Vec<OsString>,
}

/// Where the output of a job goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputOptions {
    /// Begin lines with the rank.
    pub label: bool,
    /// Files for stdout, with %r.
    pub stdout: Option<OsString>,
    /// Files for stderr, with %r.
    pub stderr: Option<OsString>,
    /// Such files keep what is in them.
    pub append: bool,
}

/// Remarks to the user of a command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remarks {
    /// No remarks.
    pub quiet: bool,
    /// More remarks.
    pub verbose: bool,
    /// Options of other launchers that were given.
    pub foreign: Vec<String>,
    /// Others that this command ignores, and why.
    pub ignored: Vec<(String, &'static str)>,
}

/// One program of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Number of ranks, if given.
    pub ranks: Option<u32>,
    /// Nodes named by -host.
    pub hosts: Vec<String>,
    /// Files named by -hostfile.
    pub host_files: Vec<OsString>,
    /// Program and arguments, not empty.
    pub words: Vec<OsString>,
    /// Working directory.
    pub directory: Option<OsString>,
    /// Where to search before PATH.
    pub search_path: Option<OsString>,
    /// Variables and libraries that it gets.
    pub environment: Environment,
}

/// Surroundings of a program of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    /// Which variables it inherits.
    pub inherits: Inherits,
    /// Variables set for it.
    pub variables: Vec<(OsString, OsString)>,
    /// The MPI library that it gets.
    pub library: Choice,
}

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Run a job.
    Run(Box<Options>),
    /// Print the version.
    Version,
    /// Print the help.
    Help,
}

/// Why a command line is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("{0} is not an option{hint} (see --help)", hint = hint(.0))]
    Unknown(String),
    /// The command line ends too early.
    #[error("{option} needs {needed}")]
    Missing {
        /// Which option.
        option: String,
        /// Values that it needs.
        needed: String,
    },
    /// A value that cannot be.
    #[error("{option} is given {value:?}, expected {expected}")]
    Value {
        /// Which option.
        option: String,
        /// Value that was given.
        value: String,
        /// Values that can be.
        expected: &'static str,
    },
    /// A pattern of file names with a letter that means nothing.
    #[error("{pattern}: %{letter} is none of {known}{hint}", hint = hint_of_letter(*letter))]
    Pattern {
        /// As given.
        pattern: String,
        /// Behind the percent sign.
        letter: char,
        /// Letters that there are.
        known: &'static str,
    },
    /// Option of another command.
    #[error("{option} {text}")]
    Elsewhere {
        /// Which option.
        option: String,
        /// Command that has the option, and what to do instead.
        text: &'static str,
    },
    /// Option for something that cannot be done.
    #[error("{option} is not supported: {why}")]
    Unsupported {
        /// Which option.
        option: String,
        /// Why, or what to do instead.
        why: &'static str,
    },
    /// An array that cannot be.
    #[error("{0}: {1}")]
    Array(String, String),
    /// No program.
    #[error("no program is given: -n N PROGRAM [ARGUMENT ...] (see --help)")]
    NoProgram,
    /// A colon with nothing behind or before it.
    #[error("a program is missing beside the colon")]
    NoProgramAtColon,
}

/// `--signal SIG` without a time.
const WARNING_DEFAULT_S: u64 = 60;

/// A signal so many ms before the time limit: `USR1@120`.
fn warning(text: &str) -> Option<Warning> {
    let (signal, before) =
        text.split_once('@').map_or((text, None), |(signal, before)| (signal, Some(before)));
    let before_s: u64 = before.map_or(Some(WARNING_DEFAULT_S), |before| before.parse().ok())?;
    let before_ms = before_s.checked_mul(1000)?;
    signals::number(signal).ok().map(|signal| Warning { signal, before_ms })
}

/// Names an option that the user may have meant.
fn hint(option: &str) -> String {
    suggest::option(option, names()).map_or_else(String::new, |text| format!("; {text}"))
}

/// Advice on a letter that other systems' patterns have for the rank.
fn hint_of_letter(letter: char) -> &'static str {
    if "tng".contains(letter) { "; the rank is %r" } else { "" }
}

/// Every letter behind a percent sign means something.
fn check_pattern(pattern: &OsStr, launcher: Launcher) -> Result<(), OptionError> {
    let (letters, known) = match launcher {
        Launcher::Submit => {
            let known =
                "%j (the job), %r (the rank), %N (its node), %A and %a (array and task), %% (a percent sign)";
            ("jrNAa", known)
        }
        _ => ("r", "%r (the rank), %% (a percent sign)"),
    };
    let text = pattern.to_string_lossy();
    let mut rest = text.chars();
    while let Some(letter) = rest.find(|letter| *letter == '%').and_then(|_| rest.next()) {
        if letter.is_ascii_alphanumeric() && !letters.contains(letter) {
            return Err(OptionError::Pattern { pattern: text.into_owned(), letter, known });
        }
    }
    Ok(())
}

/// The names of all options that do something, without dashes.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().flat_map(|option| option.names.iter().copied())
}

/// Parses the arguments after the program's name.
///
/// # Errors
/// With one line about the first thing that is wrong.
pub fn parse(arguments: &[OsString]) -> Result<Request, OptionError> {
    parse_as(arguments, Launcher::Mpiexec)
}

/// The same, for any of those commands.
///
/// # Errors
/// With one line about the first thing that is wrong.
pub fn parse_as(arguments: &[OsString], launcher: Launcher) -> Result<Request, OptionError> {
    let mut options = Options {
        programs: Vec::new(),
        ranks_per_node: None,
        nodes: None,
        cluster: false,
        step: false,
        universe: None,
        virtual_nodes: VirtualNodes::default(),
        by_node: None,
        binding: Binding::Share,
        cores_per_rank: None,
        report_bindings: false,
        no_oversubscribe: false,
        terms: Terms::default(),
        batch: Batch::default(),
        beside: Beside::default(),
        output: OutputOptions::default(),
        input: Input::Rank(0),
        pty: false,
        detach_on_hangup: false,
        timeout: None,
        remarks: Remarks::default(),
    };
    let mut all = ForAll { variables: Vec::new(), inherits: Inherits::All };
    let sections: Vec<&[OsString]> = arguments.split(|word| word == ":").collect();
    let several = sections.len() > 1;
    for section in sections {
        let program = match parse_section(section, launcher, &mut options, &mut all)? {
            Section::Program(program) => program,
            Section::Instead(request) => return Ok(request),
        };
        if program.words.is_empty() {
            return Err(if several { OptionError::NoProgramAtColon } else { OptionError::NoProgram });
        }
        options.programs.push(program);
    }
    for pattern in options.output.stdout.iter().chain(&options.output.stderr) {
        check_pattern(pattern, launcher)?;
    }
    for program in &mut options.programs {
        if program.environment.inherits == Inherits::All {
            program.environment.inherits = all.inherits.clone();
        }
        // What is set for one program wins over what is set for all: later ones win.
        program.environment.variables.splice(0..0, all.variables.iter().cloned());
    }
    Ok(Request::Run(Box::new(options)))
}

/// Options about the environment of all programs.
struct ForAll {
    variables: Vec<(OsString, OsString)>,
    inherits: Inherits,
}

/// Options of a part of the command line between colons.
enum Section {
    Program(Program),
    /// Request for something else than a job.
    Instead(Request),
}

fn parse_section(
    section: &[OsString],
    launcher: Launcher,
    options: &mut Options,
    all: &mut ForAll,
) -> Result<Section, OptionError> {
    let mut program = Program {
        ranks: None,
        hosts: Vec::new(),
        host_files: Vec::new(),
        words: Vec::new(),
        directory: None,
        search_path: None,
        environment: Environment { inherits: Inherits::All, variables: Vec::new(), library: Choice::Ours },
    };
    let mut words = section.iter();
    while let Some(word) = words.next() {
        // The program may have the name of an option.
        if word == "--" {
            program.words.extend(words.by_ref().cloned());
            break;
        }
        let Some(Found { option, written: name, values }) = find(word)? else {
            program.words.push(word.clone());
            program.words.extend(words.by_ref().cloned());
            break;
        };
        let mut values = with_values(option, &name, values, &mut words)?;
        match option.key.unfit(launcher) {
            Some(Unfit::Refused(why)) => return Err(OptionError::Unsupported { option: name, why }),
            Some(Unfit::Ignored(why)) => {
                options.remarks.ignored.push((name, why));
                continue;
            }
            None => {}
        }
        match option.key {
            Key::Version => return Ok(Section::Instead(Request::Version)),
            Key::Help => return Ok(Section::Instead(Request::Help)),
            Key::AllVariable => all.variables.push((values.remove(0), values.remove(0))),
            Key::AllVariableList => all.inherits = only(&all.inherits, &values[0]),
            Key::NoneInherited if name.contains("genv") => all.inherits = Inherits::Only(Vec::new()),
            Key::AllInherited => all.inherits = Inherits::All,
            // Slurm's, not Open MPI's.
            Key::Tagged if launcher == Launcher::Submit => {
                for_job(options, Key::SubmitOutput, &name, &values)?;
            }
            Key::Stdin if launcher == Launcher::Submit && values[0] != "none" => {
                return Err(OptionError::Unsupported {
                    option: name,
                    why: "a submitted job has no stdin; tutti run has it",
                });
            }
            Key::SubmitOutput | Key::SubmitErrors | Key::OpenMode if launcher != Launcher::Submit => {
                return Err(OptionError::Elsewhere {
                    option: name,
                    text: "is for tutti submit: here --outfile-pattern, --errfile-pattern and --output-filename write files",
                });
            }
            key if !launcher.has(key) => return Err(OptionError::Unknown(name)),
            Key::RanksPerNode if launcher.counts_nodes() && name == "-N" => {
                for_job(options, Key::Nodes, &name, &values)?;
            }
            key if OF_A_PROGRAM.contains(&key) => for_program(&mut program, key, &name, &values)?,
            key => for_job(options, key, &name, &values)?,
        }
    }
    Ok(Section::Program(program))
}

/// All values of an option: those in its own word, and the words behind it.
fn with_values<'a>(
    option: &Spec,
    name: &str,
    mut values: Vec<OsString>,
    words: &mut impl Iterator<Item = &'a OsString>,
) -> Result<Vec<OsString>, OptionError> {
    while values.len() < option.values.len() {
        // `-genv NAME=VALUE` is one word for two.
        if values.len() == 1 && option.values == ["VAR", "VALUE"] && values[0].as_bytes().contains(&b'=') {
            let (name, value) = split(&values[0]).expect("it has an equals sign");
            return Ok(vec![name, value]);
        }
        let Some(value) = words.next() else {
            return Err(OptionError::Missing { option: name.to_owned(), needed: option.values.join(" ") });
        };
        values.push(value.clone());
    }
    Ok(values)
}

/// An option as found in a word of the command line.
struct Found {
    option: &'static Spec,
    /// Name as written.
    written: String,
    /// Values in the same word.
    values: Vec<OsString>,
}

/// The option that a word names. `None`: the word is a program.
fn find(word: &OsStr) -> Result<Option<Found>, OptionError> {
    let bytes = word.as_bytes();
    let Some(text) = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-")) else { return Ok(None) };
    let (name, value) = match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (&text[..at], Some(OsString::from_vec(text[at + 1..].to_vec()))),
        None => (text, None),
    };
    let named =
        |name: &[u8]| table::all().find(|option| option.names.iter().any(|known| known.as_bytes() == name));
    let written = String::from_utf8_lossy(&bytes[..bytes.len() - text.len() + name.len()]).into_owned();
    if let Some(option) = named(name)
        && (value.is_none() || !option.values.is_empty() || matches!(option.key, Key::Phases | Key::Files))
    {
        return Ok(Some(Found { option, written, values: value.into_iter().collect() }));
    }
    // -n4, -np4
    let digits = name.iter().position(u8::is_ascii_digit).unwrap_or(name.len());
    if matches!(&name[..digits], b"n" | b"np") && name[digits..].iter().all(u8::is_ascii_digit) {
        let value = String::from_utf8_lossy(&name[digits..]).into_owned();
        return Ok(named(b"n").map(|option| Found {
            option,
            written: String::from("-n"),
            values: vec![value.into()],
        }));
    }
    Err(OptionError::Unknown(word.to_string_lossy().into_owned()))
}

fn for_program(program: &mut Program, key: Key, name: &str, values: &[OsString]) -> Result<(), OptionError> {
    match key {
        Key::Ranks => program.ranks = Some(number(name, &values[0])?),
        Key::Hosts => {
            let list = values[0].to_string_lossy();
            program.hosts.extend(list.split(',').filter(|host| !host.is_empty()).map(str::to_owned));
        }
        Key::HostFile => program.host_files.push(values[0].clone()),
        Key::Directory => program.directory = Some(values[0].clone()),
        Key::OwnMpi => program.environment.library = Choice::Own,
        Key::SearchPath => program.search_path = Some(values[0].clone()),
        Key::NoneInherited => program.environment.inherits = Inherits::Only(Vec::new()),
        Key::VariableList => program.environment.inherits = only(&program.environment.inherits, &values[0]),
        Key::InitialHandler => {
            let known = ["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"];
            if !known.iter().any(|known| values[0] == *known) {
                return Err(OptionError::Value {
                    option: name.to_owned(),
                    value: values[0].to_string_lossy().into_owned(),
                    expected: "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return",
                });
            }
            program.environment.variables.push((INITIAL_HANDLER_VARIABLE.into(), values[0].clone()));
        }
        Key::Variable => program.environment.variables.push((values[0].clone(), values[1].clone())),
        Key::Export => {
            // Open MPI: a name without a value passes on what is there, and everything is passed on here
            // anyway.
            let is_name = |name: &[u8]| !name.is_empty() && !name.starts_with(b"-");
            if !is_name(values[0].as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default()) {
                return Err(OptionError::Value {
                    option: name.to_owned(),
                    value: values[0].to_string_lossy().into_owned(),
                    expected: "NAME or NAME=VALUE",
                });
            }
            if let Some(pair) = split(&values[0]) {
                program.environment.variables.push(pair);
            } else if let Some(value) = std::env::var_os(&values[0]) {
                program.environment.variables.push((values[0].clone(), value));
            }
        }
        _ => unreachable!("{key:?} is no option of a program"),
    }
    Ok(())
}

fn for_job(options: &mut Options, key: Key, name: &str, values: &[OsString]) -> Result<(), OptionError> {
    let text = || values[0].to_string_lossy().into_owned();
    let wrong = |expected| OptionError::Value { option: name.to_owned(), value: text(), expected };
    match key {
        Key::CoresPerRank => options.cores_per_rank = Some(number(name, &values[0])?),
        Key::RanksPerNode => options.ranks_per_node = Some(number(name, &values[0])?),
        Key::Nodes => options.nodes = Some(number(name, &values[0])?),
        Key::Universe => {
            let is_default = ["SYSTEM", "INFINITE"].iter().any(|word| text().eq_ignore_ascii_case(word));
            options.universe = if is_default { None } else { Some(number(name, &values[0])?) };
        }
        Key::OnePerNode => options.ranks_per_node = Some(1),
        Key::BindToCore => options.binding = Binding::Core,
        Key::BindToNone => options.binding = Binding::None,
        Key::MemoryKinds => {
            // A kind may have restrictors behind colons.
            let is_there = |kind: &str| ["mpi", "system"].contains(&kind.split(':').next().unwrap_or(kind));
            if !text().split(',').all(is_there) {
                options
                    .remarks
                    .ignored
                    .push((format!("{name} {}", text()), "the kinds that are there are mpi and system"));
            }
        }
        Key::VirtualNodes => options.virtual_nodes.count = Some(number(name, &values[0])?),
        Key::Namespaces => options.virtual_nodes.namespaces = Some(number(name, &values[0])?),
        Key::NamespaceMtus => {
            options.virtual_nodes.mtus =
                text().split(',').map(|mtu| number(name, mtu.as_ref())).collect::<Result<_, _>>()?
        }
        Key::BindTo => options.binding = binding(&text()).ok_or_else(|| wrong("none, core or share"))?,
        Key::ReportBindings => options.report_bindings = true,
        Key::NoOversubscribe => options.no_oversubscribe = true,
        Key::Weight => {
            let weight = text().parse().ok().filter(|weight| (1..=10_000).contains(weight));
            options.terms.weight = weight.ok_or_else(|| wrong("a whole number from 1 to 10000"))?;
            options.batch.weight = Some(options.terms.weight);
        }
        Key::Queue => options.batch.queue = text(),
        Key::Exclusive => options.terms.exclusive = true,
        Key::Memory => {
            let bytes = size::parse(&text());
            options.terms.memory_bytes =
                bytes.map_err(|_| wrong("a number with K, M, G or T after it, such as 512M or 1.5G"))?;
        }
        Key::Gpus => {
            let count = text().parse().ok().filter(|count| *count <= 64);
            options.terms.gpus = count.ok_or_else(|| wrong("a whole number from 0 to 64"))?;
        }
        Key::Gang => options.terms.gang = true,
        Key::NoGang => options.terms.gang = false,
        Key::Fill => options.terms.fill = true,
        Key::Phases => {
            // The one option whose value may be left out.
            let policy = values.first().map_or_else(|| "hints".into(), |_| text());
            options.terms.phases = Some(policy.parse().map_err(wrong)?);
        }
        Key::Label => options.output.label = true,
        Key::OutputFile | Key::SubmitOutput => options.output.stdout = Some(values[0].clone()),
        Key::OpenMode => {
            options.output.append = match text().as_str() {
                "append" => true,
                "truncate" => false,
                _ => return Err(wrong("append or truncate")),
            }
        }
        Key::ErrorsFile | Key::SubmitErrors => options.output.stderr = Some(values[0].clone()),
        Key::OutputFolder => {
            let with = |end: &str| {
                let mut name = values[0].clone();
                name.push(end);
                Some(name)
            };
            options.output.stdout = with(".%r.out");
            options.output.stderr = with(".%r.err");
        }
        Key::Stdin => {
            options.input = match text().as_str() {
                "none" => Input::None,
                "all" => Input::All,
                rank => Input::Rank(rank.parse().map_err(|_| wrong("a rank, all or none"))?),
            }
        }
        Key::Timeout => {
            options.timeout = Some(seconds(&text()).ok_or_else(|| wrong(SECONDS))?);
        }
        Key::KillAfter => {
            let time = seconds(&text()).ok_or_else(|| wrong(SECONDS))?;
            options.batch.set_kill_after(time);
        }
        Key::Time => {
            let limit = time_limit::parse(&text()).ok_or_else(|| wrong(time_limit::EXPECTED))?;
            options.batch.time_ms = Some(limit.as_millis() as u64);
        }
        Key::OnDeadlock => {
            options.batch.on_deadlock = match text().as_str() {
                "report" => OnDeadlock::Report,
                "suspend" => OnDeadlock::Suspend,
                "end" => OnDeadlock::End,
                _ => return Err(wrong("report, suspend or end")),
            }
        }
        Key::OnIdle => {
            let wanted = || wrong("keep, or suspend=TIME (suspend=10m, suspend=30s)");
            options.batch.on_idle = match text().split_once('=') {
                None if text() == "keep" => OnIdle::Keep,
                None if text() == "suspend" => OnIdle::Suspend(IDLE_DEFAULT_MS),
                Some(("suspend", time)) => {
                    let time = time_limit::parse(time).ok_or_else(wanted)?;
                    OnIdle::Suspend(time.as_millis() as u64)
                }
                _ => return Err(wanted()),
            }
        }
        Key::Name => options.batch.name = text(),
        Key::After | Key::AfterOk | Key::AfterNotOk => {
            let jobs = text().split([':', ',']).map(|job| job.parse().ok().filter(|job| *job > 0)).collect();
            let jobs: Option<Vec<u64>> = jobs;
            let jobs = jobs.ok_or_else(|| wrong("numbers of jobs with colons between them"))?;
            let (ok, not_ok) = (key == Key::AfterOk, key == Key::AfterNotOk);
            let after = |job| After { job: JobId(job), ok, not_ok };
            options.batch.after.extend(jobs.into_iter().map(after));
            if options.batch.after.len() > BATCH_AFTER_MAX {
                return Err(wrong("256 jobs at most"));
            }
        }
        Key::AfterSameName => options.batch.rules_mut().behind_same_name = true,
        Key::Reservation => options.batch.rules_mut().reservation = text(),
        Key::MailType => {
            options.batch.mail_mut().events =
                Mail::events_of(&text()).ok_or_else(|| wrong(mail::EXPECTED))?;
        }
        Key::MailUser => {
            let is_right = Mail::is_address(&text());
            options.batch.mail_mut().to =
                is_right.then(text).ok_or_else(|| wrong("an address such as me@example.org"))?;
        }
        Key::Begin => {
            let begin_ms = moments::moment(&text()).ok_or_else(|| wrong(moments::BEGIN_EXPECTED))?;
            options.batch.rules_mut().begin_ms = Some(begin_ms);
        }
        Key::Exclude => {
            let names: Vec<String> = text().split(',').map(|name| name.trim().to_owned()).collect();
            if names.iter().any(String::is_empty) {
                return Err(wrong("names of nodes with commas between them"));
            }
            options.batch.rules_mut().excluded.extend(names);
        }
        Key::Signal => {
            let warning =
                warning(&text()).ok_or_else(|| wrong("a signal, or SIG@SECONDS such as USR1@120"))?;
            options.batch.set_warning(warning);
        }
        Key::Array => {
            let array = Array::parse(&text()).map_err(|text| OptionError::Array(name.to_owned(), text))?;
            options.batch.set_array(InArray::Whole(array));
        }
        Key::Hold => options.batch.rules_mut().held = true,
        Key::Files => options.beside.files.push(values.first().cloned().unwrap_or_default()),
        Key::Json => options.beside.json = true,
        Key::Requeue => options.batch.set_requeued_if_lost(true),
        Key::Pty => options.pty = true,
        Key::DetachOnHangup => options.detach_on_hangup = true,
        Key::Quiet => options.remarks.quiet = true,
        Key::Verbose => options.remarks.verbose = true,
        Key::Oversubscribe => options.no_oversubscribe = false,
        Key::MapBy => {
            if let Some(part) = map_by(options, &text()).ok_or_else(|| wrong(MAPPINGS))? {
                options
                    .remarks
                    .ignored
                    .push((format!("{name} {part}"), "ranks are bound to cores in their own order"));
            }
        }
        Key::RankBy => match text().as_str() {
            "slot" | "core" | "hwthread" | "fill" => {}
            "node" => options.by_node = Some(format!("{name} {}", text())),
            _ => return Err(wrong("slot, core, hwthread or fill: ranks are numbered node by node")),
        },
        Key::Tagged => match text().as_str() {
            "tag" => options.output.label = true,
            _ => return Err(wrong("tag; --outfile-pattern and --output-filename write files")),
        },
        Key::Always => {}
        Key::Foreign => options.remarks.foreign.push(name.to_owned()),
        _ => unreachable!("{key:?} is no option of a job"),
    }
    Ok(())
}

fn number(option: &str, value: &OsStr) -> Result<u32, OptionError> {
    let parsed = value.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    parsed.ok_or_else(|| OptionError::Value {
        option: option.to_owned(),
        value: value.to_string_lossy().into_owned(),
        expected: "a whole number above 0",
    })
}

/// Binding targets that both families know; larger things than a core are a share here.
fn binding(text: &str) -> Option<Binding> {
    // `core:overload-allowed`, `socket:2`
    match text.split(':').next().unwrap_or(text) {
        "none" | "off" => Some(Binding::None),
        "core" | "hwthread" | "cpu" | "hwthreads" | "cores" | "rr" => Some(Binding::Core),
        "share" | "default" | "socket" | "package" | "numa" | "board" | "l1cache" | "l2cache" | "l3cache"
        | "machine" => Some(Binding::Share),
        _ => None,
    }
}

/// Values that --map-by takes.
const MAPPINGS: &str =
    "slot, core, hwthread, socket or ppr:N:node: consecutive ranks are on one node (-ppn N sets how many)";
/// Parts of a node: which of them ranks get first is a matter of binding.
const PARTS: [&str; 8] = ["socket", "package", "numa", "board", "l1cache", "l2cache", "l3cache", "machine"];

/// `slot`, `core:PE=2`, `ppr:4:node:oversubscribe`, in any case of letters; a part of a node that was named.
/// None: an order that ranks cannot have here.
fn map_by(options: &mut Options, text: &str) -> Option<Option<String>> {
    let text = text.to_ascii_lowercase();
    let count = |text: &str| text.parse().ok().filter(|count: &u32| *count > 0);
    let mut part = None;
    let mut words = text.split([':', ',']);
    match words.next()? {
        "" | "slot" | "core" | "hwthread" => {}
        "node" => options.by_node = Some(format!("--map-by {text}")),
        name if PARTS.contains(&name) => part = Some(name.to_owned()),
        "ppr" => {
            options.ranks_per_node = Some(count(words.next()?)?);
            words.next().filter(|per| *per == "node")?;
        }
        _ => return None,
    }
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("pe", cores) => options.cores_per_rank = Some(count(cores)?),
            ("oversubscribe", "") => options.no_oversubscribe = false,
            ("nooversubscribe", "") => options.no_oversubscribe = true,
            _ => return None,
        }
    }
    Some(part)
}

fn split(pair: &OsStr) -> Option<(OsString, OsString)> {
    let at = pair.as_bytes().iter().position(|byte| *byte == b'=')?;
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((part(&pair.as_bytes()[..at]), part(&pair.as_bytes()[at + 1..])))
}

fn only(before: &Inherits, list: &OsStr) -> Inherits {
    let mut names = match before {
        Inherits::Only(names) => names.clone(),
        Inherits::All => Vec::new(),
    };
    let parts = list.as_bytes().split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.extend(parts.map(|name| OsString::from_vec(name.to_vec()).into()));
    Inherits::Only(names)
}

/// Forms that [`seconds`] reads, for the line about what it cannot.
pub const SECONDS: &str = "a number of seconds above 0, or 10m, 2h, 1d";

/// Reads seconds, or a time with a unit as --time takes it; none: it is none above 0.
pub fn seconds(text: &str) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) => (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds)),
        Err(_) => time_limit::parse(text).filter(|limit| *limit > Duration::ZERO),
    }
}

#[cfg(test)]
mod tests;
