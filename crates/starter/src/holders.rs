//! Processes that ranks have left behind and that still hold the job's output: filters (`exec > >(tee log)`),
//! which get the end of file when their rank ends and then write what they have left, and others.
//!
//! They are found by what /proc says of their descriptors, as the user that they are of.

use rustix::process::{Pid, getpid};

use crate::input::Inputs;
use crate::output::{Streams, link_of_pipe};
use tutti_os::descendants;
use tutti_os::stat::Stat;

/// A child of a shell has arranged its descriptors by then, in clock ticks.
const GROWN_TICKS: u64 = 100;
/// Descendants that are looked at.
const PROCESSES_MAX: usize = 1 << 14;

/// Process that holds output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Pid of the process.
    pub pid: Pid,
    /// Process group, which is the pid of its rank unless it has another of its own.
    pub group: i32,
    /// Whether it reads a pipe into which others write: it is one of a pipeline. A shell that has just forked
    /// it may not have made that its standard input yet.
    pub is_filter: bool,
    /// Work of the process, in ticks.
    pub worked: u64,
}

/// The descendants of this process that hold an end of the output; none where there are too many.
pub fn find(streams: &Streams, inputs: &Inputs) -> Vec<Holder> {
    let outputs: Vec<String> = streams.writing_ends();
    let own_inputs: Vec<String> = inputs.descriptors().filter_map(link_of_pipe).collect();
    let Some(all) = descendants::some_of(getpid(), PROCESSES_MAX) else { return Vec::new() };
    let holder = |pid: Pid| {
        let stat = Stat::of(pid).filter(|stat| !stat.is_dead())?;
        let links = links(pid);
        let is_grown = now_ticks() > stat.since + GROWN_TICKS;
        let holds = links.iter().any(|(_, link)| outputs.contains(link));
        let is_read = |(number, link): &(u32, String)| {
            let is_pipe = link.starts_with("pipe:") && !own_inputs.contains(link);
            // Many a program has a pipe to wake itself. A child that a shell has just forked has both ends of
            // the next pipeline's.
            let is_own = |(other, of_other): &(u32, String)| {
                is_grown && other != number && of_other == link && !is_for_reading(pid, *other)
            };
            let is_of_others = || is_for_reading(pid, *number) && !links.iter().any(is_own);
            is_pipe && (*number == 0 || *number > 2 && is_of_others())
        };
        let is_filter = holds && links.iter().any(is_read);
        holds.then_some(Holder { pid, group: stat.group, is_filter, worked: stat.worked })
    };
    all.into_iter().filter_map(holder).collect()
}

/// Clock ticks since boot.
fn now_ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks = rustix::param::clock_ticks_per_second();
    now.tv_sec as u64 * ticks + now.tv_nsec as u64 * ticks / 1_000_000_000
}

/// Names of the holders, for people; of many the first.
pub fn names(holders: &[Holder]) -> String {
    const NAMED: usize = 3;
    let names = holders.iter().take(NAMED).map(|holder| tutti_os::descendants::name(holder.pid));
    let mut text = names.collect::<Vec<_>>().join(", ");
    if let Some(more) = holders.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text += &format!(" and {more} more");
    }
    text
}

/// Whether a descriptor of a process is for reading alone.
fn is_for_reading(pid: Pid, number: u32) -> bool {
    let place = format!("/proc/{}/fdinfo/{number}", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(place).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDONLY)
}

/// Files on which the descriptors of a process are open.
fn links(pid: Pid) -> Vec<(u32, String)> {
    let folder = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let link = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?.to_str()?.to_owned()))
    };
    entries.filter_map(link).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::pipe::{PipeFlags, pipe_with};
    use tutti_protocol::wire::Kind;

    use super::*;

    #[test]
    fn holders_are_those_with_the_output_open_and_filters_read_a_pipe() {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut streams = Streams::default();
        streams.add(0, Kind::Output, reading, 0);
        let start = |input: Stdio, output: Stdio| {
            Command::new("cat").stdin(input).stdout(output).stderr(Stdio::null()).spawn().unwrap()
        };
        let output = || Stdio::from(writing.try_clone().unwrap());
        let (null, _kept) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let terminal = std::fs::File::open("/dev/zero").unwrap();
        let mut children = [
            start(Stdio::piped(), output()),
            start(Stdio::from(null), Stdio::null()),
            start(Stdio::from(terminal), output()),
        ];
        let found = find(&streams, &Inputs::default());
        let of = |child: &std::process::Child| {
            found.iter().find(|holder| holder.pid == Pid::from_child(child)).map(|holder| holder.is_filter)
        };
        assert_eq!([0, 1, 2].map(|at| of(&children[at])), [Some(true), None, Some(false)]);
        assert!(names(&found).contains("cat (pid "), "{}", names(&found));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
