use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use super::super::script_files::ScriptSettings;
use super::*;

/// A folder of its own, which goes at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tutti-scripts-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Folder(path)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let mut options = std::fs::File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o755).open(&path).unwrap();
        std::io::Write::write_all(&mut file, format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn around() -> Around {
    Around { job: 7, step: Some(9), uid: 0, gid: 5, nodes: vec!["n1".into(), "n2".into()], account: Some(0) }
}

const LONG: Duration = Duration::from_secs(60);

/// Without a runner, since this program is not `tuttid`.
fn start(path: &Path, most: Duration) -> Result<Script, String> {
    Script::start(("prolog", path), (&around(), "n1"), most, &Wards::new(), |file| {
        let mut command = Command::new(file);
        command.arg0(path).process_group(0);
        command
    })
}

fn run(path: &Path, most: Duration) -> Result<(), String> {
    start(path, most)?.finish_blocking()
}

#[test]
fn script_has_its_environment_and_its_last_line_is_the_reason() {
    let folder = Folder::new("environment");
    let seen = folder.0.join("seen");
    let path = folder.script(
        "prolog",
        &format!("env >{}; echo begins; echo 'no \u{1b}[1mdisk' >&2; echo; exit 3", seen.display()),
    );
    let why = run(&path, LONG).unwrap_err();
    assert_eq!(why, format!("the prolog {} has failed (exit status: 3): no  [1mdisk", path.display()));
    let seen = std::fs::read_to_string(seen).unwrap();
    let wanted =
        ["TUTTI_JOBID=7", "TUTTI_STEP=9", "TUTTI_JOB_GID=5", "TUTTI_JOB_NODES=n1,n2", "TUTTI_NODE=n1"];
    for line in wanted.iter().chain(&["TUTTI_SCRIPT=prolog", "TUTTI_JOB_UID=0"]) {
        assert!(seen.lines().any(|found| found == *line), "{line}: {seen}");
    }
    assert!(!seen.contains("HOME="), "nothing of the daemon's environment: {seen}");
    assert_eq!(run(&folder.script("prolog", "exit 0"), LONG), Ok(()));
}

/// A child of a script may hold its output open, and a script may close it and work on.
#[test]
fn script_is_over_when_its_process_is() {
    let folder = Folder::new("over");
    let began = Instant::now();
    assert_eq!(run(&folder.script("prolog", "sleep 1000 & exit 0"), Duration::from_secs(500)), Ok(()));
    assert!(began.elapsed() < Duration::from_secs(400));
    let closed = folder.script("prolog", "exec >&- 2>&-; sleep 0.3; exit 4");
    let why = run(&closed, LONG).unwrap_err();
    assert!(why.ends_with("has failed (exit status: 4)"), "{why}");
    let much = folder.script("prolog", "yes x | head -c 300000; echo last; exit 1");
    assert!(run(&much, LONG).unwrap_err().ends_with(": last"));
}

#[test]
fn script_that_is_not_over_in_time_is_killed() {
    let folder = Folder::new("late");
    let path = folder.script("prolog", "exec sleep 1000");
    let script = start(&path, Duration::from_millis(1)).unwrap();
    let pid = Pid::from_child(&script.child);
    let why = script.finish_blocking().unwrap_err();
    assert_eq!(why, format!("the prolog {} was not over after 0 s", path.display()));
    assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone");
}

#[test]
fn script_of_a_part_that_ends_is_stopped() {
    let folder = Folder::new("stopped");
    let script = start(&folder.script("prolog", "exec sleep 1000"), LONG).unwrap();
    script.group.stop();
    assert_eq!(script.finish_blocking(), Err("the prolog was stopped".into()));
}

/// A part has bounds for what is said to it meanwhile: signals cost their sender nothing.
#[test]
fn part_to_which_too_much_is_said_before_its_ranks_begin_is_ended() {
    let mut waiting = Waiting::default();
    assert!((0..FRAMES_MAX).all(|_| waiting.put(Kind::Signal, 10, &[])));
    assert!(!waiting.put(Kind::Signal, 10, &[]));
    assert_eq!(waiting.iter().count(), FRAMES_MAX);
    let mut waiting = Waiting::default();
    assert!(waiting.put(Kind::Input, 0, &vec![0; FRAMES_BYTES_MAX]));
    assert!(!waiting.put(Kind::Input, 0, &[0]));
}

#[test]
fn script_without_a_thread_is_killed_and_its_end_is_handled() {
    let folder = Folder::new("nobody");
    let script = start(&folder.script("prolog", "exec sleep 1000"), LONG).unwrap();
    let process = pidfd_open(Pid::from_child(&script.child), PidfdFlags::empty()).unwrap();
    drop(script);
    assert!(await_end_blocking(&process, LONG), "it is killed");
    let (said, heard) = std::sync::mpsc::channel();
    drop(Hearer(Some(move |result| said.send(result).unwrap())));
    assert!(heard.recv().unwrap().is_err());
}

#[test]
fn script_that_others_may_change_is_refused() {
    let folder = Folder::new("refused");
    let path = folder.script("prolog", "exit 0");
    let settings = |path: &Path| ScriptSettings { prolog: None, epilog: Some(path.to_owned()), most: LONG };
    assert_eq!(settings(&path).check(), Ok(()));
    let refused = |wanted: &str| {
        let why = settings(&path).check().unwrap_err();
        assert!(why.starts_with(&format!("epilog {}: ", path.display())) && why.contains(wanted), "{why}");
        assert!(run(&path, LONG).unwrap_err().contains(wanted));
    };
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&path, 0o777);
    refused("others may write to");
    mode(&path, 0o755);
    mode(&folder.0, 0o775);
    refused("others may write to");
    mode(&folder.0, 0o755);
    mode(&path, 0o644);
    refused("it is no file that can be executed");
    mode(&path, 0o755);
    let none = folder.0.join("none");
    assert!(settings(&none).check().unwrap_err().contains("No such file"));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(54321), None).unwrap();
        refused("user 54321 owns");
    }
}

/// Links may be changed behind the check: the file that was checked is run, by its own path.
#[test]
fn script_behind_a_link_is_run_by_its_own_path() {
    let folder = Folder::new("link");
    let script = folder.script("named", "echo \"$0\"; exit 3");
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(&script, &link).unwrap();
    let why = run(&link, LONG).unwrap_err();
    assert!(why.contains(&script.display().to_string()), "{why}");
}
