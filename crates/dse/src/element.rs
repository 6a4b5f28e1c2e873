//! Start and end of the elements, and where their common words lie.
//!
//! ```text
//! global memory        | bytes that the program asked for, the same at each element           |
//! words of an element  | locks | of each semaphore: lock, count, head, tail, woken, queue     |
//!                      | of each element: function and argument that it starts here, and how  |
//!                      |                  often it has asked for the end of that              |
//!                      | of each element: end and value of the process that was started there |
//!                      | end of forwarding, end of serving beside the program                 |
//!                      | of each element: the words of the program that it starts here        |
//! ```
//!
//! Kernel and process of an element are one process, or two: then all of this lies in the kernel
//! ([`crate::server`]), and the process knows the numbers alone.

pub mod exclusion;
pub mod relay;
pub mod serving;
pub mod topology;

use core::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_shmem::api;
use tutti_shmem::start;
use tutti_shmem::{memory, pes};

use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;
use crate::word::Word;

/// How many locks there are.
pub const LOCKS: usize = 64;
/// How many semaphores there are.
pub const SEMAPHORES: usize = 64;
/// The longest list of words of a program that another element starts, each with a zero byte at its end.
pub const WORDS_MAX: usize = 2048;
/// Words of a semaphore before its queue.
pub(crate) const SEMAPHORE_WORDS: usize = 5;

/// The elements, while they run.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// Number of this element.
    pub me: usize,
    /// How many there are.
    pub count: usize,
    /// Bytes of global memory at each.
    pub bytes: usize,
    global: usize,
    words: usize,
    owns_shmem: bool,
}

static RUNNING: Mutex<Option<Elements>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Elements>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The elements; refused unless they run.
pub fn running(function: &'static str) -> Result<Elements, Code> {
    lock().ok_or_else(|| {
        refuse(Code::NotRunning, function, format_args!("called before tutti_dse_init or after its end"))
    })
}

/// Starts the elements, each with so many bytes of global memory, which is zero. Called by all.
pub fn init(bytes: usize) -> Result<(), Code> {
    if lock().is_some() {
        return Err(refuse(Code::NotRunning, "init", format_args!("called a second time")));
    }
    if !link::is_wanted()? {
        return begin(bytes).map(|_| ());
    }
    let [me, count] = link::start(bytes)?;
    *lock() = Some(Elements { me, count, bytes, global: 0, words: 0, owns_shmem: false });
    Ok(())
}

/// The same, with the kernel in this process.
pub(crate) fn begin(bytes: usize) -> Result<Elements, Code> {
    let owns_shmem = pes::started().is_none();
    if owns_shmem && pes::has_finished() {
        return Err(refuse(Code::NotRunning, "init", format_args!("called after the end")));
    }
    if owns_shmem {
        start::start("init", 0);
    }
    let pes = memory::pes("init");
    let unplaced = Elements { me: pes.me, count: pes.count, bytes, global: 0, words: 0, owns_shmem };
    let words = unplaced.program_words(pes.count);
    // SAFETY: all elements ask for the same; OpenSHMEM checks that they do.
    let blocks = unsafe { [bytes.max(1), words].map(|bytes| api::calloc(1, bytes)) };
    if blocks.iter().any(|block| block.is_null()) {
        let what =
            format_args!("{bytes} bytes of global memory do not fit; SHMEM_SYMMETRIC_SIZE sets the limit");
        return Err(refuse(Code::NoMemory, "init", what));
    }
    let [global, words] = blocks.map(|block| block.expose_provenance());
    let elements = Elements { global, words, ..unplaced };
    *lock() = Some(elements);
    Ok(elements)
}

/// Ends the elements, when all have come here and all writes are done.
pub fn finish() -> Result<(), Code> {
    let elements = running("finish")?;
    if let Some(answer) = link::ask(Question::Finish) {
        answer?;
        link::finish();
        *lock() = None;
        topology::forget();
        return Ok(());
    }
    serving::stop(&elements);
    memory::quiet("finish");
    start::barrier();
    relay::forget(&elements);
    *lock() = None;
    topology::forget();
    exclusion::forget();
    if elements.owns_shmem {
        start::finish();
        return Ok(());
    }
    for block in [elements.words, elements.global] {
        // SAFETY: the block is ours, and no element uses it behind the barrier.
        unsafe { api::free(std::ptr::with_exposed_provenance_mut(block)) };
    }
    Ok(())
}

