//! Manual pages and completions of the shells, from the table of options.

use crate::commands;
use crate::options::{self, Listed};

/// The manual page `name`(1), in roff; `None` when there is no such page.
pub fn page(name: &str) -> Option<String> {
    match name {
        "mpiexec" => Some(mpiexec()),
        "tutti" => Some(tutti()),
        "tuttid" => Some(tuttid()),
        _ => None,
    }
}

/// The completion script of a shell; `None` when it is none of bash, zsh and fish.
pub fn completion(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        _ => None,
    }
}

fn mpiexec() -> String {
    let mut text = String::from(
        ".TH MPIEXEC 1 \"\" \"Tutti\" \"Tutti\"\n\
         .SH NAME\nmpiexec, mpirun, tutti run \\- run a parallel program\n\
         .SH SYNOPSIS\n\
         .B mpiexec\n[OPTION ...] \\-n N PROGRAM [ARGUMENT ...] [: [OPTION ...] \\-n N PROGRAM [ARGUMENT ...]]...\n\
         .SH DESCRIPTION\n\
         Starts N processes (ranks) of a program on this machine, at once, without a daemon or any configuration, and\n\
         ends when they have ended. Several programs, with a colon between them, make one job.\n\
         .PP\n\
         Options of MPICH and of Open MPI are understood. One dash or two mean the same, and\n\
         .B \\-\\-name=value\nis\n.BR \"\\-\\-name value\" .\nAn option that only steers another launcher is ignored, and one line\n\
         says so; one that would change the job, and cannot be done, is refused.\n\
         .SH OPTIONS\n",
    );
    for option in options::listed() {
        let names: Vec<String> =
            spellings(&option).iter().map(|name| format!("\\fB{}\\fR", roff(name))).collect();
        let values: String = option.values.iter().map(|value| format!(" \\fI{}\\fR", roff(value))).collect();
        text.push_str(&format!(".TP\n{}{values}\n{}\n", names.join(", "), roff(option.help)));
    }
    text.push_str(
        ".SH RANKS THAT DIE\n\
         A rank that is killed by a signal, exits with a status that is not 0, or exits without MPI_Finalize after\n\
         MPI_Init ends the whole job at once; one line says which rank, its pid and what happened. A status after\n\
         MPI_Finalize is kept while the others go on. Nothing that ranks have started stays behind.\n\
         .SH VIRTUAL NODES\n\
         With \\-\\-virtual\\-nodes or \\-\\-netns a job runs as on several machines, all on this one: consecutive ranks share a\n\
         node (\\-ppn says how many), ranks of different nodes reach each other over UDP only. The job's namespaces vanish with it.\n\
         .SH OUTPUT\n\
         Whole lines are passed on, so that those of several ranks never mix; a part of a line after 50 ms of silence, where\n\
         no terminal waits for it after 500 ms. Where stdout is a terminal, the ranks have terminals too.\n\
         .SH SIGNALS\n\
         INT, TERM, HUP and QUIT are passed on to the ranks, which are killed on a second one or 1 s later; USR1, USR2 and\n\
         WINCH are passed on. TSTP (Ctrl-Z) stops the whole job, CONT lets it go on.\n\
         .SH EXIT STATUS\n\
         The first of a rank that is not 0; 128 + n after signal n; 124 after the time\\-out; 127 when the program is not\n\
         found, 126 when it cannot be executed, 2 for a wrong command line.\n\
         .SH ENVIRONMENT\n\
         Ranks find themselves in TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK and TUTTI_LOCAL_SIZE, and in the names that other\n\
         launchers use.\n\
         .TP\n.B TUTTI_TRANSPORT\nudp: every rank is a virtual node of its own, so that all messages go over UDP; shm: the default.\n\
         .TP\n.B MPIEXEC_TIMEOUT\nEnd of the job in seconds, as \\-\\-timeout.\n\
         .TP\n.B TUTTI_CHECK\n1: the ranks look for mistakes of the program (calls that do not match, types that do not match,\n\
         overlapping buffers, deadlock, what is left at MPI_Finalize) and say them on stderr; a mistake that makes results\n\
         wrong ends the job with status 3. warn: they only say them.\n\
         .TP\n.B TUTTI_DEBUG\n1: the starter says on stderr what it does.\n\
         .TP\n.B TUTTI_STATS\n1: at the end a table of what the ranks have sent and received goes to stderr. json: for scripts.\n\
         .TP\n.B TUTTI_STARTER\nThe starter to use instead of the installed one.\n\
         .SH SEE ALSO\n.BR tutti (1)\n",
    );
    text
}

