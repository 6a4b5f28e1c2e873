//! A ticket makes one process the rank, wherever it stands below wrappers.

use std::os::unix::fs::PermissionsExt;

use tutti_tests::users::Users;
use tutti_tests::{Scratch, compile, program};

use crate::harness::{RANK, mpiexec, run};

#[test]
fn ticket_is_redeemed_once() {
    let ran = mpiexec(&["-n", "2", RANK, "attach", "ticket", "finalize"]).expect_success();
    assert_eq!(ran.stdout, "AlreadyRedeemed\nAlreadyRedeemed\n");
}

#[test]
fn ticket_works_below_wrappers() {
    let inner = format!("bash -c '{RANK} attach finalize; true'");
    let ran = mpiexec(&["-n", "2", "bash", "-c", &format!("{inner}; echo $TUTTI_RANK")]).expect_success();
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0", "1"]);
}

#[test]
fn ticket_socket_survives_unknown_clients() {
    mpiexec(&["-n", "2", RANK, "0:stranger", "attach", "finalize"]).expect_success();
}

#[test]
fn ticket_socket_crowd_does_not_displace_ranks() {
    let folder = tutti_tests::Scratch::new("crowd");
    let file =
        |verb: &str, rank: u32, name: &str| format!("{rank}:{verb}={}", folder.path().join(name).display());
    let words = [
        "1:dial".to_owned(),
        file("touch", 1, "dialled"),
        file("await", 0, "dialled"),
        "0:stranger".to_owned(),
        file("touch", 0, "crowd"),
        file("await", 1, "crowd"),
        "attach".to_owned(),
        "finalize".to_owned(),
    ];
    let words: Vec<&str> = ["-n", "2", RANK].into_iter().chain(words.iter().map(String::as_str)).collect();
    mpiexec(&words).expect_success();
}

#[test]
fn ranks_have_their_identity_before_init() {
    let names = [
        "TUTTI_RANK",
        "TUTTI_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "PMI_RANK",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "TUTTI_SIZE",
        "TUTTI_LOCAL_SIZE",
        "MPI_LOCALNRANKS",
        "PMI_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ];
    let script = format!("echo {}", names.map(|name| format!("${name}")).join(" "));
    let ran = mpiexec(&["-n", "3", "sh", "-c", &script]).expect_success();
    let mut lines: Vec<&str> = ran.stdout.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> =
        (0..3).map(|rank| format!("{}3 3 3 3 3 3", format!("{rank} ").repeat(6))).collect();
    assert_eq!(lines, expected);
}

/// `sudo -u`, `su` and the like in front of a rank: its line names the two users, and what to do.
#[test]
fn rank_that_a_wrapper_moves_to_another_user_has_a_line_with_both_users() {
    let Some(users) = Users::new("launch-moved", 2) else { return };
    let [first, second] = *users.uids() else { unreachable!("two were asked for") };
    let scratch = Scratch::new("launch-moved-programs");
    let hello = users.reachable(&compile("examples/hello.c", scratch.path()));
    let libraries = format!("LD_LIBRARY_PATH={}", users.programs().join("lib").display());
    // As sudo, it is root's for everybody.
    let found = std::env::var("PATH").expect("a path");
    let mut folders = found.split(':').map(|folder| std::path::Path::new(folder).join("setpriv"));
    let setpriv = folders.find(|path| path.is_file()).expect("setpriv of util-linux");
    let wrapper = users.reachable(&setpriv);
    std::fs::set_permissions(&wrapper, PermissionsExt::from_mode(0o4755)).expect("it is ours");
    for (from, to) in [(0, second), (first, second), (first, 0)] {
        let mut mpiexec = match from {
            0 => program("mpiexec"),
            _ => users.command(from, "mpiexec", &[]),
        };
        mpiexec.env("TUTTI_DAEMON", "none").args(["-n", "2"]).arg(&wrapper);
        mpiexec.args(["--reuid", &to.to_string(), "--clear-groups", "env", &libraries]).arg(&hello);
        let ran = run(&mut mpiexec);
        let cause = format!("this process runs as uid {to}, its job's starter as uid {from}: sudo, su, ");
        assert!(ran.code() != 0 && ran.stderr.contains(&cause), "{ran}");
        assert!(ran.stderr.contains("start mpiexec itself as the user that the program needs"), "{ran}");
        assert!(!ran.stderr.contains("namespace"), "{ran}");
    }
}

/// `sudo`, `su -` and `env -i` below mpiexec clear the environment: worlds of one rank, but not in silence.
#[test]
fn ranks_whose_ticket_a_wrapper_drops_run_alone_with_a_line() {
    let scratch = Scratch::new("launch-dropped");
    let file = compile("examples/hello.c", scratch.path()).display().to_string();
    let hello = file.as_str();
    let cause = "TUTTI_TICKET is not in its environment: sudo, su, env -i";
    for below in [&["env", "-i"][..], &["sh", "-c", "env -i \"$@\"; true", "sh"]] {
        let ran = mpiexec(&[&["-n", "3"], below, &[hello]].concat()).expect_success();
        assert_eq!(ran.stdout.matches("of 1").count(), 3, "{ran}");
        let lines = ran.stderr.matches(cause).count();
        assert!((1..=3).contains(&lines) && ran.stderr.lines().count() == lines, "{ran}");
        let wanted = mpiexec(&[&["-n", "3"], below, &["TUTTI_SINGLETON=1", hello]].concat());
        assert!(wanted.expect_success().stderr.is_empty(), "it is wanted");
    }
    let alone = run(std::process::Command::new("env").args(["-i", hello])).expect_success();
    assert!(alone.stderr.is_empty(), "no mpiexec is above it: {alone}");
}
