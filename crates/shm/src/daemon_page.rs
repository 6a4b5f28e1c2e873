//! The daemon page: what a job's ranks are told of their turns. One page per job and node,
//! beside the segment.
//!
//! ```text
//! starter: DaemonPage::create -> ranks: a descriptor that is open for reading only, Page::read, then clock()
//!                             -> daemon: opens the starter's, DaemonPage::adopt -> Teller
//! teller:  draft -> Teller of the switch thread, in the daemon's own memory; Copier of a thread that may wait
//! teller:  begin (stands still since) ... frozen ... end (how long, how often, until when its slice lasts) -> thaw
//! ```
//!
//! | line | writer |
//! |---|---|
//! | turns | the node's daemon, by a copier; the starter while there is none |
//! | holds | the starter: suspended by its user, stopped for a snapshot |
//!
//! **Library time** is monotonic time without what a job has stood still. A page of zeros says: never frozen,
//! no slice ends. Both lines are written before the ranks are thawed, so a rank finds new words, or was not
//! frozen. A total only grows, so one that is the same before and after a look at the clock belongs to that
//! time ([`Page::clock`]).
//!
//! **Times that overlap** (suspended in the middle of another's turn) count once: the starter leaves out of
//! its line what the other has (`Hold`). If a daemon dies while the job stands still, the starter ends its
//! line for it ([`DaemonPage::settle`]); a slice that it had announced ends too.
//!
//! **Trust.** The daemon reads the words once, when it adopts the page, as numbers without meaning that it
//! goes on counting from; after that it only writes. The page cannot become shorter. A rank cannot write by
//! what it is given; a job that wants to spoil its own clock can, as it can spoil its segment: nobody else
//! looks at it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::sync::{AtomicU64, Ordering};

/// Bytes of the file.
pub const PAGE_BYTES: usize = 4096;
/// Name of the file, for those who look for it among the descriptors of a starter.
pub const NAME: &str = "tutti-turns";

/// Line of one writer.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Line {
    /// How often it has been thawed. Stored before the total.
    thaw_count: AtomicU64,
    /// How long it has stood still, in all.
    frozen_ns_total: AtomicU64,
    /// Time since which it stands still (CLOCK_MONOTONIC); 0: it does not.
    frozen_since_ns: AtomicU64,
    /// The switch that it runs in.
    generation: AtomicU64,
    /// When its slice ends (CLOCK_MONOTONIC); 0: nobody waits for its end.
    slice_end_ns: AtomicU64,
    /// 1: the job is about to be frozen, or is, and no rank gets a lock of a file ([`crate::report`]).
    file_locks_closed: AtomicU64,
    _rest: [u64; 2],
}

#[repr(C)]
#[derive(Debug, Default)]
struct Lines {
    turns: Line,
    holds: Line,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Lines>() == 2 * crate::LINE_BYTES);

/// Library time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Monotonic time without what the job has stood still.
    pub ns: u64,
    /// How often it had been thawed by then.
    pub thaw_count: u64,
}

/// Turns of the job, as the page tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// How often the job has been thawed.
    pub thaw_count: u64,
    /// How long it has stood still.
    pub frozen_ns_total: u64,
    /// The switch that it runs in; 0: no daemon has switched it.
    pub generation: u64,
    /// When its slice ends; 0: nobody waits for its end.
    pub slice_end_ns: u64,
}

impl Line {
    fn settle(&self, now_ns: u64) {
        Sums::of(self).end(self, now_ns, 0);
        self.slice_end_ns.store(0, Ordering::Release);
        self.file_locks_closed.store(0, Ordering::SeqCst);
    }
}

impl Lines {
    /// Both only grow: while the sum is the same, both are. An array of the two, compared as a whole, made a
    /// look at the clock take 50 ns instead of 24.
    #[inline(always)]
    fn frozen_ns(&self) -> u64 {
        let total = |line: &Line| line.frozen_ns_total.load(Ordering::Acquire);
        total(&self.turns).wrapping_add(total(&self.holds))
    }

    #[inline(always)]
    fn thaw_count(&self) -> u64 {
        let count = |line: &Line| line.thaw_count.load(Ordering::Relaxed);
        count(&self.turns).wrapping_add(count(&self.holds))
    }

