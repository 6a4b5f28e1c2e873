//! The table of options as a command of clap. From it clap's generators make manual pages and completions;
//! no command line is parsed by it.

use clap::builder::{Str, ValueHint};
use clap::{Arg, ArgAction, Command};

use super::help::{Listed, listed};
use super::keys::{Key, Launcher};

/// The line of `mpiexec`, `tutti run` or `tutti submit`, under the given name.
pub fn command(name: &'static str, launcher: Launcher) -> Command {
    let words = Arg::new("program").value_name("PROGRAM").num_args(1..).trailing_var_arg(true);
    Command::new(name)
        .override_usage("[OPTION ...] -n N PROGRAM [ARGUMENT ...] [: [OPTION ...] -n N PROGRAM ...] ...")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(listed(launcher).map(argument))
        .arg(words.value_hint(ValueHint::CommandWithArguments).help("the program, and what it is given"))
}

/// The first name of one letter and the first longer one; the other names are aliases.
fn argument(option: Listed) -> Arg {
    let letter = |name: &&str| name.len() == 1;
    let mut letters = option.names.iter().copied().filter(letter).filter_map(|name| name.chars().next());
    // A question mark is no option of a shell.
    let (short, letters) = (letters.next(), letters.filter(|letter| letter.is_ascii_alphanumeric()));
    let mut words = option.names.iter().copied().filter(|name| !letter(name));
    let long = words.next();
    let argument = Arg::new(option.names[0]).help(option.help);
    let argument = short.into_iter().fold(argument, Arg::short);
    let argument = long.into_iter().fold(argument, Arg::long);
    let argument = argument
        .visible_short_aliases(letters.collect::<Vec<_>>())
        .visible_aliases(words.map(Str::from).collect::<Vec<_>>());
    if option.values.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    argument
        .num_args(option.values.len())
        .value_names(option.values.iter().copied())
        .value_hint(hint(option.key))
}

fn hint(key: Key) -> ValueHint {
    match key {
        Key::Directory => ValueHint::DirPath,
        Key::HostFile
        | Key::ConfigFile
        | Key::OutputFile
        | Key::ErrorsFile
        | Key::OutputFolder
        | Key::SubmitOutput
        | Key::SubmitErrors => ValueHint::FilePath,
        Key::Hosts => ValueHint::Hostname,
        _ => ValueHint::Other,
    }
}
