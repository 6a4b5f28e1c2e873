//! Ends what cannot go on: one line, then the job ends with a status that is not 0. Takes no lock and
//! needs no heap of the program's but for the line: also from the handler of faults.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use tutti_mpi::end_job::{By, end_job};
use tutti_runtime::log;

/// Standard error as it was before a rank was silenced; -1: it is as it was.
static STDERR: AtomicI32 = AtomicI32::new(-1);

/// Lines go to this descriptor from now on.
pub(crate) fn set_stderr(descriptor: i32) {
    STDERR.store(descriptor, Ordering::Relaxed);
}

/// Whether this rank runs `main` as rank 0 does: what is wrong there rank 0 says.
static REPLAYS: AtomicBool = AtomicBool::new(false);

/// How long rank 0 has to say it.
const PATIENCE: Duration = Duration::from_secs(10);

/// From now on rank 0 says what is wrong, or not any more.
pub(crate) fn set_replays(replays: bool) {
    REPLAYS.store(replays, Ordering::Relaxed);
}

/// Ends the job with one line.
#[cold]
pub fn end(what: fmt::Arguments<'_>) -> ! {
    if REPLAYS.load(Ordering::Relaxed) {
        std::thread::sleep(PATIENCE);
    }
    end_alone(1, what)
}

/// The same with an exit status, for what this rank alone has found.
#[cold]
pub fn end_alone(status: i32, what: fmt::Arguments<'_>) -> ! {
    let stderr = STDERR.load(Ordering::Relaxed);
    if stderr >= 0 {
        crate::os::duplicate_onto(stderr, libc::STDERR_FILENO);
    }
    log::line(what);
    end_job(By::Error, status)
}

/// Says a line from a handler, wherever the program was: it takes no heap and no lock. What is wrong in
/// `main` before CREATE rank 0 says, whose process ends by it as this one does.
pub(crate) fn say_in_handler(what: fmt::Arguments<'_>) {
    if REPLAYS.load(Ordering::Relaxed) {
        std::thread::sleep(PATIENCE);
    }
    let stderr = STDERR.load(Ordering::Relaxed);
    log::line_without_heap(if stderr >= 0 { stderr } else { libc::STDERR_FILENO }, what);
}

/// Another rank says what is wrong and ends the job.
pub fn await_end() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}
