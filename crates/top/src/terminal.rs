//! The terminal: taken over, and given back whatever happens. Nothing else writes to it meanwhile.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use rustix::termios::{Action, tcflow};

use crate::model::Look;

/// The terminal is taken.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// A terminal on which pictures can be drawn.
///
/// # Errors
/// When there is none; a text for the user.
pub(crate) fn check() -> Result<(), String> {
    const INSTEAD: &str = "--once prints the same as text, --json for scripts";
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(format!("standard input and output must be a terminal; {INSTEAD}"));
    }
    let kind = std::env::var("TERM").unwrap_or_default();
    match kind.as_str() {
        "" | "dumb" => Err(format!("nothing can be drawn on this terminal (TERM={kind}); {INSTEAD}")),
        _ => Ok(()),
    }
}

/// Wishes of the environment of colours and letters.
pub(crate) fn look() -> Look {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.into_iter().find_map(variable).unwrap_or_default().to_lowercase();
    Look { colour: variable("NO_COLOR").is_none(), utf8: locale.contains("utf-8") || locale.contains("utf8") }
}

/// Takes it over.
///
/// # Errors
/// When the kernel does not let us.
pub(crate) fn take() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::Release);
    execute!(io::stdout(), EnterAlternateScreen, EnableMouseCapture, Hide)
}

/// Gives it back as it was, if it is taken. A terminal that has gone is no error.
pub(crate) fn give_back() {
    if IS_TAKEN.swap(false, Ordering::AcqRel) {
        // Whoever has stopped the output with Ctrl-S would keep us here.
        let _ = tcflow(io::stdout().as_fd(), Action::OOn);
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}
