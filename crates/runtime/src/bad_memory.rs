//! Memory of the program's that a call of the library cannot access: one line that names the call and
//! what of its arguments may be wrong, then the job ends. Without this module it is a signal 11 in the
//! library's code.
//!
//! ```text
//! fault in our code, or in memcpy below it -> the stack, up to the function that the program has called
//!                                          -> the line, the job's end
//! any other fault                          -> the action that was there before, as if we were not
//! ```
//!
//! No call pays for it: who has no fault never comes here. What the kernel finds itself (EFAULT) is told
//! by whoever asked the kernel, by [`end_refused`] where the address is known, else by [`say_refused`].
//! Programs that handle these signals keep their handlers, which may mend a fault; those of gfortran and of
//! Python's faulthandler only tell of it, so our line comes in front of theirs.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tutti_rma::device::Access;
use tutti_shm::ticket::Notice;

use crate::log;

/// Signals of accesses to memory.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Exit status of the job: that of MPI_ERR_BUFFER.
const STATUS: c_int = 1;
/// Names of libraries, or what they begin with, whose handlers tell of a fault and mend none.
const TELLERS: [&[u8]; 3] = [b"libgfortran", b"libpython", b"python"];
/// A call that a thread of the library goes on with.
const PENDING: &str = "a call that is pending";
/// How often a core file is looked for that is being written, and how long between.
const CORE_POLLS_MAX: u32 = 1500;
const CORE_POLL: Duration = Duration::from_millis(20);
/// Another thread's end of the job takes no longer, with its core file.
const END: Duration = CORE_POLL.saturating_mul(CORE_POLLS_MAX).saturating_add(END_WITHOUT_CORE);
const END_WITHOUT_CORE: Duration = Duration::from_secs(3);
/// Faults so close below the stack's end are the program's that has no more of it.
const STACK_BYTES: usize = 64 << 10;
/// More functions than this are no call of ours.
const DEPTH_MAX: u32 = 64;

/// Writes the arguments of a function that may be what the access was to, as text; false: it has no buffer
/// among them, so another operation's is meant as well, and the text ends with a space.
pub type Arguments = fn(call: &str, access: Option<Access>, to: &mut dyn Write) -> bool;

/// Interfaces, by the beginning of their functions' names, and who knows the arguments of those.
static ARGUMENTS: [OnceLock<(&str, Arguments)>; 2] = [const { OnceLock::new() }; 2];
/// Our number in the job, for the line.
static RANK: AtomicUsize = AtomicUsize::new(0);
/// The process whose faults are reported; 0: none.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// A line has been said, or is being said.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Actions that were there before, of [`SIGNALS`]; none: the signal is not handled here.
struct Before(UnsafeCell<[Option<libc::sigaction>; 2]>);

// SAFETY: written while the library starts, before our handler can be called, and by `withdraw` of the thread
// that sets another action in its place.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new([None; 2]));

/// Notes where the arguments of functions are known whose names begin so; there is room for two interfaces.
pub fn set_arguments(prefix: &'static str, arguments: Arguments) {
    let place = ARGUMENTS.iter().find(|place| place.get().is_none_or(|(known, _)| *known == prefix));
    let _ = place.map(|place| place.set((prefix, arguments)));
}

/// From now on faults of this process's calls are reported.
pub(crate) fn install(rank: usize) {
    RANK.store(rank, Ordering::Relaxed);
    PROCESS.store(std::process::id(), Ordering::Release);
    for (at, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: zeroed is a value of these plain structures, which are filled here; see `Before`.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 || !is_replaced(&before) {
                continue;
            }
            (&mut *BEFORE.0.get())[at] = Some(before);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Gives the signals back to whatever had them before, where they are still ours.
pub fn withdraw() {
    for signal in SIGNALS {
        withdraw_from(signal);
    }
}

/// The same of one signal; whether it was still ours.
fn withdraw_from(signal: c_int) -> bool {
    let Some(before) = action_before(signal) else { return false };
    // SAFETY: zeroed is a value of this plain structure, and the calls get values of ours.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let own = handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t;
        let is_own = libc::sigaction(signal, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == own;
        is_own && libc::sigaction(signal, &before, std::ptr::null_mut()) == 0
    }
}

fn action_before(signal: c_int) -> Option<libc::sigaction> {
    let place = SIGNALS.into_iter().position(|own| own == signal)?;
    // SAFETY: see `Before`.
    unsafe { (*BEFORE.0.get())[place] }
}

/// A handler that was set after ours has called it, and may take the signal for handled now: the action
/// that was there before ours has it.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = action_before(signal) else { return };
    // SAFETY: a handler gets what the kernel has given, as its flags say.
    unsafe {
        if before.sa_sigaction == libc::SIG_DFL {
            libc::signal(signal, libc::SIG_DFL);
        } else if before.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(before.sa_sigaction);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(before.sa_sigaction);
            handler(signal);
        }
    }
}

