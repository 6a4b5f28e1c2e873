//! Types of the PMIx standard, version 4 and 5, for 64 bits; values of ours as libpmix wants them, and its
//! values as ours.
//!
//! Memory of what is made here is an [`Own`]'s, or of the one that its function names.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::names::Value as Datum;
use crate::spaces::Process;

pub(super) const BOOL: u16 = 1;
pub(super) const STRING: u16 = 3;
const SIZE: u16 = 4;
const STATUS: u16 = 20;
const PROCESS: u16 = 22;
const INFO: u16 = 24;
pub(super) const BYTE_OBJECT: u16 = 27;
const DATA_ARRAY: u16 = 39;
const PROC_RANK: u16 = 40;
const UINT16: u16 = 13;
const UINT32: u16 = 14;

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawProcess {
    pub(super) space: [c_char; 256],
    pub(super) rank: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawValue {
    pub(super) kind: u16,
    pub(super) data: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    pub(super) key: [c_char; 512],
    pub(super) flags: u32,
    pub(super) value: RawValue,
}

#[repr(C)]
pub(super) struct DataArray {
    pub(super) kind: u16,
    pub(super) size: usize,
    pub(super) array: *mut c_void,
}

/// Published data, as a lookup answers it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PublishedData {
    pub(super) process: RawProcess,
    pub(super) key: [c_char; 512],
    pub(super) value: RawValue,
}

/// A command that is to be started.
#[repr(C)]
pub(super) struct App {
    pub(super) command: *const c_char,
    pub(super) arguments: *const *const c_char,
    pub(super) environment: *const *const c_char,
    pub(super) directory: *const c_char,
    pub(super) ranks: c_int,
    pub(super) infos: *const Info,
    pub(super) count: usize,
}

// As in the headers of 4.2.2 and 5.0.11.
const _: () = assert!(size_of::<RawProcess>() == 260 && size_of::<RawValue>() == 32);
const _: () = assert!(size_of::<Info>() == 552 && size_of::<DataArray>() == 24);
const _: () = assert!(size_of::<PublishedData>() == 808 && size_of::<App>() == 56);

pub(super) type OpCallback = Option<unsafe extern "C" fn(c_int, *mut c_void)>;
pub(super) type Release = Option<unsafe extern "C" fn(*mut c_void)>;
pub(super) type ModexCallback =
    Option<unsafe extern "C" fn(c_int, *const c_char, usize, *mut c_void, Release, *mut c_void)>;
pub(super) type LookupCallback = Option<unsafe extern "C" fn(c_int, *mut PublishedData, usize, *mut c_void)>;
pub(super) type SpawnCallback = Option<unsafe extern "C" fn(c_int, *const c_char, *mut c_void)>;
pub(super) type InfoCallback =
    Option<unsafe extern "C" fn(c_int, *mut Info, usize, *mut c_void, Release, *mut c_void)>;
pub(super) type KeysCallback = unsafe extern "C" fn(c_int, *const c_char, usize, *mut c_void);

/// Memory that values point to, for a call of libpmix, which copies what it keeps.
#[derive(Default)]
pub(super) struct Own {
    texts: Vec<CString>,
    made: Vec<*mut c_char>,
    processes: Vec<Box<[RawProcess]>>,
    lists: Vec<Box<[Info]>>,
    arrays: Vec<Box<[DataArray]>>,
}

impl Own {
    pub(super) fn text(&mut self, text: &str) -> RawValue {
        let text = c_string(text.as_bytes());
        // The letters stay where they are when the list grows.
        let value = text_value(text.as_ptr());
        self.texts.push(text);
        value
    }

    /// A text that libpmix has made by malloc.
    pub(super) fn made_text(&mut self, text: *mut c_char) -> RawValue {
        self.made.push(text);
        text_value(text)
    }

    pub(super) fn process(&mut self, process: &Process) -> RawValue {
        let mut process: Box<[RawProcess]> = Box::new([raw_process(process)]);
        let value = RawValue { kind: PROCESS, data: [process.as_mut_ptr() as usize as u64, 0, 0] };
        self.processes.push(process);
        value
    }

