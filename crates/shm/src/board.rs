//! The board of a node: words that say which job has the machine and how loaded machines and network are,
//! for every process of the node to read without a system call.
//!
//! ```text
//! writer: Board::create -> split -> NodeLines (main loop), JobLines (switch thread)
//! reader: Reader::map of a descriptor that the writer has handed out -> node, job
//! ```
//!
//! | part | writer | bytes |
//! |---|---|---|
//! | header: sizes, places, refresh time | who makes it, before anybody reads; `written_ns`, `nodes`, `congested_until_ns`: the main loop | [`HEADER_BYTES`] |
//! | a line for each node, by number | the main loop: its own as it measures, others as they come | [`LINE_BYTES`] |
//! | a line for each job that runs here | the switch thread; a starter for its own job | [`LINE_BYTES`] |
//! | a line for each node: the jobs that have its processors | the main loop | [`LINE_BYTES`] |
//!
//! Each datum is one word of 8 bytes. A line begins and ends with the count of its changes, and has the time
//! of the last one: a reader that finds two counts has a torn set and looks again. A writer that is stopped
//! inside a change leaves two counts; readers say so, and go on.
//!
//! The file is a memfd for its owner alone. When its writer has mapped it, it is sealed: it keeps its size,
//! and nobody can write it any more or map it for writing, whoever gets the descriptor (Linux 5.1).
//! `tutti_board.h` has the same layout in C.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::local_socket;
use crate::sync::{AtomicU64, Ordering, fence};

mod running;

use running::{BOARD_BYTES_MAX, RUNNING_AT};
pub use running::{NAMED_MAX, Running};

/// First word of a board: "TUTTIBD1".
pub const MAGIC: u64 = u64::from_le_bytes(*b"TUTTIBD1");
/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// Bytes of a line.
pub const LINE_BYTES: usize = 128;
/// Nodes on a board, at most.
pub const NODES_MAX: usize = 1024;
/// Jobs of its node on a board, at most.
pub const JOBS_MAX: usize = 256;
/// Words of a line between its counts.
pub const WORDS: usize = LINE_BYTES / 8 - 2;
const NODES_AT: usize = HEADER_BYTES;
const JOBS_AT: usize = NODES_AT + NODES_MAX * LINE_BYTES;
/// Bytes of the smallest file: a board without the lines behind those of jobs.
pub const BOARD_BYTES: usize = (JOBS_AT + JOBS_MAX * LINE_BYTES).next_multiple_of(4096);
/// Environment variable of a rank: the daemon's socket for boards, and behind a colon the file of its
/// starter's board.
pub const VARIABLE: &str = "TUTTI_BOARD";
/// A daemon that does not answer within this time is none.
const PATIENCE: Duration = Duration::from_secs(2);
/// Name of the file.
pub const NAME: &str = "tutti-board";
const F_SEAL_FUTURE_WRITE: libc::c_int = 0x10;

/// The board is a daemon's: of all jobs of the node, and of the other nodes.
pub const OF_DAEMON: u64 = 1;
/// The board is a starter's: of its own job alone.
pub const OF_STARTER: u64 = 2;

/// A node that is there.
pub const NODE_UP: u64 = 1;
/// A node that does not answer.
pub const NODE_LOST: u64 = 2;
/// A job that has the machine, or needs none.
pub const JOB_RUNNING: u64 = 1;
/// A job that stands still.
pub const JOB_FROZEN: u64 = 2;

/// Line of a node. Times are of CLOCK_MONOTONIC of the reader's node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Node {
    /// When it was measured.
    pub updated_ns: u64,
    /// [`NODE_UP`], [`NODE_LOST`]; 0: nothing is known.
    pub state: u64,
    /// Cores that ranks may hold.
    pub cores: u64,
    /// Threads that run or wait for a core.
    pub runnable: u64,
    /// Mean number of these threads over a minute, in thousandths.
    pub load_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of it that programs could get.
    pub memory_available_bytes: u64,
    /// Share of ten seconds in which somebody waited for memory, in hundredths of a percent.
    pub memory_pressure: u64,
    /// Bytes received from other machines in a second.
    pub bytes_in_s: u64,
    /// Bytes sent to them.
    pub bytes_out_s: u64,
    /// Datagrams and packets lost here in a second: no room.
    pub dropped_s: u64,
    /// Segments of TCP sent again in a second.
    pub retransmitted_s: u64,
    /// The switch in force there; 0: none yet.
    pub generation: u64,
    /// Jobs that run there.
    pub jobs: u64,
}

