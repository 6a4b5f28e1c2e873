//! The freezer of a job's cgroup. Only the switch thread writes to it.
//!
//! Mostly nobody waits for its word: then it is looked for half a second later (`JobFreezer::try_trust`).
//! Else the kernel tells of a change at once, but at most every ten milliseconds or so ([`NOTIFIED_NS`]). So
//! the switch thread sleeps until it is told; where the last change was just before, `cgroup.events` is read
//! again 40 us after the write, which is enough on a quiet machine, and then again; never
//! in a loop: that would take the core from those who are to be frozen. A look by time costs a wake-up, 20 to
//! 40 us on a virtual machine, and mostly comes too early where many share a core.
//!
//! A cgroup that is gone stands still, and for good: the starter removes it when the last rank of the node
//! has left, which may be long before the job is over elsewhere.
//!
//! Who sleeps is told by two looks: its cgroup has used hardly any CPU time, and none of its threads runs or
//! waits for a core. The first alone would take those for asleep whom other programs on the machine keep from
//! working.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread, pwrite};
use rustix::process::Pid;
use tutti_os::cgroup::JobGroup;
use tutti_os::stat::Stat;

use super::freeze_progress::FreezeProgress;

/// Between the write and the first look at a cgroup that is being frozen; then twice as long each time.
/// Whoever has a core is in his trap 20 us after the write began, but for the one whose core the switch
/// thread has: he needs it back for a moment.
const POLL_NS: u64 = 40_000;
/// The same where the kernel is expected to tell: it may be that others have all cores, and that nobody there
/// can say it.
const POLL_NOTIFIED_NS: u64 = 1_000_000;
/// The kernel tells of a change when the last one of which it told is so long ago: a hundredth of a second,
/// in ticks of which there may be a hundred a second, and what it was late with at that time.
const NOTIFIED_NS: u64 = 50_000_000;
/// Part of the time, one in so many: who has worked for less does what he did at the last look.
const NOTHING_PART: u64 = 500;
/// Part of the time, one in so many: nobody sleeps who has worked for more with each of his threads. There
/// are programs in which one wakes up a hundred times a second to look after the network.
pub(super) const ASLEEP_PART: u64 = 50;
/// Part of the time, one in so many: who works, or waits for a core, for that long works hard.
const HARD_PART: u64 = 2;
/// A job with more threads on a node is never taken for asleep: looking at all of them would take the time of
/// others.
pub(super) const THREADS_MAX: usize = 256;

/// Work of a job's processes between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Activity {
    /// None of them runs or waits for a core, and they have hardly worked.
    pub(super) asleep: bool,
    /// All of them together.
    pub(super) worked_ns: u64,
    /// The same, and what they waited for a core as far as that is known.
    pub(super) wanted_ns: u64,
    pub(super) passed_ns: u64,
}

impl Activity {
    /// Of one rank, which runs or waits for a core at this moment, or does not. What it has waited is known
    /// when it gets the core: where many share one, it may have waited all the time.
    fn of_rank(worked_ns: u64, waited_ns: u64, passed_ns: u64, is_busy: impl Fn() -> bool) -> Self {
        let known_ns = worked_ns + waited_ns;
        let wanted_ns = if known_ns < passed_ns / HARD_PART && is_busy() { passed_ns } else { known_ns };
        Activity { asleep: wanted_ns <= passed_ns / ASLEEP_PART, worked_ns, wanted_ns, passed_ns }
    }

    /// Whether the processes want the cores for a good part of the time.
    pub(super) fn is_hard(&self) -> bool {
        self.wanted_ns >= self.passed_ns / HARD_PART
    }

    /// Of two parts of a job.
    pub(super) fn and(self, other: Activity) -> Activity {
        Activity {
            asleep: self.asleep && other.asleep,
            worked_ns: self.worked_ns.saturating_add(other.worked_ns),
            wanted_ns: self.wanted_ns.saturating_add(other.wanted_ns),
            passed_ns: self.passed_ns.max(other.passed_ns),
        }
    }
}

/// Time for which a thread has had and wanted a core since it began, in ns.
#[derive(Clone, Copy, Debug)]
struct Spent {
    worked_ns: u64,
    waited_ns: u64,
}

impl Spent {
    /// Of a line of `/proc/PID/schedstat`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ').map(str::parse);
        let mut next = || words.next()?.ok();
        Some(Spent { worked_ns: next()?, waited_ns: next()? })
    }
}