/// Whether an action does nothing but end the process, perhaps with words.
fn is_replaced(action: &libc::sigaction) -> bool {
    match action.sa_sigaction {
        libc::SIG_DFL => true,
        libc::SIG_IGN => false,
        handler => object_of(handler).is_some_and(|object| {
            let file = Path::new(OsStr::from_bytes(object.file.to_bytes())).file_name().unwrap_or_default();
            TELLERS.iter().any(|teller| file.as_bytes().starts_with(teller))
        }),
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives valid structures; see `Before` for the actions.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    if code > 0 && is_about(address, context) {
        // An address that no process can have comes without its number, and without the access.
        let is_known = code != libc::SI_KERNEL;
        say(is_known.then_some(address), access(context).filter(|_| is_known), signal);
    }
    let is_given_back = withdraw_from(signal);
    if !is_given_back {
        pass_on(signal, info, context);
    }
    let ends = action_before(signal).is_some_and(|before| before.sa_sigaction == libc::SIG_DFL);
    if code <= 0 && (is_given_back || ends) {
        // It was sent, so it does not come again by itself. Blocked until we return.
        // SAFETY: the structure is the kernel's.
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info) };
    }
}

/// Whether a fault may be one of a call: of this process, in our code or the C library's, and not for want of
/// stack.
fn is_about(address: usize, context: *mut c_void) -> bool {
    let stack = stack_pointer(context);
    let is_at = |function: usize| {
        let [here, there] =
            [instruction(context), function].map(|at| object_of(at).map(|object| object.base));
        here.is_some() && here == there
    };
    PROCESS.load(Ordering::Acquire) == std::process::id()
        && (is_at(handle as *const () as usize) || is_at(libc::write as *const () as usize))
        && !(stack.saturating_sub(STACK_BYTES)..stack).contains(&address)
}

/// Says the line and ends the job, if the fault is that of a call.
fn say(address: Option<usize>, access: Option<Access>, signal: c_int) {
    let mut walk = Walk::new(Start::Fault);
    walk.go();
    if !walk.is_ours {
        return;
    }
    if IS_SAID.swap(true, Ordering::AcqRel) {
        // Another thread ends the job: this one is not to end it before by its signal. It leaves a core file
        // only where nothing has handled the signal before.
        let ends = action_before(signal).is_some_and(|before| before.sa_sigaction == libc::SIG_DFL);
        std::thread::sleep(if ends { END } else { END_WITHOUT_CORE });
        return;
    }
    say_line(&walk, address, access);
    if action_before(signal).is_some_and(|before| before.sa_sigaction == libc::SIG_DFL) {
        leave_core(signal);
        crate::end::end(Notice::Fatal(STATUS as u32), STATUS);
    }
}

fn say_line(walk: &Walk, address: Option<usize>, access: Option<Access>) {
    let rank = RANK.load(Ordering::Relaxed);
    let right = match access {
        Some(Access::Read) => "read",
        Some(Access::Write) => "written",
        None => "accessed",
    };
    let (place, names) = (Place(address), Names { call: walk.call(), access });
    let call = Called(walk.call().unwrap_or(PENDING));
    log::line_without_heap(
        libc::STDERR_FILENO,
        format_args!(
            "rank {rank}: {call}: {place}{names} is no memory that may be {right}: is the address or the count wrong?"
        ),
    );
}

/// Says the line of an access that the kernel has refused, which the running call has asked it for, and ends
/// the job.
#[cold]
pub fn end_refused(address: usize, access: Access) -> ! {
    if IS_SAID.swap(true, Ordering::AcqRel) {
        // Another thread ends the job.
        std::thread::sleep(END);
    }
    let mut walk = Walk::new(Start::Here);
    walk.go();
    say_line(&walk, Some(address), Some(access));
    leave_core(libc::SIGSEGV);
    crate::end::end(Notice::Fatal(STATUS as u32), STATUS)
}

