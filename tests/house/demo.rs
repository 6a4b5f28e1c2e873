//! `make demo` (mk/demo.sh) on machines that lack something: a network, a compiler, a path without blanks,
//! the patience of its user. The tree is that of target/dist; what Python's pip would fetch reaches nobody.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::await_that;
use tutti_tests::{Scratch, root, run};

/// Two programs share the cores in turns, and so may others.
const LIMIT: Duration = Duration::from_secs(100);

/// A Python whose pip finds no network, as pip says it.
const PYTHON: &str = r#"#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && ln -s "$0" "$3/bin/python" ;;
*" install "*) echo "ERROR: No matching distribution found: Network is unreachable" >&2; exit 1 ;;
esac
"#;

/// A clone in which everything is built, in a path with blanks.
struct Clone {
    folder: PathBuf,
    tools: PathBuf,
    _scratch: Scratch,
}

impl Clone {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let (folder, tools) = (scratch.path().join("a clone of it"), scratch.path().join("tools"));
        for made in ["crates", "bindings", "target/dist-work"] {
            fs::create_dir_all(folder.join(made)).expect("a folder");
        }
        run(Command::new("cp").arg("-r").arg(root().join("mk")).arg(&folder), LIMIT).expect_success();
        for file in ["Cargo.toml", "Cargo.lock"] {
            fs::copy(root().join(file), folder.join(file)).expect("a file");
        }
        symlink(root().join("examples"), folder.join("examples")).expect("a link");
        symlink(tutti_tests::dist(), folder.join("target/dist")).expect("a link");
        fs::write(folder.join("target/dist-work/complete"), "").expect("a file");
        fs::create_dir(&tools).expect("a folder");
        Clone { folder, tools, _scratch: scratch }
    }

    fn tool(&self, name: &str, text: &str) {
        let path = self.tools.join(name);
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    /// `mk/demo.sh` with these folders of programs.
    fn demo(&self, path: &str) -> Command {
        let mut demo = Command::new("/bin/bash");
        demo.arg("mk/demo.sh").current_dir(&self.folder).env("PATH", path).env("TURNS_ROUNDS", "2000");
        for variable in ["DEMO_MPICC", "DEMO_MPIEXEC", "TUTTI_DAEMON", "TUTTI_DIR"] {
            demo.env_remove(variable);
        }
        demo
    }

    /// Processes that have something of it in their command line.
    fn processes(&self) -> usize {
        let name = self.folder.as_os_str().as_encoded_bytes();
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.windows(name.len()).any(|part| part == name)).count()
    }
}

/// Interrupted half-way and begun again, then once more: each time what needs no network runs.
#[test]
fn demo_without_network_in_a_path_with_blanks_runs_again_after_an_interruption() {
    let clone = Clone::new("demo");
    clone.tool("python3", PYTHON);
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", clone.tools.display());
    let said = clone.folder.join("said");
    let file = fs::File::create(&said).expect("a file");
    let mut demo = clone.demo(&path);
    let mut first = demo.stdin(Stdio::null()).stdout(file).spawn().expect("a shell");
    let text = || fs::read_to_string(&said).expect("what it said");
    await_that("it shows C programs", || text().contains("\n3/5 "));
    kill_process(Pid::from_child(&first), Signal::INT).expect("it lives");
    assert_eq!(first.wait().expect("our child").code(), Some(130), "{}", text());
    assert!(text().ends_with("demo: interrupted; make demo goes on from here\n"), "{}", text());
    await_that("nothing of it is left", || clone.processes() == 0);

    for _ in 0..2 {
        let ran = run(&mut clone.demo(&path), LIMIT).expect_success();
        for line in ["1/5 ", "2/5 building Tutti (it is built)", "3/5 ", "4/5 ", "5/5 "] {
            assert!(ran.stdout.lines().any(|said| said.starts_with(line)), "{line}: {ran}");
        }
        assert!(ran.stdout.contains("\n    left out: mpi4py could not be had from PyPI: "), "{ran}");
        assert!(ran.stdout.contains("MPICH beside it: left out, mpich==5.0.2 cannot be had"), "{ran}");
        assert!(ran.stdout.contains("\nall of it ran but what was left out, in "), "{ran}");
        assert!(!ran.stdout.contains("FAILED") && ran.stderr.is_empty(), "{ran}");
        let page = fs::read_to_string(clone.folder.join("target/demo/timeline.html")).expect("the picture");
        assert!(page.contains("<svg"), "{page}");
    }
    await_that("nothing of it is left", || clone.processes() == 0);
}

#[test]
fn demo_without_a_compiler_names_it_before_anything_runs() {
    let clone = Clone::new("demo-no-gcc");
    // All programs of this machine but those; without apt-get, as for a user, nothing can be installed.
    let is_left_out = |name: &str| name.contains("gcc") || ["cc", "c89", "c99", "apt-get"].contains(&name);
    for entry in fs::read_dir("/usr/bin").expect("/usr/bin").flatten() {
        let name = entry.file_name();
        if !is_left_out(&name.to_string_lossy()) {
            symlink(Path::new("/usr/bin").join(&name), clone.tools.join(&name)).expect("a link");
        }
    }
    let ran = run(&mut clone.demo(clone.tools.to_str().expect("UTF-8")), LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.starts_with("setup: ") && ran.stderr.contains("gcc libc6-dev"), "{ran}");
    assert!(!ran.stdout.contains("2/5"), "{ran}");
}
