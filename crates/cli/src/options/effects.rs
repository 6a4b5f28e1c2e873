//! Effects of options on a program or on the job. Which option a word names and whether the command has it is
//! known before.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use tutti_client::moments;
use tutti_protocol::array::{Array, InArray};
use tutti_protocol::batch::{After, BATCH_AFTER_MAX, IDLE_DEFAULT_MS, OnDeadlock, OnIdle};
use tutti_protocol::mail::{self, Mail};
use tutti_protocol::wire::{Binding, Inherits, Input};
use tutti_protocol::{size, time_limit};
use tutti_sched::JobId;
use tutti_shm::ticket::INITIAL_HANDLER_VARIABLE;

use super::error::OptionError;
use super::keys::Key;
use super::values::{SECONDS, binding, number, only, seconds, split, warning};
use super::{Options, Program};
use crate::library::Choice;

pub(super) fn for_program(
    program: &mut Program,
    key: Key,
    name: &str,
    values: &[OsString],
) -> Result<(), OptionError> {
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

/// Values of an option, and the name by which the user has given it.
struct Given<'a> {
    name: &'a str,
    values: &'a [OsString],
}

impl Given<'_> {
    fn text(&self) -> String {
        self.values[0].to_string_lossy().into_owned()
    }

    fn number(&self) -> Result<u32, OptionError> {
        number(self.name, &self.values[0])
    }

    fn wrong(&self, expected: &'static str) -> OptionError {
        OptionError::Value { option: self.name.to_owned(), value: self.text(), expected }
    }
}

pub(super) fn for_job(
    options: &mut Options,
    key: Key,
    name: &str,
    values: &[OsString],
) -> Result<(), OptionError> {
    let given = Given { name, values };
    match key {
        Key::Always => {}
        Key::Foreign => options.remarks.foreign.push(name.to_owned()),
        _ => {
            let is_known = for_placement(options, key, &given)?
                || for_streams(options, key, &given)?
                || for_terms(options, key, &given)?
                || for_batch(options, key, &given)?;
            assert!(is_known, "{key:?} is no option of a job");
        }
    }
    Ok(())
}

