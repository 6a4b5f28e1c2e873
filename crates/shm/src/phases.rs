//! The page of a job's phases: which words jobs that share parallel slots (`--phases`) and the daemon's
//! arbiter tell each other by. One page per job and node, beside the segment.
//!
//! | line | word | writer | meaning |
//! |---|---|---|---|
//! | 0 | magic, lease, yield_min, bell, namespace | the starter, once | what the job has agreed to; the number of an older daemon's bell there; where its pids are names |
//! | 0 | `counts` | the starter, once | 1: its ranks ring by `rings` |
//! | 0 | `rings` (futex) | any process of the job | each ring makes it greater |
//! | 1 | `others` | the node's daemon; the starter when the daemon is gone | jobs beside it; 0: a region is one load |
//! | 1 | `grant` (futex) | the same | odd: the part has the slots; each change makes it greater |
//! | 1 | `contended` | the same | another wants the slots: ring when the last region ends |
//! | 1 | `patience_ns` | the same | how long a wait may last |
//! | 2.. | `owner` | the process (0 to its pid); the starter after its death | whose line it is |
//! | 2.. | `request` | the process | regions begun |
//! | 2.. | `yielded` | the process; the starter after its death | regions ended |
//!
//! ```text
//! begin: others = 0 ? done : request += 1; fence; grant odd ? done : ring, wait while grant is even
//! end:   yielded = request; fence; contended ? ring
//! other: contended = 1; fence; all yielded = request ? take: grant += 1
//! ```
//!
//! **What if it stops right here.** A process that is frozen between `request` and the ring is found at the
//! next look; its line says that it wants. One that is killed in a region leaves `request` above `yielded`:
//! its starter ends the line, or, of a process that is no rank, the daemon finds that the pid is gone. A
//! process in another PID namespace, whose pid would be a stranger's for them, takes no line: it announces
//! nothing. A
//! daemon that dies leaves its words: the starter sees its wire end, and sets `others` to 0. Between "all
//! yielded" and "take" a process may begin a region with the old grant: one region overlaps with another's,
//! which costs time and breaks nothing. No wait is longer than `patience_ns`.
//!
//! **Trust.** Ranks may write all of it, and lie about themselves only. The daemon takes numbers within
//! bounds, keeps what it has granted itself, and follows no pointer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::daemon_page::{check, create_file};
use crate::doorbell::futex;
use crate::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Bytes of the file.
pub const PAGE_BYTES: usize = crate::daemon_page::PAGE_BYTES;
/// Name of the file, for those who look for it among the descriptors of a starter.
pub const NAME: &str = "tutti-phases";
/// Variable: the numbers under which a rank keeps the page and the bell, `PAGE:BELL`.
pub const VARIABLE: &str = "TUTTI_PHASES";
/// Processes of a job on a node that can announce regions at the same time.
pub const PLACES: usize = 62;
/// Another layout has another number.
const MAGIC: u64 = 0x3148_5045_5454_5554;
/// A wait is interrupted so often, for a word that was lost.
const LOOK: Duration = Duration::from_millis(5);
/// No wait is longer, whatever the page says.
const PATIENCE_NS_MAX: u64 = 20_000_000_000;

