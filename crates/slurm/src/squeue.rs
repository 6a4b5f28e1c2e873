//! `squeue`: jobs that are not over, and with `-t` those that ended lately.

use std::collections::BTreeMap;
use std::process::ExitCode;

use tutti_client::node_list;

use crate::forms::{self, NamedJob};
use crate::getopt::{Spec, Takes};
use crate::identity;
use crate::names::{CLUSTER, no_cluster};
use crate::output::{self, complain, print, refuse, refuse_plainly};
use crate::query::{self, NO_JOB};
use crate::selection::Selection;
use crate::table::{self, Piece};
use crate::view::{Job, State, states};

use Takes::{Maybe, Nothing, Value};

const NAME: &str = "squeue";

pub const SPECS: &[Spec] = &[
    ("account", 'A', Value),
    ("all", 'a', Nothing),
    ("array", 'r', Nothing),
    ("array-unique", '\0', Nothing),
    ("clusters", 'M', Value),
    ("federation", '\0', Nothing),
    ("format", 'o', Value),
    ("Format", 'O', Value),
    ("help", '\0', Nothing),
    ("hide", '\0', Nothing),
    ("iterate", 'i', Value),
    ("jobs", 'j', Maybe),
    ("json", '\0', Maybe),
    ("licenses", 'L', Value),
    ("local", '\0', Nothing),
    ("long", 'l', Nothing),
    ("me", '\0', Nothing),
    ("name", 'n', Value),
    ("noconvert", '\0', Nothing),
    ("nodelist", 'w', Value),
    ("noheader", 'h', Nothing),
    ("partition", 'p', Value),
    ("priority", 'P', Nothing),
    ("qos", 'q', Value),
    ("reservation", 'R', Value),
    ("sort", 'S', Value),
    ("start", '\0', Nothing),
    ("states", 't', Value),
    ("steps", 's', Maybe),
    ("usage", '\0', Nothing),
    ("user", 'u', Value),
    ("verbose", 'v', Nothing),
    ("version", 'V', Nothing),
    ("yaml", '\0', Maybe),
];

/// Jobs that are over are listed for so long: `MinJobAge` of `scontrol show config`.
pub const MIN_JOB_AGE_MS: u64 = 300_000;
/// States as Slurm lists them.
const VALID_STATES: &str = "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,\
    DEADLINE,OUT_OF_MEMORY,COMPLETING,CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,\
    SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED";
/// Format of steps.
const STEPS: &str = "%.15i %.8j %.9P %.8u %.9M %N";
const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

/// Question of a user.
#[derive(Debug, Default)]
pub struct Asked {
    format: Option<Format>,
    no_header: bool,
    /// `--long`: the moment stands above the list.
    has_moment: bool,
    jobs: Option<Vec<NamedJob>>,
    names: Option<Vec<String>>,
    users: Option<Vec<u32>>,
    selection: Selection,
    order: Vec<(char, bool)>,
    states: Option<Vec<State>>,
    each_element: bool,
    /// `--steps`: a line is a step.
    of_steps: bool,
}

/// Form of the lines.
#[derive(Debug)]
enum Format {
    /// By letters.
    Letters(Vec<Piece>),
    /// By names.
    Named(Vec<Column>),
}

/// A column of `-O`.
#[derive(Clone, Debug)]
struct Column {
    value: Content,
    form: table::Named,
}

/// Value of a column of `-O`.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// The field of a letter.
    Of(char),
    /// The same for every job here: its title, and the value.
    Same(&'static str, &'static str),
}

/// Variables that stand for options, behind those of the command line.
const VARIABLES: [(&str, &str); 9] = [
    ("SQUEUE_ACCOUNT", "account"),
    ("SQUEUE_ARRAY", "array"),
    ("SQUEUE_FORMAT", "format"),
    ("SQUEUE_FORMAT2", "Format"),
    ("SQUEUE_NAMES", "name"),
    ("SQUEUE_PARTITION", "partition"),
    ("SQUEUE_SORT", "sort"),
    ("SQUEUE_STATES", "states"),
    ("SQUEUE_USERS", "user"),
];

/// Runs the command.
pub fn run(words: &[String]) -> ExitCode {
    let usage = "Usage: squeue [-A account] [-h] [-j jobs] [--me] [-n names] [-o format] [-O fields] [-p partition] [-r] [-t states] [-u users] [-w nodes]";
    let line = match output::read(NAME, SPECS, usage, words) {
        Ok(line) => line,
        Err(status) => return status,
    };
    let mut operands = line.operands.iter().map(String::as_str).collect::<Vec<_>>();
    let set = VARIABLES.into_iter().filter_map(|(variable, option)| {
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty())?;
        Some((option, value))
    });
    let options: Vec<_> = set.chain(line.options.iter().cloned()).collect();
    let read = read(&options, &mut operands).and_then(|asked| match operands.first() {
        Some(word) => Err(format!("Unrecognized option: {word}")),
        None => Ok(asked),
    });
    match read.and_then(|asked| list(&asked)) {
        Ok(text) => print(&text),
        Err(text) if text.starts_with(NO_JOB_PREFIX) => refuse_plainly(&text),
        Err(text) => refuse(NAME, &text, 1),
    }
}