fn tutti() -> String {
    let mut text = String::from(
        ".TH TUTTI 1 \"\" \"Tutti\" \"Tutti\"\n\
         .SH NAME\ntutti \\- time-shared parallel computing\n\
         .SH SYNOPSIS\n.B tutti\nCOMMAND ...\n\
         .SH COMMANDS\n",
    );
    let listed = commands::listed();
    for (usage, help) in commands::COMMANDS {
        text.push_str(&format!(".TP\n.B {}\n{}\n", roff(usage), roff(help)));
        let name = usage.split(' ').next().unwrap_or(usage);
        for (option, help) in
            listed.iter().filter(|command| command.name == name).flat_map(|found| &found.options)
        {
            text.push_str(&format!(".br\n\\fB{}\\fR: {}\n", roff(&format!("--{option}")), roff(help)));
        }
    }
    text.push_str(
        ".SH A JOB AND ITS FRONT END\n\
         Ctrl\\-C, Ctrl\\-Z, fg, bg and signals do to a job on all its nodes what they do to a program. ~. at the beginning of a\n\
         line leaves a job of the cluster alone; ~~ is a tilde. With \\-\\-detach\\-on\\-hangup a closed terminal does the same.\n\
         .B tutti attach\nbecomes the front end of a job that has none, on any node, and shows first what the job has written lately.\n\
         .SH ENVIRONMENT\n\
         .TP\n.B TUTTI_DIR\nThe folder of sockets, key and logs: /run/tutti for root, else one of the user's.\n\
         .TP\n.B TUTTI_DAEMON\nThe socket of the daemon to be asked.\n\
         .SH EXIT STATUS\n0; 1 when it cannot be done, with one line on stderr; 2 for a wrong command line.\n\
         .SH SEE ALSO\n.BR mpiexec (1),\n.BR tuttid (8)\n",
    );
    text
}

fn tuttid() -> String {
    let mut text = String::from(
        ".TH TUTTID 8 \"\" \"Tutti\" \"Tutti\"\n\
         .SH NAME\ntuttid \\- the daemon of a node of a Tutti cluster\n\
         .SH SYNOPSIS\n.B tuttid\n[OPTION ...]\n\
         .SH DESCRIPTION\n\
         Starts and watches the parts of parallel jobs on this node and talks with the daemons of the other nodes. The one without\n\
         \\-\\-join is the controller of a new cluster. It stays in the foreground and ends, with its jobs, on TERM and INT.\n\
         Started by root it runs jobs of every user as that user, else those of its owner only.\n\
         .SH OPTIONS\n",
    );
    let command = <tutti_protocol::daemon_options::Options as clap::CommandFactory>::command();
    for (option, help) in commands::options_of(&command) {
        text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", roff(&format!("--{option}")), roff(&help)));
    }
    text.push_str(
        ".SH FILES\nIn the folder (\\-\\-dir): tuttid.sock, the local socket; cluster.key, readable by its owner only;\n\
         events.jsonl, on the controller, what has happened to jobs and nodes.\n\
         .SH SEE ALSO\n.BR tutti (1)\n",
    );
    text
}

fn spellings(option: &Listed) -> Vec<String> {
    let dashed = |name: &&str| if name.len() <= 2 { format!("-{name}") } else { format!("--{name}") };
    option.names.iter().map(dashed).collect()
}

fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

