//! The line that the kernel keeps of a process or thread: `/proc/PID/stat`. Looking at it takes no memory:
//! the switch thread does.

use std::ffi::CStr;
use std::io::Write as _;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::path::Arg;
use rustix::process::Pid;

/// Name of the process below a starter that serves regions of the job for other jobs: it is not frozen with
/// the job.
pub const SERVER_NAME: &CStr = c"tutti-regions";

/// Name of a starter, by its program.
pub const STARTER_NAME: &CStr = c"tutti-starter";

/// As long as the fields that are read here are at most: a name of 64 bytes and 22 numbers.
const LINE_BYTES: usize = 640;

/// The fields that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Letter of the state.
    pub state: u8,
    /// The process that gets its SIGCHLD; 0: none in this pid namespace.
    pub parent: i32,
    /// Process group; 0: begun outside this pid namespace.
    pub group: i32,
    /// Time that it has worked, with its children that are dead and buried, in clock ticks.
    pub worked: u64,
    /// Whether it has the name of [`SERVER_NAME`], which any process may give itself.
    pub has_server_name: bool,
    /// The same of [`STARTER_NAME`].
    pub has_starter_name: bool,
    /// When it was started, in clock ticks since boot: pids are used again.
    pub since: u64,
    /// Threads of its process that are not buried.
    pub threads: u64,
}

impl Stat {
    /// Of a process, which may be a zombie, or of a thread; none when there is none.
    pub fn of(pid: Pid) -> Option<Self> {
        let mut path = [0; 32];
        write!(&mut path[..], "/proc/{}/stat", pid.as_raw_nonzero()).expect("a number has ten digits");
        Self::read(CStr::from_bytes_until_nul(&path).expect("it ends with zeros"))
    }

    /// The same by its file.
    pub fn read(file: impl Arg) -> Option<Self> {
        let file = openat(CWD, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut line = [0; LINE_BYTES];
        let read = rustix::io::read(&file, &mut line).ok()?;
        Self::parse(&line[..read])
    }

    /// Whether its main thread has ended, and others of the process go on.
    pub fn is_led_by_the_dead(&self) -> bool {
        self.state == b'Z' && self.threads > 1
    }

    /// Whether it, or its main thread, does nothing any more, and waits to be buried.
    pub fn is_dead(&self) -> bool {
        b"ZXx".contains(&self.state)
    }

    /// A signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        b"Tt".contains(&self.state)
    }

    /// Whether it works, or would if it had a core, or waits for a disk.
    pub fn is_busy(&self) -> bool {
        b"RD".contains(&self.state)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        // 17 (name) S 1 ...: the name may hold anything, also what is no text; the last parenthesis ends it.
        let name_end = line.windows(2).rposition(|end| end == b") ")?;
        let name = line[..name_end].split(|byte| *byte == b'(').next_back();
        let [has_server_name, has_starter_name] =
            [SERVER_NAME, STARTER_NAME].map(|known| name == Some(known.to_bytes()));
        // The last number may be cut; it is not used.
        let mut fields = std::str::from_utf8(&line[name_end + 2..]).ok()?.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        // Its own time in programs and in the kernel, then that of its children.
        let group = fields.next()?.parse().ok()?;
        let mut times = fields.by_ref().skip(8).map(|ticks| ticks.parse::<u64>().ok());
        let mut worked = 0_u64;
        for _ in 0..4 {
            worked = worked.saturating_add(times.next()??);
        }
        let threads = fields.nth(2)?.parse().ok()?;
        let since = fields.nth(1)?.parse().ok()?;
        Some(Stat { state, parent, group, worked, has_server_name, has_starter_name, since, threads })
    }
}

/// Whether all threads of a process are stopped or dead.
pub fn are_all_stopped(pid: Pid) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { return true };
    threads.flatten().all(|thread| {
        Stat::read(thread.path().join("stat")).is_none_or(|stat| stat.is_stopped() || stat.is_dead())
    })
}

/// The owner of a process; none when there is none.
pub fn owner(pid: Pid) -> Option<u32> {
    // That of its status is real, unlike the owner of its folder, which is root where a program may not be
    // looked into.
    let text = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str =
        "S 12 17 17 0 -1 4194304 90 0 0 0 1 2 0 0 20 0 1 0 4711 9000 200 18446744073709551615 0";

    #[test]
    fn proc_stat_name_may_hold_anything() {
        let found = Stat {
            state: b'S',
            parent: 12,
            group: 17,
            worked: 3,
            has_server_name: false,
            has_starter_name: false,
            since: 4711,
            threads: 1,
        };
        let server = Stat { has_server_name: true, ..found };
        let starter = Stat { has_starter_name: true, ..found };
        assert_eq!(Stat::parse(format!("17 (tutti-starter) {REST}\n").as_bytes()), Some(starter));
        assert_eq!(Stat::parse(format!("17 (tutti-regions) {REST}\n").as_bytes()), Some(server));
        let found = Some(found);
        for name in ["cat", "a b", "a) S 1 2", ") ", "(((", "tmux: server", ") Z 1 1 1", "a\nb"] {
            assert_eq!(Stat::parse(format!("17 ({name}) {REST}\n").as_bytes()), found, "{name:?}");
        }
        let no_text = [b"17 (\xff\xfe) ".as_slice(), REST.as_bytes()].concat();
        assert_eq!(Stat::parse(&no_text), found);
        for nothing in ["", "17 (cat", "17 (cat) ", "17 (cat) S", "17 (cat) S 12", "17 (cat) S x 17"] {
            assert_eq!(Stat::parse(nothing.as_bytes()), None, "{nothing:?}");
        }
    }

    #[test]
    fn proc_stat_state_is_parsed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let own = Stat::of(rustix::process::getpid()).unwrap();
        let found = Stat::of(pid).unwrap();
        assert_eq!(found.parent, rustix::process::getpid().as_raw_nonzero().get());
        assert!(found.since >= own.since && !found.is_dead() && !found.is_stopped());
        child.kill().unwrap();
        let exited = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), exited).unwrap();
        assert!(Stat::of(pid).unwrap().is_dead());
        child.wait().unwrap();
        assert_eq!(Stat::of(pid), None);
    }
}
