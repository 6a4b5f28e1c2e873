//! Words between the switch thread and a job's ranks, by pages that the job's user has made.
//! The user can take the memory of such a page away (`MADV_REMOVE`, `fallocate`) while somebody stores to it;
//! who stores then sleeps until the kernel is through, and whoever has begun to take it away may be kept from
//! a core meanwhile. So the switch thread touches none of them. A thread of each user's, the proxy, takes its
//! words there and brings back what stands there.
//!
//! ```text
//! switch thread: draft (its own memory) -> posted += 1, futex wake --> proxy: copies, looks, done = posted, futex wake
//!                thaw: waits for done, within the user's budget
//! fetcher: found pages --Proxy::add--> the list of the proxy; what nobody has any more the proxy unmaps
//! ```
//!
//! | word | writer | meaning |
//! |---|---|---|
//! | `posted` of a place | the switch thread, after the draft | drafts ever made |
//! | `done` of a place | the proxy, after it has copied and looked | drafts that are on the page |
//! | `posted` of a proxy (futex) | the switch thread | something is posted |
//! | `has_locks`, `may_have_locks` | the proxy, before `done` | what ranks say of locks of files |
//!
//! **Order.** A job is told before it goes on: `thaw` waits for `done`. For all waits of a user
//! together there are [`BUDGET_NS`], of which one part of the time in [`REFILL_PART`] comes back: a
//! user who keeps the proxy waiting has a clock that is late, and costs others no more than that.
//!
//! If the proxy stops right here, the page says what it said, and the switch goes on without it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;
use tutti_shm::daemon_page::{Copier, Teller};
use tutti_shm::phases::Grants;
use tutti_shm::segment::HeaderPage;

use super::clock::now_ns;

/// Time that the switch thread waits for a user's proxy at once.
const BUDGET_NS: u64 = 10_000_000;
/// One part of the time in so many comes back.
const REFILL_PART: u64 = 50;
/// A proxy that nobody needs any more ends so late at most, and what nobody has any more is unmapped.
const LOOK: Duration = Duration::from_millis(500);
const STACK_BYTES: usize = 256 << 10;

/// A user's proxy. Its thread ends when all of its places are given back and this is gone.
#[derive(Clone, Debug)]
pub(super) struct Proxy(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    posted: AtomicU32,
    /// Writers: the fetcher adds, the proxy takes away. The switch thread does not lock it.
    places: Mutex<Vec<Arc<Place>>>,
    /// Rest of the time that the switch thread waits, as of then. Writer: the switch thread.
    budget_ns: AtomicU64,
    budgeted_ns: AtomicU64,
    /// True without a thread: whoever posts does its work.
    #[cfg(test)]
    is_inline: bool,
}

#[derive(Debug)]
struct Place {
    posted: AtomicU32,
    done: AtomicU32,
    /// The switch thread sleeps until it is done.
    is_awaited: AtomicBool,
    has_locks: AtomicBool,
    may_have_locks: AtomicBool,
    page: Page,
}

/// Memory that a user has made. The proxy alone touches it.
#[derive(Debug)]
enum Page {
    /// Where ranks are notified of their turns, and where they say that they have locks of files.
    Turns(Copier, Option<HeaderPage>),
    /// Where jobs that share parallel slots are told what they have.
    Slots(Wanted, Mutex<Slots>),
}

/// Words that are to stand on a page of parallel slots. Writer: the switch thread.
#[derive(Debug, Default)]
struct Wanted {
    others: AtomicU32,
    patience_ns: AtomicU64,
    granted: AtomicBool,
    contended: AtomicBool,
    end_dead: AtomicBool,
}

/// Words that stand there.
#[derive(Debug)]
struct Slots {
    grants: Grants,
    others: Option<(u32, u64)>,
    granted: Option<bool>,
    contended: Option<bool>,
}

impl Slots {
    fn set(&mut self, wanted: &Wanted) {
        let others = Some((wanted.others.load(SeqCst), wanted.patience_ns.load(SeqCst)));
        if let Some((count, patience_ns)) = others.filter(|_| self.others != others) {
            self.grants.set_others(count, patience_ns);
            self.others = others;
        }
        let granted = wanted.granted.load(SeqCst);
        if self.granted.replace(granted) != Some(granted) {
            self.grants.set_granted(granted);
        }
        let contended = wanted.contended.load(SeqCst);
        let is_new = self.contended.replace(contended) != Some(contended);
        if is_new {
            self.grants.set_contended(contended);
        }
        let ends_dead = wanted.end_dead.swap(false, SeqCst);
        if ends_dead {
            self.grants.end_dead();
        }
        // A process that has left before it could see this does not ring.
        if (ends_dead || is_new && contended) && !self.grants.is_inside() {
            self.grants.ring();
        }
    }
}

