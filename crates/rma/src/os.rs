//! Single copies between the memories of two ranks of a node (`process_vm_readv`, `process_vm_writev`).
//!
//! The kernel allows them as it allows ptrace: same user, and under Yama only for descendants of the process
//! that the target named (the runtime names the starter). Where it refuses, the caller uses the bulk ring.
//!
//! The kernel copies with `rep movsb`. AMD's Zen 3 does that four times slower (64 KiB in 27 us instead of
//! 6.5) when the target lies 1 to 31 bytes behind the source, modulo the page. Such copies make a detour
//! through memory that lies better.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::device::Access;
use crate::own;

/// Bytes of one call, so that a rank can be frozen soon whatever it copies: 1 MiB takes 0.1 ms. Shorter calls
/// cost up to 10 % more.
pub const CALL_BYTES_MAX: usize = 1 << 20;

/// Memory of this process that a pending operation of the user reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    at: *mut u8,
    bytes: usize,
}

/// Another process of this machine, or why none is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(i32);

impl Process {
    /// No number names it here: it is in a PID namespace that this process does not see.
    pub const NAMELESS: Self = Process(-1 - i32::MAX);

    /// The process with this pid in our namespace.
    pub fn of(pid: u32) -> Self {
        if pid == 0 || pid > i32::MAX as u32 { Self::NAMELESS } else { Process(pid as i32) }
    }

    /// The kernel lets nobody look whether it is the one.
    pub fn refused(error: &io::Error) -> Self {
        error.raw_os_error().map_or(Self::NAMELESS, |number| Process(-number))
    }

    /// Never 0.
    pub fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Process of bits that [`Process::bits`] gave.
    pub fn from_bits(bits: u32) -> Self {
        if bits == 0 { Self::NAMELESS } else { Process(bits as i32) }
    }

    fn pid(self) -> io::Result<libc::pid_t> {
        match self {
            Self::NAMELESS => Err(io::Error::other(
                "it is in a PID namespace that this process does not see (a container of its own?)",
            )),
            Process(pid) if pid > 0 => Ok(pid),
            Process(number) => Err(io::Error::from_raw_os_error(-number)),
        }
    }
}

/// Memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Process of the memory.
    pub process: Process,
    /// Address there.
    pub address: u64,
}

impl Memory {
    /// Describes memory.
    ///
    /// # Safety
    /// The bytes are valid for the operations that the value is given to, reading or writing, as long as it
    /// is used.
    pub unsafe fn new(at: *mut u8, bytes: usize) -> Self {
        Memory { at, bytes }
    }

    /// Copies `bytes` from `offset` of this memory to the same offset of the other's; at most
    /// [`CALL_BYTES_MAX`]. Returns how many were copied.
    ///
    /// # Errors
    /// As [`read`].
    pub fn write_to(&self, to: Remote, offset: usize, bytes: usize) -> io::Result<usize> {
        let bytes = self.checked(offset, bytes);
        // SAFETY: the range lies inside the memory, which is valid (contract of `new`).
        unsafe { write(to.process, to.address.wrapping_add(offset as u64), self.at.add(offset), bytes) }
    }

    /// Copies `bytes` from `offset` of the other's memory to the same offset of this one; at most
    /// [`CALL_BYTES_MAX`]. Returns how many were copied.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read_from(&self, from: Remote, offset: usize, bytes: usize) -> io::Result<usize> {
        let bytes = self.checked(offset, bytes);
        // SAFETY: as in `write_to`.
        unsafe { read(from.process, from.address.wrapping_add(offset as u64), self.at.add(offset), bytes) }
    }

    fn checked(&self, offset: usize, bytes: usize) -> usize {
        assert!(offset <= self.bytes, "byte {offset} of a memory of {} bytes", self.bytes);
        bytes.min(self.bytes - offset)
    }
}

/// Copies `bytes` from address `from` of a process to `to`; at most [`CALL_BYTES_MAX`]. Returns how many
/// were copied.
///
/// # Safety
/// `to` is valid for writing `bytes` bytes.
///
/// # Errors
/// The kernel's: EPERM when copying is not allowed here, EFAULT for a bad remote address, ESRCH for a dead
/// process; a text where nothing names it here.
pub unsafe fn read(process: Process, from: u64, to: *mut u8, bytes: usize) -> io::Result<usize> {
    if !is_slow(from as usize, to.addr()) {
        // SAFETY: our contract.
        return unsafe { call(libc::process_vm_readv, process, from, to, bytes) };
    }
    with_detour(from as usize, |detour| {
        // SAFETY: the detour has room for so many bytes; `to` by our contract.
        unsafe {
            let copied = call(libc::process_vm_readv, process, from, detour, bytes.min(DETOUR_BYTES))?;
            // As of the kernel's own copy, also for memory of a GPU's: this one would end the process.
            own::check_bytes(to, copied, Access::Write)?;
            std::ptr::copy_nonoverlapping(detour, to, copied);
            Ok(copied)
        }
    })
}

