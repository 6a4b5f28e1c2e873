//! The gate of a window: single elements are changed by the processor's atomics, long accumulations by plain
//! vector loops, and each is atomic against the other.
//!
//! ```text
//! enter  in[slot] = stripe + 1 (xchg)        close  closed: 0 -> slot + 1 (CAS)
//!        closed == 0 ? inside                       wait until no in[] is this stripe
//!        else in[slot] = 0, wait, again             alone
//! leave  in[slot] = 0                        open   closed = 0; wake who sleeps
//! ```
//!
//! A change of a few elements tries to close: that is cheaper than an atomic for each of them. It enters
//! where others are at the stripe already.
//!
//! Either who enters sees `closed`, or who closes sees `in`: both are sequentially consistent. Memory is cut
//! into units of [`UNIT_BYTES`], and units into [`STRIPES`] stripes, so that a long accumulation delays
//! atomics on its own stripe only. A section lies in one unit. An element across two units needs both
//! stripes, closed in the order of their numbers.
//!
//! | line | holds | written by |
//! |---|---|---|
//! | one a stripe | `closed`, how many wait, how many sleep | who closes, by CAS; who waits, by atomic additions |
//! | one for 512 slots | which slots ever entered | each slot once, by an atomic or |
//! | one a slot | `in` | that slot alone |
//!
//! A slot belongs to one thread of one rank: one for its program, one for its service thread. A closer looks
//! at slots that ever entered only; the others are no cost.

use std::ptr::NonNull;

use crate::LINE_BYTES;
use crate::doorbell::futex;
use crate::sync::{AtomicU32, AtomicU64, Ordering, then_look};

/// Bytes of memory that share one stripe, and of a section at most.
pub const UNIT_BYTES: usize = 64 << 10;
/// Stripes of a gate.
pub const STRIPES: usize = 16;

/// Looks at a closed stripe before the thread sleeps; loom needs few.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };
/// Slots whose bits lie in one word.
const SLOTS_OF_WORD: u32 = u64::BITS;
/// Slots whose bits lie in one line.
const SLOTS_OF_LINE: usize = LINE_BYTES * 8;

#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Stripe {
    /// 0, or the slot that has closed it, plus 1.
    closed: AtomicU32,
    /// Threads that want to enter and may not.
    waiting: AtomicU32,
    /// Sleepers among these threads and the closers.
    sleeping: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Entered([AtomicU64; LINE_BYTES / 8]);

#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Inside(AtomicU32);

/// One thread's view of a gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    stripes: NonNull<Stripe>,
    entered: NonNull<Entered>,
    inside: NonNull<Inside>,
    slots: u32,
    slot: u32,
}

// SAFETY: the pointers lead to atomics in memory that outlives the value (the constructor's contract).
unsafe impl Send for Gate {}

/// Bytes that the words of a gate with so many slots take.
pub const fn bytes(slots: u32) -> usize {
    let entered = (slots as usize).div_ceil(SLOTS_OF_LINE);
    STRIPES * size_of::<Stripe>() + entered * size_of::<Entered>() + slots as usize * size_of::<Inside>()
}

/// The stripe of a byte of the memory.
pub const fn stripe_of(offset: u64) -> u32 {
    ((offset / UNIT_BYTES as u64) % STRIPES as u64) as u32
}

impl Gate {
    /// The view of `slot` of a gate whose words begin at `at`.
    ///
    /// # Safety
    /// At `at` there are [`bytes`]`(slots)` bytes, zeroed before the first use, aligned to a line and valid
    /// for the life of the value. Each slot is used by one thread at a time.
    ///
    /// # Panics
    /// When there is no such slot.
    pub unsafe fn new(at: NonNull<u8>, slots: u32, slot: u32) -> Self {
        assert!(slot < slots, "slot {slot} of {slots}");
        let stripes = at.cast::<Stripe>();
        // SAFETY: the lines follow one another inside the bytes that the caller vouches for.
        unsafe {
            let entered = stripes.add(STRIPES).cast::<Entered>();
            let inside = entered.add((slots as usize).div_ceil(SLOTS_OF_LINE)).cast::<Inside>();
            Gate { stripes, entered, inside, slots, slot }
        }
    }

    /// Enters a stripe for an operation on one element; waits while it is closed. The thread leaves by
    /// [`Gate::leave`].
    #[inline]
    pub fn enter(&self, stripe: u32) {
        let own = self.own();
        if own.load(Ordering::Relaxed) == NEVER {
            self.enter_first();
        }
        own.swap(stripe + ENTERED, Ordering::SeqCst);
        then_look();
        if self.stripe(stripe).closed.load(Ordering::SeqCst) != 0 {
            self.enter_slowly(stripe);
        }
    }

    /// Leaves the stripe that was entered.
    #[inline]
    pub fn leave(&self) {
        self.own().store(OUTSIDE, Ordering::Release);
    }

    /// Closes a stripe and waits until the thread is alone in it. It opens it by [`Gate::open`], after 64 KiB
    /// of work at most.
    ///
    /// # Panics
    /// When the thread has closed it already.
    pub fn close(&self, stripe: u32) {
        let word = self.stripe(stripe);
        // Who was turned away by the last section goes first, for a while.
        for _ in 0..SPINS {
            if word.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            wait_a_moment();
        }
        let mut looks = 0;
        while let Err(closed) = self.claim(stripe) {
            self.pause(word, closed, &mut looks);
        }
        self.await_alone(stripe);
    }

