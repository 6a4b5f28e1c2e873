//! The rank segment: one sealed memfd per job and node, made by the starter, mapped by every rank. Behind it
//! in the file lies the [arena](crate::arena), of which each rank maps what it needs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use crate::arena::{ARENA_BYTES, Arena, LARGE_BYTES, Range, file_bytes};
#[cfg(not(loom))]
use crate::endpoint::{FINALIZED, SEPARATE};
use crate::flow::{FLOW_WORDS, FlowWords};
use crate::layout::{Geometry, LOCAL_RANKS_MAX, Layout};
use crate::numbers::Numbers;
use crate::sync::{AtomicU32, Ordering};

const MAGIC: u64 = u64::from_be_bytes(*b"TUTTISEG");
/// The layout. Starter, ranks and daemon of a node may be of releases that follow each other.
const VERSION: u32 = if cfg!(feature = "next-wire") { 9 } else { 8 };
/// The oldest layout whose readers find everything where they look for it in this one: what has been added
/// since is behind the last field of the header, in what was zeros.
const READER_MIN: u32 = 8;
/// The oldest layout that is read.
const VERSION_MIN: u32 = 8;

/// First page of a segment. Writer: the starter; all but the atomics before any rank exists.
#[repr(C)]
struct Header {
    magic: u64,
    version: u32,
    reader_min: u32,
    geometry: Geometry,
    /// Bytes in front of the arena.
    bytes: u64,
    /// Ranks of this node that have been started.
    present: AtomicU32,
    /// Ranks that have been started since the job began, on all nodes.
    later: AtomicU32,
    /// How many of them have ended.
    ended: AtomicU32,
    file_locks: FileLockCount,
    /// A field more, as a later release may have it.
    #[cfg(feature = "next-wire")]
    next: u64,
}

/// Locks of files that ranks of this node have, or try to get ([`crate::report`]), and whether one may ever
/// do so. Writers: the ranks, by atomic addition; by a store. Reader: the node's daemon.
#[repr(C, align(64))]
#[derive(Default)]
struct FileLockCount(AtomicU32, AtomicU32);

/// Ranks of other nodes, at most.
const RANKS_MAX: u32 = 1 << 20;

/// The header's page; a segment has more.
const HEADER_BYTES: usize = 4096;

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// Why a segment could not be made or mapped.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// The kernel refused.
    #[error("cannot {action} the job's shared segment of {bytes} bytes: {source}{}", hint(source))]
    System {
        /// Action that was tried.
        action: &'static str,
        /// Size of the segment.
        bytes: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The descriptor is not a segment of this version.
    #[error("the descriptor is not a Tutti segment of version {VERSION_MIN} to {VERSION}: {found}")]
    Foreign {
        /// Contents that were found instead.
        found: String,
    },
}

/// The limit that a size was over, and what helps.
fn hint(error: &io::Error) -> String {
    let limit = |kind| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the place is ours.
        let is_known = unsafe { libc::getrlimit(kind, &mut limit) } == 0;
        Some(limit.rlim_cur).filter(|bytes| is_known && *bytes != libc::RLIM_INFINITY)
    };
    let (option, resource) = match error.raw_os_error() {
        Some(libc::ENOMEM) => ("-v", libc::RLIMIT_AS),
        Some(libc::EFBIG) => ("-f", libc::RLIMIT_FSIZE),
        _ => return String::new(),
    };
    limit(resource).map_or_else(String::new, |bytes| {
        format!(
            "; the limit of this process is {bytes} bytes (ulimit {option}): raise it, or leave less room for ranks that are \
             started later (mpiexec --universe N)"
        )
    })
}

/// A mapped segment. Unmapped when dropped.
#[derive(Debug)]
pub struct Segment {
    mapping: Mapping,
    geometry: Geometry,
    layout: Layout,
    descriptor: OwnedFd,
}

