//! Topologies that route: what is for an element that is no neighbour goes from neighbour to neighbour.
//!
//! Each element has a slot for each other one, for what that one has sent and what comes back to it. A thread
//! of each element forwards what lies there, also while the program computes.
//!
//! ```text
//! origin --put, state = 1--> slot of the origin at the next element   (repeated along the way)
//!                            the last element before the target reads or writes the target's memory
//! origin <------------------ its own slot at each element on the way back, at last its own
//! ```
//!
//! An element waits for the answer before it sends again. So there is one message of an origin in the system,
//! its slots are free when it comes, and no two messages ever wait for each other. A write that is forwarded
//! is done when it returns.

use core::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};

use tutti_shmem::{api, fault, memory, start};

use crate::element::topology::{self, Way};
use crate::element::{self, Elements, running};
use crate::fault::{Code, refuse};
use crate::link;
use crate::message::Question;
use crate::word::Word;

/// Data of a message.
const DATA: usize = 8192;
/// Words of its head; the first is the state of the slot.
const HEAD: usize = 8;
const HEAD_BYTES: usize = HEAD * size_of::<u64>();
const SLOT: usize = HEAD_BYTES + DATA;

/// Address of the slots; 0 while there are none.
static SLOTS: AtomicUsize = AtomicUsize::new(0);
/// Hops that the last message of this element has gone.
static HOPS: AtomicU32 = AtomicU32::new(0);
/// Held by the thread whose message is under way.
static CALL: Mutex<()> = Mutex::new(());
/// Ends with the thread that forwards.
static FORWARDER: Mutex<Option<Receiver<()>>> = Mutex::new(None);

/// Action at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    Read = 1,
    Write = 2,
    /// Writes behind the words of the element.
    WriteWords = 3,
    Set = 4,
    Load = 5,
}

/// A message as its slot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    kind: Kind,
    is_answer: bool,
    target: usize,
    /// Place in the memory of the target.
    at: usize,
    /// Bytes that are read or written.
    bytes: usize,
    value: u64,
    /// Elements that it has come to.
    hops: u64,
}

impl Message {
    fn new(kind: Kind, target: usize, at: usize, bytes: usize) -> Message {
        Message { kind, is_answer: false, target, at, bytes, value: 0, hops: 0 }
    }

    fn encode(self) -> [u64; HEAD - 1] {
        [
            self.kind as u64,
            u64::from(self.is_answer),
            self.target as u64,
            self.at as u64,
            self.bytes as u64,
            self.value,
            self.hops,
        ]
    }

    /// The message of these words, if it is one among so many elements.
    fn decode(words: [u64; HEAD - 1], count: usize) -> Option<Message> {
        let [kind, is_answer, target, at, bytes, value, hops] = words;
        let kinds = [Kind::Read, Kind::Write, Kind::WriteWords, Kind::Set, Kind::Load];
        let message = Message {
            kind: kinds.into_iter().find(|known| *known as u64 == kind)?,
            is_answer: is_answer == 1,
            target: target as usize,
            at: at as usize,
            bytes: bytes as usize,
            value,
            hops,
        };
        let is_right = message.target < count && message.bytes <= DATA && is_answer <= 1;
        is_right.then_some(message)
    }

    /// Bytes that travel with it.
    fn carries(&self) -> usize {
        match (self.kind, self.is_answer) {
            (Kind::Read, true) | (Kind::Write | Kind::WriteWords, false) => self.bytes,
            _ => 0,
        }
    }
}

fn slot(origin: usize) -> usize {
    SLOTS.load(Relaxed) + origin * SLOT
}

fn state(function: &'static str, element: usize, origin: usize) -> Word {
    Word { function, address: slot(origin), element }
}

/// Puts a message into the slot of its origin at a neighbour.
fn send(element: usize, origin: usize, message: Message, data: &[u8]) {
    let mut bytes = Vec::with_capacity(SLOT);
    message.encode().iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
    bytes.extend_from_slice(data);
    let to = std::ptr::with_exposed_provenance_mut(slot(origin) + size_of::<u64>());
    // SAFETY: a slot has so many bytes behind its state; the vector has them.
    unsafe { memory::put("topology", to, bytes.as_ptr(), bytes.len(), element as c_int) };
    state("topology", element, origin).set(1);
}

