//! Shared memory between machines (PARMACS): results are those of one process, whatever the cables do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_testkit::await_that;
use tutti_testkit::lab::{Lab, Plan, Terms};
use tutti_tests::machines::Machines;
use tutti_tests::{has_plugin, run};

use super::hostile;

const LIMIT: Duration = Duration::from_secs(100);

/// Programs and their arguments; `%` is the number of processes.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("examples/shared/lu.c.in", &["-n256", "-b16", "-p%"]),
    ("examples/shared/radix.c.in", &["-n65536", "-r1024", "-p%"]),
    ("examples/shared/sor.c", &["128", "10", "%"]),
    ("examples/shared/queue.c", &["100", "%"]),
];

/// Digest of a program's result, from behind the last colon of its output: of a run on so many machines, with
/// so many ranks on each.
#[track_caller]
fn digest(
    machines: &Machines,
    program: &Path,
    (nodes, each): (u32, u32),
    arguments: &[&str],
    options: &[&str],
) -> String {
    let ranks = nodes * each;
    let mut command = machines.launch(nodes, ranks);
    command.args(options).arg(program);
    command.args(arguments.iter().map(|word| word.replace('%', &ranks.to_string())));
    let ran = run(&mut command, LIMIT).expect_success();
    let digest = ran.stdout.trim_end().rsplit(": ").next().unwrap_or_default().to_owned();
    assert!(digest.len() >= 16, "{ran}");
    println!("{} on {nodes} x {each}: {:.1?}, {}", program.display(), ran.took, ran.stderr.trim());
    digest
}

/// All programs give on so many machines, with so many ranks on each, what they give on one.
#[track_caller]
fn results_are_equal(machines: &Machines, counts: &[(u32, u32)], options: &[&str]) {
    compiled_are_equal(machines, &[&[]], counts, options);
}

/// The same compiled with options: all give what the first ones give on one machine.
#[track_caller]
fn compiled_are_equal(machines: &Machines, compilers: &[&[&str]], counts: &[(u32, u32)], options: &[&str]) {
    for (source, arguments) in PROGRAMS {
        let mut alone = None;
        for compiler in compilers {
            let program = machines.compile_by("tutticc", compiler, source);
            let digest = |count, options: &[&str]| digest(machines, &program, count, arguments, options);
            let alone = alone.get_or_insert_with(|| digest((1, 1), &[]));
            for &count in counts {
                let found = digest(count, options);
                assert_eq!(
                    found, *alone,
                    "{source} on {count:?} machines and ranks, {compiler:?}, {options:?}"
                );
            }
        }
    }
}

// Paper: C19, C21
#[test]
fn machines_share_memory_and_get_the_sequential_results() {
    let Some(machines) = Machines::up("shared", 4, &[]) else { return };
    results_are_equal(&machines, &[(2, 1), (4, 1), (2, 4)], &[]);
}

// Paper: C20
#[test]
fn machines_share_memory_with_checked_loads_and_with_twins() {
    if !has_plugin() {
        return;
    }
    let plan = Lab::plan(4).cables(Terms::default().loss(1.0).seed(tutti_testkit::seed()));
    let Some(machines) = Machines::up_by("shared-modes", &plan, &["--lost-after", "20"]) else { return };
    compiled_are_equal(&machines, &[&["--dsm=udsm"], &["--dsm=twin"]], &[(2, 1), (4, 1), (2, 2)], &[]);
}

#[test]
fn machines_share_memory_over_cables_that_lose_and_double_frames() {
    let terms = Terms::default().loss(1.0).duplication(1.0).seed(tutti_testkit::seed());
    let plan = Lab::plan(2).cables(terms);
    let Some(machines) = Machines::up_by("shared-loss", &plan, &["--lost-after", "20"]) else { return };
    results_are_equal(&machines, &[(2, 1), (2, 2)], &[]);
}

