//! Hosts: those of each program of the command line, of host files, and of a batch system's allocation. Where
//! they are all this machine a job needs no cluster; any other one is a node of the cluster whose daemon is
//! found here.
//!
//! `-host` and `-hostfile` are options of their program. A program without any runs where the one before it
//! does; the first ones where the first that has some does. Programs with the same hosts are one group: their
//! ranks are dealt out together.

use std::ffi::OsStr;
use std::fs::File;

use tutti_protocol::spread::{SpreadError, first_ranks};

use crate::cluster::{self, Answer, Host, Request};
use crate::engine;
use crate::options::{Options, Program, USAGE};
use own::{Machine, short};

mod allocation;
mod own;
mod slurm;

/// Bytes of a host file, at most; longer ones are not host files.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why hosts are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another machine, and no daemon that knows it.
    #[error("the host {0} is not this one ({1}), and {2}")]
    Other(String, String, String),
    /// No daemon knows the nodes of the allocation.
    #[error(
        "this is a {system} allocation of {nodes} node{}, and {reason}; `--host localhost` runs the job on this node alone",
        plural(*nodes)
    )]
    Allocation {
        /// The batch system.
        system: &'static str,
        /// How many it has.
        nodes: usize,
        /// Why no daemon is asked.
        reason: String,
    },
    /// The batch system around this process does not start daemons.
    #[error("{0}")]
    Engine(String),
    /// A file that cannot be read.
    #[error("cannot read the host file {0}: {1}")]
    Unreadable(String, String),
    /// A line that is none.
    #[error("{file}, line {line}: {text:?} is not of the form NAME, NAME:N or NAME slots=N")]
    Line {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Text that was found.
        text: String,
    },
    /// A word that is no host.
    #[error("-host is given {0:?}, expected NAME or NAME:N, where N is a whole number above 0")]
    Word(String),
    /// Hosts without a slot.
    #[error("the named hosts are to get no ranks at all")]
    NoSlots,
    /// More ranks than what the hosts are to get.
    #[error("{ranks} ranks are more than the {room} that the named hosts are to get")]
    NoRoom {
        /// Ranks of the programs.
        ranks: u64,
        /// The sum of what was said.
        room: u64,
    },
    /// The ranks do not fit the hosts.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// Ranks of a node are consecutive.
    #[error(
        "ranks of one node are consecutive, and the host {0} is named again after another one: give the programs in the order \
         of their hosts"
    )]
    Apart(String),
    /// Two ways.
    #[error("--nodes counts the nodes of all programs, and -host names those of each: give one of them")]
    Counted,
    /// How many ranks is not said.
    #[error("each of several programs needs its number of ranks (-n N, or -host NAME:N)")]
    NoRanks,
}

