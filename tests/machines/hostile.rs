//! Doors between machines under frames that are nearly right, of a user of another machine and of somebody on
//! the network who has no key: switch threads, a service, the server of files. Nobody else notices.

use std::process::{Child, Stdio};
use std::time::Duration;

use tutti_testkit::{Need, await_that, has_command};
use tutti_tests::machines::Machines;
use tutti_tests::run;

const LIMIT: Duration = Duration::from_secs(100);
/// Frames for each door.
const FRAMES: u64 = 3_000;
/// Lines of a daemon's log that are about datagrams of strangers: a few, whatever is sent.
const LINES_MAX: usize = 10;

/// Ports of a machine on which a user listens (TCP), or that it has bound (UDP).
fn ports(machines: &Machines, node: u32, user: &str, table: &str) -> Vec<String> {
    let state = if table == "udp" { "07" } else { "0A" };
    let script = format!(
        "uid=$(id -u {user}); awk -v u=$uid '$4 == \"{state}\" && $8 == u {{ split($2, a, \":\"); print a[2] }}' \
         /proc/net/{table}"
    );
    let listed = machines.lab.node(node).run(&["sh", "-c", &script]);
    let port = |hex: &str| u16::from_str_radix(hex, 16).expect("a port").to_string();
    listed.lines().map(port).collect()
}

/// Bytes as text.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sender and receiver.
struct Sender<'a> {
    machines: &'a Machines,
    program: String,
    /// On machine 2.
    user: &'static str,
}

impl Sender<'_> {
    /// Sends frames that are nearly these to a port of a machine; how many were taken.
    #[track_caller]
    fn send(&self, kind: &str, node: u32, port: &str, from: Option<&str>, frames: &[Vec<u8>]) -> u64 {
        let address = self.machines.lab.node(node).address().to_string();
        let seed = tutti_testkit::seed().to_string();
        let machine = self.machines.lab.node(2).user(self.user);
        let machine = from.map_or_else(|| machine.clone(), |from| machine.clone().set("FROM", from));
        let mut command = machine.command(&self.program);
        command.args([kind, &address, port, &seed, &FRAMES.to_string()]);
        command.args(frames.iter().map(|frame| hex(frame)));
        let ran = run(&mut command, LIMIT).expect_success();
        ran.stdout.trim().parse().unwrap_or_else(|_| panic!("no number: {ran}"))
    }
}

/// A job of alice's that takes turns on all machines.
fn computes(machines: &Machines) -> Child {
    let mut command = machines.launch(3, 3);
    command.args(["sh", "-c", "while :; do :; done"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("tutti run")
}

/// Turns that a job has had.
pub(super) fn turns(machines: &Machines, job: u32) -> u64 {
    let listed = machines.tutti(0, &["ps", "--json"]).expect_success().stdout;
    let rows: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["job"] == job));
    row.and_then(|row| row["turns"].as_u64()).unwrap_or(0)
}

/// Datagrams of strangers, and such as seem to be the neighbour's.
#[test]
fn machines_switches_go_on_under_forged_datagrams() {
    let Some(machines) = Machines::up("forged", 3, &["--slice", "50"]) else { return };
    let program = machines.compile("mpicc", "tests/machines/programs/nearly.c");
    let program = program.to_str().expect("a path of ours").to_owned();
    let jobs: Vec<Child> = (0..2).map(|_| computes(&machines)).collect();
    await_that("both take turns", || (1..=2).all(|job| turns(&machines, job) > 2));
    let samples: Vec<Vec<u8>> = [16, 33, 40, 64, 120, 700, 1200].map(|bytes| vec![1; bytes]).to_vec();
    let daemons = [0, 1].map(|node| machines.lab.node(node).daemon().expect("a daemon"));
    for (node, other) in [(0, 1), (1, 0)] {
        let found = ports(&machines, node, "root", "udp");
        assert!(!found.is_empty(), "the daemon of node{node} has a port for switch threads");
        let from = ports(&machines, other, "root", "udp");
        let from = format!("{}:{}", machines.lab.node(other).address(), from[0]);
        for port in &found {
            let before = turns(&machines, 1);
            for (user, from) in [("bob", None), ("root", Some(from.as_str()))] {
                let sender = Sender { machines: &machines, program: program.clone(), user };
                let taken = sender.send("udp", node, port, from, &samples);
                assert!(taken > FRAMES / 2, "{taken} datagrams left");
            }
            await_that("turns go on", || turns(&machines, 1) > before + 3);
        }
    }
    for (node, daemon) in (0..).zip(daemons) {
        assert_eq!(machines.lab.node(node).daemon(), Some(daemon), "the daemon of node{node} lives");
        let log = machines.lab.log(node);
        let about = log.lines().filter(|line| line.contains("datagram")).count();
        assert!(about <= LINES_MAX, "{about} lines: {log}");
    }
    (1..=2).for_each(|job| drop(machines.tutti(0, &["kill", &job.to_string()]).expect_success()));
    jobs.into_iter().for_each(|mut job| drop(job.wait()));
}

