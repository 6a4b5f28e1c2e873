//! Processes: functions that run on other elements, which serve.
//!
//! An element has one process at a time on each other element. What it starts there is a function, written
//! last, and an argument in words that only it sets and only the other clears. The end comes back into its
//! own words: a state, written last, and a value.

use core::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_shmem::memory;

use crate::element::topology;
use crate::element::{Elements, running};
use crate::fault::{Code, refuse};

/// A function that can be started.
pub type Function = unsafe extern "C-unwind" fn(i64) -> i64;

static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(Vec::new());

const DISMISSED: u64 = u64::MAX;
/// A process of this element there.
const RUNS: u64 = 1;
const ENDED: u64 = 2;
/// The element there has no function of the number.
const UNKNOWN: u64 = 3;

fn functions() -> MutexGuard<'static, Vec<Function>> {
    FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives a function its number, from 0 on. All elements give the same ones in the same order.
pub fn register(function: Function) -> c_int {
    let mut functions = functions();
    functions.push(function);
    (functions.len() - 1) as c_int
}

fn other(function: &'static str, element: c_int) -> Result<(Elements, usize), Code> {
    let elements = running(function)?;
    let there = elements.index(function, element)?;
    if there == elements.me {
        return Err(refuse(Code::NoElement, function, format_args!("element {element} is this one")));
    }
    topology::check(function, &elements, there)?;
    Ok((elements, there))
}

/// Hands an order to an element that has none of this one.
fn order(function: &'static str, element: c_int, word: u64, argument: i64) -> Result<(), Code> {
    let (elements, there) = other(function, element)?;
    let [state, _] = elements.ended(function, elements.me, there);
    let [order, argument_word] = elements.started(function, there, elements.me);
    if state.load() != 0 || order.load() != 0 {
        let what = format_args!("what this element started on element {element} has not been waited for");
        return Err(refuse(Code::Busy, function, what));
    }
    // What was written before is seen by the process.
    memory::quiet(function);
    argument_word.set(argument as u64);
    if word != DISMISSED {
        state.set(RUNS);
    }
    order.set(word);
    Ok(())
}

/// Starts a registered function on an element that serves, or will.
pub fn start(element: c_int, number: c_int, argument: i64) -> Result<(), Code> {
    let count = functions().len();
    match u64::try_from(number) {
        Ok(number) if (number as usize) < count => order("start", element, number + 1, argument),
        _ => {
            let what = format_args!("there is no function {number}, {count} are registered");
            Err(refuse(Code::Invalid, "start", what))
        }
    }
}

/// Waits for the end of what this element has started there; its value.
pub fn wait(element: c_int) -> Result<i64, Code> {
    let (elements, there) = other("wait", element)?;
    let [state, value] = elements.ended("wait", elements.me, there);
    if state.load() == 0 {
        let what = format_args!("this element has started nothing on element {element}");
        return Err(refuse(Code::NothingStarted, "wait", what));
    }
    memory::wait_until(|| state.load() != RUNS);
    let (how, value) = (state.load(), value.load() as i64);
    state.set(0);
    if how == UNKNOWN {
        let what = format_args!("element {element} has registered fewer functions than this one");
        return Err(refuse(Code::Invalid, "wait", what));
    }
    Ok(value)
}

/// Lets an element end its serving.
pub fn dismiss(element: c_int) -> Result<(), Code> {
    order("dismiss", element, DISMISSED, 0)
}

/// Runs what others start here, until one dismisses this element; what has been started by then runs first.
pub fn serve() -> Result<(), Code> {
    let elements = running("serve")?;
    let order_of = |starter| elements.started("serve", elements.me, starter)[0];
    let next =
        |is_wanted: fn(u64) -> bool| (0..elements.count).find(|starter| is_wanted(order_of(*starter).load()));
    loop {
        memory::wait_until(|| next(|order| order != 0).is_some());
        let Some(starter) = next(|order| order != 0 && order != DISMISSED) else {
            let Some(starter) = next(|order| order == DISMISSED) else { continue };
            order_of(starter).set(0);
            return Ok(());
        };
        let [order, argument] = elements.started("serve", elements.me, starter);
        let (number, argument) = (order.load() - 1, argument.load() as i64);
        order.set(0);
        let function = functions().get(number as usize).copied();
        // SAFETY: the program has registered it for such calls.
        let value = function.map(|function| unsafe { function(argument) });
        // What the process wrote is done when its end is seen.
        memory::quiet("serve");
        let [state, value_word] = elements.ended("serve", starter, elements.me);
        value_word.set(value.unwrap_or(0) as u64);
        state.set(if value.is_some() { ENDED } else { UNKNOWN });
    }
}
