//! Two launches of `mpiexec` that connect to each other: by ports, published names and sockets, on one node
//! and on several. What does not belong there is refused, and a launch that ends is noticed by the other.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tutti_tests::users::Users;
use tutti_tests::{Ran, Scratch, compile, compile_behind, program, run};

use super::LIMIT;
use crate::harness::{Running, await_that};

/// Both launches, and where the port's name stands.
struct Launches {
    scratch: Scratch,
    launches: PathBuf,
}

impl Launches {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let launches = compile("tests/processes/programs/launches.c", scratch.path());
        Launches { scratch, launches }
    }

    fn port_file(&self) -> String {
        self.scratch.path().join("port").to_str().expect("a path of text").into()
    }

    /// One side: options of `mpiexec`, then "accept" or "connect".
    fn side(&self, options: &str, side: &str, meet: &str, what: &str) -> Command {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(options.split_whitespace()).arg(&self.launches).args([side, meet, what]);
        mpiexec.env("TUTTI_DIR", self.scratch.path());
        mpiexec
    }

    /// Both to their ends.
    fn meet(&self, options: [&str; 2], meet: &str, what: &str) -> [Ran; 2] {
        let _ = std::fs::remove_file(self.port_file());
        let [mut accept, mut connect] = [(options[0], "accept"), (options[1], "connect")]
            .map(|(options, side)| self.side(options, side, meet, what));
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| run(&mut accept, LIMIT));
            let connected = run(&mut connect, LIMIT);
            [accepted.join().expect("it ran"), connected]
        })
    }

    #[track_caller]
    fn expect_met(&self, options: [&str; 2], meet: &str, what: &str) {
        let [accepted, connected] = self.meet(options, meet, what);
        for (ran, line) in [(accepted, "accepted\n"), (connected, "connected\n")] {
            let ran = ran.expect_success();
            assert_eq!((&*ran.stdout, &*ran.stderr), (line, ""), "{options:?} {what}: {ran}");
        }
    }
}

/// Both launches of a program of any test, which sees their ranks as MPI_COMM_WORLD.
fn run_together(scratch: &Scratch, compiled: &Path, options: [&str; 2], arguments: &[&str]) -> [Ran; 2] {
    let port_file = scratch.path().join("port");
    let _ = std::fs::remove_file(&port_file);
    let [mut accept, mut connect] =
        [(options[0], "accept"), (options[1], "connect")].map(|(options, launch)| {
            let mut mpiexec = program("mpiexec");
            mpiexec.args(options.split_whitespace()).arg(compiled).args(arguments);
            mpiexec.env("TUTTI_DIR", scratch.path()).env("LAUNCH", launch).env("PORT_FILE", &port_file);
            mpiexec
        });
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| run(&mut accept, LIMIT));
        let connected = run(&mut connect, LIMIT);
        [accepted.join().expect("it ran"), connected]
    })
}

/// A program of the tests of another chapter for two launches.
fn compiled_for_two(scratch: &Scratch, source: &str) -> PathBuf {
    compile_behind("tests/processes/programs/two_launches.h", source, scratch.path())
}

/// Options of both launches: on one node, and on several.
const SIDES: [[&str; 2]; 4] = [
    ["-n 1", "-n 1"],
    ["-n 2", "-n 1"],
    ["-n 1", "-n 2"],
    ["--virtual-nodes 2 -n 2", "--virtual-nodes 2 -n 2"],
];

