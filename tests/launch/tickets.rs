//! A ticket makes one process the rank, wherever it stands below wrappers.

use crate::harness::{RANK, mpiexec};

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
