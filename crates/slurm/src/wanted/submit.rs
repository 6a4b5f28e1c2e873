//! A job on its way to the controller: from what is wanted to a submission of Tutti, with dependencies,
//! files and nodes resolved. Called by `sbatch`, once for a job or an array.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use tutti_client::node_list;
use tutti_client::requests::{Answer, Batch, Host, JobId, Script, Submit, Terms};
use tutti_os::random::fill_random;
use tutti_protocol::array::InArray;
use tutti_protocol::batch::{After, BATCH_AFTER_MAX, StartRules};
use tutti_protocol::output::Output;
use tutti_protocol::wire::{Binding, Inherits, Job, Program, Text};

use crate::forms::{self, Condition};
use crate::identity;
use crate::moments::{self, Day};
use crate::names::{CLUSTER, SCRIPT_NAME};
use crate::note::{MARK, Note, Origin};
use crate::patterns::{self, Values};
use crate::query;
use crate::view;
use crate::wanted::{Export, Wanted};

/// The script's text on its way to the node, in pieces: the kernel takes 128 KiB in one.
pub const PIECE: &str = "TUTTI_SLURM_SCRIPT";
/// Bytes of arguments and of lists of nodes that are kept with a job.
const SHOWN_BYTES_MAX: usize = 512;
/// Bytes of a piece.
const PIECE_BYTES: usize = 100_000;
/// Bytes of a script: with the rest of the environment the kernel takes 2 MiB.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Variables without which nothing starts, of a job that is to have none.
const NEEDED: [&str; 6] = ["HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM"];

/// A script and what it is given.
#[derive(Clone, Debug)]
pub struct Source {
    /// Text of the script.
    pub text: Vec<u8>,
    /// File of the script; none: it was read from stdin, or is a command.
    pub file: Option<PathBuf>,
    /// Arguments of the script.
    pub arguments: Vec<String>,
    /// Name of the job without `--job-name`.
    pub name: String,
}

/// Folders of a job.
#[derive(Clone, Debug)]
pub struct Folders {
    /// Folder in which it is submitted.
    here: PathBuf,
    /// Working directory of it.
    work: PathBuf,
}

impl Folders {
    /// Looks for them.
    ///
    /// # Errors
    /// When there is none; a text for the user.
    pub fn of(wanted: &Wanted) -> Result<Folders, String> {
        let here =
            std::env::current_dir().map_err(|error| format!("cannot name the working directory: {error}"))?;
        let work = wanted.folder.as_ref().map_or_else(|| here.clone(), |folder| here.join(folder));
        if !work.is_dir() {
            return Err(format!("Unable to set working directory {}: it is not a folder", work.display()));
        }
        Ok(Folders { here, work })
    }
}

/// Parts from which all elements of an array, or a job, are made.
#[derive(Debug)]
pub struct Plan {
    submit: Submit,
    note: Note,
    values: Values,
    files: (String, Option<String>),
    append: bool,
    after: Vec<After>,
}