/// Waits for a file that another program writes under its last name, and gives its text.
fn await_port(file: &str) -> String {
    let until = Instant::now() + LIMIT;
    loop {
        if let Ok(port) = std::fs::read_to_string(file) {
            return port;
        }
        assert!(Instant::now() < until, "no port in {file}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The socket on which the opener of a port takes connections. Its name ends in a number that only those who
/// have the port can compute; here the kernel's list of sockets tells it.
fn socket_of(port: &str) -> SocketAddr {
    let words: Vec<&str> = port.split(':').collect();
    let job: Vec<u8> =
        (0..8).map(|at| u8::from_str_radix(&words[4][2 * at..2 * at + 2], 16).expect("two digits")).collect();
    let job = u64::from_le_bytes(job.try_into().expect("eight bytes"));
    let beginning = format!("tutti-rank-{job:016x}-{}-", words[1]);
    let list = std::fs::read("/proc/net/unix").expect("a list of sockets");
    let list = String::from_utf8_lossy(&list);
    let mut names = list.lines().filter_map(|line| line.split_once('@')).map(|(_, name)| name);
    let name = names.find(|name| name.starts_with(&beginning)).expect("the opener listens");
    SocketAddr::from_abstract_name(name).expect("a short name")
}

#[test]
fn launches_connect_by_a_port_and_have_all_of_mpi_between_them() {
    let launches = Launches::new("launches-ports");
    let file = launches.port_file();
    for options in [["-n 1", "-n 1"], ["-n 2", "-n 3"], ["-n 4", "-n 1"]] {
        launches.expect_met(options, &file, "");
    }
    launches.expect_met(["-n 2", "-n 1"], &file, "twice");
    launches.expect_met(["-n 1", "-n 2"], &file, "leave");
}

#[test]
fn launches_on_several_virtual_nodes_connect_by_a_port() {
    let launches = Launches::new("launches-nodes");
    let file = launches.port_file();
    let nodes = "--virtual-nodes 2 -n 3";
    for options in [[nodes, "-n 2"], ["-n 1", nodes], [nodes, nodes]] {
        launches.expect_met(options, &file, "");
    }
}

#[test]
fn launches_that_are_checked_connect_without_a_finding() {
    let launches = Launches::new("launches-checked");
    let file = launches.port_file();
    let [mut accept, mut connect] = ["accept", "connect"].map(|side| launches.side("-n 2", side, &file, ""));
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| run(accept.env("TUTTI_CHECK", "1"), LIMIT));
        let connected = run(connect.env("TUTTI_CHECK", "1"), LIMIT).expect_success();
        let accepted = accepted.join().expect("it ran").expect_success();
        assert_eq!((&*accepted.stderr, &*connected.stderr), ("", ""));
    });
}

#[test]
fn launches_find_each_other_by_a_published_name() {
    let launches = Launches::new("launches-names");
    for options in [["-n 1", "-n 1"], ["-n 2", "-n 2"]] {
        launches.expect_met(options, "ocean", "");
    }
}

#[test]
fn launches_join_over_a_socket() {
    let launches = Launches::new("launches-join");
    let socket = format!("@{}", launches.scratch.path().join("socket").display());
    launches.expect_met(["-n 1", "-n 1"], &socket, "");
}

#[test]
fn launch_that_ends_is_an_error_of_the_other_one() {
    let launches = Launches::new("launches-die");
    for options in [["-n 1", "-n 1"], ["-n 2", "-n 3"]] {
        let [accepted, connected] = launches.meet(options, &launches.port_file(), "die");
        assert_eq!(accepted.code(), 137, "{accepted}");
        assert_eq!(connected.expect_success().stdout, "connected\n", "{options:?}");
    }
}

/// Numbers of those that have ended are used again meanwhile.
#[test]
fn launches_serve_many_clients_one_after_another() {
    const LAUNCHES: u32 = 12;
    const RANKS: u32 = 8;
    let scratch = Scratch::new("launches-clients");
    let compiled = compile("tests/processes/programs/many_clients.c", scratch.path());
    let port = scratch.path().join("port");
    let side = |ranks: u32, words: &[&str]| {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", &ranks.to_string()]).arg(&compiled).arg(words[0]).arg(&port).args(&words[1..]);
        mpiexec.env("TUTTI_DIR", scratch.path());
        mpiexec
    };
    let count = (LAUNCHES * RANKS).to_string();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| run(&mut side(1, &["serve", &count]), LIMIT));
        for _ in 0..LAUNCHES {
            let asked = run(&mut side(RANKS, &["ask"]), LIMIT).expect_success();
            assert_eq!((&*asked.stdout, &*asked.stderr), ("", ""), "{asked}");
        }
        let served = served.join().expect("it ran").expect_success();
        assert!(served.stdout.starts_with(&format!("served {count}, ")), "{served}");
        assert_eq!(served.stderr, "", "{served}");
    });
}

