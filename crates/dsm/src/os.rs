//! Calls of the kernel for memory, signals and descriptors.
//!
//! Memory is named by addresses; each function says what its caller knows of them.

pub(crate) mod userfaultfd;

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use crate::core::member::Access;
use crate::core::unit::UNIT_BYTES;

/// Where the head of a file of code says which kind it is.
const ELF_TYPE_AT: usize = 16;

/// Memory of the library alone, of which no program has an address.
static OWN: Mutex<Vec<Range<usize>>> = Mutex::new(Vec::new());

/// No program has an address of these bytes.
pub(crate) fn note_own(address: usize, bytes: usize) {
    OWN.lock().expect("nobody panics with it").push(address..address + bytes);
}

/// Whether an address is one of those.
pub(crate) fn is_own(address: usize) -> bool {
    OWN.lock().expect("nobody panics with it").iter().any(|own| own.contains(&address))
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn pointer(address: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Takes address space of which nothing else of the process may be part.
pub(crate) fn reserve(address: usize, bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the kernel refuses an address where something is.
    let found = unsafe { libc::mmap(pointer(address).cast(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    assert_eq!(found.expose_provenance(), address, "a kernel since 4.17 keeps to the address");
    Ok(())
}

/// Takes address space where there is some, for the library alone.
pub(crate) fn reserve_anywhere(bytes: usize) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address that the kernel chooses.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    note_own(found.expose_provenance(), bytes);
    Ok(found.expose_provenance())
}

/// Zeroed memory of this process at an address that was reserved.
pub(crate) fn map_private(address: usize, bytes: usize) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the range is reserved for the arena, which nobody uses yet.
    let found = unsafe { libc::mmap(pointer(address).cast(), bytes, protection, flags, -1, 0) };
    if found == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Zeroed memory of the library; it stays until the process ends.
pub(crate) fn map_anywhere(bytes: usize) -> io::Result<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let address = found.expose_provenance();
    note_own(address, bytes);
    // Without effect on what it holds; a core is not to hold it.
    // SAFETY: the range is the mapping just made.
    unsafe { libc::madvise(found, bytes, libc::MADV_DONTDUMP) };
    Ok(address)
}

/// The end of the break stays where it is: malloc finds no more memory there, and takes mappings.
pub(crate) fn close_break() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a question alone.
    let end = unsafe { libc::sbrk(0) }.expose_provenance().next_multiple_of(UNIT_BYTES);
    // Where something is already, the break has come to its end by itself.
    // SAFETY: the kernel refuses an address where something is.
    unsafe { libc::mmap(pointer(end).cast(), UNIT_BYTES, libc::PROT_NONE, flags, -1, 0) };
}

/// Reserves address space so that the next mappings end at a multiple of a power of two, where the kernel
/// places one below the other. Nothing happens where it does not.
pub(crate) fn reserve_down_to(multiple: u64) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let multiple = multiple as usize;
    // SAFETY: the kernel places it.
    let reserve = |bytes| unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    let first = reserve(UNIT_BYTES);
    if first == libc::MAP_FAILED || first.addr() % multiple == 0 {
        return;
    }
    let rest = first.addr() % multiple;
    let rest = reserve(rest);
    // Elsewhere it helps nobody.
    if rest != libc::MAP_FAILED && rest.addr() % multiple != 0 {
        // SAFETY: a mapping that was made above, of so many bytes, and that nobody uses.
        unsafe { libc::munmap(rest, first.addr() % multiple) };
    }
}

/// Whether something is mapped at an address.
pub(crate) fn is_mapped(address: usize) -> bool {
    let mut resident = 0;
    let page = address / UNIT_BYTES * UNIT_BYTES;
    // SAFETY: a question alone; its answer about one page is one byte.
    unsafe { libc::mincore(pointer(page).cast(), UNIT_BYTES, &mut resident) == 0 }
}

/// The address of a block of memory that is never given back.
pub(crate) fn allocate(bytes: usize) -> usize {
    // SAFETY: a block that nobody uses.
    unsafe { libc::malloc(bytes) }.expose_provenance()
}

/// The application's view of the arena: a child has none, its pages are never joined, and no core holds it.
pub(crate) fn advise_view(address: usize, bytes: usize) -> io::Result<()> {
    let mut result = Ok(());
    for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP, libc::MADV_NOHUGEPAGE] {
        // SAFETY: the range is the arena; none of these changes what it holds.
        let advised = check(unsafe { libc::madvise(pointer(address).cast(), bytes, advice) });
        // A kernel without huge pages does not know the last one.
        if advice != libc::MADV_NOHUGEPAGE {
            result = result.and(advised);
        }
    }
    result
}

