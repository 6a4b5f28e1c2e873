//! Processes: functions and programs that run on other elements, as their starter sees them. How they run
//! there is [`crate::element::serving`].
//!
//! An element has one process at a time on each other element. What it starts there is a function, written
//! last, and an argument in words that only it sets and only the other clears; of a program the words are
//! written before. It asks for the end of it by a count that only it sets. The end comes back into its own
//! words: a state, written last, and a value.

use core::ffi::c_int;
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_shmem::memory;

pub use crate::element::WORDS_MAX;
use crate::element::serving::{self, DISMISSED, NOT_BEGUN, NOT_STARTED, Next, PROGRAM, RUNS, UNKNOWN};
use crate::element::topology::{self, Way};
use crate::element::{Elements, relay, running};
use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;

/// A function that can be started.
pub type Function = unsafe extern "C-unwind" fn(i64) -> i64;

static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(Vec::new());

/// Elements of which this one has asked the end of a process.
static ENDED_AT: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn ended_at() -> MutexGuard<'static, BTreeSet<usize>> {
    ENDED_AT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn functions() -> MutexGuard<'static, Vec<Function>> {
    FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a function its number, from 0 on. All elements give the same ones in the same order.
pub fn register(function: Function) -> c_int {
    let mut functions = functions();
    functions.push(function);
    (functions.len() - 1) as c_int
}

fn other(function: &'static str, element: c_int) -> Result<(Elements, usize, Way), Code> {
    let elements = running(function)?;
    let there = elements.index(function, element)?;
    if there == elements.me {
        return Err(refuse(Code::NoElement, function, format_args!("element {element} is this one")));
    }
    let way = topology::check(function, &elements, there)?;
    Ok((elements, there, way))
}

/// Hands an order to an element that has none of this one, with the words of a program.
fn order(
    function: &'static str,
    element: c_int,
    word: u64,
    argument: i64,
    program: &[u8],
) -> Result<(), Code> {
    let (elements, there, way) = other(function, element)?;
    let [state, _] = elements.ended(function, elements.me, there);
    let [order, argument_word, end] = elements.started(function, there, elements.me);
    if state.load() != 0 || relay::load(&elements, way, order) != 0 {
        let what = format_args!("what this element started on element {element} has not been waited for");
        return Err(refuse(Code::Busy, function, what));
    }
    if ended_at().remove(&there) {
        relay::set(&elements, way, end, 0);
    }
    if !program.is_empty() {
        relay::write_words(&elements, way, there, elements.program_words(elements.me), program);
    }
    // What was written before is seen by the process.
    memory::quiet(function);
    relay::set(&elements, way, argument_word, argument as u64);
    if word != DISMISSED {
        state.set(RUNS);
    }
    relay::set(&elements, way, order, word);
    Ok(())
}

/// Starts a registered function on an element that serves, beside its program or in a call, or will.
pub fn start(element: c_int, number: c_int, argument: i64) -> Result<(), Code> {
    running("start")?;
    let count = functions().len();
    let Some(function) = u32::try_from(number).ok().filter(|number| (*number as usize) < count) else {
        let what = format_args!("there is no function {number}, {count} are registered");
        return Err(refuse(Code::Invalid, "start", what));
    };
    other("start", element)?;
    match link::ask(Question::Start { element, function, argument }) {
        Some(answer) => answer.map(drop),
        None => order_function(element, function, argument),
    }
}

/// The same, where the functions of the process are not known.
pub(crate) fn order_function(element: c_int, function: u32, argument: i64) -> Result<(), Code> {
    order("start", element, u64::from(function) + 1, argument, &[])
}

/// Starts a program on an element that serves, beside its program or in a call, or will: its words, the first
/// of which names it.
pub fn start_program(element: c_int, words: &[&[u8]]) -> Result<(), Code> {
    other("start_program", element)?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.iter().chain(&[0])).copied().collect();
    if words.first().is_none_or(|name| name.is_empty()) || bytes.len() > WORDS_MAX {
        let length = bytes.len();
        let what = format_args!(
            "{} words of {length} bytes with their ends; there is at least the name of a program, and at most {WORDS_MAX} bytes",
            words.len()
        );
        return Err(refuse(Code::Invalid, "start_program", what));
    }
    match link::ask_with(Question::StartProgram { element, bytes: bytes.len() as u64 }, &bytes) {
        Some(answer) => answer.map(drop),
        None => order_program(element, &bytes),
    }
}

/// The same, with a zero byte at the end of each word.
pub(crate) fn order_program(element: c_int, words: &[u8]) -> Result<(), Code> {
    order("start_program", element, PROGRAM, words.len() as i64, words)
}