// Paper: C23
#[test]
fn machines_update_copies_over_cables_that_lose_and_double_frames() {
    let terms = Terms::default().loss(1.0).duplication(1.0).seed(tutti_testkit::seed());
    let plan = Lab::plan(3).cables(terms);
    let Some(machines) = Machines::up_by("shared-updates", &plan, &["--lost-after", "20"]) else { return };
    let program = machines.compile_by("tutticc", &["--dsm=twin"], "tests/dsm/programs/updates.c");
    for (nodes, each) in [(3, 1), (2, 2)] {
        let ranks = nodes * each;
        let mut command = machines.launch(nodes, ranks);
        command.env("TUTTI_STATS", "json").arg(&program).arg(ranks.to_string());
        let ran = run(&mut command, LIMIT).expect_success();
        assert_eq!(ran.stdout, "updates: 0 wrong\n", "{ran}");
        let ranks_sent = ran.stderr.matches("\"update_records\":").count();
        let idle = ran.stderr.matches("\"update_records\":0,").count();
        assert!(ranks_sent > 0 && idle < ranks_sent, "homes have sent no updates: {ran}");
    }
}

#[test]
fn machines_share_memory_through_switches_every_5_ms() {
    let Some(machines) = Machines::up("shared-switches", 2, &["--slice", "5", "--force-switch"]) else {
        return;
    };
    results_are_equal(&machines, &[(2, 2)], &[]);
}

/// The program that draws by tiles, and one that sends messages; their arguments, `%` for the processes.
const TILES: (&str, &str, [&str; 2]) = ("tutticc", "tests/dsm/programs/tiles.c", ["%", "12"]);
const MESSAGES: (&str, &str, [&str; 2]) = ("mpicc", "examples/shared/sor_mpi.c", ["128", "60"]);

/// Cables that lose and double 1 % of all frames.
fn bad_cables(nodes: u32) -> Plan {
    let terms = Terms::default().loss(1.0).duplication(1.0).seed(tutti_testkit::seed());
    Lab::plan(nodes).cables(terms)
}

/// Options of daemons whose jobs take turns of 5 ms.
const TURNS_OF_5_MS: [&str; 4] = ["--slice", "5", "--lost-after", "20"];

/// All programs give on three machines, compiled for each mode, what they give on one, in an environment.
#[track_caller]
fn modes_are_equal(machines: &Machines, count: (u32, u32), environment: &[(&str, &str)]) {
    let ranks = count.0 * count.1;
    for (source, arguments) in PROGRAMS {
        let words = |ranks: u32| arguments.iter().map(move |word| word.replace('%', &ranks.to_string()));
        let mut alone = None;
        for mode in ["--dsm=twin", "--dsm=adsm", "--dsm=udsm"] {
            let program = machines.compile_by("tutticc", &[mode], source);
            let alone = alone.get_or_insert_with(|| digest(machines, &program, (1, 1), arguments, &[]));
            let mut command = machines.launch(count.0, ranks);
            command.envs(environment.iter().copied()).arg(&program).args(words(ranks));
            let ran = run(&mut command, LIMIT).expect_success();
            let found = ran.stdout.trim_end().rsplit(": ").next().unwrap_or_default();
            assert_eq!(found, *alone, "{source} {mode} on {count:?}, {environment:?}: {ran}");
        }
    }
}

// Paper: C23
#[test]
fn machines_share_memory_whose_copies_are_all_updated_in_every_mode() {
    if !has_plugin() {
        return;
    }
    let Some(machines) = Machines::up_by("shared-all", &bad_cables(3), &["--lost-after", "20"]) else {
        return;
    };
    for count in [(3, 1), (3, 2)] {
        modes_are_equal(&machines, count, &[("TUTTI_DSM_UPDATE", "all")]);
    }
}

