//! Report of a rank about itself for the user's eyes: whether it checks, what it waits for, what it has
//! counted.
//!
//! One per local rank, behind everything else in the segment; nothing on the way of a message is in here.
//!
//! # What a sleeper waits for
//! A rank whose threads all sleep says in `sleep` for what: behind its last look and before its sleep, so it
//! costs a sleep some stores, and a wait that ends before nothing.
//!
//! ```text
//! sleeping = bell + 1 -> look, nothing -> waits -> settled = sleeping ... futex ... settled = 0 -> look
//! ```
//!
//! While the rank is frozen, `settled == sleeping == bell + 1` says: it has looked at everything that was
//! published before it announced its sleep, found nothing, and nobody has rung since. Who takes messages for
//! it meanwhile, its service thread, clears `settled` first.
//!
//! # The checker
//! A rank that is being checked writes for people what it waits for, before each sleep. The starter, which
//! judges all jobs, tells it by `verdict` that no rank can ever go on, and rings:
//!
//! ```text
//! rank:     text -> sleep                                   verdict 1 -> 0 -> prints all ranks' texts
//! starter:         all asleep, wait for each other -> verdict = 1 -> bell
//! ```
//! What if it stops right here: the texts stay, the job sleeps as it would for ever.
//!
//! # Locks of files
//! Who is frozen with a lock of a file holds up whoever wants the same range. So whoever freezes says first
//! that no more are to be had, and waits a moment until there are none: the starter for a suspension
//! ([`crate::file_locks`]), the switch thread of the node's daemon at the end of a turn.
//!
//! ```text
//! rank:     node's file_locks + 1 -> file_locks + 1 -> closed? -> lock ... access ... unlock -> both - 1
//! starter:  closed = 1 -> file_locks == 0? -> freeze
//! daemon:   closed = 1 (daemon page) -> node's file_locks == 0? -> freeze
//! ```
//! All write before they read, so a rank and who freezes it do not both miss the other.
//!
//! | word | where |
//! |---|---|
//! | a rank's `file_locks`, the starter's `closed` | here |
//! | the node's `file_locks`, for a daemon that reads one word of a job | [`crate::segment::HeaderPage`] |
//! | the daemon's `closed` | [`crate::daemon_page`] |
//!
//! What if it stops right here: a rank that stays inside is frozen inside after that moment. A starter that
//! dies takes its job with it. When a daemon dies, the starter opens what it has closed.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::termination::Termination;

/// Bytes of a rank's text, at most.
pub const TEXT_BYTES: usize = 56 * 8;
/// How many counters a rank can leave.
pub const COUNTERS: usize = 32;

/// Bytes of the name of a function, at most.
pub const CALL_BYTES: usize = 40;

/// Operations that a sleeper names.
pub const WAITS: usize = 24;
/// Alternatives that a sleeper may have; of one with more it is said that there are more.
pub const ALTERNATIVES: u32 = 1 << 15;

/// Object of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A receive.
    Receive = 1,
    /// A send.
    Send = 2,
    /// A member of a collective operation that has not come.
    Member = 3,
    /// A message that a probe looks for.
    Probe = 4,
    /// Object that is not described here.
    Other = 5,
    /// Another rank's step in the synchronisation of a window: its post, its end, its unlock.
    Window = 6,
    /// A word of this rank's memory that calls of other ranks change.
    Word = 7,
    /// The grant of a lock of a window by the rank whose memory it locks; or the end of the place that it
    /// holds there, of this number (`bytes`), in the queue of the lock of this name (`tag`).
    Lock = 8,
    /// In the background: a rank of another node (`moved`) waits here for a place of this number (`bytes`) in
    /// the queue of the lock of this name (`tag`). `peer`: who is before it.
    Place = 9,
    /// In the background: the same, and the rank has the lock.
    Held = 10,
    /// A page of shared memory, from its home; it comes by itself.
    Page = 11,
    /// The lock of shared memory with the number `tag`. `peer` keeps it, and has a place for each rank that
    /// waits.
    SharedLock = 12,
    /// The barrier of shared memory with the number `tag`.
    Barrier = 13,
    /// The pause of shared memory with the number `tag`.
    Pause = 14,
}

