//! The state of this process: one value, one lock, alive from Init to Finalize.
//!
//! Every call enters through [`enter`] and works on the [`Guard`]. A wait gives the lock back between polls
//! ([`waiting`]). No lock is held and nothing is borrowed while a function of the user runs.

pub mod entry;
mod owners;
pub mod persistents;
pub(crate) mod waiting;

use std::cell::{self, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tutti_runtime::rank::{LOCK, LockedRank};

use crate::abi::*;
use crate::check::inspection::Inspection;
use crate::check_mode;
use crate::collective::state::Collectives;
use crate::comm::Comms;
use crate::datatype::Types;
use crate::engine::Engine;
use crate::file::Files;
use crate::phase::{AFTER, BEFORE, CHECKED, FORKED, PENDING, PHASE, RUNNING, phase};
use crate::session::Environment;
use crate::win::Windows;

/// Everything this process knows.
#[derive(Debug)]
pub struct Process {
    /// Point-to-point.
    pub engine: Engine,
    /// Communicators and groups.
    pub comms: Comms,
    /// Datatypes.
    pub types: Types,
    /// Keys of attributes, and the attributes of datatypes and windows.
    pub attributes: crate::attributes::Table,
    /// Collective operations.
    pub colls: Collectives,
    /// Windows.
    pub wins: Windows,
    /// Files.
    pub files: Files,
    /// Environment that this process was promised and told: threads, sessions, its place among programs.
    pub env: Environment,
    /// How persistent requests start.
    pub persistents: persistents::Persistents,
    /// State of the checker, when there is one.
    pub check: Option<Box<crate::check::state::Check>>,
}

impl Process {
    /// The process as the checker sees it.
    pub fn inspect(&mut self) -> Inspection<'_> {
        let Process { check, engine, comms, types, colls, .. } = self;
        Inspection { check: check.as_deref_mut(), engine, comms, types, colls }
    }
}

static PROCESS: Cell = Cell(UnsafeCell::new(None));

struct Cell(UnsafeCell<Option<Process>>);

// SAFETY: the content is reached only through a Guard, which holds the process lock; where the lock is not
// needed the user has promised that one thread at a time calls MPI (one user of the library, with a thread
// level below MPI_THREAD_MULTIPLE).
unsafe impl Sync for Cell {}

/// The right to use the process's state.
#[derive(Debug)]
pub struct Guard {
    process: *mut Process,
    /// State that all interfaces of the process share.
    pub rank: LockedRank,
}

/// Enters the library; `None` before Init and after Finalize.
#[inline(always)]
pub fn enter() -> Option<Guard> {
    if phase() != RUNNING {
        return enter_checked();
    }
    // SAFETY: the phase is RUNNING.
    Some(unsafe { take_lock() })
}

/// Enters the library for a short way; `None` before Init, after Finalize, and while the program is being
/// checked.
#[inline(always)]
pub fn enter_running() -> Option<Guard> {
    if phase() != RUNNING {
        return None;
    }
    // SAFETY: the phase is RUNNING.
    Some(unsafe { take_lock() })
}

#[cold]
fn enter_checked() -> Option<Guard> {
    // SAFETY: the phase is one of the two.
    matches!(phase(), CHECKED | PENDING).then(|| unsafe { take_lock() })
}

/// Enters the library in a phase in which calls find the process.
///
/// # Safety
/// The caller has seen that the phase is RUNNING, CHECKED or PENDING.
#[inline(always)]
pub(crate) unsafe fn take_lock() -> Guard {
    LOCK.acquire();
    // SAFETY: these phases say that the value is there, and it stays; the lock is ours, and the rank started
    // before the process.
    let (process, rank) = unsafe { ((*PROCESS.0.get()).as_mut().unwrap_unchecked(), LockedRank::new()) };
    rank.count_call(process.engine.counters.messages);
    Guard { process, rank }
}

/// Calls find the process from now on.
pub(crate) fn begin(process: Process) {
    // SAFETY: Init is called once and before anything else (checked by the caller), so nobody else looks at
    // the cell.
    unsafe { *PROCESS.0.get() = Some(process) };
    // SAFETY: the functions are static, and the library is never unloaded (`-z nodelete`).
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(enter_child)) };
    let phase = if check_mode::is_on() { CHECKED } else { RUNNING };
    PHASE.store(phase, Ordering::Release);
    crate::events::arm();
}