fn list_of(value: &str) -> Vec<String> {
    value.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

pub fn read(options: &[(&'static str, String)], operands: &mut Vec<&str>) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut is_of_starts = false;
    for (name, value) in options {
        match *name {
            "format" => {
                let pieces = table::pieces_or_all(value, |letter| title(letter).is_some());
                asked.format = Some(Format::Letters(pieces));
            }
            "Format" => asked.format = Some(named_format(value)),
            "long" => {
                asked.has_moment = true;
                asked.format = Some(Format::Letters(table::pieces(LONG)));
            }
            "noheader" => asked.no_header = true,
            "jobs" => {
                // `-j 5`: its value may stand apart.
                let value = match value.is_empty() && !operands.is_empty() {
                    true => operands.remove(0),
                    false => value,
                };
                let jobs = forms::job_ids(value).map_err(|word| format!("Invalid job id: {word}"))?;
                // Elements that are named stand in a line each.
                asked.each_element |= jobs.iter().any(|job| job.tasks.is_some());
                asked.jobs.get_or_insert_default().extend(jobs);
            }
            "name" => asked.names = Some(list_of(value)),
            "me" => asked.users = Some(vec![identity::own_uid()]),
            "user" => {
                let mut uids = Vec::new();
                for user in list_of(value) {
                    match identity::uid_of(&user) {
                        Some(uid) => uids.push(uid),
                        // As in Slurm it has no jobs.
                        None => complain(NAME, &format!("error: Invalid user: {user}")),
                    }
                }
                asked.users = Some(uids);
            }
            "nodelist" => {
                let nodes = node_list::expand(value)
                    .ok_or_else(|| format!("Invalid node name specified: {value}"))?;
                asked.selection.set_nodes(nodes);
            }
            "states" => {
                let wrong = || {
                    format!("Invalid job state specified: {value}\nValid job states include: {VALID_STATES}")
                };
                asked.states = Some(states(value).ok_or_else(wrong)?);
            }
            "array" | "array-unique" => asked.each_element = true,
            "json" | "yaml" => {
                return Err("--json and --yaml are not there: `tutti ps --json` has all of them".into());
            }
            "steps" => {
                asked.of_steps = true;
                if !value.is_empty() {
                    let jobs =
                        forms::job_ids(value).map_err(|word| format!("Invalid job_step id: {word}"))?;
                    asked.jobs.get_or_insert_default().extend(jobs);
                }
            }
            "iterate" => return Err("--iterate is not there: `tutti top` watches jobs".into()),
            "clusters" if value != CLUSTER && value != "all" => {
                return Err(no_cluster(value));
            }
            "sort" => asked.order = order(value)?,
            "start" => is_of_starts = true,
            // All that may be seen is shown.
            name => _ = asked.selection.take(name, value),
        }
    }
    if is_of_starts {
        // What nothing else was said about.
        asked.format.get_or_insert_with(|| Format::Letters(table::pieces(START)));
        asked.states.get_or_insert_with(|| vec![State::Pending]);
        if asked.order.is_empty() {
            asked.order = order("S")?;
        }
    }
    Ok(asked)
}

fn named_format(value: &str) -> Format {
    const NAMES: [(&str, char); 65] = [
        ("accruetime", '('),
        ("eligibletime", ')'),
        ("lastschedeval", '='),
        ("allocnodes", '@'),
        ("maxcpus", '^'),
        ("maxnodes", '~'),
        ("ntpernode", '-'),
        ("tres-alloc", '+'),
        ("account", 'a'),
        ("arrayjobid", 'F'),
        ("arraytaskid", 'K'),
        ("batchhost", 'B'),
        ("command", 'o'),
        ("comment", 'k'),
        ("dependency", 'E'),
        ("endtime", 'e'),
        ("excnodes", 'x'),
        ("exit_code", '?'),
        ("jobarrayid", 'i'),
        ("jobid", 'A'),
        ("minmemory", 'm'),
        ("name", 'j'),
        ("nodelist", 'N'),
        ("numcpus", 'C'),
        ("numnodes", 'D'),
        ("numtasks", '!'),
        ("partition", 'P'),
        ("priority", 'p'),
        ("prioritylong", 'Q'),
        ("qos", 'q'),
        ("reason", 'r'),
        ("reasonlist", 'R'),
        ("starttime", 'S'),
        ("state", 'T'),
        ("statecompact", 't'),
        ("stdout", '>'),
        ("submittime", 'V'),
        ("timeleft", 'L'),
        ("timelimit", 'l'),
        ("timeused", 'M'),
        ("tres-per-node", 'b'),
        ("gres", 'b'),
        ("workdir", 'Z'),
        ("userid", 'U'),
        ("username", 'u'),
        ("contiguous", 'O'),
        ("cores", 'I'),
        ("corespec", 'X'),
        ("feature", 'f'),
        ("groupid", 'G'),
        ("groupname", 'g'),
        ("licenses", 'W'),
        ("mincpus", 'c'),
        ("mintmpdisk", 'd'),
        ("nice", 'y'),
        ("oversubscribe", 'h'),
        ("reqnodes", 'n'),
        ("reservation", 'v'),
        ("restartcnt", '#'),
        ("schednodes", 'Y'),
        ("sct", 'z'),
        ("sockets", 'H'),
        ("stderr", '<'),
        ("wckey", 'w'),
        ("cpus-per-task", '/'),
    ];
    const SAME: [(&str, &str, &str); 47] = [
        ("admin_comment", "ADMIN_COMMENT", "(null)"),
        ("associd", "ASSOC_ID", "0"),
        ("boardspernode", "BOARDS_PER_NODE", "0"),
        ("burstbuffer", "BURST_BUFFER", "(null)"),
        ("burstbufferstate", "BURST_BUFFER_STATE", "(null)"),
        ("clusterfeature", "CLUSTER_FEATURES", "(null)"),
        ("container", "CONTAINER", "(null)"),
        ("cpus-per-tres", "CPUS_PER_TRES", "N/A"),
        ("hetjobidset", "HET_JOB_ID_SET", "N/A"),
        ("hetjoboffset", "HET_JOB_OFFSET", "N/A"),
        ("mem-per-tres", "MEM_PER_TRES", "N/A"),
        ("ntperboard", "NTASKS_PER_BOARD", "0"),
        ("origin", "ORIGIN", "NA"),
        ("originraw", "ORIGIN_RAW", "NA"),
        ("selectjobinfo", "", ""),
        ("siblingsactive", "ACTIVE_SIBLINGS", "NA"),
        ("siblingsactiveraw", "ACTIVE_SIBLINGS_RAW", "NA"),
        ("siblingsviable", "VIABLE_SIBLINGS", "NA"),
        // Slurm's own spelling.
        ("siblingsviableraw", "VIALBLE_SIBLINGS_RAW", "NA"),
        ("sperboard", "SOCKETS_PER_BOARD", "0"),
        ("system_comment", "SYSTEM_COMMENT", "(null)"),
        ("tres-per-socket", "TRES_PER_SOCKET", "N/A"),
        ("allocsid", "ALLOC_SID", "0"),
        ("batchflag", "BATCH_FLAG", "1"),
        ("cluster", "CLUSTER", CLUSTER),
        ("deadline", "DEADLINE", "N/A"),
        ("delayboot", "DELAY_BOOT", "0:00"),
        ("derivedec", "DERIVED_EC", "0"),
        ("hetjobid", "HET_JOB_ID", "N/A"),
        ("mcslabel", "MCSLABEL", "(null)"),
        ("mintime", "TIME_MIN", "0:00"),
        ("network", "NETWORK", "(null)"),
        ("ntpercore", "NTASKS_PER_CORE", "N/A"),
        ("ntpersocket", "NTASKS_PER_SOCKET", "N/A"),
        ("preempttime", "PREEMPT_TIME", "N/A"),
        ("profile", "PROFILE", "NotSet"),
        ("reboot", "REBOOT", "0"),
        ("reqswitch", "REQ_SWITCH", "0"),
        ("requeue", "REQUEUE", "1"),
        ("resizetime", "RESIZE_TIME", "N/A"),
        ("stdin", "STDIN", "/dev/null"),
        ("threads", "THREADS_PER_CORE", "*"),
        ("tres-bind", "TRES_BIND", "N/A"),
        ("tres-freq", "TRES_FREQ", "N/A"),
        ("tres-per-job", "TRES_PER_JOB", "N/A"),
        ("tres-per-task", "TRES_PER_TASK", "N/A"),
        ("wait4switch", "WAIT4SWITCH", "0:00"),
    ];
    let of = |name: &str| {
        let same = SAME.iter().find(|(known, _, _)| *known == name);
        let letter = NAMES.iter().find(|(known, _)| *known == name);
        same.map(|(_, title, value)| Content::Same(title, value))
            .or(letter.map(|(_, letter)| Content::Of(*letter)))
    };
    let mut columns = Vec::new();
    for form in table::named(value) {
        match of(&form.name) {
            Some(value) => columns.push(Column { value, form }),
            // As in Slurm the others are shown.
            None => complain(NAME, &format!("error: Invalid job format specification: {}", form.name)),
        }
    }
    Format::Named(columns)
}

fn list(asked: &Asked) -> Result<String, String> {
    let (jobs, steps) = jobs_for(asked)?;
    check_nodes(&asked.selection)?;
    let now_ms = query::now_ms();
    let is_fresh = |job: &Job| {
        let is_old = job.row.ended_ms.is_some_and(|ended_ms| ended_ms + MIN_JOB_AGE_MS < now_ms);
        !(job.state().is_over() && is_old)
    };
    let jobs: Vec<Job> = jobs.into_iter().filter(is_fresh).collect();
    if let Some([only]) = asked.jobs.as_deref()
        && query::named(&jobs, &NamedJob { tasks: None, ..only.clone() }).next().is_none()
    {
        return Err(format!("{NO_JOB_PREFIX}{NO_JOB}"));
    }
    let takes = |job: &&Job| {
        let is_in = |list: &Option<Vec<String>>, value: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|one| one == value))
        };
        let state = job.state();
        let by_state = asked.states.as_ref().map_or(!state.is_over(), |states| states.contains(&state));
        by_state
            && asked.selection.has(job)
            && asked.users.as_ref().is_none_or(|users| users.contains(&job.row.uid))
            && asked.jobs.as_ref().is_none_or(|names| {
                names.iter().any(|name| query::named(std::slice::from_ref(job), name).next().is_some())
            })
            && is_in(&asked.names, &job.name())
    };
    let wanted: Vec<&Job> = jobs.iter().filter(takes).collect();
    if asked.of_steps {
        return Ok(print_steps(asked, &wanted, &steps, now_ms));
    }
    print_jobs(asked, &wanted, now_ms)
}

