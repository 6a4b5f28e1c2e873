//! Three users, two of them hostile with all that they have, at once: the third one's jobs have their results
//! and its questions answers, the daemon its bounds of memory and log, and nothing is left when it is over.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tutti_testkit::{Need, skip};

use crate::Machine;
use crate::harness::{RANK, Running, comes_true};
use crate::malformed;
use crate::memory::{KIB_MAX, kib, submission};
use crate::nothing_left::{Before, assert_nothing_left};
use crate::rubbish::{Sender, Target, targets};

/// Number of the user who is attacked; the others attack.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
const ACCOMPLICE: usize = 2;
/// Bytes of the daemon's log, at most.
const LOG_BYTES_MAX: usize = 1 << 20;
/// The honest user asks so often.
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// Of 100 of its questions 99 are answered within that.
const ANSWER_P99: Duration = Duration::from_secs(1);
/// Part by which the shares of two jobs of a user may differ.
const SHARE_PART: f64 = 0.1;
/// Processes that a job may have; the fork bomb has them all.
const PIDS_MAX: &str = "150";
/// Jobs of sleepers, and what each of them has.
const CROWDS: usize = 4;
const SLEEPERS: usize = 100;
/// The bomb ends by itself so long after the siege, should the test be killed.
const BOMB_MORE: Duration = Duration::from_secs(120);
/// Names on which the hostile user listens and does nothing.
const LISTENERS: usize = 4;
/// No job of the honest user takes longer, whatever happens.
const JOB_MAX: Duration = Duration::from_secs(300);
/// Targets come and go with jobs; they are looked for so often.
const LOOK: Duration = Duration::from_millis(500);
/// Between two rounds of rubbish on all sockets.
const PAUSE: Duration = Duration::from_millis(5);

/// Plan of a siege.
struct Siege {
    name: &'static str,
    /// Time during which new jobs are begun.
    time: Duration,
    /// Of the honest user's program: 50 us and a barrier each.
    rounds: u32,
    /// Whether it is printed what it has cost.
    is_measured: bool,
}

/// Result of one of the honest user's jobs, as its program says.
#[derive(Clone, Debug)]
struct Outcome {
    seconds: f64,
    /// Follows from the number of rounds and of ranks.
    check: String,
}

/// One job of the honest user's to its end.
#[track_caller]
fn compute(machine: &Machine, program: &Path, rounds: u32) -> Outcome {
    let (program, rounds) = (program.to_string_lossy(), rounds.to_string());
    let words = ["run", "-n", "2", &program, &rounds];
    let ran = tutti_tests::run(&mut machine.mpi(HONEST, 0, &words), JOB_MAX).expect_success();
    assert_eq!((ran.stderr.as_str(), ran.stdout.lines().count()), ("", 1), "{ran}");
    // 100 rounds in 0.01 s, 50.1 us each (check 0123456789abcdef)
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    let is_well = words.len() == 10 && words[0] == rounds && words[8] == "(check";
    assert!(is_well, "{ran}");
    Outcome { seconds: words[3].parse().expect("seconds"), check: words[9].to_owned() }
}

/// Counts of what the hostile user has sent.
#[derive(Debug, Default)]
struct Sent {
    rubbish: u64,
    accepted: u64,
    refused: u64,
    unanswered: u64,
}

/// Jobs and sockets of the hostile user while the honest user works.
struct Attack {
    jobs: Vec<Running>,
    _listeners: Vec<Running>,
}

