//! Frames that are nearly right, from a seed, at each door that a hostile user reaches: the daemon's
//! socket, for who asks and for starters, its socket for regions, the starter of another user's job, the
//! user's own starter by PMI, and the switch threads' port. Nothing dies, grows, or fills the log.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
use rustix::process::Pid;
use serde_json::{Value, json};
use tutti_shm::published::far::{Question, Wanted};
use tutti_shm::ticket::{Attach, Face};
use tutti_testkit::Random;
use tutti_testkit::nearly::frame as nearly;

use crate::Machine;
use crate::about_others::{come_back, samples};
use crate::frames::{REPORT, enrol};
use crate::harness::await_that;
use crate::machine::ASK;
use crate::memory::kib;
use crate::rubbish::{Target, targets};

/// The user that is attacked, and the one that attacks.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Frames on one connection, at most.
const FRAMES_EACH: u64 = 32;
/// Lines of PMI for which a job is begun, at most.
const PMI_LINES_EACH: u64 = 100;
/// Memory that the daemon may have more than before: of buffers that it keeps.
const GROWN_KIB_MAX: u64 = 24 << 10;
/// Lines of the log that say the same.
const SAME_LINES_MAX: usize = 10;

/// A value of JSON that is nearly this one.
pub fn nearly_value(random: &mut Random, value: &Value) -> Value {
    let odd = |random: &mut Random| match random.below(9) {
        0 => Value::Null,
        1 => json!(u64::MAX),
        2 => json!(-1),
        3 => json!(1e308),
        4 => json!("\u{202e}\u{0}\u{1b}[2J/../.."),
        5 => json!([]),
        6 => json!({ "All": [[[[[[{}]]]]]] }),
        7 => json!("x".repeat(random.below(5000) as usize)),
        _ => json!(true),
    };
    if random.chance(60) {
        return odd(random);
    }
    match value {
        Value::Array(all) => all.iter().map(|one| nearly_value(random, one)).collect(),
        Value::Object(all) => {
            let mut changed = serde_json::Map::new();
            for (key, one) in all {
                match random.below(40) {
                    0 => {}
                    1 => drop(changed.insert(format!("{key}_"), one.clone())),
                    _ => drop(changed.insert(key.clone(), nearly_value(random, one))),
                }
            }
            Value::Object(changed)
        }
        other => other.clone(),
    }
}

/// Sends frames over connections of a few each, as long as the other side takes them, until it has taken so
/// many; says how many it took. A frame that is none ends its connection.
fn over_streams(path: &Path, count: u64, mut frame: impl FnMut() -> Vec<u8>) -> u64 {
    let mut sent = 0;
    for _ in 0..count {
        if sent >= count {
            break;
        }
        let Ok(mut stream) = UnixStream::connect(path) else { continue };
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a socket");
        for _ in 0..FRAMES_EACH {
            if stream.write_all(&frame()).is_err() {
                break;
            }
            sent += 1;
        }
    }
    sent
}

/// Requests of a user.
#[track_caller]
pub fn requests(machine: &Machine, user: usize) -> Vec<Value> {
    let asked: [&[&str]; 6] = [
        &["submit", "-o", "none", "-n", "1", "true"],
        &["ps", "--all"],
        &["kill", "1"],
        &["nodes"],
        &["suspend", "1"],
        &["logs", "1"],
    ];
    asked.iter().map(|words| machine.request(user, words)).collect()
}

/// The daemon's own door: requests, and the frames of front ends and starters.
pub fn control(machine: &Machine, user: usize, random: &mut Random, requests: &[Value], count: u64) -> u64 {
    let path = machine.socket();
    machine.as_user(user, |_| {
        over_streams(&path, count, || {
            let request = &requests[random.below(requests.len() as u64) as usize];
            let text = nearly_value(random, request).to_string();
            let kind = if random.chance(800) { ASK } else { random.below(40) as u32 };
            let frame = Machine::frame(kind, text.as_bytes());
            if random.chance(300) { nearly(random, &[frame]) } else { frame }
        })
    })
}

/// The daemon's own door, in the place of a starter of the hostile user's: what only starters say, behind an
/// enrolment, and the return of one.
fn starter(machine: &Machine, random: &mut Random, count: u64) -> u64 {
    let samples = samples(1, &[1, 2]);
    let (mut sent, mut wire) = (0, None::<UnixStream>);
    for _ in 0..count {
        if random.chance(50) {
            let mut other = machine.connect(HOSTILE);
            let _ = other.write_all(&come_back(random, 1));
        }
        let wire_now = wire.get_or_insert_with(|| enrol(machine, random.below(1 << 40) + 1, 2));
        let sample = &samples[random.below(samples.len() as u64) as usize];
        let text = nearly_value(random, sample).to_string();
        let kind = if random.chance(700) { REPORT } else { random.below(48) as u32 };
        let frame = Machine::frame(kind, text.as_bytes());
        let frame = if random.chance(100) { nearly(random, &[frame]) } else { frame };
        match wire_now.write_all(&frame) {
            Ok(()) => sent += 1,
            Err(_) => wire = None,
        }
    }
    sent
}

