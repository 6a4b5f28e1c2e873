//! Values of options, from text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use tutti_protocol::batch::Warning;
use tutti_protocol::time_limit;
use tutti_protocol::wire::{Binding, Inherits};

use super::error::OptionError;
use super::keys::Launcher;
use crate::signals;

/// `--signal SIG` without a time.
const WARNING_DEFAULT_S: u64 = 60;

/// A signal so many ms before the time limit: `USR1@120`.
pub(super) fn warning(text: &str) -> Option<Warning> {
    let (signal, before) =
        text.split_once('@').map_or((text, None), |(signal, before)| (signal, Some(before)));
    let before_s: u64 = before.map_or(Some(WARNING_DEFAULT_S), |before| before.parse().ok())?;
    let before_ms = before_s.checked_mul(1000)?;
    signals::number(signal).ok().map(|signal| Warning { signal, before_ms })
}

/// Every letter behind a percent sign means something.
pub(super) fn check_pattern(pattern: &OsStr, launcher: Launcher) -> Result<(), OptionError> {
    let (letters, known) = match launcher {
        Launcher::Submit => {
            let known =
                "%j (the job), %r (the rank), %N (its node), %A and %a (array and task), %% (a percent sign)";
            ("jrNAa", known)
        }
        _ => ("r", "%r (the rank), %% (a percent sign)"),
    };
    let text = pattern.to_string_lossy();
    let mut rest = text.chars();
    while let Some(letter) = rest.find(|letter| *letter == '%').and_then(|_| rest.next()) {
        if letter.is_ascii_alphanumeric() && !letters.contains(letter) {
            return Err(OptionError::Pattern { pattern: text.into_owned(), letter, known });
        }
    }
    Ok(())
}

pub(super) fn number(option: &str, value: &OsStr) -> Result<u32, OptionError> {
    let parsed = value.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    parsed.ok_or_else(|| OptionError::Value {
        option: option.to_owned(),
        value: value.to_string_lossy().into_owned(),
        expected: "a whole number above 0",
    })
}

/// Binding targets that both families know; larger things than a core are a share here.
pub(super) fn binding(text: &str) -> Option<Binding> {
    // `core:overload-allowed`, `socket:2`
    match text.split(':').next().unwrap_or(text) {
        "none" | "off" => Some(Binding::None),
        "core" | "hwthread" | "cpu" | "hwthreads" | "cores" | "rr" => Some(Binding::Core),
        "share" | "default" | "socket" | "package" | "numa" | "board" | "l1cache" | "l2cache" | "l3cache"
        | "machine" => Some(Binding::Share),
        _ => None,
    }
}

pub(super) fn split(pair: &OsStr) -> Option<(OsString, OsString)> {
    let at = pair.as_bytes().iter().position(|byte| *byte == b'=')?;
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    Some((part(&pair.as_bytes()[..at]), part(&pair.as_bytes()[at + 1..])))
}

pub(super) fn only(before: &Inherits, list: &OsStr) -> Inherits {
    let mut names = match before {
        Inherits::Only(names) => names.clone(),
        Inherits::All => Vec::new(),
    };
    let parts = list.as_bytes().split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.extend(parts.map(|name| OsString::from_vec(name.to_vec()).into()));
    Inherits::Only(names)
}

/// Forms that [`seconds`] reads, for the line about what it cannot.
pub const SECONDS: &str = "a number of seconds above 0, or 10m, 2h, 1d";

/// Reads seconds, or a time with a unit as --time takes it; none: it is none above 0.
pub fn seconds(text: &str) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) => (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds)),
        Err(_) => time_limit::parse(text).filter(|limit| *limit > Duration::ZERO),
    }
}
