//! Why a command line is none, with a hint where another word was meant.

use super::table::names;
use crate::suggest;

/// Why a command line is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("{0} is not an option{hint} (see --help)", hint = hint(.0))]
    Unknown(String),
    /// The command line ends too early.
    #[error("{option} needs {needed}")]
    Missing {
        /// Which option.
        option: String,
        /// Values that it needs.
        needed: String,
    },
    /// A value that cannot be.
    #[error("{option} is given {value:?}, expected {expected}")]
    Value {
        /// Which option.
        option: String,
        /// Value that was given.
        value: String,
        /// Values that can be.
        expected: &'static str,
    },
    /// A pattern of file names with a letter that means nothing.
    #[error("{pattern}: %{letter} is none of {known}{hint}", hint = hint_of_letter(*letter))]
    Pattern {
        /// As given.
        pattern: String,
        /// Behind the percent sign.
        letter: char,
        /// Letters that there are.
        known: &'static str,
    },
    /// A file of options that cannot be read, or is none.
    #[error("{option} {file}: {why}")]
    File {
        /// Option as written.
        option: String,
        /// File as named.
        file: String,
        /// Reason.
        why: String,
    },
    /// Option of another command.
    #[error("{option} {text}")]
    Elsewhere {
        /// Which option.
        option: String,
        /// Command that has the option, and what to do instead.
        text: &'static str,
    },
    /// Option for something that cannot be done.
    #[error("{option} is not supported: {why}")]
    Unsupported {
        /// Which option.
        option: String,
        /// Why, or what to do instead.
        why: &'static str,
    },
    /// An array that cannot be.
    #[error("{0}: {1}")]
    Array(String, String),
    /// No program.
    #[error("no program is given: -n N PROGRAM [ARGUMENT ...] (see --help)")]
    NoProgram,
    /// A colon with nothing behind or before it.
    #[error("a program is missing beside the colon")]
    NoProgramAtColon,
}

/// Names an option that the user may have meant.
fn hint(option: &str) -> String {
    suggest::option(option, names()).map_or_else(String::new, |text| format!("; {text}"))
}

/// Advice on a letter that other systems' patterns have for the rank.
fn hint_of_letter(letter: char) -> &'static str {
    if "tng".contains(letter) { "; the rank is %r" } else { "" }
}
