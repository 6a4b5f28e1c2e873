//! Which memory of this process is a GPU's: that cannot be sent, received or copied.
//!
//! Nothing of a GPU is linked. The kernel says which mappings are a GPU driver's, and CUDA's own library, if
//! the program has loaded it, what a pointer of it names. Only who has failed to copy asks, and the checker:
//! an answer takes some ten microseconds.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

/// Access to the memory that was to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, by a send.
    Read,
    /// Written, by a receive.
    Write,
}

/// Files of drivers whose mappings are memory of a GPU, where a processor may not touch them.
const DRIVERS: [&str; 3] = ["/dev/nvidia", "/dev/kfd", "/dev/dri/"];

/// Driver of the memory at this address, if it is a GPU's that this processor cannot access so; for people.
pub fn driver_of(at: *const u8, access: Access) -> Option<String> {
    let by_library = || is_device_of_cuda(at).then(|| "CUDA".to_owned());
    let maps = || std::fs::read_to_string("/proc/self/maps").ok();
    by_library().or_else(|| driver_in(&maps()?, at.addr(), access).map(str::to_owned))
}

/// Whether the kernel can read the byte there. Takes a tenth of a microsecond.
///
/// Asked of a call that looks at nothing else: a change of the signal mask that says no known way of changing
/// it. Unlike a copy from this process to itself, no sandbox forbids it. The kernel reads the whole word that
/// the byte is in, which lies in one page.
pub fn is_readable(at: *const u8) -> bool {
    /// No value of SIG_BLOCK, SIG_UNBLOCK and SIG_SETMASK.
    const NO_WAY: c_int = -1;
    const MASK_BYTES: usize = 8;
    let word = at.addr() / MASK_BYTES * MASK_BYTES;
    // SAFETY: the kernel looks itself whether it can read there, and then refuses the way: nothing changes.
    let asked = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, NO_WAY, word, std::ptr::null_mut::<u8>(), MASK_BYTES)
    };
    // Without a mask it has not looked.
    asked != 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// Whether the kernel can write the byte there, which becomes what it is. Takes some tenths of a microsecond.
///
/// The caller's operation is about to write the byte, so nobody else does. True as well where a sandbox
/// forbids the question, a copy from this process to itself.
pub fn is_writable(at: *mut u8) -> bool {
    let byte = libc::iovec { iov_base: at.cast(), iov_len: 1 };
    // SAFETY: the kernel looks itself whether it can read and write there; the byte keeps its value.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &byte, 1, &byte, 1, 0) };
    copied == 1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

/// The file of a driver that is mapped at an address, by the kernel's list of mappings.
fn driver_in(maps: &str, address: usize, access: Access) -> Option<&str> {
    // 7f00-7f10 rw-s 00000000 00:05 123    /dev/nvidia0
    let mapping = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let bound = |text: &str| usize::from_str_radix(text, 16).ok();
        range.is_some_and(|(from, to)| {
            bound(from).is_some_and(|from| from <= address) && bound(to).is_some_and(|to| address < to)
        })
    })?;
    let rights = mapping.split(' ').nth(1)?;
    let needed = if access == Access::Read { 'r' } else { 'w' };
    let file = &mapping[mapping.find('/')?..];
    (!rights.contains(needed) && DRIVERS.iter().any(|driver| file.starts_with(driver))).then_some(file)
}

