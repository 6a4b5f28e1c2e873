//! Regions of another machine of the lab: everything that clients of the node have, over the network, by the
//! word of the daemons. What attacks the server of regions itself does so on virtual nodes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tutti_shm::published::far::{Admission, Given, Pass, Secret, Wanted, enter};
use tutti_shm::published::{Ask, Status};
use tutti_testkit::{Need, has_command_for_part, skip};
use tutti_tests::{Scratch, run};

use crate::cluster::Cluster;
use crate::harness::{self, Running, await_that};
use crate::{LIMIT, await_standstill, compile};

/// A machine of which nothing is heard is lost after a while, also on a crowded machine.
const LOST: [&str; 4] = ["--lost-after", "8", "--keep-for", "5"];
/// Users of all machines of a lab.
const ALICE: u32 = 1001;
const BOB: u32 = 1002;

/// A server on node 1, and its clients on the others.
struct Service {
    cluster: Cluster,
    prefix: String,
    server: PathBuf,
    client: PathBuf,
    job: Running,
    _scratch: Scratch,
}

impl Service {
    /// On machines of the lab; none where there can be no lab.
    #[track_caller]
    fn start(name: &str) -> Option<Self> {
        Cluster::on_machines(3, &LOST).map(|cluster| Self::on(cluster, name))
    }

    /// On virtual nodes, whose sockets this process reaches.
    #[track_caller]
    fn start_virtual(name: &str) -> Self {
        Self::on(Cluster::up(&format!("published-{name}"), 3, &[]), name)
    }

    #[track_caller]
    fn on(cluster: Cluster, name: &str) -> Self {
        let scratch = Scratch::new(&format!("published-{name}-files"));
        let server = compile("tests/published/programs/server.c", scratch.path());
        let client = compile("tests/published/programs/client.c", scratch.path());
        let prefix = format!("far-{name}-{}", std::process::id());
        let job = start_server(&cluster, &server, &prefix);
        Service { cluster, prefix, server, client, job, _scratch: scratch }
    }

    /// A client that is no rank, on a node: what it does, with regions of that node.
    fn command(&self, node: u32, what: &str, of: &str, more: &[&str]) -> Command {
        let mut command = self.cluster.program_on(node, &self.client);
        command.args([what, &format!("{}@{of}", self.prefix)]).args(more);
        command
    }

    #[track_caller]
    fn ask(&self, what: &str, more: &[&str]) {
        let ran = run(&mut self.command(2, what, "node1", more), LIMIT).expect_success();
        assert!(ran.stdout.contains(&format!("{what}: ok\n")), "{ran}");
    }

    /// Status that opening a region gives.
    #[track_caller]
    fn status(&self, mut command: Command) -> i32 {
        let ran = run(&mut command, LIMIT).expect_success();
        let line = ran.stdout.lines().find_map(|line| line.strip_prefix("status "));
        line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{ran}"))
    }

    #[track_caller]
    fn end(self) {
        self.ask("send", &["end"]);
        let (status, errors, lines) = self.job.end_with_output();
        assert_eq!((status, errors.as_str()), (0, ""));
        assert!(lines.iter().any(|line| line == "server: ok"), "{lines:?}");
    }
}

#[track_caller]
fn start_server(cluster: &Cluster, server: &Path, prefix: &str) -> Running {
    let mut run = cluster.command(&["run", "-H", "node1", "-n", "1"]);
    let mut job = Running::start_command(run.arg(server).args([prefix, "user"]));
    job.await_line("ready");
    job
}