impl Asked {
    /// Whether the list needs jobs or steps that are over: steps are numbered by all that their job has had.
    fn needs_all(&self) -> bool {
        self.of_steps || self.states.iter().flatten().any(|state| state.is_over())
    }

    /// Whether a step of this job is wanted, or its script: `7.1` is one, `7` are all.
    fn has_step(&self, job: &Job, name: &str) -> bool {
        let is_it = |named: &NamedJob| {
            named.step.as_deref().is_none_or(|step| step == name)
                && query::named(std::slice::from_ref(job), named).next().is_some()
        };
        self.jobs.as_ref().is_none_or(|jobs| jobs.iter().any(is_it))
    }
}

/// Jobs, and steps of them, of which the list has those that were asked for. Those that are over are asked
/// for only where they are wanted, or a job was named that is none of the others.
fn jobs_for(asked: &Asked) -> Result<(Vec<Job>, Vec<Job>), String> {
    if !asked.needs_all() {
        let (open, steps) = query::open_jobs()?;
        let is_there = |name: &NamedJob| query::named(&open, name).next().is_some();
        if asked.jobs.iter().flatten().all(is_there) {
            return Ok((open, steps));
        }
    }
    query::jobs()
}

/// A node that is named is there.
fn check_nodes(selection: &Selection) -> Result<(), String> {
    let Some(names) = selection.nodes() else { return Ok(()) };
    let known = query::nodes()?;
    match names.iter().find(|name| known.iter().all(|node| node.name != **name)) {
        Some(name) => Err(format!("Invalid node name {name}")),
        None => Ok(()),
    }
}

