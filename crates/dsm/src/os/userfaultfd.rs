//! Calls of userfaultfd(2) for a mapping of a shared file: the library gives pages to the program one by one.
//! An access of a page that was not given, and a store to one that is protected, is a SIGBUS in the thread
//! that accesses. Accesses by the kernel fail with EFAULT, so a user needs no right for any of it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tutti_runtime::background;

use super::{check, pointer};
use crate::core::unit::UNIT_BYTES;

/// Faults of user mode alone: allowed without `vm.unprivileged_userfaultfd`.
const USER_MODE_ONLY: libc::c_int = 1;
const API_VERSION: u64 = 0xaa;
/// Protection against stores; faults of pages that have no memory, and of those that have; all of shared
/// memory; and SIGBUS in the place of events.
const FEATURES: u64 = 1 << 0 | 1 << 5 | 1 << 7 | 1 << 10 | 1 << 12;
/// A mapping reports pages without memory, stores to protected pages, and pages with memory.
const MODES: u64 = 1 << 0 | 1 << 1 | 1 << 2;
/// Pages that are given are protected: of CONTINUE since Linux 6.4, and of COPY.
const PROTECTED: u64 = 1 << 1;
/// WRITEPROTECT protects; 0: the opposite.
const PROTECT: u64 = 1 << 0;
/// Attempts of a call that a change of the kernel's own tables has stopped.
const ATTEMPTS_MAX: u32 = 100_000;
/// MADV_DONTNEED also of pages that `mlockall` holds (Linux 5.18).
const DROP_LOCKED: libc::c_int = 24;
/// close_range(2) of the calling thread alone.
const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;

static ZEROS: [u8; UNIT_BYTES] = [0; UNIT_BYTES];

#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    start: u64,
    bytes: u64,
}

#[repr(C)]
struct Register {
    place: Place,
    modes: u64,
    ioctls: u64,
}

#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    bytes: u64,
    mode: u64,
    copied: i64,
}

#[repr(C)]
struct WriteProtect {
    place: Place,
    mode: u64,
}

#[repr(C)]
struct Continue {
    place: Place,
    mode: u64,
    given: i64,
}

/// Number of a call that takes and gives a structure, as `asm-generic/ioctl.h` makes it.
const fn request<T>(number: libc::c_ulong) -> libc::c_ulong {
    3 << 30 | (size_of::<T>() as libc::c_ulong) << 16 | 0xaa << 8 | number
}

const NEW: libc::c_ulong = 0xaa << 8;

fn place(address: usize, bytes: usize) -> Place {
    Place { start: address as u64, bytes: bytes as u64 }
}

/// A descriptor by which the faults of mappings of this process are handled.
#[derive(Debug)]
pub(crate) struct Faults(OwnedFd);

impl Faults {
    /// Makes one. It stays open in a thread of its own whatever the program closes: behind its end the
    /// kernel would show pages that were not given, stale ones, without a word.
    ///
    /// # Errors
    /// When the kernel has it not, or does not permit it.
    pub(crate) fn open() -> io::Result<Self> {
        let faults = Faults(above_standard(descriptor()?)?);
        let mut api = Api { version: API_VERSION, features: FEATURES, ioctls: 0 };
        faults.call(request::<Api>(0x3f), &mut api)?;
        faults.hold_open()?;
        Ok(faults)
    }