impl Place {
    /// In the proxy.
    fn bring(&self) {
        let posted = self.posted.load(SeqCst);
        if posted == self.done.load(SeqCst) {
            return;
        }
        match &self.page {
            Page::Turns(copier, ranks) => {
                copier.copy();
                if let Some(ranks) = ranks {
                    self.has_locks.store(ranks.has_file_locks(), SeqCst);
                    self.may_have_locks.fetch_or(ranks.may_have_file_locks(), SeqCst);
                }
            }
            Page::Slots(wanted, slots) => lock(slots).set(wanted),
        }
        self.done.store(posted, SeqCst);
        if self.is_awaited.load(SeqCst) {
            let _ = futex::wake(&self.done, futex::Flags::PRIVATE, 1);
        }
    }
}

impl Proxy {
    /// Starts its thread, as preferred as the switch thread.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared { budget_ns: AtomicU64::new(BUDGET_NS), ..Shared::default() });
        let own = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("proxy".into()).stack_size(STACK_BYTES);
        drop(builder.spawn(move || {
            tutti_os::prefer_this_thread();
            own.run();
        })?);
        Ok(Proxy(shared))
    }

    /// Without a thread.
    #[cfg(test)]
    pub(super) fn inline() -> Self {
        Proxy(Arc::new(Shared { is_inline: true, ..Shared::default() }))
    }

    fn add(&self, page: Page) -> Post {
        let place = Arc::new(Place {
            posted: AtomicU32::new(0),
            done: AtomicU32::new(0),
            is_awaited: AtomicBool::new(false),
            has_locks: AtomicBool::new(false),
            may_have_locks: AtomicBool::new(false),
            page,
        });
        lock(&self.0.places).push(Arc::clone(&place));
        Post { shared: Arc::clone(&self.0), place }
    }

    /// Takes over what has been found of a starter.
    pub(super) fn told(&self, teller: Teller, ranks: Option<HeaderPage>) -> Told {
        let (draft, copier) = teller.draft();
        let post = self.add(Page::Turns(copier, ranks));
        Told { draft, post }
    }

    /// The same of a job that shares parallel slots.
    pub(super) fn slots(&self, grants: Grants) -> Granted {
        let slots = Slots { grants, others: None, granted: None, contended: None };
        Granted { post: self.add(Page::Slots(Wanted::default(), Mutex::new(slots))) }
    }
}

impl Shared {
    fn run(self: Arc<Self>) {
        // The last one is this thread's own.
        while Arc::strong_count(&self) > 1 {
            let posted = self.posted.load(SeqCst);
            self.bring();
            let time = Timespec::try_from(LOOK).expect("half a second");
            let _ = futex::wait(&self.posted, futex::Flags::PRIVATE, posted, Some(&time));
        }
        // What was posted last.
        self.bring();
    }

    fn bring(&self) {
        let mut places = lock(&self.places);
        places.iter().for_each(|place| place.bring());
        // Nobody else can have it any more.
        places.retain(|place| Arc::strong_count(place) > 1);
    }

    /// Time that the switch thread may wait, from now on.
    fn refill(&self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.budgeted_ns.swap(now_ns, SeqCst));
        let left_ns = (self.budget_ns.load(SeqCst).saturating_add(passed_ns / REFILL_PART)).min(BUDGET_NS);
        self.budget_ns.store(left_ns, SeqCst);
        left_ns
    }
}

/// The way of the switch thread to a place.
#[derive(Debug)]
struct Post {
    shared: Arc<Shared>,
    place: Arc<Place>,
}

impl Post {
    fn post(&self) {
        self.place.posted.fetch_add(1, SeqCst);
        self.shared.posted.fetch_add(1, SeqCst);
        #[cfg(test)]
        if self.shared.is_inline {
            return self.place.bring();
        }
        let _ = futex::wake(&self.shared.posted, futex::Flags::PRIVATE, 1);
    }

    fn is_done(&self) -> bool {
        self.place.done.load(SeqCst) == self.place.posted.load(SeqCst)
    }

    /// Returns when what was posted is done, or the user's budget is used up.
    fn wait(&self) {
        if self.is_done() {
            return;
        }
        let began_ns = now_ns();
        let left_ns = self.shared.refill(began_ns);
        self.place.is_awaited.store(true, SeqCst);
        let mut waited_ns = 0;
        while waited_ns < left_ns {
            let seen = self.place.done.load(SeqCst);
            if seen == self.place.posted.load(SeqCst) {
                break;
            }
            let time = Timespec::try_from(Duration::from_nanos(left_ns - waited_ns)).expect("milliseconds");
            let _ = futex::wait(&self.place.done, futex::Flags::PRIVATE, seen, Some(&time));
            waited_ns = now_ns().saturating_sub(began_ns);
        }
        self.place.is_awaited.store(false, SeqCst);
        self.shared.budget_ns.store(left_ns.saturating_sub(waited_ns), SeqCst);
    }
}

/// Words for a starter's ranks on their turns.
#[derive(Debug)]
pub(super) struct Told {
    draft: Teller,
    post: Post,
}