/// Terms that the job has agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Time that it may hold the slots while others want them.
    pub lease_ns: u64,
    /// A yield counts so long after the grant.
    pub yield_min_ns: u64,
    /// Weight of the job beside the others.
    pub weight: u32,
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Head {
    magic: AtomicU64,
    lease_ns: AtomicU64,
    yield_min_ns: AtomicU64,
    weight: AtomicU32,
    bell: AtomicU32,
    namespace: AtomicU64,
    counts: AtomicU32,
    rings: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Told {
    others: AtomicU32,
    grant: AtomicU32,
    contended: AtomicU32,
    _rest: AtomicU32,
    patience_ns: AtomicU64,
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Place {
    owner: AtomicU32,
    _rest: AtomicU32,
    request: AtomicU64,
    yielded: AtomicU64,
}

impl Place {
    fn is_inside(&self) -> bool {
        self.owner.load(SeqCst) != 0 && self.request.load(SeqCst) != self.yielded.load(SeqCst)
    }

    fn end(&self) {
        self.yielded.store(self.request.load(SeqCst), SeqCst);
        self.owner.store(0, SeqCst);
    }
}

#[repr(C)]
#[derive(Debug)]
struct Lines {
    head: Head,
    told: Told,
    places: [Place; PLACES],
}

const _: () = assert!(size_of::<Lines>() == PAGE_BYTES);

/// The page, mapped. Unmapped when dropped.
#[derive(Debug)]
struct Page(NonNull<Lines>);

// SAFETY: the mapping lives as long as the value, and only its atomics are used.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping at an address that the kernel chooses disturbs no other memory.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let file = descriptor.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_SHARED, file, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Page(NonNull::new(base.cast()).expect("mmap returned null")))
    }

    fn lines(&self) -> &Lines {
        // SAFETY: the mapping is a page that cannot become shorter, aligned, and lives as long as self; all
        // words are atomics.
        unsafe { self.0.as_ref() }
    }

    fn is_any_inside(&self) -> bool {
        self.lines().places.iter().any(Place::is_inside)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; borrows of it end with this value.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The starter's page, and the bell by which its ranks wake the daemon.
#[derive(Debug)]
pub struct PhasesPage {
    page: Page,
    descriptor: OwnedFd,
    /// A daemon of the version before opens it anew; held so that no rank finds a pipe without a reader.
    _bell_end: OwnedFd,
    bell: OwnedFd,
}

impl PhasesPage {
    /// Makes the page of a job.
    ///
    /// # Errors
    /// When the kernel gives no descriptor or no memory.
    pub fn create(agreement: Agreement) -> io::Result<Self> {
        let descriptor = create_file(NAME)?;
        let page = Page::map(descriptor.as_fd())?;
        let mut ends = [0; 2];
        // SAFETY: the array has room for two numbers; what the kernel puts there is owned by nobody else.
        let (bell_end, bell) = unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) < 0 {
                return Err(io::Error::last_os_error());
            }
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        let head = &page.lines().head;
        head.lease_ns.store(agreement.lease_ns, SeqCst);
        head.yield_min_ns.store(agreement.yield_min_ns, SeqCst);
        head.weight.store(agreement.weight, SeqCst);
        head.bell.store(bell_end.as_raw_fd() as u32, SeqCst);
        head.namespace.store(pid_namespace(), SeqCst);
        head.counts.store(1, SeqCst);
        head.magic.store(MAGIC, SeqCst);
        Ok(PhasesPage { page, descriptor, _bell_end: bell_end, bell })
    }

    /// Descriptors that a rank keeps: the page and its end of the bell.
    pub fn kept(&self) -> [BorrowedFd<'_>; 2] {
        [self.descriptor.as_fd(), self.bell.as_fd()]
    }

    /// The job's daemon is gone: nobody grants anything, and whoever waits goes on.
    pub fn settle(&self) {
        let told = &self.page.lines().told;
        told.others.store(0, SeqCst);
        told.contended.store(0, SeqCst);
        told.grant.fetch_add(2, SeqCst);
        futex::wake_all(&told.grant);
    }

    /// A process is inside a region, or waits for the slots.
    pub fn has_request(&self) -> bool {
        self.page.is_any_inside()
    }

    /// A process has died: its regions are over.
    pub fn end(&self, pid: u32) {
        let mut ended = false;
        for place in self.page.lines().places.iter().filter(|place| place.owner.load(SeqCst) == pid) {
            place.end();
            ended = true;
        }
        if ended {
            ring(&self.page, self.bell.as_raw_fd());
        }
    }
}

fn ring(page: &Page, bell: RawFd) {
    let rings = &page.lines().head.rings;
    rings.fetch_add(1, SeqCst);
    futex::wake_all(rings);
    // A daemon of the version before hears this.
    // SAFETY: one byte that is there. A full pipe has rung.
    unsafe { libc::write(bell, [1_u8].as_ptr().cast(), 1) };
}

/// A daemon's view of a job's page. Nothing here allocates, waits or fails but for the page itself, which its
/// user may take away in the middle of a store: no work for a thread that must not wait for users.
#[derive(Debug)]
pub struct Grants {
    page: Page,
    /// As this daemon has written it last.
    grant: u32,
}

impl Grants {
    /// Maps the page of this user's job. The descriptor may be anything that a user could bring.
    ///
    /// # Errors
    /// When it is no such page, or not the user's.
    pub fn adopt(descriptor: BorrowedFd<'_>, user: u32) -> io::Result<Self> {
        check(descriptor, Some(user))?;
        let page = Page::map(descriptor)?;
        if page.lines().head.magic.load(SeqCst) != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no page of phases"));
        }
        let grant = page.lines().told.grant.load(SeqCst) & !1;
        Ok(Grants { page, grant })
    }

    /// Reads the job's terms as they stand there: a claim of the user's.
    pub fn agreement(&self) -> Agreement {
        let head = &self.page.lines().head;
        Agreement {
            lease_ns: head.lease_ns.load(SeqCst),
            yield_min_ns: head.yield_min_ns.load(SeqCst),
            weight: head.weight.load(SeqCst),
        }
    }

    /// Tells how many jobs are beside it, and how long a wait may last.
    pub fn set_others(&self, others: u32, patience_ns: u64) {
        let told = &self.page.lines().told;
        told.patience_ns.store(patience_ns, SeqCst);
        told.others.store(others, SeqCst);
        if others == 0 {
            futex::wake(&told.grant, PLACES);
        }
    }

    /// The slots are the job's, or no longer.
    pub fn set_granted(&mut self, granted: bool) {
        let told = &self.page.lines().told;
        self.grant = (self.grant & !1).wrapping_add(2) | u32::from(granted);
        told.grant.store(self.grant, SeqCst);
        if granted {
            futex::wake(&told.grant, PLACES);
        }
    }

    /// Another wants the slots, or no longer. Behind it [`Self::is_inside`] tells who will not ring.
    pub fn set_contended(&self, contended: bool) {
        self.page.lines().told.contended.swap(u32::from(contended), SeqCst);
    }

    /// Whether a process of the job is in a region or waits at the beginning of one.
    pub fn is_inside(&self) -> bool {
        self.page.is_any_inside()
    }

    /// The daemon rings in place of the job: whoever listens looks at its lines.
    pub fn ring(&self) {
        let rings = &self.page.lines().head.rings;
        rings.fetch_add(1, SeqCst);
        futex::wake_all(rings);
    }

    /// Ends the lines of processes that are no more.
    pub fn end_dead(&self) {
        for place in self.page.lines().places.iter().filter(|place| place.is_inside()) {
            let pid = place.owner.load(SeqCst) as libc::pid_t;
            // SAFETY: signal 0 only asks whether there is such a process.
            let gone = pid <= 0 || unsafe { libc::kill(pid, 0) } < 0 && errno() == libc::ESRCH;
            if gone {
                place.end();
            }
        }
    }
}

