//! Locks, barriers, flags and memory as the program names them: a word with a mark, so that one that was
//! never made is known, and a line of the program for messages.
//!
//! | number of an object | who makes it |
//! |---|---|
//! | 0 to 2 x ranks - 1 | CREATE: flags of beginning and end |
//! | the next ranks and [`GUARDS`] | condition variables: a flag of each rank, locks |
//! | from there | `main` before CREATE, alike on all ranks |
//! | from `1 << 20` x (rank + 1) on | a rank, in a job on several nodes |

use std::sync::atomic::Ordering::SeqCst;

use crate::arena::BASE;
use crate::core::blocks::{Attributes, PageSize, Protocol};
use crate::core::member::Member;
use crate::core::unit::{LARGE_BYTES, Run, UNIT_BYTES};
use crate::core::violation::Violation;
use crate::node::{OBJECTS_MAX, Words};
use crate::process::{self, Running, Stage, Way, running};
use crate::site::Site;
use crate::size::BYTES_MAX;
use crate::{executor, failure, fault, freed};

/// Bits of a word that hold the number; the mark stands above.
pub(crate) const NUMBER_BITS: u32 = 48;
/// The number of a word.
pub(crate) const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// Locks that guard the lists of condition variables.
pub(crate) const GUARDS: u64 = 64;
/// Objects that a rank may make after CREATE, in a job on several nodes.
const OWN_MAX: u64 = 1 << 20;

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// LOCKDEC, LOCKINIT.
    Lock = 0x7c01,
    /// BARDEC, BARINIT.
    Barrier = 0x7c02,
    /// PAUSEDEC, PAUSEINIT.
    Flag = 0x7c03,
    /// CONDVARDEC, CONDVARINIT: no number, but the last that waits ([`crate::condition`]).
    Condition = 0x7c04,
}

/// How a call goes.
enum Go {
    /// Before CREATE, on a rank that is not there yet.
    Nothing,
    Words(Box<Words>),
    Protocol,
}

fn go(running: &Running) -> Go {
    match &running.way {
        _ if running.stage == Stage::Replaying => Go::Nothing,
        Way::Node(words) => Go::Words(words.clone()),
        Way::Nodes => Go::Protocol,
    }
}

/// Does a call by words or by the protocol.
fn run(
    site: Site<'_>,
    by_words: impl FnOnce(&Words) -> Result<(), Violation>,
    begin: impl FnOnce(&mut Member),
) -> u64 {
    match process::with(|running| go(running)) {
        Go::Nothing => 0,
        Go::Words(words) => {
            if let Err(violation) = by_words(&words) {
                failure::end(format_args!("{site}: {violation}"));
            }
            0
        }
        Go::Protocol => executor::call(begin).unwrap_or(0),
    }
}

/// Makes an object; its word.
pub fn make(kind: Kind, site: Site<'_>) -> u64 {
    if kind == Kind::Condition {
        return (kind as u64) << NUMBER_BITS;
    }
    let number = process::with(|running| {
        let first = 3 * running.ranks() as u64 + GUARDS;
        let is_common = matches!(running.stage, Stage::Main if running.processes.created == 0)
            || running.stage == Stage::Replaying;
        let own = match &running.way {
            Way::Node(words) if !is_common => words.next().fetch_add(1, SeqCst),
            _ => {
                running.objects += 1;
                running.objects - 1
            }
        };
        match &running.way {
            Way::Nodes if own >= OWN_MAX => {
                failure::end(format_args!("{site}: more than {OWN_MAX} locks, barriers and pauses of a rank"))
            }
            Way::Nodes if !is_common => (running.me() as u64 + 1) * OWN_MAX + own,
            Way::Node(_) if first + own >= OBJECTS_MAX => failure::end(format_args!(
                "{site}: more than {OBJECTS_MAX} locks, barriers and pauses in a job on one node"
            )),
            _ => first + own,
        }
    });
    (kind as u64) << NUMBER_BITS | number
}

/// The number of an object that the program names by its word.
pub(crate) fn number(word: u64, kind: Kind, name: &str, site: Site<'_>) -> u64 {
    if word >> NUMBER_BITS != kind as u64 {
        let maker = match kind {
            Kind::Lock => "LOCKINIT",
            Kind::Barrier => "BARINIT",
            Kind::Flag => "PAUSEINIT",
            Kind::Condition => "CONDVARINIT",
        };
        failure::end(format_args!("{site}: {name} of what {maker} has not made: it holds {word:#x}"));
    }
    word & NUMBER_MASK
}

