//! Standard output and standard error of a rank, as the C library holds them.
//!
//! A rank writes into a pipe or a file, for which the C library keeps KiB of text: nobody would see how far a
//! program is, and its last lines would be lost with it when a signal ends it. So lines leave as they are
//! printed, as on a terminal. MPICH's MPI_Init goes further, and takes the buffer away.

use core::ffi::{c_char, c_int};

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
    fn ftrylockfile(stream: *mut libc::FILE) -> c_int;
    fn funlockfile(stream: *mut libc::FILE);
    fn __fbufsize(stream: *mut libc::FILE) -> usize;
    fn __flbf(stream: *mut libc::FILE) -> c_int;
}

/// Fills the places of standard input, output and error that the program was started without: a socket or
/// the segment of the job would get such a number, and then what the program prints. What is put there
/// refuses all, as a closed descriptor does.
pub(crate) fn occupy_closed() {
    let places = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];
    for place in places {
        let refusing = if place == libc::STDIN_FILENO { libc::O_WRONLY } else { libc::O_RDONLY };
        // SAFETY: plain system calls; the lowest free number is this one, as those below it are taken by now.
        unsafe {
            if libc::fcntl(place, libc::F_GETFD) < 0 {
                libc::open(c"/dev/null".as_ptr(), refusing);
            }
        }
    }
}

/// Writes each line of standard output when it is complete, from now on: unless the program has chosen a
/// buffer, or another thread holds the stream.
pub(crate) fn write_by_lines() {
    // SAFETY: the stream is the C library's, and locked; it keeps the buffer that it has or gets.
    unsafe {
        if ftrylockfile(stdout) != 0 {
            return;
        }
        let bytes = __fbufsize(stdout);
        let is_chosen = __flbf(stdout) != 0 || (bytes != 0 && bytes != default_bytes());
        if !is_chosen {
            libc::setvbuf(stdout, std::ptr::null_mut::<c_char>(), libc::_IOLBF, 0);
            // What has been printed by now leaves too; from here on the C library looks for ends of lines.
            libc::fflush(stdout);
        }
        funlockfile(stdout);
    }
}

/// Bytes of the buffer that the C library takes by itself, once something is printed.
fn default_bytes() -> usize {
    // SAFETY: zeroed is a value of this plain structure, and a place for the answer.
    let bytes = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(libc::STDOUT_FILENO, &mut found) == 0).then_some(found.st_blksize as usize)
    };
    let most = libc::BUFSIZ as usize;
    bytes.filter(|bytes| (1..most).contains(bytes)).unwrap_or(most)
}

/// Writes out what stdio has of standard output and standard error, as far as no other thread holds them: a
/// process that leaves its job may go on as another program (exec), which has no such buffers.
pub fn flush_printed() {
    // SAFETY: flushing is allowed at any time; the streams are those of the C library.
    unsafe {
        for stream in [stdout, stderr] {
            flush_if_free(stream);
        }
    }
}

/// Flushes a stream unless another thread holds it.
///
/// # Safety
///
/// `stream` is one of the C library, or null.
pub(crate) unsafe fn flush_if_free(stream: *mut libc::FILE) {
    // SAFETY: as the caller says.
    unsafe {
        if !stream.is_null() && ftrylockfile(stream) == 0 {
            libc::fflush(stream);
            funlockfile(stream);
        }
    }
}
