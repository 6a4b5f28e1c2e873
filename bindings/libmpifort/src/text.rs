//! Strings: Fortran's have a length and are filled with blanks, C's end with a zero.

use crate::abi::MPI_SUCCESS;
use core::ffi::{c_char, c_int};

/// Strings up to this length need no memory of their own.
const SHORT: usize = 256;

/// A string that C reads.
pub(crate) struct Text {
    short: [u8; SHORT],
    long: Vec<u8>,
}

/// The string without trailing blanks, and without leading ones if these are no part of it.
pub(crate) unsafe fn trimmed<'a>(address: *const u8, length: usize, strip: bool) -> &'a [u8] {
    if address.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the compiler hands over address and length of a string.
    let text = unsafe { core::slice::from_raw_parts(address, length) };
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    let start = if strip { text[..end].iter().position(|byte| *byte != b' ').unwrap_or(0) } else { 0 };
    &text[start..end]
}

impl Text {
    /// A copy of the string.
    pub(crate) unsafe fn new(address: *mut u8, length: usize, strip: bool) -> Self {
        // SAFETY: our contract.
        Text::of(unsafe { trimmed(address, length, strip) })
    }

    /// A copy with a zero behind it.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut copy = Text { short: [0; SHORT], long: Vec::new() };
        if text.len() < SHORT {
            copy.short[..text.len()].copy_from_slice(text);
        } else {
            copy.long = [text, b"\0"].concat();
        }
        copy
    }

    /// Where C finds it.
    pub(crate) fn address(&self) -> *const c_char {
        if self.long.is_empty() { self.short.as_ptr().cast() } else { self.long.as_ptr().cast() }
    }
}

/// A string that C writes.
pub(crate) struct TextPlace {
    place: *mut u8,
    length: usize,
    room: Vec<u8>,
}

impl TextPlace {
    /// C has this much room.
    pub(crate) fn new(place: *mut u8, length: usize, room: usize) -> Self {
        TextPlace { place, length, room: vec![0; room.max(1)] }
    }

    /// Where C writes.
    pub(crate) fn address(&mut self) -> *mut c_char {
        self.room.as_mut_ptr().cast()
    }

    /// Gives the string, cut or filled with blanks. The length that C gave ends with the user's string.
    pub(crate) unsafe fn put(&self, code: c_int, length: *mut c_int) {
        if code != MPI_SUCCESS {
            return;
        }
        let end = self.room.iter().position(|byte| *byte == 0).unwrap_or(self.room.len());
        // SAFETY: the compiler hands over address and length of a string.
        unsafe {
            put_blank_padded(self.place, self.length, &self.room[..end]);
            if !length.is_null() {
                *length = (*length).min(c_int::try_from(self.length).unwrap_or(c_int::MAX));
            }
        }
    }
}

/// Writes a string of Fortran.
pub(crate) unsafe fn put_blank_padded(place: *mut u8, length: usize, text: &[u8]) {
    let copied = text.len().min(length);
    // SAFETY: our contract: `length` bytes at `place`.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), place, copied);
        core::ptr::write_bytes(place.add(copied), b' ', length - copied);
    }
}
