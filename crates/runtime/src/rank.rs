//! State of this process as a rank: what all interfaces of the process (messages, remote memory) share, under
//! one lock.
//!
//! ```text
//! start      attach, job, network; the process lock from here on
//! register   each interface: what it does while threads wait, which records are its own ([`crate::router`])
//! serve      the service thread, if there is a network
//! enter      any thread, any interface: a [`LockedRank`] until it is dropped
//! leave      when the last interface leaves, the rank has left its job; in a job on one node it may come
//!            back until the process ends
//! ```

mod waits;

use std::cell::{OnceCell, RefCell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};

use tutti_shm::arena::{Arena, Mapping, Range};
use tutti_shm::doorbell;
use tutti_shm::endpoint::Endpoint;
use tutti_shm::report::Sleep;
use tutti_shm::termination::Termination;
use tutti_shm::waits::Waits;

use crate::attach::{self, AttachError};
use crate::bad_memory;
use crate::job::Job;
use crate::lock::Lock;
use crate::log;
use crate::net::Net;
use crate::router::{Router, partner};
use crate::service_state;
use crate::short_slice;
use crate::sleep::{self, Describe, SleepReport, Test};
use crate::wait::CoreSharing;

/// The process lock: one for all interfaces, taken only when several threads may come.
pub static LOCK: Lock = Lock::new();

static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);
static RANK: Cell = Cell(UnsafeCell::new(None));

struct Cell(UnsafeCell<Option<Rank>>);

// SAFETY: the content is reached only through a LockedRank, which holds the process lock; where the lock is
// not needed the program has promised that one thread at a time calls the library.
unsafe impl Sync for Cell {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Before,
    Running,
    /// All interfaces have left, or the process is a forked child, which has no place in the job.
    After,
    /// All interfaces have left, and the rank may come back.
    Resting,
}

/// Interfaces of a process.
pub const INTERFACES_MAX: usize = 4;