/// The daemon's door for regions of other nodes.
fn regions(machine: &Machine, random: &mut Random, count: u64) -> u64 {
    let wanted = Wanted { owner: 0, name: "region".into(), node: "node1".into() };
    let samples = [Question::Place.encode(), Question::Region(wanted).encode()];
    let path = machine.socket().with_extension("regions");
    machine.as_user(HOSTILE, |_| over_streams(&path, count, || nearly(random, &samples)))
}

/// The starter of the honest user's job, where its ranks redeem their tickets.
fn start(machine: &Machine, random: &mut Random, count: u64) -> u64 {
    let honest = targets(machine.users.processes(machine.uid(HONEST)));
    let doors: Vec<(Vec<u8>, u32)> = honest
        .into_iter()
        .filter_map(|target| match target {
            Target::Local(name, kind) => Some((name.strip_prefix('@')?.as_bytes().to_vec(), kind)),
            _ => None,
        })
        .collect();
    assert!(!doors.is_empty(), "the honest user's starter listens");
    let attach = |rank| Attach { rank, secret: [7; 16], face: Face::Own }.encode().to_vec();
    let samples = [attach(0), attach(1), attach(u32::MAX)];
    machine.as_user(HOSTILE, |_| {
        let mut sent = 0;
        for at in 0..count {
            if sent >= count {
                break;
            }
            let (name, kind) = &doors[at as usize % doors.len()];
            let Ok(socket) = socket(AddressFamily::UNIX, SocketType::from_raw(*kind), None) else { continue };
            let address = SocketAddrUnix::new_abstract_name(name).expect("a name");
            if connect(&socket, &address).is_err() {
                continue;
            }
            for _ in 0..FRAMES_EACH {
                let bytes = nearly(random, &samples);
                if send(&socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
                    break;
                }
                sent += 1;
            }
        }
        sent
    })
}

/// The switch thread's port.
fn switch(machine: &Machine, random: &mut Random, count: u64) -> u64 {
    let ports = targets([machine.daemon(0)]).into_iter().filter_map(|target| match target {
        Target::Udp(address) => Some(address),
        _ => None,
    });
    let ports: Vec<_> = ports.collect();
    assert!(!ports.is_empty(), "the daemon has a port for switch threads");
    // A tag, a number, what is sealed; as long as datagrams are.
    let samples: Vec<Vec<u8>> = [16, 40, 64, 120, 700, 1200].map(|bytes| vec![0; bytes]).to_vec();
    machine.as_user(HOSTILE, |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut sent = 0;
        for at in 0..count {
            let bytes = nearly(random, &samples);
            sent += u64::from(socket.send_to(&bytes, ports[at as usize % ports.len()]).is_ok());
            if at % 100 == 99 {
                // So that the port is looked at again.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        sent
    })
}

/// The hostile user's own starter, over PMI: it may end a job at any of the lines, and another job goes on.
fn pmi(machine: &Machine, program: &Path, random: &mut Random, count: u64) -> u64 {
    let (program, mut sent) = (program.to_string_lossy(), 0);
    for _ in 0..count.div_ceil(PMI_LINES_EACH) {
        let words = [random.below(u32::MAX.into()), (count - sent).max(1)].map(|word| word.to_string());
        let words = ["run", "-n", "1", &program, &words[0], &words[1]];
        let ran = tutti_tests::run(&mut machine.mpi(HOSTILE, 0, &words), Duration::from_secs(3600));
        assert!(
            ran.code() != 0 && !ran.stderr.contains("panicked"),
            "a line that is none ends the job: {ran}"
        );
        let answered = ran.stdout.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        sent += answered.unwrap_or(0);
        if sent >= count {
            break;
        }
    }
    sent
}

/// Open descriptors of a process.
fn descriptors(pid: Pid) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("it lives").count()
}

/// Lines of a log that say the same but for numbers, and how often.
fn repeated(log: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in log.lines() {
        let text = line.split_once(' ').map_or(line, |(_, text)| text);
        let same: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        *lines.entry(same).or_default() += 1;
    }
    lines
}