/// All operations, with every right and without, by a process without a job and by a rank; and why a region
/// is not there.
// Paper: C8
#[test]
fn published_region_of_another_node_keeps_its_rights() {
    let Some(service) = Service::start("rights") else { return };
    service.ask("rights", &[]);
    service.ask("threads", &[]);
    service.ask("work", &["200"]);
    let mut rank = service.cluster.command_on(0, &["run", "-H", "node2", "-n", "1"]);
    rank.arg(&service.client).args(["rights", &format!("{}@node1", service.prefix)]);
    harness::run(&mut rank).expect_success();
    // On its own node a region is mapped, also if the node is said.
    assert_eq!(service.status(service.command(1, "status", "node1", &[])), 0);
    let mut without = service.cluster.program_on(2, Path::new("env"));
    without.arg("TUTTI_DAEMON=/no/such.sock").arg(&service.client);
    without.args(["status", &format!("{}@node1", service.prefix)]);
    assert_eq!(service.status(without), Status::Daemon as i32);
    assert_eq!(service.status(service.command(2, "status", "nowhere", &[])), Status::Node as i32);
    assert_eq!(service.status(service.command(2, "status", "*", &[])), 0);
    // The name is not there without its node.
    let mut near = service.cluster.program_on(2, &service.client);
    near.args(["status", &service.prefix]);
    assert_eq!(service.status(near), Status::Region as i32);
    for node in ["node1", "*"] {
        let mut other = service.cluster.program_on(2, &service.client);
        other.args(["status", &format!("no-such-prefix@{node}")]);
        assert_eq!(service.status(other), Status::Region as i32, "{node}");
    }
    service.end();
}

/// C3, for jobs of other nodes.
// Paper: C3
#[test]
fn published_region_answers_another_node_while_its_owner_is_suspended() {
    let Some(service) = Service::start("frozen") else { return };
    service.ask("work", &["50"]);
    service.cluster.tutti(&["suspend", "1"]).expect_success();
    await_standstill(&service.job);
    let mut client = Running::start_command(&mut service.command(2, "frozen", "node1", &[]));
    client.await_line("frozen");
    service.cluster.tutti(&["resume", "1"]).expect_success();
    let (status, errors, lines) = client.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""), "{lines:?}");
    service.end();
}

#[test]
fn published_region_of_another_node_that_is_opened_anew_is_another_one() {
    let Some(service) = Service::start("stale") else { return };
    for wait in ["", "wait"] {
        let mut client = Running::start_command(&mut service.command(2, "stale", "node1", &[wait]));
        client.await_line("open");
        service.ask("send", &["reopen"]);
        let (status, errors) = client.end();
        assert_eq!((status, errors.as_str()), (0, ""), "{wait}");
    }
    service.end();
}

/// A rank that dies, then a server of regions that is killed.
#[test]
fn published_region_of_another_node_is_gone_with_its_owner_or_its_server() {
    let Some(mut service) = Service::start("gone") else { return };
    let start = |service: &Service| {
        let mut clients = ["", "wait"]
            .map(|wait| Running::start_command(&mut service.command(2, "gone", "node1", &[wait])));
        clients.iter_mut().for_each(|client| client.await_line("open"));
        clients
    };
    let clients = start(&service);
    // The end may come before its answer.
    run(&mut service.command(2, "send", "node1", &["die"]), LIMIT);
    for client in clients {
        assert_eq!(client.end(), (0, String::new()));
    }
    let again = start_server(&service.cluster, &service.server, &service.prefix);
    assert_eq!(std::mem::replace(&mut service.job, again).end().0, 137);
    let clients = start(&service);
    kill_process(server_of(&service.job), Signal::KILL).expect("it lives");
    for client in clients {
        assert_eq!(client.end(), (0, String::new()));
    }
    service.job.signal(Signal::TERM);
    service.job.end();
}

/// The example of a server with two clients, each on a node of its own.
#[test]
fn published_example_serves_clients_of_other_nodes() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let scratch = Scratch::new("published-example-far-files");
    let compiled = compile("examples/service.c", scratch.path());
    let name = format!("example-far-{}", std::process::id());
    let start = |node: &str, words: &[&str]| {
        let mut run = cluster.command(&["run", "-H", node, "-n", "1"]);
        Running::start_command(run.arg(&compiled).args(words))
    };
    let mut server = start("node1", &["serve", &name, "200"]);
    server.await_line("serving");
    let place = format!("{name}@node1");
    let clients = ["node0", "node2"].map(|node| start(node, &["ask", &place, "100"]));
    for client in clients {
        let (status, errors, lines) = client.end_with_output();
        assert_eq!((status, errors.as_str(), lines.len()), (0, "", 1), "{lines:?}");
        assert_eq!(lines[0], "100 answers, all right");
    }
    let (status, errors, lines) = server.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""));
    assert_eq!(lines.last().map(String::as_str), Some("200 questions of 2 clients"));
}