impl Grants {
    /// Gives up this daemon's say: the job has the slots, and nobody is beside it.
    pub fn release(&mut self) {
        self.set_others(0, 0);
        self.set_contended(false);
        self.set_granted(true);
    }
}

/// Which PID namespace this process is in; 0 where that is not known.
fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// Rings of a job, as a daemon hears them. Waiting for one is for a thread that may wait for the job's user.
#[derive(Debug)]
pub struct Rings {
    page: Page,
}

impl Rings {
    /// Of the page that [`Grants::adopt`] takes.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn adopt(descriptor: BorrowedFd<'_>, user: u32) -> io::Result<Self> {
        check(descriptor, Some(user))?;
        Ok(Rings { page: Page::map(descriptor)? })
    }

    /// Whether the job's ranks count them. Ranks of the version before do not, and are looked at by time.
    pub fn are_counted(&self) -> bool {
        self.page.lines().head.counts.load(SeqCst) == 1
    }

    /// Whether a process of the job is in a region or waits at the beginning of one.
    pub fn is_inside(&self) -> bool {
        self.page.is_any_inside()
    }

    /// How many there were.
    pub fn count(&self) -> u32 {
        self.page.lines().head.rings.load(SeqCst)
    }

    /// Returns when there are more than that, or after so long; sometimes before.
    pub fn wait(&self, count: u32, at_most: Duration) {
        futex::wait(&self.page.lines().head.rings, count, Some(at_most));
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A process's way to say that it enters a region.
#[derive(Debug)]
struct Member {
    page: Page,
    bell: RawFd,
    place: usize,
    /// Threads of it in regions.
    depth: AtomicU32,
}

/// The word that [`begin`] looks at: that of the page, or one of these.
static OTHERS: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const UNKNOWN).cast_mut());
/// Word of a process that has not looked for a page yet.
static UNKNOWN: AtomicU32 = AtomicU32::new(1);
/// Word of a process that has no page.
static NONE: AtomicU32 = AtomicU32::new(0);
/// The page of this process.
static MEMBER: AtomicPtr<Member> = AtomicPtr::new(std::ptr::null_mut());

