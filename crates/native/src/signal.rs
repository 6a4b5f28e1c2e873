//! Signals (SSS-CORE, memory-based signals): a queue whose messages a function of the receiver takes, while
//! the receiver computes.
//!
//! A thread of the library waits for messages. It takes each out under the process lock and runs the function
//! without it. Nothing happens in a handler of the operating system's signals, so the function may call
//! whatever a thread of the program may.
//!
//! ```text
//! sender                         thread of the receiver
//! reserve, copy, commit          take (process lock) -> function -> done -> sleeper = 1, look, futex wait
//! sleeper != 0 ? futex wake
//! ```
//!
//! An onlooker that looks for deadlocks sees in the queue itself whether a message waits or a function runs
//! ([`tutti_shm::observe::Signals`]). The thread that wakes up each second changes none of these words.

use core::ffi::{c_int, c_void};
use std::time::Duration;

use tutti_runtime::{background, rank, sleep};

use crate::handle::Handle;
pub use crate::handler::Handler;
use crate::handler::{self, Server};
use crate::region::{self, Taker};
use crate::status::*;

/// How often a thread without work looks whether its process has left the job.
const LOOK: Duration = Duration::from_secs(1);
/// Stack of a thread that runs handlers of the program.
const STACK_BYTES: usize = 256 << 10;

/// Context that a function gets as its last argument.
struct Context(*mut c_void);

// SAFETY: it is the program's, which knows that the function runs in another thread.
unsafe impl Send for Context {}

/// Work of a signal's thread: a message, what there is to do without one, how soon to look again.
pub trait Body: Send + 'static {
    /// A message has come from a rank. Functions of the program run here.
    fn handle(&mut self, data: &[u8], from: u32);

    /// Longest sleep of the thread when nothing has come. Called before each sleep.
    fn rest(&mut self) -> Duration {
        LOOK
    }

    /// Whether there is work besides messages, so that the thread does not fall asleep.
    fn has_work(&self) -> bool {
        false
    }
}

/// Function of the program, and its last argument.
struct Function(Handler, Context);

impl Body for Function {
    fn handle(&mut self, data: &[u8], from: u32) {
        // SAFETY: contract of `open`.
        unsafe { (self.0)(data.as_ptr().cast(), data.len(), from as c_int, self.1.0) };
    }
}

/// Opens a signal: whoever has the handle starts the function by a message of at most so many bytes.
///
/// # Safety
/// The function may be called by any thread until the signal is closed.
pub unsafe fn open(bytes: usize, function: Handler, context: *mut c_void) -> Result<Handle, c_int> {
    open_with(bytes, STACK_BYTES, Function(function, Context(context)))
}

/// Opens a signal whose messages a body of the library handles, in a thread with so large a stack.
///
/// # Errors
/// [`MEMORY`], [`INVALID`] for a length of 0, [`NOT_RUNNING`].
pub fn open_with(bytes: usize, stack_bytes: usize, mut body: impl Body) -> Result<Handle, c_int> {
    let handle = region::open_queue(bytes, Taker::Handler)?;
    sleep::note_handlers();
    let queue = {
        let _rank = rank::enter().ok_or(NOT_RUNNING)?;
        region::own_queue(&handle, Taker::Handler)?
    };
    let server = handler::begin(handle.slot.into(), queue);
    let own = server.clone();
    let run = move || {
        serve(&own, &mut body);
        own.note_end();
    };
    if background::spawn_with_stack("tutti-signal", stack_bytes, run).is_err() {
        server.note_end();
        region::close(&handle);
        return Err(MEMORY);
    }
    Ok(handle)
}

/// Ends a sleep of a signal's thread, which looks whether its body has work.
pub fn wake(handle: &Handle) {
    handler::wake(handle.slot.into());
}

fn serve(server: &Server, body: &mut impl Body) {
    let mut data = Vec::new();
    while !server.is_closed() {
        let Some(rank) = rank::enter() else { return };
        // The function has returned from what was taken before, and what is no message was dropped.
        server.queue().finish();
        let taken = server.queue().peek();
        if let Some(message) = taken {
            data.resize(message.bytes, 0);
            // SAFETY: so many bytes; this thread alone takes from the queue.
            unsafe { server.queue().take(message, data.as_mut_ptr()) };
        }
        drop(rank);
        match taken {
            Some(message) => server.run(|| body.handle(&data, message.from)),
            None => {
                let at_most = body.rest();
                server.queue().sleep(at_most, || server.is_closed() || body.has_work());
            }
        }
    }
}
