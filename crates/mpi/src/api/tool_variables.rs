//! MPI 15.3: start and end of the tool information interface, control variables, performance variables.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::*;
use crate::lifecycle;
use crate::tool::{self, SETTING_CHARS, SETTINGS};
use crate::tool_users::{self, Answer};
use crate::variables::{self, Class};

/// Runs a call of the interface: the code of its answer.
pub(super) fn tool_call(body: impl FnOnce() -> Answer) -> c_int {
    body().err().unwrap_or(MPI_SUCCESS)
}

/// Writes a result, unless the user does not want it.
///
/// # Safety
/// `place` is null or valid for writing.
pub(super) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: our contract.
        unsafe { place.write(value) };
    }
}

/// Writes a text as 15.3.3 has it: as much as there is room for, a zero, and the length with the zero.
///
/// # Safety
/// `length` is null or valid; `text` is null or has as much room as `length` says.
pub(super) unsafe fn put_text(text: *mut c_char, length: *mut c_int, value: &str) {
    if length.is_null() {
        return;
    }
    // SAFETY: our contract.
    unsafe {
        let room = length.read();
        if !text.is_null() && room > 0 {
            let bytes = value.len().min(room as usize - 1);
            std::ptr::copy_nonoverlapping(value.as_ptr().cast(), text, bytes);
            text.add(bytes).write(0);
        }
        length.write(value.len() as c_int + 1);
    }
}

/// The place of a name among others.
pub(super) fn index_of<'a>(name: &CStr, mut names: impl Iterator<Item = &'a str>) -> Answer<c_int> {
    tool_users::check_initialized()?;
    let found = names.position(|other| other.as_bytes() == name.to_bytes());
    found.map(|index| index as c_int).ok_or(MPI_T_ERR_INVALID_NAME)
}

/// Starts the interface: the level of threads.
pub(super) fn start(required: c_int) -> Answer<c_int> {
    tool::initialize();
    Ok(lifecycle::join_tool(required))
}

pub(super) fn count_settings() -> Answer<usize> {
    tool_users::check_initialized().map(|()| SETTINGS.len())
}

/// The number of a control variable.
pub(super) fn setting(name: &CStr) -> Answer<c_int> {
    index_of(name, SETTINGS.iter().map(|setting| setting.0))
}

/// A handle of a control variable, and how many characters it has.
pub(super) fn new_setting_handle(index: c_int) -> Answer<(MPI_T_cvar_handle, usize)> {
    tool::new_setting_handle(index).map(|made| (made, SETTING_CHARS))
}

pub(super) fn free_setting_handle(handle: MPI_T_cvar_handle) -> Answer<MPI_T_cvar_handle> {
    tool::free_setting_handle(handle).map(|()| MPI_T_CVAR_HANDLE_NULL)
}

/// A setting out of the environment is not changed.
pub(super) fn change_setting(handle: MPI_T_cvar_handle) -> Answer {
    tool::setting(handle).and(Err(MPI_T_ERR_CVAR_SET_NEVER))
}

pub(super) fn count_counters() -> Answer<usize> {
    tool_users::check_initialized().map(|()| variables::COUNT)
}

/// The number of a performance variable.
pub(super) fn counter(name: &CStr, class: c_int) -> Answer<c_int> {
    tool_users::check_initialized()?;
    let is_it =
        |one: &variables::Variable| one.class.code() == class && one.name.as_bytes() == name.to_bytes();
    let found = variables::all().position(|one| is_it(&one));
    found.map(|index| index as c_int).ok_or(MPI_T_ERR_INVALID_NAME)
}

pub(super) fn close_session(session: MPI_T_pvar_session) -> Answer<MPI_T_pvar_session> {
    tool::close_session(session).map(|()| MPI_T_PVAR_SESSION_NULL)
}

/// A handle of a performance variable, and how many values it has.
pub(super) fn new_handle(session: MPI_T_pvar_session, index: c_int) -> Answer<(MPI_T_pvar_handle, usize)> {
    tool::new_handle(session, index).map(|made| (made, 1))
}

