//! Signals as users name them.

use rustix::process::Signal;

/// Signals by name; any other by its number.
const SIGNALS: [(&str, Signal); 16] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("ABRT", Signal::ABORT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("SEGV", Signal::SEGV),
    ("USR2", Signal::USR2),
    ("PIPE", Signal::PIPE),
    ("ALRM", Signal::ALARM),
    ("TERM", Signal::TERM),
    ("CONT", Signal::CONT),
    ("STOP", Signal::STOP),
    ("TSTP", Signal::TSTP),
    ("WINCH", Signal::WINCH),
    ("XCPU", Signal::XCPU),
];

/// A signal's number from its name, with or without SIG, or its number.
///
/// # Errors
/// When there is no such signal; a text for the user.
pub fn number(text: &str) -> Result<u32, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let number = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| signal.as_raw() as u32);
    let number = number.or_else(|| name.parse().ok()).filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a signal"))
}
