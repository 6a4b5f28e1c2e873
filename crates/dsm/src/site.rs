//! Lines of the program, for messages.

use std::fmt;

/// A line of the program.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The file, as the compiler was given it.
    pub file: &'a str,
    /// The line; 0: not known.
    pub line: u32,
}

impl fmt::Display for Site<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}
