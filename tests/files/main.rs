//! The promises of files (MPI chapter 14), on one node and on two virtual ones. Everything runs from
//! `target/dist`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::full_at_close::FullAtClose;
use tutti_tests::{Ran, Scratch, compile, program, run, state_of};

/// Limit for a program: none takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(100);

fn compiled(scratch: &Scratch, name: &str) -> PathBuf {
    compile(&format!("tests/files/programs/{name}.c"), scratch.path())
}

/// Runs a program on a file of the scratch folder; `nodes` are virtual ones, if more than one.
#[track_caller]
fn run_ranks(program_file: &Path, ranks: u32, nodes: u32, arguments: &[&Path], checks: bool) -> Ran {
    let mut mpiexec = program("mpiexec");
    if nodes > 1 {
        mpiexec.args(["--virtual-nodes", &nodes.to_string()]);
    }
    mpiexec.args(["-n", &ranks.to_string()]).arg(program_file).args(arguments);
    if checks {
        mpiexec.env("TUTTI_CHECK", "1");
    }
    run(&mut mpiexec, LIMIT)
}

/// A program that ends with "NAME are right", on these numbers of ranks and nodes.
#[track_caller]
fn is_right(name: &str, places: &[(u32, u32)]) {
    let scratch = Scratch::new(&format!("files-{name}"));
    let compiled = compiled(&scratch, name);
    let file = scratch.path().join("data");
    for &(ranks, nodes) in places {
        let ran = run_ranks(&compiled, ranks, nodes, &[&file], false).expect_success();
        assert_eq!(ran.stdout, format!("{name} are right\n"), "{ranks} ranks on {nodes} nodes: {ran}");
        assert!(!file.exists(), "{ranks} ranks on {nodes} nodes leave their file behind");
    }
    let ran = run_ranks(&compiled, 2, 1, &[&file], true).expect_success();
    assert_eq!(ran.stderr, "", "the checker has something to say: {ran}");
}

#[test]
fn file_views_of_any_datatype_show_the_same_bytes_to_every_access() {
    is_right("views", &[(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2)]);
}

#[test]
fn file_accesses_of_every_kind_move_the_right_data() {
    is_right("kinds", &[(1, 1), (2, 1), (3, 1), (2, 2), (4, 2)]);
}

#[test]
fn file_accesses_on_nfs_lock_their_range_of_the_file() {
    is_right("locked", &[(1, 1), (2, 1), (2, 2), (4, 2)]);
}

#[test]
fn file_representations_are_the_standards_and_the_users() {
    is_right("datareps", &[(1, 1), (2, 1), (3, 1), (4, 2)]);
}

#[test]
fn file_collective_calls_see_what_late_ranks_have_done() {
    is_right("late", &[(1, 1), (2, 1), (3, 1), (2, 2), (3, 2)]);
}

#[test]
fn file_errors_have_their_class_on_all_ranks() {
    let scratch = Scratch::new("files-wrong");
    let compiled = compiled(&scratch, "wrong");
    let file = scratch.path().join("data");
    for (ranks, nodes) in [(1, 1), (2, 1), (3, 1), (2, 2)] {
        let ran = run_ranks(&compiled, ranks, nodes, &[&file], false).expect_success();
        assert_eq!(ran.stdout, "wrong are right\n", "{ranks} ranks on {nodes} nodes: {ran}");
    }
}

#[test]
fn file_wrong_hint_is_ignored_and_named_by_the_checker() {
    let scratch = Scratch::new("files-hints");
    let compiled = compiled(&scratch, "wrong");
    let ran = run_ranks(&compiled, 2, 1, &[&scratch.path().join("data")], true).expect_success();
    let line = "check: a hint for a file is ignored: cb_buffer_size is \"much\", which is no value of it";
    assert!(ran.stderr.contains(line), "{ran}");
}

#[test]
fn file_full_disk_is_told_to_all_ranks_with_true_counts() {
    let scratch = Scratch::new("files-full");
    let compiled = compiled(&scratch, "wrong");
    let small = scratch.path().join("small");
    std::fs::create_dir(&small).expect("a folder");
    // The file system is there for this command only.
    let mounted = |command: &str| {
        let mut unshare = std::process::Command::new("unshare");
        let script = format!("mount -t tmpfs -o size=4m tmpfs \"$1\" && {command}");
        unshare.args(["-m", "sh", "-c", &script, "sh"]).arg(&small);
        unshare
    };
    if run(&mut mounted("true"), LIMIT).code() != 0 {
        return tutti_testkit::skip(
            tutti_testkit::Need::MountNamespace,
            "no file system can be mounted here",
        );
    }
    for (ranks, options) in [(2, ""), (3, ""), (4, "--virtual-nodes 2")] {
        let mpiexec = program("mpiexec");
        let mpiexec = mpiexec.get_program().to_string_lossy();
        let command =
            format!("{mpiexec} {options} -n {ranks} {} \"$1/data\" full", compiled.to_string_lossy());
        let ran = run(&mut mounted(&command), LIMIT).expect_success();
        assert_eq!(ran.stdout, "wrong are right\n", "{ranks} ranks: {ran}");
    }
}