/// Takes a message out of a slot of this element.
fn take(elements: &Elements, origin: usize) -> (Message, Vec<u8>) {
    let own = elements.me as c_int;
    let mut words = [0_u64; HEAD - 1];
    let from = std::ptr::with_exposed_provenance::<u8>(slot(origin) + size_of::<u64>());
    // SAFETY: a slot has so many bytes; the state says that they are all there.
    unsafe { memory::get("topology", words.as_mut_ptr().cast(), from, size_of_val(&words), own) };
    let message = Message::decode(words, elements.count)
        .expect("a message that is forwarded was made by this library, which every element has");
    let mut data = vec![0; message.carries()];
    let from = std::ptr::with_exposed_provenance::<u8>(slot(origin) + HEAD_BYTES);
    // SAFETY: at most the data of a slot.
    unsafe { memory::get("topology", data.as_mut_ptr(), from, data.len(), own) };
    state("topology", elements.me, origin).set(0);
    (message, data)
}

/// Sends a message of this element and waits for the answer: its value, and what it carries. One thread does
/// so at a time.
fn call(elements: &Elements, message: Message, data: &[u8]) -> (u64, Vec<u8>) {
    let _one = CALL.lock().unwrap_or_else(PoisonError::into_inner);
    let next = topology::next_of(elements, message.target);
    send(next, elements.me, Message { hops: 1, ..message }, data);
    let own = state("topology", elements.me, elements.me);
    memory::wait_until(|| own.load() != 0);
    let (answer, data) = take(elements, elements.me);
    HOPS.store(answer.hops as u32, Relaxed);
    (answer.value, data)
}

/// Does at a neighbour what a message asks for; the answer.
fn perform(elements: &Elements, message: Message, data: &[u8]) -> (Message, Vec<u8>) {
    const FUNCTION: &str = "topology";
    let (target, own) = (message.target as c_int, elements.me as c_int);
    debug_assert_ne!(target, own, "a message is done by the one before its target");
    let mut answer = Message { is_answer: true, hops: message.hops + 1, ..message };
    let mut read = vec![0; answer.carries()];
    match message.kind {
        Kind::Read => {
            let from = elements.global(FUNCTION, message.at, message.bytes).expect("checked by the origin");
            // SAFETY: the vector has so many bytes, and the place was checked.
            unsafe { memory::get(FUNCTION, read.as_mut_ptr(), from, read.len(), target) };
        }
        Kind::Write | Kind::WriteWords => {
            let to = if message.kind == Kind::Write {
                elements.global(FUNCTION, message.at, data.len()).expect("checked by the origin")
            } else {
                elements.words_at(message.at)
            };
            // SAFETY: the data are so long; OpenSHMEM checks that the place is inside the symmetric memory.
            unsafe { memory::put(FUNCTION, to, data.as_ptr(), data.len(), target) };
            memory::quiet(FUNCTION);
        }
        Kind::Set => elements.word_at(FUNCTION, message.target, message.at).set(message.value),
        Kind::Load => answer.value = elements.word_at(FUNCTION, message.target, message.at).load(),
    }
    (answer, read)
}

/// Forwards what comes until the word says that it ends.
fn forward(elements: &Elements) {
    let ends = elements.forwarding_ends("topology");
    let others = || (0..elements.count).filter(|origin| *origin != elements.me);
    let mut last = 0;
    loop {
        // Whoever comes behind the one that was served last is served next.
        let find = || {
            let is_full = |origin: &usize| state("topology", elements.me, *origin).load() != 0;
            let behind = others().filter(|origin| *origin > last).find(is_full);
            behind.or_else(|| others().find(is_full))
        };
        memory::wait_until(|| ends.load() != 0 || find().is_some());
        let Some(origin) = find() else {
            return;
        };
        last = origin;
        let (message, data) = take(elements, origin);
        let next = |to| topology::next_of(elements, to);
        let (message, data) = match message.is_answer {
            false if next(message.target) != message.target => {
                send(next(message.target), origin, Message { hops: message.hops + 1, ..message }, &data);
                continue;
            }
            false => perform(elements, message, &data),
            true => (message, data),
        };
        send(next(origin), origin, message, &data);
    }
}

/// Chooses a topology. Called by all elements with the same.
pub fn choose(kind: c_int, columns: c_int) -> Result<(), Code> {
    let elements = running("topology")?;
    let choice = topology::choice(kind, columns, &elements)?;
    if let Some(answer) = link::ask(Question::Topology { kind, columns }) {
        answer?;
        topology::set(choice);
        return Ok(());
    }
    element::barrier()?;
    // Nobody sends any more.
    stop(&elements);
    element::barrier()?;
    topology::set(choice);
    if choice.routes {
        begin(elements)?;
    }
    element::barrier()
}