/// Leaves a core file where the user has asked for one (`ulimit -c`): a copy of this process, with this
/// thread's stack, dies of the signal. The process itself ends as it does without.
fn leave_core(signal: c_int) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is ours.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) } == 0;
    if !is_known || limit.rlim_cur == 0 {
        return;
    }
    let nowhere = core::ptr::null_mut::<c_void>();
    // SAFETY: a fork, of which not every processor has a call of its own. The copy has this thread alone, and
    // does nothing that needs a lock or the heap. The C library's function would call what programs have it
    // call at a fork.
    let copy = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, nowhere, nowhere, nowhere, nowhere) };
    if copy < 0 {
        return;
    }
    if copy == 0 {
        die_of(signal);
    }
    for _ in 0..CORE_POLLS_MAX {
        // SAFETY: nothing is written.
        let gone = unsafe { libc::syscall(libc::SYS_wait4, copy, nowhere, libc::WNOHANG, nowhere) };
        if gone != 0 {
            return;
        }
        std::thread::sleep(CORE_POLL);
    }
}

/// Ends this process by a signal that is blocked, without the handlers of the program.
fn die_of(signal: c_int) -> ! {
    // SAFETY: the set is ours; the calls are those that a handler of a signal may make.
    unsafe {
        let mut own = std::mem::zeroed::<libc::sigset_t>();
        libc::signal(signal, libc::SIG_DFL);
        libc::sigaddset(&raw mut own, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const own, core::ptr::null_mut());
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
        libc::_exit(STATUS)
    }
}

/// A call, for people. Functions of OpenSHMEM for types of one size may be one function, for which any of
/// their names is found: the type is left out, as in the standard's text.
struct Called<'a>(&'a str);

/// Types in names of functions of OpenSHMEM.
const TYPES: [&str; 24] = [
    "float",
    "double",
    "longdouble",
    "char",
    "schar",
    "short",
    "int",
    "long",
    "longlong",
    "uchar",
    "ushort",
    "uint",
    "ulong",
    "ulonglong",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "size",
    "ptrdiff",
];

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(rest) = self.0.strip_prefix("shmem") else { return f.write_str(self.0) };
        f.write_str("shmem")?;
        for word in rest.split('_').skip(1) {
            f.write_str("_")?;
            f.write_str(if TYPES.contains(&word) { "TYPENAME" } else { word })?;
        }
        Ok(())
    }
}

/// The address of an access, for people.
struct Place(Option<usize>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "address {address:#x}"),
            None => f.write_str("the address"),
        }
    }
}

/// The arguments that may be meant, for people.
struct Names<'a> {
    call: Option<&'a str>,
    access: Option<Access>,
}

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = ARGUMENTS.iter().filter_map(OnceLock::get);
        let found =
            self.call.and_then(|call| Some((call, known.into_iter().find(|of| call.starts_with(of.0))?.1)));
        f.write_str(" of ")?;
        match found {
            Some((call, arguments)) if arguments(call, self.access, f) => Ok(()),
            Some(_) => f.write_str("or of a pending operation's buffer"),
            None if self.call.is_some() => f.write_str("one of its arguments"),
            None => f.write_str(match self.access {
                Some(Access::Write) => "what it receives (MPI_Recv, MPI_Get, a collective call)",
                Some(Access::Read) => "what it sends (MPI_Send, MPI_Put, a collective call)",
                None => "its buffer",
            }),
        }
    }
}

/// Says the same where the kernel has refused an access, which it may have been asked for by another call.
#[cold]
pub(crate) fn say_refused(rank: usize, access: Access, why: fmt::Arguments<'_>) {
    let mut walk = Walk::new(Start::Here);
    walk.go();
    let names = Names { call: walk.call(), access: Some(access) };
    let call = Called(walk.call().unwrap_or(PENDING));
    log::line(format_args!(
        "rank {rank}: {call}: {why}: memory{names}, or of another operation that is pending, is not the program's: is its address or count wrong?"
    ));
}

