//! Files that a user has written, and root's commands that read them or write beside them: a pipe, a device,
//! a file without an end, a link, a lie.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tutti_snapshot::{FileError, Snapshot};
use tutti_tests::{LIMIT, Ran, run};

use crate::Machine;
use crate::shown::{DECEPTION, assert_shows_its_text};

const HOSTILE: usize = 0;
/// First lines of a report of shared memory.
const REPORT_HEAD: &str = "tutti-dsm-report 2\nrank 0\n";

/// A command of root's over files of a user, which ends.
fn tutti(machine: &Machine, words: &[&str]) -> Ran {
    // As if the machine had no memory for more.
    let limited = ["-c", "ulimit -v 4000000; exec \"$0\" \"$@\""];
    let mut command = Command::new("sh");
    command.args(limited).arg(machine.users.programs().join("bin/tutti")).args(words);
    command.env("TUTTI_DAEMON", machine.socket());
    run(&mut command, LIMIT)
}

/// Kinds of files that are none, or have no end, in a folder of the user's.
fn plant(machine: &Machine) -> [PathBuf; 3] {
    let folder = machine.users.folder(machine.uid(HOSTILE));
    let [pipe, device, long] = ["pipe", "device", "long"].map(|name| folder.join(name));
    machine.as_user(HOSTILE, |_| {
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o755), 0).expect("a pipe");
        symlink("/dev/zero", &device).expect("a link");
        let file = std::fs::File::create(&long).expect("a file");
        // It takes no room on the disk.
        file.set_len(1 << 40).expect("its own");
        std::fs::set_permissions(&long, PermissionsExt::from_mode(0o755)).expect("its own");
    });
    [pipe, device, long]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("ours")
}

#[test]
fn commands_of_root_wait_for_no_pipe_and_read_no_file_of_a_user_without_an_end() {
    let Some(machine) = Machine::up("hostile-reads", 1, 1, &[]) else { return };
    let planted = plant(&machine);
    let folder = machine.users.folder(machine.uid(HOSTILE)).join("reports");
    machine.as_user(HOSTILE, |_| std::fs::create_dir(&folder).expect("its own"));
    for path in &planted {
        let name = text(path);
        for words in [&["snapshot", "--show", name][..], &["simulate", "--swf", name]] {
            let ran = tutti(&machine, words);
            assert!(ran.code() == 1 && ran.stderr.lines().count() == 1, "{words:?}: {ran}");
            assert!(ran.stderr.contains("it is no file") || ran.stderr.contains("is longer than"), "{ran}");
        }
        // A program that cannot be hashed is a program that may not be read.
        let ran = tutti(&machine, &["doctor", name]);
        assert!(!ran.stderr.contains("panicked"), "{ran}");
        // A report of the user's, and files that another one names.
        let report = folder.join("tutti-dsm.0");
        machine.as_user(HOSTILE, |_| symlink(path, &report).expect("its own"));
        let ran = tutti(&machine, &["dsm-report", text(&folder)]);
        assert!(ran.code() == 1 && ran.stderr.lines().count() == 1, "{ran}");
        machine.as_user(HOSTILE, |_| {
            std::fs::remove_file(&report).expect("its own");
            std::fs::write(&report, format!("{REPORT_HEAD}site 0x0 0x10 1 1 0 0 0 {name}\n"))
                .expect("its own");
        });
        let ran = tutti(&machine, &["dsm-report", text(&folder)]).expect_success();
        let file = path.file_name().expect("ours").to_string_lossy();
        assert!(ran.stdout.contains(&format!("{file}+0x10")), "{ran}");
        machine.as_user(HOSTILE, |_| std::fs::remove_file(&report).expect("its own"));
    }
    let hosts = tutti(&machine, &["run", "-hostfile", text(&planted[1]), "-n", "1", "true"]);
    assert!(hosts.code() != 0 && hosts.stderr.contains("is longer than"), "{hosts}");
}

/// A snapshot whose checksum is right and whose contents are not: what they are is in the line of why.
fn lying_snapshot() -> Vec<u8> {
    let view = serde_json::json!({ "node": 0, "ranks": [{ "rank": 0, "doing": DECEPTION }], "rings": [],
        "flows": [], "omitted": 0 });
    let body =
        serde_json::json!({ "job": 1, "command": DECEPTION, "ranks": 1, "taken_ms": 1, "nodes": [view] });
    let body = format!("{body}\n");
    let with = |crc: u32| format!("TUTTI-SNAPSHOT 2 {} {crc:08x}\n{body}", body.len()).into_bytes();
    match tutti_snapshot::read(&with(0)) {
        Err(FileError::Checksum { found, .. }) => with(found),
        other => panic!("another checksum was awaited: {other:?}"),
    }
}