#[derive(Debug)]
pub(super) struct CgroupFreezer {
    freeze: OwnedFd,
    events: OwnedFd,
    activity: Option<OwnedFd>,
    /// The list of threads of the cgroup inside, where the processes are.
    threads: Option<OwnedFd>,
    /// The CPU time of one of its ranks: a look at it costs a tenth of one at the whole cgroup, and mostly
    /// tells enough.
    rank_stat: Option<OwnedFd>,
    /// Rank whose CPU time is read.
    rank: Option<Pid>,
    /// When that was last looked at, and what it had spent by then.
    rank_sample: Option<(u64, Spent)>,
    progress: FreezeProgress,
    /// When it last changed, as far as is known.
    changed_ns: u64,
    /// When the activity was last looked at, and the time worked by then, in us.
    last_sample: Option<(u64, u64)>,
    /// All its threads were seen asleep, and it has used no time since.
    asleep: bool,
}

impl CgroupFreezer {
    /// # Errors
    /// When it is no cgroup that we may freeze.
    pub(super) fn open(group: &JobGroup, rank: Option<u32>) -> io::Result<Self> {
        let file = |name: &str, flags| group.open_file(name, flags);
        let rank_stat = rank.map(|rank| format!("/proc/{rank}/schedstat"));
        Ok(CgroupFreezer {
            rank_stat: rank_stat
                .and_then(|path| openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()),
            rank: rank.and_then(|rank| Pid::from_raw(rank as i32)),
            rank_sample: None,
            freeze: file("cgroup.freeze", OFlags::RDWR)?,
            events: file("cgroup.events", OFlags::RDONLY)?,
            activity: file("cpu.stat", OFlags::RDONLY).ok(),
            threads: group.open_inner_file("cgroup.threads").ok(),
            progress: FreezeProgress::default(),
            changed_ns: 0,
            last_sample: None,
            asleep: false,
        })
    }

    /// Before anybody waits for it, [`Self::try_confirm`] is to be called: the kernel tells of what has
    /// changed since its file was read.
    ///
    /// # Errors
    /// When the kernel refuses: it goes on running. A cgroup that is gone is no error.
    pub(super) fn freeze(&mut self, now_ns: u64) -> Result<(), Errno> {
        let written = pwrite(&self.freeze, b"1", 0);
        let is_notified = now_ns >= self.changed_ns + NOTIFIED_NS;
        self.progress.request(now_ns, if is_notified { POLL_NOTIFIED_NS } else { POLL_NS });
        written.map(drop).or_else(|error| if is_gone(error) { Ok(()) } else { Err(error) })
    }

    /// Freezes or thaws it inside its turn: nobody waits until it has been done.
    pub(super) fn hold(&self, held: bool) {
        let _ = pwrite(&self.freeze, if held { b"1" } else { b"0" }, 0);
    }

    pub(super) fn thaw(&mut self, now_ns: u64) {
        let _ = pwrite(&self.freeze, b"0", 0);
        self.changed_ns = now_ns;
        self.progress.end();
        self.asleep = false;
        // Slices may be shorter than the time between two looks: that it stood still in between is no sleep.
        let still_ns = now_ns.saturating_sub(self.progress.requested_ns());
        let last_sample = self.last_sample.as_mut().map(|(then_ns, _)| then_ns);
        let rank_sample = self.rank_sample.as_mut().map(|(then_ns, _)| then_ns);
        for then_ns in last_sample.into_iter().chain(rank_sample) {
            *then_ns = (*then_ns + still_ns).min(now_ns);
        }
    }

    /// All its threads sleep, as far as is known.
    pub(super) fn is_asleep(&self) -> bool {
        self.asleep && !self.progress.is_held()
    }

    pub(super) fn progress(&self) -> &FreezeProgress {
        &self.progress
    }

    /// Puts off the look, since nobody waits for the freezer's word: it is looked for after so long, and
    /// nobody is woken by it.
    pub(super) fn defer(&mut self, now_ns: u64, pause_ns: u64) {
        self.progress.defer(now_ns, pause_ns);
    }

