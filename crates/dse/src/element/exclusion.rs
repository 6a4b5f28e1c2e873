//! Locks and semaphores, both first come, first served. What was written under a lock is done when another
//! element has it.
//!
//! The queues of both know elements, not threads. So a thread, of the program or of a function beside it,
//! first claims the number in its process and then stands in the queue for its element:
//!
//! ```text
//! lock:           claim -> queue -> has it .. unlock -> out of the queue -> claim ends
//! semaphore_wait: claim -> queue -> woken -> claim ends
//! ```

use core::ffi::{c_int, c_long};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use tutti_shmem::lock as queue;
use tutti_shmem::memory;

use crate::element::{Elements, LOCKS, SEMAPHORE_WORDS, SEMAPHORES, running};
use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;

/// Claims of threads of this process.
#[derive(Debug)]
struct Claims {
    locks: [Claim; LOCKS],
    waits: [Claim; SEMAPHORES],
}

/// Claim of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Free,
    /// Claim of a thread that waits in the queue, or leaves it.
    Queues(ThreadId),
    /// Claim of the thread that has got the lock, which another one may give back.
    Has(ThreadId),
}

/// Never held while the library is called: the tests of waits take it under the process lock.
static CLAIMS: Mutex<Claims> =
    Mutex::new(Claims { locks: [Claim::Free; LOCKS], waits: [Claim::Free; SEMAPHORES] });

fn claims() -> MutexGuard<'static, Claims> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The elements have ended.
pub(crate) fn forget() {
    *claims() = Claims { locks: [Claim::Free; LOCKS], waits: [Claim::Free; SEMAPHORES] };
}

/// Waits until no other thread of this process claims a number, and claims it.
fn claim(mut of: impl FnMut(&mut Claims) -> &mut Claim) {
    let own = Claim::Queues(thread::current().id());
    let mut try_claim = || {
        let mut claims = claims();
        let claim = of(&mut claims);
        let is_free = *claim == Claim::Free;
        if is_free {
            *claim = own;
        }
        is_free
    };
    if !try_claim() {
        memory::wait_until(try_claim);
    }
}

/// Ends a claim; threads of this process that wait for it look again.
fn release(elements: &Elements, of: impl FnOnce(&mut Claims) -> &mut Claim) {
    *of(&mut claims()) = Claim::Free;
    memory::notify(elements.me as c_int);
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
    let own = thread::current().id();
    let found = claims().locks[number];
    if found == Claim::Has(own) {
        return Err(refuse(Code::Held, "lock", format_args!("this thread has lock {number} already")));
    }
    claim(|claims| &mut claims.locks[number]);
    queue::set(address(elements.lock(number)));
    claims().locks[number] = Claim::Has(own);
    Ok(())
}

/// Hands a lock to the element that waits longest.
pub fn unlock(number: c_int) -> Result<(), Code> {
    let elements = running("unlock")?;
    if let Some(answer) = link::ask(Question::Unlock(number)) {
        return answer.map(drop);
    }
    let number = index("unlock", "lock", number, LOCKS)?;
    let found = {
        let claim = &mut claims().locks[number];
        let found = *claim;
        if let Claim::Has(by) = found {
            *claim = Claim::Queues(by);
        }
        found
    };
    if !matches!(found, Claim::Has(_)) {
        return Err(refuse(
            Code::NotHeld,
            "unlock",
            format_args!("this element does not have lock {number}"),
        ));
    }
    queue::clear(address(elements.lock(number)));
    release(&elements, |claims| &mut claims.locks[number]);
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
    let index = semaphore.number;
    claim(|claims| &mut claims.waits[index]);
    let is_taken = semaphore.alone(|word| {
        let value = word(COUNT).load();
        if value > 0 {
            word(COUNT).set(value - 1);
            return true;
        }
        // By its claim an element waits once at a time, so the queue has room for all.
        let tail = word(TAIL).load();
        word(SEMAPHORE_WORDS + tail as usize % count).set(me as u64);
        word(TAIL).set(tail + 1);
        false
    });
    if !is_taken {
        memory::wait_until(|| semaphore.woken(me).load() != 0);
        semaphore.woken(me).set(0);
    }
    release(&semaphore.elements, |claims| &mut claims.waits[index]);
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
