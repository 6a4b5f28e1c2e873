//! Hosts on the command line. This version starts jobs on one node: names of this one are accepted, others refused.

use std::ffi::OsString;

use crate::options::Options;

/// Lines of a host file, at most; longer ones are not host files.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why hosts are refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another machine.
    #[error("the host {0} is not this one ({1}); this version of Tutti starts jobs on one node only")]
    Other(String, String),
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
        /// What stands there.
        text: String,
    },
}

/// Checks all hosts that the options name.
///
/// # Errors
/// With the first that is not this node.
pub fn check(options: &Options) -> Result<(), HostError> {
    if options.hosts.is_empty() && options.host_files.is_empty() {
        return Ok(());
    }
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for host in options.hosts.iter().filter(|host| !host.is_empty()) {
        check_name(host.split(':').next().unwrap_or(host), &own)?;
    }
    options.host_files.iter().try_for_each(|file| check_file(file, &own))
}

fn check_file(file: &OsString, own: &str) -> Result<(), HostError> {
    let name = file.to_string_lossy().into_owned();
    let unreadable = |reason: String| HostError::Unreadable(name.clone(), reason);
    let size = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable(format!("{size} bytes are no list of hosts")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    for (index, line) in text.lines().enumerate() {
        match host_of(line) {
            Ok(Some(host)) => check_name(host, own)?,
            Ok(None) => {}
            Err(()) => return Err(HostError::Line { file: name, line: index + 1, text: line.into() }),
        }
    }
    Ok(())
}

/// The host of a line: `node1`, `node1:4`, `node1 slots=4 max_slots=8`, with a comment behind `#`.
fn host_of(line: &str) -> Result<Option<&str>, ()> {
    let mut words = line.split('#').next().unwrap_or("").split_ascii_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let (host, count) = first.split_once(':').map_or((first, None), |(host, count)| (host, Some(count)));
    let is_count = |text: &str| text.parse::<u32>().is_ok();
    let good = |word: &str| {
        let value = ["slots=", "max_slots=", "max-slots="].iter().find_map(|key| word.strip_prefix(key));
        value.is_some_and(is_count)
    };
    let known = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    (known && !host.is_empty() && count.is_none_or(is_count) && words.all(good))
        .then_some(Some(host))
        .ok_or(())
}

fn check_name(host: &str, own: &str) -> Result<(), HostError> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    let same = ["localhost", "127.0.0.1", "::1", own].contains(&host)
        || (!host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && short(host) == short(own));
    if same { Ok(()) } else { Err(HostError::Other(host.into(), own.into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_families_are_read() {
        for (line, host) in [
            ("node1", Ok(Some("node1"))),
            ("node1:4", Ok(Some("node1"))),
            ("  node1 slots=4 max_slots=8 # comment", Ok(Some("node1"))),
            ("# comment", Ok(None)),
            ("", Ok(None)),
            ("node1:many", Err(())),
            ("node1 slots=many", Err(())),
            ("node1 node2", Err(())),
            (":4", Err(())),
            ("\u{0}\u{1}", Err(())),
        ] {
            assert_eq!(host_of(line), host, "{line:?}");
        }
    }

    #[test]
    fn this_node_has_several_names() {
        for host in ["localhost", "127.0.0.1", "here", "here.example.org"] {
            assert_eq!(check_name(host, "here"), Ok(()), "{host}");
        }
        for host in ["there", "127.0.0.2", "10.0.0.1", "hereafter"] {
            assert!(check_name(host, "here").is_err(), "{host}");
        }
    }
}