    /// Returns the file that tells, late, of a change; none: nobody is to be woken by it.
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        (self.progress.is_requested() && !self.progress.is_deferred()).then(|| self.events.as_fd())
    }

    /// `true`: it has just said frozen, or it is gone: the ranks of this node have left, while others of
    /// their job still run.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        if !self.progress.is_requested() {
            return false;
        }
        let mut text = [0; 128];
        let is_frozen = match pread(&self.events, &mut text, 0) {
            Ok(read) => text[..read].split(|byte| *byte == b'\n').any(|line| line == b"frozen 1"),
            Err(error) => is_gone(error),
        };
        if is_frozen {
            self.progress.confirm();
            self.changed_ns = now_ns;
        } else {
            self.progress.put_off(now_ns);
        }
        is_frozen
    }

    /// Measures the work of the cgroup's processes since the last look; none: it is frozen, or there is
    /// nothing to compare with.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<Activity> {
        if self.progress.is_held() {
            return None;
        }
        if !self.asleep
            && let Some(activity) = self.sample_rank(now_ns).filter(|activity| !activity.asleep)
        {
            self.last_sample = None;
            return Some(activity);
        }
        let mut text = [0; 512];
        // Nobody is left here who could work.
        let Ok(read) = pread(self.activity.as_ref()?, &mut text, 0) else {
            return Some(Activity { asleep: true, worked_ns: 0, wanted_ns: 0, passed_ns: 0 });
        };
        let line =
            text[..read].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"usage_usec "))?;
        let worked_us: u64 = std::str::from_utf8(line).ok()?.parse().ok()?;
        let (then_ns, then_us) = self.last_sample.replace((now_ns, worked_us))?;
        let worked_ns = (worked_us - then_us.min(worked_us)) * 1000;
        let passed_ns = now_ns.saturating_sub(then_ns);
        if worked_ns > passed_ns / NOTHING_PART || !self.asleep {
            let most_ns = passed_ns / ASLEEP_PART;
            let sleepers = self.threads.as_ref().and_then(sleepers);
            self.asleep = sleepers.is_some_and(|threads| worked_ns <= most_ns * threads);
        }
        Some(Activity { asleep: self.asleep, worked_ns, wanted_ns: worked_ns, passed_ns })
    }
}

impl CgroupFreezer {
    /// Measures the work of one rank since the last look; none: nobody knows. A pid that is somebody else's
    /// by now is no file any more.
    fn sample_rank(&mut self, now_ns: u64) -> Option<Activity> {
        let mut text = [0; 64];
        let read = pread(self.rank_stat.as_ref()?, &mut text, 0).ok()?;
        let spent = Spent::parse(&text[..read])?;
        let (then_ns, then) = self.rank_sample.replace((now_ns, spent))?;
        let passed_ns = now_ns.saturating_sub(then_ns);
        let worked_ns = spent.worked_ns.saturating_sub(then.worked_ns);
        // Who waits for a core is not asleep. What it waited while it stood still passed for nobody.
        let waited_ns = spent.waited_ns.saturating_sub(then.waited_ns).min(passed_ns);
        let is_busy = || self.rank.and_then(Stat::of).is_some_and(|stat| stat.is_busy());
        Some(Activity::of_rank(worked_ns, waited_ns, passed_ns, is_busy))
    }
}

/// The file's cgroup has been removed.
fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::NODEV | Errno::NOENT)
}

/// How many threads are in this list, if all of them sleep: none runs or waits for a core or a disk.
fn sleepers(list: &OwnedFd) -> Option<u64> {
    // As long as so many numbers of threads are at most.
    let mut text = [0; THREADS_MAX * 8];
    // Who is gone does nothing.
    let Ok(read) = pread(list, &mut text, 0) else { return Some(0) };
    if read == text.len() {
        return None;
    }
    let mut threads = text[..read].split(|byte| *byte == b'\n').filter(|number| !number.is_empty());
    let count = threads.clone().count() as u64;
    threads.all(is_asleep).then_some(count)
}

