//! A broken invariant of ours: one line with version, rank and which one, then the end of the process (and so
//! of the job).

use tutti_runtime::{end, log};

/// Exit status of a process whose output does not go out before the end of its time.
const ABORTED: core::ffi::c_int = 128 + libc::SIGABRT;

/// Installs the hook for this copy of the library.
pub(crate) fn report_broken_ones(rank: usize) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(|l| format!(" at {}:{}", l.file(), l.line())).unwrap_or_default();
        let what = info.payload_as_str().unwrap_or("unknown");
        let version = env!("CARGO_PKG_VERSION");
        log::line(format_args!(
            "version {version}, rank {rank}: broken invariant{place}: {what}; please report this"
        ));
        end::flush_before_death(ABORTED);
    }));
}
