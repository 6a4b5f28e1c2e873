//! Memory that ranks of a node open to each other: windows, symmetric heaps, `MPI_Alloc_mem`.
//!
//! It lies in the segment's file behind everything else, as holes that cost nothing until they are written.
//! Each rank gives out ranges of its own share, so no word is shared by who allocates; mates are told offset
//! and length and map the range. A range that is given back becomes a hole again, so the next one is zero.
//!
//! ```text
//! | segment, as its layout says | share of rank 0 | share of rank 1 | ...
//!                               '- arena_begin, a multiple of 2 MiB
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Bytes of the arena of a node: more than any machine has, fewer than a process can address.
pub const ARENA_BYTES: u64 = 1 << 45;
/// Ranges that are not smaller are aligned to this, so that huge pages fit.
pub const LARGE_BYTES: u64 = 2 << 20;
const PAGE_BYTES: u64 = 4096;

/// Where a range lies in the segment's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Offset of its first byte, a multiple of the page.
    pub offset: u64,
    /// Length, a multiple of the page.
    pub bytes: u64,
}

/// A rank's share of the arena.
#[derive(Debug)]
pub struct Arena {
    descriptor: OwnedFd,
    share: Range,
    /// Free ranges: offset and bytes; neighbours are one.
    free: BTreeMap<u64, u64>,
}

impl Arena {
    /// The share of one of `ranks` ranks in a file whose arena is `arena`.
    ///
    /// # Panics
    /// When there is no such rank.
    pub(crate) fn new(descriptor: OwnedFd, arena: Range, ranks: u32, rank: u32) -> Self {
        assert!(rank < ranks, "rank {rank} of {ranks}");
        let bytes = arena.bytes / u64::from(ranks) / LARGE_BYTES * LARGE_BYTES;
        let share = Range { offset: arena.offset + u64::from(rank) * bytes, bytes };
        let free = if bytes > 0 { BTreeMap::from([(share.offset, bytes)]) } else { BTreeMap::new() };
        Arena { descriptor, share, free }
    }

    /// All of it, free or not.
    pub fn share(&self) -> Range {
        self.share
    }

    /// Takes a range of at least so many bytes; none when the share has no such hole.
    pub fn allocate(&mut self, bytes: u64) -> Option<Range> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let align = if bytes >= LARGE_BYTES { LARGE_BYTES } else { PAGE_BYTES };
        let (hole, length, offset) = self.free.iter().find_map(|(&hole, &length)| {
            let offset = hole.next_multiple_of(align);
            (offset.checked_add(bytes)? <= hole + length).then_some((hole, length, offset))
        })?;
        self.free.remove(&hole);
        let mut keep = |from: u64, to: u64| {
            if from < to {
                self.free.insert(from, to - from);
            }
        };
        keep(hole, offset);
        keep(offset + bytes, hole + length);
        Some(Range { offset, bytes })
    }

    /// Gives a range back. Its pages are gone, whoever has it mapped.
    ///
    /// # Errors
    /// The kernel's; the range is free all the same.
    ///
    /// # Panics
    /// When it was not taken from this share.
    pub fn free(&mut self, range: Range) -> io::Result<()> {
        let Range { mut offset, mut bytes } = range;
        let end = offset.checked_add(bytes).expect("a range of the file");
        let share_end = self.share.offset + self.share.bytes;
        let is_taken = bytes > 0
            && offset >= self.share.offset
            && end <= share_end
            && self.free.range(..end).next_back().is_none_or(|(hole, length)| hole + length <= offset);
        assert!(is_taken, "{range:?} is no taken range of {:?}", self.share);
        if let Some(length) = self.free.remove(&end) {
            bytes += length;
        }
        if let Some((&hole, &length)) = self.free.range(..offset).next_back()
            && hole + length == offset
        {
            self.free.remove(&hole);
            (offset, bytes) = (hole, length + bytes);
        }
        self.free.insert(offset, bytes);
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a system call on our descriptor; the range lies in the file.
        let result = unsafe {
            libc::fallocate(
                self.descriptor.as_raw_fd(),
                mode,
                range.offset as libc::off_t,
                range.bytes as libc::off_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether a range lies in this share.
    pub fn has(&self, range: Range) -> bool {
        range.offset >= self.share.offset && range.offset < self.share.offset + self.share.bytes
    }
}

/// A mapped range. Unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    range: Range,
}

// SAFETY: plain memory that lives as long as the value; whoever accesses it does so by atomics or as its
// protocol allows.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a range of the file for reading and writing. Pages come on first use. A forked child shares it.
    ///
    /// # Errors
    /// When the range does not lie in the file, or the kernel has no address space for it (`ulimit -v`).
    pub fn new(file: BorrowedFd<'_>, range: Range) -> io::Result<Self> {
        let bytes = usize::try_from(range.bytes).map_err(io::Error::other)?;
        let end = range.offset.checked_add(range.bytes).ok_or(io::ErrorKind::InvalidInput)?;
        if bytes == 0 || end > file_bytes(file)? as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let offset = range.offset as libc::off_t;
        // SAFETY: a fresh mapping at an address that the kernel chooses disturbs no other memory.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if range.bytes >= LARGE_BYTES {
            // Without effect where the kernel gives shared memory no huge pages.
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(Mapping { base: NonNull::new(base.cast()).expect("mmap returned null"), range })
    }

    /// The same at an address that is a multiple of `align`, a power of two from the page on.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub fn aligned(file: BorrowedFd<'_>, range: Range, align: usize) -> io::Result<Self> {
        let bytes = usize::try_from(range.bytes).map_err(io::Error::other)?;
        let room = bytes.checked_add(align).ok_or(io::ErrorKind::InvalidInput)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: address space alone, at a place that the kernel chooses.
        let begin =
            unsafe { libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0) }.cast::<u8>();
        if begin.cast() == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = begin.addr().next_multiple_of(align) - begin.addr();
        let base = NonNull::new(begin.wrapping_add(before)).expect("mmap returned null");
        // SAFETY: the room is ours and empty; what is beside the range goes back.
        unsafe {
            let replaced = Mapping::replace(file, range, base);
            if before > 0 {
                libc::munmap(begin.cast(), before);
            }
            libc::munmap(base.as_ptr().add(bytes).cast(), align - before);
            if let Err(error) = replaced {
                libc::munmap(base.as_ptr().cast(), bytes);
                return Err(error);
            }
            if range.bytes >= LARGE_BYTES {
                libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
            }
        }
        Ok(Mapping { base, range })
    }

    /// Maps a range over memory of this process, which is gone then. It stays until the process ends.
    ///
    /// # Errors
    /// As [`Mapping::new`]; the memory is as before then.
    ///
    /// # Safety
    /// Whole pages of this process at `at`, as many as the range has, which may be lost: the range holds what
    /// was there, and nobody changes it meanwhile.
    pub unsafe fn replace(file: BorrowedFd<'_>, range: Range, at: NonNull<u8>) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let (bytes, offset) = (range.bytes as usize, range.offset as libc::off_t);
        // SAFETY: our contract.
        let base =
            unsafe { libc::mmap(at.as_ptr().cast(), bytes, protection, flags, file.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// First byte of the mapping.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Range that is mapped.
    pub fn range(&self) -> Range {
        self.range
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of the mapping; borrows of it end with this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.range.bytes as usize) };
    }
}

/// How long a file is.
pub(crate) fn file_bytes(descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: stat is plain data, filled by the kernel before it is read.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        let result = libc::fstat(descriptor.as_raw_fd(), &mut stat);
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(stat.st_size as usize) }
    }
}

#[cfg(test)]
mod tests;