/// Line of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Job {
    /// When the line was changed.
    pub updated_ns: u64,
    /// Number of the job plus 1; 0: the line is free.
    pub job_plus_1: u64,
    /// [`JOB_RUNNING`] or [`JOB_FROZEN`].
    pub state: u64,
    /// Since when.
    pub since_ns: u64,
    /// How long it has stood still before that, in all.
    pub frozen_ns_total: u64,
    /// How often it has been thawed.
    pub thaw_count: u64,
    /// When its slice ends; 0: nobody waits for its end.
    pub slice_end_ns: u64,
    /// The switch that it runs in.
    pub generation: u64,
    /// Ranks of the job here.
    pub ranks: u64,
    _rest: [u64; 5],
}

const _: () = assert!(size_of::<Node>() == WORDS * 8 && size_of::<Job>() == WORDS * 8);

impl Node {
    /// The words, as they stand in the line.
    pub fn words(&self) -> [u64; WORDS] {
        // SAFETY: both are so many words and nothing else.
        unsafe { std::mem::transmute(*self) }
    }

    /// A line of such words.
    pub fn of_words(words: [u64; WORDS]) -> Self {
        // SAFETY: as above.
        unsafe { std::mem::transmute(words) }
    }
}

impl Job {
    fn words(&self) -> [u64; WORDS] {
        // SAFETY: both are so many words and nothing else.
        unsafe { std::mem::transmute(*self) }
    }

    fn of_words(words: [u64; WORDS]) -> Self {
        // SAFETY: as above.
        unsafe { std::mem::transmute(words) }
    }

    /// The job's number; none of a free line.
    pub fn job(&self) -> Option<u64> {
        self.job_plus_1.checked_sub(1)
    }
}

/// Header of the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`OF_DAEMON`] or [`OF_STARTER`].
    pub kind: u64,
    /// Number of this node.
    pub own_node: u64,
    /// Nodes whose lines may say something.
    pub nodes: u64,
    /// How often lines of nodes are written; 0: once.
    pub refresh_ms: u64,
    /// When they were last (CLOCK_MONOTONIC).
    pub written_ns: u64,
    /// Until when the network of this node counts as congested (CLOCK_MONOTONIC); past or 0: it is not.
    pub congested_until_ns: u64,
}

/// Places of words in the header.
mod place {
    pub(super) const MAGIC: usize = 0;
    pub(super) const BYTES: usize = 1;
    pub(super) const NODES_AT: usize = 2;
    pub(super) const NODES_MAX: usize = 3;
    pub(super) const JOBS_AT: usize = 4;
    pub(super) const JOBS_MAX: usize = 5;
    pub(super) const LINE_BYTES: usize = 6;
    pub(super) const KIND: usize = 7;
    pub(super) const OWN_NODE: usize = 8;
    pub(super) const NODES: usize = 9;
    pub(super) const REFRESH_MS: usize = 10;
    pub(super) const WRITTEN_NS: usize = 11;
    pub(super) const CONGESTED_UNTIL_NS: usize = 12;
    /// 0: there are no such lines.
    pub(super) const RUNNING_AT: usize = 13;
}

#[derive(Debug)]
struct Memory(NonNull<u8>);