    /// The number of the descriptor.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    fn hold_open(&self) -> io::Result<()> {
        let number = self.number() as libc::c_uint;
        let (sender, receiver) = std::sync::mpsc::channel();
        background::spawn("tutti-faults", move || {
            let close = |first: libc::c_uint, last: libc::c_uint, flags: libc::c_uint| {
                // SAFETY: the descriptors are this thread's own from the first call on.
                check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } as libc::c_int)
            };
            let held = close(number + 1, libc::c_uint::MAX, CLOSE_RANGE_UNSHARE)
                .and_then(|()| close(0, number - 1, 0));
            let is_held = held.is_ok();
            let _ = sender.send(held);
            if is_held {
                loop {
                    std::thread::park();
                }
            }
        })?;
        receiver.recv().map_err(io::Error::other)?
    }

    fn call<T>(&self, request: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: the request says how long the structure is; what the kernel changes beside it are the
        // program's rights on memory that the caller names.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, std::ptr::from_mut(argument)) })
    }

    /// From now on pages of these mappings that are not there are faults. Those that are there stay. Once
    /// more changes nothing.
    pub(crate) fn register(&self, address: usize, bytes: usize) -> io::Result<()> {
        let mut register = Register { place: place(address, bytes), modes: MODES, ioctls: 0 };
        self.call(request::<Register>(0), &mut register)
    }

    /// Gives pages that have memory to the program, from the first on, as many as it says; at least one.
    ///
    /// # Errors
    /// EEXIST: the first one is there already. EFAULT: it has no memory. ENOENT: the range is of several
    /// mappings. EINVAL: the kernel cannot give protected pages.
    pub(crate) fn give(&self, address: usize, bytes: usize, is_protected: bool) -> io::Result<usize> {
        let mode = if is_protected { PROTECTED } else { 0 };
        for _ in 0..ATTEMPTS_MAX {
            let mut given = Continue { place: place(address, bytes), mode, given: 0 };
            match self.call(request::<Continue>(7), &mut given) {
                Ok(()) => return Ok(bytes),
                Err(error) if error.raw_os_error() != Some(libc::EAGAIN) => return Err(error),
                Err(_) if given.given > 0 => return Ok(given.given as usize),
                Err(_) => std::thread::yield_now(),
            }
        }
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Gives a page of zeros to the program, where there is no memory.
    ///
    /// # Errors
    /// EEXIST: there is some.
    pub(crate) fn give_zeros(&self, address: usize, is_protected: bool) -> io::Result<()> {
        let mode = if is_protected { PROTECTED } else { 0 };
        let (to, from, bytes) = (address as u64, ZEROS.as_ptr().addr() as u64, UNIT_BYTES as u64);
        let mut last = Ok(());
        for _ in 0..ATTEMPTS_MAX {
            last = self.call(request::<Copy>(3), &mut Copy { to, from, bytes, mode, copied: 0 });
            match &last {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => std::thread::yield_now(),
                _ => break,
            }
        }
        last
    }

    /// Stores to pages that are there are faults from now on, or none any more.
    pub(crate) fn protect(&self, address: usize, bytes: usize, is_protected: bool) -> io::Result<()> {
        let mode = if is_protected { PROTECT } else { 0 };
        self.call(request::<WriteProtect>(6), &mut WriteProtect { place: place(address, bytes), mode })
    }
}

/// Takes pages away from the program: the next access of each faults. Their memory stays.
pub(crate) fn take(address: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: the range is part of the arena, a mapping of a shared file, which the library itself reaches by
    // another one.
    check(unsafe { libc::madvise(pointer(address).cast(), bytes, DROP_LOCKED) })
}

/// The descriptor with another number than a standard one, which a program may open anew.
fn above_standard(made: OwnedFd) -> io::Result<OwnedFd> {
    if made.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(made);
    }
    match super::duplicate(made.as_raw_fd()) {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
    }
}

/// A descriptor by the call, or by the device where the call alone is forbidden.
fn descriptor() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
    // SAFETY: numbers alone.
    let made = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if made >= 0 {
        // SAFETY: the descriptor is new.
        return Ok(unsafe { OwnedFd::from_raw_fd(made as i32) });
    }
    let refusal = io::Error::last_os_error();
    let Ok(device) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd") else {
        return Err(refusal);
    };
    // SAFETY: the call takes a number.
    let made = unsafe { libc::ioctl(device.as_raw_fd(), NEW as _, flags) };
    // SAFETY: the descriptor is new.
    if made < 0 { Err(refusal) } else { Ok(unsafe { OwnedFd::from_raw_fd(made) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_calls_are_those_of_linux() {
        let found = [
            request::<Api>(0x3f),
            request::<Register>(0),
            request::<Copy>(3),
            request::<WriteProtect>(6),
            request::<Continue>(7),
        ];
        assert_eq!(found, [0xc018_aa3f, 0xc020_aa00, 0xc028_aa03, 0xc018_aa06, 0xc020_aa07]);
    }
}
