//! The DSE process's end of the connection to its kernel, where the two are apart: `tutti_dse_init` starts
//! the kernel, and every other call is a question ([`crate::message`]).
//!
//! The kernel is the process that joins the job; this one is what a launcher would call its wrapper. So a
//! kernel that dies, or a process that ends without `tutti_dse_finish`, ends the job as a rank does. This end
//! holds no place in the job and maps no memory of it.

use core::ffi::{CStr, c_int, c_void};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_native::status::{MEMORY, NOT_RUNNING, OK};
use tutti_runtime::stamps::{self, Mark, Stamp};
use tutti_shmem::start;

use crate::fault::{self, Code, refuse};
use crate::message::{Answer, HEAD, Question, STAMP_BYTES, decode_stamp};

/// Says whether kernel and process are apart.
const VARIABLE: &str = "TUTTI_DSE_KERNEL";
/// Up to here the bytes of a write travel with its question in one system call.
const TOGETHER: usize = 4096;
/// Longer texts than the kernel ever gives.
const TEXT_MAX: usize = 4096;

#[derive(Debug)]
struct Link {
    /// Process of the link: a child that it forks is no element.
    process: u32,
    stream: UnixStream,
    kernel: Child,
}

static LINK: Mutex<Option<Link>> = Mutex::new(None);
/// Whether there is a link, for calls that find none.
static IS_APART: AtomicBool = AtomicBool::new(false);

fn lock() -> MutexGuard<'static, Option<Link>> {
    LINK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the user wants kernel and process apart.
pub(crate) fn is_wanted() -> Result<bool, Code> {
    match std::env::var_os(VARIABLE).as_deref().map(OsStrExt::as_bytes) {
        None | Some(b"" | b"one") => Ok(false),
        Some(b"apart") => Ok(true),
        Some(found) => {
            let found = String::from_utf8_lossy(found);
            let what = format_args!("{VARIABLE} is `{found}`; it may be `one` or `apart`");
            Err(refuse(Code::Invalid, "init", what))
        }
    }
}

/// Starts the kernel, with so many bytes of global memory: the number of this element, and how many there
/// are.
pub(crate) fn start(bytes: usize) -> Result<[usize; 2], Code> {
    if start::has_mpi() {
        let what = format_args!("{VARIABLE} is `apart`, but MPI or OpenSHMEM runs in this process");
        return Err(refuse(Code::NotRunning, "init", what));
    }
    let path = kernel_program();
    let link = connect(&path, bytes).map_err(|error| {
        let what = format_args!("the kernel {} cannot be started: {error}", path.display());
        refuse(Code::NoProgram, "init", what)
    })?;
    *lock() = Some(link);
    IS_APART.store(true, Relaxed);
    let answer = own(&mut lock()).and_then(Link::take_answer);
    match answer {
        Ok([me, count, _]) => Ok([me as usize, count as usize]),
        Err(code) => {
            finish();
            Err(code)
        }
    }
}

fn connect(path: &Path, bytes: usize) -> io::Result<Link> {
    let (stream, theirs) = UnixStream::pair()?;
    // The command has the kernel's end until it is dropped, here: then the kernel alone has it.
    let kernel = Command::new(path).arg(bytes.to_string()).stdin(OwnedFd::from(theirs)).spawn()?;
    Ok(Link { process: std::process::id(), stream, kernel })
}

/// The link of this process.
fn own<'a>(link: &'a mut MutexGuard<'_, Option<Link>>) -> Result<&'a mut Link, Code> {
    link.as_mut().filter(|link| link.process == std::process::id()).ok_or_else(|| {
        refuse(Code::NotRunning, "init", format_args!("not called in this process, a child that was forked"))
    })
}

/// `libexec/tutti/tutti-dse-kernel` beside the folder of the library that this code is in.
fn kernel_program() -> PathBuf {
    let anchor: fn() -> PathBuf = kernel_program;
    // SAFETY: all zero is a valid value, and dladdr fills it in for an address of a loaded object.
    let library = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let is_found = libc::dladdr(anchor as *const c_void, &mut found) != 0 && !found.dli_fname.is_null();
        is_found.then(|| CStr::from_ptr(found.dli_fname).to_bytes().to_vec())
    };
    let library = PathBuf::from(std::ffi::OsStr::from_bytes(&library.unwrap_or_default()));
    let library = library.canonicalize().unwrap_or(library);
    let prefix = library.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    prefix.join("libexec/tutti/tutti-dse-kernel")
}

/// The kernel has been ordered to end, or has refused to begin: it is waited for.
pub(crate) fn finish() {
    IS_APART.store(false, Relaxed);
    if let Some(mut link) = lock().take() {
        drop(link.stream);
        // A program that waits for all its children may have been faster.
        let _ = link.kernel.wait();
    }
}

