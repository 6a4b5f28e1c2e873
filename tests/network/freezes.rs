//! Ranks that are frozen at random while their messages cross a bad network: every message once, in order,
//! whole.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tutti_testkit::cgroup::Cgroup;
use tutti_tests::{Scratch, compile};

use crate::{LIMIT, Network, seed};

const RANKS: usize = 3;
/// Rounds of 60 messages of up to 300,000 bytes, every byte checked.
const ROUNDS: &str = "170";

/// A job, killed when dropped before its end.
pub struct Job(pub Child);

impl Drop for Job {
    fn drop(&mut self) {
        // mpiexec passes it on; its starters end what is left.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Process ids below `root` whose program has this name.
pub fn descendants(root: u32, name: &str) -> Vec<i32> {
    let stat = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (head, tail) = text.rsplit_once(')')?;
        let parent: u32 = tail.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent, head.split_once('(')?.1.to_owned()))
    };
    let all: Vec<_> = fs::read_dir("/proc").expect("proc").flatten().filter_map(stat).collect();
    let descends = |mut pid: u32| {
        for _ in 0..8 {
            match all.iter().find(|(this, ..)| *this == pid) {
                Some((_, parent, _)) if *parent == root => return true,
                Some((_, parent, _)) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let ranks = all.iter().filter(|(pid, _, comm)| comm == name && descends(*pid));
    ranks.map(|(pid, ..)| *pid as i32).collect()
}

#[test]
fn messages_survive_random_freezes_on_a_faulty_network() {
    let seed = seed();
    println!("seed {seed}");
    let scratch = Scratch::new("network-freezes");
    let random = compile("tests/point_to_point/programs/random.c", scratch.path());
    let output = scratch.path().join("output");
    let file = fs::File::create(&output).expect("a file of our own");
    let mut mpiexec = Network::Faulty.mpiexec(RANKS);
    mpiexec.arg(random).args([&seed, ROUNDS]).stdin(Stdio::null());
    let mut job = Job(mpiexec.stdout(file).spawn().expect("mpiexec starts"));
    let began = Instant::now();
    let ranks = loop {
        let ranks = descendants(job.0.id(), "random");
        if ranks.len() == RANKS {
            break ranks;
        }
        assert!(began.elapsed() < LIMIT, "there are only {} ranks", ranks.len());
    };
    let Some(cgroups) = ranks.iter().map(|rank| Cgroup::hold(*rank)).collect::<Option<Vec<_>>>() else {
        tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
        return;
    };
    let mut random = tutti_testkit::Random::new(seed.parse().expect("a number"));
    let mut freezes = 0;
    let status = loop {
        if let Some(status) = job.0.try_wait().expect("our own child") {
            break status;
        }
        assert!(began.elapsed() < LIMIT, "not at its end after {freezes} freezes");
        let cgroup = &cgroups[random.below(RANKS as u64) as usize];
        cgroup.set_frozen(true);
        std::thread::sleep(Duration::from_micros([0, 50, 300, 5000][random.below(4) as usize]));
        cgroup.set_frozen(false);
        freezes += 1;
        std::thread::sleep(Duration::from_micros(random.below(3000)));
    };
    let said = fs::read_to_string(&output).expect("what it said");
    println!("{freezes} freezes in {:?}", began.elapsed());
    assert!(status.success(), "{status} after {freezes} freezes: {said}");
    assert!(said.contains(&format!("{ROUNDS} rounds of 60 messages on {RANKS} ranks")), "{said}");
    assert!(freezes > 20, "only {freezes} freezes");
}
