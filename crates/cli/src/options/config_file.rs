//! Programs in a file (MPI 11.5, `-configfile`): each line has one with its options, `#` begins a comment, a
//! backslash at the end of a line continues it. A line without a program is the beginning of the next one.
//!
//! The words of the file take the place of option and file name before anything else reads the command line:
//! so a command line that is read on another host needs no file there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;

use tutti_client::at::Launcher;

use super::error::OptionError;
use super::keys::Key;
use super::words::{find, with_values};

/// Bytes of a file: more are no list of programs.
const FILE_BYTES_MAX: u64 = 1 << 20;

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

/// The command line for a host of an earlier release, which knows no width of labels. They are written here.
/// A submitted job's `--output` is a file.
pub fn for_earlier(arguments: &[OsString], launcher: Launcher) -> Vec<OsString> {
    let (mut found, mut words) = (arguments.to_vec(), arguments.iter());
    if launcher == Launcher::Submit {
        return found;
    }
    loop {
        while let Some(option) = next_option(&mut words) {
            let Ok(values) = with_values(option.option, &option.written, option.values, &mut words) else {
                return found;
            };
            let at = arguments.len() - words.len() - 1;
            if option.option.key == Key::Tagged
                && let Some(columns) = values[0].as_bytes().strip_prefix(b"tag:")
            {
                // The value ends its word: behind the name, or in a word of its own.
                let word = arguments[at].as_bytes();
                found[at] = OsStr::from_bytes(&word[..word.len() - columns.len() - 1]).to_owned();
            }
        }
        // Behind a colon there are options again.
        if !words.any(|word| word == ":") {
            return found;
        }
    }
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
    // It may be a pipe of the shell.
    let bytes = File::open(file).and_then(|opened| tutti_os::read_all(opened, FILE_BYTES_MAX));
    let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is no text".into()))?;
    let mut programs: Vec<Vec<OsString>> = Vec::new();
    let mut program: Vec<OsString> = Vec::new();
    let mut continued = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = std::mem::take(&mut continued) + line;
        if let Some(begun) = continues(&line) {
            continued = begun.to_owned();
            continue;
        }
        let mut words =
            shlex::split(&line).ok_or_else(|| wrong(format!("line {number}: a quote is not closed")))?;
        // Behind the option it would end a program, as every word that is a colon does.
        if has_quoted_colon(&line, &words) {
            return Err(wrong(format!("line {number}: a lone colon in quotes can be no word of a program")));
        }
        // MPICH's launcher wants the colons in the file.
        let is_colon = |word: Option<&String>| word.is_some_and(|word| word == ":");
        while is_colon(words.last()) {
            words.pop();
        }
        while is_colon(words.first()) {
            words.remove(0);
        }
        program.extend(words.into_iter().map(OsString::from));
        if has_program(&program) {
            programs.push(std::mem::take(&mut program));
        }
    }
    if !continued.trim().is_empty() || !program.is_empty() || programs.is_empty() {
        return Err(wrong("its last line has no program".into()));
    }
    Ok(programs.join(&OsString::from(":")))
}

/// Text that the next line continues: a backslash that no other one escapes stands at the end, and not in a
/// comment.
fn continues(line: &str) -> Option<&str> {
    /// A word that no line has.
    const BEHIND: &str = "\u{1}";
    let begun = line.trim_end_matches('\\');
    if (line.len() - begun.len()).is_multiple_of(2) {
        return None;
    }
    let begun = &line[..line.len() - 1];
    let is_comment = shlex::split(&format!("{begun} {BEHIND}"))
        .is_some_and(|words| words.last().is_none_or(|word| word != BEHIND));
    (!is_comment).then_some(begun)
}

/// Whether one of the words of a line is a colon that does not stand between spaces.
fn has_quoted_colon(line: &str, words: &[String]) -> bool {
    /// A letter that means nothing to a shell.
    const INSTEAD: char = '\u{1}';
    let bytes = line.as_bytes();
    let is_space = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_none_or(|it| b" \t".contains(it));
    let is_alone = |at: usize| is_space(at.checked_sub(1)) && is_space(Some(at + 1));
    let instead = |(at, letter): (usize, char)| if letter == ':' && !is_alone(at) { INSTEAD } else { letter };
    let changed = shlex::split(&line.char_indices().map(instead).collect::<String>()).unwrap_or_default();
    words.iter().zip(&changed).any(|(word, changed)| word == ":" && changed != word)
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
    fn configuration_file_continues_no_comment_and_no_backslash_of_a_word() {
        let read = |text: &str| with("-l", text).map_err(|error| error.to_string());
        for text in ["# one \\\n./a\n./b # two \\\n./c", "./a\n: ./b : \n: : ./c # :"] {
            assert_eq!(read(text), Ok(words("-l ./a : ./b : ./c")), "{text}");
        }
        assert_eq!(read("./a x\\\\\n./b"), Ok(words("-l ./a x\\ : ./b")));
        assert_eq!(read("./a \\\n b"), Ok(words("-l ./a b")));
        assert_eq!(read("./a 'b:' :c \":\"x"), Ok(words("-l ./a b: :c :x")));
    }

    #[test]
    fn configuration_file_with_a_lone_colon_in_quotes_is_refused() {
        for colon in ["':'", "\":\"", "\\:", ":''"] {
            let text = with("-l", &format!("./a\n./b {colon} c # ':'\n")).expect_err(colon).to_string();
            assert!(text.ends_with("/lines: line 2: a lone colon in quotes can be no word of a program"));
        }
        let wanted = [&words("-l ./a : ./b")[..], &["c : d".into()]].concat();
        assert_eq!(with("-l", "./a # ':'\n: ./b 'c : d' :"), Ok(wanted));
    }

    #[test]
    fn labels_of_an_earlier_release_have_no_width() {
        for (line, earlier) in [
            ("-q --output tag:2 -n 2 ./a --output tag:2", "-q --output tag -n 2 ./a --output tag:2"),
            ("--output=tag:10 -n 2 ./a --output=tag:10", "--output=tag -n 2 ./a --output=tag:10"),
            ("--output=tag -n 2 ./a", "--output=tag -n 2 ./a"),
            ("-n 2 ./a tag:2 : --output tag:3 ./b", "-n 2 ./a tag:2 : --output tag ./b"),
        ] {
            for launcher in [Launcher::Run, Launcher::Mpiexec] {
                assert_eq!(for_earlier(&words(line), launcher), words(earlier));
            }
            assert_eq!(for_earlier(&words(line), Launcher::Submit), words(line), "a file");
        }
    }

    #[test]
    fn configuration_file_without_an_end_is_refused() {
        let text = expanded(words("-configfile /dev/zero")).expect_err("no end").to_string();
        assert!(text.contains("longer than 1048576 bytes"), "{text}");
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