/// Where a walk up the stack begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Behind the frame of a signal's handler.
    Fault,
    /// In the library.
    Here,
}

/// A walk up the stack, to the function of the library that something else has called.
struct Walk {
    start: Start,
    /// Where the library is mapped.
    library: usize,
    /// Where the C library is.
    c_library: usize,
    depth: u32,
    /// The frame that a signal has interrupted has been seen.
    is_behind_signal: bool,
    /// Another library's function has been seen before the first of ours.
    is_below: bool,
    is_ours: bool,
    name: Option<&'static CStr>,
}

impl Walk {
    fn new(start: Start) -> Self {
        let base = |function: usize| object_of(function).map_or(0, |object| object.base);
        let (library, c_library) =
            (base(handle as *const () as usize), base(libc::write as *const () as usize));
        let is_behind_signal = start == Start::Here;
        Walk {
            start,
            library,
            c_library,
            depth: 0,
            is_behind_signal,
            is_below: false,
            is_ours: false,
            name: None,
        }
    }

    fn go(&mut self) {
        // SAFETY: the function gets what it expects, and the walk stays as long as it goes.
        unsafe { _Unwind_Backtrace(visit, std::ptr::from_mut(self).cast()) };
    }

    /// The name without the letter that a tool's entry has in front.
    fn call(&self) -> Option<&'static str> {
        let name = self.name?.to_str().ok()?;
        let bare = name.strip_prefix(['P', 'p']).unwrap_or(name);
        Some(if bare.starts_with("MPI_") || bare.starts_with("shmem_") { bare } else { name })
    }

    /// The name of a function of the library.
    fn own_name(&self, at: usize) -> Option<&'static CStr> {
        object_of(at).filter(|object| object.base == self.library)?.name
    }

    /// Whether the walk goes on behind the instruction at an address.
    fn visit(&mut self, address: usize, is_interrupted: bool) -> bool {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return false;
        }
        self.is_behind_signal |= is_interrupted;
        if !self.is_behind_signal {
            return true;
        }
        let object = object_of(address);
        let is_own = object.as_ref().is_some_and(|object| object.base == self.library);
        if is_own {
            self.is_ours = true;
            self.name = object.and_then(|object| object.name).or(self.name);
            return true;
        }
        if self.is_ours {
            // Our function may have gone on in another one by a jump, and left no frame of its own.
            self.name = called(address + 1).and_then(|at| self.own_name(at)).or(self.name);
            return false;
        }
        // One function of the C library that copies may be below ours: no allocator, which is deeper or has a
        // name, and nothing of the program's, which we may have called.
        let may_go_on = self.start == Start::Fault && !self.is_below;
        self.is_below = true;
        let is_of_c = |object: &Object| object.base == self.c_library;
        may_go_on && object.filter(is_of_c).is_some_and(|object| object.name.is_none_or(copies))
    }
}

/// Whether a function of the C library copies memory or looks at it.
fn copies(name: &CStr) -> bool {
    let name = name.to_bytes();
    let bare = name.iter().position(|byte| *byte != b'_').map_or(name, |at| &name[at..]);
    ["mem", "str", "bcopy", "wmem"].iter().any(|begin| bare.starts_with(begin.as_bytes()))
}

/// Where the call in front of this instruction went: to a function itself, or through a table that the
/// linker has filled.
#[cfg(target_arch = "x86_64")]
fn called(behind: usize) -> Option<usize> {
    const CALL: u8 = 0xe8;
    const BY_TABLE: [u8; 2] = [0xff, 0x15];
    const JUMP_BY_TABLE: [u8; 2] = [0xff, 0x25];
    /// Marks in front of such a jump: endbr64, bnd.
    const MARKS: [&[u8]; 2] = [&[0xf3, 0x0f, 0x1e, 0xfa], &[0xf2]];
    // SAFETY: instructions of the caller, which has just run them, and of what it has called.
    let bytes = |at: usize, count| unsafe { std::slice::from_raw_parts(at as *const u8, count) };
    let relative = |end: usize| {
        let offset = i32::from_ne_bytes(bytes(end - 4, 4).try_into().ok()?);
        Some(end.wrapping_add_signed(offset as isize))
    };
    // SAFETY: the table's place, from which the call was made.
    let entry = |end: usize| Some(unsafe { (relative(end)? as *const usize).read_unaligned() });
    if bytes(behind - 6, 2) == BY_TABLE {
        return entry(behind);
    }
    if bytes(behind - 5, 1) != [CALL] {
        return None;
    }
    let target = relative(behind)?;
    let begin = MARKS
        .iter()
        .fold(target, |at, mark| at + if bytes(at, mark.len()) == *mark { mark.len() } else { 0 });
    if bytes(begin, 2) == JUMP_BY_TABLE { entry(begin + 6) } else { Some(target) }
}

