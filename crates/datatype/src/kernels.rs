//! The inner loops: blocks of one length at regular or irregular places, to or from a stream of bytes.
//!
//! Lengths that occur in practice have loops of their own, in which a block is one or a few register moves; a
//! call of memcpy per block would cost several times its work.

/// Which way bytes go, known when the code is compiled.
pub(crate) const PACK: bool = true;
/// From the stream to memory.
pub(crate) const UNPACK: bool = false;

/// Blocks of at least this many bytes are left to memcpy.
const LONG_BLOCK: usize = 128;

/// One run.
///
/// # Safety
/// `bytes` bytes at both addresses are valid, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy<const DIRECTION: bool>(memory: *mut u8, stream: *mut u8, bytes: usize) {
    let (from, to) = if DIRECTION == PACK { (memory, stream) } else { (stream, memory) };
    // SAFETY: our contract.
    unsafe {
        if bytes >= LONG_BLOCK {
            std::ptr::copy_nonoverlapping(from, to, bytes);
        } else {
            copy_short(from, to, bytes);
        }
    }
}

/// Fewer than [`LONG_BLOCK`] bytes: by two moves that may overlap in the middle where a pair is enough, else
/// in steps.
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, bytes: usize) {
    /// First and last `N` bytes.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller has N <= bytes valid bytes at both addresses.
        unsafe {
            let first = from.cast::<[u8; N]>().read();
            let last = from.add(bytes - N).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(first);
            to.add(bytes - N).cast::<[u8; N]>().write(last);
        }
    }
    // SAFETY: the contract of `copy`; each branch moves at most `bytes` bytes.
    unsafe {
        if bytes >= 16 {
            let mut done = 0;
            while done + 32 <= bytes {
                to.add(done).cast::<[u8; 32]>().write(from.add(done).cast::<[u8; 32]>().read());
                done += 32;
            }
            if bytes - done > 16 {
                ends::<16>(from.add(done), to.add(done), bytes - done);
            } else if bytes > done {
                let back = bytes - 16;
                to.add(back).cast::<[u8; 16]>().write(from.add(back).cast::<[u8; 16]>().read());
            }
        } else if bytes >= 8 {
            ends::<8>(from, to, bytes);
        } else if bytes >= 4 {
            ends::<4>(from, to, bytes);
        } else if bytes >= 2 {
            ends::<2>(from, to, bytes);
        } else if bytes == 1 {
            to.write(from.read());
        }
    }
}

/// Calls `$with` with the block length as a constant, or `$otherwise` for lengths that have no loop of their
/// own.
macro_rules! by_length {
    ($bytes:expr, $with:ident $arguments:tt, $otherwise:expr, [$($length:literal)*]) => {
        match $bytes {
            $($length => $with::<DIRECTION, $length>$arguments,)*
            _ => $otherwise,
        }
    };
    ($bytes:expr, $with:ident $arguments:tt, $otherwise:expr) => {
        by_length!($bytes, $with $arguments, $otherwise,
            [1 2 3 4 5 6 7 8 10 12 14 16 20 24 28 32 36 40 48 56 64 72 80 96 112 128])
    };
}

/// `count` blocks of `bytes` bytes, `stride` apart in memory and `step` apart in the stream.
///
/// # Safety
/// Each block is valid at both places; memory and stream do not overlap.
#[inline]
pub(crate) unsafe fn copy_blocks<const DIRECTION: bool>(
    memory: *mut u8,
    stride: isize,
    stream: *mut u8,
    step: usize,
    count: usize,
    bytes: usize,
) {
    // SAFETY: our contract, block by block.
    unsafe {
        by_length!(bytes, blocks(memory, stride, stream, step, count), {
            for i in 0..count {
                copy::<DIRECTION>(memory.wrapping_offset(i as isize * stride), stream.add(i * step), bytes);
            }
        })
    }
}

#[inline(always)]
unsafe fn blocks<const DIRECTION: bool, const BYTES: usize>(
    mut memory: *mut u8,
    stride: isize,
    mut stream: *mut u8,
    step: usize,
    count: usize,
) {
    for _ in 0..count {
        // SAFETY: the contract of `copy_blocks`.
        unsafe { block::<DIRECTION, BYTES>(memory, stream) };
        memory = memory.wrapping_offset(stride);
        stream = stream.wrapping_add(step);
    }
}