/// LOCK.
pub fn lock(word: u64, site: Site<'_>) {
    lock_number(number(word, Kind::Lock, "LOCK", site), site);
}

/// Takes a lock by its number.
pub(crate) fn lock_number(lock: u64, site: Site<'_>) {
    if !keep_own(|running| running.note_lock(lock), site) {
        run(site, |words| words.lock(lock), |member| member.begin_lock(lock));
    }
}

/// On several nodes the process knows which locks it holds; whether that is all, for `main` is alone.
fn keep_own(change: impl FnOnce(&mut Running) -> Result<(), Violation>, site: Site<'_>) -> bool {
    let (is_alone, changed) = process::with(|running| {
        let has_protocol = matches!(running.way, Way::Nodes) && running.stage != Stage::Replaying;
        (running.is_alone(), if has_protocol { change(running) } else { Ok(()) })
    });
    if let Err(violation) = changed {
        failure::end(format_args!("{site}: {violation}"));
    }
    is_alone
}

/// UNLOCK.
pub fn unlock(word: u64, site: Site<'_>) {
    unlock_number(number(word, Kind::Lock, "UNLOCK", site), site);
}

/// Gives a lock back by its number.
pub(crate) fn unlock_number(lock: u64, site: Site<'_>) {
    if !keep_own(|running| running.note_unlock(lock), site) {
        run(site, |words| words.unlock(lock), |member| member.begin_unlock(lock));
    }
}

/// BARRIER.
pub fn barrier(word: u64, count: i64, site: Site<'_>) {
    let barrier = number(word, Kind::Barrier, "BARRIER", site);
    let ranks = process::with(|running| running.ranks()) as i64;
    if !(1..=ranks).contains(&count) {
        failure::end(format_args!("{site}: BARRIER of {count} processes: from 1 to {ranks} can meet"));
    }
    run(
        site,
        |words| words.barrier(barrier, count as u64),
        |member| member.begin_barrier(barrier, count as u64),
    );
}

/// The process of this rank has ended.
pub(crate) fn end() {
    match process::with(|running| go(running)) {
        Go::Nothing => {}
        Go::Words(words) => words.end(),
        Go::Protocol => drop(executor::call(Member::begin_end)),
    }
}

/// SETPAUSE.
pub fn set(word: u64, site: Site<'_>) {
    set_flag(number(word, Kind::Flag, "SETPAUSE", site), site);
}

/// CLEARPAUSE.
pub fn clear(word: u64, site: Site<'_>) {
    clear_flag(number(word, Kind::Flag, "CLEARPAUSE", site), site);
}

/// Clears a flag by its number.
pub(crate) fn clear_flag(flag: u64, site: Site<'_>) {
    let by_words = |words: &Words| {
        words.set(flag, false);
        Ok(())
    };
    run(site, by_words, |member| member.begin_clear(flag));
}

/// WAITPAUSE.
pub fn wait(word: u64, site: Site<'_>) {
    wait_flag(number(word, Kind::Flag, "WAITPAUSE", site), site);
}

/// Sets a flag by its number.
pub(crate) fn set_flag(flag: u64, site: Site<'_>) {
    let by_words = |words: &Words| {
        words.set(flag, true);
        Ok(())
    };
    run(site, by_words, |member| member.begin_set(flag));
}

/// Waits for a flag by its number.
pub(crate) fn wait_flag(flag: u64, site: Site<'_>) {
    let by_words = |words: &Words| {
        words.wait(flag);
        Ok(())
    };
    run(site, by_words, |member| member.begin_wait(flag));
}

/// G_MALLOC: the address.
pub fn allocate(bytes: u64, site: Site<'_>) -> usize {
    allocate_of(bytes, Attributes::default(), site)
}

/// G_MALLOC_UPDATE: the address. What is stored there goes to all copies.
pub fn allocate_updated(bytes: u64, site: Site<'_>) -> usize {
    allocate_of(bytes, Attributes { protocol: Protocol::Update, ..Attributes::default() }, site)
}