impl Plan {
    /// Resolves everything but the number.
    ///
    /// # Errors
    /// When something cannot be had; a text for the user.
    pub fn new(wanted: &Wanted, source: &Source, folders: &Folders) -> Result<Plan, String> {
        refuse_missing(wanted)?;
        let Folders { here, work: folder } = folders;
        let name = wanted.name.clone().unwrap_or_else(|| source.name.clone());
        let (tasks, nodes) = (wanted.all_tasks(), wanted.all_nodes());
        let cores = wanted.cores.unwrap_or(1);
        let ranks =
            tasks.max(nodes).checked_mul(cores).ok_or("Requested node configuration is not available")?;
        let note = Note {
            size: wanted.size(),
            source: Origin {
                script: source
                    .file
                    .as_ref()
                    .map(|file| here.join(file).to_string_lossy().into_owned())
                    .unwrap_or_default(),
                folder: folder.to_string_lossy().into_owned(),
                submit_folder: here.to_string_lossy().into_owned(),
                submit_host: identity::host_name(),
                arguments: short(source.arguments.join(" ")),
                named_nodes: short(node_list::fold(&wanted.hosts)),
                excluded_nodes: short(node_list::fold(&wanted.excluded)),
                nice: wanted.care.nice,
            },
            dependency: wanted.dependency.as_ref().map(|(_, text)| text.clone()).unwrap_or_default(),
            comment: wanted.comment.clone().unwrap_or_default(),
            account: wanted.account.clone().unwrap_or_default(),
            array: wanted.array().map(|array| array.shape()),
            warning: wanted.warning(),
            once: wanted.care.requeue == Some(false),
        };
        let default = if wanted.array.is_some() { "slurm-%A_%a.out" } else { "slurm-%j.out" };
        let files =
            (wanted.files.output.clone().unwrap_or_else(|| default.into()), wanted.files.error.clone());
        let user = tutti_client::users::name(identity::own_uid());
        let values = Values {
            rank: "0".into(),
            node_index: "0".into(),
            step: "batch".into(),
            is_array: wanted.array().is_some(),
            name: name.clone(),
            user,
            ..Values::default()
        };
        let after = match &wanted.dependency {
            Some((dependency, _)) => resolve(dependency, &name)?,
            None => Vec::new(),
        };
        let terms =
            Terms { memory_bytes: wanted.memory_bytes(), gpus: wanted.gpus_of_node()?, ..Terms::default() };
        let begin = wanted.care.begin.as_deref();
        let start_rules = StartRules {
            held: wanted.care.hold,
            begin_ms: begin.map(|text| moments::moment(text, Day::Next)).transpose()?,
            excluded: wanted.excluded.clone(),
            reservation: wanted.care.reservation.clone(),
            ..StartRules::default()
        };
        let mut batch =
            Batch { name: name.clone(), time_ms: wanted.time_ms, start_rules, ..Batch::default() };
        wanted.care.mail.clone_into(batch.mail_mut());
        batch.set_requeued_if_lost(wanted.care.requeue == Some(true));
        if let Some(array) = wanted.array() {
            batch.set_array(InArray::Whole(array.tasks()));
        }
        let submit = Submit {
            job: job(ranks, &name, source)?,
            nodes: Some(nodes),
            per_node: wanted.slots_per_node(),
            hosts: hosts(wanted, nodes)?,
            terms,
            batch,
            output: None,
            environment: environment(&wanted.export, &source.text).into_iter().collect(),
            directory: folder.clone().into_os_string().into(),
            umask: umask(),
            groups: Vec::new(),
            session: None,
            key: 0,
            script: Script { is_script: true, ..Script::default() },
        };
        Ok(Plan { submit, note, values, files, append: wanted.files.append, after })
    }

    /// Submits the job, or the array; gives its number.
    ///
    /// # Errors
    /// When no daemon answers, or it refuses; a text for the user.
    pub fn submit(&self) -> Result<JobId, String> {
        let note = self.note.text()?;
        let mut submit = self.submit.clone();
        submit.batch = Batch { annotation: note.clone(), ..submit.batch };
        submit.batch.after.clone_from(&self.after);
        if submit.batch.after.len() > BATCH_AFTER_MAX {
            return Err(format!(
                "Job dependency problem: a job can wait for {BATCH_AFTER_MAX} others at most"
            ));
        }
        let named = |pattern: &str| -> Option<Text> {
            let name = patterns::expand(pattern, &self.values, false);
            (name != "/dev/null").then(|| OsString::from(name).into())
        };
        let (out, errors) = (&self.files.0, self.files.1.as_ref().unwrap_or(&self.files.0));
        let output = Output { out: named(out), errors: named(errors), append: self.append };
        check_files(&output, &self.submit.directory)?;
        submit.output = (output.out.is_some() || output.errors.is_some()).then_some(output);
        for program in &mut submit.job.programs {
            program.variables.push((MARK.into(), note.as_str().into()));
        }
        match query::submit(submit)? {
            Answer::Job(job) => Ok(job),
            _ => Err(query::OTHER_VERSION.into()),
        }
    }
}

/// A text that is kept with the job for lists alone: a long one is not.
fn short(text: String) -> String {
    if text.len() <= SHOWN_BYTES_MAX { text } else { String::new() }
}

