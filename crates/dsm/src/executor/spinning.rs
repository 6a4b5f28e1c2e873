//! Search for loops of the program that wait for an ordinary variable, in a job that is checked.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tutti_runtime::background;
use tutti_runtime::rank;

use super::{State, mistakes, state};
use crate::core::member::{Frames, Goal, Touch};
use crate::core::unit::UNIT_BYTES;
use crate::core::violation::Violation;
use crate::spin::Spins;
use crate::{failure, sites};

/// Time between two looks for loops that wait.
const LOOK: Duration = Duration::from_millis(100);

/// Whether such loops are looked for at all.
static IS_LOOKING: AtomicBool = AtomicBool::new(false);

impl State {
    /// A byte of the arena as it is here.
    fn byte(&self, offset: usize) -> u8 {
        let mut byte = [0];
        self.arena.load((offset / UNIT_BYTES) as u32, offset % UNIT_BYTES, &mut byte);
        byte[0]
    }
}

/// Notes an access for those who look for loops that wait. What the byte is, when the loop that loads it has
/// to be judged.
pub(super) fn note_access(offset: usize, touch: Touch, address: usize) -> Option<u8> {
    if !IS_LOOKING.load(Relaxed) {
        return None;
    }
    let _rank = rank::enter()?;
    // SAFETY: the lock is ours.
    let state = unsafe { state() }?;
    let spins = state.spins.as_mut()?;
    if let Touch::Store(_) = touch {
        spins.note_store();
        return None;
    }
    spins.note_load((address, offset)).then(|| state.byte(offset))
}

/// Whether a byte has changed for which a loop waits.
pub(super) fn judge(offset: usize, before: u8, address: usize) {
    let Some(_rank) = rank::enter() else { return };
    // SAFETY: the lock is ours.
    let Some(state) = (unsafe { state() }) else { return };
    if state.byte(offset) != before {
        let (node, site) = (state.member.me(), sites::offset_of(address));
        mistakes::take(&Violation::Spin { node, offset: offset as u64, site });
    }
    state.spins.iter_mut().for_each(Spins::acquit);
}

/// Looks for a loop that waits, now and then.
///
/// # Errors
/// When there can be no more threads.
pub(super) fn begin() -> std::io::Result<()> {
    IS_LOOKING.store(true, Relaxed);
    background::spawn("tutti-spins", || {
        while look_once() {
            std::thread::sleep(LOOK);
        }
    })
}

/// Whether it goes on.
fn look_once() -> bool {
    let Some(_rank) = rank::enter() else { return false };
    // SAFETY: the lock is ours.
    let Some(state) = (unsafe { state() }) else { return false };
    let is_calling = state.member.goal() != Goal::Nothing;
    let Some(spins) = state.spins.as_mut() else { return false };
    if is_calling {
        spins.note_call();
    }
    if spins.look()
        && let Err(error) = state.arena.close()
    {
        failure::end(format_args!("shared memory cannot be protected: {error}"));
    }
    true
}
