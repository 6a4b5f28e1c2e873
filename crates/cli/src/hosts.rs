//! Hosts: those of the command line, of host files, and of a batch system's allocation. Where they are all
//! this machine a job needs no cluster; any other one is a node of the cluster whose daemon is found here.

use std::ffi::OsString;

use crate::cluster::{self, Host};
use crate::options::Options;

mod slurm;

/// Lines of a host file, at most; longer ones are not host files.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why hosts are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another machine, and no daemon that knows it.
    #[error("the host {0} is not this one ({1}), and {2}")]
    Other(String, String, String),
    /// No daemon knows the nodes of the allocation.
    #[error(
        "this is a Slurm allocation of {0} nodes, and {1}; `--host localhost` runs the job on this node alone"
    )]
    Allocation(usize, String),
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
        /// What was found.
        text: String,
    },
}

/// The nodes of the cluster that are wanted; none: the job needs no cluster, or any will do. With them the
/// number of ranks for all hosts together, if each has one.
///
/// # Errors
/// When a list is wrong, or names nodes and there is no cluster.
pub fn wanted(options: &Options) -> Result<(Vec<Host>, Option<u32>), HostError> {
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut hosts: Vec<Host> =
        options.hosts.iter().filter(|host| !host.is_empty()).map(|host| of_list(host)).collect();
    for file in &options.host_files {
        hosts.extend(read_file(file)?);
    }
    let elsewhere =
        options.virtual_nodes.is_some() || options.namespaces.is_some() || options.nodes.is_some();
    if hosts.is_empty() && !elsewhere {
        let hosts = slurm::allocation();
        let ranks = ranks(&hosts);
        return match cluster::connect() {
            _ if hosts.is_empty() => Ok((hosts, ranks)),
            Ok(_) => Ok((hosts, ranks)),
            Err(text) => Err(HostError::Allocation(hosts.len(), text)),
        };
    }
    let ranks = ranks(&hosts);
    let other = hosts.iter().find(|host| !is_own(&host.name, &own));
    match (other, options.nodes) {
        (None, None) => Ok((Vec::new(), ranks)),
        (None, Some(_)) => Ok((hosts, ranks)),
        (Some(other), _) => match cluster::connect() {
            Ok(_) => Ok((hosts, ranks)),
            Err(text) => Err(HostError::Other(other.name.clone(), own, text)),
        },
    }
}

/// Ranks of all of them, if each has a number.
fn ranks(hosts: &[Host]) -> Option<u32> {
    let ranks = hosts.iter().try_fold(0_u32, |sum, host| Some(sum.saturating_add(host.ranks?)));
    ranks.filter(|ranks| *ranks > 0)
}

/// Where nothing is said of the number of ranks, it is what the hosts are to get, or the nodes of this
/// machine (`-ppn`). Of a cluster its controller knows the nodes.
pub fn with_ranks(options: &Options, of_hosts: Option<u32>, is_of_cluster: bool) -> Options {
    let mut options = options.clone();
    let nodes = options.virtual_nodes.or(options.namespaces).unwrap_or(1);
    let of_nodes = options.ranks_per_node.map(|ranks| ranks.saturating_mul(nodes));
    let ranks = of_hosts.or(of_nodes.filter(|_| !is_of_cluster));
    if let ([program], Some(ranks)) = (&mut options.programs[..], ranks) {
        program.ranks.get_or_insert(ranks);
    }
    options
}

/// `node1`, `node1:4`.
fn of_list(text: &str) -> Host {
    let (name, count) = text.split_once(':').map_or((text, None), |(name, count)| (name, Some(count)));
    Host { name: name.into(), ranks: count.and_then(|count| count.parse().ok()) }
}

fn read_file(file: &OsString) -> Result<Vec<Host>, HostError> {
    let name = file.to_string_lossy().into_owned();
    let unreadable = |reason: String| HostError::Unreadable(name.clone(), reason);
    let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable(format!("{size} bytes are no list of hosts")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |()| HostError::Line { file: name.clone(), line: index + 1, text: line.into() };
        hosts.extend(host_of(line).map_err(wrong)?);
    }
    Ok(hosts)
}

/// The host of a line: `node1`, `node1:4`, `node1 slots=4 max_slots=8`, with a comment behind `#`.
fn host_of(line: &str) -> Result<Option<Host>, ()> {
    let mut words = line.split('#').next().unwrap_or("").split_ascii_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let (name, count) = first.split_once(':').map_or((first, None), |(host, count)| (host, Some(count)));
    let mut ranks = count.map(|count| count.parse().map_err(drop)).transpose()?;
    for word in words {
        let (key, value) = word.split_once('=').ok_or(())?;
        let value: u32 = value.parse().map_err(drop)?;
        match key {
            "slots" => ranks = Some(value),
            "max_slots" | "max-slots" => {}
            _ => return Err(()),
        }
    }
    let known = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    (known && !name.is_empty()).then_some(Some(Host { name: name.into(), ranks })).ok_or(())
}

fn is_own(host: &str, own: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    ["localhost", "127.0.0.1", "::1", own].contains(&host)
        || (!host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && short(host) == short(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostfile_lines_of_both_families_are_parsed() {
        let host = |name: &str, ranks| Ok(Some(Host { name: name.into(), ranks }));
        for (line, expected) in [
            ("node1", host("node1", None)),
            ("node1:4", host("node1", Some(4))),
            ("  node1 slots=4 max_slots=8 # comment", host("node1", Some(4))),
            ("# comment", Ok(None)),
            ("", Ok(None)),
            ("node1:many", Err(())),
            ("node1 slots=many", Err(())),
            ("node1 node2", Err(())),
            (":4", Err(())),
            ("\u{0}\u{1}", Err(())),
        ] {
            assert_eq!(host_of(line), expected, "{line:?}");
        }
    }

    #[test]
    fn hostfile_local_node_has_several_names() {
        for host in ["localhost", "127.0.0.1", "here", "here.example.org"] {
            assert!(is_own(host, "here"), "{host}");
        }
        for host in ["there", "127.0.0.2", "10.0.0.1", "hereafter"] {
            assert!(!is_own(host, "here"), "{host}");
        }
    }
}
