//! Whether the program is being checked ([`crate::check`]): one word, for every place that does something
//! else then.

use std::sync::atomic::{AtomicU8, Ordering};

/// How a program is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Not at all.
    Off = 0,
    /// Errors end the job.
    On = 1,
    /// Everything is only said.
    Warn = 2,
}

/// The mode of this process.
static MODE: AtomicU8 = AtomicU8::new(Mode::Off as u8);

/// Whether the program is being checked.
#[inline(always)]
pub fn is_on() -> bool {
    MODE.load(Ordering::Relaxed) != Mode::Off as u8
}

/// The mode of this process.
pub fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        0 => Mode::Off,
        1 => Mode::On,
        _ => Mode::Warn,
    }
}

/// From now on the program is checked so.
pub fn set(mode: Mode) {
    MODE.store(mode as u8, Ordering::Relaxed);
}