/// State that the interfaces of a process share.
#[derive(Debug)]
pub struct Rank {
    /// The job that this process belongs to.
    pub job: Job,
    /// Peers on other nodes; none in a job that has one node.
    pub router: Option<Rc<RefCell<Router>>>,
    /// Threads that wait inside the library.
    pub waits: Waits<Test>,
    /// Whether waits have a core to themselves.
    pub core_sharing: CoreSharing,
    /// Share of this rank in the memory that ranks of the node open to each other, from its first use on.
    arena: OnceCell<Option<RefCell<Arena>>>,
    /// Endpoint of this rank, in the segment.
    pub(crate) endpoint: NonNull<Endpoint>,
    /// The interfaces of the process, in the order in which they registered.
    interfaces: [Option<&'static dyn Interface>; INTERFACES_MAX],
    /// Interfaces that have not left.
    users: usize,
}

/// Service of an interface to threads of the process that wait, whichever interface they wait in. Called
/// under the process lock.
pub trait Interface: Sync + std::fmt::Debug {
    /// Takes in what peers of this node have published, and goes on with what was started. Returns whether
    /// anything moved.
    fn progress(&self, rank: &mut LockedRank) -> bool;
    /// Tells peers what was consumed, since nobody will look for now.
    fn publish(&self);
    /// Adds what is under way without a thread that waits for it.
    fn describe_background(&self, report: &mut SleepReport);
    /// Whether something is under way that only a thread which waits goes on with.
    fn has_background(&self) -> bool;
}

/// The right to use the rank's state. Dropping it gives the lock back.
#[derive(Debug)]
pub struct LockedRank {
    /// The calling thread is among those that wait.
    pub(crate) is_waiting: bool,
}

/// Takes this process's place in its job, or joins the interface that has. The caller makes sure that this is
/// not called by two threads at once.
///
/// # Errors
/// When there is a ticket but the place cannot be had.
pub fn start() -> Result<(), AttachError> {
    if let Some(mut rank) = enter() {
        rank.users += 1;
        return Ok(());
    }
    if PHASE.load(Ordering::Relaxed) == Phase::Resting as u8 {
        PHASE.store(Phase::Running as u8, Ordering::Release);
        let mut rank = enter().expect("it runs again");
        rank.users += 1;
        return Ok(());
    }
    let place = attach::attach()?;
    if let Some(remark) = &place.remark {
        log::line(format_args!("{remark}"));
    }
    short_slice::ask();
    let job = Job::enter(place);
    bad_memory::install(job.world_place());
    let rank = Rank {
        router: None,
        waits: Waits::new(),
        core_sharing: CoreSharing::new(job.is_oversubscribed()),
        arena: OnceCell::new(),
        endpoint: NonNull::from(job.endpoint(job.rank())),
        interfaces: [None; INTERFACES_MAX],
        users: 1,
        job,
    };
    // SAFETY: nobody looks at the cell before the phase says so, and our caller is alone here.
    unsafe { *RANK.0.get() = Some(rank) };
    // SAFETY: the function is static, and the library is never unloaded (`-z nodelete`).
    unsafe { libc::pthread_atfork(None, None, Some(enter_child)) };
    PHASE.store(Phase::Running as u8, Ordering::Release);
    Ok(())
}

/// The first thing that a forked child does: it has no place in the job, nor the job's segments
/// (`MADV_DONTFORK`).
extern "C" fn enter_child() {
    PHASE.store(Phase::After as u8, Ordering::Relaxed);
}

/// The process ends: a rank that rests leaves its job.
extern "C" fn leave_at_exit() {
    let (resting, after) = (Phase::Resting as u8, Phase::After as u8);
    if PHASE.compare_exchange(resting, after, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        // SAFETY: the phase said that the value is there and that no thread of the program uses it.
        if let Some(rank) = unsafe { (*RANK.0.get()).as_ref() } {
            rank.job.leave();
        }
    }
}

/// Enters the library; `None` before [`start`], after the last interface has left, and in a forked child.
#[inline]
pub fn enter() -> Option<LockedRank> {
    if PHASE.load(Ordering::Relaxed) != Phase::Running as u8 {
        return None;
    }
    LOCK.acquire();
    // SAFETY: the phase says that the value is there, and it stays; the lock is ours.
    Some(unsafe { LockedRank::new() })
}

/// Whether all interfaces have left.
pub(crate) fn has_left() -> bool {
    matches!(PHASE.load(Ordering::Relaxed), phase if phase == Phase::After as u8 || phase == Phase::Resting as u8)
}

impl Rank {
    /// Opens the way to the ranks of other nodes, if there are any and it is not open yet: then the lock is
    /// needed from now on.
    ///
    /// # Errors
    /// Those of [`Net::open`].
    pub fn open_network(&mut self) -> Result<(), AttachError> {
        if self.router.is_none()
            && let Some(net) = Net::open(&self.job).map_err(AttachError::Network)?
        {
            LOCK.need_while_held();
            let router = Rc::new(RefCell::new(Router::new(net, self.job.ranks())));
            partner::register(&self.job, &router);
            self.router = Some(router);
        }
        Ok(())
    }

    /// Takes memory that ranks of the node open to each other (windows, symmetric heaps) from the share of
    /// this rank; [`Job::map`] maps it, here and at mates. None where files may not be as large as that
    /// (`ulimit -f`), the process has no descriptor left, or the share has no such hole.
    pub fn allocate_shared(&self, bytes: u64) -> Option<Range> {
        self.arena()?.borrow_mut().allocate(bytes)
    }

    /// The same, mapped here.
    pub fn map_shared(&self, bytes: usize) -> Option<Mapping> {
        let range = self.allocate_shared(bytes as u64)?;
        let mapping = self.job.map(range).ok();
        if mapping.is_none() {
            self.free_shared(range);
        }
        mapping
    }

    /// Gives memory back that [`Rank::allocate_shared`] has taken. Where the kernel makes no hole its pages
    /// stay until the job ends; the range is free all the same.
    pub fn free_shared(&self, range: Range) {
        if let Some(arena) = self.arena() {
            let _ = arena.borrow_mut().free(range);
        }
    }

    fn arena(&self) -> Option<&RefCell<Arena>> {
        self.arena.get_or_init(|| self.job.arena().map(RefCell::new)).as_ref()
    }

    /// From now on threads that wait serve this interface too.
    ///
    /// # Panics
    /// When there are more than [`INTERFACES_MAX`].
    pub fn register(&mut self, interface: &'static dyn Interface) {
        let free = self.interfaces.iter_mut().find(|slot| slot.is_none());
        *free.expect("a process has few interfaces") = Some(interface);
    }

