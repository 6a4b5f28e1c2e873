//! The freezer of a job's cgroup. Only the switch thread writes to it.
//!
//! The kernel tells of a change at most every ten milliseconds, so `cgroup.events` is read again 200 us after the write, and then
//! again (DESIGN-NOTES W12); never in a loop: that would take the core from those who are to be frozen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{pread, pwrite};

/// Between two looks at a cgroup that is being frozen.
const LOOK_NS: u64 = 200_000;
/// A job that has worked for less than this part of the time sleeps: one in so many.
const ASLEEP_PART: u64 = 50;

#[derive(Debug)]
pub(super) struct Freezer {
    freeze: OwnedFd,
    events: OwnedFd,
    activity: Option<OwnedFd>,
    freezing: bool,
    frozen: bool,
    look_ns: u64,
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
            look_ns: 0,
            seen: None,
        })
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        let _ = pwrite(&self.freeze, b"1", 0);
        self.freezing = true;
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
        let read = pread(&self.events, &mut text, 0).unwrap_or(0);
        let said = text[..read].split(|byte| *byte == b'\n').any(|line| line == b"frozen 1");
        if said {
            (self.freezing, self.frozen) = (false, true);
        } else {
            self.look_ns = now_ns + LOOK_NS;
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
