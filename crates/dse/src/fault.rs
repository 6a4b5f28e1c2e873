//! Faults, which are refused: a code that the call returns, and a text that the program may ask for.

use core::ffi::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::CString;
use std::fmt;

/// Codes of `tutti_dse.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// Called before the start, after the end, or the start a second time.
    NotRunning = 1,
    /// No such element.
    NoElement = 2,
    /// The bytes are not inside the global memory.
    OutOfRange = 3,
    /// The topology does not connect the two elements.
    NotANeighbour = 4,
    /// No such lock, semaphore, function or topology, or a null pointer.
    Invalid = 5,
    /// Lock that this element has already.
    Held = 6,
    /// Lock that this element does not have.
    NotHeld = 7,
    /// Work of this element is under way there.
    Busy = 8,
    /// No work has been started there.
    NothingStarted = 9,
    /// Not enough memory.
    NoMemory = 10,
    /// A program cannot be started.
    NoProgram = 11,
    /// End of what was started, before it had begun.
    Ended = 12,
}

impl Code {
    const ALL: [Code; 12] = [
        Code::NotRunning,
        Code::NoElement,
        Code::OutOfRange,
        Code::NotANeighbour,
        Code::Invalid,
        Code::Held,
        Code::NotHeld,
        Code::Busy,
        Code::NothingStarted,
        Code::NoMemory,
        Code::NoProgram,
        Code::Ended,
    ];

    /// The code of a number.
    pub fn of(number: c_int) -> Option<Code> {
        Code::ALL.into_iter().find(|code| *code as c_int == number)
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Notes a text for [`text`], without the beginning that names the function; the code.
#[cold]
pub fn refuse(code: Code, function: &str, what: fmt::Arguments<'_>) -> Code {
    note(code, format!("tutti_dse_{function}: {what}").into_bytes())
}

/// Notes a whole text; the code.
#[cold]
pub(crate) fn note(code: Code, line: Vec<u8>) -> Code {
    let line = CString::new(line).unwrap_or_default();
    TEXT.with_borrow_mut(|text| *text = line);
    code
}

/// The text of the last refusal in this thread.
pub(crate) fn last_text() -> Vec<u8> {
    TEXT.with_borrow(|text| text.as_bytes().to_vec())
}

/// The text of the last refusal in this thread; empty if there was none. Valid until the next.
pub fn text() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}

/// Status that C gets: 0, or the code.
pub fn status(result: Result<(), Code>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => code as c_int,
    }
}