/// Calls find none any more. The state itself is kept: a thread that wrongly still waits must not find freed
/// memory.
pub(crate) fn end() {
    PHASE.store(AFTER, Ordering::Release);
}

/// Whether a process for which calls find none any more may be used again.
pub(crate) fn may_come_back() -> bool {
    // SAFETY: the phase is AFTER, and the caller holds the lock of start and end: no thread is in a call.
    let process = unsafe { (*PROCESS.0.get()).as_ref() };
    process.is_some_and(|process| process.engine.job.network().is_none())
}

/// Calls find the process again, as it was: its rank has come back to the job.
pub(crate) fn come_back() {
    PHASE.store(if check_mode::is_on() { CHECKED } else { RUNNING }, Ordering::Release);
    crate::events::arm();
}

/// Limit of a fork's wait for a thread in the library, so that the child's copy of the state is whole.
/// The fork may have interrupted its own thread there, which it cannot wait for.
const FORK_PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// Whether this thread has taken the lock for its fork.
    static HOLDS_FOR_FORK: cell::Cell<bool> = const { cell::Cell::new(false) };
}

extern "C" fn before_fork() {
    let is_running = matches!(phase(), RUNNING | CHECKED | PENDING);
    HOLDS_FOR_FORK.set(is_running && LOCK.acquire_within(FORK_PATIENCE));
}

extern "C" fn after_fork() {
    if HOLDS_FOR_FORK.replace(false) {
        LOCK.release();
    }
}

/// The first thing that a forked child does. Every call's one test of the phase then finds that the process
/// is no rank.
extern "C" fn enter_child() {
    after_fork();
    if matches!(phase(), RUNNING | CHECKED | PENDING) {
        PHASE.store(FORKED, Ordering::Relaxed);
    }
}

/// Why a call finds no process, as the end of a sentence.
pub fn absence() -> &'static str {
    match phase() {
        BEFORE => "before MPI_Init",
        FORKED => {
            "in a process that its rank has forked: there only MPI_Comm_rank, MPI_Comm_size and what is allowed before MPI_Init can be called; a program that the child executes may start MPI"
        }
        _ => "after MPI_Finalize",
    }
}

/// The error handler of MPI_COMM_WORLD at the moment of a fork, in the child.
pub fn handler_before_fork() -> Option<MPI_Errhandler> {
    if phase() != FORKED {
        return None;
    }
    // SAFETY: the copy belongs to this process, none of whose threads changes it any more; a handler is one
    // word.
    let process = unsafe { (*PROCESS.0.get()).as_ref() };
    process.map(|process| process.comms.world().errhandler)
}

/// The state at the moment of a fork, in the child, for questions that it can answer alone; none: this is no
/// such child, or another thread was changing it.
pub fn state_before_fork() -> Option<&'static Process> {
    if phase() != FORKED || LOCK.may_be_held() {
        return None;
    }
    // SAFETY: the copy belongs to this process, in which nothing changes it any more.
    unsafe { (*PROCESS.0.get()).as_ref() }
}

/// Kernel's number of the calling thread.
pub fn thread_id() -> libc::pid_t {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Works on the state for somebody else who holds the process lock.
pub(crate) fn with_state<T>(action: impl FnOnce(&mut Process) -> T) -> T {
    // SAFETY: the waits and the router of the rank call this, under the process lock, and none of our own
    // calls has borrowed the state meanwhile: those reach it through a guard, a step at a time.
    let process = unsafe { (*PROCESS.0.get()).as_mut() };
    action(process.expect("who has registered has a state"))
}

impl Guard {
    /// Leaves the library: as dropping the guard, in place.
    #[inline(always)]
    pub fn leave(self) {
        drop(self);
    }
}

impl Deref for Guard {
    type Target = Process;

    #[inline(always)]
    fn deref(&self) -> &Process {
        // SAFETY: the guard holds the lock (or the user's promise), and the process lives until Finalize.
        unsafe { &*self.process }
    }
}

impl DerefMut for Guard {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Process {
        // SAFETY: as above.
        unsafe { &mut *self.process }
    }
}
