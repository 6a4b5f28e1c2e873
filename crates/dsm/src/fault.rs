//! The handler of faults: an access to the arena that the memory does not permit is a call of the protocol.
//! Such a fault is a SIGSEGV, or with userfaultfd a SIGBUS.
//!
//! It runs on a stack of its own with all signals blocked, keeps `errno`, and prints nothing. Faults
//! elsewhere go to the handler that the program has set ([`set_program_action`]), or end the process as ever.

use core::ffi::{c_int, c_void};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use tutti_runtime::rank::LOCK;

use crate::core::member::Touch;
use crate::core::page::Store;
use crate::core::unit::{Run, UNIT_BYTES};
use crate::{executor, failure, freed, globals, note, os};

/// The network's calls need tens of KiB.
const STACK_BYTES: usize = 512 << 10;

/// Bytes of the arena; 0: faults are none of ours.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Units before this one are known to be given by G_MALLOC, so far as they are: of the arena up to
/// [`UPDATED_FROM`], and of the rest.
static KNOWN_ENDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// Stores to units from this one on go to all copies.
static UPDATED_FROM: AtomicU32 = AtomicU32::new(u32::MAX);
/// The thread that may touch the arena.
static THREAD: AtomicI32 = AtomicI32::new(0);
/// Number of the rank.
static RANK: AtomicUsize = AtomicUsize::new(0);
/// The process that may.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The signal of faults in the arena.
static SIGNAL: AtomicI32 = AtomicI32::new(libc::SIGSEGV);
/// Signals that may be faults of the arena.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Actions of the program on them elsewhere; none: the signal is not handled here.
static PROGRAM: [Action; 2] = [const { Action(UnsafeCell::new(None)) }; 2];

struct Action(UnsafeCell<Option<libc::sigaction>>);

// SAFETY: written by the program's call of sigaction and read in a handler; a program that does both at once
// in two threads has no promise of the system either.
unsafe impl Sync for Action {}

/// From now on faults in so many bytes of the arena are handled, in the calling thread. A part of it for
/// blocks whose stores go to all copies begins at a unit. SIGSEGV is always handled, to say which
/// access it is about; in a job on one node, whose arena has no faults (0 bytes), that is all.
pub(crate) fn install(rank: usize, bytes: usize, updated_from: u32, signal: c_int) -> std::io::Result<()> {
    RANK.store(rank, Ordering::Relaxed);
    SIGNAL.store(signal, Ordering::Relaxed);
    // Shared variables are known already: in which part they are is known now.
    let known = KNOWN_ENDS[0].load(Ordering::Relaxed) as usize;
    UPDATED_FROM.store(updated_from, Ordering::Relaxed);
    note_allocated(known * UNIT_BYTES);
    // Where the program touches no memory of its own, whose call that was is said below.
    tutti_runtime::bad_memory::withdraw();
    let stack = os::map_anywhere(STACK_BYTES)?;
    THREAD.store(os::thread(), Ordering::Relaxed);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    BYTES.store(bytes, Ordering::Release);
    // SAFETY: the stack is a mapping of ours that stays; zeroed is a value of these plain structures.
    unsafe {
        let stack = libc::stack_t {
            ss_sp: std::ptr::with_exposed_provenance_mut(stack),
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        libc::sigaltstack(&stack, std::ptr::null_mut());
    }
    let handled =
        SIGNALS.into_iter().zip(&PROGRAM).filter(|(own, _)| *own == libc::SIGSEGV || *own == signal);
    for (signal, program) in handled {
        // SAFETY: see `Action`; zeroed is a value of this plain structure.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, &own_action(), &mut before) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            *program.0.get() = Some(before);
        }
    }
    Ok(())
}

/// The signal of faults in the arena, which the program must not block; none: there is no arena.
pub fn signal() -> Option<c_int> {
    (BYTES.load(Ordering::Acquire) != 0).then(|| SIGNAL.load(Ordering::Relaxed))
}

/// Whether the calling thread's alternate stack for signals is the library's: a fault there may go as far as
/// the network, and needs more than programs give.
pub fn has_stack() -> bool {
    THREAD.load(Ordering::Relaxed) == os::thread() && PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Place of the program's action on a signal; none: it is none of ours.
fn program_action(signal: c_int) -> Option<&'static Action> {
    SIGNALS.into_iter().zip(&PROGRAM).find(|(own, _)| *own == signal).map(|(_, action)| action)
}

/// Bytes of the arena whose faults are handled here.
pub(crate) fn arena_bytes() -> usize {
    BYTES.load(Ordering::Acquire)
}

/// The program has got memory that ends before a byte of the arena.
pub(crate) fn note_allocated(end: usize) {
    let end = end.div_ceil(UNIT_BYTES) as u32;
    known_end(end.saturating_sub(1)).fetch_max(end, Ordering::Relaxed);
}

/// The end of what is known of the part of the arena that a unit is in.
fn known_end(unit: u32) -> &'static AtomicU32 {
    &KNOWN_ENDS[usize::from(unit >= UPDATED_FROM.load(Ordering::Relaxed))]
}

/// Faults in the arena are the protocol's, so a program that sets an action of their signal sets that of the
/// others; the one before. None: the signal is not handled here, and the call is the system's.
pub fn set_program_action(signal: c_int, action: Option<libc::sigaction>) -> Option<libc::sigaction> {
    if BYTES.load(Ordering::Acquire) == 0 {
        return None;
    }
    // SAFETY: see `Action`.
    let kept = unsafe { &mut *program_action(signal)?.0.get() };
    let before = *kept;
    if before.is_some() && action.is_some() {
        *kept = action;
    }
    before
}