/// Columns that go on together.
pub(crate) const COLUMNS_ABREAST: usize = 8;

/// `columns` columns of `rows` blocks of `bytes` bytes: in memory the columns are `stride` apart and the rows
/// `row`; in the stream each column is dense and follows the one before. Eight columns go on together, row by
/// row: a line of memory is moved once, as a whole, and the stream is read or written in eight sequences,
/// which a processor foresees, while it does not foresee the lines of rows.
///
/// # Safety
/// Each block is valid at both places; memory and stream do not overlap.
pub(crate) unsafe fn copy_columns<const DIRECTION: bool>(
    memory: *mut u8,
    (stride, columns): (isize, usize),
    (row, rows): (isize, usize),
    stream: *mut u8,
    column_bytes: usize,
    bytes: usize,
) {
    for first in (0..columns).step_by(COLUMNS_ABREAST) {
        let some = COLUMNS_ABREAST.min(columns - first);
        let memory = memory.wrapping_offset(stride.wrapping_mul(first as isize));
        // SAFETY: our contract, column by column.
        unsafe {
            let stream = stream.add(first * column_bytes);
            let one_by_one = || {
                for column in 0..some {
                    let memory = memory.wrapping_offset(stride.wrapping_mul(column as isize));
                    copy_blocks::<DIRECTION>(
                        memory,
                        row,
                        stream.add(column * column_bytes),
                        bytes,
                        rows,
                        bytes,
                    );
                }
            };
            if some < COLUMNS_ABREAST {
                one_by_one();
            } else {
                by_length!(bytes, abreast(memory, stride, row, rows, stream, column_bytes), one_by_one(), [1 2 4 8 16]);
            }
        }
    }
}

/// How many rows ahead the lines of memory are asked for.
const ROWS_AHEAD: isize = 24;

#[inline(always)]
unsafe fn abreast<const DIRECTION: bool, const BYTES: usize>(
    mut memory: *mut u8,
    stride: isize,
    row: isize,
    rows: usize,
    mut stream: *mut u8,
    column_bytes: usize,
) {
    for _ in 0..rows {
        prefetch(memory.wrapping_offset(row.wrapping_mul(ROWS_AHEAD)));
        for column in 0..COLUMNS_ABREAST {
            let memory = memory.wrapping_offset(stride.wrapping_mul(column as isize));
            // SAFETY: the contract of `copy_columns`.
            unsafe { block::<DIRECTION, BYTES>(memory, stream.wrapping_add(column * column_bytes)) };
        }
        memory = memory.wrapping_offset(row);
        stream = stream.wrapping_add(BYTES);
    }
}

/// Asks for a line of memory; any address may be given.
#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults; SSE belongs to the architecture.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

/// Blocks of `bytes` bytes at `places`, one after the other in the stream.
///
/// # Safety
/// Each block is valid at both places; memory and stream do not overlap.
#[inline]
pub(crate) unsafe fn copy_places<const DIRECTION: bool>(
    memory: *mut u8,
    places: &[isize],
    stream: *mut u8,
    bytes: usize,
) {
    // SAFETY: our contract, block by block.
    unsafe {
        by_length!(bytes, scattered(memory, places, stream), {
            for (i, at) in places.iter().enumerate() {
                copy::<DIRECTION>(memory.wrapping_offset(*at), stream.add(i * bytes), bytes);
            }
        })
    }
}

#[inline(always)]
unsafe fn scattered<const DIRECTION: bool, const BYTES: usize>(
    memory: *mut u8,
    places: &[isize],
    mut stream: *mut u8,
) {
    for at in places {
        // SAFETY: the contract of `copy_places`.
        unsafe { block::<DIRECTION, BYTES>(memory.wrapping_offset(*at), stream) };
        stream = stream.wrapping_add(BYTES);
    }
}

#[inline(always)]
unsafe fn block<const DIRECTION: bool, const BYTES: usize>(memory: *mut u8, stream: *mut u8) {
    let (from, to) = if DIRECTION == PACK { (memory, stream) } else { (stream, memory) };
    // SAFETY: the caller's block is valid at both addresses.
    unsafe { std::ptr::copy_nonoverlapping(from, to, BYTES) };
}
