//! Static variables of the program as symmetric memory.
//!
//! Of a program that `oshcc` has linked (it needs `libsma.so.1`) the writable pages are replaced at the start
//! by a mapping of the node's arena, page by page of `/proc/self/maps`, so mates map them as they map the
//! heap. It happens while the process has one thread and takes no signals. Libraries' variables are not
//! symmetric, by the standard. What a child forks from such a process is copied for it before the parent goes
//! on.
//!
//! Other programs (Python, MPI programs) stay as they are: their variables are reached through the kernel.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use tutti_runtime::job::Job;
use tutti_shm::arena::Range;

use crate::fault;
use crate::memory::{self, Remote};
use crate::pes::{self, Pes};

const PAGE_BYTES: usize = 4096;
/// Mark of a program that `oshcc` has linked.
const MARK: &CStr = c"libsma.so.1";

/// Message of a PE to the others about its static variables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Card {
    /// Address of the variables at the PE; 0: the program has none.
    base: u64,
    bytes: u64,
    /// Distance of the variables from where the program is loaded.
    skip: u64,
    /// Tells programs apart that have as many variables: from the linker's number of the program.
    build: u64,
    /// Place in the segment's file; 0: it is not mapped.
    offset: u64,
}

/// The program, as the loader sees it.
#[derive(Clone, Copy, Debug, Default)]
struct Program {
    load: usize,
    /// Whole pages that hold its variables.
    begin: usize,
    end: usize,
    build: u64,
    is_marked: bool,
}

/// Pages that were replaced, for forked children.
static REPLACED: OnceLock<Vec<(usize, usize)>> = OnceLock::new();

/// Looks at the program and replaces its pages if that is asked for and possible.
pub fn prepare(job: &Job, take: &dyn Fn(usize) -> Option<Range>) -> Card {
    let program = look();
    let mut card = Card::default();
    if program.begin >= program.end {
        return card;
    }
    card.base = program.begin as u64;
    card.bytes = (program.end - program.begin) as u64;
    card.skip = (program.begin - program.load) as u64;
    card.build = program.build;
    if program.is_marked
        && job.world().len() > 1
        && is_alone()
        && let Some(range) = take(card.bytes as usize)
        && with_signals_blocked(|| replace(job, program, range)).is_some()
    {
        card.offset = range.offset;
    }
    card
}

/// Makes mates' variables known. Called when all cards are there.
pub fn share(function: &str, job: &Job, pes: Pes, cards: &[Card]) {
    let own = cards[pes.me];
    let program = |card: &Card| (card.bytes, card.skip, card.build);
    if let Some(other) = cards.iter().position(|card| program(card) != program(&own)) {
        // Several programs: their variables have nothing to do with each other.
        return memory::set_other_program(other);
    }
    if own.base == 0 {
        return;
    }
    let (base, bytes) = (own.base as usize, own.bytes as usize);
    if pes.count == 1 {
        let place = std::ptr::with_exposed_provenance_mut(base);
        return memory::set_statics(place, bytes, vec![place]);
    }
    if cards.iter().any(|card| card.offset == 0) {
        // A PE on another node is none that the kernel could reach.
        let remote = |(pe, card): (usize, &Card)| {
            let rank = pes::rank(pe);
            let process = job.local_ranks().contains(rank).then(|| job.process_of(rank));
            process.map(|process| Remote { process, address: card.base })
        };
        return memory::set_private(base, bytes, cards.iter().enumerate().map(remote).collect());
    }
    let map = |(pe, card): (usize, &Card)| {
        if pe == pes.me {
            return std::ptr::with_exposed_provenance_mut(base);
        }
        if !job.local_ranks().contains(pes::rank(pe)) {
            return std::ptr::null_mut();
        }
        match job.map(Range { offset: card.offset, bytes: card.bytes }) {
            Ok(mapping) => {
                let base = mapping.base().as_ptr();
                std::mem::forget(mapping);
                base
            }
            Err(error) => fault::end(
                function,
                format_args!("the static variables of {} PEs cannot be mapped: {error}", pes.count),
            ),
        }
    };
    let mates = cards.iter().enumerate().map(map).collect();
    memory::set_statics(std::ptr::with_exposed_provenance_mut(base), bytes, mates);
}

