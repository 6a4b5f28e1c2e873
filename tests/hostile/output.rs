//! Output files of a user's job under root's daemon: written as the user, never as root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::Machine;

/// Why a job has ended, when it has.
#[track_caller]
fn cause(machine: &Machine, job: u32) -> String {
    machine.await_state(job, "over");
    machine.row(job)["cause"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn submit_output_file_belongs_to_its_user() {
    let Some(machine) = Machine::up("hostile-output", 2, 1, &[]) else { return };
    let uid = machine.uid(0);
    let script = "umask 027; \"$tutti\" submit -N 2 -n 2 sh -c 'id -u; umask'";
    tutti_tests::run(&mut machine.script(0, script), tutti_tests::LIMIT).expect_success();
    assert_eq!(cause(&machine, 1), "");
    let file = machine.users.folder(uid).join("tutti-1.out");
    let found = std::fs::metadata(&file).expect("the file");
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (uid, uid, 0o640));
    let text = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(text.lines().filter(|line| *line == uid.to_string()).count(), 2, "{text}");
    assert_eq!(machine.tutti(0, &["logs", "1"]).expect_success().stdout, text);
}

#[test]
fn submit_output_into_another_users_folder_is_refused() {
    let Some(machine) = Machine::up("hostile-output-folder", 2, 2, &[]) else { return };
    let (own, other) = (machine.users.folder(machine.uid(0)), machine.users.folder(machine.uid(1)));
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o700)).expect("ours");
    let name = other.join("file").display().to_string();
    let mut command = machine.command(0, "tutti", &["submit", "-o", &name, "-n", "1", "true"]);
    machine.users.refused(&mut command, &format!("cannot write {name}: Permission denied"));
    // Behind a name that the command cannot look at.
    symlink(&other, own.join("1.link")).expect("ours");
    let job = machine.submit(0, &["-o", "%j.link/file", "-N", "2", "-n", "2", "sleep", "1000"]);
    let why = cause(&machine, job);
    assert!(why.contains("1.link/file: Permission denied"), "{why}");
    assert_eq!(std::fs::read_dir(&other).expect("ours").count(), 0, "nothing was made there");
}

#[test]
fn submit_output_does_not_follow_a_link_to_what_its_user_may_not_write() {
    let Some(machine) = Machine::up("hostile-output-link", 1, 1, &[]) else { return };
    let secret = machine.users.root().join("secret");
    std::fs::write(&secret, "root's").expect("a file");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o644)).expect("ours");
    symlink(&secret, machine.users.folder(machine.uid(0)).join("tutti-1.out")).expect("ours");
    let job = machine.submit(0, &["-n", "1", "echo", "overwritten"]);
    let why = cause(&machine, job);
    assert!(why.contains("tutti-1.out: Permission denied"), "{why}");
    assert_eq!(std::fs::read_to_string(&secret).expect("ours"), "root's");
    // A writer is its user's in the kernel's eyes, and cannot be traced by the user.
    let script = "\"$tutti\" submit -o file -n 1 sleep 1000";
    tutti_tests::run(&mut machine.script(0, script), tutti_tests::LIMIT).expect_success();
    machine.await_state(2, "running");
    let uid = machine.uid(0);
    let is_writer = |pid: &rustix::process::Pid| {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"writer")
    };
    let of_user = |pid: &rustix::process::Pid| {
        // What is not dumpable is root's in /proc.
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        status.is_ok_and(|status| status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")))
    };
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let writer = pids.filter_map(rustix::process::Pid::from_raw).find(|pid| is_writer(pid) && of_user(pid));
    let writer = writer.expect("the job's writer").as_raw_nonzero();
    let denied = machine.as_user(0, |_| std::fs::read_link(format!("/proc/{writer}/fd/0")).is_err());
    assert!(denied, "its user may not look into it");
}