    /// Endpoint of this rank.
    pub(crate) fn own_endpoint<'a>(&self) -> &'a Endpoint {
        // SAFETY: it lies in the segment, which stays mapped until the process ends.
        unsafe { self.endpoint.as_ref() }
    }

    /// The words by which this rank is notified that the job has terminated.
    pub fn termination(&self) -> &'static Termination {
        // SAFETY: they lie in the segment, which stays mapped until the process ends; all are atomics.
        unsafe { &*std::ptr::from_ref(&self.job.report(self.job.rank()).termination) }
    }

    /// Has the threads of this process that sleep in the library look again at what they wait for.
    pub fn wake_own(&self) {
        doorbell::wake(self.own_endpoint());
    }

    pub(crate) fn interfaces(&self) -> impl Iterator<Item = &'static dyn Interface> + use<> {
        self.interfaces.into_iter().flatten()
    }

    /// Whether several interfaces have registered.
    pub(crate) fn is_shared(&self) -> bool {
        self.interfaces[1].is_some()
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
        report.begin_background();
        for interface in self.interfaces() {
            interface.describe_background(&mut report);
        }
        sleep::describe_others(&mut report);
        let owes = self.router.as_ref().is_some_and(|router| router.borrow().owes());
        report.put_facts(0, owes, false, b"");
        let sleep = self.own_sleep();
        report.write(sleep, self.waits.waiting());
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

impl LockedRank {
    /// # Safety
    /// The calling thread holds the lock of a rank that has started, and has no other value of this type that
    /// it uses.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        LockedRank { is_waiting: false }
    }

    /// The program has made one more call of MPI: the node's daemon sees by it what fillers cost. So many
    /// messages were sent before, which it shows.
    #[inline(always)]
    pub fn count_call(&self, messages: u64) {
        let (calls, sent) = (&self.own_endpoint().calls, &self.own_endpoint().messages);
        calls.store(calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        sent.store(messages, Ordering::Relaxed);
    }

    /// The same right once more, for a call that is made meanwhile.
    ///
    /// # Safety
    /// Nothing is borrowed from `self` until the value was used for the last time.
    pub unsafe fn lend(&mut self) -> ManuallyDrop<LockedRank> {
        ManuallyDrop::new(LockedRank { is_waiting: self.is_waiting })
    }

    /// An interface could not start after all; it may try again.
    pub fn give_up(mut self) {
        self.users -= 1;
    }

    /// Whether the rank may come back when all interfaces have left. Between nodes others answer for it then.
    pub fn may_come_back(&self) -> bool {
        self.router.is_none()
    }

    /// An interface has nothing to do in the job any more. The last one leaves it.
    pub fn leave_job(mut self) {
        self.users -= 1;
        if self.users > 0 {
            return;
        }
        if self.may_come_back() {
            // The others see a rank that computes until the process ends, by whatever way.
            self.job.rest();
            PHASE.store(Phase::Resting as u8, Ordering::Release);
            static AT_EXIT: std::sync::Once = std::sync::Once::new();
            // SAFETY: the function is static and takes no argument.
            AT_EXIT.call_once(|| unsafe {
                libc::atexit(leave_at_exit);
            });
            return;
        }
        self.job.leave();
        PHASE.store(Phase::After as u8, Ordering::Release);
        // The service thread goes too: there are processes that end with their last thread.
        service_state::sent();
        // The state itself is kept: a thread that wrongly still waits must not find freed memory, and the
        // segment must stay mapped as long as others copy from it. The process is about to end anyway.
    }
}

impl Deref for LockedRank {
    type Target = Rank;

    #[inline(always)]
    fn deref(&self) -> &Rank {
        // SAFETY: the value says that we hold the lock and that the rank has started; the state is never
        // taken away.
        unsafe { (*RANK.0.get()).as_ref().unwrap_unchecked() }
    }
}

impl DerefMut for LockedRank {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Rank {
        // SAFETY: as above.
        unsafe { (*RANK.0.get()).as_mut().unwrap_unchecked() }
    }
}

impl Drop for LockedRank {
    #[inline(always)]
    fn drop(&mut self) {
        self.give_back();
    }
}