/// The number of a thread, as it stands in such a list. Who is gone does nothing.
fn is_asleep(thread: &[u8]) -> bool {
    let number = std::str::from_utf8(thread).ok().and_then(|number| Pid::from_raw(number.parse().ok()?));
    number.and_then(Stat::of).is_none_or(|stat| !stat.is_busy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freezer_looks_more_rarely_each_time() {
        let folder = std::env::temp_dir().join(format!("tutti-freezer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["cgroup.freeze", "cgroup.events"] {
            std::fs::write(folder.join(name), "frozen 0\n").unwrap();
        }
        let group = JobGroup::new(std::fs::File::open(&folder).unwrap().into()).unwrap();
        let mut freezer = CgroupFreezer::open(&group, None).unwrap();
        freezer.freeze(0).unwrap();
        assert!(freezer.progress().is_requested() && !freezer.try_confirm(300_000));
        assert_eq!(freezer.progress().poll_ns(), 300_000 + 2 * POLL_NS, "looks become rarer");
        std::fs::write(folder.join("cgroup.events"), "frozen 1\n").unwrap();
        assert!(freezer.try_confirm(800_000) && !freezer.progress().is_requested());
        freezer.thaw(2_000_000);
        freezer.freeze(12_000_000).unwrap();
        assert_eq!(
            freezer.progress().poll_ns(),
            12_000_000 + POLL_NS,
            "nobody tells of a change so soon after the last"
        );
        assert!(freezer.try_confirm(13_000_000));
        freezer.freeze(13_000_000 + NOTIFIED_NS).unwrap();
        assert_eq!(
            freezer.progress().poll_ns(),
            13_000_000 + NOTIFIED_NS + POLL_NOTIFIED_NS,
            "it is told of"
        );
        freezer.freeze(14_000_000 + NOTIFIED_NS).unwrap();
        assert!(freezer.events().is_some() && !freezer.progress().is_deferred());
        freezer.defer(14_000_000 + NOTIFIED_NS, 5_000_000);
        assert!(freezer.events().is_none() && freezer.progress().is_deferred(), "nobody is woken by it");
        assert_eq!(freezer.progress().poll_ns(), 19_000_000 + NOTIFIED_NS);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn freezer_removed_cgroup_counts_as_frozen() {
        let name = tutti_os::cgroup::name(&format!("freezer-{}", std::process::id()));
        let Some(cgroup) = tutti_os::cgroup::Cgroup::create(&name) else {
            return tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
        };
        let group = JobGroup::new(std::fs::File::open(cgroup.path().unwrap()).unwrap().into()).unwrap();
        let mut freezer = CgroupFreezer::open(&group, None).unwrap();
        drop(cgroup);
        assert_eq!(freezer.freeze(0), Ok(()));
        assert!(
            freezer.try_confirm(1_000) && !freezer.progress().is_requested(),
            "nobody is left who could run"
        );
    }

    #[test]
    fn freezer_failed_write_is_not_frozen() {
        let folder = std::env::temp_dir().join(format!("tutti-freezer-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cgroup.freeze"), "0\n").unwrap();
        std::fs::write(folder.join("cgroup.events"), "frozen 0\n").unwrap();
        let group = JobGroup::new(std::fs::File::open(&folder).unwrap().into()).unwrap();
        let mut freezer = CgroupFreezer::open(&group, None).unwrap();
        freezer.freeze = std::fs::File::options().read(true).write(true).open("/dev/full").unwrap().into();
        assert_eq!(freezer.freeze(0), Err(Errno::NOSPC));
        assert!(freezer.progress().is_requested() && !freezer.try_confirm(1_000));
        // A file that cannot be read at an offset: not a cgroup that is gone.
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        freezer.events = reader;
        assert!(!freezer.try_confirm(2_000));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn freezer_waiting_for_a_core_is_activity() {
        let of = |worked_ns, waited_ns, busy| Activity::of_rank(worked_ns, waited_ns, 20_000, || busy);
        let last_sample = |activity: Activity| (activity.asleep, activity.is_hard());
        assert_eq!(last_sample(of(0, 0, true)), (false, true), "its accounts say nothing yet");
        assert_eq!(last_sample(of(3_000, 0, true)), (false, true));
        assert_eq!(last_sample(of(3_000, 0, false)), (false, false));
        assert_eq!(last_sample(of(4_000, 7_000, false)), (false, true));
        assert_eq!(last_sample(of(100, 200, false)), (true, false));
    }

    #[test]
    fn freezer_runnable_thread_is_not_asleep() {
        let list = std::env::temp_dir().join(format!("tutti-threads-{}", std::process::id()));
        let of = |numbers: &str| {
            std::fs::write(&list, numbers).unwrap();
            sleepers(&std::fs::File::open(&list).unwrap().into())
        };
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let asleep = format!("{}\n", sleeper.id());
        // It is a program of its own soon.
        while of(&asleep) != Some(1) {
            std::thread::yield_now();
        }
        let me = rustix::thread::gettid().as_raw_nonzero();
        assert_eq!(of(&format!("{asleep}{me}\n")), None, "who asks is not asleep");
        assert_eq!(of(""), Some(0));
        assert_eq!(of(&asleep.repeat(2 * THREADS_MAX)), None, "too many to look at");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        std::fs::remove_file(&list).unwrap();
    }
}
