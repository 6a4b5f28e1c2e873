//! MPI 15.3.8 and 15.3.9: categories of variables; of events, sources and enumerations there are none.

use core::ffi::{CStr, c_char, c_int};

use super::tool_variables::{give, index_of, put, put_text};
use crate::abi::*;
use crate::stats::COUNTERS;
use crate::tool::{self, Answer, CATEGORIES, OF_COUNTERS, OF_SETTINGS, SETTINGS};

/// How many control and performance variables a category has.
fn members(category: usize) -> (c_int, c_int) {
    match category as c_int {
        OF_SETTINGS => (SETTINGS.len() as c_int, 0),
        OF_COUNTERS => (0, COUNTERS.len() as c_int),
        _ => (0, 0),
    }
}

/// How many categories there are.
pub(super) fn count() -> Answer<usize> {
    tool::check_initialized().map(|()| CATEGORIES.len())
}

/// The number of a category.
pub(super) fn index(name: &CStr) -> Answer<c_int> {
    index_of(name, CATEGORIES.iter().map(|category| category.0))
}

/// How many a category has of what no category has.
pub(super) fn no_members(category: c_int) -> Answer<usize> {
    tool::checked_index(category, CATEGORIES.len()).map(|_| 0)
}

/// How many there are of what there is none.
pub(super) fn no_count() -> Answer<usize> {
    tool::check_initialized().map(|()| 0)
}

/// The first numbers below `count`, as many as there is room for.
///
/// # Safety
/// `indices` has room for `length` numbers.
unsafe fn put_indices(count: Answer<c_int>, length: c_int, indices: *mut c_int) -> c_int {
    match count {
        Ok(count) => {
            for index in 0..count.min(length) {
                // SAFETY: our contract; `index` is not negative.
                unsafe { indices.add(index as usize).write(index) };
            }
            MPI_SUCCESS
        }
        Err(code) => code,
    }
}

/// What a category is.
#[inline]
pub unsafe fn MPI_T_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> c_int {
    let index = match tool::checked_index(cat_index, CATEGORIES.len()) {
        Ok(index) => index,
        Err(code) => return code,
    };
    let ((category, meaning), (cvars, pvars)) = (CATEGORIES[index], members(index));
    // SAFETY: the user gives places, or null pointers for what is of no interest.
    unsafe {
        put_text(name, name_len, category);
        put_text(desc, desc_len, meaning);
        put(num_cvars, cvars);
        put(num_pvars, pvars);
        put(num_categories, 0);
    }
    MPI_SUCCESS
}

/// The control variables of a category.
#[inline]
pub unsafe fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    let count = tool::checked_index(cat_index, CATEGORIES.len()).map(|index| members(index).0);
    // SAFETY: the user's array is so long.
    unsafe { put_indices(count, len, indices) }
}

/// The performance variables of a category.
#[inline]
pub unsafe fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    let count = tool::checked_index(cat_index, CATEGORIES.len()).map(|index| members(index).1);
    // SAFETY: the user's array is so long.
    unsafe { put_indices(count, len, indices) }
}

/// The categories of a category: none.
#[inline]
pub unsafe fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    let count = tool::checked_index(cat_index, CATEGORIES.len()).map(|_| 0);
    // SAFETY: the user's array is so long.
    unsafe { put_indices(count, len, indices) }
}

/// The events of a category: none.
#[inline]
pub unsafe fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    let count = tool::checked_index(cat_index, CATEGORIES.len()).map(|_| 0);
    // SAFETY: the user's array is so long.
    unsafe { put_indices(count, len, indices) }
}

/// No event has a name.
#[inline]
pub unsafe fn MPI_T_event_get_index(_name: *const c_char, event_index: *mut c_int) -> c_int {
    // SAFETY: the user gives a place, to which nothing is written.
    unsafe { give(tool::check_initialized().and(Err(MPI_T_ERR_INVALID_NAME)), event_index) }
}

/// No variable has an enumeration.
#[inline]
pub unsafe fn MPI_T_enum_get_info(
    _enumtype: MPI_T_enum,
    num: *mut c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
) -> c_int {
    // SAFETY: the user gives a place, to which nothing is written.
    unsafe { give(tool::check_initialized().and(Err(MPI_T_ERR_INVALID)), num) }
}
