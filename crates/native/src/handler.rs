//! The threads that run functions of the program: one for each signal that is open. One function runs at a
//! time.

use core::ffi::{c_int, c_void};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tutti_runtime::rank;
use tutti_shm::queue::Queue;
use tutti_shm::watch;

/// Function that a signal starts: its data, their length, the sender, and what the receiver gave when it
/// opened it.
pub type Handler = unsafe extern "C" fn(*const c_void, usize, c_int, *mut c_void);

/// A thread that serves a signal.
#[derive(Debug)]
pub(crate) struct Server {
    queue: Queue,
    is_closed: AtomicBool,
    has_ended: Mutex<bool>,
    ended: Condvar,
}

// SAFETY: the memory of the queue stays until the thread has ended ([`end`]); its words are atomics, and one
// thread alone takes messages out.
unsafe impl Send for Server {}
// SAFETY: as above.
unsafe impl Sync for Server {}

/// By the number of the region.
static SERVERS: Mutex<BTreeMap<u32, Arc<Server>>> = Mutex::new(BTreeMap::new());
/// Held while a function runs.
static ONE: Mutex<()> = Mutex::new(());

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// A poisoned lock is as good as any: nothing panics inside.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this thread is in a function that a signal has started.
pub(crate) fn is_running_here() -> bool {
    IS_RUNNING.get()
}

/// A server for a region; its thread is not there yet.
pub(crate) fn begin(slot: u32, queue: Queue) -> Arc<Server> {
    let server = Server {
        queue,
        is_closed: AtomicBool::new(false),
        has_ended: Mutex::new(false),
        ended: Condvar::new(),
    };
    let server = Arc::new(server);
    lock(&SERVERS).insert(slot, server.clone());
    server
}

/// Ends the thread of a region and waits for that. The caller has no process lock.
pub(crate) fn end(slot: u32) {
    let Some(server) = lock(&SERVERS).remove(&slot) else { return };
    server.is_closed.store(true, SeqCst);
    server.queue.wake();
    let mut has_ended = lock(&server.has_ended);
    while !*has_ended {
        has_ended = server.ended.wait(has_ended).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Ends a sleep of the thread of a region.
pub(crate) fn wake(slot: u32) {
    let server = lock(&SERVERS).get(&slot).cloned();
    if let Some(server) = server {
        server.queue.wake();
    }
}

/// Runs a function of the program, after those that run already. Threads of this process that wait for words
/// look again behind it: it may have stored them.
pub(crate) fn run(function: impl FnOnce()) {
    {
        let _one = lock(&ONE);
        IS_RUNNING.set(true);
        function();
        IS_RUNNING.set(false);
    }
    if let Some(rank) = rank::enter() {
        watch::notify(rank.job.endpoint(rank.job.rank()));
    }
}

impl Server {
    /// Queue of the signal, whose memory stays until the thread has ended.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Whether it is to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }

    /// Runs a function of the program, after those that run already.
    pub(crate) fn run(&self, function: impl FnOnce()) {
        run(|| {
            if !self.is_closed() {
                function();
            }
        });
    }

    /// The last act of its thread.
    pub(crate) fn note_end(&self) {
        *lock(&self.has_ended) = true;
        self.ended.notify_all();
    }
}