/// Sends so many frames to each door.
#[track_caller]
fn send_malformed(name: &str, count: u64) {
    let Some(machine) = Machine::up(name, 1, 2, &[]) else { return };
    let seed = tutti_testkit::seed();
    println!("TUTTI_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let program = machine.compile("tests/hostile/programs/lines.c");
    let mut honest = machine.start(HONEST, &["run", "-n", "2", "sh", "-c", "echo up; exec sleep 3600"]);
    honest.await_line("up");
    let requests = requests(&machine, HOSTILE);
    // What has been kept once is not counted.
    control(&machine, HOSTILE, &mut random, &requests, 200);
    let daemon = machine.daemon(0);
    machine.tutti(HONEST, &["ps"]).expect_success();
    let before = (kib(daemon, "VmRSS"), descriptors(daemon));
    let sent = [
        ("control", control(&machine, HOSTILE, &mut random, &requests, count)),
        ("starter", starter(&machine, &mut random, count)),
        ("region", regions(&machine, &mut random, count)),
        ("start", start(&machine, &mut random, count)),
        ("switch", switch(&machine, &mut random, count)),
        ("PMI", pmi(&machine, &program, &mut random, count)),
    ];
    println!("{sent:?}");
    for (door, sent) in sent {
        assert!(sent >= count - count / 10, "{door} has taken no more than {sent} of {count}");
    }
    assert_eq!(machine.daemon(0), daemon, "the daemon has lived through it");
    let number = honest.mark.processes().len();
    assert!(number >= 3, "the honest job's starter and ranks live: {number}");
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    await_that("descriptors are given back", || descriptors(daemon) <= before.1 + 8);
    let grown = kib(daemon, "VmRSS").saturating_sub(before.0);
    println!("the daemon has grown by {grown} KiB");
    assert!(grown < GROWN_KIB_MAX, "the daemon has grown by {grown} KiB");
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("its log");
    for (line, times) in repeated(&log) {
        assert!(times <= SAME_LINES_MAX, "{times} times in the log: {line}");
    }
    honest.signal(rustix::process::Signal::TERM);
    honest.end();
}

#[test]
fn malformed_frames_at_each_door_harm_nobody() {
    send_malformed("hostile-malformed", 2_000);
}

#[test]
#[ignore = "long: make soak-hostile"]
fn malformed_frames_at_each_door_harm_nobody_soak() {
    let frames = std::env::var("TUTTI_HOSTILE_FRAMES").ok().and_then(|text| text.parse().ok());
    send_malformed("hostile-malformed-soak", frames.unwrap_or(1_000_000));
}

/// A packet of a client of a service: magic, kind, number, deadline, hash, function; data.
fn service_ask(kind: u32, words: [u64; 4], data: &[u8]) -> Vec<u8> {
    let head = [0x5453_7631_u32, kind].map(u32::to_le_bytes).concat();
    [&head[..], words.map(u64::to_le_bytes).as_flattened(), data].concat()
}

/// A service for everybody, which is a process of the honest user's: its clients are not.
#[test]
fn service_survives_packets_of_another_user_that_are_nearly_right() {
    if !tutti_testkit::has_command(tutti_testkit::Need::Cxx, "c++") {
        return;
    }
    let Some(machine) = Machine::up("hostile-service", 1, 2, &[]) else { return };
    let scratch = tutti_tests::Scratch::new("hostile-service-programs");
    let program = tutti_tests::compile_with("tutticxx", "tests/cxx/programs/services.cpp", scratch.path());
    let program = machine.users.reachable(&program);
    let words = ["run", "-n", "1", program.to_str().expect("ours"), "serve", "kv", "everybody"];
    let mut server = crate::harness::Running::start_command(&mut machine.mpi(HONEST, 0, &words));
    server.await_line("serving");
    let uid = machine.uid(HONEST);
    let call = |user: usize, words: &[&str]| {
        let name = format!("{uid}/kv");
        machine.tutti(user, &[&["call", &name], words].concat())
    };
    call(HONEST, &["put", "17", "seventeen"]).expect_success();
    call(HOSTILE, &["get", "17"]).expect_success();
    let samples = [
        service_ask(1, [0; 4], b""),
        service_ask(2, [1, u64::MAX, 7, 0], &17_i64.to_le_bytes()),
        service_ask(2, [2, 0, 7, 3], &[1; 300]),
    ];
    let seed = tutti_testkit::seed();
    let name = tutti_shm::published::service_socket_name(uid, "kv");
    let sent = machine.as_user(HOSTILE, |_| {
        let (mut random, mut sent) = (Random::new(seed), 0);
        for _ in 0..tutti_testkit::nearly::count().div_ceil(FRAMES_EACH) {
            let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
            let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
            if connect(&socket, &address).is_err() {
                continue;
            }
            for _ in 0..FRAMES_EACH {
                let bytes = nearly(&mut random, &samples);
                // Closed at the first that is none; one that is not taken now may be late.
                if send(&socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
                    break;
                }
                sent += 1;
            }
        }
        sent
    });
    println!("{sent} packets");
    assert!(sent > tutti_testkit::nearly::count() / FRAMES_EACH / 2, "it was let in: {sent}");
    assert_eq!(call(HONEST, &["get", "17"]).expect_success().stdout, "\"seventeen\"\n");
    let ranks = machine.users.processes(uid);
    let largest = ranks.into_iter().map(|pid| kib(pid, "VmHWM")).max().expect("it lives");
    assert!(largest < 128 << 10, "a process of the service had {largest} KiB");
    server.signal(rustix::process::Signal::TERM);
    server.end();
}