pub(super) fn free_handle(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
) -> Answer<MPI_T_pvar_handle> {
    tool::free_handle(session, handle).map(|()| MPI_T_PVAR_HANDLE_NULL)
}

/// The code of an answer, after its value was written.
///
/// # Safety
/// `place` is null or valid for writing.
pub(super) unsafe fn give<T>(answer: Answer<T>, place: *mut T) -> c_int {
    match answer {
        Ok(value) => {
            // SAFETY: our contract.
            unsafe { put(place, value) };
            MPI_SUCCESS
        }
        Err(code) => code,
    }
}

/// Describes a control variable (15.3.6).
#[inline]
pub unsafe fn MPI_T_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    let (setting, meaning) = match tool_users::checked_index(cvar_index, SETTINGS.len()) {
        Ok(index) => SETTINGS[index],
        Err(code) => return code,
    };
    // SAFETY: the user gives places, or null pointers for what is of no interest.
    unsafe {
        put_text(name, name_len, setting);
        put(verbosity, MPI_T_VERBOSITY_USER_BASIC);
        put(datatype, MPI_CHAR);
        put(enumtype, MPI_T_ENUM_NULL);
        put_text(desc, desc_len, meaning);
        put(bind, MPI_T_BIND_NO_OBJECT);
        put(scope, MPI_T_SCOPE_READONLY);
    }
    MPI_SUCCESS
}

/// The value of a control variable: what the environment has, or an empty text (15.3.6).
#[inline]
pub unsafe fn MPI_T_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
    let setting = match tool::setting(handle) {
        Ok(index) => SETTINGS[index].0,
        Err(code) => return code,
    };
    let value = std::env::var_os(setting).unwrap_or_default();
    let mut room = SETTING_CHARS as c_int;
    // SAFETY: the user's buffer has as many characters as the handle's count says.
    unsafe { put_text(buf.cast(), &mut room, &value.to_string_lossy()) };
    MPI_SUCCESS
}

/// Describes a performance variable (15.3.7).
#[inline]
pub unsafe fn MPI_T_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    let variable = match tool_users::checked_index(pvar_index, variables::COUNT) {
        Ok(index) => variables::of(index),
        Err(code) => return code,
    };
    let is_level = c_int::from(variable.class == Class::Level);
    // SAFETY: the user gives places, or null pointers for what is of no interest.
    unsafe {
        put_text(name, name_len, variable.name);
        put(verbosity, MPI_T_VERBOSITY_USER_BASIC);
        put(var_class, variable.class.code());
        put(datatype, MPI_UNSIGNED_LONG_LONG);
        put(enumtype, MPI_T_ENUM_NULL);
        put_text(desc, desc_len, variable.meaning);
        put(bind, MPI_T_BIND_NO_OBJECT);
        put(readonly, is_level);
        put(continuous, is_level);
        put(atomic, c_int::from(variable.class == Class::Counter));
    }
    MPI_SUCCESS
}

/// The value (15.3.7).
#[inline]
pub unsafe fn MPI_T_pvar_read(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    // SAFETY: the user's buffer holds an unsigned long long.
    unsafe { give(tool::read(session, handle), buf.cast::<u64>()) }
}

/// The value, then begins again with 0 (15.3.7).
#[inline]
pub unsafe fn MPI_T_pvar_readreset(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    // SAFETY: the user's buffer holds an unsigned long long.
    unsafe { give(tool::read_and_reset(session, handle), buf.cast::<u64>()) }
}

/// Gives the variable a value (15.3.7).
#[inline]
pub unsafe fn MPI_T_pvar_write(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *const c_void,
) -> c_int {
    // SAFETY: the user's buffer holds an unsigned long long.
    tool_call(|| tool::write(session, handle, unsafe { buf.cast::<u64>().read_unaligned() }))
}