/// Waits until all elements have come here; all their writes are done then.
pub fn barrier() -> Result<(), Code> {
    running("barrier")?;
    if let Some(answer) = link::ask(Question::Barrier) {
        return answer.map(drop);
    }
    memory::quiet("barrier");
    start::barrier();
    Ok(())
}

impl Elements {
    /// An element's number as an index.
    pub fn index(&self, function: &'static str, element: c_int) -> Result<usize, Code> {
        usize::try_from(element).ok().filter(|element| *element < self.count).ok_or_else(|| {
            let last = self.count - 1;
            refuse(
                Code::NoElement,
                function,
                format_args!("there is no element {element}, elements are 0 to {last}"),
            )
        })
    }

    /// The address in this element's own memory of bytes in global memory.
    pub fn global(&self, function: &'static str, at: usize, bytes: usize) -> Result<*mut u8, Code> {
        if at > self.bytes || bytes > self.bytes - at {
            return Err(refuse(
                Code::OutOfRange,
                function,
                format_args!(
                    "{bytes} bytes from {at} on reach beyond the {} bytes of global memory of an element",
                    self.bytes
                ),
            ));
        }
        Ok(std::ptr::with_exposed_provenance_mut(self.global + at))
    }

    fn word(&self, function: &'static str, element: usize, number: usize) -> Word {
        Word { function, address: self.words + number * size_of::<u64>(), element }
    }

    /// The address of a lock for OpenSHMEM's locks.
    pub(crate) fn lock(&self, number: usize) -> usize {
        self.words + number * size_of::<u64>()
    }

    fn semaphore_first(&self, number: usize) -> usize {
        LOCKS + number * (SEMAPHORE_WORDS + self.count)
    }

    /// The address of a semaphore's lock.
    pub(crate) fn semaphore_lock(&self, number: usize) -> usize {
        self.words + self.semaphore_first(number) * size_of::<u64>()
    }

    /// A word of a semaphore: 1 count, 2 head, 3 tail, 4 woken, from 5 on the queue.
    pub(crate) fn semaphore(
        &self,
        function: &'static str,
        element: usize,
        number: usize,
        which: usize,
    ) -> Word {
        self.word(function, element, self.semaphore_first(number) + which)
    }

    fn processes_first(&self) -> usize {
        self.semaphore_first(SEMAPHORES)
    }

    /// Words of what `starter` starts at an element: function, argument, and how often it has asked for its
    /// end.
    pub(crate) fn started(&self, function: &'static str, element: usize, starter: usize) -> [Word; 3] {
        let first = self.processes_first() + 3 * starter;
        [first, first + 1, first + 2].map(|number| self.word(function, element, number))
    }

    /// How the process that `starter` started at an element has ended, in the memory of the starter: state
    /// and value.
    pub(crate) fn ended(&self, function: &'static str, starter: usize, element: usize) -> [Word; 2] {
        let first = self.processes_first() + 3 * self.count + 2 * element;
        [first, first + 1].map(|number| self.word(function, starter, number))
    }

    /// The word that ends the forwarding of this element.
    pub(crate) fn forwarding_ends(&self, function: &'static str) -> Word {
        self.word(function, self.me, self.processes_first() + 5 * self.count)
    }

    /// The word that ends the serving of this element beside its program.
    pub(crate) fn serving_ends(&self, function: &'static str) -> Word {
        self.word(function, self.me, self.processes_first() + 5 * self.count + 1)
    }

    /// Bytes from the first word to where the words of the program begin that `starter` starts at an element.
    pub(crate) fn program_words(&self, starter: usize) -> usize {
        (self.processes_first() + 5 * self.count + 2) * size_of::<u64>() + starter * WORDS_MAX
    }

    /// The address in this element's own memory of a byte behind the first word.
    pub(crate) fn words_at(&self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.words + offset)
    }

    /// A word by its distance from the first.
    pub(crate) fn word_at(&self, function: &'static str, element: usize, offset: usize) -> Word {
        Word { function, address: self.words + offset, element }
    }
}