fn bash() -> String {
    let names: Vec<String> = options::listed().flat_map(|option| spellings(&option)).collect();
    let of_commands: String = commands::listed()
        .iter()
        .map(|command| {
            let options: Vec<String> =
                command.options.iter().map(|(option, _)| format!("--{option}")).collect();
            format!(
                "    {}) COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n",
                command.name,
                options.join(" ")
            )
        })
        .collect();
    format!(
        "_tutti_mpiexec() {{\n\
         \x20   local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}\n\
         \x20   case $before in\n\
         \x20   --bind | --bind-to | --binding) COMPREPLY=($(compgen -W 'share core none' -- \"$word\")) ;;\n\
         \x20   --wdir | --wd | --cwd) COMPREPLY=($(compgen -d -- \"$word\")) ;;\n\
         \x20   *)\n\
         \x20       if [[ $word == -* ]]; then\n\
         \x20           COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n\
         \x20       else\n\
         \x20           COMPREPLY=($(compgen -c -f -- \"$word\"))\n\
         \x20       fi ;;\n\
         \x20   esac\n\
         }}\n\
         complete -F _tutti_mpiexec mpiexec mpirun\n\
         _tutti() {{\n\
         \x20   local word=${{COMP_WORDS[COMP_CWORD]}}\n\
         \x20   if ((COMP_CWORD == 1)); then\n\
         \x20       COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n\
         \x20       return\n\
         \x20   fi\n\
         \x20   case ${{COMP_WORDS[1]}} in\n\
         \x20   run | submit) _tutti_mpiexec ;;\n\
         {}\
         \x20   esac\n\
         }}\n\
         complete -F _tutti tutti\n",
        names.join(" "),
        commands().join(" "),
        of_commands
    )
}

fn zsh() -> String {
    let mut text = String::from("#compdef mpiexec mpirun tutti\n_tutti_mpiexec() {\n_arguments -S \\\n");
    for option in options::listed() {
        for name in spellings(&option) {
            let help = option.help.replace(['[', ']', '\'', ':'], " ");
            let values: String =
                option.values.iter().map(|value| format!(":{}:_files", value.replace(':', " "))).collect();
            text.push_str(&format!("  '{name}[{help}]{values}' \\\n"));
        }
    }
    text.push_str("  '*::program:_normal'\n}\n");
    text.push_str(&format!(
        "_tutti_command() {{\n\
         if ((CURRENT == 2)); then\n\
         \x20 compadd -- {}\n\
         \x20 return\n\
         fi\n\
         local command=$words[2]\n\
         shift words\n\
         ((CURRENT--))\n\
         case $command in\n\
         run | submit) _tutti_mpiexec ;;\n",
        commands().join(" ")
    ));
    for command in commands::listed() {
        text.push_str(&format!("{}) _arguments ", command.name));
        for (option, help) in &command.options {
            let help = help.replace(['[', ']', '\'', ':'], " ");
            text.push_str(&format!("'--{option}[{help}]' "));
        }
        text.push_str("'*:argument:_files' ;;\n");
    }
    text.push_str(
        "esac\n}\nif [[ $service == tutti ]]; then _tutti_command \"$@\"; else _tutti_mpiexec \"$@\"; fi\n",
    );
    text
}

fn fish() -> String {
    let mut text = String::new();
    for program in ["mpiexec", "mpirun"] {
        for option in options::listed() {
            for name in option.names.iter().filter(|name| **name != "?") {
                let kind = if name.len() == 1 { "-s" } else { "-o" };
                let value = if option.values.is_empty() { "" } else { " -r" };
                let help = option.help.replace('\'', " ");
                text.push_str(&format!("complete -c {program} {kind} {name}{value} -d '{help}'\n"));
            }
        }
    }
    text.push_str(&format!("complete -c tutti -n __fish_use_subcommand -a '{}'\n", commands().join(" ")));
    for command in commands::listed() {
        for (option, help) in &command.options {
            let (name, help) = (&command.name, help.replace('\'', " "));
            text.push_str(&format!(
                "complete -c tutti -n '__fish_seen_subcommand_from {name}' -l {option} -d '{help}'\n"
            ));
        }
    }
    text
}

fn commands() -> Vec<&'static str> {
    commands::COMMANDS.iter().filter_map(|(usage, _)| usage.split(' ').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_has_every_option() {
        for text in [
            page("mpiexec").unwrap(),
            completion("bash").unwrap(),
            completion("zsh").unwrap(),
            completion("fish").unwrap(),
        ] {
            for option in options::listed() {
                for name in option.names.iter().filter(|name| **name != "?") {
                    assert!(text.contains(&roff(name)) || text.contains(name), "{name}");
                }
            }
        }
        for command in commands::listed() {
            for (option, _) in &command.options {
                let spelled = format!("--{option}");
                let texts = [page("tutti").unwrap(), completion("bash").unwrap()];
                assert!(
                    texts.iter().all(|text| text.contains(&spelled) || text.contains(&roff(&spelled))),
                    "{spelled}"
                );
            }
        }
        assert!(page("tuttid").unwrap().contains("\\-\\-lost\\-after"));
        assert_eq!(page("other"), None);
        assert_eq!(completion("csh"), None);
    }
}