impl Attack {
    #[track_caller]
    fn start(machine: &Machine, bomb: &Path, time: Duration) -> Self {
        let uid = machine.uid(HOSTILE);
        let rank = machine.users.reachable(RANK.as_ref());
        let listeners = (1..=LISTENERS).map(|number| {
            let mut command = machine.users.foreign(uid, &rank);
            let mut listener = Running::start_command(command.arg(format!("listen=tutti/{uid}/{number}")));
            listener.await_line("listens");
            listener
        });
        let listeners = listeners.collect();
        let script = format!(
            "mkfifo fifo$0; i=0; while [ $i -lt {SLEEPERS} ]; do (read line < fifo$0) & i=$((i + 1)); done; \
             echo all; wait"
        );
        let crowd = |number: usize| {
            let words = ["run", "-n", "1", "sh", "-c", &script, &number.to_string()];
            let mut job = machine.start(HOSTILE, &words);
            job.await_line("all");
            job
        };
        let mut jobs: Vec<Running> = (0..CROWDS).map(crowd).collect();
        let (bomb, time) = (bomb.to_string_lossy(), (time + BOMB_MORE).as_secs().to_string());
        let mut bomb =
            Running::start_command(&mut machine.mpi(HOSTILE, 0, &["run", "-n", "1", &bomb, &time]));
        bomb.await_line("up");
        jobs.push(bomb);
        Attack { jobs, _listeners: listeners }
    }

    /// Ends the attack, as its user would.
    #[track_caller]
    fn end(self) {
        for job in &self.jobs {
            job.signal(Signal::TERM);
        }
        for job in self.jobs {
            let (status, said) = job.end();
            assert_eq!(status, 143, "{said}");
        }
    }
}

/// Submissions of 7 MiB, one after the other, by the hostile user.
fn submit_in_a_loop(machine: &Machine, request: &Value, goes_on: &AtomicBool, sent: &Mutex<Sent>) {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    let mut number = 0;
    while goes_on.load(Ordering::Relaxed) {
        number += 1;
        let frame = Machine::frame(crate::machine::ASK, submission(request, number).as_bytes());
        let answer = machine.as_user(HOSTILE, |machine| {
            let mut stream = UnixStream::connect(machine.socket()).ok()?;
            stream.set_read_timeout(Some(tutti_tests::LIMIT)).ok()?;
            stream.set_write_timeout(Some(tutti_tests::LIMIT)).ok()?;
            stream.write_all(&frame).ok()?;
            let payload = Machine::read_frame(&mut stream).ok()?.1;
            serde_json::from_slice::<Value>(&payload).ok()
        });
        let mut sent = sent.lock().expect("no thread has died");
        match answer {
            Some(answer) if answer["Job"].is_u64() => sent.accepted += 1,
            Some(answer) if answer["Refused"].is_string() => sent.refused += 1,
            _ => sent.unanswered += 1,
        }
    }
}

/// Rubbish on all sockets, round after round, by the hostile user.
fn spread_rubbish(
    machine: &Machine,
    all: &Mutex<BTreeSet<Target>>,
    goes_on: &AtomicBool,
    sent: &Mutex<Sent>,
) {
    let seed = std::process::id().into();
    println!("rubbish from seed {seed}");
    let taken = machine.as_user(HOSTILE, |_| {
        let mut sender = Sender::new(seed);
        while goes_on.load(Ordering::Relaxed) {
            let targets = all.lock().expect("no thread has died").clone();
            targets.iter().for_each(|target| sender.send(target));
            std::thread::sleep(PAUSE);
        }
        sender.sent
    });
    sent.lock().expect("no thread has died").rubbish = taken;
}

/// Frames that are nearly right, by the other hostile user.
fn send_malformed(machine: &Machine, requests: &[Value], goes_on: &AtomicBool) -> u64 {
    let seed = tutti_testkit::seed();
    println!("TUTTI_TEST_SEED={seed}");
    let (mut random, mut sent) = (tutti_testkit::Random::new(seed), 0);
    while goes_on.load(Ordering::Relaxed) {
        sent += malformed::control(machine, ACCOMPLICE, &mut random, requests, 320);
    }
    sent
}

/// How long the honest user waits for answers.
fn ask(machine: &Machine, goes_on: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    while goes_on.load(Ordering::Relaxed) {
        let began = Instant::now();
        machine.tutti(HONEST, &["ps"]).expect_success();
        took.push(began.elapsed());
        std::thread::sleep(ASK_PAUSE);
    }
    took.sort();
    took
}

