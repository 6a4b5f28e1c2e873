//! Options of `tutti submit` in a script, as batch users write them: lines that begin with `#TUTTI`, above
//! the first command.
//!
//! ```text
//! #!/bin/sh
//! #TUTTI -N 2 -n 8
//! #TUTTI --time 1h          # words as in a shell, with a comment
//! mpiexec ./a.out
//! ```

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use crate::options::{Launcher, OptionError, Request, parse_as};

/// Options are in the first bytes of a script.
const HEAD_BYTES: u64 = 64 << 10;
/// Beginning of their lines.
const MARK: &str = "#TUTTI";

/// Why a line of a script is none of options.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// An option is wrong.
    #[error("{file}, line {line}: {error}")]
    Option {
        /// The script.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Fault of the option.
        error: OptionError,
    },
    /// Line that is no list of options.
    #[error("{file}, line {line}: {text:?} is not a list of options")]
    Line {
        /// The script.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Text that was found.
        text: String,
    },
}

/// Lines of options for batch systems, which are not read.
const FOREIGN_MARKS: [&str; 2] = ["#SBATCH", "#PBS"];

/// Head of a program, as it was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whether it is a script: its first line names an interpreter, or has options.
    pub is_script: bool,
    /// Options in it.
    pub options: Vec<OsString>,
    /// Lines of options for other batch systems above its first command: how they begin, and how many.
    pub foreign: Vec<(&'static str, usize)>,
}

impl Head {
    /// The line for its user about options that are not read, if there are any.
    pub fn foreign_line(&self, file: &str) -> Option<String> {
        let lines = self.foreign.iter().map(|(mark, count)| {
            let plural = if *count == 1 { "" } else { "s" };
            format!("{count} {mark} line{plural}")
        });
        let lines: Vec<String> = lines.collect();
        let verb = if let [(_, 1)] = self.foreign[..] { "is" } else { "are" };
        let lines = Some(lines.join(" and ")).filter(|lines| !lines.is_empty())?;
        Some(format!(
            "{file}: {lines} {verb} not read: options stand in {MARK} lines, or on the command line"
        ))
    }
}

/// The options in a program, if it is a script that has any.
///
/// # Errors
/// With one line about the first one that is wrong.
pub fn head(file: &Path) -> Result<Head, ScriptError> {
    let mut head = Vec::new();
    // Whether it can be executed is checked later.
    let read = tutti_os::open_file(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    match read {
        Ok(_) => in_text(&file.to_string_lossy(), &String::from_utf8_lossy(&head)),
        Err(_) => Ok(Head::default()),
    }
}

fn in_text(file: &str, text: &str) -> Result<Head, ScriptError> {
    let mut head = Head::default();
    if !text.starts_with("#!") && !text.starts_with(MARK) {
        return Ok(head);
    }
    head.is_script = true;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            break;
        }
        if let Some(mark) = FOREIGN_MARKS.into_iter().find(|mark| behind(line, mark).is_some()) {
            match head.foreign.iter_mut().find(|(known, _)| *known == mark) {
                Some((_, count)) => *count += 1,
                None => head.foreign.push((mark, 1)),
            }
        }
        let Some(rest) = behind(line, MARK) else { continue };
        let wrong = || ScriptError::Line { file: file.into(), line: index + 1, text: rest.trim().into() };
        let words = shlex::split(rest).ok_or_else(wrong)?;
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        // Only options are allowed: the program is the script.
        let program = OsStr::new("program");
        let line: Vec<OsString> = words.iter().cloned().chain([program.into()]).collect();
        match parse_as(&line, Launcher::Submit) {
            Ok(Request::Run(parsed))
                if parsed.programs.len() == 1 && parsed.programs[0].words == [program] => {}
            Ok(_) => return Err(wrong()),
            Err(error) => return Err(ScriptError::Option { file: file.into(), line: index + 1, error }),
        }
        head.options.extend(words);
    }
    Ok(head)
}

/// Text behind a mark at the beginning of a line.
fn behind<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark).filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Vec<String>, String> {
        let head = in_text("job.sh", text).map_err(|error| error.to_string())?;
        Ok(head.options.into_iter().map(|word| word.into_string().expect("UTF-8")).collect())
    }

    #[test]
    fn script_options_stand_above_its_first_command() {
        let text = "#!/bin/sh\n#TUTTI -N 2 -n 8 # two nodes\n\n# a comment\n#TUTTIX -n 9\n#TUTTI --name 'a b'\r\n\
                    echo x\n#TUTTI -n 5\n";
        assert_eq!(found(text), Ok(["-N", "2", "-n", "8", "--name", "a b"].map(str::to_owned).to_vec()));
        assert_eq!(found("\u{7f}ELF\n#TUTTI -n 5\n"), Ok(Vec::new()));
        assert_eq!(found(""), Ok(Vec::new()));
    }

    #[test]
    fn script_lines_of_other_batch_systems_get_one_line() {
        let head = |text| in_text("job.sh", text).unwrap();
        let none = head("#!/bin/sh\n#SBATCHED\necho\n#SBATCH -N 2\n");
        assert_eq!((none.is_script, none.foreign_line("job.sh")), (true, None));
        let one = head("#!/bin/sh\n#SBATCH -N 2\n");
        let rest = "not read: options stand in #TUTTI lines, or on the command line";
        assert_eq!(one.foreign_line("job.sh"), Some(format!("job.sh: 1 #SBATCH line is {rest}")));
        let both = head("#!/bin/sh\n#SBATCH -N 2\n#PBS -l x\n#SBATCH\n");
        let line = format!("job.sh: 2 #SBATCH lines and 1 #PBS line are {rest}");
        assert_eq!(both.foreign_line("job.sh"), Some(line));
        assert_eq!(head("\u{7f}ELF"), Head::default());
    }

    #[test]
    fn script_options_that_are_wrong_are_named_with_file_and_line() {
        for (line, error) in [
            ("-N 2 --frob", "--frob is not an option (see --help)"),
            ("-n many", "-n is given \"many\", expected a whole number above 0"),
            ("-n", "-n is given \"program\", expected a whole number above 0"),
            ("-n 2 ./a.out", "\"-n 2 ./a.out\" is not a list of options"),
            ("--help", "\"--help\" is not a list of options"),
            ("--name 'a", "\"--name 'a\" is not a list of options"),
        ] {
            let text = format!("#!/bin/sh\n#TUTTI {line}\n");
            assert_eq!(found(&text), Err(format!("job.sh, line 2: {error}")));
        }
    }
}
