//! MPI 15.3.8: events and their source; MPI 15.3.5: enumerations, which name the elements of events.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::tool_variables::{index_of, put, put_text, tool_call};
use crate::abi::*;
use crate::events::{self, Description, EVENTS, Kind, SOURCE};
use crate::info::{self, Info};
use crate::tool_users::{self, Answer};

/// Ticks of the source: nanoseconds.
const TICKS_PER_SECOND: MPI_Count = 1_000_000_000;

pub(super) fn count() -> Answer<usize> {
    tool_users::check_initialized().map(|()| EVENTS.len())
}

pub(super) fn count_sources() -> Answer<usize> {
    tool_users::check_initialized().map(|()| 1)
}

/// The number of an event.
pub(super) fn index(name: &CStr) -> Answer<c_int> {
    index_of(name, EVENTS.iter().map(|event| event.name))
}

/// The time of a source.
pub(super) fn time_of_source(source: c_int) -> Answer<MPI_Count> {
    tool_users::checked_index(source, 1).map(|_| events::now())
}

/// When an event was raised.
pub(super) fn time_of(instance: MPI_T_event_instance) -> Answer<MPI_Count> {
    events::shown(instance).map(|raised| raised.stamp)
}

/// All events come from the one source.
pub(super) fn source_of(instance: MPI_T_event_instance) -> Answer<c_int> {
    events::shown(instance).map(|_| 0)
}

fn hints(info: MPI_Info) -> Answer<Info> {
    info::hints(info).map_err(|error| error.class)
}

pub(super) fn new_event_handle(event: c_int, info: MPI_Info) -> Answer<MPI_T_event_registration> {
    tool_users::checked_index(event, EVENTS.len())?;
    events::new_handle(event, hints(info)?)
}

pub(super) fn free_event_handle(
    handle: MPI_T_event_registration,
    data: *mut c_void,
    function: MPI_T_event_free_cb_function,
) -> Answer {
    events::free_handle(handle, data, function)
}

/// Hints are kept and given back, and change nothing.
pub(super) fn set_handle_info(handle: MPI_T_event_registration, info: MPI_Info) -> Answer {
    events::with_info(handle, |_| ())?;
    let given = hints(info)?;
    events::with_info(handle, |kept| *kept = given)
}

pub(super) fn handle_info(handle: MPI_T_event_registration) -> Answer<MPI_Info> {
    events::with_info(handle, |kept| kept.clone()).map(info::keep)
}

pub(super) fn register(
    handle: MPI_T_event_registration,
    safety: MPI_T_cb_safety,
    info: MPI_Info,
    data: *mut c_void,
    function: MPI_T_event_cb_function,
) -> Answer {
    events::with_info(handle, |_| ())?;
    events::register(handle, safety, hints(info)?, data, function)
}

pub(super) fn set_callback_info(
    handle: MPI_T_event_registration,
    safety: MPI_T_cb_safety,
    info: MPI_Info,
) -> Answer {
    events::with_callback_info(handle, safety, |_| ())?;
    let given = hints(info)?;
    events::with_callback_info(handle, safety, |kept| *kept = given)
}

pub(super) fn callback_info(handle: MPI_T_event_registration, safety: MPI_T_cb_safety) -> Answer<MPI_Info> {
    events::with_callback_info(handle, safety, |kept| kept.clone()).map(info::keep)
}

fn datatype(kind: Kind) -> MPI_Datatype {
    match kind {
        Kind::Int => MPI_INT,
        Kind::Long => MPI_UNSIGNED_LONG_LONG,
    }
}