/// Copies `bytes` from `from` to address `to` of a process; at most [`CALL_BYTES_MAX`]. Returns how many
/// were copied.
///
/// # Safety
/// `from` is valid for reading `bytes` bytes.
///
/// # Errors
/// As [`read`].
pub unsafe fn write(process: Process, to: u64, from: *const u8, bytes: usize) -> io::Result<usize> {
    if !is_slow(from.addr(), to as usize) {
        // SAFETY: our contract; the kernel only reads from `from`.
        return unsafe { call(libc::process_vm_writev, process, to, from.cast_mut(), bytes) };
    }
    with_detour(from.addr(), |detour| {
        let bytes = bytes.min(DETOUR_BYTES);
        own::check_bytes(from, bytes, Access::Read)?;
        // SAFETY: the detour has room for so many bytes; `from` by our contract.
        unsafe {
            std::ptr::copy_nonoverlapping(from, detour, bytes);
            call(libc::process_vm_writev, process, to, detour, bytes)
        }
    })
}

/// A rank that dies takes its job down within milliseconds.
const JOB_END_MAX: Duration = Duration::from_secs(10);

/// When a copy has failed because the other rank is dead, waits once for the end of the job: its starter
/// says who has died, and a second complaint of each rank that meets the death would only hide that.
pub fn await_job_end_if_dead(error: &io::Error) {
    static HAS_WAITED: AtomicBool = AtomicBool::new(false);
    if error.raw_os_error() == Some(libc::ESRCH) && !HAS_WAITED.swap(true, Ordering::Relaxed) {
        std::thread::sleep(JOB_END_MAX);
    }
}

/// Ranges of one call.
pub(crate) const RANGES_MAX: usize = 256;

/// Which way bytes go between ranges of another process and one run of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the other process.
    Scatter,
    /// From it.
    Gather,
}

/// Ranges of another process's memory, collected to be copied in few calls.
#[derive(Debug)]
pub(crate) struct Ranges {
    process: Process,
    direction: Direction,
    /// Where the next byte is or goes here.
    local: *mut u8,
    remote: Vec<libc::iovec>,
    bytes: usize,
}

impl Ranges {
    /// # Safety
    /// `local` is valid for all bytes of the ranges that will be added, for writing if they are gathered.
    pub(crate) unsafe fn new(process: Process, direction: Direction, local: *mut u8) -> Self {
        Ranges { process, direction, local, remote: Vec::new(), bytes: 0 }
    }