/// An operation that has not ended, and what it is a part of.
///
/// A sleeper goes on when all waits of any one of its alternatives have ended: those of a Waitall are one
/// alternative, each request of a Waitany is one, and each thread that waits has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Object of the wait.
    pub what: What,
    /// Whether its data are under way: it ends by itself.
    pub matched: bool,
    /// The other rank in the world; negative: any.
    pub peer: i32,
    /// Tag; negative: any.
    pub tag: i32,
    /// Context of the communicator.
    pub context: u32,
    /// Bytes of the message, or of the buffer.
    pub bytes: u64,
    /// How many of them have arrived, or left, when they move piece by piece in the library's own hands.
    pub moved: u64,
    /// Which alternative it is a part of; those of one number stand together.
    pub alternative: u32,
    /// No call waits for it: a collective operation that was started does, and goes on by itself.
    pub background: bool,
}

impl Wait {
    /// A word that a call of any other rank may change.
    pub const fn word() -> Self {
        Wait { what: What::Word, ..Wait::other(0, false) }
    }

    /// An operation of which nothing is known but its place.
    pub const fn other(alternative: u32, background: bool) -> Self {
        Wait {
            what: What::Other,
            matched: false,
            peer: -1,
            tag: -1,
            context: 0,
            bytes: 0,
            moved: 0,
            alternative,
            background,
        }
    }
}

/// The waits that there is room for, as a sleeper collects them.
///
/// A part of an alternative that has no room may be left out: whoever can never have the others of it, can
/// never have it. An alternative that has none counts as one that may end.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    waits: [Wait; WAITS],
    count: usize,
    left_out: usize,
    /// Alternatives were left out.
    more: bool,
    /// Parts of alternatives were.
    more_parts: bool,
    /// Alternatives of the background were.
    more_background: bool,
}

impl Default for Named {
    fn default() -> Self {
        Named {
            waits: [Wait::other(0, false); WAITS],
            count: 0,
            left_out: 0,
            more: false,
            more_parts: false,
            more_background: false,
        }
    }
}

impl Named {
    /// How many there are, those that had no room among them.
    pub fn count(&self) -> usize {
        self.count + self.left_out
    }

    /// Another part of this alternative would not be named: there is no room, and none in it that would make
    /// room.
    pub fn is_settled(&self, alternative: u32, background: bool) -> bool {
        let of_it = |other: &&Wait| (other.alternative, other.background) == (alternative, background);
        self.count == WAITS && !self.waits.iter().rev().take_while(of_it).any(|other| other.matched)
    }

    /// Alternatives have been left out, and so would be all that follow.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// The same of those of the background.
    pub fn has_more_background(&self) -> bool {
        self.more_background
    }

    /// Adds one; those of an alternative come one after the other.
    pub fn push(&mut self, wait: Wait) {
        if self.count < WAITS && wait.alternative < ALTERNATIVES {
            self.waits[self.count] = wait;
            self.count += 1;
            return;
        }
        self.left_out += 1;
        let of_it =
            |other: &Wait| (other.alternative, other.background) == (wait.alternative, wait.background);
        if !self.waits[..self.count].last().is_some_and(of_it) {
            *(if wait.background { &mut self.more_background } else { &mut self.more }) = true;
            return;
        }
        self.more_parts = true;
        // One whose data are under way is told last: it ends by itself.
        if !wait.matched
            && let Some(place) = self.waits.iter_mut().rev().find(|other| of_it(other) && other.matched)
        {
            *place = wait;
        }
    }
}

/// Alternatives that are not named.
const MORE: u32 = 1;
/// Parts of alternatives that are not named.
const MORE_PARTS: u32 = 2;
/// The library has something for others that has found no room yet.
const OWES: u32 = 4;
/// Collective operations in the background that are not named.
const MORE_BACKGROUND: u32 = 8;

/// Waits of a rank while all its threads sleep. Writer: the rank.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Sleep {
    /// The endpoint's `sleeping` while what follows holds; else 0.
    pub settled: AtomicU32,
    /// How many waits follow.
    count: AtomicU32,
    /// Flags beside the waits: [`MORE`], [`MORE_PARTS`], [`OWES`], [`MORE_BACKGROUND`].
    flags: AtomicU32,
    /// Threads that wait.
    threads: AtomicU32,
    /// Any thread may call: who does not wait may send.
    multiple: AtomicU32,
    /// Messages that no receive has asked for.
    unasked: AtomicU32,
    /// The function that was called; zeros behind its name.
    call: [AtomicU64; CALL_BYTES / 8],
    /// Fields of each wait: what, matched, background, alternative, tag; context, peer; bytes; moved.
    waits: [[AtomicU64; 4]; WAITS],
}