/// Where a segment is mapped, for those who keep the [`Segment`] itself elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain memory; what is stored in it is accessed through atomics or under the
// protocols of the rings.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn header(&self) -> &Header {
        // SAFETY: a segment begins with its header, whose fields that change are atomic.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// How many ranks that were started later have ended.
    pub fn ended(&self) -> u32 {
        self.header().ended.load(Ordering::Acquire)
    }

    #[cfg(not(loom))]
    pub(crate) fn announce_end(&self) {
        self.header().ended.fetch_add(1, Ordering::AcqRel);
    }

    #[cfg(not(loom))]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many locks of files the ranks of this node have, or try to get.
    pub fn file_locks(&self) -> &AtomicU32 {
        &self.header().file_locks.0
    }

    /// A rank of this node has opened a file that it may lock: from now on the daemon looks for locks.
    pub fn announce_file_locks(&self) {
        self.header().file_locks.1.store(1, Ordering::SeqCst);
    }

    #[cfg(not(loom))]
    fn may_have_file_locks(&self) -> bool {
        let FileLockCount(count, announced) = &self.header().file_locks;
        announced.load(Ordering::SeqCst) != 0 || count.load(Ordering::SeqCst) != 0
    }

    /// Ranks of the node that have been started, as the header says.
    pub fn present(&self) -> u32 {
        self.header().present.load(Ordering::Acquire)
    }

    /// The starter's pid, as the header says: that of a process which was started without one comes later.
    pub fn starter_pid(&self) -> u32 {
        // SAFETY: a segment begins with its header, which is mapped as long as self.
        unsafe { (&raw const (*self.base.cast::<Header>().as_ptr()).geometry.starter_pid).read_volatile() }
    }

    /// Ranks that have been started since the job began, on all nodes, as the header says.
    pub fn later(&self) -> u32 {
        self.header().later.load(Ordering::Acquire)
    }

    /// Pointer to `T` at an offset from [`Layout`]; good as long as the segment.
    ///
    /// # Panics
    /// When `T` does not lie inside the segment or is misaligned.
    pub fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes));
        // SAFETY: just checked to stay inside the mapping.
        let pointer = unsafe { self.base.add(offset) }.cast::<T>();
        assert!(pointer.is_aligned());
        pointer
    }
}