/// Waits for the end of what this element has started there; the value of a function, or the exit status of a
/// program (128 and its number if a signal ended it).
pub fn wait(element: c_int) -> Result<i64, Code> {
    let (elements, there, _) = other("wait", element)?;
    if let Some(answer) = link::ask(Question::Wait(element)) {
        return answer.map(|[value, ..]| value);
    }
    let [state, value] = elements.ended("wait", elements.me, there);
    if state.load() == 0 {
        let what = format_args!("this element has started nothing on element {element}");
        return Err(refuse(Code::NothingStarted, "wait", what));
    }
    memory::wait_until(|| state.load() != RUNS);
    let (how, value) = (state.load(), value.load() as i64);
    state.set(0);
    match how {
        UNKNOWN => {
            let what = format_args!("element {element} has registered fewer functions than this one");
            Err(refuse(Code::Invalid, "wait", what))
        }
        NOT_STARTED => {
            let error = io::Error::from_raw_os_error(value as i32);
            let what = format_args!("element {element} cannot start the program: {error}");
            Err(refuse(Code::NoProgram, "wait", what))
        }
        NOT_BEGUN => {
            let what = format_args!("what was started on element {element} was ended before it had begun");
            Err(refuse(Code::Ended, "wait", what))
        }
        _ => Ok(value),
    }
}

/// Asks for the end of what this element has started there, which is waited for as ever. A program gets TERM,
/// and KILL when it is asked again; a function sees it by [`is_ended`]; what has not begun never does.
pub fn end(element: c_int) -> Result<(), Code> {
    let (elements, there, way) = other("end", element)?;
    if let Some(answer) = link::ask(Question::End(element)) {
        return answer.map(drop);
    }
    let [state, _] = elements.ended("end", elements.me, there);
    if state.load() == 0 {
        let what = format_args!("this element has started nothing on element {element}");
        return Err(refuse(Code::NothingStarted, "end", what));
    }
    let [.., end] = elements.started("end", there, elements.me);
    let asked = if ended_at().insert(there) { 0 } else { relay::load(&elements, way, end) };
    relay::set(&elements, way, end, asked + 1);
    Ok(())
}

/// Lets an element end its serving.
pub fn dismiss(element: c_int) -> Result<(), Code> {
    other("dismiss", element)?;
    match link::ask(Question::Dismiss(element)) {
        Some(answer) => answer.map(drop),
        None => order("dismiss", element, DISMISSED, 0, &[]),
    }
}

/// Runs what others start here, until one dismisses this element; what has been started by then runs first.
pub fn serve() -> Result<(), Code> {
    running("serve")?;
    while let Some(next) = next()? {
        note_end(next.starter, call(next))?;
    }
    Ok(())
}

/// Calls a function; none: there is none of its number.
fn call(next: Next) -> Option<i64> {
    let function = functions().get(next.function as usize).copied();
    // SAFETY: the program has registered it for such calls.
    function.map(|function| unsafe { function(next.argument) })
}

/// From now on what others start here runs at once, beside the program: in threads, until the elements end.
/// Where the kernel is a process of its own it starts programs; functions wait for [`serve`].
pub fn serve_beside() -> Result<(), Code> {
    running("serve_beside")?;
    match link::ask(Question::ServeBeside) {
        Some(answer) => answer.map(drop),
        None => serving::begin_beside(Some(call)),
    }
}

/// The same in a kernel, which has no functions.
pub(crate) fn serve_programs_beside() -> Result<(), Code> {
    serving::begin_beside(None)
}

/// Waits for the next function that is started here; programs that come first run here. `None`: this element
/// is dismissed.
pub(crate) fn next() -> Result<Option<Next>, Code> {
    let elements = running("serve")?;
    if let Some(answer) = link::ask(Question::Next) {
        return answer.map(|[starter, function, argument]| {
            let starter = usize::try_from(starter).ok()?;
            Some(Next { starter, function: function as u64, argument })
        });
    }
    Ok(serving::next(&elements))
}

/// A function that was started here has returned a value, or there is none of its number.
pub(crate) fn note_end(starter: usize, value: Option<i64>) -> Result<(), Code> {
    let elements = running("serve")?;
    let (known, is_known) = (value.unwrap_or(0), value.is_some());
    let question = Question::Ended { starter: starter as u32, value: known, is_known };
    if let Some(answer) = link::ask(question) {
        return answer.map(drop);
    }
    let starter = elements.index("serve", starter as c_int)?;
    serving::note_function_end(&elements, starter, value);
    Ok(())
}

/// Whether who has started the function that runs here wants it to end.
pub fn is_ended() -> Result<bool, Code> {
    let elements = running("is_ended")?;
    match link::ask(Question::IsEnded) {
        Some(answer) => answer.map(|[is_ended, ..]| is_ended != 0),
        None => Ok(serving::is_function_ended(&elements)),
    }
}