impl HostError {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            HostError::Other(..)
            | HostError::Allocation { .. }
            | HostError::Engine(_)
            | HostError::Unreadable(..)
            | HostError::Line { .. } => 1,
            _ => USAGE,
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Where a job is to run, and with how many ranks.
#[derive(Debug)]
pub struct Chosen {
    /// The nodes of the cluster that are wanted, in order; none: the job needs no cluster, or any will do.
    pub hosts: Vec<Host>,
    /// Ranks of each program for which its hosts say so.
    ranks: Vec<Option<u32>>,
    /// The hosts say how many ranks each gets.
    is_dealt: bool,
}

/// Consecutive programs with the same hosts.
#[derive(Debug)]
struct Group {
    /// How many programs.
    programs: usize,
    /// Hosts of these programs, each once.
    hosts: Vec<Host>,
    /// Ranks that a host file allows on all of them at most, if it says so of each.
    most: Option<u64>,
}

/// Chooses the hosts of a job.
///
/// # Errors
/// When a list is wrong, or names nodes and there is no cluster.
pub fn wanted(options: &Options) -> Result<Chosen, HostError> {
    let machine = Machine::this();
    let elsewhere = options.virtual_nodes.count.is_some()
        || options.virtual_nodes.namespaces.is_some()
        || options.nodes.is_some();
    let groups = groups(&options.programs)?;
    if groups.is_empty() {
        let found = if elsewhere || options.step { None } else { allocation::of_environment()? };
        let Some(found) = found else {
            if options.nodes.is_some() && !options.step {
                // Where there is no cluster, the request says so.
                engine::start_if_missing().map_err(HostError::Engine)?;
            }
            return Ok(Chosen::anywhere(options));
        };
        let groups = [Group { programs: options.programs.len(), hosts: merged(found.hosts), most: None }];
        let hosts = &groups[0].hosts;
        if let [host] = &hosts[..]
            && machine.is(&host.name)
        {
            return Ok(Chosen { hosts: Vec::new(), ..Chosen::of(options, &groups)? });
        }
        let reason =
            |reason| HostError::Allocation { system: found.system.name(), nodes: hosts.len(), reason };
        engine::connect_or_start().map_err(reason)?;
        return Chosen::of(options, &groups);
    }
    let chosen = Chosen::of(options, &groups)?;
    let other = groups.iter().flat_map(|group| &group.hosts).find(|host| !machine.is(&host.name));
    let by_cluster = |hosts: &[Host]| named_by_cluster(&machine, hosts);
    match (other, options.nodes) {
        // A cluster that does not know this machine has virtual nodes: any of them is on it.
        (None, None) if options.cluster => {
            Ok(Chosen { hosts: by_cluster(&chosen.hosts).unwrap_or_default(), ..chosen })
        }
        (None, None) => Ok(Chosen { hosts: Vec::new(), ..chosen }),
        (None, Some(_)) => Ok(Chosen { hosts: by_cluster(&chosen.hosts).unwrap_or(chosen.hosts), ..chosen }),
        (Some(other), _) => match engine::connect_or_start() {
            Ok(()) => Ok(Chosen { hosts: by_cluster(&chosen.hosts).unwrap_or(chosen.hosts), ..chosen }),
            Err(text) => Err(HostError::Other(other.name.clone(), machine.name, text)),
        },
    }
}

/// The hosts of a file that a launcher's variable names, where this machine is none of them and no cluster is
/// here: daemons are to be started on them. None: the job needs no such hosts.
pub fn far(options: &Options) -> Option<Vec<Host>> {
    let is_placed = options.step
        || options.nodes.is_some()
        || options.virtual_nodes != crate::options::VirtualNodes::default()
        || options
            .programs
            .iter()
            .any(|program| !(program.hosts.is_empty() && program.host_files.is_empty()));
    if is_placed || !engine::is_wanted() || std::env::var_os("TUTTI_JOB").is_some() {
        return None;
    }
    let found = allocation::of_environment().ok()??;
    let hosts = (found.system == allocation::System::HostFile).then(|| merged(found.hosts))?;
    let machine = Machine::this();
    (!hosts.iter().any(|host| machine.is(&host.name)) && !cluster::is_there()).then_some(hosts)
}

/// The hosts with this machine as its cluster calls it, whatever it is called here (`localhost`, an address);
/// none where the cluster has no node of this machine's name.
fn named_by_cluster(machine: &Machine, hosts: &[Host]) -> Option<Vec<Host>> {
    let Ok((Answer::Nodes(rows), _)) = cluster::request(&Request::Nodes) else { return None };
    let own = rows.into_iter().find(|row| short(&row.name).eq_ignore_ascii_case(short(&machine.name)))?;
    let name = |host: &Host| if machine.is(&host.name) { own.name.clone() } else { host.name.clone() };
    Some(hosts.iter().map(|host| Host { name: name(host), ranks: host.ranks }).collect())
}

impl Chosen {
    fn anywhere(options: &Options) -> Self {
        Chosen { hosts: Vec::new(), ranks: vec![None; options.programs.len()], is_dealt: false }
    }