/// Whether kernel and process are two processes.
pub(crate) fn is_apart() -> bool {
    IS_APART.load(Relaxed)
}

/// Asks the kernel; `None` if there is none of its own.
#[inline]
pub(crate) fn ask(question: Question) -> Option<Result<[i64; 3], Code>> {
    if IS_APART.load(Relaxed) { Some(ask_kernel(question, &[])) } else { None }
}

/// The same, with bytes behind the question.
#[inline]
pub(crate) fn ask_with(question: Question, bytes: &[u8]) -> Option<Result<[i64; 3], Code>> {
    if IS_APART.load(Relaxed) { Some(ask_kernel(question, bytes)) } else { None }
}

#[cold]
fn ask_kernel(question: Question, bytes: &[u8]) -> Result<[i64; 3], Code> {
    let mut link = lock();
    let link = own(&mut link)?;
    link.put(question, bytes);
    link.take_answer()
}

/// Reads global memory through the kernel; `None` if there is none of its own.
///
/// # Safety
/// `to` is valid for writing so many bytes.
#[inline]
pub(crate) unsafe fn read(element: i32, at: usize, to: *mut u8, bytes: usize) -> Option<Result<(), Code>> {
    if !IS_APART.load(Relaxed) {
        return None;
    }
    // SAFETY: our contract; bytes of any value are bytes.
    let place = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
    let mut link = lock();
    Some(own(&mut link).and_then(|link| {
        link.put(Question::Read { element, at: at as u64, bytes: bytes as u64 }, &[]);
        link.take_answer()?;
        link.take(place);
        Ok(())
    }))
}

/// Hands a write to the kernel; `None` if there is none of its own.
///
/// # Safety
/// `from` is valid for so many bytes.
#[inline]
pub(crate) unsafe fn write(
    element: i32,
    at: usize,
    from: *const u8,
    bytes: usize,
) -> Option<Result<(), Code>> {
    if !IS_APART.load(Relaxed) {
        return None;
    }
    // SAFETY: our contract.
    let data = unsafe { std::slice::from_raw_parts(from, bytes) };
    let question = Question::Write { element, at: at as u64, bytes: bytes as u64 };
    Some(own(&mut lock()).map(|link| link.put(question, data)))
}

/// Ends the stamps of the kernel: they, and how many had no room.
pub(crate) fn stop_stamps() -> Result<(Vec<Stamp>, usize), c_int> {
    let mut link = lock();
    let link = own(&mut link).map_err(|_| NOT_RUNNING)?;
    link.put(Question::StampsStop, &[]);
    let [status, count, lost] = link.take_answer().map_err(|_| NOT_RUNNING)?;
    if status != i64::from(OK) {
        return Err(status as c_int);
    }
    let (count, lost) = (usize::try_from(count), usize::try_from(lost));
    let (Ok(count), Ok(lost)) = (count, lost) else { return Err(MEMORY) };
    let mut stamps = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bytes = [0; STAMP_BYTES];
        link.take(&mut bytes);
        stamps.push(decode_stamp(&bytes));
    }
    Ok((stamps, lost))
}

impl Link {
    fn put(&mut self, question: Question, data: &[u8]) {
        let begun_ns = stamps::begin();
        self.send(question, data);
        if let Some(begun_ns) = begun_ns {
            stamps::note(Mark::Asked, begun_ns, HEAD + data.len());
        }
    }

    fn send(&mut self, question: Question, data: &[u8]) {
        let (with, alone) = data.split_at(data.len().min(TOGETHER));
        let mut bytes = [0; HEAD + TOGETHER];
        bytes[..HEAD].copy_from_slice(&question.encode());
        bytes[HEAD..HEAD + with.len()].copy_from_slice(with);
        let sent = self.stream.write_all(&bytes[..HEAD + with.len()]);
        if sent.and_then(|()| self.stream.write_all(alone)).is_err() {
            end();
        }
    }

    fn take(&mut self, bytes: &mut [u8]) {
        if self.stream.read_exact(bytes).is_err() {
            end();
        }
    }

    fn take_answer(&mut self) -> Result<[i64; 3], Code> {
        let mut bytes = [0; HEAD];
        self.take(&mut bytes);
        let answer = Answer::decode(&bytes);
        if answer.code == 0 {
            return Ok(answer.values);
        }
        let mut text = vec![0; (answer.text as usize).min(TEXT_MAX)];
        self.take(&mut text);
        match Code::of(answer.code) {
            Some(code) => Err(fault::note(code, text)),
            None => end(),
        }
    }
}

/// Without its kernel an element has no memory and no way to the others.
#[cold]
fn end() -> ! {
    eprintln!("tutti: the DSE kernel of this element has ended, and so does the element");
    std::process::exit(1)
}
