//! The line that the kernel keeps of a process or thread: `/proc/PID/stat`.

use std::path::Path;

use rustix::process::Pid;

/// What it says, as far as anybody here asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its letter.
    pub state: u8,
    /// Who is told of its death; 0: nobody in this pid namespace.
    pub parent: i32,
    /// When it was started, in clock ticks since boot: pids are used again.
    pub since: u64,
}

impl Stat {
    /// Of a process, which may be a zombie; none when there is none.
    pub fn of(pid: Pid) -> Option<Self> {
        Self::read(Path::new(&format!("/proc/{}/stat", pid.as_raw_nonzero())))
    }

    /// The same of a thread, by its file.
    pub fn read(file: &Path) -> Option<Self> {
        // A name need not be text.
        Self::parse(&String::from_utf8_lossy(&std::fs::read(file).ok()?))
    }

    /// It does nothing any more, and waits to be buried.
    pub fn is_dead(&self) -> bool {
        b"ZXx".contains(&self.state)
    }

    /// A signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        b"Tt".contains(&self.state)
    }

    /// It works, or would if it had a core, or waits for a disk.
    pub fn is_busy(&self) -> bool {
        b"RD".contains(&self.state)
    }

    fn parse(line: &str) -> Option<Self> {
        // 17 (name) S 1 ...: the name may hold anything, the last parenthesis ends it.
        let mut fields = line.rsplit_once(") ")?.1.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Stat { state, parent, since: fields.nth(17)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str =
        "S 12 17 17 0 -1 4194304 90 0 0 0 1 2 0 0 20 0 1 0 4711 9000 200 18446744073709551615 0";

    #[test]
    fn a_name_may_hold_anything() {
        let found = Some(Stat { state: b'S', parent: 12, since: 4711 });
        for name in ["cat", "a b", "a) S 1 2", ") ", "(((", "tmux: server", ") Z 1 1 1", "a\nb"] {
            assert_eq!(Stat::parse(&format!("17 ({name}) {REST}\n")), found, "{name:?}");
        }
        for nothing in ["", "17 (cat", "17 (cat) ", "17 (cat) S", "17 (cat) S 12", "17 (cat) S x 17"] {
            assert_eq!(Stat::parse(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn it_is_told_how_a_process_is() {
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