// SAFETY: a mapping that belongs to the value, of atomics alone.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn map(descriptor: BorrowedFd<'_>, protection: libc::c_int) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping of a file. What lies behind its end is not touched: its header says
        // that there are no such lines.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BOARD_BYTES_MAX,
                protection,
                libc::MAP_SHARED,
                descriptor.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if protection & libc::PROT_WRITE != 0 {
            // A child made by fork() must not become a second writer.
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(base, BOARD_BYTES_MAX, libc::MADV_DONTFORK) };
        }
        Ok(Memory(NonNull::new(base.cast()).expect("mmap returned null")))
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < BOARD_BYTES_MAX);
        // SAFETY: inside the mapping, aligned; every bit pattern is a valid word.
        unsafe { self.0.add(offset).cast::<AtomicU64>().as_ref() }
    }

    fn header(&self, place: usize) -> &AtomicU64 {
        self.word(place * 8)
    }

    /// Called by the one writer of the line.
    fn write_line(&self, at: usize, words: &[u64; WORDS]) {
        let (begin, end) = (self.word(at), self.word(at + LINE_BYTES - 8));
        let count = begin.load(Ordering::Relaxed).wrapping_add(1);
        begin.store(count, Ordering::Relaxed);
        fence(Ordering::Release);
        for (index, word) in words.iter().enumerate() {
            self.word(at + 8 + index * 8).store(*word, Ordering::Relaxed);
        }
        end.store(count, Ordering::Release);
    }

    /// None if it was changed meanwhile, or its writer has stopped inside a change.
    fn read_line(&self, at: usize) -> Option<[u64; WORDS]> {
        let count = self.word(at + LINE_BYTES - 8).load(Ordering::Acquire);
        let words = std::array::from_fn(|index| self.word(at + 8 + index * 8).load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (self.word(at).load(Ordering::Relaxed) == count).then_some(words)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made; borrows of it end with this value.
        unsafe { libc::munmap(self.0.as_ptr().cast(), BOARD_BYTES_MAX) };
    }
}

/// A board that this process writes.
#[derive(Debug)]
pub struct Board {
    memory: Arc<Memory>,
    descriptor: OwnedFd,
}

impl Board {
    /// Makes a board and seals it.
    ///
    /// # Errors
    /// When the kernel gives no descriptor or no memory.
    pub fn create(kind: u64, refresh_ms: u64) -> io::Result<Self> {
        let name = std::ffi::CString::new(NAME).expect("it has no zero in it");
        // SAFETY: the name is a C string; a fresh descriptor is owned by nobody else; plain system calls.
        let descriptor = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let descriptor = OwnedFd::from_raw_fd(checked(libc::memfd_create(name.as_ptr(), flags))?);
            checked(libc::ftruncate(descriptor.as_raw_fd(), BOARD_BYTES_MAX as libc::off_t))?;
            checked(libc::fchmod(descriptor.as_raw_fd(), 0o600))?;
            descriptor
        };
        let memory = Memory::map(descriptor.as_fd(), libc::PROT_READ | libc::PROT_WRITE)?;
        let size = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        let seal = |seals: libc::c_int| {
            // SAFETY: a plain system call.
            checked(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals) })
        };
        // Before Linux 5.1 the descriptor that is handed out for reading is what keeps others from writing.
        seal(size | F_SEAL_FUTURE_WRITE).or_else(|_| seal(size))?;
        let words = [
            (place::BYTES, BOARD_BYTES_MAX),
            (place::NODES_AT, NODES_AT),
            (place::NODES_MAX, NODES_MAX),
            (place::JOBS_AT, JOBS_AT),
            (place::JOBS_MAX, JOBS_MAX),
            (place::LINE_BYTES, LINE_BYTES),
            (place::RUNNING_AT, RUNNING_AT),
        ];
        for (place, value) in words {
            memory.header(place).store(value as u64, Ordering::Relaxed);
        }
        memory.header(place::KIND).store(kind, Ordering::Relaxed);
        memory.header(place::REFRESH_MS).store(refresh_ms, Ordering::Relaxed);
        memory.header(place::MAGIC).store(MAGIC, Ordering::Release);
        Ok(Board { memory: Arc::new(memory), descriptor })
    }

    /// The same file, open for reading only: what others get.
    ///
    /// # Errors
    /// When the kernel gives none; it needs /proc.
    pub fn reading_end(&self) -> io::Result<OwnedFd> {
        let file = std::fs::File::open(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))?;
        Ok(file.into())
    }

    /// The two writers.
    pub fn split(self) -> (NodeLines, JobLines) {
        (NodeLines { memory: Arc::clone(&self.memory) }, JobLines { memory: self.memory })
    }
}

/// The writer of the header and the nodes.
#[derive(Debug)]
pub struct NodeLines {
    memory: Arc<Memory>,
}

