//! The promises of regions for other jobs: published by name with rights and for whom, reached by whom they
//! are for and nobody else, answered while their owner is frozen. `programs/server.c` publishes,
//! `programs/client.c` is a process that belongs to no job. `other_node` has the clients of other nodes.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

#[path = "../cluster/cluster.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod cluster;
#[path = "../launch/harness.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod harness;
mod other_node;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{Running, await_that, cgroup_of, state_of, without_cgroups};
use rustix::process::{Pid, Signal};
use tutti_shm::published::door::Door;
use tutti_shm::published::{Ask, Status};
use tutti_testkit::{Need, skip_part};
use tutti_tests::users::Users;
use tutti_tests::{Scratch, program, root, run};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn compile(source: &str, folder: &Path) -> PathBuf {
    let path = folder.join(Path::new(source).file_stem().expect("it has a name"));
    let mut compiler = program("mpicc");
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&path);
    compiler.arg(root().join(source)).args(["-ltutti", "-lpthread"]);
    run(&mut compiler, LIMIT).expect_success();
    path
}

/// A server under names of its own, and its clients.
struct Service {
    /// How its names begin; this process's, so that others may run beside it.
    prefix: String,
    client: PathBuf,
    job: Running,
    _scratch: Scratch,
}

impl Service {
    #[track_caller]
    fn start(name: &str, mpiexec: Command) -> Self {
        let scratch = Scratch::new(&format!("published-{name}"));
        let server = compile("tests/published/programs/server.c", scratch.path());
        let client = compile("tests/published/programs/client.c", scratch.path());
        let prefix = format!("{name}-{}", std::process::id());
        Self::start_with(mpiexec, &server, client, &prefix, "user", scratch)
    }

    #[track_caller]
    fn start_with(
        mut mpiexec: Command,
        server: &Path,
        client: PathBuf,
        prefix: &str,
        whom: &str,
        scratch: Scratch,
    ) -> Self {
        mpiexec.env("TUTTI_DAEMON", "none").args(["-n", "1"]).arg(server).args([prefix, whom]);
        let mut job = Running::start_command(&mut mpiexec);
        job.await_line("ready");
        Service { prefix: prefix.to_owned(), client, job, _scratch: scratch }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.client);
        command.arg(words[0]).arg(&self.prefix).args(&words[1..]);
        command
    }

    /// A client does this, to its end.
    #[track_caller]
    fn ask(&self, words: &[&str]) {
        let ran = run(&mut self.command(words), LIMIT).expect_success();
        assert!(ran.stdout.contains(&format!("{}: ok\n", words[0])), "{ran}");
    }

    /// The server ends by itself, and has found nothing wrong.
    #[track_caller]
    fn end(self) {
        self.ask(&["send", "end"]);
        let (status, errors, lines) = self.job.end_with_output();
        assert_eq!((status, errors.as_str()), (0, ""));
        assert!(lines.iter().any(|line| line == "server: ok"), "{lines:?}");
    }
}

fn mpiexec() -> Command {
    program("mpiexec")
}

// Paper: C8
#[test]
fn published_regions_keep_their_rights() {
    let service = Service::start("rights", mpiexec());
    for _ in 0..3 {
        service.ask(&["rights"]);
    }
    service.ask(&["threads"]);
    service.end();
}

/// Descriptors of memory that may be read do not let their holders write it, also as the owner's user.
#[test]
fn published_memory_for_readers_cannot_be_written_by_its_descriptor() {
    let service = Service::start("attack", mpiexec());
    let uid = rustix::process::geteuid().as_raw().to_string();
    service.ask(&["attack", &uid]);
    service.end();
}

/// Waits until the rank of a server's job is frozen, or stopped where there is no cgroup.
#[track_caller]
fn await_standstill(job: &Running) {
    let is_server = |pid: &Pid| {
        std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
            .is_ok_and(|name| name == "server\n")
    };
    let server = job.mark.processes().into_iter().find(is_server).expect("the server");
    let is_frozen = |cgroup: PathBuf| {
        std::fs::read_to_string(cgroup.join("cgroup.events")).is_ok_and(|text| text.contains("frozen 1"))
    };
    await_that("the server stands still", || {
        cgroup_of(server).is_some_and(is_frozen) || state_of(server) == Some('T')
    });
}