/// Number that the linker has made of the contents of the program; 0 if it does not say.
pub fn build() -> u64 {
    look().build
}

/// Finds the program's writable pages.
fn look() -> Program {
    let mut program = Program::default();
    // SAFETY: the function below keeps to its contract, and the value outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(take_first), (&raw mut program).cast()) };
    program
}

/// The first object is the program.
unsafe extern "C" fn take_first(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    program: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader gives a valid description; the value is ours, see `look`.
    let (info, program) = unsafe { (&*info, &mut *program.cast::<Program>()) };
    // SAFETY: the loader's headers are there as long as the object.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let load = info.dlpi_addr as usize;
    let (mut begin, mut end, mut kept) = (usize::MAX, 0, 0);
    for header in headers {
        let from = load + header.p_vaddr as usize;
        let to = from + header.p_memsz as usize;
        match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_W != 0 => {
                begin = begin.min(from);
                end = end.max(to);
            }
            // What the loader protects after relocation.
            libc::PT_GNU_RELRO => kept = to,
            // SAFETY: the section ends with an empty entry.
            libc::PT_DYNAMIC => program.is_marked = unsafe { needs_mark(load, from) },
            // SAFETY: the loader has mapped the notes with the program.
            libc::PT_NOTE => program.build ^= unsafe { build_of(from, header.p_memsz as usize) },
            _ => {}
        }
    }
    program.load = load;
    program.begin = begin.max(if kept < end { kept } else { 0 }) / PAGE_BYTES * PAGE_BYTES;
    if kept > program.begin && kept < end {
        program.begin = kept.next_multiple_of(PAGE_BYTES);
    }
    program.end = end.next_multiple_of(PAGE_BYTES);
    1
}

/// Number that the linker has made of the contents of the program, shortened; 0 if these notes do not say it.
///
/// # Safety
/// So many bytes of notes stand at `notes`.
unsafe fn build_of(notes: usize, bytes: usize) -> u64 {
    const HEAD_BYTES: usize = 12;
    const NT_GNU_BUILD_ID: u32 = 3;
    const GNU: &[u8] = b"GNU\0";
    let place = std::ptr::with_exposed_provenance(notes);
    // SAFETY: our contract.
    let mut notes: &[u8] = unsafe { std::slice::from_raw_parts(place, bytes) };
    let word = |notes: &[u8], at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| notes[at + byte]));
    while notes.len() >= HEAD_BYTES {
        let lengths = [word(notes, 0) as usize, word(notes, 4) as usize];
        let [name, text] = lengths.map(|length| length.next_multiple_of(4));
        let Some(body) = notes[HEAD_BYTES..].get(..name + text) else { return 0 };
        if word(notes, 8) == NT_GNU_BUILD_ID && body.starts_with(GNU) {
            let mut hash = DefaultHasher::new();
            body[name..].hash(&mut hash);
            return hash.finish();
        }
        notes = &notes[HEAD_BYTES + name + text..];
    }
    0
}

/// Whether the object names the library of [`MARK`].
///
/// # Safety
/// A dynamic section stands at `section`, of an object loaded at `load`.
unsafe fn needs_mark(load: usize, section: usize) -> bool {
    const DT_NULL: u64 = 0;
    const DT_NEEDED: u64 = 1;
    const DT_STRTAB: u64 = 5;
    let entries = std::ptr::with_exposed_provenance::<[u64; 2]>(section);
    // SAFETY: our contract: entries follow each other up to an empty one.
    let entry = |index: usize| unsafe { *entries.add(index) };
    let all = || (0..).map(entry).take_while(|[tag, _]| *tag != DT_NULL);
    let Some([_, strings]) = all().find(|[tag, _]| *tag == DT_STRTAB) else { return false };
    // Some loaders write addresses into the section, some leave distances.
    let strings = if (strings as usize) < load { strings as usize + load } else { strings as usize };
    all().filter(|[tag, _]| *tag == DT_NEEDED).any(|[_, name]| {
        // SAFETY: our contract: the table of strings has a name there.
        let found = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(strings + name as usize)) };
        found == MARK
    })
}