impl Segment {
    /// Makes a sealed, zeroed segment for `geometry`.
    ///
    /// # Errors
    /// When the kernel gives no descriptor or no memory.
    pub fn create(geometry: Geometry) -> Result<Self, SegmentError> {
        let bytes = Layout::new(&geometry).total_bytes();
        let failed = |action| move |source| SegmentError::System { action, bytes, source };
        // SAFETY: the name is a valid C string; a fresh descriptor is owned by nobody else.
        let descriptor = unsafe {
            let fd =
                libc::memfd_create(c"tutti-segment".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            checked(fd).map_err(failed("create"))?;
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: plain system calls on a descriptor that we own.
        unsafe {
            // Beyond the limit the kernel would end the process by SIGXFSZ.
            let most = file_bytes_limit().min(arena_begin(bytes) + ARENA_BYTES);
            let size = if most > arena_begin(bytes) { most } else { bytes as u64 };
            checked(libc::ftruncate(descriptor.as_raw_fd(), size as libc::off_t)).map_err(failed("size"))?;
            // Another user who is given the descriptor must not open the file anew for writing.
            checked(libc::fchmod(descriptor.as_raw_fd(), 0o600)).map_err(failed("protect"))?;
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
            checked(libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals)).map_err(failed("seal"))?;
        }
        let base = map(descriptor.as_fd(), bytes, WRITING).map_err(failed("map"))?;
        // SAFETY: the mapping is page-aligned, at least a page long, and nobody else knows it yet.
        unsafe {
            base.cast::<Header>().write(Header {
                magic: MAGIC,
                version: VERSION,
                reader_min: READER_MIN,
                geometry,
                bytes: bytes as u64,
                present: AtomicU32::new(geometry.local_ranks),
                later: AtomicU32::new(0),
                ended: AtomicU32::new(0),
                file_locks: FileLockCount::default(),
                #[cfg(feature = "next-wire")]
                next: 1,
            })
        };
        Ok(Segment { mapping: Mapping { base, bytes }, geometry, layout: Layout::new(&geometry), descriptor })
    }

    /// Maps the segment of a process that was started without a starter, for the one that it gets now; no
    /// other process has it yet.
    ///
    /// # Errors
    /// Those of [`Segment::open`].
    pub fn adopt(descriptor: OwnedFd, starter_pid: u32) -> Result<Self, SegmentError> {
        let mut segment = Segment::open(descriptor)?;
        segment.geometry.starter_pid = starter_pid;
        // SAFETY: a segment begins with its header; its owner waits for the starter's answer meanwhile, and
        // reads this number behind it.
        unsafe {
            let header = segment.mapping.base.cast::<Header>().as_ptr();
            (&raw mut (*header).geometry.starter_pid).write(starter_pid);
        }
        Ok(segment)
    }

    /// Maps a segment that came from the starter.
    ///
    /// # Errors
    /// When the descriptor is no segment of this version or cannot be mapped.
    pub fn open(descriptor: OwnedFd) -> Result<Self, SegmentError> {
        let failed = |action, bytes| move |source| SegmentError::System { action, bytes, source };
        let bytes = file_bytes(descriptor.as_fd()).map_err(failed("measure", 0))?;
        if bytes < HEADER_BYTES || !is_sealed(descriptor.as_fd()) {
            return Err(SegmentError::Foreign { found: format!("an unsealed file of {bytes} bytes") });
        }
        let header = read_header(descriptor.as_fd()).map_err(failed("read", bytes))?;
        let layout = header.layout(bytes).map_err(|found| SegmentError::Foreign { found })?;
        let bytes = layout.total_bytes();
        let base = map(descriptor.as_fd(), bytes, WRITING).map_err(failed("map", bytes))?;
        Ok(Segment { mapping: Mapping { base, bytes }, geometry: header.geometry, layout, descriptor })
    }

    /// The share of a local rank in the memory that ranks open to each other; none where the size of files is
    /// limited, or the process has no descriptor left.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn arena(&self, local_rank: u32) -> Option<Arena> {
        let (begin, end) = (arena_begin(self.mapping.bytes), file_bytes(self.descriptor()).ok()? as u64);
        let arena = Range { offset: begin, bytes: end.checked_sub(begin)? };
        let descriptor = self.descriptor.try_clone().ok()?;
        Some(Arena::new(descriptor, arena, self.geometry.room(), local_rank))
    }

    /// Ranks of this node that have been started: those that the job began with, and more.
    pub fn present(&self) -> u32 {
        self.mapping.present().clamp(self.geometry.local_ranks, self.geometry.room())
    }

    /// More ranks are about to be started; the starter alone says so. False when there is no room for them,
    /// then there are none.
    pub fn add_ranks(&self, more: u32) -> bool {
        let ranks = self.present().saturating_add(more);
        let has_room = ranks <= self.geometry.room();
        if has_room {
            self.mapping.header().present.store(ranks, Ordering::Release);
        }
        has_room
    }

    /// World ranks of this node that have been started.
    pub fn present_numbers(&self) -> Numbers {
        self.layout.numbers().up_to(self.present() as usize)
    }

    /// Sets how many ranks have been started since the job began, on all nodes; the starter says so.
    pub fn set_later(&self, ranks: u32) {
        self.mapping.header().later.store(ranks, Ordering::Release);
    }

    /// A rank, counted on this node, is dead and was none: others see that it has left.
    ///
    /// # Panics
    /// When there is no such rank.
    #[cfg(not(loom))]
    pub fn mark_left(&self, rank: usize) {
        self.words_of(rank).0.state.store(FINALIZED, Ordering::Release);
    }

    /// Whether a rank, counted on this node, says that it is connected with its own MPI_COMM_WORLD alone.
    ///
    /// # Panics
    /// When there is no such rank.
    #[cfg(not(loom))]
    pub fn is_separate(&self, rank: usize) -> bool {
        self.words_of(rank).0.parted.load(Ordering::Acquire) & SEPARATE != 0
    }