/// Places of ranks; false: the option is none of these.
fn for_placement(options: &mut Options, key: Key, given: &Given<'_>) -> Result<bool, OptionError> {
    match key {
        Key::CoresPerRank => options.cores_per_rank = Some(given.number()?),
        Key::RanksPerNode => options.ranks_per_node = Some(given.number()?),
        Key::Nodes => options.nodes = Some(given.number()?),
        Key::Universe => {
            let is_default =
                ["SYSTEM", "INFINITE"].iter().any(|word| given.text().eq_ignore_ascii_case(word));
            options.universe = if is_default { None } else { Some(given.number()?) };
        }
        Key::OnePerNode => options.ranks_per_node = Some(1),
        Key::BindToCore => options.binding = Binding::Core,
        Key::BindToNone => options.binding = Binding::None,
        Key::MemoryKinds => {
            // A kind may have restrictors behind colons.
            let is_there = |kind: &str| ["mpi", "system"].contains(&kind.split(':').next().unwrap_or(kind));
            if !given.text().split(',').all(is_there) {
                options.remarks.ignored.push((
                    format!("{} {}", given.name, given.text()),
                    "the kinds that are there are mpi and system",
                ));
            }
        }
        Key::VirtualNodes => options.virtual_nodes.count = Some(given.number()?),
        Key::Namespaces => options.virtual_nodes.namespaces = Some(given.number()?),
        Key::NamespaceMtus => {
            options.virtual_nodes.mtus = given
                .text()
                .split(',')
                .map(|mtu| number(given.name, mtu.as_ref()))
                .collect::<Result<_, _>>()?
        }
        Key::BindTo => {
            options.binding = binding(&given.text()).ok_or_else(|| given.wrong("none, core or share"))?
        }
        Key::ReportBindings => options.report_bindings = true,
        Key::NoOversubscribe => options.no_oversubscribe = true,
        Key::Oversubscribe => options.no_oversubscribe = false,
        Key::MapBy => {
            if let Some(part) = map_by(options, &given.text()).ok_or_else(|| given.wrong(MAPPINGS))? {
                options
                    .remarks
                    .ignored
                    .push((format!("{} {part}", given.name), "ranks are bound to cores in their own order"));
            }
        }
        Key::RankBy => match given.text().as_str() {
            "slot" | "core" | "hwthread" | "fill" => {}
            "node" => options.by_node = Some(format!("{} {}", given.name, given.text())),
            _ => return Err(given.wrong("slot, core, hwthread or fill: ranks are numbered node by node")),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

/// The job's standard streams, and what the user sees of it.
fn for_streams(options: &mut Options, key: Key, given: &Given<'_>) -> Result<bool, OptionError> {
    match key {
        Key::Label => options.output.label = true,
        Key::OutputFile | Key::SubmitOutput => options.output.stdout = Some(given.values[0].clone()),
        Key::OpenMode => {
            options.output.append = match given.text().as_str() {
                "append" => true,
                "truncate" => false,
                _ => return Err(given.wrong("append or truncate")),
            }
        }
        Key::ErrorsFile | Key::SubmitErrors => options.output.stderr = Some(given.values[0].clone()),
        Key::OutputFolder => {
            let with = |end: &str| {
                let mut name = given.values[0].clone();
                name.push(end);
                Some(name)
            };
            options.output.stdout = with(".%r.out");
            options.output.stderr = with(".%r.err");
        }
        Key::Stdin => {
            options.input = match given.text().as_str() {
                "none" => Input::None,
                "all" => Input::All,
                rank => Input::Rank(rank.parse().map_err(|_| given.wrong("a rank, all or none"))?),
            }
        }
        Key::Files => options.beside.files.push(given.values.first().cloned().unwrap_or_default()),
        Key::Json => options.beside.json = true,
        Key::Pty => options.pty = true,
        Key::DetachOnHangup => options.detach_on_hangup = true,
        Key::Quiet => options.remarks.quiet = true,
        Key::Verbose => options.remarks.verbose = true,
        Key::Tagged => {
            let value = given.text();
            let columns = value.strip_prefix("tag:").and_then(|columns| columns.parse().ok());
            if value != "tag" && !columns.is_some_and(|columns| (1..=10).contains(&columns)) {
                return Err(
                    given.wrong("tag or tag:COLUMNS; --outfile-pattern and --output-filename write files")
                );
            }
            (options.output.label, options.output.label_columns) = (true, columns);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The job's share of the machine, and its time.
fn for_terms(options: &mut Options, key: Key, given: &Given<'_>) -> Result<bool, OptionError> {
    match key {
        Key::Weight => {
            let weight = given.text().parse().ok().filter(|weight| (1..=10_000).contains(weight));
            options.terms.weight = weight.ok_or_else(|| given.wrong("a whole number from 1 to 10000"))?;
            options.batch.weight = Some(options.terms.weight);
        }
        Key::Queue => options.batch.queue = given.text(),
        Key::Exclusive => options.terms.exclusive = true,
        Key::Memory => {
            let bytes = size::parse(&given.text());
            options.terms.memory_bytes = bytes
                .map_err(|_| given.wrong("a number with K, M, G or T after it, such as 512M or 1.5G"))?;
        }
        Key::Gpus => {
            let count = given.text().parse().ok().filter(|count| *count <= 64);
            options.terms.gpus = count.ok_or_else(|| given.wrong("a whole number from 0 to 64"))?;
        }
        Key::Gang => options.terms.gang = true,
        Key::NoGang => options.terms.gang = false,
        Key::Fill => options.terms.fill = true,
        Key::Phases => {
            // The one option whose value may be left out.
            let policy = given.values.first().map_or_else(|| "hints".into(), |_| given.text());
            options.terms.phases = Some(policy.parse().map_err(|expected| given.wrong(expected))?);
        }
        Key::Timeout => {
            options.timeout = Some(seconds(&given.text()).ok_or_else(|| given.wrong(SECONDS))?);
        }
        Key::KillAfter => {
            let time = seconds(&given.text()).ok_or_else(|| given.wrong(SECONDS))?;
            options.batch.set_kill_after(time);
        }
        Key::Time => {
            let limit = time_limit::parse(&given.text()).ok_or_else(|| given.wrong(time_limit::EXPECTED))?;
            options.batch.time_ms = Some(limit.as_millis() as u64);
        }
        Key::OnDeadlock => {
            options.batch.on_deadlock = match given.text().as_str() {
                "report" => OnDeadlock::Report,
                "suspend" => OnDeadlock::Suspend,
                "end" => OnDeadlock::End,
                _ => return Err(given.wrong("report, suspend or end")),
            }
        }
        Key::OnIdle => {
            let wanted = || given.wrong("keep, or suspend=TIME (suspend=10m, suspend=30s)");
            options.batch.on_idle = match given.text().split_once('=') {
                None if given.text() == "keep" => OnIdle::Keep,
                None if given.text() == "suspend" => OnIdle::Suspend(IDLE_DEFAULT_MS),
                Some(("suspend", time)) => {
                    let time = time_limit::parse(time).ok_or_else(wanted)?;
                    OnIdle::Suspend(time.as_millis() as u64)
                }
                _ => return Err(wanted()),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The job's start, and its mail.
fn for_batch(options: &mut Options, key: Key, given: &Given<'_>) -> Result<bool, OptionError> {
    match key {
        Key::Name => options.batch.name = given.text(),
        Key::After | Key::AfterOk | Key::AfterNotOk => {
            let jobs =
                given.text().split([':', ',']).map(|job| job.parse().ok().filter(|job| *job > 0)).collect();
            let jobs: Option<Vec<u64>> = jobs;
            let jobs = jobs.ok_or_else(|| given.wrong("numbers of jobs with colons between them"))?;
            let (ok, not_ok) = (key == Key::AfterOk, key == Key::AfterNotOk);
            let after = |job| After { job: JobId(job), ok, not_ok };
            options.batch.after.extend(jobs.into_iter().map(after));
            if options.batch.after.len() > BATCH_AFTER_MAX {
                return Err(given.wrong("256 jobs at most"));
            }
        }
        Key::AfterSameName => options.batch.rules_mut().behind_same_name = true,
        Key::Reservation => options.batch.rules_mut().reservation = given.text(),
        Key::MailType => {
            options.batch.mail_mut().events =
                Mail::events_of(&given.text()).ok_or_else(|| given.wrong(mail::EXPECTED))?;
        }
        Key::MailUser => {
            let is_right = Mail::is_address(&given.text());
            options.batch.mail_mut().to = is_right
                .then(|| given.text())
                .ok_or_else(|| given.wrong("an address such as me@example.org"))?;
        }
        Key::Begin => {
            let begin_ms =
                moments::moment(&given.text()).ok_or_else(|| given.wrong(moments::BEGIN_EXPECTED))?;
            options.batch.rules_mut().begin_ms = Some(begin_ms);
        }
        Key::Exclude => {
            let names: Vec<String> = given.text().split(',').map(|name| name.trim().to_owned()).collect();
            if names.iter().any(String::is_empty) {
                return Err(given.wrong("names of nodes with commas between them"));
            }
            options.batch.rules_mut().excluded.extend(names);
        }
        Key::Signal => {
            let warning = warning(&given.text())
                .ok_or_else(|| given.wrong("a signal, or SIG@SECONDS such as USR1@120"))?;
            options.batch.set_warning(warning);
        }
        Key::Array => {
            let array = Array::parse(&given.text())
                .map_err(|text| OptionError::Array(given.name.to_owned(), text))?;
            options.batch.set_array(InArray::Whole(array));
        }
        Key::Hold => options.batch.rules_mut().held = true,
        Key::Requeue => options.batch.set_requeued_if_lost(true),
        _ => return Ok(false),
    }
    Ok(true)
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
