//! MPI chapter 10: info objects. All of these may be called before Init and after Finalize.

use core::ffi::{c_char, c_int};

use crate::abi::*;
use crate::argument::{array, get, put, text};
use crate::error::{Error, Result, check};
use crate::info::{self, Info};
use crate::process::entry::call_anytime;

/// A key argument, checked.
unsafe fn checked_key<'a>(key: *const c_char) -> Result<&'a [u8]> {
    check(!key.is_null(), MPI_ERR_INFO_KEY, || "key is a null pointer".into())?;
    // SAFETY: the user gives a text.
    let key = unsafe { text(key, "key") }?;
    info::check_key(key)?;
    Ok(key)
}

/// Makes an empty info object.
pub(super) fn create() -> Result<MPI_Info> {
    Ok(info::keep(Info::default()))
}

pub(super) fn duplicate(info: MPI_Info) -> Result<MPI_Info> {
    let copy = info::read(info, |info| Ok(info.clone()))?;
    Ok(info::keep(copy))
}

pub(super) fn free(info: MPI_Info) -> Result<MPI_Info> {
    info::free(info)?;
    Ok(MPI_INFO_NULL)
}

/// Sets a value.
///
/// # Safety
/// `key` and `value` are null or texts.
pub(super) unsafe fn set(info: MPI_Info, key: *const c_char, value: *const c_char) -> Result<()> {
    // SAFETY: our contract.
    let key = unsafe { checked_key(key) }?;
    check(!value.is_null(), MPI_ERR_INFO_VALUE, || "value is a null pointer".into())?;
    // SAFETY: our contract.
    let value = unsafe { text(value, "value") }?;
    info::check_value(value)?;
    info::change(info, |info| {
        info.set(key, value);
        Ok(())
    })
}

/// Removes a key.
///
/// # Safety
/// `key` is null or a text.
pub(super) unsafe fn delete(info: MPI_Info, key: *const c_char) -> Result<()> {
    // SAFETY: our contract.
    let key = unsafe { checked_key(key) }?;
    let removed = info::change(info, |info| Ok(info.remove(key)))?;
    check(removed, MPI_ERR_INFO_NOKEY, || {
        format!("key is \"{}\", which the info object has not", String::from_utf8_lossy(key))
    })
}

/// The length of a value, and whether there is one.
///
/// # Safety
/// `key` is null or a text.
pub(super) unsafe fn length(info: MPI_Info, key: *const c_char) -> Result<(Option<usize>, bool)> {
    // SAFETY: our contract.
    let key = unsafe { checked_key(key) }?;
    let length = info::read(info, |info| Ok(info.get(key).map(<[u8]>::len)))?;
    Ok((length, length.is_some()))
}

/// How many keys.
pub(super) fn count(info: MPI_Info) -> Result<usize> {
    info::read(info, |info| Ok(info.len()))
}

/// Writes at most `room` bytes of a value, and its final zero behind them.
unsafe fn put_value(value: &[u8], to: *mut c_char, room: usize) -> Result<()> {
    check(!to.is_null(), MPI_ERR_ARG, || "value is a null pointer".into())?;
    let bytes = value.len().min(room);
    // SAFETY: the user gives room for `room` bytes and a final zero.
    unsafe {
        std::ptr::copy_nonoverlapping(value.as_ptr().cast(), to, bytes);
        to.add(bytes).write(0);
    }
    Ok(())
}

/// Makes an info object that tells how the process was started (10.2).
#[inline]
pub unsafe fn MPI_Info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut MPI_Info) -> c_int {
    call_anytime(c"MPI_Info_create_env", || {
        check(!info.is_null(), MPI_ERR_ARG, || "info is a null pointer".into())?;
        let count = if argv.is_null() { 0 } else { argc };
        // SAFETY: the user gives the arguments of main, or nothing.
        let given = unsafe { array(argv.cast_const(), count, "argv") }?.iter().take_while(|a| !a.is_null());
        // SAFETY: each is a text.
        let arguments: Result<Vec<Vec<u8>>> =
            given.map(|&argument| unsafe { text(argument, "argv") }.map(<[u8]>::to_vec)).collect();
        // SAFETY: the user gives a place for the object.
        unsafe { put(info, "info", info::keep(Info::of_start(Some(arguments?)))) }
    })
}

/// A value, as much as fits, and its whole length (10.2).
#[inline]
pub unsafe fn MPI_Info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    call_anytime(c"MPI_Info_get_string", || {
        // SAFETY: the user gives a text and a place with a length.
        let (key, room) = unsafe { (checked_key(key)?, get(buflen, "buflen")?) };
        check(room >= 0, MPI_ERR_ARG, || format!("buflen is {room}, expected 0 or more"))?;
        let found = info::read(info, |info| Ok(info.get(key).map(<[u8]>::to_vec)))?;
        if let Some(found) = &found {
            // SAFETY: the user gives room for buflen bytes.
            unsafe {
                if room > 0 {
                    put_value(found, value, room as usize - 1)?;
                }
                buflen.write(found.len() as c_int + 1);
            }
        }
        // SAFETY: the user gives a place for the flag.
        unsafe { put(flag, "flag", c_int::from(found.is_some())) }
    })
}

/// A value, at most `valuelen` bytes of it (deprecated; 17.1).
#[inline]
pub unsafe fn MPI_Info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    call_anytime(c"MPI_Info_get", || {
        // SAFETY: the user gives a text.
        let key = unsafe { checked_key(key) }?;
        check(valuelen >= 0, MPI_ERR_ARG, || format!("valuelen is {valuelen}, expected 0 or more"))?;
        let found = info::read(info, |info| Ok(info.get(key).map(<[u8]>::to_vec)))?;
        if let Some(found) = &found {
            // SAFETY: the user gives room for valuelen + 1 bytes.
            unsafe { put_value(found, value, valuelen as usize) }?;
        }
        // SAFETY: the user gives a place for the flag.
        unsafe { put(flag, "flag", c_int::from(found.is_some())) }
    })
}

/// Key number `n` (10.2).
#[inline]
pub unsafe fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> c_int {
    call_anytime(c"MPI_Info_get_nthkey", || {
        let found = info::read(info, |info| {
            let found = usize::try_from(n).ok().and_then(|n| info.nth_key(n)).map(<[u8]>::to_vec);
            found.ok_or_else(|| {
                Error::new(MPI_ERR_ARG, format_args!("n is {n}, but the info object has {} keys", info.len()))
            })
        })?;
        check(!key.is_null(), MPI_ERR_INFO_KEY, || "key is a null pointer".into())?;
        // SAFETY: the user gives room for MPI_MAX_INFO_KEY bytes, of which a key has fewer.
        unsafe { put_value(&found, key, MPI_MAX_INFO_KEY as usize - 1) }
    })
}