#[test]
fn file_rank_killed_in_a_collective_write_ends_the_job() {
    let scratch = Scratch::new("files-killed");
    let compiled = compiled(&scratch, "wrong");
    let folder = scratch.path().join("folder");
    std::fs::create_dir(&folder).expect("a folder");
    let file = folder.join("data");
    // Each time in another moment of its accesses.
    let places = [(2, 1), (3, 1), (3, 2)].into_iter().cycle().take(9);
    for (ranks, nodes) in places {
        let ran = run_ranks(&compiled, ranks, nodes, &[&file, Path::new("killed")], false);
        let line = format!("mpiexec: rank {} (pid ", ranks - 1);
        let is_named =
            ran.stderr.starts_with(&line) && ran.stderr.ends_with("was killed by signal 14 (Alarm clock)\n");
        assert!(ran.code() == 142 && is_named, "{ran}");
        leaves_only_the_file(&folder);
    }
}

/// Checks that the file that the user named is there, unlocked, and nothing beside it.
#[track_caller]
fn leaves_only_the_file(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).expect("the folder").flatten().collect();
    assert_eq!(left.len(), 1, "only the file of the user is left: {left:?}");
    let locks = std::fs::read_to_string("/proc/locks").expect("the kernel's locks");
    let inode = std::os::unix::fs::MetadataExt::ino(&left[0].metadata().expect("the file"));
    assert!(!locks.contains(&format!(":{inode} ")), "the file is locked still: {locks}");
}

/// Before it, before and after the first pieces are written, and between its begin and its end: an aggregator
/// dies, or one whose pieces it has.
#[test]
fn file_rank_killed_in_each_phase_of_a_collective_write_ends_the_job() {
    const MOMENTS: u32 = 6;
    let scratch = Scratch::new("files-phases");
    let compiled = compiled(&scratch, "refused");
    let folder = scratch.path().join("folder");
    std::fs::create_dir(&folder).expect("a folder");
    let file = folder.join("data");
    for (ranks, nodes) in [(3, 1), (4, 2)] {
        for moment in 0..MOMENTS {
            let moment = moment.to_string();
            let arguments = [&file, Path::new("killed"), Path::new(&moment)];
            let ran = run_ranks(&compiled, ranks, nodes, &arguments, false);
            let is_named = ran.stderr.starts_with("mpiexec: rank ")
                && ran.stderr.ends_with("was killed by signal 9 (Killed)\n");
            assert!(ran.code() == 137 && is_named && ran.stderr.lines().count() == 1, "{moment}: {ran}");
            leaves_only_the_file(&folder);
        }
    }
}

#[test]
fn file_quota_permission_and_missing_locks_are_told_to_all_ranks() {
    let scratch = Scratch::new("files-refused");
    let compiled = compiled(&scratch, "refused");
    let file = scratch.path().join("data");
    for (ranks, nodes) in [(1, 1), (2, 1), (3, 1), (4, 2)] {
        let ran = run_ranks(&compiled, ranks, nodes, &[&file, Path::new("errors")], false).expect_success();
        assert_eq!(ran.stdout, "refused are right\n", "{ranks} ranks on {nodes} nodes: {ran}");
    }
}

#[test]
fn file_ten_thousand_handles_are_open_at_once() {
    let scratch = Scratch::new("files-many");
    let compiled = compiled(&scratch, "wrong");
    let mpiexec = program("mpiexec");
    let mut limited = std::process::Command::new("sh");
    let script = "ulimit -n 10200 2>/dev/null || exit 77; exec \"$0\" -n 2 \"$1\" \"$2\" many";
    limited.args(["-c", script]).arg(mpiexec.get_program()).arg(&compiled).arg(scratch.path().join("data"));
    let ran = run(&mut limited, LIMIT);
    if ran.code() == 77 {
        return tutti_testkit::skip(tutti_testkit::Need::Root, "no process may open 10,200 files here");
    }
    assert_eq!(ran.expect_success().stdout, "wrong are right\n");
}

/// A job that is ended with whoever has it.
struct Endless(std::process::Child);