/// The process that serves the regions of a job.
#[track_caller]
fn server_of(job: &Running) -> Pid {
    let is_server = |pid: &Pid| {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.is_ok_and(|name| name.trim_end() == tutti_os::stat::SERVER_NAME.to_string_lossy())
    };
    job.mark.processes().into_iter().find(is_server).expect("the server of its regions")
}

/// Answer of a node's daemon to this process about a region.
#[track_caller]
fn ask_daemon(socket: &Path, wanted: &Wanted) -> Given {
    let mut stream = UnixStream::connect(socket.with_extension("regions")).expect("the daemon's socket");
    stream.write_all(&wanted.encode()).expect("a question");
    let mut answer = [0; Given::BYTES];
    stream.read_exact(&mut answer).expect("an answer");
    Given::decode(&answer).expect("it makes sense")
}

impl Service {
    fn wanted(&self, rest: &str) -> Wanted {
        let owner = rustix::process::geteuid().as_raw();
        Wanted { owner, name: format!("{}-{rest}", self.prefix), node: "node1".into() }
    }

    #[track_caller]
    fn pass(&self, rest: &str) -> (SocketAddr, Pass) {
        match ask_daemon(&self.cluster.socket(2), &self.wanted(rest)) {
            Given::There { address, pass, node } if node == "node1" => (address, pass),
            other => panic!("{other:?}"),
        }
    }
}

/// A pass is good once; a client of another node that floods is slowed down, and others are answered.
#[test]
fn published_region_slows_down_a_client_of_another_virtual_node_that_floods_it() {
    let service = Service::start_virtual("flood");
    let (address, pass) = service.pass("atomic");
    let door = enter(address, &pass).expect("it is let in");
    assert!(enter(address, &pass).is_err(), "the pass has been shown");
    let (answer, ..) = door.ask(Ask::Open(0), &[]).expect("an answer");
    assert_eq!(answer.status, Status::Ok);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let began = Instant::now();
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let mut sent = 0_u64;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) || began.elapsed().as_millis() < 500 {
                door.say(Ask::Changed(0));
                sent += 1;
            }
            sent
        });
        service.ask("work", &["500"]);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        flood.join().expect("the flood")
    });
    // 100,000 a second, 10,000 at once, and what both sockets hold: at most 10 MiB.
    let allowed =
        10_000 + (10 << 20) / Ask::BYTES as u64 + (began.elapsed().as_secs_f64() * 100_000.0) as u64;
    println!("{sent} questions in {:?}, {allowed} allowed", began.elapsed());
    assert!(sent <= allowed, "{sent} questions, {allowed} allowed");
    drop(door);
    service.end();
}

/// Passes that nobody shows, and connections without one, keep nobody out.
#[test]
fn published_region_of_another_virtual_node_survives_rubbish() {
    let service = Service::start_virtual("rubbish");
    let seed = tutti_testkit::seed();
    println!("TUTTI_TEST_SEED={seed}");
    let mut random = tutti_testkit::Random::new(seed);
    let (address, pass) = service.pass("atomic");
    let mut kept = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(address).expect("the listener");
        let mut bytes = vec![0; random.below(200) as usize];
        random.fill(&mut bytes);
        if random.chance(500) {
            let kind = if random.chance(500) { Ask::Enter(Secret([1, number])) } else { Ask::Open(0) };
            bytes = [&kind.encode(0)[..], &bytes].concat();
        }
        let _ = stream.write_all(&bytes);
        kept.push(stream);
    }
    // The right key, then rubbish.
    let mut stream = TcpStream::connect(address).expect("the listener");
    let _ = stream.write_all(&[&Ask::Enter(pass.key).encode(0)[..], &[7; 300]].concat());
    kept.push(stream);
    let question = service.wanted("all").encode();
    for _ in 0..300 {
        let mut stream = UnixStream::connect(service.cluster.socket(2).with_extension("regions"))
            .expect("the daemon's socket");
        let mut bytes = question.clone();
        for _ in 0..random.below(5) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        let _ = stream.write_all(&bytes);
    }
    service.ask("rights", &[]);
    drop(kept);
    service.ask("rights", &[]);
    service.end();
}

