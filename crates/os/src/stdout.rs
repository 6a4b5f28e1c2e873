//! Text of commands on standard output: all of it is written, or the command says why not and fails.
//!
//! The standard library takes a closed standard output for one that takes everything: it opens /dev/null in
//! its place before `main`, and calls a write that is refused for it a success. So commands write here.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::stdio::stdout;

use crate::flush_file;
use crate::stderr::print_line;

/// Prints a text at once; whether all of it is written. If not a line says why, unless the reader has gone:
/// it wants no more.
#[must_use]
pub fn print(text: &str) -> bool {
    write(text.as_bytes()).and_then(|()| flush()).map_err(|error| report(&error)).is_ok()
}

/// Waits so long; `false`, at once: whoever reads the output has gone.
#[must_use]
pub fn is_read_after(pause: Duration) -> bool {
    let limit = Timespec::try_from(pause).ok();
    // Without events: the kernel says only that the other end is closed.
    let (output, nothing) = (stdout(), PollFlags::empty());
    let mut polled = [PollFd::new(&output, nothing)];
    poll(&mut polled, limit.as_ref()).is_err() || polled[0].revents().is_empty()
}

/// Writes all of the bytes.
///
/// # Errors
/// The kernel's; [`report`] says it.
pub fn write(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stdout(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            // The other end of what we share with our parent may not wait; this command does.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(&stdout(), PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Has the file system say whether it has what was written, where standard output is a file.
///
/// # Errors
/// The kernel's; [`report`] says it.
pub fn flush() -> io::Result<()> {
    let is_file =
        fstat(stdout()).is_ok_and(|about| FileType::from_raw_mode(about.st_mode) == FileType::RegularFile);
    if is_file { flush_file(stdout()) } else { Ok(()) }
}

/// Prints the line about text that standard output did not take.
pub fn report(error: &io::Error) {
    if error.kind() != ErrorKind::BrokenPipe {
        let called = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&called).file_name().unwrap_or_default().to_string_lossy();
        print_line(format_args!("{name}: cannot write to standard output: {error}"));
    }
}