    /// By which number the kernel knows a rank, counted on this node, in the namespace of the starter.
    ///
    /// # Panics
    /// When there is no such rank.
    #[cfg(not(loom))]
    pub fn name(&self, rank: usize, pid: u32) {
        self.words_of(rank).0.pid.store(pid, Ordering::Release);
    }

    /// The numbers it was made from.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where things lie in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Descriptor of the segment, to be passed on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// A copy of the words that a local rank has published of its flow to world rank `to`, which is on
    /// another node.
    ///
    /// # Panics
    /// When there is no such flow.
    pub fn flow_words(&self, from: usize, to: usize) -> [u64; FLOW_WORDS] {
        // SAFETY: the layout says that the words lie there; they are atomics.
        let flow = unsafe { self.at::<FlowWords>(self.layout.flow_words_at(from, to)).as_ref() };
        std::array::from_fn(|word| flow.words[word].load(Ordering::Acquire))
    }

    /// Counters that the ranks of this node have left, the first `N` of each; none before all of
    /// them have left the job.
    #[cfg(not(loom))]
    pub fn left_counters<const N: usize>(&self) -> Option<Vec<[u64; N]>> {
        let ranks = self.present() as usize;
        let left = self.words_of(0).1.left.load(Ordering::Acquire) as usize;
        let of = |rank| self.words_of(rank).1.counters(N).try_into().expect("so many were asked for");
        (left == ranks).then(|| (0..ranks).map(of).collect())
    }

    /// Where it is mapped; not to be used when the segment is gone.
    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Pointer to `T` at an offset from [`Layout`].
    ///
    /// # Panics
    /// When `T` does not lie inside the segment or is misaligned.
    pub fn at<T>(&self, offset: usize) -> NonNull<T> {
        self.mapping.at(offset)
    }
}

/// The first page of a segment, mapped for reading: the daemon of the node has no more of it. Its words are
/// the ranks', who may write anything there. Unmapped when dropped.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct HeaderPage(Mapping);

#[cfg(not(loom))]
impl HeaderPage {
    /// Of a segment that is open for reading. The caller has seen to whose it is, and that it is memory of
    /// the kernel's.
    ///
    /// # Errors
    /// When it is no segment of this version, or cannot be mapped.
    pub fn read(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        read_layout(descriptor)?;
        if !is_sealed(descriptor) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the segment may become shorter"));
        }
        let base = map(descriptor, HEADER_BYTES, libc::PROT_READ)?;
        Ok(HeaderPage(Mapping { base, bytes: HEADER_BYTES }))
    }

    /// Whether a rank has a lock of a file, or tries to get one. What the caller has stored before, such a
    /// rank sees if this does not see the rank.
    pub fn has_file_locks(&self) -> bool {
        self.0.file_locks().load(Ordering::SeqCst) != 0
    }

    /// Whether a rank may ever have one: until then nobody has to look before it is frozen.
    pub fn may_have_file_locks(&self) -> bool {
        self.0.may_have_file_locks()
    }
}

#[cfg(not(loom))]
impl Drop for HeaderPage {
    fn drop(&mut self) {
        // SAFETY: the mapping that `read` made; borrows of it end with this value.
        unsafe { libc::munmap(self.0.base.as_ptr().cast(), self.0.bytes) };
    }
}

/// Reads what a segment was made from, and where things lie in it, from its file; it is not mapped.
///
/// # Errors
/// When it is no segment of this version.
#[cfg(not(loom))]
pub(crate) fn read_layout(descriptor: BorrowedFd<'_>) -> io::Result<(Geometry, Layout)> {
    let bytes = file_bytes(descriptor)?;
    let header = read_header(descriptor)?;
    let layout = header.layout(bytes).map_err(|found| io::Error::new(io::ErrorKind::InvalidData, found))?;
    Ok((header.geometry, layout))
}