/// The line of `--test-only`.
///
/// # Errors
/// When the cluster could never hold the job, or no daemon answers.
pub fn tested(wanted: &Wanted) -> Result<String, String> {
    let nodes = query::nodes()?;
    let slots = nodes.iter().map(|node| node.slots).fold(0, u32::saturating_add);
    let mut names: Vec<String> = nodes.into_iter().map(|node| node.name).collect();
    let count = wanted.all_nodes() as usize;
    if names.len() < count || wanted.all_tasks() > slots {
        return Err("allocation failure: Requested node configuration is not available".into());
    }
    // The number that a job would have now.
    let number = query::jobs()?.0.iter().map(|job| job.row.job.0).max().unwrap_or(0) + 1;
    names.truncate(count);
    let (tasks, nodes, now) =
        (wanted.all_tasks(), node_list::fold(&names), forms::moment(query::now_ms(), None));
    Ok(format!(
        "Job {number} to start at {now} using {tasks} processors on nodes {nodes} in partition {CLUSTER}"
    ))
}

/// Refuses a partition that there is not.
///
/// # Errors
/// With one line that names the one that there is.
pub fn check_partition(wanted: &Wanted) -> Result<(), String> {
    let names = wanted.partition.as_deref().unwrap_or(CLUSTER);
    if names.split(',').any(|name| name == CLUSTER) {
        return Ok(());
    }
    Err(format!("invalid partition specified: {names}"))
}

/// Refuses what Tutti does not have yet; nothing is ignored.
fn refuse_missing(wanted: &Wanted) -> Result<(), String> {
    let care = &wanted.care;
    let missing = [
        (care.deadline.is_some(), "--deadline"),
        (wanted.files.input.as_deref().is_some_and(|file| file != "/dev/null"), "--input of a batch job"),
    ];
    match missing.iter().find(|(is_asked, _)| *is_asked) {
        Some((_, option)) => Err(format!("{option} is not supported by Tutti yet")),
        None => Ok(()),
    }
}

/// The folder of a file must be there; the file itself is the daemon's matter.
fn check_files(output: &Output, directory: &Text) -> Result<(), String> {
    for name in output.out.iter().chain(&output.errors) {
        let path = Path::new(&OsString::from(directory)).join(OsString::from(name));
        let Some(folder) = path.parent() else { continue };
        if !folder.to_string_lossy().contains('%') && !folder.is_dir() {
            return Err(format!("cannot write {}: there is no folder {}", path.display(), folder.display()));
        }
    }
    Ok(())
}

fn job(ranks: u32, name: &str, source: &Source) -> Result<Job, String> {
    let mut id = [0; 8];
    fill_random(&mut id).map_err(|error| format!("cannot draw random bytes: {error}"))?;
    let own = std::env::current_exe().map_err(|error| format!("cannot name this program: {error}"))?;
    let arguments = std::iter::once(SCRIPT_NAME).chain(source.arguments.iter().map(String::as_str));
    Ok(Job {
        id: u64::from_ne_bytes(id),
        front_end: std::process::id(),
        binding: Binding::Share,
        ..Job::of_programs(vec![Program {
            file: own.into_os_string().into(),
            arguments: arguments.map(Text::from).collect(),
            ranks,
            directory: None,
            inherits: Inherits::All,
            variables: vec![("SLURM_JOB_NAME".into(), name.into())],
        }])
    })
}

/// The job's variables, and the script in pieces. What a job around this one has set is not handed on.
fn environment(export: &Export, script: &[u8]) -> Vec<(Text, Text)> {
    let is_of_job = |name: &str| {
        (name.starts_with("SLURM_") && !super::is_handed_on(name))
            || name.starts_with("TUTTI_SLURM")
            || [
                "TUTTI_ALLOCATION",
                "TUTTI_JOBID",
                "TUTTI_RESTARTS",
                "TUTTI_FIRST_JOB",
                "ENVIRONMENT",
                "SLURMD_NODENAME",
            ]
            .contains(&name)
    };
    let mut settings: Vec<(String, String)> = Vec::new();
    let mut is_wanted: Box<dyn Fn(&str) -> bool> = Box::new(|_| true);
    let split = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    match export {
        Export::All => {}
        Export::AllAnd(words) => settings = words.iter().filter_map(|word| split(word)).collect(),
        Export::None => is_wanted = Box::new(|name| NEEDED.contains(&name)),
        Export::Only(words) => {
            settings = words.iter().filter_map(|word| split(word)).collect();
            let names: Vec<String> = words.iter().filter(|word| !word.contains('=')).cloned().collect();
            is_wanted = Box::new(move |name| NEEDED.contains(&name) || names.iter().any(|own| own == name));
        }
    }
    let own = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        !is_of_job(&name) && is_wanted(&name)
    });
    let is_set = |name: &OsString| settings.iter().any(|(own, _)| name.as_os_str() == own.as_str());
    let mut all: Vec<(Text, Text)> =
        own.filter(|(name, _)| !is_set(name)).map(|(name, value)| (name.into(), value.into())).collect();
    all.extend(settings.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())));
    for (index, piece) in script.chunks(PIECE_BYTES).enumerate() {
        let piece = std::os::unix::ffi::OsStringExt::from_vec(piece.to_vec());
        all.push((format!("{PIECE}_{index}").as_str().into(), OsString::into(piece)));
    }
    all
}