/// Steps of jobs that run: the script, and what it has started.
fn print_steps(asked: &Asked, jobs: &[&Job], steps: &[Job], now_ms: u64) -> String {
    let pieces = match &asked.format {
        Some(Format::Letters(pieces)) => pieces.clone(),
        _ => table::pieces(STEPS),
    };
    let title = |letter: char| {
        Some(match letter {
            'i' => "STEPID",
            'A' => "NTASKS",
            letter => title(letter)?,
        })
    };
    let mut text = String::new();
    if !asked.no_header {
        text.push_str(&table::line(&pieces, |letter| title(letter).map(str::to_owned)));
    }
    let mut put = |job: &Job, name: &str, of: &Job, is_script: bool| {
        if !asked.has_step(job, name) {
            return;
        }
        let entry = Entry { job: of, waiting: Vec::new() };
        text.push_str(&table::line(&pieces, |letter| match letter {
            'i' => Some(format!("{}.{name}", job.id())),
            'j' if is_script => Some("batch".into()),
            'N' | 'B' if is_script => job.row.nodes.first().cloned(),
            'A' if is_script => Some("1".into()),
            'A' => Some(of.tasks().to_string()),
            'l' => Some("UNLIMITED".into()),
            letter => field(&entry, letter, now_ms),
        }));
    };
    for job in jobs.iter().filter(|job| !matches!(job.state(), State::Pending) && !job.state().is_over()) {
        let own = steps.iter().filter(|step| step.row.owner() == Some(job.row.job)).enumerate();
        own.filter(|(_, step)| !step.state().is_over())
            .for_each(|(index, step)| put(job, &index.to_string(), step, false));
        if job.row.is_script() {
            put(job, "batch", job, true);
        }
    }
    text
}

/// The line about an unknown job is that of Slurm's library.
const NO_JOB_PREFIX: &str = "slurm_load_jobs error: ";

/// A line of the list: a job, or the elements of an array that wait, by their indices.
struct Entry<'a> {
    job: &'a Job,
    waiting: Vec<u32>,
}

