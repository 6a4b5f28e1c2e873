//! The user's terminal: its size, and under `--pty` its keys, which go to rank 0. It is raw as long as the
//! job runs in the foreground. It gets its former modes whenever another program has it: when we stop, go to
//! the background, or exit.

use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tutti_os::stat::Stat;

/// The terminal of a job with `--pty`.
#[derive(Debug)]
pub(super) struct Keys {
    before: Termios,
    raw: bool,
}

impl Keys {
    /// # Errors
    /// When stdin is no terminal; a text for the user.
    pub(super) fn new() -> Result<Self, String> {
        let before = tcgetattr(stdin()).map_err(|error| format!("cannot use the terminal: {error}"))?;
        Ok(Keys { before, raw: false })
    }

    /// From now on every key is a byte.
    pub(super) fn take(&mut self) {
        if !self.raw && in_foreground() {
            let mut raw = self.before.clone();
            raw.make_raw();
            self.raw = tcsetattr(stdin(), OptionalActions::Now, &raw).is_ok();
        }
    }

    /// The terminal is as it was.
    pub(super) fn give_back(&mut self) {
        if std::mem::take(&mut self.raw) {
            let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
        }
    }

    /// A newline does not begin at the left edge.
    pub(super) fn is_raw(&self) -> bool {
        self.raw
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Rows and columns of the terminal that shows our stdout, as one number of the wire.
pub(super) fn window() -> Option<u32> {
    let size = tcgetwinsize(stdout()).ok()?;
    Some(u32::from(size.ws_row) << 16 | u32::from(size.ws_col))
}

/// Reading a terminal from its background would stop us, and the job with us.
pub(super) fn in_foreground() -> bool {
    match rustix::termios::tcgetpgrp(stdin()) {
        Ok(foreground) => {
            let own = Stat::of(rustix::process::getpid()).map(|stat| stat.group);
            own == Some(foreground.as_raw_nonzero().get())
        }
        Err(_) => true,
    }
}
