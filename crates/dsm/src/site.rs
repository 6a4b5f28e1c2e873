//! Lines of the program, for messages.

use std::fmt;

/// A line of the program.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The file, as the compiler was given it.
    pub file: &'a str,
    /// The line.
    pub line: u32,
}

impl fmt::Display for Site<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