/// View of the machine from outside meanwhile.
#[derive(Default)]
struct Seen {
    jobs: BTreeSet<String>,
    kinds: BTreeSet<&'static str>,
    locked_kib: u64,
}

/// Looks for targets, and for what the controller holds.
fn look(machine: &Machine, all: &Mutex<BTreeSet<Target>>, goes_on: &AtomicBool, seen: &Mutex<Seen>) {
    let daemon = machine.daemon(0);
    while goes_on.load(Ordering::Relaxed) {
        let honest = machine.users.processes(machine.uid(HONEST));
        let found = targets(honest.into_iter().chain([daemon]));
        {
            let mut seen = seen.lock().expect("no thread has died");
            seen.locked_kib = seen.locked_kib.max(kib(daemon, "VmLck"));
            seen.jobs.extend(machine.groups.iter().flat_map(|groups| groups.job_ids()));
            seen.kinds.extend(found.iter().map(|target| match target {
                Target::Local(name, _) if name.starts_with('@') => "abstract",
                Target::Local(..) => "local",
                Target::Tcp(_) => "TCP",
                Target::Udp(_) => "UDP",
            }));
        }
        *all.lock().expect("no thread has died") = found;
        std::thread::sleep(LOOK);
    }
}

/// Whether the kernel sees to the limit of processes.
#[track_caller]
fn has_pids_limit(machine: &Machine) -> bool {
    let mut job = machine.start(HONEST, &["run", "-n", "1", "sh", "-c", "echo up; exec sleep 1000"]);
    job.await_line("up");
    let number = machine.jobs()[0];
    let is_enforced = machine.row(number)["enforced"][0][1]["pids"] == true;
    job.signal(Signal::TERM);
    job.end();
    is_enforced
}