#[track_caller]
fn answers_while_its_owner_is_frozen(name: &str, mpiexec: Command) {
    let service = Service::start(name, mpiexec);
    service.ask(&["work", "100"]);
    service.job.signal(Signal::TSTP);
    await_standstill(&service.job);
    let mut client = Running::start_command(&mut service.command(&["frozen"]));
    client.await_line("frozen");
    service.job.signal(Signal::CONT);
    let (status, errors, lines) = client.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""), "{lines:?}");
    service.end();
}

/// C3, for other jobs: memory is read, written and changed, and messages wait, while the owner's job is
/// frozen; a client that waits for it uses no CPU time.
// Paper: C3
#[test]
fn published_regions_answer_while_their_owner_is_frozen() {
    answers_while_its_owner_is_frozen("frozen", mpiexec());
}

// Paper: C3
#[test]
fn published_regions_answer_while_their_owner_is_stopped_by_signals() {
    let Some(mpiexec) = without_cgroups() else {
        skip_part(Need::Root, "no mount namespace for a job without cgroups");
        return;
    };
    answers_while_its_owner_is_frozen("stopped", mpiexec);
}

#[test]
fn published_region_that_is_opened_anew_is_another_one() {
    let service = Service::start("stale", mpiexec());
    for wait in ["", "wait"] {
        let mut client = Running::start_command(&mut service.command(&["stale", wait]));
        client.await_line("open");
        service.ask(&["send", "reopen"]);
        let (status, errors) = client.end();
        assert_eq!((status, errors.as_str()), (0, ""), "{wait}");
    }
    service.end();
}

/// A rank that dies: the job ends as always, clients of its regions get "gone", those that wait too.
#[test]
fn published_region_of_a_dead_rank_is_gone() {
    let service = Service::start("gone", mpiexec());
    let mut clients = ["", "wait"].map(|wait| Running::start_command(&mut service.command(&["gone", wait])));
    clients.iter_mut().for_each(|client| client.await_line("open"));
    // The end may come before its answer.
    run(&mut service.command(&["send", "die"]), LIMIT);
    for client in clients {
        assert_eq!(client.end(), (0, String::new()));
    }
    assert_eq!(service.job.end().0, 137);
}

/// A client that floods is slowed down; others are answered meanwhile.
#[test]
fn published_region_slows_down_a_client_that_floods_it() {
    let service = Service::start("flood", mpiexec());
    let uid = rustix::process::geteuid().as_raw();
    let door = Door::connect(uid, &format!("{}-atomic", service.prefix)).expect("the region is there");
    let (answer, ..) = door.ask(Ask::Open(0), &[]).expect("an answer");
    assert_eq!(answer.status, Status::Ok);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let began = Instant::now();
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut sent = 0_u64;
            // It has no answer, so nothing but the server slows it down.
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) || began.elapsed().as_millis() < 500 {
                door.say(Ask::Changed(0));
                sent += 1;
            }
            sent
        });
        service.ask(&["work", "2000"]);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        flood.join().expect("the flood")
    });
    // 100,000 a second, 10,000 at once, and what its socket holds.
    let allowed = 10_000 + 2_000 + (began.elapsed().as_secs_f64() * 100_000.0) as u64;
    println!("{sent} questions in {:?}, {allowed} allowed", began.elapsed());
    assert!(sent <= allowed, "{sent} questions, {allowed} allowed");
    drop(door);
    service.end();
}

/// Rubbish, which is no question, ends the connection, and nothing else.
#[test]
fn published_region_survives_rubbish() {
    let service = Service::start("rubbish", mpiexec());
    let uid = rustix::process::geteuid().as_raw();
    let seed = tutti_testkit::seed();
    println!("TUTTI_TEST_SEED={seed}");
    let mut random = tutti_testkit::Random::new(seed);
    let name = tutti_shm::published::socket_name(uid, &format!("{}-atomic", service.prefix));
    for _ in 0..300 {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET, None)
                .expect("a socket");
        let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
        rustix::net::connect(&socket, &address).expect("the server is there");
        for _ in 0..random.below(5) {
            let mut bytes = vec![0; random.below(80) as usize + 1];
            random.fill(&mut bytes);
            if random.chance(500) && bytes.len() >= 8 {
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_le_bytes());
                bytes[4..8].copy_from_slice(&(random.below(14) as u32).to_le_bytes());
            }
            let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
            if rustix::net::send(&socket, &bytes, flags).is_err() {
                break;
            }
        }
    }
    service.ask(&["rights"]);
    service.end();
}

