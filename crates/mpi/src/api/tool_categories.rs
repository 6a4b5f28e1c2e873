//! MPI 15.3.9: categories of variables and events.

use core::ffi::{CStr, c_char, c_int};

use super::tool_variables::{index_of, put, put_text};
use crate::abi::*;
use crate::events::EVENTS;
use crate::tool::{CATEGORIES, OF_SETTINGS, SETTINGS};
use crate::tool_users::{self, Answer};
use crate::variables;

/// How many control variables a category has.
fn settings_of(category: usize) -> c_int {
    if category as c_int == OF_SETTINGS { SETTINGS.len() as c_int } else { 0 }
}

/// The performance variables of a category.
fn variables_of(category: usize) -> impl Iterator<Item = c_int> {
    let numbered = (0..).zip(variables::all());
    numbered.filter(move |(_, one)| one.category == CATEGORIES[category].0).map(|(number, _)| number)
}

/// How many categories there are.
pub(super) fn count() -> Answer<usize> {
    tool_users::check_initialized().map(|()| CATEGORIES.len())
}

/// The number of a category.
pub(super) fn index(name: &CStr) -> Answer<c_int> {
    index_of(name, CATEGORIES.iter().map(|category| category.0))
}

/// The events of a category.
fn events_of(category: usize) -> impl Iterator<Item = c_int> {
    let is_member = move |event: usize| EVENTS[event].category == CATEGORIES[category].0;
    (0..EVENTS.len()).filter(move |&event| is_member(event)).map(|event| event as c_int)
}

/// How many events a category has.
pub(super) fn count_events(category: c_int) -> Answer<usize> {
    tool_users::checked_index(category, CATEGORIES.len()).map(|index| events_of(index).count())
}

/// How many there are of what there is none.
pub(super) fn no_count() -> Answer<usize> {
    tool_users::check_initialized().map(|()| 0)
}

/// The members of a category, as many as there is room for.
///
/// # Safety
/// `indices` has room for `length` numbers.
unsafe fn put_indices<I: Iterator<Item = c_int>>(
    category: c_int,
    members: impl FnOnce(usize) -> I,
    length: c_int,
    indices: *mut c_int,
) -> c_int {
    let category = match tool_users::checked_index(category, CATEGORIES.len()) {
        Ok(index) => index,
        Err(code) => return code,
    };
    for (place, member) in members(category).take(usize::try_from(length).unwrap_or(0)).enumerate() {
        // SAFETY: our contract.
        unsafe { indices.add(place).write(member) };
    }
    MPI_SUCCESS
}

/// Describes a category.
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
    let index = match tool_users::checked_index(cat_index, CATEGORIES.len()) {
        Ok(index) => index,
        Err(code) => return code,
    };
    let (category, meaning) = CATEGORIES[index];
    // SAFETY: the user gives places, or null pointers for what is of no interest.
    unsafe {
        put_text(name, name_len, category);
        put_text(desc, desc_len, meaning);
        put(num_cvars, settings_of(index));
        put(num_pvars, variables_of(index).count() as c_int);
        put(num_categories, 0);
    }
    MPI_SUCCESS
}

/// The control variables of a category.
#[inline]
pub unsafe fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the user's array is so long.
    unsafe { put_indices(cat_index, |category| 0..settings_of(category), len, indices) }
}

/// The performance variables of a category.
#[inline]
pub unsafe fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the user's array is so long.
    unsafe { put_indices(cat_index, variables_of, len, indices) }
}

/// The categories of a category: none.
#[inline]
pub unsafe fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the user's array is so long.
    unsafe { put_indices(cat_index, |_| std::iter::empty(), len, indices) }
}

/// The events of a category.
#[inline]
pub unsafe fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    // SAFETY: the user's array is so long.
    unsafe { put_indices(cat_index, events_of, len, indices) }
}
