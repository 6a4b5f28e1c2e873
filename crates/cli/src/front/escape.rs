//! The escape of ssh: at the beginning of a line `~.` detaches from the job, `~~` is a tilde. All else passes
//! as it was typed.

/// Place in what has been typed, as far as it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Escape {
    /// At the beginning of a line.
    #[default]
    LineStart,
    /// Behind a tilde at the beginning of a line.
    Tilde,
    /// In a line.
    Inside,
}

impl Escape {
    /// Takes what was typed; gives what is for the job, and whether it is to be left.
    pub(super) fn filter(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let mut passed = Vec::with_capacity(typed.len() + 1);
        for &byte in typed {
            match (*self, byte) {
                (Escape::LineStart, b'~') => {
                    *self = Escape::Tilde;
                    continue;
                }
                (Escape::Tilde, b'.') => return (passed, true),
                (Escape::Tilde, b'~') => {}
                (Escape::Tilde, _) => passed.push(b'~'),
                _ => {}
            }
            passed.push(byte);
            *self = if matches!(byte, b'\n' | b'\r') { Escape::LineStart } else { Escape::Inside };
        }
        (passed, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_is_removed_however_input_is_split() {
        let cases: [(&[&str], &str, bool); 8] = [
            (&["~."], "", true),
            (&["a\n~."], "a\n", true),
            (&["a\n~", ".\n"], "a\n", true),
            (&["a\r", "~", "."], "a\r", true),
            (&["a~."], "a~.", false),
            (&["~~.\n"], "~.\n", false),
            (&["~", "x\n"], "~x\n", false),
            (&["~\n~."], "~\n", true),
        ];
        for (pieces, expected, leaves) in cases {
            let (mut escape, mut passed, mut left) = (Escape::default(), Vec::new(), false);
            for piece in pieces {
                let (more, leave) = escape.filter(piece.as_bytes());
                passed.extend(more);
                left |= leave;
            }
            assert_eq!((String::from_utf8(passed).unwrap().as_str(), left), (expected, leaves), "{pieces:?}");
        }
    }
}
