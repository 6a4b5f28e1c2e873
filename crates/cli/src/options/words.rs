//! From the words of a command line to its request: sections between colons, options with their values, the
//! program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tutti_protocol::batch::Batch;
use tutti_protocol::terms::Terms;
use tutti_protocol::wire::{Binding, Inherits, Input};

use super::effects::{for_job, for_program};
use super::error::OptionError;
use super::keys::{Key, Launcher, OF_A_PROGRAM, Spec, Unfit};
use super::table;
use super::values::{check_pattern, only, split};
use super::{Beside, Environment, Options, OutputOptions, Program, Remarks, Request, VirtualNodes};
use crate::library::Choice;

/// Parses the arguments after the program's name.
///
/// # Errors
/// With one line about the first thing that is wrong.
pub fn parse(arguments: &[OsString]) -> Result<Request, OptionError> {
    parse_as(arguments, Launcher::Mpiexec)
}

/// The same, for any of those commands.
///
/// # Errors
/// With one line about the first thing that is wrong.
pub fn parse_as(arguments: &[OsString], launcher: Launcher) -> Result<Request, OptionError> {
    let mut options = Options {
        programs: Vec::new(),
        ranks_per_node: None,
        nodes: None,
        cluster: false,
        step: false,
        universe: None,
        virtual_nodes: VirtualNodes::default(),
        by_node: None,
        binding: Binding::Share,
        cores_per_rank: None,
        report_bindings: false,
        no_oversubscribe: false,
        terms: Terms::default(),
        batch: Batch::default(),
        beside: Beside::default(),
        output: OutputOptions::default(),
        input: Input::Rank(0),
        pty: false,
        detach_on_hangup: false,
        timeout: None,
        remarks: Remarks::default(),
    };
    let mut all = ForAll { variables: Vec::new(), inherits: Inherits::All };
    let sections: Vec<&[OsString]> = arguments.split(|word| word == ":").collect();
    let several = sections.len() > 1;
    for section in sections {
        let program = match parse_section(section, launcher, &mut options, &mut all)? {
            Section::Program(program) => program,
            Section::Instead(request) => return Ok(request),
        };
        if program.words.is_empty() {
            return Err(if several { OptionError::NoProgramAtColon } else { OptionError::NoProgram });
        }
        options.programs.push(program);
    }
    for pattern in options.output.stdout.iter().chain(&options.output.stderr) {
        check_pattern(pattern, launcher)?;
    }
    for program in &mut options.programs {
        if program.environment.inherits == Inherits::All {
            program.environment.inherits = all.inherits.clone();
        }
        // What is set for one program wins over what is set for all: later ones win.
        program.environment.variables.splice(0..0, all.variables.iter().cloned());
    }
    Ok(Request::Run(Box::new(options)))
}

/// Options about the environment of all programs.
struct ForAll {
    variables: Vec<(OsString, OsString)>,
    inherits: Inherits,
}

/// Options of a part of the command line between colons.
enum Section {
    Program(Program),
    /// Request for something else than a job.
    Instead(Request),
}

