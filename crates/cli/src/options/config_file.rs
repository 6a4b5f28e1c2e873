//! Programs in a file (MPI 11.5, `-configfile`): each line has one with its options, `#` begins a comment, a
//! backslash at the end of a line continues it. A line without a program is the beginning of the next one.
//!
//! The words of the file take the place of option and file name before anything else reads the command line:
//! so a command line that is read on another host needs no file there.

use std::ffi::{OsStr, OsString};

use super::error::OptionError;
use super::keys::Key;
use super::words::{find, with_values};

/// The command line with the words of its file.
///
/// # Errors
/// When the file cannot be read, or is not the last of the command line. What else is wrong is the parser's.
pub fn expanded(mut arguments: Vec<OsString>) -> Result<Vec<OsString>, OptionError> {
    let mut words = arguments.iter();
    while let Some(option) = next_option(&mut words) {
        let at = arguments.len() - words.len() - 1;
        let Ok(values) = with_values(option.option, &option.written, option.values, &mut words) else {
            break;
        };
        if option.option.key != Key::ConfigFile {
            continue;
        }
        if words.len() > 0 {
            return Err(OptionError::Elsewhere {
                option: option.written,
                text: "and its file are the last words of the command line: programs and their options are in the file",
            });
        }
        let in_file = read(&option.written, &values[0])?;
        arguments.truncate(at);
        arguments.extend(in_file);
        break;
    }
    Ok(arguments)
}

/// The option that the next word is; none before a program or a mistake.
fn next_option(words: &mut std::slice::Iter<'_, OsString>) -> Option<super::words::Found> {
    words.next().filter(|word| *word != "--").and_then(|word| find(word).ok().flatten())
}

/// The words of a file, with colons between programs.
fn read(option: &str, file: &OsStr) -> Result<Vec<OsString>, OptionError> {
    let wrong = |why: String| OptionError::File {
        option: option.to_owned(),
        file: file.to_string_lossy().into_owned(),
        why,
    };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let mut programs: Vec<Vec<OsString>> = Vec::new();
    let mut program: Vec<OsString> = Vec::new();
    let mut continued = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        if continued.is_empty() && line.trim_start().starts_with('#') {
            continue;
        }
        if let Some(begun) = line.strip_suffix('\\') {
            continued += begun;
            continue;
        }
        let line = std::mem::take(&mut continued) + line;
        let words =
            shlex::split(&line).ok_or_else(|| wrong(format!("line {number}: a quote is not closed")))?;
        program.extend(words.into_iter().map(OsString::from));
        // MPICH's launcher wants the colons in the file.
        while program.last().is_some_and(|word| word == ":") {
            program.pop();
        }
        if has_program(&program) {
            programs.push(std::mem::take(&mut program));
        }
    }
    if !continued.trim().is_empty() || !program.is_empty() || programs.is_empty() {
        return Err(wrong("its last line has no program".into()));
    }
    Ok(programs.join(&OsString::from(":")))
}

/// Whether there is more than options. A mistake is the parser's.
fn has_program(words: &[OsString]) -> bool {
    let mut rest = words.iter();
    while rest.len() > 0 {
        let Some(option) = next_option(&mut rest) else { return true };
        if with_values(option.option, &option.written, option.values, &mut rest).is_err() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_testkit::Scratch;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    /// The command line `options -configfile FILE` with this text in the file.
    fn with(options: &str, text: &str) -> Result<Vec<OsString>, OptionError> {
        let scratch = Scratch::new("config-file");
        let path = scratch.path().join("lines");
        std::fs::write(&path, text).expect("a file");
        expanded([words(options), vec!["-configfile".into(), path.into()]].concat())
    }

    #[test]
    fn configuration_file_has_a_program_in_each_line() {
        let text = "# two programs\n-n 1 ./ocean 'a b'\n\n-n 2 \\\n./air -n 3\n";
        let wanted = [&words("-l -n 1 ./ocean")[..], &["a b".into()], &words(": -n 2 ./air -n 3")].concat();
        assert_eq!(with("-l", text), Ok(wanted));
        let text = "-genv A 1\n-n 1 ./a :\n-n 1 ./b :";
        assert_eq!(with("-l", text), Ok(words("-l -genv A 1 -n 1 ./a : -n 1 ./b")));
    }

    #[test]
    fn configuration_file_is_no_word_of_a_program() {
        let line = words("-n 1 ./program -configfile lines");
        assert_eq!(expanded(line.clone()), Ok(line));
        let line = words("-genv A -configfile -- -configfile x");
        assert_eq!(expanded(line.clone()), Ok(line));
    }

    #[test]
    fn configuration_file_that_is_wrong_is_named() {
        let error = |line: &str| expanded(words(line)).expect_err(line).to_string();
        assert!(error("-configfile /no/such").starts_with("-configfile /no/such: No such file"));
        assert!(error("-configfile /dev/null ./program").contains("last words"));
        assert!(error("-configfile /dev/null").contains("no program"));
        assert!(with("-l", "-n 1 ./a 'b\n").expect_err("a quote").to_string().contains("line 1: a quote"));
        assert!(with("-l", "-n 1 ./a\n-n 2\n").expect_err("a lack").to_string().contains("no program"));
    }
}