impl Header {
    /// The layout of a segment of so many bytes with this header, or what is wrong with them.
    fn layout(&self, bytes: usize) -> Result<Layout, String> {
        let Header { magic, version, reader_min, geometry, .. } = self;
        if *magic != MAGIC || *version < VERSION_MIN || *reader_min > VERSION {
            return Err(format!("magic {magic:#x}, version {version}, for readers from {reader_min} on"));
        }
        if !(1..=LOCAL_RANKS_MAX).contains(&geometry.local_ranks) || geometry.room() > LOCAL_RANKS_MAX {
            return Err(format!("{} local ranks", geometry.local_ranks));
        }
        if geometry.world_room() - geometry.room() > RANKS_MAX || geometry.nodes > geometry.world_ranks.max(1)
        {
            return Err(format!("{} ranks on {} nodes", geometry.world_room(), geometry.nodes));
        }
        let layout = Layout::new(geometry);
        if layout.total_bytes() as u64 != self.bytes || layout.total_bytes() > bytes {
            return Err(format!("{} bytes for {} local ranks", self.bytes, geometry.local_ranks));
        }
        if u64::from(geometry.first_rank) + u64::from(geometry.local_ranks) > u64::from(geometry.world_ranks)
        {
            return Err(format!(
                "{} ranks from {} on in a world of {}",
                geometry.local_ranks, geometry.first_rank, geometry.world_ranks
            ));
        }
        Ok(layout)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those that mmap returned; borrows of the mapping end with this value.
        unsafe { libc::munmap(self.mapping.base.as_ptr().cast(), self.mapping.bytes) };
    }
}

/// Protection of a mapping by those who have a segment: they write it.
const WRITING: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

fn map(descriptor: BorrowedFd<'_>, bytes: usize, protection: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a fresh shared mapping at an address that the kernel chooses disturbs no other memory.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            protection,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            descriptor.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // A child made by fork() must not become a second writer.
    // SAFETY: the range is the mapping just made.
    unsafe { libc::madvise(base, bytes, libc::MADV_DONTFORK) };
    Ok(NonNull::new(base.cast()).expect("mmap returned null"))
}

/// Where the arena of a segment of so many bytes begins.
fn arena_begin(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(LARGE_BYTES)
}

/// Limit of the size of a file (`ulimit -f`).
fn file_bytes_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    if result == 0 { limit.rlim_cur } else { libc::RLIM_INFINITY }
}

fn read_header(descriptor: BorrowedFd<'_>) -> io::Result<Header> {
    let mut header = std::mem::MaybeUninit::<Header>::zeroed();
    // SAFETY: the kernel writes inside the value.
    let read =
        unsafe { libc::pread(descriptor.as_raw_fd(), header.as_mut_ptr().cast(), size_of::<Header>(), 0) };
    match read {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: every bit pattern is a valid header; what was not read is zero.
        _ => Ok(unsafe { header.assume_init() }),
    }
}

