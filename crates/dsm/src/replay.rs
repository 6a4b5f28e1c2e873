//! Replay of what `main` gets from outside before CREATE: rank 0 gets it, the others get the same from rank
//! 0, in the order of their calls. Their output goes nowhere.
//!
//! | call of the program | rank 0 | others |
//! |---|---|---|
//! | time, gettimeofday, clock_gettime, getpid | asks | the same value |
//! | reads of `stdin` | reads | the same bytes |
//! | fopen to read | opens | the same content, or the same error |
//! | fopen to write | opens | /dev/null |
//! | CREATE, the end of `main` | sends | are checked: all ranks come to the same |
//!
//! An entry is a message of MPI: kind, length and a number, then bytes. Calls are those of the program's own
//! objects: `tutticc` wraps them (`--wrap`).

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tutti_mpi::abi::*;
use tutti_mpi::api;

use crate::process::{self, Stage, running};
use crate::site::Site;
use crate::{failure, os};

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// A clock, or a number of a process.
    Value = 1,
    /// Bytes of standard input.
    Input = 2,
    /// A file that is opened to be read.
    File = 3,
    /// CREATE.
    Create = 4,
    /// The end of `main`.
    End = 5,
}

const TAG: c_int = 0x7c00;

/// The first rank that replays, and the one behind the last.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);
/// Standard output and standard error of a rank that is silent.
static STDOUT: AtomicUsize = AtomicUsize::new(0);
static STDERR: AtomicUsize = AtomicUsize::new(0);

/// From now on ranks above 0 replay.
pub(crate) fn begin(me: usize, ranks: usize) {
    FIRST.store(1, SeqCst);
    LAST.store(ranks, SeqCst);
    if ranks > 1 {
        replace_stdin();
    }
    if me > 0 {
        silence();
    }
}

/// Input that all ranks get alike: rank 0 makes it.
pub fn shared(kind: Kind, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    match running().as_ref().map(|running| running.stage) {
        Some(Stage::Replaying) => {}
        Some(Stage::Main) => {
            let made = make();
            send(kind, 0, &made);
            return made;
        }
        _ => return make(),
    }
    let (found, _, bytes) = receive();
    expect(kind, found);
    bytes
}

/// Rank 0 comes to CREATE, which makes processes of the ranks from `first` to before `end`.
pub(crate) fn create(first: usize, end: usize, count: i64) {
    assert_eq!(first, FIRST.load(SeqCst), "the first rank that replays is created");
    send(Kind::Create, count as u64, &[]);
    FIRST.store(end, SeqCst);
}

/// Rank 0 ends.
pub(crate) fn end() {
    send(Kind::End, 0, &[]);
}

/// A rank that replays comes to CREATE.
pub(crate) fn expect_create(count: i64, site: Site<'_>) {
    let (found, number, _) = receive();
    expect(Kind::Create, found);
    if number != count as u64 {
        let me = own_rank();
        let what = "main must do the same on all ranks up to CREATE";
        failure::end_alone(
            1,
            format_args!("{site}: CREATE of {count} processes on rank {me}, of {number} on rank 0: {what}"),
        );
    }
}

/// A rank that replays comes to the end of `main`.
pub(crate) fn expect_end() {
    let (found, ..) = receive();
    expect(Kind::End, found);
}

/// Output goes where it would from now on.
pub(crate) fn unsilence() {
    failure::set_replays(false);
    os::flush_streams();
    for (place, descriptor) in [(&STDOUT, libc::STDOUT_FILENO), (&STDERR, libc::STDERR_FILENO)] {
        os::duplicate_onto(place.load(SeqCst) as i32, descriptor);
    }
}

fn silence() {
    for (place, descriptor) in [(&STDOUT, libc::STDOUT_FILENO), (&STDERR, libc::STDERR_FILENO)] {
        place.store(os::duplicate(descriptor) as usize, SeqCst);
    }
    failure::set_replays(true);
    failure::set_stderr(STDERR.load(SeqCst) as i32);
    // SAFETY: the path is a string; what is opened is given to the two descriptors.
    unsafe {
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        os::duplicate_onto(nowhere, libc::STDOUT_FILENO);
        os::duplicate_onto(nowhere, libc::STDERR_FILENO);
        libc::close(nowhere);
    }
}

fn own_rank() -> usize {
    process::with(|running| running.me())
}

/// Ranks must come to the same calls in the same order.
fn expect(wanted: Kind, found: u64) {
    if found != wanted as u64 {
        let name = |kind| match kind {
            1 => "asks for the time or its number",
            2 => "reads standard input",
            3 => "opens a file to read",
            4 => "comes to CREATE",
            _ => "ends",
        };
        let (me, here, there) = (own_rank(), name(wanted as u64), name(found));
        failure::end_alone(
            1,
            format_args!(
                "rank {me} {here} in main, where rank 0 {there}: main must do the same on all ranks up to CREATE"
            ),
        );
    }
}

