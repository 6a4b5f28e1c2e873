//! A user's buffer as a stream of bytes: address, number of bytes, and, where the data have gaps, the map of
//! a datatype.
//!
//! The engine moves bytes at any offset in any portions and knows nothing of datatypes.

use crate::note::{Note, SignatureWord};
use crate::transfer::Map;

/// A message's data in the memory of this process.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Buffer {
    /// Address of the first byte when there is no map, else the address that the map's displacements count
    /// from.
    pub at: *mut u8,
    /// Bytes of data, gaps not counted.
    pub bytes: usize,
    /// Where the data lie, unless they are contiguous.
    pub map: Option<Map>,
}

impl Buffer {
    /// Contiguous data.
    pub fn contiguous(at: *mut u8, bytes: usize) -> Self {
        Buffer { at, bytes, map: None }
    }

    /// Bytes `[offset, offset + bytes)` of the data, as far as there are any.
    pub fn part(&self, offset: usize, bytes: usize) -> Self {
        let offset = offset.min(self.bytes);
        let bytes = bytes.min(self.bytes - offset);
        match &self.map {
            None => Buffer::contiguous(self.at.wrapping_add(offset), bytes),
            Some(map) => Buffer { at: self.at, bytes, map: Some(map.behind(offset)) },
        }
    }

    /// Whether both begin in the same memory and lie in it alike. An address alone does not say so: maps may
    /// lead anywhere from it, as those of MPI_BOTTOM do.
    pub fn is_at(&self, other: &Buffer) -> bool {
        self.at == other.at
            && match (&self.map, &other.map) {
                (None, None) => true,
                (Some(map), Some(other)) => map.is_same(other),
                _ => false,
            }
    }

    /// No data.
    pub const fn empty() -> Self {
        Buffer { at: std::ptr::null_mut(), bytes: 0, map: None }
    }

    /// Bytes that are best moved at once, from a multiple of them on; 0 when it does not matter.
    #[inline(always)]
    pub fn portion(&self) -> usize {
        self.map.as_ref().map_or(0, Map::portion)
    }

    /// Copies bytes `[offset, offset + bytes)` of the data to `to`.
    ///
    /// # Safety
    /// The user's memory behind the buffer is valid (MPI's rule for buffers of pending operations), `to` is
    /// valid for writing `bytes` bytes, and the range lies inside the data.
    pub unsafe fn load(&self, offset: usize, to: *mut u8, bytes: usize) {
        debug_assert!(offset + bytes <= self.bytes);
        // SAFETY: our contract.
        unsafe {
            match &self.map {
                None => std::ptr::copy_nonoverlapping(self.at.add(offset), to, bytes),
                Some(map) => map.pack(self.at, offset, to, bytes),
            }
        }
    }

    /// Copies `bytes` bytes from `from` into the data at `offset`; what lies behind the end of the buffer is
    /// dropped.
    ///
    /// # Safety
    /// As [`Buffer::load`], with `from` valid for reading.
    pub unsafe fn store(&self, offset: usize, from: *const u8, bytes: usize) {
        let bytes = bytes.min(self.bytes.saturating_sub(offset));
        // SAFETY: our contract.
        unsafe {
            match &self.map {
                None => std::ptr::copy_nonoverlapping(from, self.at.wrapping_add(offset), bytes),
                Some(map) => map.unpack(self.at, offset, from, bytes),
            }
        }
    }
}

impl Buffer {
    fn note(&self) -> Option<&Note> {
        self.map.as_ref()?.note()
    }

    /// Word that travels with a message of these data.
    #[inline]
    pub fn word(&self) -> SignatureWord {
        self.note().map_or(SignatureWord(0), |note| note.word(self.bytes))
    }

    /// Whether a receive into this buffer may take a message of `bytes` bytes with this word.
    pub fn takes(&self, theirs: SignatureWord, bytes: usize) -> bool {
        self.note().is_none_or(|note| note.takes(self.bytes, theirs, bytes))
    }

    /// The data in words: "4 x MPI_INT".
    pub fn describe(&self) -> String {
        self.note().map_or_else(|| format!("{} bytes", self.bytes), |note| note.describe(self.bytes))
    }
}