    /// Adds a range.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn add(&mut self, mut address: u64, mut bytes: usize) -> io::Result<()> {
        while bytes > 0 {
            let some = bytes.min(CALL_BYTES_MAX - self.bytes);
            self.remote.push(libc::iovec { iov_base: address as *mut libc::c_void, iov_len: some });
            (address, bytes, self.bytes) = (address + some as u64, bytes - some, self.bytes + some);
            if self.remote.len() == RANGES_MAX || self.bytes == CALL_BYTES_MAX {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Copies what has been added.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut ranges = self.remote.as_mut_slice();
        while self.bytes > 0 {
            let pid = self.process.pid()?;
            let local = libc::iovec { iov_base: self.local.cast(), iov_len: self.bytes };
            let function = if self.direction == Direction::Scatter {
                libc::process_vm_writev
            } else {
                libc::process_vm_readv
            };
            // SAFETY: the local memory by the constructor's contract; the kernel checks the remote ranges.
            let copied =
                unsafe { function(pid, &local, 1, ranges.as_ptr(), ranges.len() as libc::c_ulong, 0) };
            if copied <= 0 {
                return Err(io::Error::last_os_error());
            }
            let mut copied = copied as usize;
            (self.local, self.bytes) = (self.local.wrapping_add(copied), self.bytes - copied);
            // The kernel may stop between two ranges, or inside one.
            while let Some(first) = ranges.first_mut()
                && copied > 0
            {
                let some = copied.min(first.iov_len);
                first.iov_base = first.iov_base.wrapping_byte_add(some);
                first.iov_len -= some;
                copied -= some;
                if first.iov_len == 0 {
                    ranges = &mut ranges[1..];
                }
            }
        }
        self.remote.clear();
        Ok(())
    }
}

type SystemCall = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// # Safety
/// `local` is valid for what the call does with `bytes` bytes there.
unsafe fn call(
    function: SystemCall,
    process: Process,
    remote: u64,
    local: *mut u8,
    bytes: usize,
) -> io::Result<usize> {
    let (pid, bytes) = (process.pid()?, bytes.min(CALL_BYTES_MAX));
    let local = libc::iovec { iov_base: local.cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: remote as *mut libc::c_void, iov_len: bytes };
    // SAFETY: the local memory by our contract; the kernel checks the remote address.
    let copied = unsafe { function(pid, &local, 1, &remote, 1, 0) };
    if copied <= 0 { Err(io::Error::last_os_error()) } else { Ok(copied as usize) }
}

const PAGE_BYTES: usize = 4096;
/// Bytes of one detour: the second copy finds them in the cache.
const DETOUR_BYTES: usize = 64 << 10;

/// Whether the processor is slow with these two addresses.
fn is_slow(from: usize, to: usize) -> bool {
    (1..32).contains(&(to.wrapping_sub(from) % PAGE_BYTES))
}

/// Memory for a detour that is slow neither on the way in from `from` nor out, where the target is 1 to 31
/// bytes further.
fn with_detour<T>(from: usize, copy: impl FnOnce(*mut u8) -> T) -> T {
    thread_local! {
        static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    ROOM.with_borrow_mut(|room| {
        room.reserve(DETOUR_BYTES + PAGE_BYTES);
        let begin = room.as_mut_ptr();
        let wanted = from.wrapping_add(64);
        copy(begin.wrapping_add(wanted.wrapping_sub(begin.addr()) % PAGE_BYTES))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_vm_copy_of_memory_out_of_reach_is_refused_at_any_alignment() {
        let own = Process::of(std::process::id());
        // SAFETY: a fresh mapping, at an address that the kernel chooses, disturbs no other memory.
        let away = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 2 * PAGE_BYTES, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(away, libc::MAP_FAILED);
        let away = away.cast::<u8>();
        let mut memory = vec![0_u8; 3 * PAGE_BYTES];
        let page = memory.as_ptr().addr().next_multiple_of(PAGE_BYTES) - memory.as_ptr().addr();
        // In front of a page as far as behind it: slow to write, slow to read.
        for at in [page + 16, page + PAGE_BYTES - 16, page] {
            let memory = memory[at..].as_mut_ptr();
            let address = memory.addr() as u64;
            // SAFETY: as much is left of the memory; what is out of reach is refused.
            let refused =
                unsafe { [write(own, address, away, PAGE_BYTES), read(own, address, away, PAGE_BYTES)] };
            for refused in refused {
                assert_eq!(refused.expect_err("nothing is there").raw_os_error(), Some(libc::EFAULT), "{at}");
            }
        }
        // SAFETY: mapped above, and used by nobody.
        unsafe { libc::munmap(away.cast(), 2 * PAGE_BYTES) };
    }

    #[test]
    fn process_vm_copy_is_right_at_any_alignment() {
        let own = Process::of(std::process::id());
        let source: Vec<u8> = (0..200_000_u32).map(|i| (i * 7 + (i >> 8)) as u8).collect();
        for skip in [0, 1, 16, 31, 32, 4095] {
            let mut target = vec![0; source.len() + 2 * PAGE_BYTES];
            let begin = (source.as_ptr().addr() + skip).wrapping_sub(target.as_ptr().addr()) % PAGE_BYTES;
            let end = begin + source.len();
            let mut done = 0;
            while done < source.len() {
                let left = source.len() - done;
                let to = target[begin + done..end].as_mut_ptr();
                // SAFETY: both memories have so many bytes left.
                done += unsafe { read(own, source.as_ptr().addr() as u64 + done as u64, to, left) }
                    .expect("a process may copy from itself");
            }
            assert!(target[begin..end] == source[..], "read, {skip}");
            target[begin..end].fill(0);
            done = 0;
            while done < source.len() {
                let (left, to) = (source.len() - done, target.as_ptr().addr() + begin + done);
                // SAFETY: as above.
                done += unsafe { write(own, to as u64, source[done..].as_ptr(), left) }
                    .expect("a process may copy to itself");
            }
            assert!(target[begin..end] == source[..], "write, {skip}");
            assert!(target[..begin].iter().chain(&target[end..]).all(|&byte| byte == 0), "{skip}");
        }
    }

    #[test]
    fn process_vm_copy_stays_within_its_range() {
        let (mut here, mut there) = ([1u8; 100], [2u8; 100]);
        // SAFETY: the array outlives the value.
        let memory = unsafe { Memory::new(here.as_mut_ptr(), here.len()) };
        let remote = Remote { process: Process::of(std::process::id()), address: there.as_mut_ptr() as u64 };
        assert_eq!(memory.write_to(remote, 10, 20).expect("our own memory"), 20);
        assert_eq!(memory.read_from(remote, 50, 100).expect("our own memory"), 50, "not past the end");
        assert!(there.iter().enumerate().all(|(i, &b)| b == if (10..30).contains(&i) { 1 } else { 2 }));
        assert!(here.iter().enumerate().all(|(i, &b)| b == if i < 50 { 1 } else { 2 }));
    }

    #[test]
    fn process_vm_copy_of_a_bad_address_is_an_error() {
        let mut byte = 0_u8;
        // SAFETY: one byte of ours.
        let refused = unsafe { read(Process::of(std::process::id()), 8, &mut byte, 1) };
        assert_eq!(refused.expect_err("nothing is there").raw_os_error(), Some(libc::EFAULT));
    }
}