/// Contents of [`Sleep`], as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asleep {
    /// The function that was called; empty: it is not known.
    pub call: String,
    /// Waits that were named.
    pub waits: Vec<Wait>,
    /// Whether there are more alternatives than were named.
    pub more: bool,
    /// Whether there are more parts of them than were named.
    pub more_parts: bool,
    /// Whether there are more collective operations in the background than were named.
    pub more_background: bool,
    /// The library has something for others that has found no room yet: they may go on without this rank's
    /// doing so.
    pub owes: bool,
    /// Threads that wait.
    pub threads: u32,
    /// Any thread may call: who does not wait may send.
    pub multiple: bool,
    /// Messages that no receive has asked for.
    pub unasked: u32,
}

impl Sleep {
    /// Says which function waits, by its name.
    pub fn write_call(&self, name: &[u8]) {
        let mut bytes = [0; CALL_BYTES];
        let length = name.len().min(CALL_BYTES);
        bytes[..length].copy_from_slice(&name[..length]);
        for (word, chunk) in self.call.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
    }

    /// The name; nothing when none was said, or no name of a function of C stands here.
    fn read_call(&self) -> String {
        let bytes = self.call.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        String::from_utf8(name).ok().filter(|_| is_name).unwrap_or_default()
    }

    /// Says what is waited for, but not yet that it holds; the name of the function is said by
    /// [`Self::write_call`].
    pub fn write(&self, named: &Named, asleep: &Asleep) {
        for (words, wait) in self.waits.iter().zip(&named.waits[..named.count]) {
            let Wait { what, matched, peer, tag, context, bytes, moved, alternative, background } = *wait;
            let place = u64::from(background) << 9 | u64::from(alternative) << 16;
            let first = u64::from(what as u8) | u64::from(matched) << 8 | place | u64::from(tag as u32) << 32;
            words[0].store(first, Ordering::Relaxed);
            words[1].store(u64::from(context) | u64::from(peer as u32) << 32, Ordering::Relaxed);
            words[2].store(bytes, Ordering::Relaxed);
            words[3].store(moved, Ordering::Relaxed);
        }
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let more = flag(asleep.more || named.more, MORE);
        let more_parts = flag(asleep.more_parts || named.more_parts, MORE_PARTS);
        self.count.store(named.count as u32, Ordering::Relaxed);
        let more_background = flag(asleep.more_background || named.more_background, MORE_BACKGROUND);
        let flags = more | more_parts | more_background | flag(asleep.owes, OWES);
        self.flags.store(flags, Ordering::Relaxed);
        self.threads.store(asleep.threads, Ordering::Relaxed);
        self.multiple.store(u32::from(asleep.multiple), Ordering::Relaxed);
        self.unasked.store(asleep.unasked, Ordering::Relaxed);
    }

    /// Reads what was said; anything may stand here, what is no wait is left out and counts as more.
    pub fn read(&self) -> Asleep {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let flags = self.flags.load(Ordering::Relaxed);
        let mut more = flags & MORE != 0 || count > WAITS;
        let mut waits = Vec::new();
        for words in &self.waits[..count.min(WAITS)] {
            let [first, second, bytes, moved] = [0, 1, 2, 3].map(|word| words[word].load(Ordering::Relaxed));
            let what = match first as u8 {
                1 => What::Receive,
                2 => What::Send,
                3 => What::Member,
                4 => What::Probe,
                5 => What::Other,
                6 => What::Window,
                7 => What::Word,
                8 => What::Lock,
                9 => What::Place,
                10 => What::Held,
                11 => What::Page,
                12 => What::SharedLock,
                13 => What::Barrier,
                14 => What::Pause,
                _ => {
                    more = true;
                    continue;
                }
            };
            let (tag, peer) = ((first >> 32) as u32 as i32, (second >> 32) as u32 as i32);
            let matched = first >> 8 & 1 != 0;
            let (background, alternative) = (first >> 9 & 1 != 0, (first >> 16) as u32 & (ALTERNATIVES - 1));
            let context = second as u32;
            waits.push(Wait { what, matched, peer, tag, context, bytes, moved, alternative, background });
        }
        Asleep {
            call: self.read_call(),
            waits,
            more,
            more_parts: flags & MORE_PARTS != 0,
            more_background: flags & MORE_BACKGROUND != 0,
            owes: flags & OWES != 0,
            threads: self.threads.load(Ordering::Relaxed),
            multiple: self.multiple.load(Ordering::Relaxed) != 0,
            unasked: self.unasked.load(Ordering::Relaxed),
        }
    }
}