fn entries<'a>(jobs: &[&'a Job], each_element: bool) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut of_array: BTreeMap<u64, usize> = BTreeMap::new();
    for &job in jobs {
        let element = job.element().filter(|_| job.state() == State::Pending && !each_element);
        let Some(element) = element else {
            entries.push(Entry { job, waiting: Vec::new() });
            continue;
        };
        match of_array.get(&element.job) {
            Some(&at) => entries[at].waiting.push(element.task),
            None => {
                of_array.insert(element.job, entries.len());
                entries.push(Entry { job, waiting: vec![element.task] });
            }
        }
    }
    // Slurm's order: by the state's short name, behind the others what is held, then by number.
    entries.sort_by_key(|entry| (entry.job.state().short(), entry.job.is_held()));
    entries
}

fn print_jobs(asked: &Asked, jobs: &[&Job], now_ms: u64) -> Result<String, String> {
    let default = Format::Letters(table::pieces(DEFAULT));
    let format = asked.format.as_ref().unwrap_or(&default);
    if let Format::Letters(pieces) = format {
        let wrong = table::unknown(pieces, |letter| title(letter).is_some());
        wrong.for_each(|letter| {
            complain(NAME, &format!("error: Invalid job format specification: {letter}"));
        });
    }
    let mut text = String::new();
    if asked.has_moment && !asked.no_header {
        text = forms::moment(now_ms, Some(forms::ABOVE_LISTS)) + "\n";
    }
    let mut put = |is_title: bool, field: &dyn Fn(char) -> Option<String>| match format {
        Format::Letters(pieces) => text.push_str(&table::line(pieces, field)),
        Format::Named(columns) => {
            for column in columns {
                let value = match &column.value {
                    Content::Of(letter) => field(*letter).unwrap_or_default(),
                    Content::Same(title, _) if is_title => (*title).to_owned(),
                    Content::Same(_, value) => (*value).to_owned(),
                };
                text.push_str(&table::fit(&value, column.form.width, column.form.right));
                text.push_str(&column.form.suffix);
            }
            text.push('\n');
        }
    };
    let is_named = matches!(format, Format::Named(_));
    if !asked.no_header {
        let of = |letter| if is_named { title_of_name(letter) } else { title(letter) };
        put(true, &|letter| of(letter).map(str::to_owned));
    }
    let mut entries = entries(jobs, asked.each_element);
    for (letter, is_descending) in asked.order.iter().rev() {
        let key = |entry: &Entry<'_>| match (letter, entry.job) {
            ('i', job) => {
                let task = job.element().map_or(0, |element| element.task);
                Key::Number(0, format!("{:020}{task:010}", job.array_job()))
            }
            _ => Key::of(&field(entry, *letter, now_ms).unwrap_or_default()),
        };
        entries.sort_by(|one, other| {
            let order = key(one).cmp(&key(other));
            if *is_descending { order.reverse() } else { order }
        });
    }
    for entry in entries {
        let of = |letter| if is_named { field_of_name(&entry, letter) } else { None };
        put(false, &|letter| of(letter).or_else(|| field(&entry, letter, now_ms)));
    }
    Ok(text)
}

/// Letters of `--sort`, the most important first, each with whether the largest comes first.
fn order(value: &str) -> Result<Vec<(char, bool)>, String> {
    let wrong = || format!("Invalid sort specification: {value}");
    let one = |word: String| {
        let letters = word.trim_start_matches(['+', '-']);
        let mut letters = letters.chars();
        let letter = letters.next().filter(|letter| letters.next().is_none() && title(*letter).is_some());
        letter.map(|letter| (letter, word.starts_with('-'))).ok_or_else(wrong)
    };
    list_of(value).into_iter().map(one).collect()
}

/// Place of a field in an order: numbers and times by their size, before texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Digits, with what stands between those of a time: the longer the larger.
    Number(usize, String),
    Text(String),
}

impl Key {
    fn of(text: &str) -> Key {
        let is_number = text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || "-:.T".contains(c));
        if is_number { Key::Number(text.len(), text.to_owned()) } else { Key::Text(text.to_owned()) }
    }
}

pub fn title(letter: char) -> Option<&'static str> {
    Some(match letter {
        'i' | 'A' => "JOBID",
        'a' => "ACCOUNT",
        'B' => "EXEC_HOST",
        'b' => "TRES_PER_NODE",
        'C' => "CPUS",
        'D' => "NODES",
        'E' => "DEPENDENCY",
        'e' => "END_TIME",
        'F' => "ARRAY_JOB_ID",
        'j' => "NAME",
        'K' => "ARRAY_TASK_ID",
        'k' => "COMMENT",
        'L' => "TIME_LEFT",
        'l' => "TIME_LIMIT",
        'M' => "TIME",
        'm' => "MIN_MEMORY",
        'N' => "NODELIST",
        'o' => "COMMAND",
        'P' => "PARTITION",
        'p' | 'Q' => "PRIORITY",
        'q' => "QOS",
        'R' => "NODELIST(REASON)",
        'r' => "REASON",
        'S' => "START_TIME",
        'T' => "STATE",
        't' => "ST",
        'U' => "UID",
        'u' => "USER",
        'V' => "SUBMIT_TIME",
        'Z' => "WORK_DIR",
        'g' => "GROUP",
        'h' => "OVER_SUBSCRIBE",
        'n' => "REQ_NODES",
        'v' => "RESERVATION",
        'W' => "LICENSES",
        'w' => "WCKEY",
        'f' => "FEATURES",
        'x' => "EXC_NODES",
        'c' => "MIN_CPUS",
        'd' => "MIN_TMP_DISK",
        'G' => "GROUP",
        'H' => "SOCKETS_PER_NODE",
        'I' => "CORES_PER_SOCKET",
        'O' => "CONTIGUOUS",
        'X' => "CORE_SPEC",
        'J' => "THREADS_PER_CORE",
        // Slurm has no title for what its selection plugin says.
        's' => "",
        'Y' => "SCHEDNODES",
        'y' => "NICE",
        'z' => "S:C:T",
        _ => return None,
    })
}

