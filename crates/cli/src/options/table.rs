//! The table of options: those of our own, then those of other launchers. `tests/launch/every_option.rs`
//! reads it too, so it needs nothing but [`Key`] and [`FOREIGN`].

use super::foreign::FOREIGN;
use super::keys::{Key, Spec, option};

/// All options.
pub fn all() -> impl Iterator<Item = &'static Spec> {
    OPTIONS.iter().chain(FOREIGN)
}

/// Options of our own.
pub const OPTIONS: &[Spec] = &[
    option(Key::Ranks, &["n", "np"], &["N"], "number of ranks of this program (default: one per core)"),
    option(Key::Directory, &["wdir", "wd", "cwd"], &["DIR"], "working directory"),
    option(
        Key::Files,
        &["files"],
        &[],
        "the working directory is there on nodes that have not got it; --files=FOLDER: that folder; \
         --files=FOLDER:ro: nothing in it may be changed",
    ),
    option(Key::SearchPath, &["path"], &["DIRS"], "search the program here before PATH"),
    option(Key::OwnMpi, &["own-mpi"], &[], "a program of MPICH runs on its own library, not on Tutti's"),
    option(
        Key::InitialHandler,
        &["initial-errhandler"],
        &["HANDLER"],
        "of MPI_COMM_WORLD: mpi_errors_are_fatal (default), mpi_errors_abort, mpi_errors_return",
    ),
    option(Key::Export, &["x"], &["VAR[=VALUE]"], "set a variable, or pass one on"),
    option(Key::Variable, &["env"], &["VAR", "VALUE"], "set a variable"),
    option(Key::VariableList, &["envlist"], &["VAR,..."], "pass on only these variables"),
    option(Key::NoneInherited, &["envnone"], &[], "pass on no variables but the most needed"),
    option(Key::AllVariable, &["genv"], &["VAR", "VALUE"], "set a variable for all programs"),
    option(Key::AllVariableList, &["genvlist"], &["VAR,..."], "pass on only these variables to all programs"),
    option(Key::NoneInherited, &["genvnone"], &[], "pass on no variables but the most needed"),
    option(Key::AllInherited, &["genvall", "envall"], &[], "pass on all variables (the default)"),
    option(
        Key::BindTo,
        &["bind-to", "bind", "binding"],
        &["WHAT"],
        "share (default): an even share of the cores as a set; core: one core each; none",
    ),
    option(
        Key::CoresPerRank,
        &["c", "cpus-per-rank", "cpus-per-proc", "cpus-per-task"],
        &["N"],
        "cores that a rank needs",
    ),
    option(Key::BindToCore, &["bind-to-core"], &[], ""),
    option(Key::BindToNone, &["bind-to-none"], &[], ""),
    option(Key::ReportBindings, &["report-bindings"], &[], "print which rank is bound to which cores"),
    option(
        Key::NoOversubscribe,
        &["nooversubscribe", "no-oversubscribe"],
        &[],
        "refuse more ranks than cores",
    ),
    option(Key::Oversubscribe, &["oversubscribe"], &[], "take more ranks than cores (the default)"),
    option(
        Key::MapBy,
        &["map-by", "mapby"],
        &["HOW"],
        "slot, core, hwthread: consecutive ranks are on one node (the default); ppr:N:node: -ppn N; \
         node: of one node alone; socket, numa and other parts of a node: as slot; \
         behind a colon PE=N (-c N), OVERSUBSCRIBE, NOOVERSUBSCRIBE",
    ),
    option(
        Key::RankBy,
        &["rank-by", "rankby"],
        &["HOW"],
        "slot, core, hwthread, fill: ranks are numbered node by node (the default); node: of one node alone",
    ),
    option(
        Key::Weight,
        &["weight"],
        &["N"],
        "share of the time beside jobs that want the same cores, 1 to 10000 (default 100)",
    ),
    option(
        Key::Queue,
        &["queue", "partition"],
        &["NAME"],
        "the queue of the cluster's configuration that the job is given to (cluster)",
    ),
    option(
        Key::Exclusive,
        &["exclusive"],
        &[],
        "no other job has ranks on its nodes; it waits until there are such nodes (cluster)",
    ),
    option(
        Key::Memory,
        &["memory", "mem"],
        &["SIZE"],
        "memory on each node of the cluster, 512M, 4G (M if no letter): the job waits until so much is left",
    ),
    option(
        Key::Gpus,
        &["gpus", "gpus-per-node"],
        &["N"],
        "GPUs on each node of the cluster that no other job has till its end: the job waits until so many are left",
    ),
    option(
        Key::Gang,
        &["gang"],
        &[],
        "take turns with other jobs, all ranks together (the default, for any program)",
    ),
    option(Key::NoGang, &["no-gang"], &[], "take no turns: run all the time, under the kernel's scheduler"),
    option(
        Key::Fill,
        &["fill"],
        &[],
        "a filler: has only what jobs that are none leave of the cores (a job of the cluster)",
    ),
    option(
        Key::Phases,
        &["phases"],
        &[],
        "share the node's parallel slots with others that do: --phases=time|shared|hints[:US] (hints; one node)",
    ),
    option(Key::Label, &["l", "label", "prepend-rank", "tag-output"], &[], "begin each line with its rank"),
    option(
        Key::Tagged,
        &["output"],
        &["tag[:COLUMNS]"],
        "the same, as Open MPI calls it (`tutti submit`: -o); with COLUMNS as `srun -l` has it: `3: text`",
    ),
    option(Key::OutputFile, &["outfile-pattern"], &["FILE"], "stdout into files; %r is the rank"),
    option(Key::ErrorsFile, &["errfile-pattern"], &["FILE"], "stderr into files; %r is the rank"),
    option(
        Key::OutputFolder,
        &["output-filename"],
        &["NAME"],
        "stdout and stderr into NAME.RANK.out and .err",
    ),
    option(
        Key::SubmitOutput,
        &["o"],
        &["FILE"],
        "file for stdout, of the job's own user (default tutti-%j.out in this folder); %j is the job, %r the rank, \
         %N its node, one file for each; none: the last MiB is kept for `tutti logs`",
    ),
    option(Key::SubmitErrors, &["e", "error"], &["FILE"], "the same for stderr (default: with stdout)"),
    option(
        Key::OpenMode,
        &["open-mode"],
        &["MODE"],
        "truncate (default): the files begin empty; append: after what is in them",
    ),
    option(Key::Stdin, &["stdin", "s"], &["WHO"], "which ranks get stdin: a rank (default 0), all, none"),
    option(Key::Pty, &["pty"], &[], "the terminal is rank 0's: every key goes to it, Ctrl-Z and Ctrl-C too"),
    option(
        Key::DetachOnHangup,
        &["detach-on-hangup"],
        &[],
        "a closed terminal does not end a job of the cluster: `tutti attach` returns to it",
    ),
    option(Key::Timeout, &["timeout"], &["SECONDS"], "end the job after this time with status 124"),
    option(
        Key::Time,
        &["time", "t"],
        &["LIMIT"],
        "time limit of the job: 10m, 2h, minutes, HH:MM:SS, D-HH:MM; then TERM, 10 s later KILL, status 124",
    ),
    option(
        Key::KillAfter,
        &["kill-after"],
        &["SECONDS"],
        "between the signal that ends the job, or TERM at its limit, and KILL: seconds, or 2m, 1h (default: 1 s; at a time limit 10 s; at mpiexec's --timeout no TERM)",
    ),
    option(
        Key::OnDeadlock,
        &["on-deadlock"],
        &["DO"],
        "when its ranks wait for each other for ever: report (default), suspend, or end it with status 35",
    ),
    option(
        Key::OnIdle,
        &["on-idle"],
        &["DO"],
        "when nothing of it has worked for a time: keep (default), or suspend=TIME (10m) until `tutti resume`",
    ),
    option(
        Key::Name,
        &["name", "J", "job-name"],
        &["NAME"],
        "what `tutti ps` and `tutti status` call the job",
    ),
    option(
        Key::After,
        &["after", "after-any"],
        &["JOB[:JOB...]"],
        "a job of the cluster starts when these are over, however they ended",
    ),
    option(
        Key::AfterOk,
        &["after-ok"],
        &["JOB[:JOB...]"],
        "a job of the cluster starts when these have ended with status 0, and ends if one of them has not",
    ),
    option(
        Key::AfterNotOk,
        &["after-not-ok"],
        &["JOB[:JOB...]"],
        "a job of the cluster starts when these have ended with another status than 0, and ends if one has not",
    ),
    option(
        Key::AfterSameName,
        &["after-same-name"],
        &[],
        "a job of the cluster starts when no earlier one of your jobs with its name is left",
    ),
    option(
        Key::Begin,
        &["begin"],
        &["TIME"],
        "a job of the cluster gets no nodes before: +2h, 17:30, 2026-12-24, 2026-12-24T17:30",
    ),
    option(
        Key::Exclude,
        &["exclude"],
        &["NODES"],
        "nodes of the cluster that the job is not to have, with commas between them",
    ),
    option(
        Key::Reservation,
        &["reservation"],
        &["NAME"],
        "a job of the cluster runs on nodes of this reservation, while it lasts (`tutti reserve`)",
    ),
    option(
        Key::MailType,
        &["mail-type"],
        &["EVENTS"],
        "mail about a job of the cluster, where its keeper has set a command for mail: BEGIN, END, FAIL, TIME_LIMIT, \
         REQUEUE, ALL",
    ),
    option(Key::MailUser, &["mail-user"], &["ADDRESS"], "where that mail goes (default: to your name)"),
    option(
        Key::Signal,
        &["signal"],
        &["SIG@SECONDS"],
        "all ranks of a job of the cluster get this signal so long before --time is over (60 s without @SECONDS)",
    ),
    option(
        Key::Requeue,
        &["requeue"],
        &[],
        "`tutti submit` alone: the job begins anew when a node of it is lost, under another number",
    ),
    option(Key::Hold, &["hold"], &[], "`tutti submit` alone: the job gets no nodes until `tutti release`"),
    option(
        Key::Array,
        &["array", "a"],
        &["TASKS"],
        "`tutti submit` alone: a job for each number, such as 1-100, 0-9:3 or 1,5,7; %N behind it: N at once at \
         most. The number is in TUTTI_ARRAY_TASK, and %a of the name of an output file",
    ),
    option(Key::Json, &["json"], &[], "`tutti submit` alone: print the job's number as JSON"),
    option(
        Key::Hosts,
        &["host", "hosts", "H"],
        &["LIST"],
        "nodes of the cluster to run on, in order: NAME or NAME:RANKS, with commas between them",
    ),
    option(
        Key::HostFile,
        &["hostfile", "f", "machinefile", "default-hostfile"],
        &["FILE"],
        "a file with one node per line: NAME, NAME:RANKS or NAME slots=RANKS",
    ),
    option(
        Key::ConfigFile,
        &["configfile", "app"],
        &["FILE"],
        "in place of the programs: a file with a program and its options in each line",
    ),
    option(Key::RanksPerNode, &["ppn", "N", "npernode", "perhost"], &["N"], "ranks per node"),
    option(Key::OnePerNode, &["pernode"], &[], ""),
    option(
        Key::Nodes,
        &["nodes"],
        &["N"],
        "run on N nodes of the cluster whose daemon is found here (`tutti run`: -N)",
    ),
    option(
        Key::Universe,
        &["universe", "usize"],
        &["N"],
        "how many ranks the program may have with those that it starts itself (MPI_UNIVERSE_SIZE); SYSTEM, INFINITE: \
         as many as there is room for by default",
    ),
    option(
        Key::VirtualNodes,
        &["virtual-nodes"],
        &["N"],
        "run as on N nodes, all on this machine: ranks of different nodes reach each other over UDP",
    ),
    option(
        Key::Namespaces,
        &["netns"],
        &["N"],
        "the same with a network namespace for each node, joined by virtual cables (for root)",
    ),
    option(
        Key::NamespaceMtus,
        &["netns-mtu"],
        &["BYTES"],
        "longest packet on those cables: of each node, with commas between them; the last holds for the rest",
    ),
    option(Key::Quiet, &["q", "quiet"], &[], "no remarks about options of other launchers"),
    option(Key::Verbose, &["v", "verbose"], &[], "print what is started where"),
    option(Key::Version, &["V", "version", "info"], &[], "print the version"),
    option(Key::Help, &["h", "help", "?"], &[], "print this text"),
    option(Key::Always, &["allow-run-as-root", "use-hwthread-cpus"], &[], ""),
    option(Key::MemoryKinds, &["memory-alloc-kinds"], &["LIST"], ""),
];

/// The names of all options that do something, without dashes.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().flat_map(|option| option.names.iter().copied())
}