#[test]
#[ignore = "minutes: make soak-shared"]
fn machines_share_memory_in_every_environment_soak() {
    let Some(machines) = Machines::up_by("shared-ways", &bad_cables(4), &["--lost-after", "20"]) else {
        return;
    };
    let ways: [&[(&str, &str)]; 7] = [
        &[("TUTTI_DSM_CHECK", "1")],
        &[("TUTTI_DSM_CHECK", "1"), ("TUTTI_DSM_UPDATE", "all")],
        &[("TUTTI_DSM_COPIES", "128K")],
        &[("TUTTI_DSM_COPIES", "128K"), ("TUTTI_DSM_UPDATE", "all")],
        &[("TUTTI_DSM_BACKEND", "mprotect")],
        &[("TUTTI_DSM_BACKEND", "mprotect"), ("TUTTI_DSM_UPDATE", "all")],
        &[("TUTTI_DSM_MIGRATE", "off"), ("TUTTI_DSM_HANDOVER", "off"), ("TUTTI_DSM_COMBINE", "off")],
    ];
    for way in ways {
        for count in [(3, 1), (4, 1), (2, 2)] {
            modes_are_equal(&machines, count, way);
        }
        println!("{way:?}: right");
    }
}

#[test]
fn machines_whose_locks_wait_in_a_ring_say_so() {
    let Some(machines) = Machines::up("shared-ring", 3, &[]) else { return };
    let program = machines.compile_by("tutticc", &["--dsm=twin"], "tests/dsm/programs/cycle.c");
    let mut command = machines.launch(3, 3);
    let ran = run(command.args(["--on-deadlock", "end"]).arg(&program), LIMIT);
    assert_eq!(ran.status.code(), Some(35), "{ran}");
    assert!(ran.stderr.matches(" of shared memory, which rank ").count() >= 3, "{ran}");
}

// Two programs of shared memory, and one that sends messages, take turns.
#[test]
fn machines_share_memory_beside_each_other_and_beside_messages() {
    let Some(machines) = Machines::up_by("shared-beside", &bad_cables(2), &TURNS_OF_5_MS) else { return };
    let jobs = [TILES, TILES, MESSAGES]
        .map(|(wrapper, source, arguments)| (machines.compile(wrapper, source), arguments));
    let alone = [0, 2].map(|job: usize| digest(&machines, &jobs[job].0, (1, 1), &jobs[job].1, &[]));
    let found = std::thread::scope(|scope| {
        let run = |(program, arguments): &(PathBuf, [&'static str; 2])| {
            let (program, arguments, machines) = (program.clone(), *arguments, &machines);
            scope.spawn(move || digest(machines, &program, (2, 2), &arguments, &[]))
        };
        jobs.each_ref().map(run).map(|job| job.join().expect("a result"))
    });
    assert_eq!(found, [&alone[0], &alone[0], &alone[1]].map(String::as_str));
}

/// Two jobs that draw by tiles take turns, again and again, until so many turns have been seen. While one has
/// its turn the other is frozen, wherever it is.
#[test]
#[ignore = "minutes: make soak-shared"]
fn machines_share_memory_through_freezes_soak() {
    let wanted = std::env::var("TUTTI_TURNS").ok().and_then(|turns| turns.parse().ok()).unwrap_or(1000);
    let Some(machines) = Machines::up_by("shared-freezes", &bad_cables(2), &TURNS_OF_5_MS) else { return };
    let (wrapper, source, arguments) = TILES;
    let programs = [&["--dsm=twin"][..], &[]].map(|mode| {
        let compiled = machines.compile_by(wrapper, mode, source);
        let kept = compiled.with_extension(if mode.is_empty() { "any" } else { "twin" });
        std::fs::rename(&compiled, &kept).expect("a program");
        kept
    });
    let alone = digest(&machines, &programs[0], (1, 1), &arguments, &[]);
    let (mut seen, mut job) = (0, 2);
    while seen < wanted {
        let turns = std::thread::scope(|scope| {
            let run = |program: &PathBuf| {
                let (program, machines) = (program.clone(), &machines);
                scope.spawn(move || digest(machines, &program, (2, 2), &arguments, &[]))
            };
            let jobs = programs.each_ref().map(run);
            let mut turns = [0; 2];
            while !jobs.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                for (place, turns) in (0..).zip(&mut turns) {
                    *turns = hostile::turns(&machines, job + place).max(*turns);
                }
            }
            for found in jobs {
                assert_eq!(found.join().expect("a result"), alone, "behind {seen} turns");
            }
            turns.iter().sum::<u64>()
        });
        job += 2;
        seen += turns;
        println!("{turns} turns, {seen} in all");
    }
}