/// Whom a region is for, on any machine: by the word of that one's kernel, whatever a client says of itself.
#[test]
fn published_regions_are_for_whom_their_owner_says_on_other_nodes_too() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root's lab has machines with users");
    }
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let scratch = Scratch::new("published-far-users");
    let server = compile("tests/published/programs/server.c", scratch.path());
    let client = compile("tests/published/programs/client.c", scratch.path());
    let ask =
        |user, words: &[&str]| run(cluster.lab().node(2).user(user).command(&client).args(words), LIMIT);
    let audiences = [
        ("own", "user".to_owned(), false),
        ("bob", format!("user:{BOB}"), true),
        ("group", format!("group:{BOB}"), true),
        ("wheel", "group:0".to_owned(), false),
        ("all", "everybody".to_owned(), true),
    ];
    for (name, whom, is_let_in) in audiences {
        let prefix = format!("far-{name}-{}", std::process::id());
        let mut job = cluster.lab().node(1).user("alice").command("tutti");
        job.args(["run", "-H", "node1", "-n", "1"]).arg(&server).args([&prefix, &whom]);
        let mut job = Running::start_command(&mut job);
        job.await_line("ready");
        let named = format!("{ALICE}/{prefix}@node1");
        ask("alice", &["rights", &format!("{prefix}@node1")]).expect_success();
        if is_let_in {
            ask("bob", &["rights", &named]).expect_success();
        } else {
            for rest in ["all", "beat", "write", "atomic", "signal"] {
                ask("bob", &["refused", &named, rest]).expect_success();
            }
        }
        // A name of another user's is not found under one's own.
        assert!(ask("bob", &["status", &format!("{prefix}@node1")]).stdout.contains("status -3\n"));
        if name == "own" {
            no_other_user_vouches(&cluster, &prefix);
        }
        ask("alice", &["send", &format!("{prefix}@node1"), "end"]).expect_success();
        assert_eq!(job.end().0, 0);
    }
}

/// Another user says to the server what a daemon would, of the owner itself.
#[track_caller]
fn no_other_user_vouches(cluster: &Cluster, prefix: &str) {
    if !has_command_for_part(Need::Python, "python3") {
        return;
    }
    let name = tutti_shm::published::socket_name(ALICE, &format!("{prefix}-all"));
    let admission = Admission { at: [127, 0, 0, 1].into(), groups: vec![ALICE] }.encode();
    let ask = [&Ask::Admit(ALICE).encode(admission.len())[..], &admission].concat();
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  s.connect('\\0' + sys.argv[1]); s.send(bytes.fromhex(sys.argv[2]))\n\
                  print(s.recv(99)[:8].hex())";
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut python = cluster.lab().node(1).user("bob").command("python3");
    let said = run(python.args(["-c", script, &name, &hex(&ask)]), LIMIT);
    let head = [16_i32.to_le_bytes(), (Status::Right as i32).to_le_bytes()].concat();
    assert_eq!(said.expect_success().stdout.trim(), hex(&head));
}

/// When a machine is cut off its regions are gone.
#[test]
fn published_region_of_a_node_that_is_lost_is_gone() {
    let Some(service) = Service::start("lost") else { return };
    service.ask("rights", &[]);
    let clients = ["", "wait"].map(|wait| {
        let mut client = Running::start_command(&mut service.command(2, "gone", "node1", &[wait]));
        client.await_line("open");
        client
    });
    service.cluster.lab().node(1).cut();
    for client in clients {
        assert_eq!(client.end(), (0, String::new()));
    }
    await_that("the node is lost", || {
        service.status(service.command(2, "status", "node1", &[])) == Status::Node as i32
    });
}