/// Titles of `-O` where they differ.
fn title_of_name(letter: char) -> Option<&'static str> {
    match letter {
        't' => Some("ST"),
        '?' => Some("EXIT_CODE"),
        '(' => Some("ACCRUE_TIME"),
        ')' => Some("ELIGIBLE_TIME"),
        '=' => Some("LAST_SCHED_EVAL"),
        '@' => Some("ALLOC_NODES"),
        '^' => Some("MAX_CPUS"),
        '~' => Some("MAX_NODES"),
        '-' => Some("NTASKS_PER_NODE"),
        '+' => Some("TRES_ALLOC"),
        '!' => Some("TASKS"),
        '>' => Some("STDOUT"),
        '<' => Some("STDERR"),
        '#' => Some("RESTART_COUNT"),
        '/' => Some("CPUS_PER_TASK"),
        letter => title(letter),
    }
}

/// Fields of `-O` that no letter has, or has otherwise.
fn field_of_name(entry: &Entry<'_>, letter: char) -> Option<String> {
    let job = entry.job;
    match letter {
        '?' => Some(job.wait_status().to_string()),
        '(' | ')' => Some(job.eligible_ms().map_or_else(|| "N/A".into(), |ms| forms::moment(ms, None))),
        '=' => Some(forms::moment(job.row.submitted_ms, None)),
        '@' => Some(job.asked.submit_host().to_owned()),
        '^' => Some(job.cores().to_string()),
        '~' => Some(job.nodes().to_string()),
        '-' => Some(job.asked.size.per_node.unwrap_or(0).to_string()),
        '+' => Some(job.counted()),
        '!' => Some(job.tasks().to_string()),
        '>' => Some(job.file(false)),
        '<' => Some(job.file(true)),
        '#' => Some(job.restarts().to_string()),
        '/' => Some(job.asked.size.cores.unwrap_or(1).to_string()),
        _ => None,
    }
}

