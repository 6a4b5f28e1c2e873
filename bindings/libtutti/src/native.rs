//! The symbols of the native interface; `bindings/native/tutti.h` declares them.
//! Bodies of one expression stand in `bindings/native/bodies.txt`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::NonNull;

use tutti_dse::stamps;
use tutti_native::completion::{Done, End};
use tutti_native::handle::Handle;
use tutti_native::multicast;
use tutti_native::operation::{self, Barrier, Change, Piece};
use tutti_native::phases::TeamBarrier;
use tutti_native::region::{self, Taker};
use tutti_native::signal::{self, Handler};
use tutti_native::status::{INVALID, OK};
use tutti_native::termination::{self, Function};
use tutti_native::{board, origin, phases, published, wait};

include!(concat!(env!("OUT_DIR"), "/native_exports.rs"));

/// Stores a handle that was made.
///
/// # Safety
/// The place is null or valid for writing.
unsafe fn give(made: impl FnOnce() -> Result<Handle, c_int>, to: *mut Handle) -> c_int {
    let Some(to) = NonNull::new(to).filter(|to| to.is_aligned()) else { return INVALID };
    match made() {
        Ok(handle) => {
            // SAFETY: our contract.
            unsafe { to.write(handle) };
            OK
        }
        Err(status) => status,
    }
}

/// The handle that a user names.
///
/// # Safety
/// The place is null or valid.
unsafe fn handle<'a>(region: *const Handle) -> Option<&'a Handle> {
    // SAFETY: our contract.
    if region.is_aligned() { unsafe { region.as_ref() } } else { None }
}

/// The bytes of a text in C; none: it is null.
///
/// # Safety
/// The text is null or ends with a zero byte.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: our contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_publish(
    name: *const c_char,
    bytes: usize,
    rights: c_int,
    whom: *const c_char,
    memory: *mut *mut c_void,
    to: *mut Handle,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        let (Some(name), false) = (text(name), memory.is_null()) else { return INVALID };
        let status = give(|| published::publish(name, bytes, rights, text(whom)), to);
        if status == OK {
            memory.write(published::memory(&*to));
        }
        status
    }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_publish_signal(
    name: *const c_char,
    bytes: usize,
    whom: *const c_char,
    function: Option<Handler>,
    context: *mut c_void,
    to: *mut Handle,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        let (Some(name), Some(function)) = (text(name), function) else { return INVALID };
        give(|| published::publish_signal(name, bytes, text(whom), function, context), to)
    }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_open_published(
    name: *const c_char,
    rights: c_int,
    to: *mut Handle,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        let Some(name) = text(name) else { return INVALID };
        let mut length = 0;
        let open = || published::open(name, rights).inspect(|handle| length = published::bytes(handle));
        let status = give(open, to);
        if status == OK && !bytes.is_null() {
            bytes.write(length);
        }
        status
    }
}