impl Endless {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal to mpiexec");
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = kill_process(self.pid(), Signal::CONT);
        let _ = kill_process(self.pid(), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[track_caller]
fn await_that(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not after {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn file_atomic_writes_of_a_suspended_job_hold_up_no_stranger() {
    let scratch = Scratch::new("files-atomic");
    let compiled = compiled(&scratch, "wrong");
    let (file, errors) = (scratch.path().join("data"), scratch.path().join("err"));
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2"]).arg(&compiled).arg(&file).args(["endless", "0"]);
    mpiexec.stderr(std::fs::File::create(&errors).expect("a file for stderr"));
    let endless = Endless(mpiexec.spawn().expect("mpiexec"));
    await_that("both ranks write", || std::fs::metadata(&file).is_ok_and(|data| data.len() >= 1 << 19));
    let keeps_a_lock = || {
        let said = std::fs::read_to_string(&errors).expect("stderr");
        said.matches("accesses a file that it has locked").count()
    };
    for _ in 0..5 {
        let before = keeps_a_lock();
        endless.signal(Signal::TSTP);
        await_that("the job is suspended", || state_of(endless.pid()) == Some('T'));
        // Elsewhere in the file, and at the ranges that the suspended job writes for ever. A rank that had no
        // core to give its lock back has kept it, which is said.
        let places: &[&str] = if keeps_a_lock() == before { &["4", "0"] } else { &["4"] };
        for place in places {
            let ran = run_ranks(&compiled, 2, 1, &[&file, Path::new("atomic"), Path::new(place)], false);
            assert_eq!(ran.expect_success().stdout, "wrong are right\n");
        }
        // mpiexec itself goes on before it has resumed the job; stopped again by then it would not.
        let resumed = SystemTime::now();
        endless.signal(Signal::CONT);
        await_that("a rank writes again", || {
            std::fs::metadata(&file).and_then(|data| data.modified()).is_ok_and(|at| at > resumed)
        });
    }
}

#[test]
fn file_lock_that_a_suspended_rank_keeps_is_said() {
    let scratch = Scratch::new("files-held");
    let compiled = compiled(&scratch, "held");
    let (file, mark, errors) =
        (scratch.path().join("data"), scratch.path().join("in"), scratch.path().join("err"));
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2"]).arg(&compiled).arg(&file).arg(&mark);
    mpiexec.stderr(std::fs::File::create(&errors).expect("a file for stderr"));
    let held = Endless(mpiexec.spawn().expect("mpiexec"));
    await_that("rank 1 is in its access", || mark.exists());
    held.signal(Signal::TSTP);
    await_that("the job is suspended", || state_of(held.pid()) == Some('T'));
    let said = std::fs::read_to_string(&errors).expect("stderr");
    let line = "mpiexec: the job is suspended while rank 1 accesses a file that it has locked: \
                who wants the same range waits until the job is resumed\n";
    assert_eq!(said, line);
}

/// Every rank reaches the files by the server, on one node and on two; without `--files` one line says so.
#[test]
fn origin_mpiexec_serves_files_by_calls() {
    let scratch = Scratch::new("files-origin");
    let compiled = compile("tests/machines/programs/origin.c", scratch.path());
    std::fs::write(scratch.path().join("input.txt"), "hello\n").expect("a file");
    std::os::unix::fs::symlink("/etc/hostname", scratch.path().join("out")).expect("a link");
    for words in [&["-n", "2"][..], &["--virtual-nodes", "2", "-n", "4"]] {
        let mut mpiexec = program("mpiexec");
        mpiexec.current_dir(scratch.path()).args(words).arg("--files").arg(&compiled);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert_eq!(ran.stdout, "files of the origin are right\n", "{ran}");
    }
    let ran = run(program("mpiexec").current_dir(scratch.path()).args(["-n", "1"]).arg(&compiled), LIMIT);
    assert!(ran.stderr.contains("wrong: the input opens"), "{ran}");
}

/// NFS and quotas of a server take a write, and say that there is no room when the file is closed.
#[test]
fn file_close_reports_late_errors_of_the_file_system() {
    let scratch = Scratch::new("files-late-error");
    let compiled = compiled(&scratch, "late_error");
    let Some(disk) = FullAtClose::mount(&scratch.path().join("disk")) else { return };
    for (ranks, nodes) in [(1, 1), (2, 1), (2, 2)] {
        let file = disk.file(&format!("{ranks}-{nodes}"));
        let ran = run_ranks(&compiled, ranks, nodes, &[&file], false).expect_success();
        assert_eq!(ran.stdout, "late errors are right\n", "{ran}");
    }
}
