//! Messages of strangers and liars on the local socket: one line or a closed connection, and nothing happens.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::time::Duration;
use tutti_testkit::{Need, Random, skip};

use crate::Cluster;
use crate::harness::{LIMIT, RANK, await_that};

/// Kind of a request's frame.
const ASK: u32 = 32;

fn connect(cluster: &Cluster) -> UnixStream {
    let stream = UnixStream::connect(cluster.folder.join("tuttid.sock")).expect("the daemon lives");
    stream.set_read_timeout(Some(LIMIT)).expect("a socket");
    stream
}

fn frame(kind: u32, payload: &[u8]) -> Vec<u8> {
    let head = [kind, 0, payload.len() as u32];
    head.iter().flat_map(|word| word.to_ne_bytes()).chain(payload.iter().copied()).collect()
}

/// Answer of the daemon to some bytes, until it closes; it must close.
#[track_caller]
fn answer(cluster: &Cluster, bytes: &[u8]) -> String {
    let mut stream = connect(cluster);
    // It may have closed before all was said.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => said.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the end of the connection was awaited: {error}"),
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// Checks that the daemon lives, and has no job.
#[track_caller]
fn assert_unharmed(cluster: &Cluster, daemon: rustix::process::Pid) {
    assert_eq!(cluster.daemon(0), daemon);
    assert_eq!(cluster.tutti(&["ps", "--all", "--json"]).expect_success().stdout.trim(), "[]");
}

#[test]
fn local_socket_garbage_changes_nothing() {
    let cluster = Cluster::up("cluster-rubbish", 1, &[]);
    let daemon = cluster.daemon(0);
    let mut random = Random::new(tutti_testkit::seed());
    for _ in 0..200 {
        let mut bytes = vec![0; 12 + random.below(300) as usize];
        random.fill(&mut bytes);
        answer(&cluster, &bytes);
    }
    // Heads that announce more than there may be, and kinds that are not there.
    let huge: Vec<u8> = [ASK, 0, u32::MAX].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
    assert!(answer(&cluster, &huge).contains("is not one of this version"));
    assert!(answer(&cluster, &frame(4, b"")).contains("the first frame is not a request"));
    for wrong in [
        "",
        "{}",
        "null",
        "[1]",
        "\"Kill\"",
        "{\"Jobs\":{\"all\":7}}",
        "{\"Control\":[-1,\"Kill\"]}",
        "{\"Run\":{}}",
    ] {
        let said = answer(&cluster, &frame(ASK, wrong.as_bytes()));
        assert!(said.contains("the request is not one of this version ("), "{wrong:?}: {said:?}");
    }
    assert_unharmed(&cluster, daemon);
}

#[test]
fn local_socket_truncated_request_is_ignored() {
    let cluster = Cluster::up("cluster-truncated", 1, &[]);
    let daemon = cluster.daemon(0);
    let whole = frame(ASK, b"\"Down\"");
    for length in 0..whole.len() {
        connect(&cluster).write_all(&whole[..length]).expect("the daemon listens");
    }
    // Who asks and goes before the answer.
    for _ in 0..100 {
        connect(&cluster).write_all(&frame(ASK, b"{\"Jobs\":{\"all\":true}}")).expect("the daemon listens");
    }
    assert_unharmed(&cluster, daemon);
}

#[test]
fn silent_connections_are_dropped() {
    let cluster = Cluster::up("cluster-slow", 1, &[]);
    let daemon = cluster.daemon(0);
    let slow: Vec<UnixStream> = (0..200).map(|_| connect(&cluster)).collect();
    let byte = frame(ASK, b"\"Down\"");
    for (turn, stream) in slow.iter().enumerate() {
        // More are there than one user may have: some are refused at once.
        let _ = (&*stream).write_all(&byte[turn % 12..turn % 12 + 1]);
    }
    for mut stream in &slow {
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        let refused = said.contains("try again later");
        assert!(refused || said.contains("no whole request") || said.contains("of this version"), "{said:?}");
    }
    await_that("others are answered again", || cluster.tutti(&["ps"]).status.success());
    assert_unharmed(&cluster, daemon);
}

/// The port on which daemons hear each other is open to whoever reaches it.
#[test]
fn daemon_port_garbage_changes_nothing() {
    let cluster = Cluster::up("cluster-port", 2, &crate::cluster::SLOWLY_LOST);
    let daemon = cluster.daemon(0);
    let log = || std::fs::read_to_string(cluster.folder.join("node0.log")).expect("its log");
    let said = log();
    let first = said.lines().find(|line| line.contains("listens on ")).expect("its first line");
    let port = first.rsplit(' ').next().expect("an address").to_owned();
    let connect = || std::net::TcpStream::connect(&port).expect("the daemon lives");
    let mut random = Random::new(tutti_testkit::seed());
    for _ in 0..200 {
        let mut bytes = vec![0; random.below(512) as usize];
        random.fill(&mut bytes);
        let _ = connect().write_all(&bytes);
    }
    // A client's hello of TLS, cut at every byte.
    let hello = [&[22, 3, 1, 0, 40, 1, 0, 0, 36, 3, 3][..], &[7; 34]].concat();
    for length in 0..hello.len() {
        let _ = connect().write_all(&hello[..length]);
    }
    // More than may wait say nothing; members are still heard, and new ones when those have gone.
    let silent: Vec<_> = (0..400).map(|_| connect()).collect();
    cluster.run(&["run", "-N", "2", "-n", "2", RANK, "exchange"]).expect_success();
    drop(silent);
    cluster.replace(1);
    // A job that is placed before the controller has heard of the new daemon is lost with the old one, which
    // is said.
    await_that("jobs run on the other node again", || {
        let ran = cluster.run(&["run", "-N", "2", "-n", "2", RANK, "exchange"]);
        assert!(ran.status.success() || ran.stderr.contains("were lost with its daemon"), "{}", ran.stderr);
        ran.status.success()
    });
    assert_eq!(cluster.daemon(0), daemon);
    let lines = log().matches("is not a member of this cluster").count();
    assert!((1..20).contains(&lines), "{lines} lines about strangers");
}

#[test]
fn fake_starter_is_refused_and_the_job_continues() {
    const BACK: u32 = 13;
    let cluster = Cluster::up("cluster-impostor", 1, &[]);
    let job = cluster.start(&["run", "-N", "1", "-n", "2", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    for number in [0, 1, 2, u64::MAX] {
        let back = serde_json::json!({
            "job": number, "token": 0, "base": 0, "piece": 0, "taken": false, "frozen": false, "has_peers": true
        });
        let mut bytes = frame(BACK, back.to_string().as_bytes());
        // The end of the job, he says.
        bytes.extend(frame(18, b"{\"End\":{\"status\":0}}"));
        let mut stream = connect(&cluster);
        stream.write_all(&bytes).expect("the daemon listens");
        let mut head = [0; 4];
        stream.read_exact(&mut head).expect("he is told");
        assert_eq!(u32::from_ne_bytes(head), 8, "Leave");
    }
    assert!(answer(&cluster, &frame(BACK, b"{}")).contains("missing field"));
    assert!(cluster.job(1).contains("\"running\""));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
}

#[test]
fn flooding_front_end_does_not_harm_others() {
    let cluster = Cluster::up("cluster-flood", 2, &[]);
    let job = cluster.start(&["run", "-N", "2", "-n", "2", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["submit", "-n", "1", RANK, "hang"]).expect_success();
    let mut flood = connect(&cluster);
    flood.set_write_timeout(Some(Duration::from_secs(5))).expect("a socket");
    flood.write_all(&frame(ASK, b"{\"Attach\":2}")).expect("the daemon listens");
    // Frames that only the other side may send, signals that do not exist, and input that nobody takes.
    let mut wave = Vec::new();
    for kind in [2, 3, 4, 5, 7, 8, 9, 16, 17, 18, 33] {
        wave.extend(frame(kind, &[b'x'; 1000]));
    }
    for _ in 0..2000 {
        if flood.write_all(&wave).is_err() {
            break;
        }
    }
    cluster.run(&["run", "-N", "2", "-n", "2", RANK, "exchange"]).expect_success();
    assert!(cluster.job(1).contains("\"running\""));
    drop(flood);
    cluster.tutti(&["kill", "2"]).expect_success();
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
}

#[test]
fn control_of_another_users_job_is_refused() {
    let cluster = Cluster::up("cluster-other", 1, &[]);
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can be another user");
        return;
    }
    let job = cluster.start(&["run", "-N", "1", "-n", "1", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let as_other = |words: &[&str]| tutti_tests::run(cluster.command(words).uid(54321).gid(54321), LIMIT);
    for words in
        [&["kill", "1"][..], &["suspend", "1"], &["signal", "TERM", "1"], &["attach", "1"], &["logs", "1"]]
    {
        let ran = as_other(words);
        assert_eq!(ran.stderr, format!("tutti {}: job 1 is another user's\n", words[0]));
        assert_eq!(ran.code(), 1);
    }
    assert_eq!(as_other(&["down"]).stderr, "tutti down: only the owner of the daemons may end them\n");
    assert!(as_other(&["ps"]).expect_success().stdout.contains("running"));
    assert!(cluster.job(1).contains("\"running\""));
    // Root's daemon starts a job of anybody as that user.
    let ran = tutti_tests::run(
        cluster.command(&["run", "-N", "1", "-n", "1", "id", "-u"]).uid(54321).gid(54321).current_dir("/"),
        LIMIT,
    );
    assert_eq!(ran.expect_success().stdout, "54321\n");
    // With the groups that the kernel says he has; what he says himself does not count.
    let mut with_groups = std::process::Command::new("setpriv");
    with_groups.args(["--reuid", "54321", "--regid", "54321", "--groups", "50001,50002"]);
    let words = cluster.command(&["run", "-N", "1", "-n", "1", "id", "-G"]);
    with_groups.arg(words.get_program()).args(words.get_args()).current_dir("/");
    with_groups.envs(words.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = tutti_tests::run(&mut with_groups, LIMIT).expect_success();
    assert_eq!(ran.stdout, "54321 50001 50002\n");
    job.signal(rustix::process::Signal::TERM);
    assert_eq!(job.end().0, 143);
}