/// Whether this is the only thread of the process but for the library's own, which knows nothing of the
/// program's variables.
fn is_alone() -> bool {
    let ours = usize::from(tutti_runtime::service::is_running());
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1 + ours)
}

fn with_signals_blocked<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: zero is a value of these sets of C.
    let (mut all, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
    // SAFETY: both sets are ours.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let value = action();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    value
}

/// Copies the program's pages into the range and maps it over them.
fn replace(job: &Job, program: Program, range: Range) -> Option<()> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let pieces: Vec<(usize, usize)> = maps.lines().filter_map(|line| piece(line, program)).collect();
    let copy = job.map(range).ok()?;
    for &(begin, end) in &pieces {
        // SAFETY: readable pages of the program, which nobody changes: there is one thread, without signals;
        // the copy has as many bytes.
        unsafe { copy_pages(begin, end, copy.base().as_ptr().add(begin - program.begin)) };
    }
    for &(begin, end) in &pieces {
        let part =
            Range { offset: range.offset + (begin - program.begin) as u64, bytes: (end - begin) as u64 };
        let at = NonNull::new(std::ptr::with_exposed_provenance_mut(begin))?;
        // SAFETY: the range holds what the pages hold.
        if let Err(error) = unsafe { job.map_over(part, at) } {
            // Pages before this one are replaced and right, but mates would miss the others.
            fault::end("init", format_args!("the program's static variables cannot be mapped: {error}"));
        }
    }
    if REPLACED.set(pieces).is_ok() {
        // SAFETY: the functions are static, and the library is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    }
    Some(())
}

/// The part of a mapping that holds variables and may be written.
fn piece(line: &str, program: Program) -> Option<(usize, usize)> {
    let mut words = line.split(' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let (begin, end) = (usize::from_str_radix(begin, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    let (begin, end) = (begin.max(program.begin), end.min(program.end));
    (words.next()?.starts_with("rw-p") && begin < end).then_some((begin, end))
}

/// Copies pages that are not zero to memory that is.
///
/// # Safety
/// Whole readable pages from `begin` to `end`; `to` has as many.
unsafe fn copy_pages(begin: usize, end: usize, to: *mut u8) {
    for at in (begin..end).step_by(PAGE_BYTES) {
        let page = std::ptr::with_exposed_provenance::<u64>(at);
        // SAFETY: our contract.
        let is_zero = (0..PAGE_BYTES / 8).all(|word| unsafe { page.add(word).read_volatile() } == 0);
        if !is_zero {
            // SAFETY: our contract.
            unsafe { std::ptr::copy_nonoverlapping(page.cast(), to.add(at - begin), PAGE_BYTES) };
        }
    }
}

/// The pipe by which a parent learns that its child has its own copy.
static PIPE: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

extern "C" fn before_fork() {
    let mut ends = [-1; 2];
    // SAFETY: a place for two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    PIPE[0].store(ends[0], Relaxed);
    PIPE[1].store(ends[1], Relaxed);
}

fn close(end: usize) {
    let descriptor = PIPE[end].swap(-1, Relaxed);
    if descriptor >= 0 {
        // SAFETY: the descriptor is ours.
        unsafe { libc::close(descriptor) };
    }
}

/// The parent changes nothing before the child has copied.
extern "C" fn after_fork() {
    const PATIENCE_MS: libc::c_int = 1000;
    close(1);
    let descriptor = PIPE[0].load(Relaxed);
    if descriptor >= 0 {
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one description.
        unsafe { libc::poll(&mut poll, 1, PATIENCE_MS) };
    }
    close(0);
}

/// A child has variables of its own.
extern "C" fn in_child() {
    close(0);
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    for &(begin, end) in REPLACED.get().into_iter().flatten() {
        let bytes = end - begin;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping, filled from pages that are there, then moved to their place.
        unsafe {
            let copy = libc::mmap(std::ptr::null_mut(), bytes, protection, private, -1, 0);
            if copy == libc::MAP_FAILED {
                libc::_exit(1);
            }
            copy_pages(begin, end, copy.cast());
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(
                copy,
                bytes,
                bytes,
                flags,
                std::ptr::with_exposed_provenance_mut::<libc::c_void>(begin),
            );
        }
    }
    close(1);
}