fn field(entry: &Entry<'_>, letter: char, now_ms: u64) -> Option<String> {
    let job = entry.job;
    let (row, state) = (&job.row, job.state());
    let time_format = std::env::var("SLURM_TIME_FORMAT").ok();
    let moment =
        |ms: Option<u64>| ms.map_or_else(|| "N/A".into(), |ms| forms::moment(ms, time_format.as_deref()));
    let waiting = || {
        let element = job.element().filter(|_| !entry.waiting.is_empty())?;
        let at_once =
            if element.shape.at_once > 0 { format!("%{}", element.shape.at_once) } else { String::new() };
        Some((element, format!("[{}{at_once}]", forms::tasks(&entry.waiting))))
    };
    let placed = || if state == State::Pending { String::new() } else { node_list::fold(&row.nodes) };
    Some(match letter {
        'i' => match waiting() {
            Some((element, list)) => format!("{}_{list}", element.job),
            None => job.id(),
        },
        'A' => job.number().to_string(),
        'F' => job.array_job().to_string(),
        'K' => match (waiting(), job.element()) {
            (Some((_, list)), _) => list.trim_matches(['[', ']']).to_owned(),
            (None, Some(element)) => element.task.to_string(),
            (None, None) => "N/A".into(),
        },
        't' => state.short().into(),
        'T' => state.long().into(),
        'r' => job.reason().into(),
        'R' if [State::Pending, State::Failed, State::Timeout, State::OutOfMemory].contains(&state) => {
            format!("({})", job.reason())
        }
        'R' | 'N' => placed(),
        'B' => row.nodes.first().filter(|_| state != State::Pending).cloned().unwrap_or_else(|| "n/a".into()),
        'u' => job.user(),
        'U' => row.uid.to_string(),
        'g' => identity::group_of(row.uid).map_or_else(|| "(null)".into(), |(_, name)| name),
        'G' => identity::group_of(row.uid).map_or_else(|| "(null)".into(), |(gid, _)| gid.to_string()),
        'c' => job.asked.size.cores.unwrap_or(1).to_string(),
        'd' | 'O' => "0".into(),
        'y' => job.asked.source.nice.to_string(),
        'H' | 'I' | 'J' => "*".into(),
        'X' => "N/A".into(),
        'Y' => "(null)".into(),
        'z' => "*:*:*".into(),
        'n' => job.asked.source.named_nodes.clone(),
        'x' => job.asked.source.excluded_nodes.clone(),
        's' => String::new(),
        'j' => job.name(),
        'P' => CLUSTER.into(),
        'l' => row.limit_ms.map_or_else(|| "UNLIMITED".into(), |ms| forms::short_time(ms / 1000)),
        'L' => match row.limit_ms {
            None => "UNLIMITED".into(),
            Some(ms) => forms::short_time((ms / 1000).saturating_sub(job.elapsed_s(now_ms))),
        },
        'M' => forms::short_time(job.elapsed_s(now_ms)),
        'D' => job.nodes().to_string(),
        'C' => job.cores().to_string(),
        'm' => {
            if row.memory_bytes == 0 {
                "0".into()
            } else {
                forms::size(row.memory_bytes)
            }
        }
        'b' if row.gpus() > 0 => format!("gres:gpu:{}", row.gpus()),
        'v' if !row.reservation().is_empty() => row.reservation().to_owned(),
        'b' => "N/A".into(),
        'v' | 'W' | 'w' | 'f' => "(null)".into(),
        'S' => moment(job.begins_ms()),
        'e' => match (state.is_over(), row.limit_ms) {
            (true, _) => moment(row.ended_ms),
            (false, Some(limit_ms)) => moment(job.begins_ms().map(|ms| ms + limit_ms)),
            (false, None) => "N/A".into(),
        },
        'V' => moment(Some(row.submitted_ms)),
        'Z' => job.asked.folder().to_owned(),
        'a' => {
            if job.asked.account().is_empty() {
                "(null)".into()
            } else {
                job.asked.account().to_owned()
            }
        }
        'q' => "normal".into(),
        'p' if job.is_held() => "0.00000000000000".into(),
        'p' => "0.00000023283064".into(),
        'Q' => job.priority().to_string(),
        'k' => {
            if job.asked.comment().is_empty() {
                "(null)".into()
            } else {
                job.asked.comment().to_owned()
            }
        }
        'o' => {
            // A job of Tutti's own commands has a command, one of --wrap none.
            match (job.asked.script(), row.is_script()) {
                ("", true) => "(null)".into(),
                ("", false) => row.command.clone(),
                _ => job.asked.command(),
            }
        }
        'E' => {
            if state == State::Pending && !job.asked.dependency().is_empty() {
                job.asked.open_dependency()
            } else {
                "(null)".into()
            }
        }
        'h' => {
            if row.exclusive {
                "NO".into()
            } else {
                "OK".into()
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::getopt::{self, Ends};
    use crate::note::{Note, Shape};
    use crate::view::tests::job;

    fn shown(words: &[&str], jobs: &[Job]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let line = getopt::parse(SPECS, &words, Ends::AtDashes).unwrap();
        let mut operands: Vec<&str> = line.operands.iter().map(String::as_str).collect();
        let asked = read(&line.options, &mut operands).unwrap();
        print_jobs(&asked, &jobs.iter().collect::<Vec<_>>(), 62_000).unwrap()
    }

    #[test]
    fn list_has_slurms_columns() {
        let jobs = [job(7, json!({"name": "mesh", "nodes": ["n1", "n2"]}))];
        let expected = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n\
                        \u{20}                7     tutti     mesh     root  R       1:00      2 n[1-2]\n";
        assert_eq!(shown(&[], &jobs), expected);
        assert_eq!(shown(&["-h", "-o", "%i|%r|%T %B %D %C"], &jobs), "7|None|RUNNING n1 2 2\n");
        let csv = shown(&["-o", "\"%i\",\"%j\",\"%L\""], &jobs);
        assert_eq!(csv, "\"JOBID\",\"NAME\",\"TIME_LEFT\"\n\"7\",\"mesh\",\"UNLIMITED\"\n");
        let named = shown(&["-O", "JobArrayID,StateCompact,Reason"], &jobs);
        assert_eq!(
            named,
            format!("{:20}{:20}{:20}\n{:20}{:20}{:20}\n", "JOBID", "ST", "REASON", "7", "R", "None")
        );
    }

    /// Titles that a Slurm 22.05 has printed.
    #[test]
    fn list_of_all_fields_has_slurms_titles_in_its_order() {
        let text = shown(&["-o", "%all"], &[job(7, json!({"name": "mesh", "nodes": ["n1", "n2"]}))]);
        let titles = "ACCOUNT|TRES_PER_NODE|MIN_CPUS|MIN_TMP_DISK|END_TIME|FEATURES|GROUP|OVER_SUBSCRIBE|JOBID|NAME|\
                      COMMENT|TIME_LIMIT|MIN_MEMORY|REQ_NODES|COMMAND|PRIORITY|QOS|REASON||ST|USER|RESERVATION|WCKEY|\
                      EXC_NODES|NICE|S:C:T|JOBID|EXEC_HOST|CPUS|NODES|DEPENDENCY|ARRAY_JOB_ID|GROUP|SOCKETS_PER_NODE|\
                      CORES_PER_SOCKET|THREADS_PER_CORE|ARRAY_TASK_ID|TIME_LEFT|TIME|NODELIST|CONTIGUOUS|PARTITION|\
                      PRIORITY|NODELIST(REASON)|START_TIME|STATE|UID|SUBMIT_TIME|LICENSES|CORE_SPEC|SCHEDNODES|WORK_DIR";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (2, titles));
        assert_eq!(lines[1].split('|').count(), titles.split('|').count(), "{}", lines[1]);
    }

    #[test]
    fn list_of_starts_has_what_waits_and_its_own_columns() {
        let jobs = [job(7, json!({"state": "waiting", "nodes": [], "started_ms": null}))];
        let text = shown(&["--start"], &jobs);
        let titles = "             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)\n";
        assert!(text.starts_with(titles) && text.contains(" PD                 N/A "), "{text}");
        let read = |words: &[(&'static str, String)]| read(words, &mut Vec::new()).unwrap();
        let asked = read(&[("start", String::new())]);
        assert_eq!((asked.states, asked.order), (Some(vec![State::Pending]), vec![('S', false)]));
        let asked = read(&[("start", String::new()), ("states", "R".into()), ("sort", "i".into())]);
        assert_eq!((asked.states, asked.order), (Some(vec![State::Running]), vec![('i', false)]));
    }

    #[test]
    fn long_list_begins_with_the_moment_unless_titles_are_left_out() {
        let jobs = [job(7, json!({}))];
        let text = shown(&["-l"], &jobs);
        let (moment, rest) = text.split_once('\n').expect("lines");
        assert!(moment.len() == 24 && moment.ends_with(" 1970"), "{moment}");
        assert!(rest.starts_with("             JOBID PARTITION     NAME     USER    STATE "), "{text}");
        assert!(shown(&["-h", "-l"], &jobs).starts_with("                 7 "));
    }

    #[test]
    fn elements_that_wait_are_one_line() {
        let element = |number: u64, task: u32, state: &str| {
            let note = Note { array: Some(Shape { at_once: 2, ..Shape::default() }), ..Note::default() };
            let kind = (state == "waiting").then_some("array-limit");
            let part = json!({"Task": {"array": 5, "task": task}});
            job(
                number,
                json!({"state": state, "kept_note": note.text().unwrap(), "wait_kind": kind, "in_array": part}),
            )
        };
        let jobs = [
            element(6, 1, "running"),
            element(7, 2, "waiting"),
            element(8, 3, "waiting"),
            element(9, 5, "waiting"),
        ];
        assert_eq!(shown(&["-h", "-o", "%i %t %r"], &jobs), "5_[2-3,5%2] PD JobArrayTaskLimit\n5_1 R None\n");
        assert_eq!(shown(&["-h", "-r", "-o", "%i %A"], &jobs), "5_2 5\n5_3 5\n5_5 5\n5_1 6\n");
    }

    #[test]
    fn list_of_steps_numbers_them_by_all_and_has_those_that_are_named() {
        let over = json!({"step_of": 7, "state": "over", "status": 0, "ended_ms": 9_000});
        let steps = [job(8, over), job(9, json!({"step_of": 7})), job(10, json!({"step_of": 7}))];
        let jobs = [job(7, json!({"script": true})), job(11, json!({}))];
        let of = |value: &str| {
            let options =
                [("format", "%i".to_owned()), ("noheader", String::new()), ("steps", value.to_owned())];
            let asked = read(&options, &mut Vec::new()).unwrap();
            assert!(asked.needs_all());
            print_steps(&asked, &jobs.iter().collect::<Vec<_>>(), &steps, 62_000).replace('\n', " ")
        };
        assert_eq!(of(""), "7.1 7.2 7.batch ");
        assert_eq!(
            ["7", "7.1", "7.0", "7.2,7.batch"].map(of),
            ["7.1 7.2 7.batch ", "7.1 ", "", "7.2 7.batch "]
        );
        assert!(!read(&[], &mut Vec::new()).unwrap().needs_all());
    }

    #[test]
    fn every_field_of_a_letter_has_a_title_and_a_value() {
        let one = job(7, json!({}));
        let entry = Entry { job: &one, waiting: Vec::new() };
        for letter in ('A'..='z').filter(char::is_ascii_alphabetic) {
            assert_eq!(title(letter).is_some(), field(&entry, letter, 0).is_some(), "{letter}");
        }
        for name in ["JobID", "WorkDir", "NumTasks"] {
            assert!(matches!(named_format(name), Format::Named(columns) if columns.len() == 1), "{name}");
        }
        assert!(matches!(named_format("Frob,Name"), Format::Named(columns) if columns.len() == 1));
    }
}
