//! Effects of options, which command has them, and rows of the table. `tests/launch/every_option.rs` reads
//! this, too.

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
pub const NO_RESTART: &str = "a rank that dies ends the job";
pub const MAP: &str = "-v, or tutti status of a submitted job, prints what is started where";
const START: &str = "a submitted job has no front end; tutti status shows where it runs";

/// Effects of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Ranks,
    CoresPerRank,
    Hosts,
    HostFile,
    ConfigFile,
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
    Reservation,
    MailType,
    MailUser,
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

/// One option of the table.
pub struct Spec {
    /// Effect of the option.
    pub key: Key,
    /// Names without dashes.
    pub names: &'static [&'static str],
    /// Values, as `--help` shows them.
    pub values: &'static [&'static str],
    /// Line of the help; empty: accepted and not shown.
    pub help: &'static str,
}

/// A row of the table.
pub const fn option(
    key: Key,
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> Spec {
    Spec { key, names, values, help }
}