    fn of(options: &Options, groups: &[Group]) -> Result<Self, HostError> {
        let mut ranks = Vec::new();
        for group in groups {
            let of_group = slots(&group.hosts)?;
            let is_alone = group.programs == 1;
            let first = ranks.len();
            ranks.extend(std::iter::repeat_n(of_group.filter(|_| is_alone), group.programs));
            let programs = options.programs.iter().zip(&ranks).skip(first);
            let wanted =
                programs.filter_map(|(program, ranks)| program.ranks.or(*ranks)).map(u64::from).sum();
            if let Some(room) = group.most.filter(|most| wanted > *most) {
                return Err(HostError::NoRoom { ranks: wanted, room });
            }
        }
        if let [group] = groups {
            return Ok(Chosen { hosts: group.hosts.clone(), ranks, is_dealt: false });
        }
        if options.nodes.is_some() {
            return Err(HostError::Counted);
        }
        let mut hosts: Vec<Host> = Vec::new();
        let mut programs = options.programs.iter().zip(&ranks);
        for group in groups {
            let of_programs = programs.by_ref().take(group.programs);
            let ranks: Option<u64> =
                of_programs.map(|(program, ranks)| Some(u64::from(program.ranks.or(*ranks)?))).sum();
            for dealt in deal(&group.hosts, ranks.ok_or(HostError::NoRanks)?, options.ranks_per_node)? {
                let is_it = |host: &Host| short(&host.name) == short(&dealt.name);
                match hosts.iter().position(is_it) {
                    None => hosts.push(dealt),
                    Some(at) if at + 1 == hosts.len() => {
                        let ranks = hosts[at].ranks.unwrap_or(0).saturating_add(dealt.ranks.unwrap_or(0));
                        hosts[at].ranks = Some(ranks);
                    }
                    Some(_) => return Err(HostError::Apart(dealt.name)),
                }
            }
        }
        Ok(Chosen { hosts, ranks, is_dealt: true })
    }

    /// Where nothing is said of the number of ranks, it is what the hosts are to get, or the nodes of this
    /// machine (`-ppn`). Of a cluster its controller knows the nodes.
    pub fn with_ranks(&self, options: &Options, is_of_cluster: bool) -> Options {
        let mut options = options.clone();
        for (program, ranks) in options.programs.iter_mut().zip(&self.ranks) {
            program.ranks = program.ranks.or(*ranks);
        }
        let nodes = options.virtual_nodes.count.or(options.virtual_nodes.namespaces).unwrap_or(1);
        let of_nodes = options.ranks_per_node.map(|ranks| ranks.saturating_mul(nodes));
        if let ([program], Some(ranks), false) = (&mut options.programs[..], of_nodes, is_of_cluster) {
            program.ranks.get_or_insert(ranks);
        }
        if self.is_dealt {
            options.ranks_per_node = None;
        }
        options
    }
}

/// The groups of the programs; empty: no program has hosts.
fn groups(programs: &[Program]) -> Result<Vec<Group>, HostError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut before = 0;
    for program in programs {
        let mut hosts = Vec::new();
        for word in &program.hosts {
            hosts.push(of_word(word)?);
        }
        let mut most = program.hosts.is_empty().then_some(0_u64);
        for file in &program.host_files {
            for line in read_file(file)? {
                most = most.zip(line.most).map(|(all, most)| all + u64::from(most));
                hosts.push(line.host);
            }
        }
        match groups.last_mut() {
            _ if !hosts.is_empty() => {
                let programs = 1 + std::mem::take(&mut before);
                groups.push(Group { programs, hosts: merged(hosts), most });
            }
            Some(group) => group.programs += 1,
            None => before += 1,
        }
    }
    Ok(groups)
}

/// Each host once. Both families: a name said again is one more rank there; then every one without a number
/// has one.
fn merged(hosts: Vec<Host>) -> Vec<Host> {
    let mut found: Vec<Host> = Vec::new();
    let (mut is_repeated, count) = (false, |ranks: Option<u32>| ranks.unwrap_or(1));
    for host in hosts {
        match found.iter_mut().find(|known| known.name == host.name) {
            None => found.push(host),
            Some(known) => {
                is_repeated = true;
                known.ranks = Some(count(known.ranks).saturating_add(count(host.ranks)));
            }
        }
    }
    for host in found.iter_mut().filter(|_| is_repeated) {
        host.ranks = Some(count(host.ranks));
    }
    found
}

/// Ranks of all of them, if each has a number.
fn slots(hosts: &[Host]) -> Result<Option<u32>, HostError> {
    let all = hosts.iter().try_fold(0_u32, |sum, host| Some(sum.saturating_add(host.ranks?)));
    if all == Some(0) { Err(HostError::NoSlots) } else { Ok(all) }
}