impl NodeLines {
    /// Lines have been refreshed; this node has that number, and there are so many.
    pub fn publish(&mut self, own_node: u64, nodes: u64, now_ns: u64) {
        self.memory.header(place::OWN_NODE).store(own_node, Ordering::Relaxed);
        self.memory.header(place::NODES).store(nodes.min(NODES_MAX as u64), Ordering::Relaxed);
        self.memory.header(place::WRITTEN_NS).store(now_ns, Ordering::Release);
    }

    /// The network of this node is congested, and counts as that until then if nothing else is said.
    pub fn publish_congestion(&mut self, until_ns: u64) {
        self.memory.header(place::CONGESTED_UNTIL_NS).store(until_ns, Ordering::Relaxed);
    }

    /// Writes a node's line; a node with a higher number than there are lines has none.
    pub fn write(&mut self, node: usize, line: &Node) {
        if node < NODES_MAX {
            self.memory.write_line(NODES_AT + node * LINE_BYTES, &line.words());
        }
    }
}

/// The writer of the jobs. Stores only: nothing here allocates, waits or fails.
#[derive(Debug)]
pub struct JobLines {
    memory: Arc<Memory>,
}

impl JobLines {
    /// Takes a line for a job that runs from now on; none when there is no free one.
    pub fn begin(&mut self, job: u64, ranks: u64, now_ns: u64) -> Option<JobLine> {
        let at = (0..JOBS_MAX).map(|line| JOBS_AT + line * LINE_BYTES);
        // We alone write them.
        let free = |at: &usize| self.memory.word(at + 16).load(Ordering::Relaxed) == 0;
        let at = at.into_iter().find(free)?;
        let words = Job {
            updated_ns: now_ns,
            job_plus_1: job.wrapping_add(1),
            state: JOB_RUNNING,
            since_ns: now_ns,
            ranks,
            ..Job::default()
        };
        let line = JobLine { memory: Arc::clone(&self.memory), at, words };
        line.write();
        Some(line)
    }
}

/// The line of a job, free again when it is dropped.
#[derive(Debug)]
pub struct JobLine {
    memory: Arc<Memory>,
    at: usize,
    words: Job,
}

impl JobLine {
    fn write(&self) {
        self.memory.write_line(self.at, &self.words.words());
    }

    /// Notes that the job stands still from now on.
    pub fn freeze(&mut self, now_ns: u64) {
        if self.words.state != JOB_FROZEN {
            (self.words.updated_ns, self.words.state, self.words.since_ns) = (now_ns, JOB_FROZEN, now_ns);
            self.write();
        }
    }

    /// Notes that the job goes on.
    pub fn thaw(&mut self, now_ns: u64) {
        if self.words.state == JOB_FROZEN {
            self.words.frozen_ns_total += now_ns.saturating_sub(self.words.since_ns);
            self.words.thaw_count += 1;
            (self.words.updated_ns, self.words.state, self.words.since_ns) = (now_ns, JOB_RUNNING, now_ns);
            self.write();
        }
    }

    /// The switch that it runs in, and when its slice ends.
    pub fn publish_turn(&mut self, generation: u64, slice_end_ns: u64, now_ns: u64) {
        self.words.updated_ns = now_ns;
        (self.words.generation, self.words.slice_end_ns) = (generation, slice_end_ns);
        self.write();
    }
}

impl Drop for JobLine {
    fn drop(&mut self) {
        self.words = Job { updated_ns: self.words.updated_ns, ..Job::default() };
        self.write();
    }
}

/// A board that another process writes.
#[derive(Debug)]
pub struct Reader {
    memory: Memory,
}