/// The network is lost while a rank misses pages without an end: the job ends as any job does that has lost a
/// node, and nothing is left behind.
#[test]
fn machines_share_memory_until_the_cable_is_cut_in_the_middle_of_a_miss() {
    let options = ["--lost-after", "6", "--keep-for", "10"];
    let Some(machines) = Machines::up("shared-cut", 2, &options) else { return };
    let program = machines.compile_by("tutticc", &["--dsm=twin"], "tests/dsm/programs/misses.c");
    let (said, outside) = machines.file("said");
    let script = format!("exec tutti run -N 2 -n 2 --bind-to none \"$0\" >{}", said.display());
    let mut command = machines.command(0, "sh");
    command.args(["-c", &script]).arg(&program);
    let has_begun = || std::fs::read_to_string(&outside).is_ok_and(|text| text.contains("misses: begun"));
    let ran = std::thread::scope(|scope| {
        let job = scope.spawn(|| run(&mut command, LIMIT));
        await_that("pages are missed", has_begun);
        machines.lab.node(1).cut();
        job.join().expect("the job ends by itself")
    });
    assert!(!ran.status.success() && ran.stderr.contains("node1"), "a line names what was lost: {ran}");
    machines.lab.node(1).mend();
    for node in 0..2 {
        await_that("nothing of the job is left", || {
            let found = machines.lab.node(node).sh("cat /proc/[0-9]*/comm").stdout;
            !found.windows(6).any(|word| word == b"misses")
        });
    }
}

/// A machine without power is as a cable that is cut: its job ends with a line that names it, the others are
/// as before, and a further job runs on them.
#[test]
fn machines_share_memory_until_one_has_no_power() {
    let options = ["--lost-after", "6", "--keep-for", "10"];
    let Some(machines) = Machines::up("shared-power", 3, &options) else { return };
    let program = machines.compile_by("tutticc", &["--dsm=twin"], "tests/dsm/programs/misses.c");
    let (said, outside) = machines.file("said");
    let script = format!("exec tutti run -N 3 -n 3 --bind-to none \"$0\" 3 >{}", said.display());
    let mut command = machines.command(0, "sh");
    command.args(["-c", &script]).arg(&program);
    let has_begun = || std::fs::read_to_string(&outside).is_ok_and(|text| text.contains("misses: begun"));
    let ran = std::thread::scope(|scope| {
        let job = scope.spawn(|| run(&mut command, LIMIT));
        await_that("pages are missed", has_begun);
        machines.lab.node(2).kill();
        job.join().expect("the job ends by itself")
    });
    assert!(!ran.status.success() && ran.stderr.contains("node2"), "a line names what was lost: {ran}");
    let queue = machines.compile_by("tutticc", &["--dsm=twin"], "examples/shared/queue.c");
    let digests = [(1, 1), (2, 1)].map(|count| digest(&machines, &queue, count, &["100", "%"], &[]));
    assert_eq!(digests[0], digests[1]);
}

#[test]
#[ignore = "eight machines on two cores: make test-lab"]
fn machines_share_memory_on_eight() {
    let Some(machines) = Machines::up("shared-eight", 8, &[]) else { return };
    results_are_equal(&machines, &[(8, 1)], &[]);
}
