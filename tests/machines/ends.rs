//! How calls of a service end when server, clients and daemons are killed (SIGKILL) in the middle of them:
//! each once, as answered, refused (it has not run) or lost (it may have).

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use tutti_testkit::{Need, Random, await_that, has_command};
use tutti_tests::machines::Machines;
use tutti_tests::{dist, run};

const LIMIT: Duration = Duration::from_secs(60);
/// Calls of a client between its starts.
const CALLS_OF_ONE: u64 = 150;

struct Ends {
    machines: Machines,
    program: PathBuf,
    random: Random,
}

/// Calls by how they have ended.
#[derive(Debug, Default)]
struct Count {
    answered: u64,
    refused: u64,
    lost: u64,
    /// Under way when their client was killed.
    open: u64,
    /// The longest of all, in ms, and how it has ended.
    longest: (u64, String),
}

impl Count {
    fn all(&self) -> u64 {
        self.answered + self.refused + self.lost + self.open
    }
}

impl Ends {
    #[track_caller]
    fn up(name: &str) -> Option<Self> {
        if !has_command(Need::Cxx, "c++") {
            return None;
        }
        let machines = Machines::up(name, 3, &[])?;
        let program = machines.compile("tutticxx", "tests/cxx/programs/ends.cpp");
        Some(Ends { machines, program, random: Random::new(tutti_testkit::seed()) })
    }

    /// A shell of alice's on a machine, with the program as $0.
    fn shell(&self, node: u32, script: &str) -> Child {
        let mut command = self.machines.command(node, "sh");
        command.args(["-c", script]).arg(&self.program).stdin(Stdio::null());
        command.spawn().expect("a shell")
    }

    /// Serves on machine 1 until it is asked to stop, by one server after the other.
    fn serve(&mut self) -> Child {
        let (log, _) = self.machines.file("ran");
        let first = self.random.below(1 << 30) + 1;
        let log = log.display();
        let script = format!(
            "seed={first}; until \"$0\" serve ends {log} $seed; do seed=$((seed + 1)); done 2>/dev/null"
        );
        self.shell(1, &script)
    }

    /// Clients on a machine, one after the other, each with a log of its own. The last one is not killed.
    fn call(&mut self, node: u32, name: &str, times: u64) -> Child {
        let (log, _) = self.machines.file(&format!("calls-{node}"));
        let seed = self.random.below(1 << 30) + 1;
        let log = log.display();
        let script = format!(
            "one=1; while test $one -lt {times}; do \
             \"$0\" call {name} {log}-$one $(({seed} + one)) {node}-$one {CALLS_OF_ONE}; test $? != 1 || exit 1; \
             one=$((one + 1)); done 2>/dev/null; exec \"$0\" call {name} {log}-{times} 0 {node}-{times} {CALLS_OF_ONE}"
        );
        self.shell(node, &script)
    }

    fn lines(&self, name: &str) -> Vec<(String, String)> {
        let text = std::fs::read_to_string(self.machines.file(name).1).unwrap_or_default();
        let words = text.lines().filter_map(|line| line.split_once(' '));
        words.map(|(one, other)| (one.to_owned(), other.to_owned())).collect()
    }

    /// Compares what clients were told with what has run.
    #[track_caller]
    fn count(&self, clients: &[(u32, u64)]) -> Count {
        let mut ran: HashMap<(String, String), u64> = HashMap::new();
        for call in self.lines("ran") {
            *ran.entry(call).or_default() += 1;
        }
        assert!(ran.values().all(|times| *times == 1), "each call has run once at most");
        let mut count = Count::default();
        for (node, one) in clients.iter().flat_map(|(node, times)| (1..=*times).map(move |one| (*node, one)))
        {
            let client = format!("{node}-{one}");
            let ended = self.lines(&format!("calls-{client}"));
            for (at, (number, outcome)) in ended.iter().enumerate() {
                assert_eq!(number.parse(), Ok(at), "{client}: calls end in order, each once");
                let has_run = ran.remove(&(client.clone(), number.clone())).is_some();
                match outcome.as_str() {
                    "answered" if has_run => count.answered += 1,
                    "refused" if !has_run => count.refused += 1,
                    "lost" => count.lost += 1,
                    _ => panic!("call {number} of {client} was {outcome}; it has run: {has_run}"),
                }
            }
            for (ms, outcome) in self.lines(&format!("calls-{client}-longest")) {
                count.longest = count.longest.max((ms.parse().expect("a number"), outcome));
            }
            count.open += u64::from(ran.remove(&(client.clone(), ended.len().to_string())).is_some());
        }
        assert!(ran.is_empty(), "calls that nobody has made: {ran:?}");
        count
    }

    /// Servers and clients of the same and of another machine are killed again and again; meanwhile daemons
    /// of both machines are, too.
    #[track_caller]
    fn kill_everybody(mut self, times: u64) -> Count {
        let mut server = self.serve();
        let mut clients = [self.call(1, "ends", times), self.call(2, "ends@node1", times)];
        let mut ended = [None, None];
        let mut killed = 0;
        await_that("a call has run", || !self.lines("ran").is_empty());
        while ended.iter().any(Option::is_none) {
            // One daemon at once, and one more for each 200 calls that have run.
            if self.lines("ran").len() >= 200 * killed {
                let node = 1 + self.random.below(2) as u32;
                self.machines.replace_daemon(node, &dist().join("bin/tuttid"));
                killed += 1;
            }
            std::thread::sleep(Duration::from_millis(5));
            for (ended, client) in ended.iter_mut().zip(&mut clients) {
                *ended = ended.or(client.try_wait().expect("our own child"));
            }
        }
        assert!(ended.iter().flatten().all(|status| status.success()), "{ended:?}");
        run(self.machines.command(1, &self.program).args(["stop", "ends"]), LIMIT);
        await_that("the last server has ended", || server.try_wait().expect("our own child").is_some());
        let count = self.count(&[(1, times), (2, times)]);
        println!("{count:?}, {killed} daemons killed");
        count
    }
}

// Paper: C28
#[test]
fn machines_calls_of_a_service_end_once_under_kills() {
    let Some(ends) = Ends::up("ends") else { return };
    let count = ends.kill_everybody(3);
    assert!(count.answered >= 250 && count.lost + count.refused > 0, "{count:?}");
}

/// The same with TUTTI_CALLS (10,000) calls or more.
#[test]
#[ignore = "minutes: make soak-calls"]
fn machines_calls_of_a_service_end_once_under_kills_soak() {
    let calls = std::env::var("TUTTI_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(10_000);
    let mut all = 0;
    for round in 1.. {
        let Some(ends) = Ends::up(&format!("ends-{round}")) else { return };
        all += ends.kill_everybody(40).all();
        if all >= calls {
            return;
        }
    }
}
