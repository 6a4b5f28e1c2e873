//! Users of the library: the world model (MPI_Init to MPI_Finalize) and sessions (MPI 11.2 and 11.3), in any
//! order and at the same time. A process takes its place in the job once, for the first of them; it leaves
//! when the world model has ended and no session is open, or, if there never was a world model, when the
//! process ends, for it may open another session until then. In a job on one node it comes back for a session
//! that is opened later ([`tutti_runtime::rank`]).
//!
//! Each user of the library, the world model or a session, promises for its own calls alone how many threads
//! make them. So the process lock is needed from MPI_THREAD_MULTIPLE on, for a second user beside one that
//! has threads, and for a tool whose threads come beside those of the program.

use core::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tutti_runtime::attach::AttachError;
use tutti_runtime::bad_memory;
use tutti_runtime::rank::{self, LOCK};
use tutti_runtime::service;
use tutti_shm::ticket::APPLICATION_VARIABLE;

use crate::abi::*;
use crate::argument_names;
use crate::check::inspection::Inspect;
use crate::check::leftovers;
use crate::comm::HasComms;
use crate::comm::calls;
use crate::comm::spawn::SUCCESSOR;
use crate::comm::{CONTEXTS_PER_COMM, Comm, Comms, Group};
use crate::datatype::Types;
use crate::engine::Engine;
use crate::error::{Error, Result, check};
use crate::events;
use crate::moving;
use crate::phase::{self, AFTER, BEFORE, RUNNING};
use crate::process::waiting;
use crate::process::{self, Guard, Process};
use crate::progress::Progress;
use crate::request::{Request, RequestKind};
use crate::session::{Environment, Session};
use crate::wait_goal::{Goal, Outside};

/// Phase of the world model.
static WORLD: AtomicU8 = AtomicU8::new(BEFORE);
/// Open sessions.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);
/// A tool's threads may come beside those of the program.
static HAS_TOOL_THREADS: AtomicBool = AtomicBool::new(false);
/// Kernel's number of the thread that began.
static MAIN_THREAD: AtomicI32 = AtomicI32::new(0);
/// Held while the library starts or ends.
static CHANGE: Mutex<()> = Mutex::new(());

/// Phase of the world model: MPI_Initialized and MPI_Finalized tell it.
pub(crate) fn world_phase() -> u8 {
    WORLD.load(Ordering::Acquire)
}

/// Why the library did not start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The world model was started before.
    Twice,
    /// The place in the job cannot be had.
    Attach(AttachError),
}

/// Starts the world model.
///
/// # Errors
/// When it was started before, or the place in the job cannot be had.
pub(crate) fn start_world(required: c_int) -> std::result::Result<(), StartError> {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    if world_phase() != BEFORE {
        return Err(StartError::Twice);
    }
    start_or_join(required, false).map_err(StartError::Attach)?;
    WORLD.store(RUNNING, Ordering::Release);
    Ok(())
}

/// Ends the world model. The caller has deleted what hangs on MPI_COMM_SELF.
pub(crate) fn end_world() {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    WORLD.store(AFTER, Ordering::Release);
    if SESSIONS.load(Ordering::Acquire) == 0 {
        leave();
    }
}

/// One more session.
///
/// # Errors
/// MPI_ERR_UNSUPPORTED_OPERATION when this process has left its job; MPI_ERR_OTHER when it cannot take its
/// place.
pub(crate) fn open(session: Session) -> Result<MPI_Session> {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    check(phase::phase() != AFTER || process::may_come_back(), MPI_ERR_UNSUPPORTED_OPERATION, || {
        "this process has left its job on several nodes with MPI_Finalize and the end of its last session"
            .into()
    })?;
    let is_first = phase::phase() == BEFORE;
    start_or_join(session.thread_level, true).map_err(|error| Error::new(MPI_ERR_OTHER, error))?;
    if is_first {
        // SAFETY: the function is static and takes no argument.
        unsafe { libc::atexit(leave_at_exit) };
    }
    SESSIONS.fetch_add(1, Ordering::AcqRel);
    let mut guard = process::enter()
        .ok_or_else(|| Error::new(MPI_ERR_OTHER, format_args!("called {}", process::absence())))?;
    let index = guard.env.sessions.insert(session);
    Ok(MPI_Session(guard.env.sessions.handle(index)))
}