#[test]
fn launches_have_files_together() {
    for name in ["kinds", "views", "datareps", "wrong"] {
        let scratch = Scratch::new(&format!("launches-files-{name}"));
        let compiled = compiled_for_two(&scratch, &format!("tests/files/programs/{name}.c"));
        let file = scratch.path().join("data");
        let file = file.to_str().expect("a path of text");
        for options in SIDES {
            let [accepted, connected] =
                run_together(&scratch, &compiled, options, &[file]).map(Ran::expect_success);
            let right = format!("{name} are right\n");
            assert_eq!((&*accepted.stdout, &*accepted.stderr), (&*right, ""), "{options:?}: {accepted}");
            assert_eq!((&*connected.stdout, &*connected.stderr), ("", ""), "{options:?}: {connected}");
        }
    }
}

#[test]
fn launch_that_ends_in_an_access_to_a_file_is_an_error_of_the_other_one() {
    let scratch = Scratch::new("launches-lost-file");
    let compiled = compiled_for_two(&scratch, "tests/processes/programs/lost_file.c");
    let file = scratch.path().join("data");
    let file = file.to_str().expect("a path of text");
    for options in [["-n 1", "-n 1"], ["-n 1", "-n 3"], ["--virtual-nodes 2 -n 2", "--virtual-nodes 2 -n 2"]]
    {
        for how in ["together", "shared"] {
            let [accepted, connected] = run_together(&scratch, &compiled, options, &[file, how]);
            assert_eq!(accepted.code(), 137, "{options:?}, {how}: {accepted}");
            let connected = connected.expect_success();
            assert!(connected.stdout.starts_with("lost\n"), "{options:?}, {how}: {connected}");
        }
    }
}

#[test]
fn launch_that_ends_leaves_a_file_that_is_deleted_on_close() {
    let scratch = Scratch::new("launches-lost-scratch");
    let compiled = compiled_for_two(&scratch, "tests/processes/programs/lost_file.c");
    let file = scratch.path().join("data");
    let file = file.to_str().expect("a path of text");
    let [accepted, connected] = run_together(&scratch, &compiled, ["-n 1", "-n 1"], &[file, "scratch"]);
    assert_eq!(connected.code(), 137, "{connected}");
    assert!(accepted.expect_success().stdout.starts_with("lost\n"));
}

/// A program about windows, run by both launches on all kinds of nodes.
#[track_caller]
fn windows_are_right(source: &str, arguments: &[&str], sides: &[[&str; 2]]) {
    let name = Path::new(source).file_stem().and_then(|name| name.to_str()).expect("a name of text");
    let scratch = Scratch::new(&format!("launches-windows-{name}"));
    let compiled = compiled_for_two(&scratch, source);
    for options in sides {
        let [accepted, connected] =
            run_together(&scratch, &compiled, *options, arguments).map(Ran::expect_success);
        let right = format!("{name}: all right");
        assert!(accepted.stdout.contains(&right), "{options:?}: {accepted}");
        assert_eq!((&*accepted.stderr, &*connected.stderr), ("", ""), "{options:?}: {accepted} {connected}");
    }
}

#[test]
fn launches_have_windows_together_under_every_synchronisation() {
    let seed = tutti_testkit::seed().to_string();
    windows_are_right("tests/windows/c/operations.c", &[&seed, "1"], &SIDES);
}

#[test]
fn launches_do_long_operations_on_windows_in_order() {
    let seed = tutti_testkit::seed().to_string();
    windows_are_right("tests/windows/c/long.c", &[&seed, "3"], &SIDES);
    windows_are_right("tests/windows/c/unlock.c", &[], &SIDES);
}

#[test]
fn launches_pass_a_token_by_locks_posts_and_puts() {
    windows_are_right("tests/windows/c/patience.c", &["50"], &SIDES);
}

#[test]
fn launches_pass_locks_on_between_virtual_nodes_while_the_target_sleeps() {
    windows_are_right("tests/processes/programs/lock_queue.c", &[], &SIDES[3..]);
}

#[test]
fn launches_serve_windows_while_the_target_computes() {
    windows_are_right("tests/windows/c/progress.c", &[], &SIDES[..1]);
}