/// Takes an operation's region and its completion apart, then starts it.
///
/// # Safety
/// Both as the user's.
unsafe fn start(
    region: *const Handle,
    done: *mut Done,
    operation: impl FnOnce(&Handle, End) -> c_int,
) -> c_int {
    // SAFETY: our contract.
    match unsafe { (handle(region), End::of(done)) } {
        (Some(region), Some(end)) => operation(region, end),
        _ => INVALID,
    }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_writev(
    region: *const Handle,
    pieces: *const Piece,
    count: c_int,
    done: *mut Done,
) -> c_int {
    if count < 0 || (count > 0 && (pieces.is_null() || !pieces.is_aligned())) {
        return INVALID;
    }
    let pieces = if count == 0 {
        &[]
    } else {
        // SAFETY: as the user's.
        unsafe { core::slice::from_raw_parts(pieces, count as usize) }
    };
    // SAFETY: as the user's.
    unsafe { start(region, done, |region, end| operation::write(region, pieces, end)) }
}

/// The same for what brings something back: it cannot be posted.
///
/// # Safety
/// As [`start`].
unsafe fn start_fetching(
    region: *const Handle,
    done: *mut Done,
    operation: impl FnOnce(&Handle, End) -> c_int,
) -> c_int {
    let checked = |region: &Handle, end| match end {
        End::Posted => INVALID,
        end => operation(region, end),
    };
    // SAFETY: our contract.
    unsafe { start(region, done, checked) }
}

/// # Safety
/// As the user's.
unsafe fn change(
    region: *const Handle,
    offset: u64,
    change: Change,
    found: *mut i64,
    done: *mut Done,
) -> c_int {
    if found.is_null() || !found.is_aligned() {
        return INVALID;
    }
    // SAFETY: as the user's.
    unsafe {
        start_fetching(region, done, |region, end| operation::change(region, offset, change, found, end))
    }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_multicast(
    regions: *const Handle,
    count: c_int,
    offset: u64,
    from: *const c_void,
    bytes: usize,
    done: *mut Done,
) -> c_int {
    let is_there = regions.is_aligned() && !regions.is_null() && (bytes == 0 || !from.is_null());
    let (true, Ok(count @ 1..)) = (is_there, usize::try_from(count)) else { return INVALID };
    // SAFETY: as the user's.
    unsafe {
        let Some(end) = End::of(done) else { return INVALID };
        multicast::write(std::slice::from_raw_parts(regions, count), offset, from, bytes, end)
    }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_take(
    queue: *const Handle,
    into: *mut c_void,
    bytes: *mut usize,
    from: *mut c_int,
    is_awaited: c_int,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        let (Some(queue), false, false) = (handle(queue), bytes.is_null(), from.is_null()) else {
            return INVALID;
        };
        match operation::take(queue, into, *bytes, is_awaited != 0) {
            Ok((length, sender)) => {
                (*bytes, *from) = (length, sender as c_int);
                OK
            }
            Err((status, length)) => {
                *bytes = length;
                status
            }
        }
    }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_stamps_stop(into: *mut stamps::Stamp, room: usize) -> i64 {
    if room > 0 && (into.is_null() || !into.is_aligned()) {
        return INVALID.into();
    }
    match stamps::stop() {
        Ok((stamps, lost)) => {
            let count = stamps.len().min(room);
            if count > 0 {
                // SAFETY: the user has room for so many; ours are in memory of our own.
                unsafe { core::ptr::copy_nonoverlapping(stamps.as_ptr(), into, count) };
            }
            (stamps.len() + lost) as i64
        }
        Err(status) => status.into(),
    }
}

/// Gives a result, or says in `errno` what the origin has said.
fn of_origin<T: From<c_int>>(result: Result<T, origin::Failed>) -> T {
    result.unwrap_or_else(|(status, errno)| {
        // SAFETY: the place is this thread's own.
        unsafe { *libc::__errno_location() = errno };
        T::from(status)
    })
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_origin_read(file: c_int, data: *mut u8, bytes: usize, offset: i64) -> i64 {
    if data.is_null() && bytes > 0 {
        return INVALID.into();
    }
    // SAFETY: as the user's.
    let data = unsafe { memory_mut(data, bytes) };
    of_origin(origin::read(file, data, offset))
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_origin_write(file: c_int, data: *const u8, bytes: usize, offset: i64) -> i64 {
    if data.is_null() && bytes > 0 {
        return INVALID.into();
    }
    let data = if bytes == 0 { NonNull::<u8>::dangling().as_ptr().cast_const() } else { data };
    // SAFETY: as the user's.
    let data = unsafe { core::slice::from_raw_parts(data, bytes) };
    of_origin(origin::write(file, data, offset))
}

/// # Safety
/// `data` leads to so many bytes, which nobody else uses.
unsafe fn memory_mut<'a>(data: *mut u8, bytes: usize) -> &'a mut [u8] {
    let data = if bytes == 0 { NonNull::dangling().as_ptr() } else { data };
    // SAFETY: our contract; no bytes have no place.
    unsafe { core::slice::from_raw_parts_mut(data, bytes) }
}

/// See `tutti.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_origin_stat(name: *const c_char, status: *mut origin::Status) -> c_int {
    if name.is_null() || status.is_null() {
        return INVALID;
    }
    // SAFETY: as the user's.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let found = origin::stat(name).map(|found| {
        // SAFETY: as the user's.
        unsafe { status.write(found) };
        OK
    });
    of_origin(found)
}