impl Told {
    /// Says that they stand still from now on.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.draft.begin(now_ns);
    }

    /// Says that they go on.
    pub(super) fn end(&mut self, now_ns: u64) {
        self.draft.end(now_ns);
    }

    /// See [`Teller::publish_turns`].
    pub(super) fn publish_turns(&mut self, generation: u64, slice_end_ns: u64) {
        self.draft.publish_turns(generation, slice_end_ns);
    }

    /// See [`Teller::close_file_locks`].
    pub(super) fn close_file_locks(&self, closed: bool) {
        self.draft.close_file_locks(closed);
    }

    /// Sends what was said on its way.
    pub(super) fn send(&self) {
        self.post.post();
    }

    /// Returns when it is there, or the user's budget is used up.
    pub(super) fn wait(&self) {
        self.post.wait();
    }

    /// A rank may have a lock of a file.
    pub(super) fn may_have_file_locks(&self) -> bool {
        self.post.place.may_have_locks.load(SeqCst)
    }

    /// A rank had one, or was about to, at the end of the last [`Self::wait`].
    pub(super) fn has_file_locks(&self) -> bool {
        self.post.place.has_locks.load(SeqCst)
    }
}

/// Words for a job that shares parallel slots.
#[derive(Debug)]
pub(super) struct Granted {
    post: Post,
}

impl Granted {
    fn set(&self, change: impl FnOnce(&Wanted)) {
        if let Page::Slots(wanted, _) = &self.post.place.page {
            change(wanted);
            self.post.post();
        }
    }

    /// Says how many jobs are beside it, and how long a wait may last.
    pub(super) fn set_others(&self, others: u32, patience_ns: u64) {
        self.set(|wanted| {
            wanted.patience_ns.store(patience_ns, SeqCst);
            wanted.others.store(others, SeqCst);
        });
    }

    /// The slots are the job's, or no longer.
    pub(super) fn set_granted(&self, granted: bool) {
        self.set(|wanted| wanted.granted.store(granted, SeqCst));
    }

    /// Another wants the slots, or no longer. If no process of the job is inside a region its bell rings.
    pub(super) fn set_contended(&self, contended: bool) {
        self.set(|wanted| wanted.contended.store(contended, SeqCst));
    }

    /// Ends the lines of processes that are no more. If none is left inside its bell rings.
    pub(super) fn end_dead(&self) {
        self.set(|wanted| wanted.end_dead.store(true, SeqCst));
    }

    /// Ends what this daemon has to say: the job has the slots, and nobody is beside it.
    pub(super) fn release(&self) {
        self.set(|wanted| {
            wanted.others.store(0, SeqCst);
            wanted.contended.store(false, SeqCst);
            wanted.granted.store(true, SeqCst);
        });
    }
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tutti_shm::daemon_page::DaemonPage;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn teller(page: &DaemonPage) -> Teller {
        DaemonPage::adopt(page.descriptor(), rustix::process::geteuid().as_raw(), 0).unwrap()
    }

    #[test]
    fn proxy_takes_words_to_the_page_and_ends() {
        let page = DaemonPage::create().unwrap();
        let proxy = Proxy::start().unwrap();
        let mut told = proxy.told(teller(&page), None);
        told.begin(10);
        told.end(25);
        told.send();
        let until = Instant::now() + LIMIT;
        while page.turns().frozen_ns_total != 15 {
            assert!(Instant::now() < until, "it is awaited that the page says so");
            told.wait();
        }
        let shared = Arc::downgrade(&proxy.0);
        drop((told, proxy));
        while shared.strong_count() > 0 {
            assert!(Instant::now() < until, "it is awaited that the thread ends");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A proxy that does not come back, as one that waits for its user.
    #[test]
    fn proxy_that_hangs_costs_the_switch_no_more_than_its_budget() {
        let page = DaemonPage::create().unwrap();
        let proxy = Proxy(Arc::new(Shared { budget_ns: AtomicU64::new(BUDGET_NS), ..Shared::default() }));
        let told = [0, 1].map(|_| proxy.told(teller(&page), None));
        let (began_ns, mut waited_ns) = (now_ns(), 0);
        for at in 0..200 {
            told[at % 2].send();
            let before_ns = proxy.0.refill(now_ns());
            told[at % 2].wait();
            waited_ns += before_ns.saturating_sub(proxy.0.budget_ns.load(SeqCst));
        }
        let passed_ns = now_ns() - began_ns;
        assert!(waited_ns >= BUDGET_NS, "it was waited for: {waited_ns} ns");
        assert!(waited_ns <= BUDGET_NS + passed_ns / REFILL_PART, "{waited_ns} ns of {passed_ns}");
        assert_eq!(page.turns().thaw_count, 0);
    }

    #[test]
    fn proxy_does_not_wait_for_what_is_done() {
        let page = DaemonPage::create().unwrap();
        let told = Proxy::inline().told(teller(&page), None);
        told.send();
        told.wait();
        assert_eq!(told.post.shared.budgeted_ns.load(SeqCst), 0, "nobody has looked at the budget");
    }
}