    pub(super) fn array(&mut self, list: Vec<Info>) -> RawValue {
        let mut list = list.into_boxed_slice();
        let mut array =
            Box::new([DataArray { kind: INFO, size: list.len(), array: list.as_mut_ptr().cast() }]);
        let value = array_value(&mut array[0]);
        self.lists.push(list);
        self.arrays.push(array);
        value
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for text in &self.made {
            // SAFETY: libpmix has made it by malloc, for its caller to free.
            unsafe { libc::free(text.cast()) }
        }
    }
}

fn text_value(text: *const c_char) -> RawValue {
    RawValue { kind: STRING, data: [text as usize as u64, 0, 0] }
}

/// A text; what is behind a zero in it is cut.
pub(super) fn c_string(bytes: &[u8]) -> CString {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(bytes).unwrap_or_default()
}

pub(super) fn key<const N: usize>(name: &str) -> [c_char; N] {
    let mut key = [0; N];
    // One less: the last is zero.
    key.iter_mut().take(N - 1).zip(name.bytes()).for_each(|(to, from)| *to = from.cast_signed());
    key
}

pub(super) fn raw_process(process: &Process) -> RawProcess {
    RawProcess { space: key(&process.space), rank: process.rank }
}

pub(super) fn info(name: &str, value: RawValue) -> Info {
    Info { key: key(name), flags: 0, value }
}

pub(super) fn number(number: u32) -> RawValue {
    RawValue { kind: UINT32, data: [first_bytes(&number.to_ne_bytes()), 0, 0] }
}

pub(super) fn rank_value(rank: u32) -> RawValue {
    RawValue { kind: PROC_RANK, ..number(rank) }
}

pub(super) fn size(number: u64) -> RawValue {
    RawValue { kind: SIZE, data: [number, 0, 0] }
}

pub(super) fn short(number: u16) -> RawValue {
    RawValue { kind: UINT16, data: [first_bytes(&number.to_ne_bytes()), 0, 0] }
}

/// Bytes that stay as long as `bytes`.
pub(super) fn object(bytes: &[u8]) -> RawValue {
    RawValue { kind: BYTE_OBJECT, data: [bytes.as_ptr() as usize as u64, bytes.len() as u64, 0] }
}

/// A copy of the bytes, which libpmix may take: then it frees them, and the value has no pointer any more.
/// Ended by [`free_object`].
pub(super) fn object_to_take(bytes: &[u8]) -> RawValue {
    // SAFETY: any length may be asked for.
    let copy = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
    if copy.is_null() {
        return object(&[]);
    }
    // SAFETY: the copy is as long, new, and nobody else's.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    RawValue { kind: BYTE_OBJECT, data: [copy as usize as u64, bytes.len() as u64, 0] }
}

/// Frees the bytes of [`object_to_take`], unless libpmix has taken them.
///
/// # Safety
/// The value is of that function, and its bytes are not used any more.
pub(super) unsafe fn free_object(value: &mut RawValue) {
    let copy = std::mem::take(&mut value.data[0]) as usize as *mut c_void;
    // SAFETY: the caller's promise; null is freed without effect.
    unsafe { libc::free(copy) }
}

pub(super) fn process_array(list: &mut [RawProcess]) -> DataArray {
    DataArray { kind: PROCESS, size: list.len(), array: list.as_mut_ptr().cast() }
}

/// An array that stays as long as `array`.
pub(super) fn array_value(array: &mut DataArray) -> RawValue {
    RawValue { kind: DATA_ARRAY, data: [ptr::from_mut(array) as usize as u64, 0, 0] }
}