/// Whether the file can never become shorter, so that no access to the mapping meets its end.
fn is_sealed(descriptor: BorrowedFd<'_>) -> bool {
    // SAFETY: plain system call.
    let seals = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        world_ranks: 3,
        local_ranks: 3,
        first_rank: 0,
        cores: 2,
        starter_pid: 1,
        node: 0,
        room: 0,
        universe: 0,
        nodes: 0,
        world_room: 0,
        job: 42,
    };

    #[test]
    fn segment_reopened_shows_the_same_memory() {
        let made = Segment::create(GEOMETRY).unwrap();
        let opened = Segment::open(made.descriptor().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(opened.geometry(), &GEOMETRY);
        let offset = made.layout().pair_at(1, 2);
        // SAFETY: both mappings are alive and nobody else writes there.
        unsafe {
            made.at::<u64>(offset).write(7);
            assert_eq!(opened.at::<u64>(offset).read(), 7);
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn segment_header_page_shows_file_locks() {
        let made = Segment::create(GEOMETRY).unwrap();
        let page = HeaderPage::read(made.descriptor()).unwrap();
        assert!(!page.has_file_locks() && !page.may_have_file_locks());
        made.mapping().announce_file_locks();
        assert!(!page.has_file_locks() && page.may_have_file_locks());
        made.mapping().file_locks().store(2, Ordering::SeqCst);
        assert!(page.has_file_locks());
        let other = crate::daemon_page::create_file("tutti-other").unwrap();
        assert!(HeaderPage::read(other.as_fd()).is_err(), "zeros are no segment");
    }

    #[test]
    fn segment_has_room_for_so_many_more_ranks() {
        let made = Segment::create(Geometry { room: 5, ..GEOMETRY }).unwrap();
        let opened = Segment::open(made.descriptor().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(opened.present(), 3);
        assert!(!made.add_ranks(3) && made.add_ranks(2) && !made.add_ranks(1));
        assert_eq!(opened.present(), 5);
    }

    #[test]
    fn segment_cannot_be_resized() {
        let made = Segment::create(GEOMETRY).unwrap();
        // SAFETY: plain system call.
        assert_eq!(unsafe { libc::ftruncate(made.descriptor().as_raw_fd(), 0) }, -1);
    }

    fn refusal(descriptor: OwnedFd) -> String {
        match Segment::open(descriptor) {
            Err(SegmentError::Foreign { found }) => found,
            other => panic!("not refused as foreign: {other:?}"),
        }
    }

    #[test]
    fn segment_of_other_memory_is_refused() {
        assert_eq!(refusal(std::fs::File::open("/dev/null").unwrap().into()), "an unsealed file of 0 bytes");
        // An ordinary file may be cut off under our hands.
        let file = std::env::current_exe().and_then(std::fs::File::open).unwrap();
        assert!(refusal(file.into()).starts_with("an unsealed file of "));
    }

    #[test]
    fn segment_header_mismatch_is_named() {
        let made = Segment::create(GEOMETRY).unwrap();
        let refused = |header: Header| {
            // SAFETY: the mapping is ours alone and begins with the header.
            unsafe { made.at::<Header>(0).write(header) };
            refusal(made.descriptor().try_clone_to_owned().unwrap())
        };
        let header = |magic, version, local_ranks| Header {
            magic,
            version,
            reader_min: version,
            geometry: Geometry { local_ranks, ..GEOMETRY },
            bytes: made.layout().total_bytes() as u64,
            present: AtomicU32::new(local_ranks),
            later: AtomicU32::new(0),
            ended: AtomicU32::new(0),
            file_locks: FileLockCount::default(),
            #[cfg(feature = "next-wire")]
            next: 0,
        };
        let versions = |version, magic: u64| {
            format!("magic {magic:#x}, version {version}, for readers from {version} on")
        };
        assert_eq!(refused(header(8, VERSION, 3)), versions(VERSION, 8));
        assert_eq!(refused(header(MAGIC, 99, 3)), versions(99, MAGIC));
        assert_eq!(refused(header(MAGIC, VERSION_MIN - 1, 3)), versions(VERSION_MIN - 1, MAGIC));
        // Of a later release that has added something behind what this one reads.
        let later = Header { reader_min: VERSION, ..header(MAGIC, 99, 3) };
        assert!(later.layout(made.layout().total_bytes()).is_ok());
        assert_eq!(refused(header(MAGIC, VERSION, 0)), "0 local ranks");
        assert_eq!(refused(header(MAGIC, VERSION, u32::MAX)), format!("{} local ranks", u32::MAX));
        assert!(refused(header(MAGIC, VERSION, 4)).ends_with(" bytes for 4 local ranks"));
        let elsewhere = Geometry { first_rank: 1, ..GEOMETRY };
        let elsewhere = Header { geometry: elsewhere, ..header(MAGIC, VERSION, 3) };
        assert_eq!(refused(elsewhere), "3 ranks from 1 on in a world of 3");
    }

    #[test]
    fn segment_is_not_mapped_in_a_forked_child() {
        let made = Segment::create(GEOMETRY).unwrap();
        let page = made.at::<u8>(0).as_ptr();
        let mut resident = 0;
        // SAFETY: the child makes two system calls and ends; mincore writes one byte where we have one.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(libc::mincore(page.cast(), 4096, &mut resident) == 0));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0, "the mapping is there in the child");
            assert_eq!(libc::mincore(page.cast(), 4096, &mut resident), 0, "it is still here");
        }
    }
}