fn parse_section(
    section: &[OsString],
    launcher: Launcher,
    options: &mut Options,
    all: &mut ForAll,
) -> Result<Section, OptionError> {
    let mut program = Program {
        ranks: None,
        hosts: Vec::new(),
        host_files: Vec::new(),
        words: Vec::new(),
        directory: None,
        search_path: None,
        environment: Environment { inherits: Inherits::All, variables: Vec::new(), library: Choice::Ours },
    };
    let mut words = section.iter();
    while let Some(word) = words.next() {
        // The program may have the name of an option.
        if word == "--" {
            program.words.extend(words.by_ref().cloned());
            break;
        }
        let Some(Found { option, written: name, values }) = find(word)? else {
            program.words.push(word.clone());
            program.words.extend(words.by_ref().cloned());
            break;
        };
        let mut values = with_values(option, &name, values, &mut words)?;
        match option.key.unfit(launcher) {
            Some(Unfit::Refused(why)) => return Err(OptionError::Unsupported { option: name, why }),
            Some(Unfit::Ignored(why)) => {
                options.remarks.ignored.push((name, why));
                continue;
            }
            None => {}
        }
        match option.key {
            Key::Version => return Ok(Section::Instead(Request::Version)),
            Key::Help => return Ok(Section::Instead(Request::Help)),
            Key::ConfigFile => {
                return Err(OptionError::Elsewhere {
                    option: name,
                    text: "is for a command line without programs, which are in the file",
                });
            }
            Key::AllVariable => all.variables.push((values.remove(0), values.remove(0))),
            Key::AllVariableList => all.inherits = only(&all.inherits, &values[0]),
            Key::NoneInherited if name.contains("genv") => all.inherits = Inherits::Only(Vec::new()),
            Key::AllInherited => all.inherits = Inherits::All,
            // Slurm's, not Open MPI's.
            Key::Tagged if launcher == Launcher::Submit => {
                for_job(options, Key::SubmitOutput, &name, &values)?;
            }
            Key::Stdin if launcher == Launcher::Submit && values[0] != "none" => {
                return Err(OptionError::Unsupported {
                    option: name,
                    why: "a submitted job has no stdin; tutti run has it",
                });
            }
            Key::SubmitOutput | Key::SubmitErrors | Key::OpenMode if launcher != Launcher::Submit => {
                return Err(OptionError::Elsewhere {
                    option: name,
                    text: "is for tutti submit: here --outfile-pattern, --errfile-pattern and --output-filename write files",
                });
            }
            key if !launcher.has(key) => return Err(OptionError::Unknown(name)),
            Key::RanksPerNode if launcher.counts_nodes() && name == "-N" => {
                for_job(options, Key::Nodes, &name, &values)?;
            }
            key if OF_A_PROGRAM.contains(&key) => for_program(&mut program, key, &name, &values)?,
            key => for_job(options, key, &name, &values)?,
        }
    }
    Ok(Section::Program(program))
}

/// All values of an option: those in its own word, and the words behind it.
pub(super) fn with_values<'a>(
    option: &Spec,
    name: &str,
    mut values: Vec<OsString>,
    words: &mut impl Iterator<Item = &'a OsString>,
) -> Result<Vec<OsString>, OptionError> {
    while values.len() < option.values.len() {
        // `-genv NAME=VALUE` is one word for two.
        if values.len() == 1 && option.values == ["VAR", "VALUE"] && values[0].as_bytes().contains(&b'=') {
            let (name, value) = split(&values[0]).expect("it has an equals sign");
            return Ok(vec![name, value]);
        }
        let Some(value) = words.next() else {
            return Err(OptionError::Missing { option: name.to_owned(), needed: option.values.join(" ") });
        };
        values.push(value.clone());
    }
    Ok(values)
}

/// An option as found in a word of the command line.
pub(super) struct Found {
    pub(super) option: &'static Spec,
    /// Name as written.
    pub(super) written: String,
    /// Values in the same word.
    pub(super) values: Vec<OsString>,
}

/// The option that a word names. `None`: the word is a program.
pub(super) fn find(word: &OsStr) -> Result<Option<Found>, OptionError> {
    let bytes = word.as_bytes();
    let Some(text) = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-")) else { return Ok(None) };
    let (name, value) = match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (&text[..at], Some(OsString::from_vec(text[at + 1..].to_vec()))),
        None => (text, None),
    };
    let named =
        |name: &[u8]| table::all().find(|option| option.names.iter().any(|known| known.as_bytes() == name));
    let written = String::from_utf8_lossy(&bytes[..bytes.len() - text.len() + name.len()]).into_owned();
    if let Some(option) = named(name)
        && (value.is_none() || !option.values.is_empty() || matches!(option.key, Key::Phases | Key::Files))
    {
        return Ok(Some(Found { option, written, values: value.into_iter().collect() }));
    }
    // -n4, -np4
    let digits = name.iter().position(u8::is_ascii_digit).unwrap_or(name.len());
    if matches!(&name[..digits], b"n" | b"np") && name[digits..].iter().all(u8::is_ascii_digit) {
        let value = String::from_utf8_lossy(&name[digits..]).into_owned();
        return Ok(named(b"n").map(|option| Found {
            option,
            written: String::from("-n"),
            values: vec![value.into()],
        }));
    }
    Err(OptionError::Unknown(word.to_string_lossy().into_owned()))
}
