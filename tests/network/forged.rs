//! A job whose ranks are showered with forged packets: random ones and mutated copies of real ones from the
//! right addresses, random ones from a stranger's. Nothing of it is taken, all of it is counted by what
//! became of it, and the job's messages and windows are right. The same with wrong records in right packets.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use tutti_tests::{Scratch, compile};

use crate::freezes::{Job, descendants};
use crate::{LIMIT, Network, seed};

const RANKS: usize = 3;
/// Forged packets behind each real one.
const PACKETS: (&str, &str) = ("TUTTI_FORGE", "25");
/// Wrong records behind each right one.
const RECORDS: (&str, &str) = ("TUTTI_FORGE_RECORDS", "3");

/// Ports of the UDP sockets that a process holds.
fn ports(pid: i32) -> Vec<u16> {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets: HashSet<String> = links
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{pid}/net/udp")).unwrap_or_default();
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let own = sockets.contains(*words.get(9)?);
        own.then(|| u16::from_str_radix(words[1].split_once(':')?.1, 16).ok())?
    };
    table.lines().filter_map(port).collect()
}

/// A number of the line that a rank prints of its datagrams.
fn figure(text: &str, name: &str) -> u64 {
    let key = format!("\"{name}\":");
    let numbers = text.lines().filter(|line| line.contains("\"datagrams\"")).map(|line| {
        let after = line.split_once(&key).expect("each rank prints all figures").1;
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number")
    });
    numbers.sum()
}

/// Refusals of the ranks by reason: what comes so far has passed the packets' checks.
fn by_reason(text: &str, name: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("\"datagrams\"")) {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        for (reason, count) in line[name].as_object().expect("reasons") {
            *sums.entry(reason.clone()).or_default() += count.as_u64().expect("a number");
        }
    }
    sums
}

/// Counts of the ranks of one job together, or of those of several.
#[derive(Default, Debug)]
struct Counted {
    sent: u64,
    taken: u64,
    refused: u64,
    strangers: u64,
    dropped: u64,
    forged: u64,
    /// Number of datagrams that this process has sent to them, as a stranger.
    strange: u64,
    refused_operations: BTreeMap<String, u64>,
    wrong_records: BTreeMap<String, u64>,
}

impl Counted {
    fn add(&mut self, job: &Counted) {
        self.sent += job.sent;
        self.taken += job.taken;
        self.refused += job.refused;
        self.strangers += job.strangers;
        self.dropped += job.dropped;
        self.forged += job.forged;
        self.strange += job.strange;
        for (all, these) in [
            (&mut self.refused_operations, &job.refused_operations),
            (&mut self.wrong_records, &job.wrong_records),
        ] {
            these.iter().for_each(|(reason, count)| *all.entry(reason.clone()).or_default() += count);
        }
    }

    /// Records that were refused.
    fn records(&self) -> u64 {
        self.refused_operations.values().chain(self.wrong_records.values()).sum()
    }
}

/// A program that checks all that it gets.
struct Checked {
    file: PathBuf,
    /// How it is found among processes.
    name: &'static str,
    rounds: &'static str,
    /// Text that the program prints at its end.
    says: &'static str,
}

/// Messages.
fn messages(scratch: &Scratch) -> Checked {
    let file = compile("tests/point_to_point/programs/random.c", scratch.path());
    Checked { file, name: "random", rounds: "20", says: "20 rounds of 60 messages on 3 ranks" }
}

/// Operations on remote memory, as records and as bulk messages.
fn windows(scratch: &Scratch) -> Checked {
    let file = compile("tests/windows/c/long.c", scratch.path());
    Checked { file, name: "long", rounds: "30", says: "long: all right" }
}

/// A job of such a program in a shower.
fn shower(scratch: &Scratch, checked: &Checked, (variable, each): (&str, &str)) -> Counted {
    let seed = seed();
    let outputs = ["stdout", "stderr"].map(|name| scratch.path().join(name));
    let files = outputs.each_ref().map(|path| fs::File::create(path).expect("a file of our own"));
    let [stdout, stderr] = files;
    let mut mpiexec = Network::Udp.mpiexec(RANKS);
    mpiexec
        .arg(&checked.file)
        .args([&seed, checked.rounds])
        .env("LD_PRELOAD", tutti_tests::testing_library())
        .env(variable, each)
        .env("TUTTI_STATS", "json");
    mpiexec.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut job = Job(mpiexec.spawn().expect("mpiexec starts"));
    let began = Instant::now();
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    stranger.set_nonblocking(true).expect("a socket that does not wait");
    let (mut targets, mut counted, mut noise) =
        (Vec::new(), Counted::default(), tutti_testkit::Random::new(1));
    let status = loop {
        if let Some(status) = job.0.try_wait().expect("our own child") {
            break status;
        }
        assert!(began.elapsed() < LIMIT, "not at its end with seed {seed}");
        if targets.len() < RANKS {
            targets = descendants(job.0.id(), checked.name).into_iter().flat_map(ports).collect();
        }
        for &port in &targets {
            let mut packet = [0; 200];
            noise.fill(&mut packet);
            let length = 1 + noise.below(packet.len() as u64) as usize;
            counted.strange += u64::from(stranger.send_to(&packet[..length], ("127.0.0.1", port)).is_ok());
        }
        // Enough to be noticed, and the cores are the ranks'.
        std::thread::sleep(std::time::Duration::from_micros(200));
    };
    let [said, told] = outputs.map(|path| fs::read_to_string(path).expect("what it said"));
    assert!(status.success(), "{status} with seed {seed}: {said}{told}");
    assert!(said.contains(checked.says), "{said}");
    let of = |name| figure(&told, name);
    Counted {
        sent: of("sent"),
        taken: of("taken"),
        refused: of("refused"),
        strangers: of("strangers"),
        dropped: of("dropped"),
        forged: of("forged"),
        refused_operations: by_reason(&told, "refused_operations"),
        wrong_records: by_reason(&told, "wrong_records"),
        ..counted
    }
}

