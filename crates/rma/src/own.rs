//! Memory of this process that an operation reads or writes by the processor itself: looked at before, page
//! by page, so that a wrong address is an error of the call and no signal 11 of the rank.
//!
//! Asked where a copy by the kernel is made as well ([`crate::part`]), which costs ten times as much as the
//! question, and when one has failed. Nothing here changes a byte.
#![allow(unsafe_code)]

use std::io;

use tutti_datatype::Buffer;

use crate::device::{Access, is_readable, is_writable};

/// Smallest page of any processor that this runs on.
const PAGE_BYTES: usize = 4096;

/// Looks whether the processor may access all of the data.
///
/// # Errors
/// EFAULT, as of a copy by the kernel.
pub fn check(data: &Buffer, access: Access) -> io::Result<()> {
    let mut pages = Pages { access, last: None };
    let mut checked = Ok(());
    match &data.map {
        None => checked = pages.check(data.at.addr(), data.bytes),
        Some(map) => map.runs(data.at.addr(), data.bytes, &mut |at, bytes| {
            checked = pages.check(at, bytes);
            checked.is_ok()
        }),
    }
    checked
}

/// The same of bytes that follow one another.
///
/// # Errors
/// As [`check`].
pub fn check_bytes(at: *const u8, bytes: usize, access: Access) -> io::Result<()> {
    Pages { access, last: None }.check(at.addr(), bytes)
}

/// Pages that runs of data lie in: the one that was looked at last is not looked at again.
#[derive(Debug)]
struct Pages {
    access: Access,
    last: Option<usize>,
}

impl Pages {
    fn check(&mut self, at: usize, bytes: usize) -> io::Result<()> {
        let bad = || io::Error::from_raw_os_error(libc::EFAULT);
        if bytes == 0 {
            return Ok(());
        }
        let last = at.checked_add(bytes - 1).ok_or_else(bad)? / PAGE_BYTES;
        for page in at / PAGE_BYTES..=last {
            if self.last == Some(page) {
                continue;
            }
            let byte = std::ptr::without_provenance_mut(at.max(page * PAGE_BYTES));
            let may_access = match self.access {
                Access::Read => is_readable(byte),
                Access::Write => is_writable(byte),
            };
            if !may_access {
                return Err(bad());
            }
            self.last = Some(page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_call_is_looked_at_to_its_last_byte_and_no_further() {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, at an address that the kernel chooses, disturbs no other memory.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), 3 * PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        let pages = map.cast::<u8>();
        // SAFETY: pages of the mapping, which nobody uses: the second may be read alone, the third nothing.
        unsafe {
            assert_eq!(libc::mprotect(map.byte_add(PAGE_BYTES), PAGE_BYTES, libc::PROT_READ), 0);
            assert_eq!(libc::mprotect(map.byte_add(2 * PAGE_BYTES), PAGE_BYTES, libc::PROT_NONE), 0);
        }
        let may = |at: usize, bytes, access| check_bytes(pages.wrapping_add(at), bytes, access).is_ok();
        assert!(may(0, 2 * PAGE_BYTES, Access::Read) && may(2 * PAGE_BYTES - 1, 1, Access::Read));
        assert!(!may(2 * PAGE_BYTES - 1, 2, Access::Read) && !may(0, 3 * PAGE_BYTES, Access::Read));
        assert!(may(0, PAGE_BYTES, Access::Write) && may(PAGE_BYTES - 1, 1, Access::Write));
        assert!(!may(PAGE_BYTES - 1, 2, Access::Write) && !may(2 * PAGE_BYTES, 1, Access::Write));
        assert!(may(5 * PAGE_BYTES, 0, Access::Write), "no byte is accessed");
        assert!(check_bytes(std::ptr::without_provenance(usize::MAX), 2, Access::Read).is_err());
        // SAFETY: mapped above, and used by nobody.
        unsafe { libc::munmap(map, 3 * PAGE_BYTES) };
    }
}