/// Describes an event (15.3.8). Its enumeration has the names of its elements.
#[inline]
pub unsafe fn MPI_T_event_get_info(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut MPI_Aint,
    num_elements: *mut c_int,
    enumtype: *mut MPI_T_enum,
    info: *mut MPI_Info,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> c_int {
    let index = match tool_users::checked_index(event_index, EVENTS.len()) {
        Ok(index) => index,
        Err(code) => return code,
    };
    let event = &EVENTS[index];
    // SAFETY: the user gives places, or null pointers for what is of no interest; the arrays are as long as
    // `num_elements` says.
    unsafe {
        put_text(name, name_len, event.name);
        put(verbosity, MPI_T_VERBOSITY_USER_BASIC);
        if !num_elements.is_null() {
            let room = usize::try_from(num_elements.read()).unwrap_or(0);
            for (i, (displacement, kind)) in event.layout().enumerate().take(room) {
                if !array_of_datatypes.is_null() {
                    array_of_datatypes.add(i).write(datatype(kind));
                }
                if !array_of_displacements.is_null() {
                    array_of_displacements.add(i).write(displacement as MPI_Aint);
                }
            }
            num_elements.write(event.elements.len() as c_int);
        }
        put(enumtype, MPI_T_enum(index + 1));
        if !info.is_null() {
            info.write(crate::info::keep(Info::default()));
        }
        put_text(desc, desc_len, event.meaning);
        put(bind, MPI_T_BIND_NO_OBJECT);
    }
    MPI_SUCCESS
}

/// Describes a source of events (15.3.8).
#[inline]
pub unsafe fn MPI_T_source_get_info(
    source_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    ordering: *mut MPI_T_source_order,
    ticks_per_second: *mut MPI_Count,
    max_ticks: *mut MPI_Count,
    info: *mut MPI_Info,
) -> c_int {
    if let Err(code) = tool_users::checked_index(source_index, 1) {
        return code;
    }
    // SAFETY: the user gives places, or null pointers for what is of no interest.
    unsafe {
        put_text(name, name_len, SOURCE.0);
        put_text(desc, desc_len, SOURCE.1);
        // A callback that may call MPI gets its events later than one that is called at once.
        put(ordering, MPI_T_SOURCE_UNORDERED);
        put(ticks_per_second, TICKS_PER_SECOND);
        put(max_ticks, MPI_Count::MAX);
        if !info.is_null() {
            info.write(crate::info::keep(Info::default()));
        }
    }
    MPI_SUCCESS
}

/// One element of an event, inside its callback (15.3.8).
#[inline]
pub unsafe fn MPI_T_event_read(
    event_instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: *mut c_void,
) -> c_int {
    tool_call(|| {
        let raised = events::shown(event_instance)?;
        let elements = EVENTS[raised.event].elements;
        let index = tool_users::checked_index(element_index, elements.len())?;
        // SAFETY: the user's buffer holds a value of the element's type.
        unsafe { elements[index].1.write(raised.values[index], buffer.cast()) };
        Ok(())
    })
}

/// All elements of an event, at their displacements, inside its callback (15.3.8).
#[inline]
pub unsafe fn MPI_T_event_copy(event_instance: MPI_T_event_instance, buffer: *mut c_void) -> c_int {
    tool_call(|| {
        let raised = events::shown(event_instance)?;
        for ((displacement, kind), value) in EVENTS[raised.event].layout().zip(raised.values) {
            // SAFETY: the user's buffer reaches to the end of the last element.
            unsafe { kind.write(value, buffer.cast::<u8>().add(displacement)) };
        }
        Ok(())
    })
}

/// The event whose elements an enumeration names.
fn enumeration(enumtype: MPI_T_enum) -> Answer<&'static Description> {
    tool_users::check_initialized()?;
    enumtype.0.checked_sub(1).and_then(|index| EVENTS.get(index)).ok_or(MPI_T_ERR_INVALID)
}

/// Describes an enumeration (15.3.5): one for each event, with an item for each element.
#[inline]
pub unsafe fn MPI_T_enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    tool_call(|| {
        let event = enumeration(enumtype)?;
        // SAFETY: the user gives places, or null pointers for what is of no interest.
        unsafe {
            put(num, event.elements.len() as c_int);
            put_text(name, name_len, event.name);
        }
        Ok(())
    })
}

/// An item of an enumeration (15.3.5): the number of an element and its name.
#[inline]
pub unsafe fn MPI_T_enum_get_item(
    enumtype: MPI_T_enum,
    indx: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    tool_call(|| {
        let elements = enumeration(enumtype)?.elements;
        let item = usize::try_from(indx).ok().and_then(|index| elements.get(index));
        let item = item.ok_or(MPI_T_ERR_INVALID_ITEM)?;
        // SAFETY: the user gives places, or null pointers for what is of no interest.
        unsafe {
            put(value, indx);
            put_text(name, name_len, item.0);
        }
        Ok(())
    })
}