/// Enters a parallel phase: this process waits until the parallel slots are its job's. One load where
/// nobody else shares them.
#[inline]
pub fn begin() {
    // SAFETY: it points to a static word, or into a page that stays mapped.
    if unsafe { &*OTHERS.load(Relaxed) }.load(Relaxed) != 0 {
        begin_shared();
    }
}

/// The parallel phase is over.
#[inline]
pub fn end() {
    let member = MEMBER.load(Relaxed);
    if !member.is_null() {
        // SAFETY: it is never freed.
        unsafe { &*member }.leave();
    }
}

/// Whether others share the slots with this process's job now.
#[inline]
pub fn is_shared() -> bool {
    // SAFETY: as in `begin`.
    unsafe { &*OTHERS.load(Relaxed) }.load(Relaxed) != 0
}

#[cold]
fn begin_shared() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let found = std::env::var(VARIABLE).ok().and_then(|value| Member::join(&value));
        // SAFETY: a function that touches two static words only may run in a child.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
        match found {
            Some(member) => {
                let member = Box::leak(Box::new(member));
                MEMBER.store(member, Relaxed);
                OTHERS.store((&raw const member.page.lines().told.others).cast_mut(), Relaxed);
            }
            None => OTHERS.store((&raw const NONE).cast_mut(), Relaxed),
        }
    });
    let member = MEMBER.load(Relaxed);
    // SAFETY: it is never freed.
    if let Some(member) = unsafe { member.as_ref() }
        && member.page.lines().told.others.load(Relaxed) != 0
    {
        member.enter();
    }
}

/// A child made by fork() is another process, and has no place.
extern "C" fn forget() {
    OTHERS.store((&raw const NONE).cast_mut(), Relaxed);
    MEMBER.store(std::ptr::null_mut(), Relaxed);
}

impl Member {
    /// Takes a place of the page under these numbers; none if it is no page, or full.
    fn join(value: &str) -> Option<Self> {
        let (page, bell) = value.split_once(':')?;
        let (page, bell): (RawFd, RawFd) = (page.parse().ok()?, bell.parse().ok()?);
        // SAFETY: numbers that are nobody's are refused by the kernel; the borrow ends here.
        let page = unsafe {
            if page < 0 || bell < 0 || libc::fcntl(page, libc::F_GETFD) < 0 {
                return None;
            }
            let descriptor = BorrowedFd::borrow_raw(page);
            check(descriptor, None).ok()?;
            Page::map(descriptor).ok()?
        };
        let head = &page.lines().head;
        let namespace = head.namespace.load(SeqCst);
        if head.magic.load(SeqCst) != MAGIC || namespace == 0 || namespace != pid_namespace() {
            return None;
        }
        let pid = std::process::id();
        let take = |place: &Place| {
            let owner = place.owner.load(SeqCst);
            // SAFETY: signal 0 only asks whether there is such a process.
            let free = owner == 0
                || owner != pid
                    && unsafe { libc::kill(owner as libc::pid_t, 0) } < 0
                    && errno() == libc::ESRCH;
            free && place.owner.compare_exchange(owner, pid, SeqCst, SeqCst).is_ok()
        };
        let place = page.lines().places.iter().position(take)?;
        let own = &page.lines().places[place];
        own.yielded.store(own.request.load(SeqCst), SeqCst);
        Some(Member { page, bell, place, depth: AtomicU32::new(0) })
    }

    fn enter(&self) {
        if self.depth.fetch_add(1, SeqCst) > 0 {
            return;
        }
        let Lines { told, places, .. } = self.page.lines();
        places[self.place].request.fetch_add(1, SeqCst);
        if told.grant.load(SeqCst) & 1 == 0 {
            self.wait(told);
        }
    }

    #[cold]
    fn wait(&self, told: &Told) {
        ring(&self.page, self.bell);
        let mut waited = Duration::ZERO;
        loop {
            let grant = told.grant.load(SeqCst);
            let patience = Duration::from_nanos(told.patience_ns.load(Relaxed).min(PATIENCE_NS_MAX));
            if grant & 1 == 1 || told.others.load(SeqCst) == 0 || waited >= patience {
                return;
            }
            let began = Instant::now();
            futex::wait(&told.grant, grant, Some(LOOK.min(patience - waited)));
            // What it stood still is not counted.
            waited += began.elapsed().min(LOOK);
            if told.grant.load(SeqCst) == grant {
                ring(&self.page, self.bell);
            }
        }
    }

