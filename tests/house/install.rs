//! `make install` and `make uninstall` (mk/install.sh): a copy that can be used, made without cargo, and its
//! removal.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tutti_testkit::{Need, has_command, skip};
use tutti_tests::{Ran, Scratch, compile, root, run};

/// A tree is copied, which takes its time on a disk that others use too.
const LIMIT: Duration = Duration::from_secs(100);

/// `mk/install.sh` without a Rust toolchain in its path.
fn install(words: &[&str]) -> Ran {
    let mut command = Command::new(root().join("mk/install.sh"));
    run(command.args(words).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), LIMIT)
}

/// Everything below a folder that is no folder.
fn files(folder: &Path) -> Vec<String> {
    let mut list = Command::new("find");
    list.arg(folder).args(["!", "-type", "d", "-printf", "%P\n"]);
    let mut files: Vec<_> =
        run(&mut list, LIMIT).expect_success().stdout.lines().map(str::to_owned).collect();
    files.sort();
    files
}

#[test]
fn install_copies_the_tree_and_uninstall_removes_nothing_else() {
    let scratch = Scratch::new("install");
    let prefix = scratch.path().join("a prefix");
    std::fs::create_dir_all(prefix.join("bin")).expect("a folder");
    std::fs::write(prefix.join("bin/other"), "of somebody else").expect("a file");
    let path = prefix.to_str().expect("UTF-8");

    let ran = install(&["copy", "", path]).expect_success();
    assert!(ran.stdout.lines().count() <= 2 && ran.stderr.is_empty(), "{ran}");
    let mut wanted = files(&tutti_tests::dist());
    wanted.extend(["bin/other".to_owned(), "share/tutti/installed".to_owned()]);
    wanted.sort();
    assert_eq!(files(&prefix), wanted);
    let version = run(Command::new(prefix.join("bin/tutti")).arg("--version"), LIMIT).expect_success();
    assert!(version.stdout.starts_with("tutti "), "{version}");

    let unit = std::fs::read_to_string(prefix.join("lib/systemd/system/tuttid.service")).expect("the unit");
    assert!(unit.contains(&format!("\nExecStart={path}/bin/tuttid\n")), "{unit}");

    // Once more over it: what an older version had is gone, what others have is not.
    let list = prefix.join("share/tutti/installed");
    let text = std::fs::read_to_string(&list).expect("a list");
    std::fs::write(&list, format!("bin/older\n../outside\n{text}")).expect("a list");
    std::fs::write(prefix.join("bin/older"), "").expect("a file");
    std::fs::write(scratch.path().join("outside"), "").expect("a file");
    install(&["copy", "", path]).expect_success();
    assert_eq!(files(&prefix), wanted);
    assert!(scratch.path().join("outside").exists());

    install(&["remove", "", path]).expect_success();
    assert_eq!(files(&prefix), ["bin/other"]);
    assert!(!prefix.join("share").exists(), "folders that were made for it are gone");
    let ran = install(&["remove", "", path]);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
}

/// The programs of an installed tree are stripped; gdb names their lines once the other tree is there.
#[test]
fn install_debug_puts_lines_where_gdb_finds_them() {
    if !has_command(Need::Gdb, "gdb") {
        return;
    }
    let scratch = Scratch::new("install-debug");
    let [prefix, debug] = ["tree", "lib/debug"].map(|name| scratch.path().join(name));
    let [prefix, debug] = [&prefix, &debug].map(|path| path.to_str().expect("UTF-8"));
    install(&["copy", "", prefix]).expect_success();
    let program = compile("tests/house/programs/size.c", scratch.path());
    let backtrace = || {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
        gdb.arg("-iex").arg(format!("set debug-file-directory {debug}"));
        gdb.args(["-ex", "set breakpoint pending on", "-ex", "break MPI_Comm_size"]);
        gdb.args(["-ex", "run", "-ex", "backtrace", "-ex", "kill"]).arg(&program);
        gdb.env("LD_LIBRARY_PATH", format!("{prefix}/lib")).env("TUTTI_DAEMON", "none");
        run(&mut gdb, LIMIT)
    };
    let bare = backtrace().expect_success();
    assert!(bare.stdout.contains("#0  ") && bare.stdout.contains("MPI_Comm_size"), "{bare}");
    assert!(!bare.stdout.contains(".rs:"), "the tree has no lines of its own: {bare}");
    install(&["copy-debug", "", debug]).expect_success();
    let lines = backtrace().expect_success();
    let frame = lines.stdout.lines().find(|line| line.starts_with("#0  ")).expect("a frame");
    assert!(frame.contains("MPI_Comm_size") && lines.stdout.contains(".rs:"), "{lines}");
    let list = Path::new(debug).join(".build-id/tutti-installed");
    assert!(list.exists());
    install(&["remove-debug", "", debug]).expect_success();
    assert!(!Path::new(debug).exists(), "folders that were made for it are gone");
}

#[test]
fn install_names_a_prefix_that_cannot_be_written_in_one_line() {
    if rustix::process::geteuid().is_root() {
        // A folder below a file can be written by nobody.
        let ran = install(&["copy", "", "/etc/passwd/tutti"]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    } else {
        let ran = install(&["copy", "", "/usr/tutti"]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
        assert!(ran.stderr.contains("cannot write to /usr"), "{ran}");
    }
    let ran = install(&["copy", "", "a/relative/one"]);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
}

#[test]
fn install_of_a_tree_that_another_user_has_built_is_refused_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root can become another user");
    }
    let scratch = Scratch::new("install-user");
    let prefix = scratch.path().join("prefix");
    std::fs::create_dir(&prefix).expect("a folder");
    std::os::unix::fs::chown(&prefix, Some(1_879_999_999), Some(1_879_999_999)).expect("it is ours");
    let become_user = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1879999999", "--regid=1879999999", "--clear-groups"]);
        command.arg(root().join("mk/install.sh")).args(words).env("PATH", "/usr/bin:/bin");
        run(&mut command, LIMIT)
    };
    let source = root().join("mk/install.sh");
    let readable = Command::new("setpriv")
        .args(["--reuid=1879999999", "--regid=1879999999", "--clear-groups", "test", "-r"])
        .arg(&source)
        .status();
    if !readable.is_ok_and(|status| status.success()) {
        return skip(Need::Setup, "other users cannot read the source tree");
    }
    // The starter can be read by its owner only.
    let refused = become_user(&["copy", "", prefix.to_str().expect("UTF-8")]);
    assert_eq!((refused.code(), refused.stderr.lines().count()), (1, 1), "{refused}");
    assert!(refused.stderr.contains("cannot read target/dist/libexec"), "{refused}");
    let refused = become_user(&["remove", "", "/usr/tutti"]);
    assert_eq!((refused.code(), refused.stderr.lines().count()), (1, 1), "{refused}");
}