/// Ranks for each host, in order.
fn deal(hosts: &[Host], ranks: u64, per_node: Option<u32>) -> Result<Vec<Host>, HostError> {
    let dealt = |host: &Host, ranks: u64| Host { name: host.name.clone(), ranks: Some(ranks as u32) };
    if per_node.is_none() && hosts.iter().any(|host| host.ranks.is_some()) {
        let room = |host: &Host| u64::from(host.ranks.unwrap_or(1));
        let all = hosts.iter().map(room).sum();
        if ranks > all {
            return Err(HostError::NoRoom { ranks, room: all });
        }
        let mut left = ranks;
        let mut take = |host: &Host| {
            let taken = room(host).min(left);
            left -= taken;
            dealt(host, taken)
        };
        return Ok(hosts.iter().map(&mut take).filter(|host| host.ranks != Some(0)).collect());
    }
    let wanted = per_node.map_or(ranks, |per_node| ranks.div_ceil(u64::from(per_node)));
    let nodes = if per_node.is_some() { wanted } else { wanted.min(hosts.len() as u64) };
    if nodes > hosts.len() as u64 {
        let room = u64::from(per_node.unwrap_or(1)) * hosts.len() as u64;
        return Err(HostError::NoRoom { ranks, room });
    }
    let mut firsts = first_ranks(nodes as u32, ranks, per_node)?;
    firsts.push(ranks as u32);
    let shares = firsts.windows(2).map(|two| u64::from(two[1] - two[0]));
    Ok(hosts.iter().zip(shares).map(|(host, ranks)| dealt(host, ranks)).collect())
}

/// `node1`, `node1:4`, `[::1]:4`, `::1`.
fn of_word(word: &str) -> Result<Host, HostError> {
    match host(word) {
        Some(Host { ranks: Some(0), .. }) | None => Err(HostError::Word(word.into())),
        Some(host) => Ok(host),
    }
}

/// A host, and a number behind a colon.
fn host(text: &str) -> Option<Host> {
    let named = |name: &str, ranks| Host { name: name.into(), ranks };
    let known = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_%".contains(&byte))
    };
    let count = |rest: &str| match rest.strip_prefix(':') {
        None => rest.is_empty().then_some(None),
        // Open MPI: as many as there are cores.
        Some("*" | "auto") => Some(None),
        Some(count) if count.bytes().all(|byte| byte.is_ascii_digit()) => Some(Some(count.parse().ok()?)),
        Some(_) => None,
    };
    if let Some((name, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let is_address = name.bytes().all(|byte| byte == b':' || known(&char::from(byte).to_string()));
        return (is_address && name.contains(':')).then(|| Some(named(name, count(rest)?)))?;
    }
    if text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Some(named(text, None));
    }
    let at = text.find(':').unwrap_or(text.len());
    known(&text[..at]).then(|| Some(named(&text[..at], count(&text[at..])?)))?
}

/// Line of a host file.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    host: Host,
    /// Ranks that it allows at most.
    most: Option<u32>,
}

fn read_file(file: impl AsRef<OsStr>) -> Result<Vec<Line>, HostError> {
    let file = file.as_ref();
    let name = file.to_string_lossy().into_owned();
    let unreadable = |reason: String| HostError::Unreadable(name.clone(), reason);
    let read = File::open(file).and_then(|opened| tutti_os::read_all(opened, FILE_BYTES_MAX));
    let bytes = read.map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => unreadable(format!("{error}, so it is no list of hosts")),
        _ => unreadable(error.to_string()),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is no text".into()))?;
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |()| HostError::Line { file: name.clone(), line: index + 1, text: line.into() };
        hosts.extend(host_of(line).map_err(wrong)?);
    }
    Ok(hosts)
}

/// The host of a line: `node1`, `node1:4`, `node1 slots=4 max_slots=8`, with a comment behind `#`. The words
/// of Open MPI for both numbers are taken, and blanks beside `=`.
fn host_of(line: &str) -> Result<Option<Line>, ()> {
    let line = line.split('#').next().unwrap_or("").replace('=', " = ");
    let mut words = line.split_ascii_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let mut found = Line { host: host(first).ok_or(())?, most: None };
    while let Some(key) = words.next() {
        if words.next() != Some("=") {
            return Err(());
        }
        let value: u32 = words.next().ok_or(())?.parse().map_err(drop)?;
        match &*key.replace('-', "_") {
            "slots" | "slot" | "cpu" | "count" => found.host.ranks = Some(value),
            "max_slots" | "slots_max" | "max_cpu" | "cpu_max" | "max_count" | "count_max" => {
                found.most = Some(value);
            }
            _ => return Err(()),
        }
    }
    // Without another number it gets so many.
    let is_above = found.most.is_some_and(|most| most < found.host.ranks.unwrap_or(0));
    if is_above { Err(()) } else { Ok(Some(found)) }
}

#[cfg(test)]
mod tests;