/// The same; unknown on this processor.
#[cfg(not(target_arch = "x86_64"))]
fn called(_behind: usize) -> Option<usize> {
    None
}

/// Library or program that an address lies in, and its function there, if that is exported.
struct Object {
    base: usize,
    file: &'static CStr,
    name: Option<&'static CStr>,
}

fn object_of(address: usize) -> Option<Object> {
    // SAFETY: zeroed is a value of this plain structure; texts of objects that are not unloaded, or of one
    // that this thread runs code of.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        let name = (!found.dli_sname.is_null()).then(|| CStr::from_ptr(found.dli_sname));
        Some(Object { base: found.dli_fbase.addr(), file: CStr::from_ptr(found.dli_fname), name })
    }
}

/// A frame of the stack, as the unwinder has it.
type Frame = *mut c_void;

unsafe extern "C" {
    /// Calls the function for each frame from the caller's up, until it gives something else than 0.
    fn _Unwind_Backtrace(visit: extern "C" fn(Frame, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    /// The instruction of a frame; whether it was interrupted there, not behind a call.
    fn _Unwind_GetIPInfo(frame: Frame, is_interrupted: *mut c_int) -> usize;
}

extern "C" fn visit(frame: Frame, walk: *mut c_void) -> c_int {
    /// _URC_NORMAL_STOP
    const STOP: c_int = 4;
    let mut is_interrupted = 0;
    // SAFETY: the unwinder gives its frame, and what `go` has given it.
    let (address, walk) =
        unsafe { (_Unwind_GetIPInfo(frame, &mut is_interrupted), &mut *walk.cast::<Walk>()) };
    let is_interrupted = is_interrupted != 0;
    // Behind a call that does not return there may be another function.
    let address = if is_interrupted { address } else { address.saturating_sub(1) };
    if walk.visit(address, is_interrupted) { 0 } else { STOP }
}

/// Whether the access was a store, as far as the processor says so.
fn access(context: *mut c_void) -> Option<Access> {
    #[cfg(target_arch = "x86_64")]
    {
        const WRITE: i64 = 2;
        // SAFETY: the kernel gives the context of the fault.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        let is_write = context.uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0;
        Some(if is_write { Access::Write } else { Access::Read })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        None
    }
}

/// The instruction of the fault.
fn instruction(context: *mut c_void) -> usize {
    // SAFETY: the kernel gives the context of the fault.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let pointer = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let pointer = context.uc_mcontext.pc as usize;
    pointer
}

/// The stack's end where the fault was.
fn stack_pointer(context: *mut c_void) -> usize {
    // SAFETY: the kernel gives the context of the fault.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let pointer = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let pointer = context.uc_mcontext.sp as usize;
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_copy_differ_from_those_that_allocate() {
        assert!([c"memcpy", c"__memmove_avx_unaligned", c"strlen", c"wmemset"].into_iter().all(copies));
        assert!([c"malloc", c"free", c"realloc", c"write", c""].into_iter().all(|name| !copies(name)));
    }

    #[test]
    fn calls_of_openshmem_are_shown_without_their_type() {
        let shown = |name| Called(name).to_string();
        assert_eq!(shown("shmem_ctx_ulong_put_nbi"), "shmem_ctx_TYPENAME_put_nbi");
        assert_eq!(["shmem_putmem", "MPI_Type_size"].map(shown), ["shmem_putmem", "MPI_Type_size"]);
    }

    #[test]
    fn action_that_may_mend_a_fault_stays() {
        // SAFETY: zeroed is a value of this plain structure.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        assert!(is_replaced(&action), "the default");
        action.sa_sigaction = libc::SIG_IGN;
        assert!(!is_replaced(&action));
        action.sa_sigaction = handle as *const () as usize;
        assert!(!is_replaced(&action), "a handler of the program");
    }
}
