//! Small blocks into a ring and out of it.

/// Copies small blocks without a call.
///
/// # Safety
/// As `ptr::copy_nonoverlapping`.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's contract; the two overlapping moves stay inside [0, bytes).
    unsafe {
        // In this order: most messages are of a word or two.
        if bytes >= 8 {
            match bytes {
                ..=16 => two::<u64>(from, to, bytes),
                17..=40 => {
                    two::<u128>(from, to, bytes.min(32));
                    two::<u64>(from.add(bytes - 16), to.add(bytes - 16), 16);
                }
                _ => std::ptr::copy_nonoverlapping(from, to, bytes),
            }
        } else if bytes >= 4 {
            two::<u32>(from, to, bytes);
        } else if bytes > 0 {
            *to = *from;
            *to.add(bytes / 2) = *from.add(bytes / 2);
            *to.add(bytes - 1) = *from.add(bytes - 1);
        }
    }
}

/// Copies the first and the last `T` of a block that is between one and two `T` long.
#[inline(always)]
unsafe fn two<T: Copy>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: size_of::<T>() <= bytes <= 2 * size_of::<T>() by the callers; the caller's block is valid.
    unsafe {
        let last = bytes - size_of::<T>();
        let (first_value, last_value) =
            (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(first_value);
        to.add(last).cast::<T>().write_unaligned(last_value);
    }
}