/// A word whose memory begins with these bytes.
fn first_bytes(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// A value of ours, which points into `bytes` where it is a text or an object.
pub(super) fn raw_value(value: &Datum, bytes: &CStr) -> RawValue {
    match value.kind {
        STRING => text_value(bytes.as_ptr()),
        BYTE_OBJECT => object(&value.bytes),
        kind => {
            let mut data = [0; 3];
            let words = value.bytes.chunks_exact(8).filter_map(|word| word.try_into().ok());
            data.iter_mut().zip(words.map(u64::from_ne_bytes)).for_each(|(to, from)| *to = from);
            RawValue { kind, data }
        }
    }
}

impl Info {
    /// Key of the info.
    pub(super) fn name(&self) -> String {
        let bytes: Vec<u8> =
            self.key.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether it says yes; a value without a kind does.
    pub(super) fn is_true(&self) -> bool {
        self.value.kind != BOOL || self.value.data[0] & 0xff != 0
    }

    /// Number in the value, if it is one that is not negative.
    pub(super) fn number(&self) -> Option<u64> {
        let word = self.value.data[0];
        match self.value.kind {
            BOOL | 2 | 12 | 30 | 33 => Some(word & 0xff),
            SIZE | 15 => Some(word),
            11 | UINT32 => Some(word & 0xffff_ffff),
            UINT16 => Some(word & 0xffff),
            6 | 9 => u64::try_from(word as u32 as i32).ok(),
            10 => u64::try_from(word.cast_signed()).ok(),
            _ => None,
        }
    }

    /// Converts the value to ours; none if it is of another kind than texts, bytes and numbers.
    ///
    /// # Safety
    /// It is one that libpmix has handed over, and as long as that stays.
    pub(super) unsafe fn datum(&self) -> Option<Datum> {
        let bytes = match self.value.kind {
            // SAFETY: the caller's promise.
            STRING => unsafe { bytes_of(self.value.data[0] as usize as *const c_char) }?,
            // SAFETY: the caller's promise.
            BYTE_OBJECT => unsafe { self.object() }?.to_vec(),
            BOOL..=STATUS | PROC_RANK => self.value.data.iter().flat_map(|word| word.to_ne_bytes()).collect(),
            _ => return None,
        };
        Some(Datum { kind: self.value.kind, bytes })
    }

    /// The bytes of a byte object.
    ///
    /// # Safety
    /// As for [`Self::datum`].
    pub(super) unsafe fn object(&self) -> Option<&[u8]> {
        let start = self.value.data[0] as usize as *const u8;
        if self.value.kind != BYTE_OBJECT {
            return None;
        }
        // SAFETY: the caller's promise: the two words are pointer and length.
        Some(unsafe { slice(start, self.value.data[1] as usize) })
    }
}

/// Elements at a pointer, which is null where there are none.
///
/// # Safety
/// So many are there, as long as the result is used.
pub(super) unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    match start.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// The bytes of a C text; none for a null pointer.
///
/// # Safety
/// It is null, or a text that ends with a zero.
pub(super) unsafe fn bytes_of(text: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())
}

/// The texts of a list that ends with a null pointer, or is one.
///
/// # Safety
/// It is such a list.
pub(super) unsafe fn texts_of(mut list: *const *const c_char) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    while !list.is_null() {
        // SAFETY: the caller's promise: until the null pointer each is a text.
        let Some(text) = (unsafe { bytes_of(*list) }) else { break };
        texts.push(text);
        // SAFETY: the null pointer has not come yet.
        list = unsafe { list.add(1) };
    }
    texts
}

/// Processes as ours.
///
/// # Safety
/// So many are there.
pub(super) unsafe fn processes_of(start: *const RawProcess, count: usize) -> Vec<Process> {
    // SAFETY: the caller's promise.
    let list = unsafe { slice(start, count) };
    list.iter().map(process_of).collect()
}

/// A process as ours.
pub(super) fn process_of(process: &RawProcess) -> Process {
    let name = process.space.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned());
    let name: Vec<u8> = name.collect();
    Process { space: String::from_utf8_lossy(&name).into_owned(), rank: process.rank }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_point_to_what_is_there_as_long_as_its_owner() {
        let mut own = Own::default();
        let list = (0..50).map(|at| info("key", own.text(&format!("text {at}")))).collect();
        let value = own.array(list);
        let more: Vec<_> = (0..50).map(|at| own.text(&at.to_string())).collect();
        // SAFETY: the array and its list are the owner's.
        let list = unsafe {
            let array = &*(value.data[0] as usize as *const DataArray);
            slice(array.array.cast::<Info>(), array.size)
        };
        assert_eq!((list.len(), more.len()), (50, 50));
        for (at, info) in list.iter().enumerate() {
            // SAFETY: the text is the owner's.
            let text = unsafe { info.datum() }.expect("a text").bytes;
            assert_eq!(String::from_utf8(text), Ok(format!("text {at}")));
        }
        // SAFETY: any length may be asked for.
        let made = unsafe { libc::calloc(1, 8) }.cast::<c_char>();
        assert_eq!(own.made_text(made).data[0], made as usize as u64);
    }
}