/// The report of one rank. Writer: the rank, but where a field says otherwise.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Report {
    /// 0 until the rank has said how it checks; then one more than its mode.
    pub check: AtomicU32,
    /// 1: all ranks wait for each other for ever, and this one is to say so. Writers: the starter sets it,
    /// the rank clears it.
    pub verdict: AtomicU32,
    text_bytes: AtomicU32,
    /// Locks of files that the rank has, or tries to get.
    file_locks: AtomicU32,
    /// 1: the rank is about to be frozen for long, and gets no lock of a file. Writer: the starter.
    file_locks_closed: AtomicU32,
    _line0: [u32; 11],
    text: [AtomicU64; TEXT_BYTES / 8],
    counters: [AtomicU64; COUNTERS],
    /// In the report of rank 0: ranks that have left the job. Writer: all, by atomic addition.
    pub left: AtomicU32,
    _line12: [u32; 1],
    /// Address in the rank's memory of a [`crate::unexpected::Root`]; 0: it has none yet.
    pub kept: AtomicU64,
    /// Where in the segment's file its [`crate::directory`] lies; 0: it has opened no region yet.
    pub directory: AtomicU64,
    /// Whether it wants to be notified that the job has terminated.
    pub termination: Termination,
    _line13: [u32; 6],
    /// Waits of the rank in its sleep.
    pub sleep: Sleep,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Report>() == 26 * 64 && align_of::<Report>() == 64);