impl Reader {
    /// Maps a board. The descriptor may be anything.
    ///
    /// # Errors
    /// When it is no board.
    pub fn map(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let wrong = |what| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        // SAFETY: stat is plain data, filled by the kernel before it is read; plain system calls.
        let (stat, seals) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            checked(libc::fstat(descriptor.as_raw_fd(), &mut stat))?;
            (stat, libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS))
        };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return wrong("the file may become shorter, so it is no board");
        }
        if ![BOARD_BYTES, BOARD_BYTES_MAX].contains(&(stat.st_size as usize)) {
            return wrong("the file has another size than a board");
        }
        let memory = Memory::map(descriptor, libc::PROT_READ)?;
        if memory.header(place::MAGIC).load(Ordering::Acquire) != MAGIC {
            return wrong("the file does not begin as a board does");
        }
        let has_running = memory.header(place::RUNNING_AT).load(Ordering::Relaxed) != 0;
        if has_running && stat.st_size != BOARD_BYTES_MAX as libc::off_t {
            return wrong("the file is shorter than its header says");
        }
        Ok(Reader { memory })
    }

    /// The board that a daemon hands out on this socket.
    ///
    /// # Errors
    /// When nobody is there, or gives something else.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let mut stream = local_socket::connect_to(socket, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let descriptor = receive_descriptor(&mut stream)?;
        Reader::map(descriptor.as_fd())
    }

    /// The board for a process that finds this in [`VARIABLE`]: that of the daemon, if there is one, else its
    /// starter's.
    ///
    /// # Errors
    /// When neither is there.
    pub fn find(value: &std::ffi::OsStr) -> io::Result<Self> {
        let bytes = value.as_bytes();
        let split = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let socket = Path::new(std::ffi::OsStr::from_bytes(&bytes[..split]));
        let file = bytes.get(split + 1..).filter(|file| !file.is_empty());
        Reader::connect(socket).or_else(|error| {
            let file = Path::new(std::ffi::OsStr::from_bytes(file.ok_or(error)?));
            Reader::map(std::fs::File::open(file)?.as_fd())
        })
    }

    /// First byte of the board, for programs in C.
    pub fn base(&self) -> NonNull<u8> {
        self.memory.0
    }

    /// Reads the header.
    pub fn header(&self) -> Header {
        let word = |place| self.memory.header(place).load(Ordering::Relaxed);
        Header {
            written_ns: self.memory.header(place::WRITTEN_NS).load(Ordering::Acquire),
            kind: word(place::KIND),
            own_node: word(place::OWN_NODE),
            nodes: word(place::NODES).min(NODES_MAX as u64),
            refresh_ms: word(place::REFRESH_MS),
            congested_until_ns: word(place::CONGESTED_UNTIL_NS),
        }
    }

    /// The network of this node is congested: one load.
    pub fn is_congested(&self, now_ns: u64) -> bool {
        self.memory.header(place::CONGESTED_UNTIL_NS).load(Ordering::Relaxed) > now_ns
    }

    /// A node's line; none if it is torn, or there is no such line.
    pub fn node(&self, node: usize) -> Option<Node> {
        (node < NODES_MAX).then(|| self.memory.read_line(NODES_AT + node * LINE_BYTES))?.map(Node::of_words)
    }

    /// A job's line, by place; none if it is torn, or there is no such line. It may be free.
    pub fn job_at(&self, place: usize) -> Option<Job> {
        (place < JOBS_MAX).then(|| self.memory.read_line(JOBS_AT + place * LINE_BYTES))?.map(Job::of_words)
    }

    /// A job that runs here; none when there is none with this number, or its line is being written.
    pub fn job(&self, job: u64) -> Option<Job> {
        let named = |line: &usize| {
            let word = self.memory.word(JOBS_AT + line * LINE_BYTES + 16);
            word.load(Ordering::Relaxed) == job.wrapping_add(1)
        };
        let line = (0..JOBS_MAX).find(named)?;
        self.job_at(line).filter(|found| found.job() == Some(job))
    }
}

/// The descriptor that comes with the first bytes of a stream.
fn receive_descriptor(stream: &mut UnixStream) -> io::Result<OwnedFd> {
    let none = || io::Error::new(io::ErrorKind::InvalidData, "no descriptor has come");
    let mut magic = [0_u8; 8];
    let mut control = [0_u64; 4];
    let mut part = libc::iovec { iov_base: magic.as_mut_ptr().cast(), iov_len: magic.len() };
    // SAFETY: zero is a value of this C structure.
    let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control) as _);
    // A signal, also SIGCONT, ends a call with a limit, and the kernel does not begin it again.
    let begin = Instant::now();
    loop {
        // SAFETY: the structure names memory that lives during the call.
        let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if read >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted || begin.elapsed() > PATIENCE {
            return Err(error);
        }
    }
    // SAFETY: the kernel has filled the structure; a first header lies inside the control bytes.
    let descriptor = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(none());
        }
        OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned())
    };
    if magic == MAGIC.to_le_bytes() { Ok(descriptor) } else { Err(none()) }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests;
