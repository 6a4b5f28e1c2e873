//! A panic of this library: one line with version, rank and which invariant is broken, or that an exception
//! of the program has come, then the end of the process (and so of the job).

use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicUsize, Ordering};

use tutti_runtime::{end, log};

/// Exit status of a process whose output does not go out before the end of its time.
const ABORTED: core::ffi::c_int = 128 + libc::SIGABRT;

/// Words of Rust's own about an exception of another language that has come to a function of ours.
const EXCEPTION: &str = "panic in a function that cannot unwind";

static RANK: AtomicUsize = AtomicUsize::new(0);

/// Installs the hook for this copy of the library.
pub(crate) fn report_broken_ones(rank: usize) {
    RANK.store(rank, Ordering::Relaxed);
    std::panic::set_hook(Box::new(|info: &PanicHookInfo| {
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        report(info.payload_as_str().unwrap_or("unknown"), &place);
    }));
}

/// Reports a panic, here or in a face of this library. An exception is no fault of ours and ends the process
/// here, in front of Rust's own line about it.
#[cold]
pub fn report(what: &str, place: &str) {
    let rank = RANK.load(Ordering::Relaxed);
    if what == EXCEPTION {
        log::line(format_args!(
            "rank {rank}: an exception has left a function of the program that MPI calls (an error handler, \
             an operation, a callback): it cannot pass through MPI"
        ));
        end::flush_before_death(ABORTED);
        std::process::abort();
    }
    let version = env!("CARGO_PKG_VERSION");
    log::line(format_args!(
        "version {version}, rank {rank}: broken invariant{place}: {what}; please report this"
    ));
    end::flush_before_death(ABORTED);
}
