//! Reads and writes of global memory: by the kernel of this element if it is another process, straight to an
//! element that the topology connects, or forwarded.

use core::ffi::{c_int, c_void};

use tutti_runtime::stamps::{self, Mark};
use tutti_shmem::memory;

use crate::element::topology::{self, Way};
use crate::element::{Elements, relay, running};
use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;

/// Where an access goes.
struct Place {
    elements: Elements,
    there: usize,
    way: Way,
    address: *mut u8,
}

fn place(
    function: &'static str,
    element: c_int,
    at: usize,
    own: *const c_void,
    bytes: usize,
) -> Result<Place, Code> {
    let elements = running(function)?;
    let there = elements.index(function, element)?;
    let way = topology::check(function, &elements, there)?;
    let address = elements.global(function, at, bytes)?;
    if own.is_null() && bytes > 0 {
        return Err(refuse(Code::Invalid, function, format_args!("the address of {bytes} bytes is null")));
    }
    Ok(Place { elements, there, way, address })
}

/// Works on memory; if stamps are kept and it is of this node, so that there is no message, with one.
fn stamped(function: &str, address: *const u8, bytes: usize, element: c_int, work: impl FnOnce()) {
    let begun_ns = stamps::begin();
    work();
    if let Some(begun_ns) = begun_ns
        && !matches!(memory::place(function, "address", address, bytes, element), memory::Place::Far(_))
    {
        stamps::note(Mark::Mapped, begun_ns, bytes);
    }
}

/// Reads global memory of an element.
///
/// # Safety
/// `to` is valid for writing so many bytes.
pub unsafe fn read(element: c_int, at: usize, to: *mut c_void, bytes: usize) -> Result<(), Code> {
    let place = place("read", element, at, to, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: our contract.
    if let Some(answer) = unsafe { link::read(element, at, to.cast(), bytes) } {
        return answer;
    }
    match place.way {
        // SAFETY: our contract; the place was checked.
        Way::Direct => stamped("read", place.address, bytes, element, || unsafe {
            memory::get("read", to.cast(), place.address, bytes, element);
        }),
        Way::Forwarded => {
            // SAFETY: our contract.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast(), bytes) };
            relay::read(&place.elements, place.there, at, to);
        }
    }
    Ok(())
}

/// Writes global memory of an element. When it returns, `from` may be changed; the bytes are there at the
/// next confirmation.
///
/// # Safety
/// `from` is valid for so many bytes.
pub unsafe fn write(element: c_int, at: usize, from: *const c_void, bytes: usize) -> Result<(), Code> {
    let place = place("write", element, at, from, bytes)?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: our contract.
    if let Some(answer) = unsafe { link::write(element, at, from.cast(), bytes) } {
        return answer;
    }
    match place.way {
        // SAFETY: our contract; the place was checked.
        Way::Direct => stamped("write", place.address, bytes, element, || unsafe {
            memory::put("write", place.address, from.cast(), bytes, element);
        }),
        Way::Forwarded => {
            // SAFETY: our contract.
            let from = unsafe { std::slice::from_raw_parts(from.cast(), bytes) };
            relay::write(&place.elements, place.there, at, from);
        }
    }
    Ok(())
}

/// All writes of this element so far are done.
pub fn confirm() -> Result<(), Code> {
    running("confirm")?;
    if let Some(answer) = link::ask(Question::Confirm) {
        return answer.map(drop);
    }
    memory::quiet("confirm");
    Ok(())
}
