//! Finds, opens and maps what starters have for the switch thread ([`page`]): a user made it, and whoever
//! touches it may wait for that user. So a thread of usual priority does it, one for each user.
//!
//! ```text
//! main loop: fetch --> the user's thread: find, check, map --> the user's proxy, which alone touches them
//!                                                          --Pages--> main loop --Command::Pages--> switch thread
//! ```
//!
//! The job takes its turns meanwhile, and its ranks do not know of them: what is not there in time is not
//! there.
//!
//! | bound | value | beyond it |
//! |---|---|---|
//! | users with a thread | [`USERS_MAX`] | no pages |
//! | errands of a user that wait | [`WAITING_MAX`] | no pages |
//! | an errand that lasts | [`HUNG_NS`] | its thread is given up, another takes its place |
//! | threads of a user that are given up | [`GIVEN_UP_MAX`] | no pages until one comes back |
//! | processor time of an errand | [`WORK_MAX`] | what has been found by then |
//! | processor time of a user's errands | one part in [`WORK_PART`] | they wait |

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};
use tutti_sched::JobId;

use super::bell::Bells;
use super::clock::now_ns;
use super::page::{self, Found};
use super::phases::Shares;
use super::proxy::{Proxy, Told};

const USERS_MAX: usize = 64;
const WAITING_MAX: usize = 64;
const HUNG_NS: u64 = 5_000_000_000;
const GIVEN_UP_MAX: usize = 2;
const WORK_MAX: Duration = Duration::from_millis(50);
const WORK_PART: u32 = 10;
const STACK_BYTES: usize = 256 << 10;

/// Pages that the starters of a job have for the switch thread.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// How the job is notified of its turns.
    pub(super) told: Vec<Told>,
    /// How jobs that share parallel slots and the arbiter tell each other.
    pub(super) shares: Option<Shares>,
}

/// The pages, on their way to the switch thread.
#[derive(Clone, Debug)]
pub struct Handover(Arc<Mutex<Option<Pages>>>);

impl Handover {
    fn new(pages: Pages) -> Self {
        Handover(Arc::new(Mutex::new(Some(pages))))
    }

    pub(super) fn take(&self) -> Option<Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl PartialEq for Handover {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The pages of this job are wanted.
#[derive(Debug)]
pub(crate) struct Errand {
    pub job: JobId,
    /// Owner that the pages must have.
    pub user: u32,
    /// Pids of the job's starters.
    pub starters: Vec<u32>,
}

/// A user's thread, as the main loop has it.
#[derive(Debug)]
struct Desk {
    errands: Sender<Errand>,
    /// Errands that are not done.
    waiting: Arc<AtomicUsize>,
    /// When the one that is being done began; 0: none is.
    began_ns: Arc<AtomicU64>,
    /// Threads that were given up: when the errand of each began; 0: the thread has come back.
    given_up: Vec<Arc<AtomicU64>>,
}

impl Desk {
    fn is_hung(&self, now_ns: u64) -> bool {
        let began_ns = self.began_ns.load(Ordering::Relaxed);
        began_ns > 0 && now_ns.saturating_sub(began_ns) > HUNG_NS
    }

    fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0 && self.given_up.is_empty()
    }
}

/// The threads of all users.
pub(crate) struct Fetcher {
    desks: BTreeMap<u32, Desk>,
    /// The bell of the switch thread.
    waker: Arc<OwnedFd>,
    emit: Arc<dyn Fn(JobId, Handover) + Send + Sync>,
}

impl Fetcher {
    /// `emit` carries away what has been found.
    pub(crate) fn new(waker: OwnedFd, emit: impl Fn(JobId, Handover) + Send + Sync + 'static) -> Self {
        Fetcher { desks: BTreeMap::new(), waker: Arc::new(waker), emit: Arc::new(emit) }
    }

    /// The pages of a job's ranks are wanted, on account of a user. They come later, or never; `false`:
    /// never.
    pub(crate) fn fetch(&mut self, errand: Errand, account: u32) -> bool {
        if errand.starters.is_empty() {
            return false;
        }
        // Threads without work end; their proxies do when nobody needs them.
        self.desks.retain(|user, desk| {
            desk.given_up.retain(|began_ns| began_ns.load(Ordering::Relaxed) > 0);
            *user == account || !desk.is_idle()
        });
        let before = match self.desks.get(&account) {
            Some(desk) if !desk.is_hung(now_ns()) => None,
            before => Some(before.map(|desk| (Arc::clone(&desk.began_ns), desk.given_up.clone()))),
        };
        if let Some(before) = before {
            let given_up = before.map_or_else(Vec::new, |(began_ns, mut given_up)| {
                given_up.push(began_ns);
                given_up
            });
            let is_full = self.desks.len() >= USERS_MAX && !self.desks.contains_key(&account);
            if is_full || given_up.len() > GIVEN_UP_MAX {
                return false;
            }
            let Ok(desk) = self.start(given_up) else { return false };
            self.desks.insert(account, desk);
        }
        let Some(desk) = self.desks.get(&account) else { return false };
        if desk.waiting.load(Ordering::Relaxed) >= WAITING_MAX {
            return false;
        }
        desk.waiting.fetch_add(1, Ordering::Relaxed);
        // It lives as long as we have its end.
        desk.errands.send(errand).is_ok()
    }

