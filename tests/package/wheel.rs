//! The Python wheel (mk/wheel.py) in a fresh environment without a network, and its interface with a daemon.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tutti_testkit::{Need, has_command, skip};
use tutti_tests::{Ran, Scratch, dist, root, run};

const LIMIT: Duration = Duration::from_secs(100);

/// Everything below a folder that is no folder, but what Python compiles.
#[track_caller]
fn files(folder: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.arg(folder).args(["!", "-type", "d", "!", "-name", "*.pyc", "-printf", "%y %P\n"]);
    let mut found: Vec<String> =
        run(&mut find, LIMIT).expect_success().stdout.lines().map(str::to_owned).collect();
    found.sort();
    found
}

/// The newest version of glibc's symbols in the programs below a folder, found by another tool than the
/// wheel's.
#[track_caller]
fn newest_glibc(folder: &Path) -> u32 {
    let line = "find \"$0\" -type f \\( -name '*.so*' -o -perm -100 \\) -exec objdump -T {} + 2>/dev/null";
    let symbols = run(Command::new("sh").args(["-c", line]).arg(folder), LIMIT).stdout;
    let minors = symbols.split("GLIBC_2.").skip(1).filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    minors.max().expect("programs need the C library")
}

#[test]
fn wheel_installs_without_a_network_runs_a_job_and_leaves_nothing() {
    if !(has_command(Need::Python, "python3") && has_command(Need::Dpkg, "objdump")) {
        return;
    }
    let scratch = Scratch::new("package-wheel");
    let folder = scratch.path();
    let venv = folder.join("venv");
    let made = run(Command::new("python3").args(["-m", "venv"]).arg(&venv), LIMIT);
    if !made.status.success() {
        return skip(Need::Python, "python3 cannot make environments (python3-venv)");
    }
    let mut make = Command::new("python3");
    make.arg(root().join("mk/wheel.py")).args([&dist(), folder]).arg("1.0").env("WHEEL_COMPRESS", "1");
    let wheel = run(&mut make, LIMIT).expect_success().stdout.trim().to_owned();
    let before = files(&venv);
    let pip = |words: &[&str]| {
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]).args(words);
        run(&mut pip, LIMIT).expect_success()
    };
    pip(&["install", "--no-index", "--no-compile", &wheel]);

    // Below its own folder alone, without links, with the tag of its symbols.
    let own =
        |path: &str| path.contains("/site-packages/tutti/") || path.contains("/tutti_mpi-1.0.dist-info/");
    let more: Vec<String> = files(&venv).into_iter().filter(|file| !before.contains(file)).collect();
    let commands: Vec<&String> = more.iter().filter(|file| !own(file)).collect();
    assert!(commands.iter().all(|file| file.starts_with("f bin/")), "{commands:?}");
    for name in ["mpicc", "mpirun"] {
        assert!(!venv.join("bin").join(name).exists(), "{name} may be another wheel's");
    }
    assert!(more.iter().all(|file| file.starts_with("f ")), "{more:?}");
    let starter = more.iter().find(|file| file.ends_with("/tutti-starter")).expect("the starter");
    let starter = venv.join(&starter[2..]);
    let glibc = newest_glibc(starter.ancestors().nth(3).expect("the tree"));
    assert!(wheel.contains(&format!("-py3-none-manylinux_2_{glibc}_")), "{wheel}: symbols of 2.{glibc}");

    let hello = folder.join("hello");
    let mut mpicc = Command::new(venv.join("bin/mpicc.tutti"));
    run(mpicc.arg("-o").arg(&hello).arg(root().join("examples/hello.c")), LIMIT).expect_success();
    for name in ["mpiexec.tutti", "mpiexec"] {
        let said = launch(&venv, name, &hello, &[]).expect_success().stdout;
        assert!(said.contains("rank 0 of 2") && said.contains("rank 1 of 2"), "{name}: {said}");
    }
    let mode = std::fs::metadata(&starter).expect("the starter").permissions().mode();
    assert_eq!(mode & 0o777, 0o711, "the starter can be read by its owner alone");

    // Another wheel with that name: the one that is installed last writes the file.
    let other = other_wheel(folder);
    pip(&["install", "--no-index", "--no-compile", &other]);
    assert_eq!(launch(&venv, "mpiexec", &hello, &[]).expect_success().stdout, "their mpiexec\n");
    let said = launch(&venv, "mpiexec.tutti", &hello, &["-v"]).expect_success();
    let place = venv.join("bin/mpiexec");
    let place = place.display();
    assert!(
        said.stderr.contains(&format!("{place} is of the wheel mpich; Tutti's: mpiexec.tutti,")),
        "{said}"
    );

    pip(&["install", "--no-index", "--no-compile", "--force-reinstall", &wheel]);
    assert_eq!(launch(&venv, "mpiexec", &hello, &[]).expect_success().stdout, "their mpirun\n");
    let said = launch(&venv, "mpiexec.tutti", &hello, &["-v"]).expect_success();
    let expected = format!("{place} starts the launcher of the wheel mpich, which has that name too");
    assert!(
        said.stderr.contains(&format!("{expected}; Tutti's: mpiexec.tutti, or TUTTI_MPIEXEC=tutti\n")),
        "{said}"
    );
    let found = run(launcher(&venv, "tutti").arg("doctor"), LIMIT).stdout;
    assert!(found.contains(&format!("MAY  mpiexec          {expected}\n")), "{found}");
    let chosen = |name: &str| {
        let mut command = launcher(&venv, name);
        command.env("TUTTI_MPIEXEC", "tutti");
        command
    };
    let said = run(chosen("mpiexec").args(["-v", "-n", "2"]).arg(&hello), LIMIT).expect_success();
    assert!(said.stdout.contains("rank 1 of 2") && !said.stderr.contains("mpiexec in PATH"), "{said}");
    let found = run(chosen("tutti").arg("doctor"), LIMIT).stdout;
    assert!(found.contains("OK   mpiexec          Tutti's\n"), "{found}");

    pip(&["uninstall", "--yes", "tutti-mpi", "mpich"]);
    assert_eq!(files(&venv), before);
}