/// CUDA's library is loaded, and says that the address is of its device alone.
fn is_device_of_cuda(at: *const u8) -> bool {
    /// `CUresult cuPointerGetAttributes(unsigned, CUpointer_attribute *, void **, CUdeviceptr)`
    type PointerAttributes =
        unsafe extern "C" fn(c_uint, *mut c_int, *mut *mut c_void, libc::c_ulonglong) -> c_int;
    /// CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED: that is memory which processor and device share.
    const ATTRIBUTES: [c_int; 2] = [2, 8];
    /// CU_MEMORYTYPE_DEVICE
    const DEVICE: c_uint = 2;
    // SAFETY: the name is a C string; the call only looks at what is loaded already.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cuPointerGetAttributes".as_ptr()) };
    if found.is_null() {
        return false;
    }
    let (mut attributes, mut kind, mut is_managed) = (ATTRIBUTES, 0_u64, 0_u64);
    let mut values = [(&raw mut kind).cast::<c_void>(), (&raw mut is_managed).cast()];
    // SAFETY: a function of this name has this type (CUDA's driver interface, since 7.0). It writes each
    // value through its pointer, no more bytes than the words here have, and only looks the address up.
    let result = unsafe {
        let ask = std::mem::transmute::<*mut c_void, PointerAttributes>(found);
        ask(2, attributes.as_mut_ptr(), values.as_mut_ptr(), at.addr() as libc::c_ulonglong)
    };
    result == 0 && kind as c_uint == DEVICE && is_managed as u32 & 0xff == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0a00000-55d0c0a10000 r-xp 00000000 fe:00 17    /usr/bin/a.out
7f0000000000-7f0000200000 ---p 00000000 00:05 123   /dev/nvidia-uvm
7f0000200000-7f0000300000 rw-s 00000000 00:05 124   /dev/nvidia0
7f0000300000-7f0000400000 r--s 00000000 00:05 125   /dev/dri/renderD128
7f0000400000-7f0000500000 ---p 00000000 00:00 0 \n\
7f0000500000-7f0000600000 ---s 00000000 00:05 126   /dev/kfd
7f0000600000-7f0000700000 ---p 00000000 fe:00 127   /home/dev/nvidia0
";

    #[test]
    fn memory_that_is_not_there_or_that_nobody_may_read_is_not_readable() {
        let page = 4096;
        // SAFETY: fresh mappings, at an address that the kernel chooses, disturb no other memory.
        let map = |rights| unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), page, rights, flags, -1, 0)
        };
        for (rights, readable) in [(libc::PROT_NONE, false), (libc::PROT_READ, true)] {
            let at = map(rights);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(is_readable(at.cast()), readable);
            assert_eq!(is_readable(at.cast::<u8>().wrapping_add(page - 1)), readable, "its last byte");
            assert!(!is_writable(at.cast()));
            // SAFETY: mapped above, and used by nobody.
            unsafe { libc::munmap(at, page) };
            assert!(!is_readable(at.cast()));
        }
        // SAFETY: a word of this thread.
        unsafe { *libc::__errno_location() = 0 };
        assert!(!is_readable(std::ptr::without_provenance(1)));
        let mut here = 7_u8;
        assert!(is_writable(&raw mut here) && here == 7);
    }

    #[test]
    fn device_memory_is_what_a_driver_maps_and_the_processor_cannot_touch() {
        let at = |address, access| driver_in(MAPS, address, access);
        for access in [Access::Read, Access::Write] {
            assert_eq!(at(0x7f00_0000_0000, access), Some("/dev/nvidia-uvm"));
            assert_eq!(at(0x7f00_001f_ffff, access), Some("/dev/nvidia-uvm"));
            assert_eq!(at(0x7f00_0020_0000, access), None, "it is mapped for the processor");
            assert_eq!(at(0x7f00_0040_0000, access), None, "no file");
            assert_eq!(at(0x7f00_0050_0000, access), Some("/dev/kfd"));
            assert_eq!(at(0x7f00_0060_0000, access), None, "a file of another folder");
            assert_eq!(at(0x1000, access), None, "nothing is mapped");
        }
        assert_eq!(at(0x7f00_0030_0000, Access::Read), None);
        assert_eq!(at(0x7f00_0030_0000, Access::Write), Some("/dev/dri/renderD128"));
        let here = 7_u8;
        assert_eq!(driver_of(&raw const here, Access::Read), None);
    }
}