/// One session less; the handle is stale already.
pub(crate) fn closed() {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    if SESSIONS.fetch_sub(1, Ordering::AcqRel) == 1 && world_phase() == AFTER {
        leave();
    }
}

/// One more user of the library: the first takes the place in the job.
fn start_or_join(required: c_int, is_session: bool) -> std::result::Result<(), AttachError> {
    match phase::phase() {
        BEFORE => return start(required, is_session),
        AFTER => {
            rank::start()?;
            process::come_back();
        }
        _ => {}
    }
    // Another user's thread may be in a call at this moment.
    if required != MPI_THREAD_SINGLE || LOCK.is_noted() {
        LOCK.need();
    }
    raise_thread_level(required);
    Ok(())
}

/// A tool calls with this level of threads from now on; gives the level that holds for it.
pub(crate) fn join_tool(required: c_int) -> c_int {
    if required <= MPI_THREAD_FUNNELED {
        return required.max(MPI_THREAD_SINGLE);
    }
    if events::is_restricted() {
        // A callback under the process lock changes nothing about it.
        return if LOCK.is_needed() { MPI_THREAD_MULTIPLE } else { MPI_THREAD_FUNNELED };
    }
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    let has_begun = phase::phase() != BEFORE;
    if has_begun && !LOCK.is_noted() && process::thread_id() != MAIN_THREAD.load(Ordering::Relaxed) {
        // The main thread has said that it is the only one, so nothing notes whether it is in a call.
        return MPI_THREAD_FUNNELED;
    }
    HAS_TOOL_THREADS.store(true, Ordering::Relaxed);
    if has_begun {
        LOCK.need();
    }
    MPI_THREAD_MULTIPLE
}

/// The first user of the library takes the lock as far as its threads need it.
fn begin_locking(required: c_int, is_session: bool) {
    MAIN_THREAD.store(process::thread_id(), Ordering::Relaxed);
    if required == MPI_THREAD_MULTIPLE || HAS_TOOL_THREADS.load(Ordering::Relaxed) {
        LOCK.need_while_held();
    } else if required != MPI_THREAD_SINGLE || is_session {
        // A second one may come at any time.
        LOCK.watch_while_held();
    }
}

fn leave() {
    if let Some(guard) = process::enter() {
        finish(guard);
    }
}

/// A process that only had sessions leaves when it ends, if it has closed them all.
extern "C" fn leave_at_exit() {
    if world_phase() != RUNNING && SESSIONS.load(Ordering::Acquire) == 0 {
        leave();
    }
}