/// Ends a job, and finds nothing left of it: no name, no process.
#[test]
fn published_regions_end_with_their_job() {
    let service = Service::start("end", mpiexec());
    let (prefix, mark) = (service.prefix.clone(), service.job.mark.processes().len());
    assert!(mark >= 2, "mpiexec, its starter and its rank");
    service.job.signal(Signal::TERM);
    assert_eq!(service.job.end().0, 143);
    // A process that ends has no environment any more before it closes its sockets.
    await_that("no name of it is left", || {
        !std::fs::read_to_string("/proc/net/unix").expect("/proc").contains(&prefix)
    });
}

/// Whom a region is for, by the kernel's word.
// Paper: C8
#[test]
fn published_regions_are_for_whom_their_owner_says() {
    let Some(users) = Users::new("tutti-published", 2) else { return };
    let scratch = Scratch::new("published-users");
    let [owner, other] = users.uids() else { panic!("two users") };
    let (owner, other) = (*owner, *other);
    let server = users.reachable(&compile("tests/published/programs/server.c", scratch.path()));
    let client = users.reachable(&compile("tests/published/programs/client.c", scratch.path()));
    let library = users.programs().join("lib");
    let ask = |uid: u32, words: &[&str]| {
        let mut command = users.foreign(uid, &client);
        run(command.env("LD_LIBRARY_PATH", &library).args(words), LIMIT)
    };
    let audiences = [
        ("own", "user".to_owned(), false),
        ("bob", format!("user:{other}"), true),
        ("carol", format!("user:{}", other + 1000), false),
        ("group", format!("group:{other}"), true),
        ("all", "everybody".to_owned(), true),
    ];
    for (name, whom, is_let_in) in audiences {
        let mpiexec = users.command(owner, "mpiexec", &[]);
        let prefix = format!("{name}-{}", std::process::id());
        let own = Scratch::new(&format!("published-users-{name}"));
        let service = Service::start_with(mpiexec, &server, client.clone(), &prefix, &whom, own);
        let named = format!("{owner}/{prefix}");
        // The owner's user is let in always.
        ask(owner, &["rights", &prefix]).expect_success();
        if is_let_in {
            ask(other, &["rights", &named]).expect_success();
            ask(other, &["attack", &prefix, &owner.to_string()]).expect_success();
        } else {
            for rest in ["all", "beat", "write", "atomic", "signal"] {
                ask(other, &["refused", &named, rest]).expect_success();
            }
        }
        // A name of another user's is not found under one's own.
        assert_ne!(ask(other, &["work", &prefix, "1"]).code(), 0);
        ask(owner, &["send", &prefix, "end"]).expect_success();
        assert_eq!(service.job.end().0, 0);
    }
}

/// The example of a server with two clients.
#[test]
fn published_example_serves_two_clients() {
    let scratch = Scratch::new("published-example");
    let compiled = compile("examples/service.c", scratch.path());
    let name = format!("example-{}", std::process::id());
    let mut server = mpiexec();
    server.env("TUTTI_DAEMON", "none").args(["-n", "1"]).arg(&compiled).args(["serve", &name, "200"]);
    let mut server = Running::start_command(&mut server);
    server.await_line("serving");
    let clients = [1, 2].map(|_| {
        let mut client = mpiexec();
        client.env("TUTTI_DAEMON", "none").args(["-n", "1"]).arg(&compiled).args(["ask", &name, "100"]);
        Running::start_command(&mut client)
    });
    for client in clients {
        let (status, errors, lines) = client.end_with_output();
        assert_eq!(
            (status, errors.as_str(), lines.as_slice()),
            (0, "", &["100 answers, all right".into()][..])
        );
    }
    let (status, errors, lines) = server.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""));
    assert_eq!(lines.last().map(String::as_str), Some("200 questions of 2 clients"));
}
