//! Command lines as Slurm's commands read them: `--name=V`, `--name V`, unique beginnings of names, `-nV`,
//! `-n V`, clusters of letters. Called by each command with its own table; nothing here knows what an
//! option means.

/// Value that follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// A value.
    Value,
    /// A value behind `=`, or none.
    Maybe,
}

/// An option: its long name, its letter (0: none), and what follows it.
pub type Spec = (&'static str, char, Takes);

/// Where options end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// With the first word that is none: what follows is a program.
    AtOperand,
    /// With `--` alone.
    AtDashes,
}

/// A command line as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Long names and values, in order.
    pub options: Vec<(&'static str, String)>,
    /// The other words.
    pub operands: Vec<String>,
}

impl Line {
    /// Whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(known, _)| *known == name)
    }
}

/// Why a command line cannot be read, in glibc's words, which Slurm's commands print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// No such name.
    #[error("unrecognized option '{0}'")]
    Unknown(String),
    /// No such letter.
    #[error("invalid option -- '{0}'")]
    Letter(char),
    /// Several names begin so.
    #[error("option '{0}' is ambiguous")]
    Ambiguous(String),
    /// The line ends where a value was expected.
    #[error("option '--{0}' requires an argument")]
    NoValue(&'static str),
    /// The same of a letter.
    #[error("option requires an argument -- '{0}'")]
    NoLetterValue(char),
    /// A value that is too much.
    #[error("option '--{0}' doesn't allow an argument")]
    Value(&'static str),
}

/// Reads a command line.
///
/// # Errors
/// On the first word that is wrong.
pub fn parse(specs: &[Spec], words: &[String], ends: Ends) -> Result<Line, LineError> {
    let mut line = Line::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            line.operands.extend(words.cloned());
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let (name, _, takes) = by_name(specs, name)?;
            let value = match (takes, value) {
                (Takes::Nothing, Some(_)) => return Err(LineError::Value(name)),
                (Takes::Value, None) => words.next().cloned().ok_or(LineError::NoValue(name))?,
                (_, value) => value.unwrap_or_default(),
            };
            line.options.push((name, value));
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            parse_letters(specs, letters, &mut words, &mut line)?;
        } else {
            line.operands.push(word.clone());
            if ends == Ends::AtOperand {
                line.operands.extend(words.cloned());
                break;
            }
        }
    }
    Ok(line)
}

fn parse_letters(
    specs: &[Spec],
    letters: &str,
    words: &mut std::slice::Iter<'_, String>,
    line: &mut Line,
) -> Result<(), LineError> {
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        let found = specs.iter().find(|(_, known, _)| *known == letter).ok_or(LineError::Letter(letter))?;
        let value = match found.2 {
            Takes::Nothing => {
                line.options.push((found.0, String::new()));
                continue;
            }
            Takes::Maybe => rest.as_str().to_owned(),
            Takes::Value if rest.as_str().is_empty() => {
                words.next().cloned().ok_or(LineError::NoLetterValue(letter))?
            }
            // `-n=4` is not Slurm's, but its own commands let it pass for some options.
            Takes::Value => rest.as_str().to_owned(),
        };
        line.options.push((found.0, value));
        break;
    }
    Ok(())
}

fn by_name(specs: &[Spec], name: &str) -> Result<Spec, LineError> {
    if let Some(found) = specs.iter().find(|(known, _, _)| *known == name) {
        return Ok(*found);
    }
    let mut near = specs.iter().filter(|(known, _, _)| known.starts_with(name));
    match (near.next(), near.next()) {
        (Some(found), None) => Ok(*found),
        (Some(_), Some(_)) => Err(LineError::Ambiguous(format!("--{name}"))),
        _ => Err(LineError::Unknown(format!("--{name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: [Spec; 5] = [
        ("jobs", 'j', Takes::Value),
        ("noheader", 'h', Takes::Nothing),
        ("nodes", 'N', Takes::Value),
        ("exclusive", '\0', Takes::Maybe),
        ("me", '\0', Takes::Nothing),
    ];

    fn read(text: &str, ends: Ends) -> Result<Line, LineError> {
        parse(&SPECS, &shlex::split(text).unwrap(), ends)
    }

    #[test]
    fn command_line_has_all_forms_of_options() {
        let line =
            read("--job 'a,b' -hN2 x --exclusive --exclusive=user -j 5 --me y", Ends::AtDashes).unwrap();
        let value = |name, text: &str| (name, text.to_owned());
        let expected = [
            value("jobs", "a,b"),
            value("noheader", ""),
            value("nodes", "2"),
            value("exclusive", ""),
            value("exclusive", "user"),
            value("jobs", "5"),
            value("me", ""),
        ];
        assert_eq!(line.options, expected);
        assert_eq!(line.operands, ["x", "y"]);
        let line = read("-N 2 job.sh -h --job", Ends::AtOperand).unwrap();
        assert_eq!(line.operands, ["job.sh", "-h", "--job"]);
        assert_eq!(read("-- -h", Ends::AtDashes).unwrap().operands, ["-h"]);
    }

    #[test]
    fn command_line_errors_are_those_of_glibc() {
        for (text, expected) in [
            ("--frob", "unrecognized option '--frob'"),
            ("--no", "option '--no' is ambiguous"),
            ("-1", "invalid option -- '1'"),
            ("--nodes", "option '--nodes' requires an argument"),
            ("-hN", "option requires an argument -- 'N'"),
            ("--me=1", "option '--me' doesn't allow an argument"),
        ] {
            assert_eq!(read(text, Ends::AtDashes).unwrap_err().to_string(), expected);
        }
    }
}