/// Rights of loads and stores of the program on pages of the arena.
pub(crate) fn protect(address: usize, bytes: usize, access: Access) -> io::Result<()> {
    let protection = match access {
        Access::None => libc::PROT_NONE,
        Access::Read => libc::PROT_READ,
        Access::Write => libc::PROT_READ | libc::PROT_WRITE,
    };
    // SAFETY: the range is part of the arena, which the library itself reaches by another view.
    check(unsafe { libc::mprotect(pointer(address).cast(), bytes, protection) })
}

/// Anonymous memory of ours is zero again, and uses none.
pub(crate) fn forget(address: usize, bytes: usize) {
    // SAFETY: the range is a mapping of ours that nobody reads.
    unsafe { libc::madvise(pointer(address).cast(), bytes, libc::MADV_DONTNEED) };
}

/// Memory of a shared file of ours is zero again and uses none, whoever sees it.
pub(crate) fn remove(address: usize, bytes: usize) {
    // A file that cannot have holes keeps its memory.
    // SAFETY: the range is a mapping of ours whose content nobody needs.
    unsafe { libc::madvise(pointer(address).cast(), bytes, libc::MADV_REMOVE) };
}

/// The file whose code or data an address is in, and where it was loaded.
pub(crate) fn object_of(address: usize) -> (Option<&'static std::ffi::CStr>, usize) {
    // SAFETY: zeroed is a value of this plain structure, which the call fills; names of files that are loaded
    // stay, since nothing is unloaded while a rank ends.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(pointer(address).cast(), &mut info) == 0 || info.dli_fname.is_null() {
            return (None, 0);
        }
        (Some(std::ffi::CStr::from_ptr(info.dli_fname)), info.dli_fbase.expose_provenance())
    }
}

/// The file of an address, and the address by which its debug information knows the place: it is the same
/// where the file says where it lies (`-no-pie`).
pub(crate) fn place_of(address: usize) -> (Option<&'static std::ffi::CStr>, usize) {
    let (file, base) = object_of(address);
    if file.is_none() {
        return (None, address);
    }
    // SAFETY: a file is mapped from its head on, which has so many bytes.
    let kind = unsafe { pointer(base + ELF_TYPE_AT).cast::<u16>().read_unaligned() };
    (file, if kind == libc::ET_EXEC { address } else { address - base })
}

/// Stores bytes at an address of ours, where so many fit.
pub(crate) fn store(address: usize, bytes: &[u8]) {
    // SAFETY: the place is inside a mapping of ours; the program may store to bytes beside these, not to
    // these (a data race of the program otherwise).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(address), bytes.len()) };
}

/// Loads bytes from an address of ours.
pub(crate) fn load(address: usize, into: &mut [u8]) {
    // SAFETY: the place is inside a mapping of ours; a byte that the program stores meanwhile is loaded as
    // before or after.
    unsafe { std::ptr::copy_nonoverlapping(pointer(address), into.as_mut_ptr(), into.len()) };
}

/// Bytes that are mapped, of ours or of the program's variables, and that nobody stores to while the value
/// lives.
pub(crate) fn bytes<'a>(address: usize, count: usize) -> &'a [u8] {
    // SAFETY: the place is inside a mapping of ours or of the program's file, which may be read and stays
    // until the process ends; the program's only thread is with the caller, inside the library, and the
    // callers keep no value beyond their call.
    unsafe { std::slice::from_raw_parts(pointer(address), count) }
}

/// Words of ours, zero at first, that one user has.
pub(crate) fn words_mut(address: usize, count: usize) -> &'static mut [u64] {
    // SAFETY: the place is a fresh mapping that stays until the process ends; the caller has just made it.
    unsafe { std::slice::from_raw_parts_mut(pointer(address).cast(), count) }
}