#[test]
fn launch_that_ends_in_an_epoch_is_an_error_of_the_other_one() {
    let scratch = Scratch::new("launches-lost-window");
    let compiled = compiled_for_two(&scratch, "tests/processes/programs/lost_window.c");
    for options in [["-n 1", "-n 1"], ["-n 1", "-n 2"], ["--virtual-nodes 2 -n 2", "--virtual-nodes 2 -n 2"]]
    {
        for what in ["lock", "flush", "fence", "post", "wait"] {
            let [accepted, connected] = run_together(&scratch, &compiled, options, &[what]);
            assert_eq!(accepted.code(), 137, "{options:?}, {what}: {accepted}");
            let connected = connected.expect_success();
            assert!(connected.stdout.starts_with("lost\n"), "{options:?}, {what}: {connected}");
        }
    }
}

#[test]
fn launch_refuses_strangers_and_forged_names_and_takes_the_next() {
    let launches = Launches::new("launches-refused");
    let file = launches.port_file();
    let mut accept = launches.side("-n 2", "accept", &file, "");
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| run(&mut accept, LIMIT));
        let port = await_port(&file);
        for options in ["-n 1", "-n 2"] {
            let ran = run(&mut launches.side(options, "connect", &file, "forged"), LIMIT).expect_success();
            assert_eq!((&*ran.stdout, &*ran.stderr), ("refused\n", ""), "{options}: {ran}");
        }
        flood(&socket_of(&port));
        if let Some(users) = Users::new("tutti-launches-strangers", 1) {
            let user = users.uids()[0];
            let copies = [users.reachable(&launches.launches), users.reachable(Path::new(&file))];
            let mut mpiexec = users.command(user, "mpiexec", &["-n", "1"]);
            mpiexec.env("TUTTI_DAEMON", "none").arg(&copies[0]).arg("connect").arg(&copies[1]).arg("refused");
            let ran = run(&mut mpiexec, LIMIT).expect_success();
            assert_eq!((&*ran.stdout, &*ran.stderr), ("refused\n", ""), "{ran}");
        }
        let connected = run(&mut launches.side("-n 2", "connect", &file, ""), LIMIT).expect_success();
        let accepted = accepted.join().expect("it ran").expect_success();
        assert_eq!((&*accepted.stdout, &*accepted.stderr), ("accepted\n", ""), "{accepted}");
        assert_eq!(connected.stdout, "connected\n", "{connected}");
    });
    // Now it has ended.
    let ran = run(&mut launches.side("-n 2", "connect", &file, "refused"), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("refused\n", ""), "{ran}");
}

/// Opener of the launch, which refuses strangers meanwhile; the user ends it, and nothing of it is left.
#[test]
fn launch_that_nobody_connects_to_waits_and_ends_by_ctrl_c() {
    let launches = Launches::new("launches-nobody");
    let file = launches.port_file();
    for options in ["-n 2", "--virtual-nodes 2 -n 2"] {
        let _ = std::fs::remove_file(&file);
        let accept = Running::start_command(&mut launches.side(options, "accept", &file, ""));
        let port = await_port(&file);
        let socket = socket_of(&port);
        let has_met = UnixStream::connect_addr(&socket).is_ok();
        // A rank of another launch is refused at once: nothing of this wait keeps it.
        let ran = run(&mut launches.side("-n 1", "connect", &file, "forged"), LIMIT).expect_success();
        assert_eq!((has_met, &*ran.stdout, &*ran.stderr), (true, "refused\n", ""), "{options}: {ran}");
        accept.signal(Signal::INT);
        let (status, errors) = accept.end();
        assert_eq!((status, &*errors), (130, ""), "{options}");
        // A process that ends has no environment any more before it closes its sockets.
        await_that("nobody accepts any more", || {
            UnixStream::connect_addr(&socket)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        });
    }
}

/// A hundred thousand connections: some stay and say nothing, the others say the wrong thing and are closed.
fn flood(socket: &SocketAddr) {
    let silent: Vec<UnixStream> = (0..200).filter_map(|_| UnixStream::connect_addr(socket).ok()).collect();
    for at in 0..100_000_u32 {
        let mut stream = UnixStream::connect_addr(socket).expect("whoever accepts is there still");
        let said = stream.write_all(&[at as u8; 56]);
        if said.is_ok() && at % 5000 == 0 {
            stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
            assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "a connection with a wrong hello is closed");
        }
    }
    drop(silent);
}
