//! Memory that several jobs map: a file without a name, for its owner alone, that keeps its size.
//!
//! A descriptor that was opened for reading keeps other users from writing. A process of the owner's user
//! could open it again: so memory that no client may map for writing is sealed when its writers have mapped
//! it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::opened::Opened;

const F_SEAL_FUTURE_WRITE: libc::c_int = 0x10;

/// Memory of this process's making.
#[derive(Debug)]
pub struct Area {
    descriptor: OwnedFd,
    mapped: Mapped,
}

impl Area {
    /// Makes zeroed memory.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn create(bytes: usize) -> io::Result<Self> {
        // SAFETY: the name is a C string; a fresh descriptor is owned by nobody else; plain system calls.
        let descriptor = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let descriptor =
                OwnedFd::from_raw_fd(checked(libc::memfd_create(c"tutti-region".as_ptr(), flags))?);
            let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
            checked(libc::ftruncate(descriptor.as_raw_fd(), length))?;
            checked(libc::fchmod(descriptor.as_raw_fd(), 0o600))?;
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
            checked(libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
            descriptor
        };
        let mapped = Mapped::map(descriptor.as_fd(), bytes, true)?;
        Ok(Area { descriptor, mapped })
    }

    /// Memory of the area, as this process sees it.
    pub fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// Descriptor of the area, for those who may write.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The same file, open for reading only.
    ///
    /// # Errors
    /// When the kernel gives none; it needs /proc.
    pub fn reading_end(&self) -> io::Result<OwnedFd> {
        Ok(File::open(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))?.into())
    }

    /// Seals the area: nobody maps it for writing any more, whatever descriptor he has.
    ///
    /// # Errors
    /// When the kernel has no such seal (before Linux 5.1).
    pub fn seal(&self) -> io::Result<()> {
        let seals = F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;
        // SAFETY: a plain system call.
        checked(unsafe { libc::fcntl(self.descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
    }
}

/// Mapped memory, as long as the value is there.
#[derive(Debug)]
pub struct Mapped {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the value; all accesses are atomics or raw copies.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps memory that somebody else may have made: its size must stand.
    ///
    /// # Errors
    /// When it is no such memory, is shorter, or may not be written. Memory of large pages is none: the
    /// kernel may have no page at the first use, which would be the end of this process.
    pub fn map(descriptor: BorrowedFd<'_>, bytes: usize, is_writable: bool) -> io::Result<Self> {
        // SAFETY: both are plain data, filled by the kernel before they are read; plain system calls.
        let (stat, kind, seals) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            let mut system: libc::statfs = std::mem::zeroed();
            checked(libc::fstat(descriptor.as_raw_fd(), &mut stat))?;
            checked(libc::fstatfs(descriptor.as_raw_fd(), &mut system))?;
            (stat, system.f_type, libc::fcntl(descriptor.as_raw_fd(), libc::F_GET_SEALS))
        };
        if kind != libc::TMPFS_MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is no ordinary memory"));
        }
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || (stat.st_size as u64) < bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is shorter, or may become so"));
        }
        let write = if is_writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | write,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                descriptor.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapped { base: NonNull::new(base.cast()).expect("a mapping is not at 0"), bytes })
    }

    /// First byte of the mapping.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length of the mapping.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// For copies and atomics, as long as the mapping stays.
    pub fn opened(&self) -> Opened {
        // SAFETY: the callers of this crate keep the mapping while they use it; one for reading is only read.
        unsafe { Opened::new(self.base, self.bytes) }
    }

    /// Reads all of a range; false when it is not inside.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        // SAFETY: the slice is valid for its length.
        unsafe { self.opened().load(offset, into.as_mut_ptr(), into.len()) }
    }

    /// Writes all of a range; false when it is not inside. The memory was mapped for writing.
    pub fn write(&self, offset: u64, from: &[u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else { return false };
        // SAFETY: the slice is valid for its length.
        unsafe { self.opened().store(offset, from.as_ptr(), from.len()) }
    }

    /// Whether a range is inside.
    pub fn has(&self, offset: u64, bytes: usize) -> bool {
        usize::try_from(offset).is_ok_and(|offset| self.opened().address(offset, bytes).is_some())
    }

    /// The number at an offset that lies inside; none when it is not aligned.
    pub fn word(&self, offset: u64) -> Option<&AtomicU64> {
        let at = self.opened().address(usize::try_from(offset).ok()?, 8)?.cast::<AtomicU64>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: inside the mapping, which the value keeps, and aligned.
        Some(unsafe { at.as_ref() })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our mapping; nobody has a reference into it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