    #[inline(always)]
    fn clock(&self, mut monotonic_ns: impl FnMut() -> u64) -> Time {
        loop {
            let frozen_ns = self.frozen_ns();
            let thaw_count = self.thaw_count();
            let now_ns = monotonic_ns();
            if self.frozen_ns() == frozen_ns {
                return Time { ns: now_ns.wrapping_sub(frozen_ns), thaw_count };
            }
        }
    }

    fn turns(&self) -> Turns {
        Turns {
            thaw_count: self.thaw_count(),
            frozen_ns_total: self.frozen_ns(),
            generation: self.turns.generation.load(Ordering::Relaxed),
            slice_end_ns: self.turns.slice_end_ns.load(Ordering::Relaxed),
        }
    }
}

/// The last words of a writer's line: it keeps them, and never reads them back.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    thaw_count: u64,
    frozen_ns_total: u64,
    frozen_since_ns: u64,
}

impl Sums {
    /// As they stand there; of one moment, also if the other writer ends a time meanwhile.
    fn of(line: &Line) -> Self {
        loop {
            let frozen_ns_total = line.frozen_ns_total.load(Ordering::Acquire);
            let thaw_count = line.thaw_count.load(Ordering::Acquire);
            let frozen_since_ns = line.frozen_since_ns.load(Ordering::Acquire);
            if line.frozen_ns_total.load(Ordering::Acquire) == frozen_ns_total {
                return Sums { thaw_count, frozen_ns_total, frozen_since_ns };
            }
        }
    }

    fn begin(&mut self, line: &Line, now_ns: u64) {
        if self.frozen_since_ns == 0 {
            self.frozen_since_ns = now_ns;
            line.frozen_since_ns.store(now_ns, Ordering::Release);
        }
    }

    /// `beside_ns` of it stands in the other line.
    fn end(&mut self, line: &Line, now_ns: u64, beside_ns: u64) {
        if self.frozen_since_ns == 0 {
            return;
        }
        let stood_ns = now_ns.saturating_sub(self.frozen_since_ns).saturating_sub(beside_ns);
        self.thaw_count = self.thaw_count.wrapping_add(1);
        self.frozen_ns_total = self.frozen_ns_total.wrapping_add(stood_ns);
        self.frozen_since_ns = 0;
        line.thaw_count.store(self.thaw_count, Ordering::Release);
        line.frozen_ns_total.store(self.frozen_ns_total, Ordering::Release);
        line.frozen_since_ns.store(0, Ordering::Release);
    }

    /// How long it has stood still in all by now, what lasts included.
    fn upto(&self, now_ns: u64) -> u64 {
        let lasts_ns =
            if self.frozen_since_ns == 0 { 0 } else { now_ns.saturating_sub(self.frozen_since_ns) };
        self.frozen_ns_total.wrapping_add(lasts_ns)
    }
}

/// The page, mapped. Unmapped when dropped.
#[derive(Debug)]
pub struct Page(NonNull<Lines>);