/// Pairs of the honest user's jobs until the time is over; each has the result that it has alone.
#[track_caller]
fn compute_pairs(machine: &Machine, program: &Path, siege: &Siege, alone: &Outcome) -> Vec<f64> {
    let (began, mut ratios) = (Instant::now(), Vec::new());
    while ratios.is_empty() || began.elapsed() < siege.time {
        let pair = std::thread::scope(|scope| {
            let threads = [0, 1].map(|_| scope.spawn(|| compute(machine, program, siege.rounds)));
            threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        for outcome in pair {
            assert_eq!(outcome.check, alone.check, "a job has computed something else");
            ratios.push(outcome.seconds / alone.seconds);
        }
        if siege.is_measured {
            let last = &ratios[ratios.len() - 2..];
            println!(
                "{:5.0} s: {:.2} and {:.2} times alone",
                began.elapsed().as_secs_f64(),
                last[0],
                last[1]
            );
        }
    }
    ratios
}

#[track_caller]
fn besiege(siege: &Siege) {
    let more = ["--slots", "2", "--pids-max", PIDS_MAX];
    let Some(machine) = Machine::up_within_groups(siege.name, 1, 3, &more) else { return };
    let before = Before::note(&machine, 1);
    if !has_pids_limit(&machine) {
        return skip(Need::Cgroup, "the kernel has no controller of processes for us");
    }
    let (program, bomb): (PathBuf, PathBuf) =
        (machine.compile("examples/turns.c"), machine.compile("tests/hostile/programs/bomb.c"));
    let mut request = machine.request(HOSTILE, &["submit", "-o", "none", "-n", "1", "true"]);
    request["Submit"]["environment"] = json!("HERE");
    let alone = compute(&machine, &program, siege.rounds);
    let daemon = machine.daemon(0);
    let (goes_on, all) = (AtomicBool::new(true), Mutex::new(BTreeSet::new()));
    let (sent, seen) = (Mutex::new(Sent::default()), Mutex::new(Seen::default()));
    let began = Instant::now();
    let attack = Attack::start(&machine, &bomb, siege.time);
    println!("the attack was there after {:.1?}", began.elapsed());
    let requests = malformed::requests(&machine, ACCOMPLICE);
    let (ratios, answers, malformed) = std::thread::scope(|scope| {
        let ending = Ending(&goes_on);
        let asks = scope.spawn(|| ask(&machine, &goes_on));
        let sends = scope.spawn(|| send_malformed(&machine, &requests, &goes_on));
        scope.spawn(|| submit_in_a_loop(&machine, &request, &goes_on, &sent));
        scope.spawn(|| spread_rubbish(&machine, &all, &goes_on, &sent));
        scope.spawn(|| look(&machine, &all, &goes_on, &seen));
        let ratios = compute_pairs(&machine, &program, siege, &alone);
        drop(ending);
        (ratios, asks.join().expect("it is answered"), sends.join().expect("it sends"))
    });
    let p99 = answers[(answers.len() - 1) * 99 / 100];
    println!("{} answers, 99 of 100 within {p99:.1?}; {malformed} malformed frames", answers.len());
    println!("{} jobs had ended after {:.1?}", ratios.len(), began.elapsed());
    attack.end();
    end_all_jobs(&machine);
    let (sent, seen) =
        (sent.into_inner().expect("all have ended"), seen.into_inner().expect("all have ended"));
    println!("{sent:?}, to {:?}", seen.kinds);
    if siege.is_measured {
        assert!(p99 < ANSWER_P99, "99 of 100 answers came within {p99:?}");
        let pairs = ratios.chunks_exact(2).map(|pair| (pair[0] - pair[1]).abs() / pair[0].max(pair[1]));
        let uneven = pairs.clone().sum::<f64>() / pairs.len() as f64;
        println!("shares of two jobs differ by {:.1} % on average", uneven * 100.0);
        assert!(uneven < SHARE_PART, "shares of two jobs differ by {uneven}");
        report(ratios, &alone);
    }
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("the daemon's log");
    assert!(
        !log.contains("share this machine"),
        "turns went to who is under no daemon of the keeper's: {log}"
    );
    assert!(log.len() < LOG_BYTES_MAX, "{} bytes of log", log.len());
    assert!(malformed > 0, "the other hostile user has sent something");
    let peak = kib(daemon, "VmHWM");
    println!("the head had at most {peak} KiB, {} KiB locked", seen.locked_kib);
    assert_eq!(machine.daemon(0), daemon, "the head has lived through it");
    assert!(peak < KIB_MAX, "the head had {peak} KiB");
    assert!(sent.rubbish > 0 && sent.accepted + sent.refused > 0, "there was an attack: {sent:?}");
    assert!(seen.kinds.len() == 4, "on all kinds of sockets: {:?}", seen.kinds);
    assert_nothing_left(&machine, &before, &seen.jobs);
    println!("nothing was left after {:.1?}", began.elapsed());
}

/// Ends all threads, also when the test fails.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Ends all jobs: those submitted last may still run.
#[track_caller]
fn end_all_jobs(machine: &Machine) {
    let is_over = comes_true(|| {
        let jobs = machine.jobs();
        for job in &jobs {
            // It may have ended.
            machine.cluster.tutti(&["kill", &job.to_string()]);
        }
        jobs.is_empty()
    });
    assert!(is_over, "it was awaited that all jobs are over: {:?}", machine.jobs());
}

fn report(mut ratios: Vec<f64>, alone: &Outcome) {
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| ratios[((ratios.len() - 1) as f64 * part) as usize];
    println!(
        "{} jobs, two at a time, of {:.2} s alone: time over time alone {:.2} (median), {:.2} to {:.2}",
        ratios.len(),
        alone.seconds,
        at(0.5),
        at(0.0),
        at(1.0)
    );
}

#[test]
fn hostile_user_harms_no_job_of_another_user() {
    besiege(&Siege {
        name: "hostile-siege",
        time: Duration::from_secs(8),
        rounds: 4_000,
        is_measured: false,
    });
}

#[test]
#[ignore = "long: make soak-hostile"]
fn hostile_user_harms_no_job_of_another_user_soak() {
    let seconds = std::env::var("TUTTI_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(600));
    besiege(&Siege { name: "hostile-siege-soak", time, rounds: 40_000, is_measured: true });
}
