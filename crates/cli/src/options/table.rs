//! The table of options, and its text for people. `tests/launch/every_option.rs` reads it too, so it needs
//! nothing else.

/// The command whose line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `mpiexec`, `mpirun`.
    Mpiexec,
    /// `tutti run`.
    Run,
    /// `tutti submit`.
    Submit,
    /// `tutti alloc`.
    Alloc,
}

impl Launcher {
    /// -N is the number of nodes, as for users of Slurm; for Open MPI's mpirun it is the number of ranks on
    /// each.
    pub fn counts_nodes(self) -> bool {
        self != Launcher::Mpiexec
    }

    /// Whether it has this option.
    pub fn has(self, key: Key) -> bool {
        self == Launcher::Submit || !OF_SUBMIT.contains(&key)
    }
}

/// Why an option has no effect in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The job would be another one than was asked for: nothing is started.
    Refused(&'static str),
    /// The job is the same: one line tells the user.
    Ignored(&'static str),
}

const NO_VIRTUAL_NODES: &str =
    "a submitted job runs on nodes of the cluster; tutti run and mpiexec have virtual nodes";
const NO_VIRTUAL_NODES_HERE: &str = "an allocation has nodes of the cluster; mpiexec in it has virtual nodes";
const OF_STEPS: &str = "the command has all cores of the allocation; mpiexec in it binds its ranks";
const NO_RESTART: &str = "a rank that dies ends the job";
const MAP: &str = "-v, or tutti status of a submitted job, prints what is started where";
const START: &str = "a submitted job has no front end; tutti status shows where it runs";

/// Effects of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Ranks,
    CoresPerRank,
    Hosts,
    HostFile,
    RanksPerNode,
    Nodes,
    VirtualNodes,
    Universe,
    Namespaces,
    NamespaceMtus,
    BindTo,
    ReportBindings,
    Export,
    Variable,
    AllVariable,
    VariableList,
    AllVariableList,
    AllInherited,
    NoneInherited,
    Directory,
    Files,
    SearchPath,
    InitialHandler,
    Label,
    OutputFile,
    ErrorsFile,
    OutputFolder,
    SubmitOutput,
    SubmitErrors,
    OpenMode,
    Stdin,
    Pty,
    DetachOnHangup,
    Timeout,
    Time,
    KillAfter,
    OnDeadlock,
    OnIdle,
    Name,
    After,
    AfterOk,
    AfterNotOk,
    AfterSameName,
    Begin,
    Exclude,
    Signal,
    Hold,
    Requeue,
    Array,
    Json,
    NoOversubscribe,
    Weight,
    Queue,
    Exclusive,
    Memory,
    Gpus,
    Gang,
    NoGang,
    Fill,
    Phases,
    Quiet,
    Verbose,
    Version,
    Help,
    Oversubscribe,
    MapBy,
    RankBy,
    OnePerNode,
    BindToCore,
    BindToNone,
    MemoryKinds,
    OwnMpi,
    Tagged,
    /// Asks for what is always so here.
    Always,
    /// Controls another launcher only.
    Foreign,
    Unfit(Unfit),
}

impl Key {
    /// Why a command does not do it; none: it does.
    pub fn unfit(self, launcher: Launcher) -> Option<Unfit> {
        match self {
            Key::Unfit(unfit) => Some(unfit),
            Key::VirtualNodes | Key::Namespaces | Key::NamespaceMtus if launcher == Launcher::Alloc => {
                Some(Unfit::Refused(NO_VIRTUAL_NODES_HERE))
            }
            Key::BindTo | Key::CoresPerRank | Key::ReportBindings if launcher == Launcher::Alloc => {
                Some(Unfit::Refused(OF_STEPS))
            }
            _ if launcher != Launcher::Submit => None,
            Key::VirtualNodes | Key::Namespaces | Key::NamespaceMtus => {
                Some(Unfit::Refused(NO_VIRTUAL_NODES))
            }
            Key::Pty => Some(Unfit::Refused("a submitted job has no terminal; tutti run has it")),
            Key::DetachOnHangup => Some(Unfit::Ignored("a submitted job needs no terminal in any case")),
            Key::ReportBindings => Some(Unfit::Ignored(START)),
            _ => None,
        }
    }
}

/// One option of the table.
pub struct Spec {
    /// Effect of the option.
    pub key: Key,
    /// Names without dashes.
    pub names: &'static [&'static str],
    /// Values, as `--help` shows them.
    pub values: &'static [&'static str],
    /// One line; empty: accepted and not shown.
    pub help: &'static str,
}

