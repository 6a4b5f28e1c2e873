//! Thread of a rank that runs quick functions, and sends packed posts that nothing else sends.
//!
//! | it has | it does |
//! |---|---|
//! | a call in the quick queue | runs the function, while main computes or waits, wherever it is |
//! | a burst of packed posts ([`crate::pack`]) | sends what is kept, each [`BURST`] |
//! | neither | sleeps |
//!
//! Main asks for a look by [`ask_flush`] once a burst, so posting costs it one system call a burst.
//! Deadlocks are looked for as with signals: an onlooker sees in the queue whether a quick function runs.

use core::ffi::c_int;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Duration;

use tutti_native::handle::Handle;
use tutti_native::signal::{self, Body};

/// Time that a packed post stays at most while its rank computes.
pub(crate) const BURST: Duration = Duration::from_micros(500);
/// Time after which a thread without work looks whether its process has left the job.
const LOOK: Duration = Duration::from_secs(1);
/// Stack for functions of the program, as main has it; pages that are not touched cost nothing.
const STACK_BYTES: usize = 8 << 20;

/// State: no look is asked for.
const IDLE: u8 = 0;
/// State: a thread that posts asks for a look.
const ASKED: u8 = 1;
/// State: the thread looks once per [`BURST`].
const LOOKING: u8 = 2;

/// Writers: threads that post, from `IDLE` to `ASKED`; that of the quick queue, otherwise. `IDLE` is read and
/// stored under the lock of the state.
static FLUSH: AtomicU8 = AtomicU8::new(IDLE);

/// Work of the thread, on the state of the process.
pub(crate) trait Work: Send + 'static {
    /// Runs the quick function that a message asks for.
    fn run(&mut self, from: u32, message: &[u8]);

    /// Sends packed posts; whether there were any. If not, `end` is called under the lock of the state.
    fn flush(&mut self, end: impl FnOnce()) -> bool;
}

struct Quick<W>(W);

/// Opens the quick queue of this rank, and starts its thread.
pub(crate) fn open(bytes: usize, work: impl Work) -> Result<Handle, c_int> {
    FLUSH.store(IDLE, SeqCst);
    signal::open_with(bytes, STACK_BYTES, Quick(work))
}

/// Posts are kept: the thread looks after them. The caller holds the lock of the state.
pub(crate) fn ask_flush(queue: &Handle) {
    if FLUSH.load(SeqCst) == IDLE {
        FLUSH.store(ASKED, SeqCst);
        signal::wake(queue);
    }
}

impl<W: Work> Body for Quick<W> {
    fn handle(&mut self, data: &[u8], from: u32) {
        self.0.run(from, data);
    }

    fn rest(&mut self) -> Duration {
        if FLUSH.load(SeqCst) == IDLE {
            return LOOK;
        }
        // Asked a moment ago: main goes on posting.
        let has_posts = FLUSH.swap(LOOKING, SeqCst) == ASKED || self.0.flush(|| FLUSH.store(IDLE, SeqCst));
        if has_posts { BURST } else { LOOK }
    }

    fn has_work(&self) -> bool {
        FLUSH.load(SeqCst) == ASKED
    }
}