/// A command of an environment that is active.
fn launcher(venv: &Path, name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [venv.join("bin")].into_iter().chain(std::env::split_paths(&path));
    let mut command = Command::new(venv.join("bin").join(name));
    command.env("PATH", std::env::join_paths(path).expect("plain names")).env("TUTTI_DAEMON", "none");
    command
}

/// Two ranks of a program.
#[track_caller]
fn launch(venv: &Path, name: &str, program: &Path, options: &[&str]) -> Ran {
    run(launcher(venv, name).args(options).args(["-n", "2"]).arg(program), LIMIT)
}

/// A wheel that has launchers, as those of other MPIs have.
#[track_caller]
fn other_wheel(folder: &Path) -> String {
    let script = r##"
import zipfile
name = "mpich-9.0-py3-none-any.whl"
with zipfile.ZipFile(name, "w") as wheel:
    files = {f"mpich-9.0.data/scripts/{file}": f"#!/bin/sh\necho their {file}\n" for file in ("mpiexec", "mpirun")}
    files["mpich-9.0.dist-info/METADATA"] = "Metadata-Version: 2.1\nName: mpich\nVersion: 9.0\n"
    files["mpich-9.0.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    for file, text in files.items():
        info = zipfile.ZipInfo(file)
        info.external_attr = 0o100755 << 16
        wheel.writestr(info, text)
    wheel.writestr("mpich-9.0.dist-info/RECORD", "".join(f"{file},,\n" for file in files))
print(name)
"##;
    let made = run(Command::new("python3").args(["-c", script]).current_dir(folder), LIMIT).expect_success();
    folder.join(made.stdout.trim()).to_str().expect("UTF-8").to_owned()
}

#[test]
fn python_interface_asks_the_daemon_and_survives_its_replacement() {
    if !has_command(Need::Python, "python3") {
        return;
    }
    let scratch = Scratch::new("package-api");
    let folder = scratch.path();
    // The package as it is installed: its modules, and the tree.
    let package = folder.join("site/tutti");
    std::fs::create_dir_all(&package).expect("a folder");
    for entry in std::fs::read_dir(root().join("bindings/python")).expect("the modules").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), package.join(entry.file_name())).expect("a copy");
        }
    }
    std::os::unix::fs::symlink(dist(), package.join("_tree")).expect("a link");
    let mut python = Command::new("python3");
    python.arg("-B").arg(root().join("tests/package/api.py")).arg("-v").current_dir(folder);
    python.env("PYTHONPATH", folder.join("site")).env("API_FOLDER", folder);
    let ran = run(&mut python, LIMIT);
    let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    assert!(ran.status.success(), "{ran}\n--- the daemon's log\n{log}");
}