/// Bytes of ours, zero at first, that one user has.
pub(crate) fn bytes_mut(address: usize, count: usize) -> &'static mut [u8] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(pointer(address), count) }
}

/// Halves of 16 bits of ours, zero at first, that one user has.
pub(crate) fn halves_mut(address: usize, count: usize) -> &'static mut [u16] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(pointer(address).cast(), count) }
}

/// A word that ranks of the node share, or of this process.
pub(crate) fn word<'a>(address: usize) -> &'a std::sync::atomic::AtomicU64 {
    // SAFETY: the place is aligned, inside a mapping that stays until the process ends, and only reached so.
    unsafe { std::sync::atomic::AtomicU64::from_ptr(pointer(address).cast()) }
}

/// The same of 32 bits.
pub(crate) fn word32<'a>(address: usize) -> &'a std::sync::atomic::AtomicU32 {
    // SAFETY: the place is aligned, inside a mapping that stays until the process ends, and only reached so.
    unsafe { std::sync::atomic::AtomicU32::from_ptr(pointer(address).cast()) }
}

/// Loads a byte of the program's view of the arena, which may fault.
pub(crate) fn touch(address: usize) {
    // SAFETY: the arena stays until the process ends.
    unsafe { pointer(address).read_volatile() };
}

/// Stores a byte that is there already: it may be another rank's. A comparison that exchanges faults as a
/// store, and no compiler leaves it out.
pub(crate) fn touch_to_store(address: usize) {
    // SAFETY: as above; others change the byte as the program's rules allow.
    let byte = unsafe { std::sync::atomic::AtomicU8::from_ptr(pointer(address)) };
    let found = byte.load(std::sync::atomic::Ordering::Relaxed);
    let _ = byte.compare_exchange(
        found,
        found,
        std::sync::atomic::Ordering::Relaxed,
        std::sync::atomic::Ordering::Relaxed,
    );
}

/// Sleeps while a word that processes share has a value. May return early.
pub(crate) fn futex_wait(word: &std::sync::atomic::AtomicU32, value: u32) {
    let no_limit: *const libc::timespec = std::ptr::null();
    // SAFETY: the word is valid during the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, no_limit) };
}

/// Wakes one who sleeps so.
pub(crate) fn futex_wake(word: &std::sync::atomic::AtomicU32) {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}

/// Lets a descriptor be what another one is.
pub(crate) fn duplicate_onto(from: i32, to: i32) {
    // SAFETY: numbers alone.
    unsafe { libc::dup2(from, to) };
}

/// Another descriptor for the same; -1 when there are no more.
pub(crate) fn duplicate(from: i32) -> i32 {
    // SAFETY: numbers alone.
    unsafe { libc::fcntl(from, libc::F_DUPFD_CLOEXEC, 3) }
}

/// Whether a descriptor is open.
pub(crate) fn is_open(descriptor: i32) -> bool {
    // SAFETY: numbers alone.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
}

/// Sends out the text that the program has printed.
pub(crate) fn flush_streams() {
    // SAFETY: it is allowed at any time.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    // SAFETY: zeroed is a value of this plain structure, which the call fills.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        now
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The program's `errno`.
pub(crate) fn error_number() -> i32 {
    // SAFETY: it is this thread's.
    unsafe { *libc::__errno_location() }
}

/// Lets `errno` be what it was.
pub(crate) fn set_error_number(error: i32) {
    // SAFETY: it is this thread's.
    unsafe { *libc::__errno_location() = error };
}

/// The number of the calling thread for the kernel.
pub(crate) fn thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Ends a child of this process, which may hold locks of threads that it does not have: nothing but a line.
pub(crate) fn end_child(line: &str) -> ! {
    // SAFETY: both are allowed in a handler of a signal; the line stays.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(1)
    }
}

/// The process ends by `exit`, with what that runs.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: the library holds no lock here.
    unsafe { libc::exit(status) }
}

/// `exit` calls a function.
pub(crate) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function is static, and the library is never unloaded.
    unsafe { libc::atexit(function) };
}