/// Takes this process's place in its job. The caller has made sure that this happens once.
///
/// # Errors
/// When there is a ticket but the place cannot be had.
fn start(required: c_int, is_session: bool) -> std::result::Result<(), AttachError> {
    rank::start()?;
    bad_memory::set_arguments("MPI_", argument_names::write);
    let mut rank = rank::enter().expect("the rank has just started");
    let job = rank.job.clone();
    let is_alone = job.starter().is_none();
    let check = crate::check::start(&job);
    crate::stats::start();
    crate::invariant::report_broken_ones(job.rank());
    if let Err(error) = rank.open_network() {
        rank.give_up();
        return Err(error);
    }
    begin_locking(required, is_session);
    let spawned = job.spawned().cloned();
    let world_context = spawned.as_ref().map_or(0, |spawned| spawned.context);
    if world_context != SUCCESSOR || spawned.is_none() {
        crate::info::remember_ranks(job.world().len());
    }
    let world = Rc::new(Group::new(job.world().to_vec()));
    let alone = Rc::new(Group::new(vec![job.rank() as u32]));
    let mut predefined_comms =
        [Comm::new(world_context, job.world_place(), world), Comm::new(CONTEXTS_PER_COMM, 0, alone)];
    predefined_comms[0].name = b"MPI_COMM_WORLD".to_vec();
    predefined_comms[1].name = b"MPI_COMM_SELF".to_vec();
    for comm in &mut predefined_comms {
        comm.errhandler = crate::initial_errhandler::handler();
    }
    let engine = Engine::new(job, rank.router.clone(), Some(waiting::lend_client));
    engine.expose_unexpected(LOCK.word());
    let job = &engine.job;
    let app_number = if is_alone { None } else { app_number() };
    let process = Process {
        env: Environment::new(job.universe() as c_int, app_number, required, process::thread_id()),
        engine,
        comms: Comms::new(predefined_comms),
        types: Types::new(),
        attributes: Default::default(),
        colls: Default::default(),
        wins: Default::default(),
        files: Default::default(),
        persistents: Default::default(),
        check,
    };
    process::begin(process);
    rank.register(&waiting::Mpi);
    service::start(&rank)?;
    drop(rank);
    if let Some(spawned) = spawned
        && let Some(mut guard) = process::enter()
    {
        if spawned.context != SUCCESSOR {
            calls::meet_parents(&mut guard, &spawned);
        } else if !moving::take_over(&mut guard, &spawned) {
            finish(guard);
            // SAFETY: a status is given; nobody waits for this process.
            unsafe { libc::exit(0) };
        }
    }
    Ok(())
}

/// Which of the job's programs this one is. A process that is no rank may have inherited another's number.
fn app_number() -> Option<c_int> {
    std::env::var(APPLICATION_VARIABLE).ok()?.parse().ok()
}

/// The process is there already, and somebody asks for more threads.
pub(crate) fn raise_thread_level(required: c_int) {
    match required {
        MPI_THREAD_SINGLE => {}
        MPI_THREAD_MULTIPLE => LOCK.need(),
        // The caller is the only thread that uses the library, unless it is watched already.
        _ => LOCK.watch(),
    }
    if let Some(mut guard) = process::enter() {
        guard.env.thread_level = guard.env.thread_level.max(required);
    }
}

/// Leaves the job: what is owed to others is sent, then the state goes.
pub(crate) fn finish(mut guard: Guard) {
    if crate::check_mode::is_on() {
        look_for_leftovers(&mut guard);
    }
    // Who sends a message to itself need not have received it.
    let own = guard.engine.job.rank() as c_int;
    let sends = |request: &Request| request.kind == RequestKind::Send && request.peer != own;
    guard.wait(None, Goal::Pending(&sends), |engine| engine.is_flushed().then_some(()));
    if guard.engine.may_have_guests() {
        guard.engine.leave_guests();
        let goal = Goal::Outside(Outside::Launch);
        guard.wait(None, goal, |engine| engine.is_flushed().then_some(()));
    }
    guard.comms.take_names_back();
    guard.engine.publish_all();
    let job = guard.engine.job.clone();
    guard.comms.release_blocks(&job);
    crate::stats::leave(&guard.engine, &guard.rank);
    process::end();
    // The state itself is kept: a thread that wrongly still waits must not find freed memory. The process is
    // about to end anyway.
    guard.rank.leave_job();
}

/// All ranks meet, and rank 0 says what they have left.
fn look_for_leftovers(call: &mut (impl Progress + Inspect + HasComms)) {
    leftovers::begin();
    // The world always exists and has no way to fail.
    let Ok(meeting) = calls::whole(call, MPI_COMM_WORLD) else { return };
    let _ = meeting.allgather(call, [0]);
    while call.progress(None) {}
    let numbers = call.inspect().leftover_numbers();
    let Ok(all) = meeting.gather_numbers(call, &numbers) else { return };
    if meeting.me == 0 {
        call.inspect().say_leftovers(&all);
    }
}
