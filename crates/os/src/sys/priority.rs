//! How much a thread goes before others.

use std::num::NonZeroU64;
use std::path::Path;

use crate::rtkit;

/// How much a thread is preferred by the kernel's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum PriorityClass {
    /// Real time: before everything that is not.
    Fifo,
    /// Real time that RealtimeKit has given to a user.
    Kit,
    /// The highest of usual priorities.
    Nice,
    /// As all others, but for short turns that come soon.
    ShortSlice,
    /// As all others.
    #[default]
    Plain,
}

impl PriorityClass {
    /// For people, and for scripts.
    pub fn name(self) -> &'static str {
        match self {
            PriorityClass::Fifo => "real time",
            PriorityClass::Kit => "real time by rtkit",
            PriorityClass::Nice => "nice -20",
            PriorityClass::ShortSlice => "short slices",
            PriorityClass::Plain => "none",
        }
    }
}

impl From<PriorityClass> for &'static str {
    fn from(priority_class: PriorityClass) -> Self {
        priority_class.name()
    }
}

impl TryFrom<String> for PriorityClass {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let all = [
            PriorityClass::Fifo,
            PriorityClass::Kit,
            PriorityClass::Nice,
            PriorityClass::ShortSlice,
            PriorityClass::Plain,
        ];
        all.into_iter()
            .find(|priority_class| priority_class.name() == name)
            .ok_or_else(|| format!("{name:?} is not a priority class"))
    }
}

/// `sched_attr` of `sched_setattr`, in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Prefers the calling thread, and not what it forks, as far as the kernel allows: real time at 50, else at
/// 10 if RealtimeKit gives it within a second, else nice -20, else turns of 0.1 ms (EEVDF gives short ones
/// soon). Its timers are on time on every rung: the kernel lets those of usual threads be 50 us late.
pub fn prefer_this_thread() -> PriorityClass {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let size = size_of::<SchedulingAttributes>() as u32;
    let reset_on_fork = 1;
    let fifo = SchedulingAttributes {
        size,
        policy: libc::SCHED_FIFO as u32,
        flags: reset_on_fork,
        priority: 50,
        ..Default::default()
    };
    let nice = SchedulingAttributes {
        size,
        flags: reset_on_fork,
        nice: -20,
        runtime_ns: 100_000,
        ..Default::default()
    };
    let short =
        SchedulingAttributes { size, flags: reset_on_fork, runtime_ns: 100_000, ..Default::default() };
    for (priority_class, attributes) in
        [(PriorityClass::Fifo, fifo), (PriorityClass::Nice, nice), (PriorityClass::ShortSlice, short)]
    {
        // SAFETY: the structure is as long as it says and lives for the call; 0 is the calling thread.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if result == 0 {
            return priority_class;
        }
        if priority_class == PriorityClass::Fifo && is_given_real_time() {
            return PriorityClass::Kit;
        }
    }
    PriorityClass::Plain
}

/// Without a right to real time RealtimeKit may give it. Root has none only if it was taken away, so it is
/// not asked for.
fn is_given_real_time() -> bool {
    let has_right = rustix::process::getrlimit(rustix::process::Resource::Rtprio).current != Some(0);
    if rustix::process::geteuid().is_root() || has_right {
        return false;
    }
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u64;
    rtkit::make_real_time(Path::new(rtkit::BUS), thread, rtkit::LIMIT).is_ok()
}
