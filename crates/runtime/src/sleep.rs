//! What this process says of its waits while all its threads sleep (`tutti_shm::report::Sleep`): for a
//! snapshot, and for whoever looks for deadlocks from outside.
//!
//! It is said behind the last look before a sleep and taken back after it, so a wait that is over sooner
//! costs nothing. The service thread takes it back before it looks at the network, since it may take what the
//! sleeper waits for.
//!
//! Each thread that waits leaves a description. It becomes one alternative, or several of which one is
//! enough; all parts of an alternative must end. What was started and goes on by itself is an alternative of
//! the background.

use tutti_shm::report::{Asleep, Named, Sleep, Wait};
use tutti_shm::sync::Ordering;

use crate::rank::Rank;
use crate::waiting::Describe;

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

    /// What holds besides the waits: messages that no receive has asked for, whether something for others has
    /// found no room, whether any thread may call, and the function that waits if that is known.
    pub fn put_facts(&mut self, unasked: u32, owes: bool, multiple: bool, call: &'static [u8]) {
        self.asleep.unasked += unasked;
        self.asleep.owes |= owes;
        self.asleep.multiple |= multiple;
        if self.call.is_empty() {
            self.call = call;
        }
    }
}

impl Rank {
    fn own_sleep(&self) -> &Sleep {
        &self.job.report(self.job.rank()).sleep
    }

    /// All threads of the process that are in the library sleep, or are about to, and have looked at
    /// everything; `own` describes the wait of the calling thread if it waits.
    pub(crate) fn report_sleep(&self, own: Option<&Describe<'_>>) {
        let mut report = SleepReport::default();
        if let Some(describe) = own {
            describe(&mut report);
        }
        for test in self.waits.tests() {
            test.describe(&mut report);
        }
        report.background = true;
        for interface in self.interfaces() {
            interface.describe_background(&mut report);
        }
        let asleep = Asleep { threads: self.waits.waiting(), ..report.asleep };
        let sleep = self.own_sleep();
        sleep.write_call(report.call);
        sleep.write(&report.named, &asleep);
        let endpoint = self.job.endpoint(self.job.rank());
        sleep.settled.store(endpoint.sleeping.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Somebody looks: whether it was said that all sleep.
    pub(crate) fn take_back_asleep(&self) -> bool {
        let settled = &self.own_sleep().settled;
        let said = settled.load(Ordering::Relaxed) != 0;
        if said {
            settled.store(0, Ordering::Release);
        }
        said
    }
}
