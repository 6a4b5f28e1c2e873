//! The freezer of a job's cgroup. Only the switch thread writes to it.
//!
//! The kernel tells of a change at most every ten milliseconds, so `cgroup.events` is read again 200 us after the write, and then
//! again (DESIGN-NOTES W12); never in a loop: that would take the core from those who are to be frozen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{pread, pwrite};

/// Between two looks at a cgroup that is being frozen, at first; then twice as long each time.
const LOOK_NS: u64 = 200_000;
/// At most so long.
const LOOK_NS_MAX: u64 = 20_000_000;
/// A job that has worked for less than this part of the time sleeps: one in so many.
const ASLEEP_PART: u64 = 50;

#[derive(Debug)]
pub(super) struct Freezer {
    freeze: OwnedFd,
    events: OwnedFd,
    activity: Option<OwnedFd>,
    freezing: bool,
    frozen: bool,
    asked_ns: u64,
    look_ns: u64,
    pause_ns: u64,
    /// When the activity was last looked at, and the time worked by then, in us.
    seen: Option<(u64, u64)>,
}

impl Freezer {
    /// # Errors
    /// When it is no cgroup that we may freeze.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = |name: &str, flags| openat(CWD, path.join(name), flags | OFlags::CLOEXEC, Mode::empty());
        Ok(Freezer {
            freeze: file("cgroup.freeze", OFlags::RDWR)?,
            events: file("cgroup.events", OFlags::RDONLY)?,
            activity: file("cpu.stat", OFlags::RDONLY).ok(),
            freezing: false,
            frozen: false,
            asked_ns: 0,
            look_ns: 0,
            pause_ns: LOOK_NS,
            seen: None,
        })
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        let _ = pwrite(&self.freeze, b"1", 0);
        self.freezing = true;
        self.asked_ns = now_ns;
        self.pause_ns = LOOK_NS;
        self.look_ns = now_ns + LOOK_NS;
    }

    pub(super) fn thaw(&mut self) {
        let _ = pwrite(&self.freeze, b"0", 0);
        (self.freezing, self.frozen, self.seen) = (false, false, None);
    }

    /// It has been told to freeze and has not said that it has.
    pub(super) fn is_freezing(&self) -> bool {
        self.freezing
    }

    /// When it was last told to freeze.
    pub(super) fn asked_ns(&self) -> u64 {
        self.asked_ns
    }

    /// When to look again.
    pub(super) fn look_ns(&self) -> u64 {
        self.look_ns
    }

    /// What tells, late, of a change.
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// `true`: it has just said frozen.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        if !self.freezing {
            return false;
        }
        let mut text = [0; 128];
        let Ok(read) = pread(&self.events, &mut text, 0) else {
            // The cgroup is gone. Its events would be told again and again: nobody waits for them any more.
            self.freezing = false;
            return false;
        };
        let said = text[..read].split(|byte| *byte == b'\n').any(|line| line == b"frozen 1");
        if said {
            (self.freezing, self.frozen) = (false, true);
        } else if now_ns >= self.look_ns {
            self.pause_ns = (self.pause_ns * 2).min(LOOK_NS_MAX);
            self.look_ns = now_ns + self.pause_ns;
        }
        said
    }

    /// Whether its processes have slept since the last look; none: it is frozen, or there is nothing to compare with.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<bool> {
        if self.freezing || self.frozen {
            return None;
        }
        let mut text = [0; 512];
        let read = pread(self.activity.as_ref()?, &mut text, 0).ok()?;
        let line =
            text[..read].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"usage_usec "))?;
        let worked_us: u64 = std::str::from_utf8(line).ok()?.parse().ok()?;
        let (then_ns, then_us) = self.seen.replace((now_ns, worked_us))?;
        Some((worked_us - then_us.min(worked_us)) * 1000 < (now_ns - then_ns) / ASLEEP_PART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_that_is_gone_is_not_looked_at_for_ever() {
        let folder = std::env::temp_dir().join(format!("tutti-freezer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // A file that cannot be read at an offset stands for one whose cgroup was removed.
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        for name in ["cgroup.freeze", "cgroup.events"] {
            std::fs::write(folder.join(name), "frozen 0\n").unwrap();
        }
        let mut freezer = Freezer::open(&folder).unwrap();
        freezer.freeze(0);
        assert!(freezer.is_freezing() && !freezer.try_confirm(300_000));
        assert_eq!(freezer.look_ns(), 700_000, "looks become rarer");
        std::fs::write(folder.join("cgroup.events"), "frozen 1\n").unwrap();
        assert!(freezer.try_confirm(800_000) && !freezer.is_freezing());
        freezer.freeze(1_000_000);
        freezer.events = reader;
        assert!(!freezer.try_confirm(1_300_000) && !freezer.is_freezing());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