/// Bob of another machine at the ports of alice's service and of the server of her files.
#[test]
fn machines_services_and_files_survive_frames_that_are_nearly_right() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let Some(machines) = Machines::up("nearly", 3, &[]) else { return };
    let sender = machines.compile("mpicc", "tests/machines/programs/nearly.c");
    let sender =
        Sender { machines: &machines, program: sender.to_str().expect("ours").to_owned(), user: "bob" };
    let service = machines.compile("tutticxx", "tests/cxx/programs/services.cpp");
    let (_, said) = machines.file("said");
    let mut server = machines.command(0, "tutti");
    server.args(["run", "-H", "node1", "-n", "1", service.to_str().expect("ours"), "serve", "kv", "user"]);
    let out = std::fs::File::create(&said).expect("a file");
    let mut server = server.stdin(Stdio::null()).stdout(out).spawn().expect("tutti run");
    await_that("the service is open", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.contains("serving\n"))
    });
    let calls =
        |words: &[&str]| run(machines.command(2, "tutti").args(["call", "kv@node1"]).args(words), LIMIT);
    calls(&["put", "17", "seventeen"]).expect_success();
    // A job whose rank reads alice's file from machine 0.
    let (_, data) = machines.file("data");
    std::fs::write(&data, "of the origin\n").expect("a file");
    let (_, read) = machines.file("read");
    let mut job = machines.command(0, "sh");
    let script = "cd /home/alice && tutti run -H node1 -n 1 --files sh -c 'echo up; while [ ! -e go ]; do sleep 0.05; done; \
                  cat data' >read";
    let mut job = job.args(["-c", script]).stdin(Stdio::null()).spawn().expect("tutti run");
    await_that("it runs", || std::fs::read_to_string(&read).is_ok_and(|text| text.contains("up\n")));
    let entered =
        tutti_shm::published::Ask::Enter(tutti_shm::published::far::Secret([7, 8])).encode(0).to_vec();
    let asked = [&40_u32.to_le_bytes()[..], &[0x31; 40]].concat();
    let hello = [&29_u32.to_le_bytes()[..], &[1, 16, 0, 0, 0], &[9; 16], &[0; 8]].concat();
    let samples = [entered, asked, hello, b"GET / HTTP/1.1\r\n\r\n".to_vec()];
    let mut doors = 0;
    for node in [0, 1] {
        for port in ports(&machines, node, "alice", "tcp") {
            let taken = sender.send("tcp", node, &port, None, &samples);
            println!("port {port} of node{node}: {taken} frames");
            doors += 1;
        }
    }
    assert!(doors >= 2, "alice's service and her server of files listen: {doors}");
    assert_eq!(calls(&["get", "17"]).expect_success().stdout, "\"seventeen\"\n");
    std::fs::write(machines.file("go").1, "").expect("a file");
    assert!(job.wait().expect("it ends").success());
    assert_eq!(std::fs::read_to_string(&read).expect("its output"), "up\nof the origin\n");
    let mut stops = machines.command(2, &service);
    run(stops.args(["stop", "kv@node1"]), LIMIT).expect_success();
    assert!(server.wait().expect("it ends").success());
}
