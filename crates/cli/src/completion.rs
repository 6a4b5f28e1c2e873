//! Completions of the shells, by clap's generator.

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::shells::{Bash, Fish, Zsh};
use tutti_protocol::daemon_options;

use crate::options::{self, Launcher};

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// A program whose command line is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Completed {
    Mpiexec,
    Mpirun,
    Tutti,
    Tuttid,
}

impl Completed {
    pub const ALL: [Completed; 4] =
        [Completed::Mpiexec, Completed::Mpirun, Completed::Tutti, Completed::Tuttid];
}

/// In bash a word of a job's line that is no option is a program or a file of its; clap's script offers files
/// alone.
const BASH_PROGRAM: &str = r#"
_tutti_program() {
    local word=${COMP_WORDS[COMP_CWORD]}
    if ((${#COMPREPLY[@]} == 0)) && [[ $word != -* ]]; then
        COMPREPLY=($(compgen -c -f -- "$word"))
    fi
}
"#;

/// The script for a program; `tutti` is the line of that command.
pub fn text(shell: Shell, program: Completed, tutti: Command) -> String {
    let (name, mut command) = match program {
        Completed::Mpiexec => ("mpiexec", options::command("mpiexec", Launcher::Mpiexec)),
        Completed::Mpirun => ("mpirun", options::command("mpirun", Launcher::Mpiexec)),
        Completed::Tutti => ("tutti", tutti),
        Completed::Tuttid => ("tuttid", daemon_options::Options::command()),
    };
    let mut script = Vec::new();
    match shell {
        Shell::Bash => clap_complete::generate(Bash, &mut command, name, &mut script),
        Shell::Zsh => clap_complete::generate(Zsh, &mut command, name, &mut script),
        Shell::Fish => clap_complete::generate(Fish, &mut command, name, &mut script),
    }
    let mut script = String::from_utf8(script).expect("options are text");
    let is_job = match program {
        Completed::Mpiexec | Completed::Mpirun => "true",
        Completed::Tutti => "[[ ${COMP_WORDS[1]} == run || ${COMP_WORDS[1]} == submit ]]",
        Completed::Tuttid => return script,
    };
    if shell == Shell::Bash {
        script.push_str(BASH_PROGRAM);
        script.push_str(&format!(
            "_{name}_or_program() {{\n    _{name} \"$@\"\n    if {is_job}; then _tutti_program; fi\n}}\n\
             complete -o bashdefault -o default -F _{name}_or_program {name}\n"
        ));
    }
    script
}
