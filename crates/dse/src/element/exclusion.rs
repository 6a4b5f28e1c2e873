//! Locks and semaphores, both first come, first served. What was written under a lock is done when another
//! element has it.

use core::ffi::{c_int, c_long};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_shmem::lock as queue;
use tutti_shmem::memory;

use crate::element::{Elements, LOCKS, SEMAPHORE_WORDS, SEMAPHORES, running};
use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;

/// The locks that this element has, a bit each.
static HELD: Mutex<u64> = Mutex::new(0);

fn held() -> MutexGuard<'static, u64> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The elements have ended.
pub(crate) fn forget() {
    *held() = 0;
}

fn index(function: &'static str, what: &str, number: c_int, count: usize) -> Result<usize, Code> {
    usize::try_from(number).ok().filter(|number| *number < count).ok_or_else(|| {
        let last = count - 1;
        refuse(Code::Invalid, function, format_args!("there is no {what} {number}, they are 0 to {last}"))
    })
}

fn address(word: usize) -> *mut c_long {
    std::ptr::with_exposed_provenance_mut(word)
}

/// Waits for a lock.
pub fn lock(number: c_int) -> Result<(), Code> {
    let elements = running("lock")?;
    if let Some(answer) = link::ask(Question::Lock(number)) {
        return answer.map(drop);
    }
    let number = index("lock", "lock", number, LOCKS)?;
    if *held() & (1 << number) != 0 {
        return Err(refuse(Code::Held, "lock", format_args!("this element has lock {number} already")));
    }
    queue::set(address(elements.lock(number)));
    *held() |= 1 << number;
    Ok(())
}

/// Hands a lock to the element that waits longest.
pub fn unlock(number: c_int) -> Result<(), Code> {
    let elements = running("unlock")?;
    if let Some(answer) = link::ask(Question::Unlock(number)) {
        return answer.map(drop);
    }
    let number = index("unlock", "lock", number, LOCKS)?;
    if *held() & (1 << number) == 0 {
        return Err(refuse(
            Code::NotHeld,
            "unlock",
            format_args!("this element does not have lock {number}"),
        ));
    }
    *held() &= !(1 << number);
    queue::clear(address(elements.lock(number)));
    Ok(())
}

/// A semaphore, whose words lie at one element.
struct Semaphore {
    elements: Elements,
    function: &'static str,
    number: usize,
}

const COUNT: usize = 1;
const HEAD: usize = 2;
const TAIL: usize = 3;
const WOKEN: usize = 4;

impl Semaphore {
    fn new(function: &'static str, number: c_int) -> Result<Semaphore, Code> {
        let elements = running(function)?;
        Ok(Semaphore { elements, function, number: index(function, "semaphore", number, SEMAPHORES)? })
    }

    /// Works on its words alone; the action is given each as a function from its number.
    fn alone<R>(&self, action: impl FnOnce(&dyn Fn(usize) -> crate::word::Word) -> R) -> R {
        let place = self.number % self.elements.count;
        queue::set(address(self.elements.semaphore_lock(self.number)));
        let result = action(&|which| self.elements.semaphore(self.function, place, self.number, which));
        queue::clear(address(self.elements.semaphore_lock(self.number)));
        result
    }

    fn woken(&self, element: usize) -> crate::word::Word {
        self.elements.semaphore(self.function, element, self.number, WOKEN)
    }
}

/// Gives a semaphore for which nobody waits a value.
pub fn semaphore_set(number: c_int, value: u32) -> Result<(), Code> {
    running("semaphore_set")?;
    if let Some(answer) = link::ask(Question::SemaphoreSet(number, value)) {
        return answer.map(drop);
    }
    let semaphore = Semaphore::new("semaphore_set", number)?;
    semaphore.alone(|word| {
        if word(HEAD).load() != word(TAIL).load() {
            let what = format_args!("elements wait for semaphore {number}");
            return Err(refuse(Code::Busy, "semaphore_set", what));
        }
        word(COUNT).set(u64::from(value));
        Ok(())
    })
}

/// Takes one from a semaphore, and waits while it is zero.
pub fn semaphore_wait(number: c_int) -> Result<(), Code> {
    running("semaphore_wait")?;
    if let Some(answer) = link::ask(Question::SemaphoreWait(number)) {
        return answer.map(drop);
    }
    let semaphore = Semaphore::new("semaphore_wait", number)?;
    let Elements { me, count, .. } = semaphore.elements;
    let is_taken = semaphore.alone(|word| {
        let value = word(COUNT).load();
        if value > 0 {
            word(COUNT).set(value - 1);
            return true;
        }
        // An element waits once at a time, so the queue has room for all.
        let tail = word(TAIL).load();
        word(SEMAPHORE_WORDS + tail as usize % count).set(me as u64);
        word(TAIL).set(tail + 1);
        false
    });
    if !is_taken {
        memory::wait_until(|| semaphore.woken(me).load() != 0);
        semaphore.woken(me).set(0);
    }
    Ok(())
}

/// Adds one to a semaphore, or lets the element go on that waits longest.
pub fn semaphore_post(number: c_int) -> Result<(), Code> {
    running("semaphore_post")?;
    if let Some(answer) = link::ask(Question::SemaphorePost(number)) {
        return answer.map(drop);
    }
    let semaphore = Semaphore::new("semaphore_post", number)?;
    memory::quiet("semaphore_post");
    let count = semaphore.elements.count;
    let next = semaphore.alone(|word| {
        let head = word(HEAD).load();
        if head == word(TAIL).load() {
            word(COUNT).add(1);
            return None;
        }
        word(HEAD).set(head + 1);
        Some(word(SEMAPHORE_WORDS + head as usize % count).load() as usize)
    });
    if let Some(element) = next {
        semaphore.woken(element).add(1);
    }
    Ok(())
}
