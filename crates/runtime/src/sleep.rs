//! Report of this process on its waits while all its threads sleep (`tutti_shm::report::Sleep`): for a
//! snapshot, and for whoever looks for deadlocks from outside.
//!
//! It is said behind the last look before a sleep and taken back after it, so a wait that is over sooner
//! costs nothing. The service thread takes it back before it looks at the network, since it may take what the
//! sleeper waits for.
//!
//! Each thread that waits leaves a description. It becomes one alternative, or several of which one is
//! enough; all parts of an alternative must end. What was started and goes on by itself is an alternative of
//! the background.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tutti_shm::report::{Asleep, Named, Sleep, Wait};

/// Threads of the library run functions of the program.
static HAS_HANDLERS: AtomicBool = AtomicBool::new(false);

/// Functions that describe the background of what is no interface of the program: remote and shared memory.
static OTHERS: [OnceLock<fn(&mut SleepReport)>; 2] = [OnceLock::new(), OnceLock::new()];

/// From now on this describes what goes on by itself without an interface; it is called under the process
/// lock.
pub fn describe_also(describe: fn(&mut SleepReport)) {
    let is_set = OTHERS.iter().any(|place| place.set(describe).is_ok());
    debug_assert!(is_set, "two describe their background");
}

/// Describes that.
pub(crate) fn describe_others(report: &mut SleepReport) {
    OTHERS.iter().filter_map(OnceLock::get).for_each(|describe| describe(report));
}

/// From now on threads of the library run functions of the program. So a process whose other threads all wait
/// is not known to be stuck.
pub fn note_handlers() {
    HAS_HANDLERS.store(true, Relaxed);
}

/// The waits of a process as they are being described.
#[derive(Debug, Default)]
pub struct SleepReport {
    named: Named,
    /// Number of the alternative that is being described.
    alternative: u32,
    background: bool,
    asleep: Asleep,
    call: &'static [u8],
}

impl SleepReport {
    /// Adds an alternative. One with nothing in it counts as something else: it must not look as if it were
    /// not there.
    pub fn put_alternative(&mut self, put_parts: impl FnOnce(&mut Self)) {
        let before = self.named.count();
        put_parts(self);
        self.put_unless_since(before);
        self.alternative += 1;
    }

    /// Parts so far.
    pub fn count(&self) -> usize {
        self.named.count()
    }

    /// Adds something unknown if no part was added since there were `before`.
    pub fn put_unless_since(&mut self, before: usize) {
        if self.named.count() == before {
            self.put(Wait::other(0, false));
        }
    }

    /// Adds a part of this alternative.
    pub fn put(&mut self, wait: Wait) {
        let (alternative, background) = (self.alternative, self.background);
        self.named.push(Wait { alternative, background, ..wait });
    }

    /// Another alternative would not be named.
    pub fn is_full(&self) -> bool {
        if self.background { self.named.has_more_background() } else { self.named.has_more() }
    }

    /// Another part of this alternative would not be named.
    pub fn is_settled(&self) -> bool {
        self.named.is_settled(self.alternative, self.background)
    }

    /// Adds facts besides the waits: messages that no receive has asked for, whether something for others has
    /// found no room, whether any thread may call, and the function that waits if that is known.
    pub fn put_facts(&mut self, unasked: u32, owes: bool, multiple: bool, call: &'static [u8]) {
        self.asleep.unasked += unasked;
        self.asleep.owes |= owes;
        self.asleep.multiple |= multiple;
        if self.call.is_empty() {
            self.call = call;
        }
    }

    /// Begins the background: what is added from now on goes on by itself.
    pub(crate) fn begin_background(&mut self) {
        self.background = true;
    }

    /// Writes it to where an onlooker reads it, with the number of threads that wait.
    pub(crate) fn write(mut self, sleep: &Sleep, threads: u32) {
        self.asleep.multiple |= HAS_HANDLERS.load(Relaxed);
        sleep.write_call(self.call);
        let asleep = Asleep { threads, ..self.asleep };
        sleep.write(&self.named, &asleep);
    }
}

/// Says whether a wait is over, to the thread that polls meanwhile, and what for it is. It is not called
/// again when it has said so.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    pub(crate) is_over: *mut Function<'static>,
    pub(crate) describe: *const Describe<'static>,
}

pub(crate) type Function<'a> = dyn FnMut() -> bool + 'a;
/// Describes what a thread waits for.
pub type Describe<'a> = dyn Fn(&mut SleepReport) + 'a;

impl Test {
    /// Adds what the thread waits for. Called under the process lock, while the thread sleeps.
    pub(crate) fn describe(&self, report: &mut SleepReport) {
        // SAFETY: the function belongs to a call that rests (see `Host::is_over`), and the caller has the
        // lock.
        unsafe { (*self.describe)(report) }
    }
}