/// Jobs on a machine that others use too: one of so many is left alone.
const JOBS_MAX: u32 = 60;

/// At least so many forged packets, in one job after another. Where others have the cores, ranks stand still,
/// full sockets lose more than is read, and what is in them at a rank's end was never counted: in some job
/// nothing of that happens.
fn nothing_forged_is_taken(least: u64, program: fn(&Scratch) -> Checked) {
    let scratch = Scratch::new(&format!("network-forged-{least}"));
    let checked = program(&scratch);
    let (mut all, mut jobs, began) = (Counted::default(), 0, Instant::now());
    let mut is_accounted = false;
    while all.forged < least || !is_accounted {
        let counted = shower(&scratch, &checked, PACKETS);
        // What is real is taken at most once, and never refused; what is forged is refused, or found no room.
        // Some may still be on its way when its receiver leaves; strangers go on until the job has ended.
        assert!(counted.taken <= counted.sent, "{counted:?}");
        assert!(counted.refused <= counted.forged && counted.refused > 0, "{counted:?}");
        is_accounted |= counted.refused > counted.forged / 4
            && counted.refused + counted.dropped + counted.forged / 20 + 1000 >= counted.forged;
        assert!(is_accounted || jobs < JOBS_MAX, "refused or without room: {counted:?}, {all:?}");
        assert!(counted.strangers <= counted.strange, "{counted:?}");
        assert_eq!(counted.records(), 0, "{counted:?}");
        all.add(&counted);
        jobs += 1;
    }
    let Counted { sent, taken, refused, strangers, dropped, forged, strange, .. } = all;
    println!(
        "{forged} forged packets and {strange} of a stranger in {:.1?} against {jobs} jobs of {}: {refused} \
         refused, {strangers} refused as a stranger's, {dropped} dropped by the kernel; {taken} of {sent} real \
         ones taken, no operation wrong",
        began.elapsed(),
        checked.name
    );
}

/// At least so many wrong records in right packets, in one job after another.
fn nothing_wrong_is_taken(least: u64, program: fn(&Scratch) -> Checked) {
    let scratch = Scratch::new(&format!("network-wrong-{least}"));
    let checked = program(&scratch);
    let (mut all, mut jobs, began) = (Counted::default(), 0, Instant::now());
    let mut is_accounted = false;
    while all.forged < least || !is_accounted {
        let counted = shower(&scratch, &checked, RECORDS);
        assert_eq!(counted.refused, 0, "the packets are right: {counted:?}");
        // The last ones may find their receiver gone.
        let records = counted.records();
        assert!(records <= counted.forged, "{records}: {counted:?}");
        is_accounted |= counted.forged <= records + 500;
        assert!(is_accounted || jobs < JOBS_MAX, "{records} refused: {counted:?}, {all:?}");
        all.add(&counted);
        jobs += 1;
    }
    for reason in ["form", "kind", "length", "order", "answer", "credit"] {
        assert!(all.wrong_records[reason] > 0, "{reason}: {all:?}");
    }
    if checked.name == "long" {
        assert!(
            all.refused_operations["malformed"] > 0 && all.refused_operations["no_region"] > 0,
            "{all:?}"
        );
    }
    println!(
        "{} wrong records in {:.1?} against {jobs} jobs of {}: {:?}, operations {:?}",
        all.forged,
        began.elapsed(),
        checked.name,
        all.wrong_records,
        all.refused_operations
    );
}

#[test]
fn wrong_records_of_a_rank_are_counted_and_never_taken() {
    nothing_wrong_is_taken(10_000, messages);
}

#[test]
fn wrong_records_beside_remote_memory_are_counted_and_never_taken() {
    nothing_wrong_is_taken(10_001, windows);
}

#[test]
#[ignore = "takes minutes: make shower"]
fn millions_of_wrong_records_are_counted_and_never_taken() {
    nothing_wrong_is_taken(5_000_000, messages);
    nothing_wrong_is_taken(5_000_001, windows);
}

#[test]
fn forged_packets_are_counted_and_never_taken() {
    nothing_forged_is_taken(200_000, messages);
}

#[test]
fn forged_packets_of_remote_memory_are_counted_and_never_taken() {
    nothing_forged_is_taken(100_000, windows);
}

#[test]
#[ignore = "takes minutes: make shower"]
fn ten_million_forged_packets_are_counted_and_never_taken() {
    nothing_forged_is_taken(10_000_000, messages);
    nothing_forged_is_taken(10_000_001, windows);
}
