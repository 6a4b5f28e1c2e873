//! Text of `--help`: the options that do something in a command, by group.

use super::keys::{Key, Launcher, Spec};
use super::table::all;

/// An option as the user of a command sees it.
pub struct Listed {
    /// Effect of the option.
    pub key: Key,
    /// Names without dashes.
    pub names: Vec<&'static str>,
    /// Values that follow it.
    pub values: &'static [&'static str],
    /// Line of the help.
    pub help: &'static str,
}

/// The options that do something in a command, in the order of `--help`.
pub fn listed(launcher: Launcher) -> impl Iterator<Item = Listed> {
    let is_shown = move |option: &&Spec| {
        let is_other = option.key == Key::Tagged && launcher == Launcher::Submit;
        !option.help.is_empty()
            && launcher.has(option.key)
            && option.key.unfit(launcher).is_none()
            && !is_other
    };
    all().filter(is_shown).map(move |option| {
        let is_other = |name: &&&str| !(**name == "N" && launcher.counts_nodes());
        let mut names: Vec<&str> = option.names.iter().filter(is_other).copied().collect();
        if option.key == Key::Nodes && launcher.counts_nodes() {
            names.insert(0, "N");
        }
        let help = match option.key {
            Key::Ranks if launcher == Launcher::Alloc => {
                "number of ranks that the steps may have (default: one for each slot of the nodes)"
            }
            Key::Verbose if matches!(launcher, Launcher::Submit | Launcher::Alloc) => {
                "say whether the program runs once or on each rank"
            }
            Key::Ranks if launcher.counts_nodes() => {
                "number of ranks of this program (default: one for each slot of its nodes)"
            }
            Key::Nodes if launcher.counts_nodes() => {
                "run on N nodes of the cluster (-N is the number of ranks on each node for mpiexec alone)"
            }
            Key::RanksPerNode if !launcher.counts_nodes() => {
                "ranks per node (`tutti run -N` is the number of nodes)"
            }
            Key::Json => "print the job's number as JSON",
            Key::Stdin if launcher == Launcher::Submit => "none: a submitted job has no stdin",
            _ => option.help,
        };
        Listed { key: option.key, names, values: option.values, help }
    })
}

/// The groups of `--help`, in their order.
const GROUPS: [(&str, &[Key]); 7] = [
    (
        "Processes and cores",
        &[
            Key::Ranks,
            Key::ConfigFile,
            Key::RanksPerNode,
            Key::CoresPerRank,
            Key::BindTo,
            Key::ReportBindings,
            Key::MapBy,
            Key::RankBy,
            Key::NoOversubscribe,
            Key::Oversubscribe,
            Key::Universe,
            Key::InitialHandler,
        ],
    ),
    (
        "Nodes",
        &[
            Key::Nodes,
            Key::Hosts,
            Key::HostFile,
            Key::Exclude,
            Key::VirtualNodes,
            Key::Namespaces,
            Key::NamespaceMtus,
        ],
    ),
    (
        "Environment",
        &[
            Key::Directory,
            Key::Files,
            Key::SearchPath,
            Key::OwnMpi,
            Key::Export,
            Key::Variable,
            Key::VariableList,
            Key::NoneInherited,
            Key::AllVariable,
            Key::AllVariableList,
            Key::AllInherited,
        ],
    ),
    (
        "Input and output",
        &[
            Key::Label,
            Key::Tagged,
            Key::OutputFile,
            Key::ErrorsFile,
            Key::OutputFolder,
            Key::SubmitOutput,
            Key::SubmitErrors,
            Key::OpenMode,
            Key::Stdin,
            Key::Pty,
            Key::DetachOnHangup,
        ],
    ),
    (
        "Sharing the machine",
        &[
            Key::Gang,
            Key::NoGang,
            Key::Weight,
            Key::Queue,
            Key::Exclusive,
            Key::Memory,
            Key::Gpus,
            Key::Fill,
            Key::Phases,
        ],
    ),
    (
        "Begin and end",
        &[
            Key::Timeout,
            Key::Time,
            Key::KillAfter,
            Key::OnDeadlock,
            Key::OnIdle,
            Key::Name,
            Key::After,
            Key::AfterOk,
            Key::AfterNotOk,
            Key::AfterSameName,
            Key::Reservation,
            Key::Begin,
            Key::Signal,
            Key::Hold,
            Key::Requeue,
            Key::Array,
            Key::MailType,
            Key::MailUser,
        ],
    ),
    ("This command", &[Key::Json, Key::Quiet, Key::Verbose, Key::Version, Key::Help]),
];

/// Columns of `--help`.
const COLUMNS: usize = 80;

/// Where the text of an option begins.
const TEXT_COLUMN: usize = 26;