#[test]
fn files_of_a_user_deceive_no_reader_of_commands_of_root() {
    let Some(machine) = Machine::up("hostile-read-lies", 1, 1, &[]) else { return };
    let folder = machine.users.folder(machine.uid(HOSTILE));
    let [snapshot, lies, report] = ["snapshot", "lies", "tutti-dsm.0"].map(|name| folder.join(name));
    let whole = Snapshot {
        job: 1,
        command: DECEPTION.into(),
        ranks: 1,
        taken_ms: 1,
        room: None,
        nodes: vec![tutti_snapshot::View { trouble: Some(DECEPTION.into()), ..Default::default() }],
    };
    // Ends of lines end a line of a report.
    let name = DECEPTION.replace('\n', "");
    machine.as_user(HOSTILE, |_| {
        std::fs::write(&snapshot, tutti_snapshot::write(&whole)).expect("its own");
        std::fs::write(&lies, lying_snapshot()).expect("its own");
        let site = format!("{REPORT_HEAD}site 0x0 0x10 1 1 0 0 0 /none/{name}\n");
        std::fs::write(&report, site).expect("its own");
    });
    let check = |words: &[&str], code: i32| {
        let ran = tutti(&machine, words);
        assert_eq!(ran.code(), code, "{words:?}: {ran}");
        assert_shows_its_text(&words.join(" "), &ran.stdout);
        assert_shows_its_text(&words.join(" "), &ran.stderr);
    };
    check(&["snapshot", "--show", text(&snapshot)], 0);
    check(&["snapshot", "--show", text(&snapshot), "--dot"], 0);
    check(&["snapshot", "--show", text(&lies)], 1);
    check(&["dsm-report", text(&folder)], 0);
    machine.as_user(HOSTILE, |_| std::fs::write(&report, format!("{name}\n")).expect("its own"));
    check(&["dsm-report", text(&folder)], 1);
}

/// Act that puts something in the place of a file.
type Put = fn(&Path, &Path);

/// A user may put anything in the place of the file to which a job has written.
#[test]
fn logs_of_a_job_show_root_nothing_that_is_not_its_users() {
    let Some(machine) = Machine::up("hostile-read-logs", 1, 1, &[]) else { return };
    let folder = machine.users.folder(machine.uid(HOSTILE));
    let secret = machine.users.root().join("secret");
    std::fs::write(&secret, "root's alone\n").expect("a file");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).expect("ours");
    let job = machine.submit(HOSTILE, &["-o", "file", "-n", "1", "echo", "written"]);
    machine.await_state(job, "over");
    let number = job.to_string();
    assert_eq!(tutti(&machine, &["logs", &number]).expect_success().stdout, "written\n");
    let file = folder.join("file");
    let puts: [(&str, Put); 4] = [
        ("a link to root's", |file, secret| symlink(secret, file).expect("its own")),
        ("a pipe", |file, _| mknodat(CWD, file, FileType::Fifo, Mode::RUSR, 0).expect("its own")),
        ("a device", |file, _| symlink("/dev/zero", file).expect("its own")),
        ("a folder", |file, _| std::fs::create_dir(file).expect("its own")),
    ];
    for (what, put) in puts {
        machine.as_user(HOSTILE, |_| {
            std::fs::remove_file(&file).expect("its own");
            put(&file, &secret);
        });
        for words in [&["logs", &number][..], &["logs", "-f", &number], &["attach", &number]] {
            let ran = tutti(&machine, words);
            assert!(!ran.stdout.contains("root's"), "{what}: {words:?}: {ran}");
            assert!(ran.stdout.len() < 1000, "{what}: {words:?}: {} bytes", ran.stdout.len());
        }
    }
}

#[test]
fn commands_of_root_write_through_no_link_of_a_user() {
    let Some(machine) = Machine::up("hostile-led", 1, 1, &[]) else { return };
    let folder = machine.users.folder(machine.uid(HOSTILE));
    let secret = machine.users.root().join("secret");
    std::fs::write(&secret, "root's").expect("a file");
    let (link, own) = (folder.join("timeline.html"), folder.join("own.html"));
    let job = machine.submit(HOSTILE, &["-o", "none", "-n", "1", "true"]);
    machine.await_state(job, "over");
    machine.as_user(HOSTILE, |_| {
        symlink(&secret, &link).expect("its own");
        std::fs::write(&own, "").expect("its own");
    });
    let number = job.to_string();
    let ran = tutti(&machine, &["timeline", &number, "-o", text(&link)]);
    let why = format!("is a link that user {} has made", machine.uid(HOSTILE));
    assert!(ran.code() == 1 && ran.stderr.contains(&why), "{ran}");
    assert_eq!(std::fs::read_to_string(&secret).expect("ours"), "root's");
    // A link of root's, and a file of the user's, which stays the user's.
    let shortcut = machine.users.root().join("shortcut.html");
    symlink(&own, &shortcut).expect("ours");
    chown(&own, Some(machine.uid(HOSTILE)), None).expect("ours");
    tutti(&machine, &["timeline", &number, "-o", text(&shortcut)]).expect_success();
    let found = own.metadata().expect("it is there");
    assert!(found.len() > 1000 && found.uid() == machine.uid(HOSTILE), "{found:?}");
}