    /// Closes a stripe, unless another thread has closed it or waits to enter it: then false.
    ///
    /// # Panics
    /// As [`Gate::close`].
    #[inline]
    pub fn try_close(&self, stripe: u32) -> bool {
        let is_free = self.stripe(stripe).waiting.load(Ordering::Relaxed) == 0 && self.claim(stripe).is_ok();
        if is_free {
            self.await_alone(stripe);
        }
        is_free
    }

    /// Opens a stripe that this thread has closed.
    #[inline]
    pub fn open(&self, stripe: u32) {
        let word = self.stripe(stripe);
        word.closed.swap(0, Ordering::SeqCst);
        then_look();
        if word.sleeping.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&word.closed);
        }
    }

    /// Marks a stripe as closed by this thread; else `closed` as it is.
    #[inline]
    fn claim(&self, stripe: u32) -> Result<(), u32> {
        let closed = &self.stripe(stripe).closed;
        let claimed = closed.compare_exchange(0, self.slot + 1, Ordering::SeqCst, Ordering::Relaxed);
        then_look();
        claimed.map(drop).inspect_err(|closed| {
            assert!(*closed != self.slot + 1, "slot {} closes stripe {stripe} twice", self.slot);
        })
    }

    /// Waits until nobody is inside a stripe that this thread has closed.
    #[inline(always)]
    fn await_alone(&self, stripe: u32) {
        self.await_slots(stripe, 0);
        if self.slots > SLOTS_OF_WORD {
            self.await_more_slots(stripe);
        }
    }

    #[inline(never)]
    fn await_more_slots(&self, stripe: u32) {
        (SLOTS_OF_WORD..self.slots).step_by(SLOTS_OF_WORD as usize).for_each(|slot| {
            self.await_slots(stripe, slot);
        });
    }

    /// Waits until none of the slots is inside whose bits lie in the same word of the map as that of `first`.
    #[inline(always)]
    fn await_slots(&self, stripe: u32, first: u32) {
        let mut bits = self.entered_word(first).load(Ordering::SeqCst);
        while bits != 0 {
            let slot = first + bits.trailing_zeros();
            bits &= bits - 1;
            if self.inside(slot).load(Ordering::SeqCst) == stripe + ENTERED {
                self.await_slot(stripe, slot);
            }
        }
    }

    #[cold]
    fn await_slot(&self, stripe: u32, slot: u32) {
        let mut looks = 0;
        while self.inside(slot).load(Ordering::SeqCst) == stripe + ENTERED {
            looks += 1;
            // It is a matter of nanoseconds, unless that thread has lost its core.
            if looks <= SPINS { wait_a_moment() } else { give_way() }
        }
    }

    /// The word of the map that has the bit of a slot.
    #[inline(always)]
    fn entered_word(&self, slot: u32) -> &AtomicU64 {
        let (line, bit) = (slot as usize / SLOTS_OF_LINE, slot as usize % SLOTS_OF_LINE);
        // SAFETY: the line lies inside the gate (the constructor's contract).
        unsafe { &self.entered.add(line).as_ref().0[bit / SLOTS_OF_WORD as usize] }
    }

    #[cold]
    fn enter_first(&self) {
        self.entered_word(self.slot).fetch_or(1 << (self.slot % SLOTS_OF_WORD), Ordering::SeqCst);
    }

    #[cold]
    fn enter_slowly(&self, stripe: u32) {
        let (own, word) = (self.own(), self.stripe(stripe));
        word.waiting.fetch_add(1, Ordering::Relaxed);
        let mut looks = 0;
        loop {
            own.store(OUTSIDE, Ordering::SeqCst);
            loop {
                let closed = word.closed.load(Ordering::SeqCst);
                if closed == 0 {
                    break;
                }
                self.pause(word, closed, &mut looks);
            }
            own.swap(stripe + ENTERED, Ordering::SeqCst);
            then_look();
            if word.closed.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
        word.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits for a change of `closed`: first by looking, then asleep.
    fn pause(&self, word: &Stripe, closed: u32, looks: &mut u32) {
        *looks += 1;
        if *looks <= SPINS {
            return wait_a_moment();
        }
        word.sleeping.fetch_add(1, Ordering::SeqCst);
        then_look();
        if word.closed.load(Ordering::SeqCst) == closed {
            futex::wait(&word.closed, closed, None);
        }
        word.sleeping.fetch_sub(1, Ordering::SeqCst);
    }

    #[inline]
    fn stripe(&self, stripe: u32) -> &Stripe {
        assert!((stripe as usize) < STRIPES, "stripe {stripe}");
        // SAFETY: inside the gate (the constructor's contract).
        unsafe { self.stripes.add(stripe as usize).as_ref() }
    }

    #[inline]
    fn own(&self) -> &AtomicU32 {
        self.inside(self.slot)
    }

    #[inline]
    fn inside(&self, slot: u32) -> &AtomicU32 {
        // SAFETY: a slot below their number lies inside the gate (the constructor's contract).
        unsafe { &self.inside.add(slot as usize).as_ref().0 }
    }
}

/// `in` of a slot that has never entered: closers do not look at it.
const NEVER: u32 = 0;
/// `in` of a slot that has entered and left.
const OUTSIDE: u32 = 1;
/// `in` is the stripe plus this.
const ENTERED: u32 = 2;

#[cfg(not(loom))]
fn wait_a_moment() {
    std::hint::spin_loop();
}

#[cfg(not(loom))]
fn give_way() {
    std::thread::yield_now();
}

#[cfg(loom)]
fn wait_a_moment() {
    loom::thread::yield_now();
}

#[cfg(loom)]
fn give_way() {
    loom::thread::yield_now();
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