    fn start(&self, given_up: Vec<Arc<AtomicU64>>) -> io::Result<Desk> {
        let (errands, queue) = channel();
        let (waiting, began_ns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let bells = Bells::new(Arc::clone(&self.waker));
        let thread = Thread {
            bells,
            waiting: Arc::clone(&waiting),
            began_ns: Arc::clone(&began_ns),
            emit: Arc::clone(&self.emit),
        };
        let builder = std::thread::Builder::new().name("pages".into()).stack_size(STACK_BYTES);
        // Nobody waits for it.
        drop(builder.spawn(move || thread.run(&queue))?);
        Ok(Desk { errands, waiting, began_ns, given_up })
    }
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Fetcher").field("desks", &self.desks).finish_non_exhaustive()
    }
}

/// A user's thread.
struct Thread {
    bells: Bells,
    waiting: Arc<AtomicUsize>,
    began_ns: Arc<AtomicU64>,
    emit: Arc<dyn Fn(JobId, Handover) + Send + Sync>,
}

impl Thread {
    fn run(self, queue: &Receiver<Errand>) {
        // It lives as long as this thread, and until what it has is not needed any more.
        let mut proxy = None;
        while let Ok(Errand { job, user, starters }) = queue.recv() {
            self.began_ns.store(now_ns(), Ordering::Relaxed);
            let before = thread_time();
            (self.emit)(job, Handover::new(self.fetch(user, &starters, &mut proxy)));
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let worked = thread_time().saturating_sub(before);
            self.began_ns.store(0, Ordering::Relaxed);
            std::thread::sleep(worked * (WORK_PART - 1));
        }
    }

    fn fetch(&self, user: u32, starters: &[u32], proxy: &mut Option<Proxy>) -> Pages {
        let until = thread_time() + WORK_MAX;
        let is_over = || thread_time() > until;
        let mut pages = Pages::default();
        for starter in starters.iter().filter_map(|starter| Pid::from_raw(i32::try_from(*starter).ok()?)) {
            let Found { teller, file_locks, grants } = page::find_all(starter, user, now_ns(), &is_over);
            if proxy.is_none() {
                *proxy = Proxy::start().ok();
            }
            let Some(proxy) = proxy else { break };
            pages.told.extend(teller.map(|teller| proxy.told(teller, file_locks)));
            if let ([_], Some((grants, rings))) = (starters, grants) {
                let (agreed, bell) = (grants.agreement(), self.bells.listen(rings).ok());
                pages.shares = bell.map(|bell| Shares { agreed, grants: proxy.slots(grants), bell });
            }
            if is_over() {
                break;
            }
        }
        pages
    }
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tutti_shm::daemon_page::DaemonPage;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn waker() -> OwnedFd {
        rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap()
    }

    fn own(job: u64) -> Errand {
        Errand {
            job: JobId(job),
            user: rustix::process::geteuid().as_raw(),
            starters: vec![std::process::id()],
        }
    }

    #[test]
    fn fetcher_finds_pages_and_hands_them_to_the_proxy() {
        let page = DaemonPage::create().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let (sender, found) = mpsc::channel();
        let mut fetcher = Fetcher::new(waker(), move |job, pages| drop(sender.send((job, pages))));
        fetcher.fetch(own(7), user);
        let (job, handover) = found.recv_timeout(LIMIT).expect("it is there");
        let mut pages = handover.take().expect("once");
        assert_eq!((job, pages.told.len(), handover.take().is_some()), (JobId(7), 1, false));
        // The proxy outlives the thread that has found them.
        drop(fetcher);
        pages.told[0].begin(20);
        pages.told[0].end(25);
        pages.told[0].send();
        let until = std::time::Instant::now() + LIMIT;
        while page.turns().thaw_count != 1 {
            assert!(std::time::Instant::now() < until, "it is awaited that the page says so");
            std::thread::yield_now();
        }
    }

    #[test]
    fn fetcher_gives_up_a_thread_that_hangs() {
        let (sender, found) = mpsc::channel();
        let gate = Arc::new(Mutex::new(()));
        let waits = Arc::clone(&gate);
        let mut fetcher = Fetcher::new(waker(), move |job, _| {
            if job == JobId(1) {
                drop(waits.lock());
            }
            let _ = sender.send(job);
        });
        let user = rustix::process::geteuid().as_raw();
        let held = gate.lock().unwrap();
        fetcher.fetch(own(1), user);
        let began_ns = Arc::clone(&fetcher.desks[&user].began_ns);
        while began_ns.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        fetcher.fetch(own(2), user);
        assert!(found.try_recv().is_err(), "it is behind the other");
        // As if it were long ago.
        began_ns.store(1, Ordering::Relaxed);
        fetcher.fetch(own(3), user);
        assert_eq!(found.recv_timeout(LIMIT), Ok(JobId(3)));
        drop(held);
        assert_eq!(found.recv_timeout(LIMIT), Ok(JobId(1)));
        assert_eq!(found.recv_timeout(LIMIT), Ok(JobId(2)), "what it had is done when it comes back");
    }
}