/// The same with attributes.
pub(crate) fn allocate_of(bytes: u64, attributes: Attributes, site: Site<'_>) -> usize {
    let text = site.to_string();
    let found = process::with(|running| {
        if running.processes.created == 0 && matches!(running.stage, Stage::Main | Stage::Replaying) {
            // All ranks come here alike, so each knows what the others get.
            return Some(running.heap.common.allocate(bytes, attributes, &text));
        }
        match &running.way {
            Way::Node(words) => Some(allocate_by_words(words, running, (bytes, attributes), &text)),
            Way::Nodes => None,
        }
    });
    let offset = match found {
        Some(found) => found.unwrap_or_else(|violation| failure::end(format_args!("{violation}"))),
        None => {
            let offset = run(site, |_| Ok(()), |member| member.begin_allocate(bytes, attributes, &text));
            process::with(|running| running.heap.note_own(offset, bytes));
            let first = (offset / UNIT_BYTES as u64) as u32;
            freed::note(Run { first, count: units_of(offset + bytes) - first }, false);
            offset
        }
    };
    fault::note_allocated((offset + bytes) as usize);
    if attributes.size == PageSize::Large {
        let run =
            Run { first: units_of(offset), count: units_of(bytes.next_multiple_of(LARGE_BYTES as u64)) };
        executor::with_member(|member| member.note_large(run));
    }
    BASE + offset as usize
}

/// Memory of a job on one node behind CREATE: what follows the last block.
fn allocate_by_words(
    words: &Words,
    running: &Running,
    (bytes, attributes): (u64, Attributes),
    site: &str,
) -> Result<u64, Violation> {
    let align = if attributes.size == PageSize::Large { LARGE_BYTES as u64 } else { 64 };
    let (size, length) = (running.heap.common.bytes(), bytes.max(1).checked_next_multiple_of(align));
    let taken = words.taken_bytes();
    // What lies before a large page stays unused.
    let place = |before: u64| {
        let offset = before.next_multiple_of(align);
        let end = offset.checked_add(length?).filter(|end| *end <= size)?;
        Some((offset, end))
    };
    let before = taken.fetch_update(SeqCst, SeqCst, |before| Some(place(before)?.1));
    before.map(|before| before.next_multiple_of(align)).map_err(|before| {
        let (site, left) = (site.to_owned(), size.saturating_sub(before.next_multiple_of(align)));
        let (is_updated, common) = (false, &running.heap.common);
        let behind = before.saturating_sub(common.end());
        let users = format!("{} before CREATE, and {behind} bytes behind it", common.users());
        Violation::Full { site, bytes, is_updated, left, size, users }
    })
}

fn units_of(bytes: u64) -> u32 {
    bytes.div_ceil(UNIT_BYTES as u64) as u32
}

/// Whether an address is one of shared memory.
pub fn is_shared(address: usize) -> bool {
    (BASE..BASE + BYTES_MAX as usize).contains(&address)
}

/// `free` of shared memory: other sets of macros take it from `malloc`. Behind the end of the job it is
/// nobody's.
pub fn free_as_private(address: usize) {
    if running().is_some() {
        free(address, Site { file: "free", line: 0 });
    }
}

/// `realloc` of shared memory.
pub fn refuse_realloc(address: usize) -> ! {
    failure::end(format_args!(
        "realloc of shared memory at {address:#x}: a block keeps its length; take another one by G_MALLOC and copy"
    ));
}

/// Copies of the units that lie in these ranges of the arena go away; what this rank has stored there goes
/// home first. On one node there are none.
pub(crate) fn invalidate(ranges: &[std::ops::Range<u64>], site: Site<'_>) {
    let inner = |range: &std::ops::Range<u64>| units_of(range.start)..(range.end / UNIT_BYTES as u64) as u32;
    let units: Vec<u32> = ranges.iter().flat_map(inner).collect();
    run(site, |_| Ok(()), |member| member.begin_invalidate(units));
}

/// G_FREE.
pub fn free(address: usize, site: Site<'_>) {
    let offset = address.wrapping_sub(BASE) as u64;
    let text = site.to_string();
    let found = process::with(|running| {
        if running.processes.created == 0 && matches!(running.stage, Stage::Main | Stage::Replaying) {
            return Some(running.heap.common.free(offset, &text));
        }
        matches!(running.way, Way::Node(_)).then_some(Ok(()))
    });
    match found {
        Some(Ok(())) => {}
        Some(Err(violation)) => failure::end(format_args!("{violation}")),
        None => {
            run(site, |_| Ok(()), |member| member.begin_free(offset, &text));
            hide_freed(offset);
        }
    }
}

/// An access of this rank to pages that it has given back is to fault. Which they are it knows of blocks that
/// `main` or itself has taken.
fn hide_freed(offset: u64) {
    let bytes = process::with(|running| running.heap.forget(offset));
    if let Some(run) = bytes.and_then(|bytes| freed::inside(offset, bytes)) {
        executor::hide(run);
        freed::note(run, true);
    }
}