const fn option(
    key: Key,
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> Spec {
    Spec { key, names, values, help }
}

/// Options that are for one program; the others are for the whole job.
pub const OF_A_PROGRAM: [Key; 11] = [
    Key::Ranks,
    Key::Hosts,
    Key::HostFile,
    Key::Export,
    Key::Variable,
    Key::VariableList,
    Key::NoneInherited,
    Key::Directory,
    Key::SearchPath,
    Key::OwnMpi,
    Key::InitialHandler,
];

/// Options that only `tutti submit` has.
pub const OF_SUBMIT: [Key; 7] =
    [Key::Json, Key::SubmitOutput, Key::SubmitErrors, Key::OpenMode, Key::Hold, Key::Requeue, Key::Array];

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
    option(Key::Tagged, &["output"], &["tag"], "the same, as Open MPI calls it (`tutti submit`: -o)"),
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
        "time limit of a job of the cluster: 10m, 2h, minutes, HH:MM:SS, D-HH:MM; then TERM, 10 s later KILL, status 124",
    ),
    option(
        Key::KillAfter,
        &["kill-after"],
        &["SECONDS"],
        "between the signal that ends the job, or TERM at its limit, and KILL: seconds, or 2m, 1h (default: 1 s; at --time 10 s; at --timeout no TERM)",
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
    option(
        Key::Unfit(Unfit::Ignored(MAP)),
        &[
            "display-map",
            "display-allocation",
            "display-devel-map",
            "display-devel-allocation",
            "display-topo",
        ],
        &[],
        "",
    ),
    option(Key::Unfit(Unfit::Ignored(MAP)), &["display"], &["VALUE"], ""),
    option(
        Key::Unfit(Unfit::Ignored("the first exit status that is not 0 is printed, and is the command's")),
        &["print-all-exitcodes"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Ignored("INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are forwarded in any case")),
        &["forward-signals"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("signals are always forwarded to the ranks")),
        &["forward-signals-none"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("a job that is given is started; -v prints what is started where")),
        &["do-not-launch"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("--host names the nodes that the job is to have")),
        &["nolocal", "skip-launch-node"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("--host names the nodes that the job is to have")),
        &["rankmap", "add-host", "add-hostfile", "rankfile", "rf"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("--bind-to, -c and --report-bindings choose and show the cores of a rank")),
        &["cpu-set", "cpu-list", "slot-list", "membind"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("-l begins each line with its rank")),
        &["prepend-pattern"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused(
            "-l begins each line with its rank, and the shell's 2>&1 puts both streams together",
        )),
        &["timestamp-output", "xml", "merge-stderr-to-stdout"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("--output-filename, --outfile-pattern and --errfile-pattern write files")),
        &["output-directory"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused(
            "`mpiexec -n 1 gdb --args PROGRAM`, or gdb -p with a pid that -v prints, debugs a rank",
        )),
        &["debug", "tv", "stop-on-exec", "stop-in-init", "stop-in-app"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused(
            "a terminal shows all ranks with -l; `mpiexec -n N xterm -e PROGRAM` has one for each",
        )),
        &["xterm"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("programs and their files are found where they are on each node")),
        &["preload-files"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("programs and their files are found where they are on each node")),
        &["preload-binary", "set-cwd-to-session-dir"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("GPUs are no resource yet: a job sees all of its node")),
        &["gpus-per-proc", "gpu-subdevs-per-proc"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused(NO_RESTART)),
        &["disable-auto-cleanup", "enable-recovery", "continuous"],
        &[],
        "",
    ),
    option(Key::Unfit(Unfit::Refused(NO_RESTART)), &["max-restarts", "with-ft"], &["VALUE"], ""),
    option(
        Key::Unfit(Unfit::Refused("ranks are bound to cores in their own order")),
        &["order-nodes", "npersocket"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("ranks are numbered node by node, and -ppn N is how many a node gets")),
        &["bynode", "byslot"],
        &[],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused(
            "programs and options are given in the command line, with colons between them",
        )),
        &["configfile", "app"],
        &["VALUE"],
        "",
    ),
    option(
        Key::Unfit(Unfit::Refused("Tutti has no options for what it does at errors")),
        &["runtime-options"],
        &["VALUE"],
        "",
    ),
    option(Key::Foreign, &["mca", "omca", "gmca", "prtemca", "pmixmca", "gpmixmca"], &["NAME", "VALUE"], ""),
    option(
        Key::Foreign,
        &[
            "pmi-port",
            "enable-x",
            "disable-x",
            "profile",
            "hybrid-hosts",
            "disable-hostname-propagation",
            "debug-daemons",
            "debug-daemons-file",
            "leave-session-attached",
            "get-stack-traces",
            "report-state-on-timeout",
            "report-child-jobs-separately",
            "show-progress",
            "noprefix",
            "no-app-prefix",
            "hetero-nodes",
            "set-sid",
            "system-server-first",
            "system-server-only",
            "disable-recovery",
            "parsable",
            "parseable",
        ],
        &[],
        "",
    ),
    option(
        Key::Foreign,
        &[
            "iface",
            "launcher",
            "launcher-exec",
            "bootstrap",
            "bootstrap-exec",
            "rmk",
            "tune",
            "demux",
            "personality",
            "localhost",
            "am",
            "prefix",
            "topolib",
            "nameserver",
            "pmix-prefix",
            "app-pmix-prefix",
            "tmpdir",
            "pset",
            "spawn-timeout",
            "dvm",
            "dvm-uri",
            "keepalive",
            "launch-agent",
            "max-vm-size",
            "report-pid",
            "report-uri",
            "stream-buffering",
        ],
        &["VALUE"],
        "",
    ),
];

/// An option as the user of a command sees it.
pub struct Listed {
    /// Effect of the option.
    pub key: Key,
    /// Names without dashes.
    pub names: Vec<&'static str>,
    /// Values that follow it.
    pub values: &'static [&'static str],
    /// One line.
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
    OPTIONS.iter().filter(is_shown).map(move |option| {
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
            Key::Begin,
            Key::Signal,
            Key::Hold,
            Key::Requeue,
            Key::Array,
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