/// The text of `--help`: options by group, at most 80 columns wide.
pub fn help(name: &str, launcher: Launcher) -> String {
    let what = match launcher {
        Launcher::Mpiexec => "Runs a parallel program: N processes (ranks) of it on this machine.",
        Launcher::Run => {
            "Runs a parallel program on the cluster whose daemon is found here: N processes (ranks) of it, on as \
             many nodes as -N says. Without -n there is one rank for each slot of those nodes (of one node, if -N \
             is not given). Where there is no cluster it runs on this machine."
        }
        Launcher::Submit => {
            "Gives the cluster a parallel program to run, and does not wait for it: N processes (ranks) of it, on \
             as many nodes as -N says. Without -n there is one rank for each slot of those nodes (of one node, if \
             -N is not given). A script (#!) runs once, on the first of the nodes, and mpiexec in it starts the \
             ranks; it may have these options in lines that begin with #TUTTI, above its first command. Those given \
             here come before them."
        }
        Launcher::Alloc => {
            "Runs a command, or without one a shell, on the first of N nodes of the cluster. mpiexec in it starts \
             ranks on all of them, as many as -n says, as often as you like, and several programs side by side. The \
             nodes are given back when the command ends."
        }
    };
    let line = match launcher {
        Launcher::Alloc => "[OPTION ...] [-n N] [COMMAND [ARGUMENT ...]]",
        _ => "[OPTION ...] -n N PROGRAM [ARGUMENT ...] [: ...]",
    };
    let mut text = format!("usage: {name} {line}\n\n{}\n", wrapped(what, 0));
    text += &format!("\nExamples:\n{}", examples(name, launcher));
    let options: Vec<Listed> = listed(launcher).collect();
    for (title, keys) in GROUPS {
        let of_group: Vec<&Listed> = options.iter().filter(|option| keys.contains(&option.key)).collect();
        if !of_group.is_empty() {
            text += &format!("\n{title}:\n");
        }
        for option in of_group {
            text += &line_of(option);
        }
    }
    text.push('\n');
    text += &wrapped(
        "Several programs make one job with a colon between them. One dash or two mean the same. An option of MPICH \
         or Open MPI that controls only its own launcher is ignored, and one line says so (not with -q); one that \
         would change the job, and is not above, is refused.",
        0,
    );
    text.push('\n');
    text += &wrapped(
        "The exit status is the first of a rank that is not 0; 128 + n after signal n; 124 after the time-out.",
        0,
    );
    text.push('\n');
    text
}

fn examples(name: &str, launcher: Launcher) -> String {
    let lines: &[(&str, &str)] = match launcher {
        Launcher::Mpiexec => &[
            ("-n 4 ./a.out", "four ranks on this machine"),
            ("-n 1 ./master : -n 3 ./worker", "two programs, one job"),
            ("-l -n 4 ./a.out", "each line begins with its rank"),
            ("--host a:2,b:2 ./a.out", "on two nodes of the cluster"),
        ],
        Launcher::Run => &[
            ("-N 2 -n 8 ./a.out", "eight ranks on two nodes"),
            ("--pty -n 1 bash", "a shell on a node"),
            ("--time 10m -N 2 ./a.out", "ends after ten minutes"),
        ],
        Launcher::Submit => &[
            ("-N 2 -n 8 --time 2h ./a.out", "prints the job's number"),
            ("-o out.%j -n 4 ./a.out", "a file for the output"),
            ("--after-ok 17 -n 4 ./b.out", "when job 17 has ended well"),
            ("-N 2 -n 8 job.sh", "mpiexec in it has the ranks"),
        ],
        Launcher::Alloc => &[
            ("-N 2 -n 8", "a shell; mpiexec in it has 8 ranks"),
            ("-N 2 --time 1h make check", "one command"),
        ],
    };
    lines.iter().map(|(line, what)| format!("  {:46} {what}\n", format!("{name} {line}"))).collect()
}

/// An option and its text, the names on a line of their own where they are long.
fn line_of(option: &Listed) -> String {
    let dashed = |name: &&str| if name.len() <= 2 { format!("-{name}") } else { format!("--{name}") };
    let mut left: Vec<String> = Vec::new();
    let values = option.values.join(" ");
    for (place, name) in option.names.iter().enumerate() {
        let is_last = place + 1 == option.names.len();
        let word = match (is_last, values.is_empty()) {
            (false, _) => format!("{},", dashed(name)),
            (true, true) => dashed(name),
            (true, false) => format!("{} {values}", dashed(name)),
        };
        match left.last_mut() {
            Some(line) if 3 + line.len() + word.len() <= COLUMNS => *line += &format!(" {word}"),
            _ => left.push(word),
        }
    }
    let names = left.join("\n      ");
    let text = wrapped(option.help, TEXT_COLUMN);
    if left.len() == 1 && names.len() + 3 < TEXT_COLUMN {
        format!("  {names:width$}{}\n", text.trim_start(), width = TEXT_COLUMN - 2)
    } else {
        format!("  {names}\n{text}\n")
    }
}

/// Text in lines of at most 80 columns, each behind so many blanks.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => *line += &format!(" {word}"),
            _ => lines.push(format!("{:indent$}{word}", "")),
        }
    }
    lines.join("\n")
}
