//! Memory that several processes read and write at once: checked ranges, copies and atomics.
//!
//! Offsets come from other ranks, so every access is checked against the length. What others change meanwhile
//! is never seen as a Rust reference, only through atomics and raw copies.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Copies up to this length go word by word, so that a mate that waits for an aligned word of up to 8 bytes
/// never sees half of it.
pub const WHOLE_BYTES_MAX: usize = 64;

/// An opened piece of memory, as this process sees it.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory outlives the value (the constructor's contract), and all accesses are atomics or raw
// copies.
unsafe impl Send for Opened {}

impl Opened {
    /// Describes memory.
    ///
    /// # Safety
    /// The bytes stay mapped, readable and writable, as long as the value is used, and no reference to them
    /// is held meanwhile.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        Opened { base, bytes }
    }

    /// Length of the region.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// First byte of the region.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The address of a range; none when it is not all inside.
    #[inline]
    pub fn address(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: just checked to stay inside.
        (end <= self.bytes).then(|| unsafe { self.base.add(offset) })
    }

    /// Writes bytes of this process at an offset. False when the range is not inside; then nothing is
    /// written.
    ///
    /// # Safety
    /// `from` is valid for reading so many bytes.
    #[inline]
    pub unsafe fn store(&self, offset: usize, from: *const u8, bytes: usize) -> bool {
        let Some(to) = self.address(offset, bytes) else { return false };
        // SAFETY: both ranges are valid, by the check and our contract.
        unsafe { copy(from, to.as_ptr(), bytes) };
        true
    }

    /// Reads bytes at an offset into memory of this process. False when the range is not inside; then nothing
    /// is read.
    ///
    /// # Safety
    /// `to` is valid for writing so many bytes.
    #[inline]
    pub unsafe fn load(&self, offset: usize, to: *mut u8, bytes: usize) -> bool {
        let Some(from) = self.address(offset, bytes) else { return false };
        // SAFETY: both ranges are valid, by the check and our contract.
        unsafe { copy(from.as_ptr(), to, bytes) };
        true
    }

    /// The byte at an offset.
    pub fn atomic_u8(&self, offset: usize) -> Option<&AtomicU8> {
        self.atomic(offset)
    }

    /// The two bytes at an offset; none when they are not aligned.
    pub fn atomic_u16(&self, offset: usize) -> Option<&AtomicU16> {
        self.atomic(offset)
    }

    /// The four bytes at an offset; none when they are not aligned.
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        self.atomic(offset)
    }

    /// The eight bytes at an offset; none when they are not aligned.
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        self.atomic(offset)
    }

    #[inline]
    fn atomic<T>(&self, offset: usize) -> Option<&T> {
        let at = self.address(offset, size_of::<T>())?.cast::<T>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: inside the memory, aligned; every bit pattern is a valid atomic integer.
        Some(unsafe { at.as_ref() })
    }
}

/// Copies `bytes` bytes, which may overlap. Short ones go by words, each aligned word of the target whole.
///
/// # Safety
/// Both addresses are valid for so many bytes.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes == 8 && to.cast::<u64>().is_aligned() {
        // SAFETY: eight valid bytes on both sides; the target is aligned.
        unsafe { word(to).store(from.cast::<u64>().read_unaligned(), Ordering::Relaxed) };
    } else if bytes <= WHOLE_BYTES_MAX
        && (from.addr() >= to.addr() + bytes || from.addr() + bytes <= to.addr())
    {
        // SAFETY: our contract; they do not overlap.
        unsafe { copy_by_words(from, to, bytes) };
    } else {
        // SAFETY: our contract.
        unsafe { std::ptr::copy(from, to, bytes) };
    }
}

/// # Safety
/// `to` is valid and aligned for eight bytes.
unsafe fn word<'a>(to: *mut u8) -> &'a AtomicU64 {
    // SAFETY: our contract.
    unsafe { AtomicU64::from_ptr(to.cast()) }
}

/// # Safety
/// Both addresses are valid for so many bytes, which do not overlap.
unsafe fn copy_by_words(from: *const u8, to: *mut u8, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        // SAFETY: each piece lies inside the bytes, and its target is aligned to its size.
        unsafe {
            let (source, target, left) = (from.add(done), to.add(done), bytes - done);
            if left >= 8 && target.cast::<u64>().is_aligned() {
                word(target).store(source.cast::<u64>().read_unaligned(), Ordering::Relaxed);
                done += 8;
            } else if left >= 4 && target.cast::<u32>().is_aligned() {
                let value = source.cast::<u32>().read_unaligned();
                AtomicU32::from_ptr(target.cast()).store(value, Ordering::Relaxed);
                done += 4;
            } else if left >= 2 && target.cast::<u16>().is_aligned() {
                let value = source.cast::<u16>().read_unaligned();
                AtomicU16::from_ptr(target.cast()).store(value, Ordering::Relaxed);
                done += 2;
            } else {
                AtomicU8::from_ptr(target).store(source.read(), Ordering::Relaxed);
                done += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