fn own_action() -> libc::sigaction {
    // SAFETY: zeroed is a value of this plain structure, which is filled here.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigfillset(&mut action.sa_mask);
        action
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives valid structures; errno is this thread's.
    let (address, code, error) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code, *libc::__errno_location()) };
    let offset = globals::offset_of(address, BYTES.load(Ordering::Acquire));
    // A child has no arena: there its accesses are SIGSEGV by any back end.
    if let Some(offset) = offset.filter(|_| !is_of_hardware(signal, code)) {
        executor::count_signal();
        serve(offset, is_write(context), instruction(context));
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = error };
    } else {
        pass_on(signal, info, context);
    }
}

/// Whether the memory itself is broken, which no protocol mends.
fn is_of_hardware(signal: c_int, code: c_int) -> bool {
    signal == libc::SIGBUS && matches!(code, libc::BUS_MCEERR_AR | libc::BUS_MCEERR_AO)
}

/// Does what an access of a byte of the arena needs, by the instruction at an address.
pub(crate) fn serve(offset: usize, is_write: bool, instruction: usize) {
    if std::process::id() != PROCESS.load(Ordering::Relaxed) {
        // Only a child of fork has another number; it has no place in the job that it could end.
        os::end_child("a child of a rank touches shared memory, which is not its own: fork behind its use\n");
    }
    if LOCK.is_held_by_caller() {
        failure::end(format_args!(
            "a call of the library was given shared memory at {:#x} that is not here: copy it to private memory first",
            globals::address_of(offset)
        ));
    }
    if os::thread() != THREAD.load(Ordering::Relaxed) {
        failure::end(format_args!(
            "a second thread of a rank touches shared memory at {:#x}: one thread of each rank may",
            globals::address_of(offset)
        ));
    }
    let unit = (offset / UNIT_BYTES) as u32;
    if unit >= known_end(unit).load(Ordering::Relaxed) || freed::contains(unit) {
        // Node 0 knows whether it is part of a block of another rank's; if not, it ends the job.
        let large = executor::call(|member| member.begin_touch(offset as u64)).unwrap_or(0);
        let mut end = unit + 1;
        if large != 0 {
            let run = Run { first: (large >> u32::BITS) as u32, count: large as u32 };
            executor::with_member(|member| member.note_large(run));
            end = run.end();
        }
        note_allocated(end as usize * UNIT_BYTES);
        freed::note(Run { first: unit, count: end - unit }, false);
    }
    let touch = match is_write {
        true if note::contains(offset) => Touch::Store(Store::Noted),
        true => Touch::Store(Store::Unnoted),
        false => Touch::Load,
    };
    if !executor::handle_fault(offset, touch, instruction) {
        failure::end(format_args!(
            "shared memory is touched at {:#x} after its end, or in a child of a rank",
            globals::address_of(offset)
        ));
    }
}

/// Whether the access was a store, as far as the processor says so: a store that is taken for a load faults
/// once more.
fn is_write(context: *mut c_void) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const WRITE: i64 = 2;
        // SAFETY: the kernel gives the context of the fault.
        let context = unsafe { &*context.cast::<libc::ucontext_t>() };
        context.uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = context;
        false
    }
}

/// The address of the instruction that faulted; 0 where the processor's state is not known here.
fn instruction(context: *mut c_void) -> usize {
    // SAFETY: the kernel gives the context of the fault.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let address = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let address = context.uc_mcontext.pc as usize;
    address
}

/// Says where the program touches what is no memory of it. A pointer to private memory of another process
/// leads there, and one that another process alone has set.
fn say_end(address: usize, instruction: usize) {
    let (file, place) = os::place_of(instruction);
    let file = file.and_then(|file| file.to_str().ok()).unwrap_or("?");
    let rank = RANK.load(Ordering::Relaxed);
    let private = if globals::addresses().is_empty() { "variables of C" } else { "variables of threads" };
    failure::say_in_handler(format_args!(
        "rank {rank} touches address {address:#x}, where it has no memory, by the instruction at {place:#x} of {file}; \
         {private} and memory of malloc are of one process alone: what processes share comes from G_MALLOC"
    ));
}

/// A fault that is none of ours.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: see `Action`. A function that the program has set is called as the kernel would.
    unsafe {
        let action = program_action(signal).and_then(|action| *action.0.get());
        let action = action.filter(|action| action.sa_sigaction != libc::SIG_IGN);
        match action {
            Some(action) if action.sa_sigaction != libc::SIG_DFL => {
                if action.sa_flags & libc::SA_RESETHAND != 0
                    && let Some(kept) = program_action(signal).and_then(|action| (*action.0.get()).as_mut())
                {
                    kept.sa_sigaction = libc::SIG_DFL;
                }
                libc::pthread_sigmask(libc::SIG_SETMASK, &action.sa_mask, std::ptr::null_mut());
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                        std::mem::transmute(action.sa_sigaction);
                    function(signal, info, context);
                } else {
                    let function: extern "C" fn(c_int) = std::mem::transmute(action.sa_sigaction);
                    function(signal);
                }
            }
            _ => {
                // A signal that a process has sent is about no access.
                if signal == libc::SIGSEGV && (*info).si_code > 0 {
                    say_end((*info).si_addr().addr(), instruction(context));
                }
                // The access is repeated, and ends the process.
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}