    fn leave(&self) {
        let left = self.depth.fetch_update(SeqCst, SeqCst, |depth| depth.checked_sub(1));
        if left != Ok(1) {
            return;
        }
        let Lines { told, places, .. } = self.page.lines();
        let own = &places[self.place];
        own.yielded.swap(own.request.load(Relaxed), SeqCst);
        if told.contended.load(SeqCst) != 0 {
            ring(&self.page, self.bell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREED: Agreement = Agreement { lease_ns: 3_000_000, yield_min_ns: 0, weight: 100 };

    fn pair() -> (PhasesPage, Grants, Member) {
        let page = PhasesPage::create(AGREED).unwrap();
        // SAFETY: geteuid cannot fail.
        let grants = Grants::adopt(page.descriptor.as_fd(), unsafe { libc::geteuid() }).unwrap();
        let [file, bell] = page.kept().map(|end| end.as_raw_fd());
        let member = Member::join(&format!("{file}:{bell}")).unwrap();
        (page, grants, member)
    }

    fn rings(page: &PhasesPage) -> usize {
        // SAFETY: geteuid cannot fail.
        let counted = Rings::adopt(page.descriptor.as_fd(), unsafe { libc::geteuid() }).unwrap();
        assert!(counted.are_counted());
        let mut bytes = [0_u8; 256];
        // SAFETY: the buffer is as long as said.
        let read = unsafe { libc::read(page._bell_end.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        usize::try_from(read).unwrap_or(0)
    }

    #[test]
    fn phases_page_takes_a_request_and_a_yield() {
        let (page, mut grants, member) = pair();
        assert_eq!(grants.agreement(), AGREED);
        grants.set_others(1, 50_000_000);
        grants.set_granted(true);
        member.enter();
        assert!(grants.is_inside());
        member.leave();
        assert_eq!((grants.is_inside(), rings(&page)), (false, 0), "a grant that is kept costs no call");
        member.enter();
        grants.set_contended(true);
        member.leave();
        assert_eq!(rings(&page), 1);
    }

    #[test]
    fn phases_page_wait_ends_by_grant_patience_or_the_daemons_end() {
        let (page, mut grants, member) = pair();
        grants.set_others(1, 20_000_000);
        let began = Instant::now();
        member.enter();
        assert!(began.elapsed() >= Duration::from_millis(15), "nobody has granted anything");
        member.leave();
        assert!(rings(&page) >= 1);
        grants.set_others(1, 10_000_000_000);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| member.enter());
            std::thread::sleep(Duration::from_millis(5));
            grants.set_granted(true);
            waits.join().unwrap();
            grants.set_granted(false);
            member.leave();
            let waits = scope.spawn(|| member.enter());
            std::thread::sleep(Duration::from_millis(5));
            page.settle();
            waits.join().unwrap();
        });
    }

    #[test]
    fn phases_page_lines_of_the_dead_are_ended() {
        let (page, mut grants, member) = pair();
        grants.set_others(1, 0);
        grants.set_granted(true);
        member.enter();
        grants.end_dead();
        assert!(grants.is_inside(), "it lives");
        page.end(std::process::id());
        assert_eq!((grants.is_inside(), rings(&page)), (false, 1));
        member.page.lines().places[7].owner.store(i32::MAX as u32, SeqCst);
        member.page.lines().places[7].request.store(9, SeqCst);
        assert!(grants.is_inside());
        grants.end_dead();
        assert!(!grants.is_inside());
    }

    #[test]
    fn phases_page_of_another_pid_namespace_is_not_joined() {
        let (page, _grants, _member) = pair();
        let [file, bell] = page.kept().map(|end| end.as_raw_fd());
        let value = format!("{file}:{bell}");
        assert!(Member::join(&value).is_some());
        page.page.lines().head.namespace.fetch_add(1, SeqCst);
        assert!(Member::join(&value).is_none());
    }

    #[test]
    fn phases_page_is_refused_if_it_is_none_or_full() {
        let (page, _grants, _member) = pair();
        let [file, bell] = page.kept().map(|end| end.as_raw_fd());
        for wrong in ["", ":", "1", "-1:-1", "1000000:1", &format!("{bell}:{file}")] {
            assert!(Member::join(wrong).is_none(), "{wrong}");
        }
        page.page.lines().places.iter().for_each(|place| place.owner.store(std::process::id(), SeqCst));
        assert!(Member::join(&format!("{file}:{bell}")).is_none());
    }
}