impl Report {
    /// Writes the text, as much of it as there is room for.
    pub fn write(&self, text: &str) {
        let mut end = text.len().min(TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        for (word, chunk) in self.text.iter().zip(text.as_bytes()[..end].chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        self.text_bytes.store(end as u32, Ordering::Release);
    }

    /// The text. What another rank writes meanwhile may be torn; it is never anything but text.
    pub fn read(&self) -> String {
        let bytes = (self.text_bytes.load(Ordering::Acquire) as usize).min(TEXT_BYTES);
        let words = self.text[..bytes.div_ceil(8)].iter().map(|word| word.load(Ordering::Relaxed));
        let text: Vec<u8> = words.flat_map(u64::to_ne_bytes).take(bytes).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Before a lock of a file is asked for. False: none is to be had now; it is asked again later.
    #[must_use]
    pub fn begin_file_lock(&self) -> bool {
        self.file_locks.fetch_add(1, Ordering::SeqCst);
        let is_open = self.file_locks_closed.load(Ordering::SeqCst) == 0;
        if !is_open {
            self.end_file_lock();
        }
        is_open
    }

    /// The lock is given back, or was not to be had.
    pub fn end_file_lock(&self) {
        self.file_locks.fetch_sub(1, Ordering::SeqCst);
    }

    #[cfg(not(loom))]
    pub(crate) fn close_file_locks(&self, closed: bool) {
        self.file_locks_closed.store(u32::from(closed), Ordering::SeqCst);
    }

    #[cfg(not(loom))]
    pub(crate) fn has_file_locks(&self) -> bool {
        self.file_locks.load(Ordering::SeqCst) != 0
    }

    /// Leaves what was counted; before the rank says that it has left.
    ///
    /// # Panics
    /// When there are more than [`COUNTERS`].
    pub fn leave_counters(&self, values: &[u64]) {
        assert!(values.len() <= COUNTERS, "{} counters", values.len());
        for (word, value) in self.counters.iter().zip(values) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// Values that were left, of the first `count` counters.
    pub fn counters(&self, count: usize) -> Vec<u64> {
        self.counters[..count].iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn report() -> Box<Report> {
        // SAFETY: all fields are integers, for which zero is a value.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    #[test]
    fn report_text_round_trips_and_is_cut_between_characters() {
        let report = report();
        assert_eq!(report.read(), "");
        report.write("MPI_Recv on MPI_COMM_WORLD");
        assert_eq!(report.read(), "MPI_Recv on MPI_COMM_WORLD");
        report.write("short");
        assert_eq!(report.read(), "short");
        report.write(&("x".repeat(TEXT_BYTES - 1) + "ä and more"));
        assert_eq!(report.read(), "x".repeat(TEXT_BYTES - 1));
    }

    fn wait(tag: i32, alternative: u32) -> Wait {
        let (matched, background) = (tag % 2 == 0, tag % 3 == 0);
        let what = What::Receive;
        let (peer, context, bytes, moved) = (-1, 6, 1 << 40, 7);
        Wait { what, matched, peer, tag, context, bytes, moved, alternative, background }
    }

    fn named(waits: impl IntoIterator<Item = Wait>) -> Named {
        let mut named = Named::default();
        waits.into_iter().for_each(|wait| named.push(wait));
        named
    }

    #[test]
    fn report_waits_round_trip() {
        let sleep = &report().sleep;
        let call = "MPI_Recv".to_owned();
        let asleep = Asleep { call, threads: 2, multiple: true, unasked: 5, owes: true, ..Asleep::default() };
        sleep.write_call(b"MPI_Recv");
        let waits = [wait(1, 0), wait(2, 0), wait(3, ALTERNATIVES - 1), Wait::other(7, true)];
        sleep.write(&named(waits), &asleep);
        assert_eq!(sleep.read(), Asleep { waits: waits.to_vec(), ..asleep.clone() });
        sleep.write(&named([wait(1, 0)]), &asleep);
        assert!(!sleep.read().more && sleep.read().waits.len() == 1);
        sleep.waits[0][0].store(77, Ordering::Relaxed);
        assert_eq!(sleep.read(), Asleep { more: true, ..asleep });
        sleep.count.store(u32::MAX, Ordering::Relaxed);
        assert!(sleep.read().more);
    }

    #[test]
    fn report_waits_beyond_room_are_counted() {
        let sleep = &report().sleep;
        let read = |waits: &mut dyn Iterator<Item = Wait>| {
            sleep.write(&named(waits), &Asleep::default());
            let Asleep { waits, more, more_parts, .. } = sleep.read();
            (waits, more, more_parts)
        };
        let all = WAITS as i32;
        let (waits, more, more_parts) = read(&mut (0..all).map(|tag| wait(tag, tag as u32)));
        assert_eq!((waits.len(), more, more_parts), (WAITS, false, false));
        let (waits, more, more_parts) = read(&mut (0..all + 2).map(|tag| wait(tag, tag as u32)));
        assert_eq!((waits.len(), more, more_parts), (WAITS, true, false));
        let part = |tag| Wait { background: false, ..wait(tag, 4) };
        let (waits, more, more_parts) = read(&mut (0..2 * all).map(part));
        assert_eq!((waits.len(), more, more_parts), (WAITS, false, true));
        assert!(waits.iter().all(|wait| !wait.matched), "{waits:?}");
        let (waits, more, more_parts) =
            read(&mut (0..all).map(part).chain([Wait { background: true, ..part(1) }]));
        assert_eq!((waits.len(), more, more_parts), (WAITS, false, false), "the calls are all named");
        assert!(sleep.read().more_background, "a collective operation in the background is another");
        let (_, more, _) = read(&mut [wait(0, 0), wait(1, ALTERNATIVES)].into_iter());
        assert!(more);
    }

    #[test]
    fn report_function_names_round_trip() {
        let sleep = &report().sleep;
        let longest = "MPI_Intercomm_create_from_groups";
        for name in ["", "MPI_Recv", longest, &"x".repeat(CALL_BYTES)] {
            sleep.write_call(name.as_bytes());
            assert_eq!(sleep.read_call(), name);
        }
        sleep.write_call("x".repeat(CALL_BYTES + 1).as_bytes());
        assert_eq!(sleep.read_call().len(), CALL_BYTES);
        for other in ["MPI Recv", "\u{1b}[31m", "M\u{e4}"] {
            sleep.write_call(other.as_bytes());
            assert_eq!(sleep.read_call(), "");
        }
    }

    #[test]
    fn report_file_locks_are_refused_while_they_are_closed() {
        let report = report();
        assert!(report.begin_file_lock() && report.begin_file_lock());
        report.close_file_locks(true);
        assert!(!report.begin_file_lock());
        report.end_file_lock();
        assert!(report.has_file_locks(), "one of two is given back");
        report.end_file_lock();
        assert!(!report.has_file_locks());
        report.close_file_locks(false);
        assert!(report.begin_file_lock());
    }

    #[test]
    fn report_counters_round_trip() {
        let report = report();
        report.leave_counters(&[3, 1, 4]);
        assert_eq!(report.counters(4), [3, 1, 4, 0]);
    }
}
