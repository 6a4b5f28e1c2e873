//! Refusals of `sbatch`, `srun` and `salloc`: their text, and the status that Slurm has for each kind.
//! Called where options, scripts and jobs are read; the commands print them.
//!
//! | kind | status | printed as |
//! |---|---|---|
//! | a line that cannot be read | 255 | `sbatch: unrecognized option '--frob'`, and where help is |
//! | a value of a wrong form | 255 | `sbatch: error: Invalid --time specification` |
//! | a wish that cannot be had | 1 | `sbatch: error: ...` |

use std::fmt;
use std::process::ExitCode;

use crate::getopt::LineError;
use crate::output::{complain_of_usage, refuse};

/// Status of a line or a value of a wrong form.
pub const WRONG_FORM: u8 = 255;

/// Why a job is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The line cannot be read.
    Line(String),
    /// The value of an option has a wrong form.
    Form(String),
    /// The job cannot be had.
    Wish(String),
}

impl Refusal {
    /// A value of a wrong form, in Slurm's words.
    #[must_use]
    pub fn specification(name: &str) -> Refusal {
        Refusal::Form(format!("Invalid --{name} specification"))
    }

    /// A job that the controller, or what it says of its nodes and jobs, does not allow.
    #[must_use]
    pub fn submission(text: &str) -> Refusal {
        Refusal::Wish(format!("Batch job submission failed: {text}"))
    }

    /// Writes it to stderr; the exit status.
    #[must_use]
    pub fn print(&self, command: &str) -> ExitCode {
        match self {
            Refusal::Line(text) => {
                complain_of_usage(command, text);
                ExitCode::from(WRONG_FORM)
            }
            Refusal::Form(text) => refuse(command, text, WRONG_FORM),
            Refusal::Wish(text) => refuse(command, text, 1),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::Line(text) | Refusal::Form(text) | Refusal::Wish(text)) = self;
        f.write_str(text)
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal::Wish(text)
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Refusal {
        Refusal::Wish(text.to_owned())
    }
}

impl From<LineError> for Refusal {
    fn from(error: LineError) -> Refusal {
        Refusal::Line(error.to_string())
    }
}