/// Makes the slots, once, and the thread.
fn begin(elements: Elements) -> Result<(), Code> {
    if SLOTS.load(Relaxed) == 0 {
        // SAFETY: all elements ask for the same.
        let slots = unsafe { api::calloc(elements.count, SLOT) };
        if slots.is_null() {
            let bytes = elements.count * SLOT;
            let what = format_args!(
                "{bytes} bytes for what is forwarded do not fit; SHMEM_SYMMETRIC_SIZE sets the limit"
            );
            topology::forget();
            return Err(refuse(Code::NoMemory, "topology", what));
        }
        SLOTS.store(slots.expose_provenance(), Relaxed);
    }
    elements.forwarding_ends("topology").set(0);
    let (end, ended) = mpsc::channel();
    let body = move || {
        forward(&elements);
        drop(end);
    };
    if let Err(error) = start::spawn("tutti-dse-relay", body) {
        // The others have theirs: a refusal here alone would leave them waiting.
        fault::end("topology", format_args!("no thread that forwards can be started: {error}"));
    }
    *FORWARDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    Ok(())
}

/// Ends the thread, if there is one.
fn stop(elements: &Elements) {
    let forwarder = FORWARDER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(ended) = forwarder {
        elements.forwarding_ends("topology").set(1);
        // It gives nothing, and ends.
        let _ = ended.recv();
    }
}

/// The elements end. Called behind a barrier.
pub(crate) fn forget(elements: &Elements) {
    stop(elements);
    HOPS.store(0, Relaxed);
    let slots = SLOTS.swap(0, Relaxed);
    if slots != 0 && !elements.owns_shmem {
        // SAFETY: the block is ours; all elements give it back here.
        unsafe { api::free(std::ptr::with_exposed_provenance_mut(slots)) };
    }
}

/// Hops that the last operation of this element that was forwarded has gone; 0 if none was.
pub fn hops() -> Result<u32, Code> {
    running("hops")?;
    match link::ask(Question::Hops) {
        Some(answer) => answer.map(|[hops, ..]| hops as u32),
        None => Ok(HOPS.load(Relaxed)),
    }
}

/// Reads global memory of an element that is no neighbour.
pub(crate) fn read(elements: &Elements, there: usize, at: usize, to: &mut [u8]) {
    for (number, piece) in to.chunks_mut(DATA).enumerate() {
        let message = Message::new(Kind::Read, there, at + number * DATA, piece.len());
        piece.copy_from_slice(&call(elements, message, &[]).1);
    }
}

/// Writes global memory of an element that is no neighbour; it is done when this returns.
pub(crate) fn write(elements: &Elements, there: usize, at: usize, from: &[u8]) {
    for (number, piece) in from.chunks(DATA).enumerate() {
        call(elements, Message::new(Kind::Write, there, at + number * DATA, piece.len()), piece);
    }
}

/// Writes behind the words of an element.
pub(crate) fn write_words(elements: &Elements, way: Way, there: usize, at: usize, from: &[u8]) {
    if way == Way::Forwarded {
        call(elements, Message::new(Kind::WriteWords, there, at, from.len()), from);
        return;
    }
    // SAFETY: the bytes are so many; OpenSHMEM checks that the place is inside the symmetric memory.
    unsafe { memory::put("start", elements.words_at(at), from.as_ptr(), from.len(), there as c_int) };
}

/// Sets a word of an element.
pub(crate) fn set(elements: &Elements, way: Way, word: Word, value: u64) {
    if way == Way::Direct {
        return word.set(value);
    }
    let at = word.address - elements.words_at(0).addr();
    call(elements, Message { value, ..Message::new(Kind::Set, word.element, at, 0) }, &[]);
}

/// Loads a word of an element.
pub(crate) fn load(elements: &Elements, way: Way, word: Word) -> u64 {
    if way == Way::Direct {
        return word.load();
    }
    let at = word.address - elements.words_at(0).addr();
    call(elements, Message::new(Kind::Load, word.element, at, 0), &[]).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_messages_come_back_as_they_were() {
        for kind in [Kind::Read, Kind::Write, Kind::WriteWords, Kind::Set, Kind::Load] {
            for is_answer in [false, true] {
                let message =
                    Message { is_answer, value: 1 << 63, hops: 3, ..Message::new(kind, 5, 1 << 40, DATA) };
                assert_eq!(Message::decode(message.encode(), 6), Some(message));
                assert_eq!(Message::decode(message.encode(), 5), None);
            }
        }
    }

    #[test]
    fn relay_takes_no_message_that_is_none() {
        let right = Message::new(Kind::Write, 1, 0, DATA).encode();
        assert!(Message::decode(right, 2).is_some());
        for (word, value) in [(0, 0), (0, 6), (1, 2), (2, u64::MAX), (4, DATA as u64 + 1)] {
            let mut wrong = right;
            wrong[word] = value;
            assert_eq!(Message::decode(wrong, 2), None);
        }
    }
}
