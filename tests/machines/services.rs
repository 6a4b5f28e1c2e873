//! Services of jobs of other machines: typed clients, whom a service is for, what a client sees of the end,
//! and `tutti services` and `tutti call`.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tutti_testkit::{Need, await_that, has_command};
use tutti_tests::machines::Machines;
use tutti_tests::run;

const LIMIT: Duration = Duration::from_secs(60);

/// Numbers of `tutti::fault`.
const NO_SERVICE: &str = "fault 12\n";
const NOT_ALLOWED: &str = "fault 13\n";

struct Bench {
    machines: Machines,
    program: String,
}

impl Bench {
    #[track_caller]
    fn up(name: &str) -> Option<Self> {
        if !has_command(Need::Cxx, "c++") {
            return None;
        }
        let machines = Machines::up(name, 3, &[])?;
        let program = machines.compile("tutticxx", "tests/cxx/programs/services.cpp");
        let program = program.to_str().expect("a path of ours").to_owned();
        Some(Bench { machines, program })
    }

    /// A job on node 1 that serves.
    #[track_caller]
    fn serve(&self, name: &str, whom: &str) -> Child {
        let (_, said) = self.machines.file(&format!("{name}-says"));
        let mut command = self.machines.command(0, "tutti");
        command.args(["run", "-H", "node1", "-n", "1", &self.program, "serve", name, whom]);
        let out = std::fs::File::create(&said).expect("a file");
        let child = command.stdin(Stdio::null()).stdout(out).spawn().expect("tutti run");
        await_that("the service is open", || {
            std::fs::read_to_string(&said).is_ok_and(|text| text.contains("serving\n"))
        });
        child
    }

    fn client(&self, node: u32) -> Command {
        self.machines.command(node, &self.program)
    }
}

// Paper: C28
#[test]
fn machines_service_is_called_from_other_machines_by_programs_jobs_and_hand() {
    let Some(bench) = Bench::up("services") else { return };
    let mut server = bench.serve("kv", "user");
    // A program without a job, by the node and by any; a job's ranks.
    for name in ["kv@node1", "kv@*", "alice/kv@node1"] {
        let ran = run(bench.client(2).args(["use", name]), LIMIT).expect_success();
        assert_eq!(ran.stdout, "use: ok\n", "{name}: {ran}");
    }
    let mut job = bench.machines.command(0, "tutti");
    job.args(["run", "-H", "node2", "-n", "1", &bench.program, "use", "kv@node1"]);
    assert_eq!(run(&mut job, LIMIT).expect_success().stdout, "use: ok\n");
    // By hand.
    let call = |words: &[&str]| run(bench.machines.command(2, "tutti").arg("call").args(words), LIMIT);
    call(&["kv@*", "put", "17", "seventeen"]).expect_success();
    assert_eq!(call(&["kv@node1", "get", "17"]).expect_success().stdout, "\"seventeen\"\n");
    assert_eq!(call(&["kv@node1", "get", "18"]).expect_success().stdout, "null\n");
    let rows = r#"[[1,"one",1.5,true],[2,"",null,false]]"#;
    assert_eq!(call(&["kv@node1", "mirror", rows]).expect_success().stdout.trim(), rows);
    assert!(call(&["kv@node1"]).expect_success().stdout.contains("get(i64)->opt(str)\n"));
    let wrong = call(&["kv@node1", "get", "x"]);
    assert!(!wrong.status.success() && wrong.stderr.contains("argument 1 of get is no i64"), "{wrong}");
    let thrown = call(&["kv@node1", "throws", "5"]);
    assert!(!thrown.status.success() && thrown.stderr.contains("std::out_of_range: no? 5"), "{thrown}");
    let none = call(&["kv@node2", "get", "1"]);
    assert!(!none.status.success() && none.stderr.contains("service kv@node2: there is none"), "{none}");
    // Each machine lists it, once.
    let listed = bench.machines.tutti(2, &["services"]).expect_success().stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.contains(&vec!["kv", "alice", "node1", "9", "functions"]), "{listed}");
    assert_eq!(lines.len(), 2, "{listed}");
    let json = bench.machines.tutti(0, &["services", "--json"]).expect_success().stdout;
    assert!(json.contains("\"get(i64)->opt(str)\"") && json.contains("\"node\": \"node1\""), "{json}");
    // Another user sees that it is there, and no more.
    let by_bob = |words: &[&str]| {
        let mut command = bench.machines.lab.node(2).user("bob").command(&bench.program);
        run(command.args(words), LIMIT)
    };
    assert_eq!(by_bob(&["fault", "alice/kv@node1"]).expect_success().stdout, NOT_ALLOWED);
    assert_eq!(by_bob(&["fault", "kv@node1"]).expect_success().stdout, NO_SERVICE);
    run(bench.client(2).args(["stop", "kv@node1"]), LIMIT).expect_success();
    assert!(server.wait().expect("it ends").success());
    let mut server = bench.serve("open", "user:bob");
    assert_eq!(by_bob(&["use", "alice/open@node1"]).expect_success().stdout, "use: ok\n");
    run(bench.client(2).args(["stop", "open@node1"]), LIMIT).expect_success();
    assert!(server.wait().expect("it ends").success());
}

/// A suspended server keeps its clients of other machines waiting, until their time is over; when it goes on
/// it answers. Killed in the middle of calls, each ends once.
#[test]
fn machines_service_that_is_suspended_is_waited_for_and_its_end_is_seen() {
    let Some(bench) = Bench::up("services-end") else { return };
    let mut server = bench.serve("still", "user");
    bench.machines.tutti(0, &["suspend", "1"]).expect_success();
    let call = |words: &[&str]| run(bench.machines.command(2, "tutti").arg("call").args(words), LIMIT);
    // Of this node a client waits for its first answer as one of another does.
    for name in ["still@node1", "still@*"] {
        let ran = call(&["--timeout", "0.5", name, "flag", "true"]);
        assert!(!ran.status.success() && ran.stderr.contains("the time is over"), "{ran}");
    }
    let mut waits = bench.machines.command(2, "tutti");
    waits.args(["call", "still@node1", "flag", "true"]);
    let waits = waits.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a client");
    bench.machines.tutti(0, &["resume", "1"]).expect_success();
    let said = waits.wait_with_output().expect("our own child");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "false\n");
    let mut ends = bench.client(2);
    ends.args(["until-end", "still@node1"]);
    let (_, file) = bench.machines.file("until-end-says");
    let out = std::fs::File::create(&file).expect("a file");
    let mut ends = ends.stdout(out).spawn().expect("a client");
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    await_that("calls are under way", || read().contains("calling\n"));
    bench.machines.tutti(0, &["signal", "KILL", "1"]).expect_success();
    assert!(ends.wait().expect("our own child").success());
    let said = read();
    assert!(said.contains("lost\n") || said.contains("gone\n"), "{said}");
    assert!(!server.wait().expect("it ends").success());
}