// SAFETY: the mapping lives as long as the value, and only its atomics are used.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Maps what came from the starter, for reading.
    ///
    /// # Errors
    /// When it is no such page.
    pub fn read(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        check(descriptor, None)?;
        Self::map(descriptor, libc::PROT_READ)
    }

    /// Library time. `monotonic_ns` reads the clock.
    #[inline]
    pub fn clock(&self, monotonic_ns: impl FnMut() -> u64) -> Time {
        self.lines().clock(monotonic_ns)
    }

    /// How long the job has stood still by now, what lasts included. It may be wrong by a time that begins or
    /// ends meanwhile.
    pub fn frozen_ns(&self, now_ns: u64) -> u64 {
        let lines = self.lines();
        let lasts_ns = |line: &Line| match line.frozen_since_ns.load(Ordering::Acquire) {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        lines.frozen_ns().wrapping_add(lasts_ns(&lines.turns).max(lasts_ns(&lines.holds)))
    }

    /// Reads the turns from the page.
    pub fn turns(&self) -> Turns {
        self.lines().turns()
    }

    /// No rank gets a lock of a file now. Who has said before that it wants one is seen by the daemon if this
    /// is false.
    pub fn are_file_locks_closed(&self) -> bool {
        self.lines().turns.file_locks_closed.load(Ordering::SeqCst) != 0
    }

    #[inline(always)]
    fn lines(&self) -> &Lines {
        // SAFETY: the mapping is a page that cannot become shorter, aligned, and lives as long as self; all
        // words are atomics.
        unsafe { self.0.as_ref() }
    }

    fn map(descriptor: BorrowedFd<'_>, protection: libc::c_int) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address that the kernel chooses disturbs no other memory.
        let base = unsafe {
            let file = descriptor.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_SHARED, file, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if protection & libc::PROT_WRITE != 0 {
            // A child made by fork() must not become a second writer.
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(base, PAGE_BYTES, libc::MADV_DONTFORK) };
        }
        Ok(Page(NonNull::new(base.cast()).expect("mmap returned null")))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; borrows of it end with this value.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The starter's page, with the descriptor by which daemons find it.
#[derive(Debug)]
pub struct DaemonPage {
    page: Page,
    descriptor: OwnedFd,
}

impl DaemonPage {
    /// Makes the page of a job: all zeros, of a size that stays.
    ///
    /// # Errors
    /// When the kernel gives no descriptor or no memory.
    pub fn create() -> io::Result<Self> {
        let descriptor = create_file(NAME)?;
        let page = Page::map(descriptor.as_fd(), libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(DaemonPage { page, descriptor })
    }

    /// The same file, open for reading only: what a rank gets.
    ///
    /// # Errors
    /// When the kernel gives none; it needs /proc.
    pub fn reading_end(&self) -> io::Result<OwnedFd> {
        let file = std::fs::File::open(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))?;
        Ok(file.into())
    }

    /// Maps the page of this user's job, to tell it of its turns. Goes on with the numbers that stand there.
    /// The descriptor may be anything that a user could bring.
    ///
    /// # Errors
    /// When it is no such page, or not the user's.
    pub fn adopt(descriptor: BorrowedFd<'_>, user: u32, now_ns: u64) -> io::Result<Teller> {
        check(descriptor, Some(user))?;
        let page = Page::map(descriptor, libc::PROT_READ | libc::PROT_WRITE)?;
        // What a daemon has left that died is over: who is adopted runs.
        page.lines().turns.settle(now_ns);
        let sums = Sums::of(&page.lines().turns);
        Ok(Teller { sums: Sums { frozen_since_ns: 0, ..sums }, place: Place::Page(page) })
    }

    /// Descriptor of the page.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Reads the turns from the page.
    pub fn turns(&self) -> Turns {
        self.page.turns()
    }

    /// The job's daemon is gone: whatever it has begun is over.
    pub fn settle(&self, now_ns: u64) {
        self.page.lines().turns.settle(now_ns);
    }
}

/// Where a daemon's words stand.
#[derive(Debug)]
enum Place {
    /// On the job's page: who touches it may wait for the job's user.
    Page(Page),
    /// In memory of the daemon's own, until a [`Copier`] takes them there.
    Draft(Arc<Line>),
}

/// A daemon's way to tell a job of its turns. Stores only; nothing here allocates, waits or fails, but for
/// the page itself: its user may take it away in the middle of a store, and only [`Teller::draft`] bounds
/// how long that takes.
#[derive(Debug)]
pub struct Teller {
    place: Place,
    sums: Sums,
}

/// Takes the words of a draft to the job's page, in a thread that may wait for the job's user.
#[derive(Debug)]
pub struct Copier {
    page: Page,
    draft: Arc<Line>,
}

impl Copier {
    /// Takes what stands in the draft by now to the page.
    pub fn copy(&self) {
        let (from, to) = (&*self.draft, &self.page.lines().turns);
        // A count that is newer than its total is allowed, the other way round is not.
        let frozen_ns_total = from.frozen_ns_total.load(Ordering::Acquire);
        to.thaw_count.store(from.thaw_count.load(Ordering::Acquire), Ordering::Release);
        to.frozen_ns_total.store(frozen_ns_total, Ordering::Release);
        to.frozen_since_ns.store(from.frozen_since_ns.load(Ordering::Acquire), Ordering::Release);
        to.generation.store(from.generation.load(Ordering::Relaxed), Ordering::Relaxed);
        to.slice_end_ns.store(from.slice_end_ns.load(Ordering::Relaxed), Ordering::Release);
        to.file_locks_closed.store(from.file_locks_closed.load(Ordering::SeqCst), Ordering::SeqCst);
    }
}

impl Teller {
    /// The same in memory of the daemon's own, and what takes it to the page.
    pub fn draft(self) -> (Teller, Copier) {
        let draft = Arc::new(Line::default());
        draft.thaw_count.store(self.sums.thaw_count, Ordering::Relaxed);
        draft.frozen_ns_total.store(self.sums.frozen_ns_total, Ordering::Release);
        let page = match self.place {
            Place::Page(page) => page,
            Place::Draft(_) => panic!("a draft is no page"),
        };
        let copier = Copier { page, draft: Arc::clone(&draft) };
        (Teller { place: Place::Draft(draft), sums: self.sums }, copier)
    }

    fn line(&self) -> &Line {
        match &self.place {
            Place::Page(page) => &page.lines().turns,
            Place::Draft(line) => line,
        }
    }

    /// Notes that the job stands still from now on. Told before it does.
    pub fn begin(&mut self, now_ns: u64) {
        let mut sums = self.sums;
        sums.begin(self.line(), now_ns);
        self.sums = sums;
    }

    /// Notes that the job goes on. Told before it does.
    pub fn end(&mut self, now_ns: u64) {
        let mut sums = self.sums;
        sums.end(self.line(), now_ns, 0);
        self.sums = sums;
    }

    /// The switch that it runs in, and when its slice ends; 0: nobody waits for its end.
    pub fn publish_turns(&self, generation: u64, slice_end_ns: u64) {
        let line = self.line();
        line.generation.store(generation, Ordering::Relaxed);
        line.slice_end_ns.store(slice_end_ns, Ordering::Release);
    }

    /// No rank gets a lock of a file from now on, or each may again.
    pub fn close_file_locks(&self, closed: bool) {
        self.line().file_locks_closed.store(u64::from(closed), Ordering::SeqCst);
    }
}

/// The starter's part: the job stands still because its user, or a snapshot, wants it.
#[derive(Debug, Default)]
pub struct Hold {
    sums: Sums,
    /// Time for which the daemon's line had the job standing still when the hold began.
    beside_ns: u64,
}

impl Hold {
    /// Notes that the job stands still from now on. Told before it does.
    pub fn begin(&mut self, page: &DaemonPage, now_ns: u64) {
        self.beside_ns = Sums::of(&page.page.lines().turns).upto(now_ns);
        self.sums.begin(&page.page.lines().holds, now_ns);
    }

    /// Notes that the job goes on, or would if it were its turn. Told before it does.
    pub fn end(&mut self, page: &DaemonPage, now_ns: u64) {
        let beside_ns = Sums::of(&page.page.lines().turns).upto(now_ns).saturating_sub(self.beside_ns);
        self.sums.end(&page.page.lines().holds, now_ns, beside_ns);
    }
}

/// A file of zeros of [`PAGE_BYTES`], of a size that stays.
pub(crate) fn create_file(name: &str) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(name).expect("it has no zero in it");
    // SAFETY: the name is a C string; a fresh descriptor is owned by nobody else; plain system calls on it.
    unsafe {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let descriptor = OwnedFd::from_raw_fd(checked(libc::memfd_create(name.as_ptr(), flags))?);
        checked(libc::ftruncate(descriptor.as_raw_fd(), PAGE_BYTES as libc::off_t))?;
        checked(libc::fchmod(descriptor.as_raw_fd(), 0o600))?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        checked(libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
        Ok(descriptor)
    }
}

/// Whether the file is such a page: one of the size that cannot change, and this user's.
pub(crate) fn check(descriptor: BorrowedFd<'_>, user: Option<u32>) -> io::Result<()> {
    let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    // SAFETY: stat is plain data, filled by the kernel before it is read; plain system calls.
    let (stat, seals) = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        checked(libc::fstat(descriptor.as_raw_fd(), &mut stat))?;
        (stat, libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS))
    };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || seals & libc::F_SEAL_GROW == 0 {
        return wrong("the page of the job's turns may change its size");
    }
    if stat.st_size != PAGE_BYTES as libc::off_t {
        return wrong("the page of the job's turns has another size");
    }
    match user {
        Some(user) if user != stat.st_uid => wrong("the page of the job's turns is another user's"),
        _ => Ok(()),
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
