//! Columns of a matrix on their way between memory and the short pieces in which a message moves: memory is
//! walked for eight columns at once ([`Buffer::portion`]), into or out of a place in between.
//!
//! The copy in between stays in a near cache; walking each column by itself fetches every line of the matrix
//! once for each of its columns, which costs ten times as much where rows are a power of two apart.

use tutti_datatype::Buffer;

/// Bytes of a message that have been packed ahead.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Where in the message they begin.
    at: usize,
    bytes: Vec<u8>,
}

/// Bytes of a message that have arrived and are not yet in their places.
#[derive(Debug, Default)]
pub(super) struct Gathered(Vec<u8>);

impl Packed {
    /// Copies up to `bytes` bytes of the data at `offset` to `to`; gives how many: fewer where a portion
    /// ends.
    ///
    /// # Safety
    /// As [`Buffer::load`].
    #[inline]
    pub(super) unsafe fn load(&mut self, buffer: &Buffer, offset: usize, to: *mut u8, bytes: usize) -> usize {
        let portion = buffer.portion();
        if portion <= bytes {
            // SAFETY: our contract.
            unsafe { buffer.load(offset, to, bytes) };
            return bytes;
        }
        if offset < self.at || offset >= self.at + self.bytes.len() {
            self.at = offset;
            self.bytes.resize(portion.min(buffer.bytes - offset), 0);
            // SAFETY: our contract; the buffer's data reach that far.
            unsafe { buffer.load(offset, self.bytes.as_mut_ptr(), self.bytes.len()) };
        }
        let ready = &self.bytes[offset - self.at..];
        let bytes = bytes.min(ready.len());
        // SAFETY: our contract; what is packed is ours.
        unsafe { std::ptr::copy_nonoverlapping(ready.as_ptr(), to, bytes) };
        bytes
    }
}

impl Gathered {
    /// Takes `bytes` bytes of a message at `offset`, which follow those that came before; all are in their
    /// places when `last` is true.
    ///
    /// # Safety
    /// As [`Buffer::store`].
    #[inline]
    pub(super) unsafe fn store(
        &mut self,
        buffer: &Buffer,
        offset: usize,
        from: *const u8,
        bytes: usize,
        last: bool,
    ) {
        let portion = buffer.portion();
        if portion <= bytes && self.0.is_empty() {
            // SAFETY: our contract.
            unsafe { buffer.store(offset, from, bytes) };
            return;
        }
        let begin = offset - self.0.len();
        // SAFETY: our contract.
        self.0.extend_from_slice(unsafe { std::slice::from_raw_parts(from, bytes) });
        if last || self.0.len() >= portion {
            // SAFETY: our contract, for the pieces that were taken before too.
            unsafe { buffer.store(begin, self.0.as_ptr(), self.0.len()) };
            self.0.clear();
        }
    }
}