fn send(kind: Kind, number: u64, bytes: &[u8]) {
    let head = [kind as u64, bytes.len() as u64, number];
    for rank in FIRST.load(SeqCst)..LAST.load(SeqCst) {
        // SAFETY: both places have so many bytes; errors end the job.
        unsafe {
            api::MPI_Send(head.as_ptr().cast(), 24, MPI_BYTE, rank as c_int, TAG, MPI_COMM_WORLD);
            for part in bytes.chunks(PART_BYTES) {
                let count = part.len() as c_int;
                api::MPI_Send(part.as_ptr().cast(), count, MPI_BYTE, rank as c_int, TAG, MPI_COMM_WORLD);
            }
        }
    }
}

/// Bytes of one message.
const PART_BYTES: usize = 1 << 20;

fn receive() -> (u64, u64, Vec<u8>) {
    let mut head = [0_u64; 3];
    let status = std::ptr::null_mut();
    // SAFETY: the places have so many bytes; errors end the job.
    unsafe {
        api::MPI_Recv(head.as_mut_ptr().cast(), 24, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, status);
        let mut bytes = vec![0; head[1] as usize];
        for part in bytes.chunks_mut(PART_BYTES) {
            let count = part.len() as c_int;
            api::MPI_Recv(part.as_mut_ptr().cast(), count, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, status);
        }
        (head[0], head[2], bytes)
    }
}

/// The functions of a stream of one's own (glibc).
#[repr(C)]
struct StreamFunctions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    static mut stdin: *mut libc::FILE;
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: StreamFunctions) -> *mut libc::FILE;
}

/// Lets `stdin` be a stream whose reads are entries. The C library lets a program set it.
fn replace_stdin() {
    let functions = StreamFunctions { read: Some(read_input), write: None, seek: None, close: None };
    // SAFETY: no thread of the program uses the stream yet.
    unsafe {
        let stream = fopencookie(std::ptr::null_mut(), c"r".as_ptr(), functions);
        if !stream.is_null() {
            stdin = stream;
        }
    }
}

unsafe extern "C" fn read_input(_: *mut c_void, into: *mut c_char, bytes: usize) -> isize {
    let read = || {
        let mut buffer = vec![0_u8; bytes];
        // SAFETY: the buffer has so many bytes.
        let count = unsafe { libc::read(libc::STDIN_FILENO, buffer.as_mut_ptr().cast(), bytes) };
        buffer.truncate(count.max(0) as usize);
        buffer
    };
    let found = shared(Kind::Input, read);
    let count = found.len().min(bytes);
    // SAFETY: the C library gives a place for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), into.cast(), count) };
    count as isize
}

/// A number that all ranks get alike.
pub fn value(make: impl FnOnce() -> [i64; 3]) -> [i64; 3] {
    let bytes = shared(Kind::Value, || make().into_iter().flat_map(i64::to_ne_bytes).collect());
    let mut values = [0; 3];
    for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(8)) {
        *value = i64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    values
}

/// `fopen` of the program.
///
/// # Safety
/// Both are strings, as for `fopen`.
pub unsafe fn open(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: our contract.
    let (is_replaying, is_main) = match running().as_ref().map(|running| running.stage) {
        Some(Stage::Replaying) => (true, false),
        Some(Stage::Main) => (false, FIRST.load(SeqCst) < LAST.load(SeqCst)),
        _ => (false, false),
    };
    // SAFETY: our contract.
    let is_read = unsafe { CStr::from_ptr(mode) }.to_bytes().first() == Some(&b'r');
    match (is_replaying, is_read) {
        (true, true) => open_copy(mode),
        // SAFETY: strings.
        (true, false) => unsafe { libc::fopen(c"/dev/null".as_ptr(), mode) },
        // SAFETY: our contract.
        (false, _) => unsafe {
            let stream = libc::fopen(path, mode);
            let error = *libc::__errno_location();
            if is_main && is_read {
                send_file(path, if stream.is_null() { error } else { 0 });
                *libc::__errno_location() = error;
            }
            stream
        },
    }
}

/// Sends a file whole, or why it cannot be opened.
///
/// # Safety
/// The path is a string.
unsafe fn send_file(path: *const c_char, error: c_int) {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: our contract.
    let path = std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    let content = if error == 0 { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    send(Kind::File, error as u64, &content);
}

/// A stream with the content that rank 0 has found.
fn open_copy(mode: *const c_char) -> *mut libc::FILE {
    let (found, error, content) = receive();
    expect(Kind::File, found);
    // SAFETY: the descriptor is ours until the stream has it; the bytes are there during the calls.
    unsafe {
        if error != 0 {
            *libc::__errno_location() = error as c_int;
            return std::ptr::null_mut();
        }
        let file = libc::memfd_create(c"tutti-replay".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return std::ptr::null_mut();
        }
        let mut rest = &content[..];
        while !rest.is_empty() {
            let count = libc::write(file, rest.as_ptr().cast(), rest.len());
            if count <= 0 {
                break;
            }
            rest = &rest[count as usize..];
        }
        libc::lseek(file, 0, libc::SEEK_SET);
        libc::fdopen(file, mode)
    }
}