fn umask() -> u32 {
    let umask = rustix::process::umask(Mode::empty());
    rustix::process::umask(umask);
    umask.as_raw_mode()
}

/// Nodes that the job may have, in order; empty: any.
fn hosts(wanted: &Wanted, count: u32) -> Result<Vec<Host>, String> {
    let host = |name: &String| Host { name: name.clone(), ranks: None };
    if wanted.hosts.is_empty() {
        return Ok(Vec::new());
    }
    let is_excluded = |name: &&String| wanted.excluded.contains(name);
    if let Some(name) = wanted.hosts.iter().find(is_excluded) {
        return Err(format!("Requested node configuration is not available: {name} is named and excluded"));
    }
    if wanted.hosts.len() as u32 >= count {
        return Ok(wanted.hosts.iter().take(count as usize).map(host).collect());
    }
    let mut nodes = query::nodes()?;
    nodes.sort_by_key(|node| node.ranks);
    let free = nodes.iter().filter(|node| node.alive && node.drain().is_none()).map(|node| &node.name);
    let mut names: Vec<String> = wanted.hosts.clone();
    names.extend(free.filter(|name| !wanted.hosts.contains(name)).cloned());
    names.retain(|name| !wanted.excluded.contains(name));
    if (names.len() as u32) < count {
        return Err("Requested node configuration is not available: too few nodes are left".into());
    }
    Ok(names.iter().take(count as usize).map(host).collect())
}

/// Looks whether a job that daemons know no more, and the log has, is what another is to wait for.
fn check_past(condition: Condition, named: &forms::NamedJob, text: &str) -> Result<(), String> {
    let (jobs, _) = query::jobs_with_past()?;
    let mut found = query::named(&jobs, named).peekable();
    if found.peek().is_none() {
        return Err(format!("Job dependency problem: there is no job {text}"));
    }
    let is_so = |job: &view::Job| match condition {
        Condition::Ok => job.state() == view::State::Completed,
        Condition::NotOk => job.state() != view::State::Completed,
        Condition::Over | Condition::Begun => true,
    };
    match found.find(|job| !is_so(job)) {
        Some(job) => Err(format!("Job dependency problem: job {text} has ended as {}", job.state().long())),
        None => Ok(()),
    }
}

/// Jobs behind which a job starts.
///
/// # Errors
/// A text with the job that is none.
pub fn resolve(dependency: &forms::Dependency, name: &str) -> Result<Vec<After>, String> {
    let (jobs, _) = query::jobs()?;
    let mut after = Vec::new();
    for (condition, text) in &dependency.jobs {
        let named = forms::job_id(text).ok_or_else(|| format!("Job dependency problem: {text:?}"))?;
        let found: Vec<&view::Job> = query::named(&jobs, &named).collect();
        if found.is_empty() {
            check_past(*condition, &named, text)?;
            continue;
        }
        for job in found {
            let (ok, not_ok) = (*condition == Condition::Ok, *condition == Condition::NotOk);
            if *condition == Condition::Begun {
                if job.row.started_ms.is_none() && !job.state().is_over() {
                    return Err(format!(
                        "Job dependency problem: job {text} has not begun, and `after` cannot wait for that: `afterany` waits for its end"
                    ));
                }
                continue;
            }
            after.push(After { job: job.row.job, ok, not_ok });
        }
    }
    if dependency.singleton {
        let own = identity::own_uid();
        let earlier =
            jobs.iter().filter(|job| job.row.uid == own && !job.state().is_over() && job.name() == name);
        after.extend(earlier.map(|job| After { job: job.row.job, ok: false, not_ok: false }));
    }
    Ok(after)
}
