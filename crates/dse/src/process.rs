//! Processes: functions and programs that run on other elements, which serve.
//!
//! An element has one process at a time on each other element. What it starts there is a function, written
//! last, and an argument in words that only it sets and only the other clears; of a program the words are
//! written before. The end comes back into its own words: a state, written last, and a value.
//!
//! A function runs in the DSE process. A program is a child of the kernel, and no element: it does not find
//! the place in the job, its standard input is empty, and its output is the element's.

use core::ffi::c_int;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_shmem::memory;

pub use crate::element::WORDS_MAX;
use crate::element::topology::{self, Way};
use crate::element::{Elements, relay, running};
use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;

/// A function that can be started.
pub type Function = unsafe extern "C-unwind" fn(i64) -> i64;

static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(Vec::new());

const DISMISSED: u64 = u64::MAX;
const PROGRAM: u64 = u64::MAX - 1;
/// A process of this element there.
const RUNS: u64 = 1;
const ENDED: u64 = 2;
/// The element there has no function of the number.
const UNKNOWN: u64 = 3;
/// The program cannot be started; the value is the kernel's number of the error.
const NOT_STARTED: u64 = 4;

/// Variables by which a rank finds its place in the job, or a program of another library believes to have
/// one.
const OF_RANKS: [&str; 16] = [
    "TUTTI_TICKET",
    "TUTTI_RANK",
    "TUTTI_SIZE",
    "TUTTI_LOCAL_RANK",
    "TUTTI_LOCAL_SIZE",
    "TUTTI_APPNUM",
    "TUTTI_SPAWNED",
    "TUTTI_VIRTUAL_NODE",
    "TUTTI_PHASES",
    "TUTTI_BOARD",
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_SPAWNED",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
];

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
    let [order, argument_word] = elements.started(function, there, elements.me);
    if state.load() != 0 || relay::load(&elements, way, order) != 0 {
        let what = format_args!("what this element started on element {element} has not been waited for");
        return Err(refuse(Code::Busy, function, what));
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

/// Starts a registered function on an element that serves, or will.
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

/// Starts a program on an element that serves, or will: its words, the first of which names it.
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
        _ => Ok(value),
    }
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
        let function = functions().get(next.function as usize).copied();
        // SAFETY: the program has registered it for such calls.
        let value = function.map(|function| unsafe { function(next.argument) });
        note_end(next.starter, value)?;
    }
    Ok(())
}

/// A function to run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Who has started it.
    pub(crate) starter: usize,
    /// Its number.
    pub(crate) function: u64,
    /// What it gets.
    pub(crate) argument: i64,
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
    let order_of = |starter| elements.started("serve", elements.me, starter)[0];
    let find =
        |is_wanted: fn(u64) -> bool| (0..elements.count).find(|starter| is_wanted(order_of(*starter).load()));
    loop {
        memory::wait_until(|| find(|order| order != 0).is_some());
        let Some(starter) = find(|order| order != 0 && order != DISMISSED) else {
            let Some(starter) = find(|order| order == DISMISSED) else { continue };
            order_of(starter).set(0);
            return Ok(None);
        };
        let [order, argument] = elements.started("serve", elements.me, starter);
        let (number, argument) = (order.load(), argument.load() as i64);
        if number != PROGRAM {
            order.set(0);
            return Ok(Some(Next { starter, function: number - 1, argument }));
        }
        let mut words = vec![0; usize::try_from(argument).unwrap_or(0).min(WORDS_MAX)];
        let from = elements.words_at(elements.program_words(starter));
        // SAFETY: the starter has so many bytes there, and changes none before the order is taken.
        unsafe { memory::get("serve", words.as_mut_ptr(), from, words.len(), elements.me as c_int) };
        order.set(0);
        match run(&words) {
            Ok(status) => end(&elements, starter, ENDED, i64::from(status)),
            Err(error) => {
                end(&elements, starter, NOT_STARTED, i64::from(error.raw_os_error().unwrap_or(libc::EINVAL)));
            }
        }
    }
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
    end(&elements, starter, if is_known { ENDED } else { UNKNOWN }, known);
    Ok(())
}

fn end(elements: &Elements, starter: usize, how: u64, value: i64) {
    // What the process wrote is done when its end is seen.
    memory::quiet("serve");
    let [state, value_word] = elements.ended("serve", starter, elements.me);
    // The topology connects the two, or routes: otherwise the starter would have been refused.
    let way = topology::check("serve", elements, starter).unwrap_or(Way::Direct);
    relay::set(elements, way, value_word, value as u64);
    relay::set(elements, way, state, how);
}

/// Runs a program to its end; its exit status as a shell gives it.
fn run(words: &[u8]) -> io::Result<i32> {
    let mut words = words.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words.collect::<Vec<_>>().split_last().map_or(&[][..], |(_, words)| words));
    OF_RANKS.iter().for_each(|name| {
        command.env_remove(name);
    });
    let status = command.stdin(Stdio::null()).status()?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}
