//! Jobs whose serial phases run side by side while one has the parallel slots (`--phases`). Computing is
//! replaced by sleeping, so two cores stand for eight.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, dist, root, run};

use crate::Cluster;
use crate::harness::{Running, await_that};

/// 0.27 ms serial, 0.5 ms parallel.
const FINE: [&str; 3] = ["1000", "270", "500"];

struct Bench {
    cluster: Cluster,
    program: PathBuf,
    _scratch: Scratch,
}

impl Bench {
    #[track_caller]
    fn new(name: &str, slots: &str) -> Self {
        Self::with(name, "phases", &["--slots", slots])
    }

    /// A program of `tests/native/programs`; `more` are options of `tutti up`.
    #[track_caller]
    fn with(name: &str, source: &str, more: &[&str]) -> Self {
        let scratch = Scratch::new(&format!("{name}-program"));
        let program = scratch.path().join(source);
        let mut compiler = tutti_tests::program("mpicc");
        compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        let source = root().join(format!("tests/native/programs/{source}.c"));
        compiler.arg(source).args(["-ltutti", "-lpthread"]);
        run(&mut compiler, Duration::from_secs(60)).expect_success();
        Bench { cluster: Cluster::up(name, 1, more), program, _scratch: scratch }
    }

    fn words<'a>(&'a self, options: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
        let program = self.program.to_str().expect("a path in UTF-8");
        [&["run"], options, &["-n", "1", program], arguments].concat()
    }

    #[track_caller]
    fn start(&self, policy: &str, arguments: &[&str]) -> Running {
        self.cluster.start(&self.words(&[policy], arguments))
    }

    /// The same jobs at once: how long each took, in ms, in ascending order.
    #[track_caller]
    fn at_once(&self, policy: &str, jobs: usize, arguments: &[&str]) -> Vec<f64> {
        let jobs: Vec<_> = (0..jobs).map(|_| self.start(policy, arguments)).collect();
        let mut times: Vec<f64> = jobs.into_iter().map(finished).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

#[track_caller]
fn finished(job: Running) -> f64 {
    let (status, errors, lines) = job.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""), "{lines:?}");
    time(&lines)
}

#[track_caller]
fn time(lines: &[String]) -> f64 {
    let line = lines.iter().find_map(|line| line.strip_prefix("phases: ")?.strip_suffix(" ms"));
    line.and_then(|time| time.parse().ok()).expect("the program prints its time")
}

#[track_caller]
fn wait_until_there(path: &Path) {
    std::fs::write(path, "").expect("a file in a scratch folder");
}

// Paper: R10, R14
#[test]
fn r10_r14_serial_phases_run_beside_one_jobs_parallel_phase() {
    let bench = Bench::new("phases-beside", "8");
    let look = || {
        let alone = bench.at_once("--phases", 1, &FINE)[0];
        let four = bench.at_once("--phases", 4, &FINE);
        (alone, four[0], four[3])
    };
    // All phases one after the other would take four times as long. Others may keep the machine busy.
    let seen: Vec<_> = (0..3).map(|_| look()).collect();
    let is_well = |(alone, first, last): &(f64, f64, f64)| *last < 3.5 * alone && *first > 0.8 * last;
    assert!(seen.iter().any(is_well), "alone, first and last of four, ms: {seen:.0?}");
    assert!(seen.iter().all(|(_, _, last)| *last >= 1900.0), "one parallel phase at a time: {seen:.0?}");
}

// Paper: R12
#[test]
fn r12_alone_a_phase_costs_nothing() {
    let bench = Bench::new("phases-alone", "2");
    let begun = Instant::now();
    finished(bench.start("--phases", &["2000000", "0", "0"]));
    assert!(begun.elapsed() < Duration::from_secs(5), "2,000,000 phases: {:?}", begun.elapsed());
}

// Paper: R15
#[test]
fn r15_three_policies_run_the_same_program() {
    let bench = Bench::new("phases-policies", "4");
    for policy in ["--phases=time", "--phases=shared", "--phases=hints", "--phases=hints:500"] {
        let times = bench.at_once(policy, 2, &["100", "270", "500"]);
        assert_eq!(times.len(), 2, "{policy}");
    }
}

#[test]
fn phases_that_never_end_hold_nobody_up() {
    let bench = Bench::new("phases-never", "4");
    let mut never = bench.start("--phases", &["5", "100", "100", "never"]);
    never.await_line("in its phase");
    let other = finished(bench.start("--phases", &["200", "270", "500"]));
    assert!(other < 15_000.0, "{other} ms of some 200, with half of the time for who never yields");
    assert!(!never.seen().is_empty());
    bench.cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(never.end().0, 137);
}

#[test]
fn phases_of_a_job_that_dies_with_the_slots_are_over() {
    let bench = Bench::new("phases-dies", "4");
    let other = bench.start("--phases", &["300", "270", "500"]);
    for _ in 0..3 {
        let (status, _) = bench.start("--phases", &["5", "100", "100", "dies"]).end();
        assert_eq!(status, 137);
    }
    let took = finished(other);
    assert!(took < 5_000.0, "{took} ms");
}

#[test]
fn phases_of_a_job_that_is_frozen_with_the_slots_hold_nobody_up() {
    let bench = Bench::new("phases-frozen", "4");
    let go = bench.program.with_file_name("go");
    let file = go.to_str().expect("a path in UTF-8");
    let mut frozen = bench.start("--phases", &["5", "100", "100", "waits", file]);
    frozen.await_line("in its phase");
    bench.cluster.tutti(&["suspend", "1"]).expect_success();
    let other = finished(bench.start("--phases", &["200", "270", "500"]));
    assert!(other < 5_000.0, "{other} ms");
    wait_until_there(&go);
    bench.cluster.tutti(&["resume", "1"]).expect_success();
    finished(frozen);
}

#[test]
fn phases_of_a_forked_child_are_none() {
    let bench = Bench::new("phases-forks", "4");
    let other = bench.start("--phases", &["300", "270", "500"]);
    finished(bench.start("--phases", &["20", "100", "100", "forks"]));
    finished(other);
}

#[test]
fn phases_go_on_without_a_daemon() {
    let bench = Bench::new("phases-daemon", "4");
    let program = bench.program.to_str().expect("a path in UTF-8");
    for _ in 0..2 {
        bench
            .cluster
            .tutti(&["submit", "--phases", "-n", "1", program, "2000", "270", "500"])
            .expect_success();
    }
    let is = |job, state: &str| bench.cluster.job(job).contains(state);
    await_that("they run", || is(1, "\"running\"") && is(2, "\"running\""));
    bench.cluster.replace(0);
    let begun = Instant::now();
    await_that("they end well", || is(1, "\"status\": 0") && is(2, "\"status\": 0"));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

// Paper: R5
#[test]
fn r5_team_barrier_call_from_outside_the_mask_is_an_error() {
    let bench = Bench::with("team-errors", "team", &[]);
    let ran = bench.cluster.tutti(&bench.words(&[], &["errors"])).expect_success();
    assert_eq!(ran.stdout, "team: ok\n");
}

/// The barrier's words, in a file of the program's.
fn words(file: &Path) -> Vec<u8> {
    std::fs::read(file).expect("the barrier's file")[..64].to_vec()
}

/// A job is frozen, whole, with three of its four threads inside. What is in the barrier then stays as it is,
/// and the same threads wait in it when the job goes on.
// Paper: R6, R7, R8
#[test]
fn r6_r7_r8_team_barrier_has_the_same_threads_inside_after_a_suspension() {
    let bench = Bench::with("team-holds", "team", &["--slots", "4"]);
    let (barrier, go) = (bench.program.with_file_name("barrier"), bench.program.with_file_name("go"));
    let [barrier_text, go_text] = [&barrier, &go].map(|path| path.to_str().expect("a path in UTF-8"));
    let mut job = bench.start("--phases", &["holds", "4", barrier_text, go_text]);
    job.await_line("all but one are inside");
    let before = words(&barrier);
    assert_eq!(before[16..24], 0b1110_u64.to_ne_bytes(), "members 1 to 3 are inside");
    let of_job =
        |path: &Path| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("tutti-job-"));
    let groups = job.mark.processes().into_iter().filter_map(crate::harness::cgroup_of);
    let group =
        groups.filter_map(|path| path.ancestors().find(|path| of_job(path)).map(PathBuf::from)).next();
    for _ in 0..3 {
        // First all threads have stopped, and that has been confirmed; then the state is what it is.
        bench.cluster.tutti(&["suspend", "1"]).expect_success();
        await_that("it is suspended", || bench.cluster.job(1).contains("\"suspended\""));
        if let Some(group) = &group {
            await_that("all of it is frozen", || crate::gangs::is_frozen(group));
        }
        assert_eq!(words(&barrier), before);
        bench.cluster.tutti(&["resume", "1"]).expect_success();
        await_that("it runs", || bench.cluster.job(1).contains("\"running\""));
        assert_eq!(words(&barrier)[16..24], before[16..24]);
    }
    // The last one comes while the job stands still: nobody passes.
    bench.cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("it is suspended", || bench.cluster.job(1).contains("\"suspended\""));
    wait_until_there(&go);
    assert_eq!(words(&barrier), before);
    bench.cluster.tutti(&["resume", "1"]).expect_success();
    finished(job);
    assert_eq!(words(&barrier)[16..24], [0; 8]);
}

/// Two teams on the same cores, frozen every 5 ms wherever they are.
// Paper: R8
#[test]
fn r8_team_barriers_are_exact_under_forced_switches() {
    let more = ["--slots", "2", "--slice", "5", "--force-switch"];
    let bench = Bench::with("team-switches", "team", &more);
    let jobs: Vec<_> = (0..2).map(|_| bench.start("--phases=time", &["rounds", "3", "4000"])).collect();
    let took: Vec<f64> = jobs.into_iter().map(finished).collect();
    println!("{took:.0?} ms");
}

/// How often a time is taken again on a machine that others keep busy.
const LOOKS: usize = 25;

/// Formula (1) is 1 / (v / a + 1 - v): of the part v of the time `a` processors make a times as little. On
/// virtual processors: 6 ms of 7 are parallel, the paper's v for half of 8.
// Paper: R17
#[test]
fn r17_measured_speed_up_is_near_the_formula() {
    let bench = Bench::with("team-formula", "team", &["--slots", "8"]);
    let time = |threads: &str| finished(bench.start("--phases", &["solves", threads, "100", "1000", "6000"]));
    let look = || {
        let alone = time("1");
        [2_u32, 4, 8].map(|threads| {
            let speed_up = alone / time(&threads.to_string());
            let formula = 7.0 / (6.0 / f64::from(threads) + 1.0);
            (threads, speed_up, formula)
        })
    };
    // A barrier costs something, and nobody is faster than the formula. Others may keep the machine busy:
    // then it is looked at again.
    let is_near =
        |(_, speed_up, formula): &(u32, f64, f64)| *speed_up > 0.85 * formula && *speed_up < 1.1 * formula;
    let mut seen = Vec::new();
    while !seen.last().is_some_and(|look: &[_; 3]| look.iter().all(is_near)) {
        assert!(seen.len() < LOOKS, "threads, speed-up, formula: {seen:.2?}");
        seen.push(look());
    }
    println!("threads, speed-up, formula: {seen:.2?}");
}

/// LLVM's run time: installed, or Debian's package unpacked into the folder. Debian 12 and 13 have other
/// versions of it.
fn libomp(folder: &Path) -> Option<PathBuf> {
    let versions = ["14", "19", "17", "16", "15", "13"];
    let in_tree = |root: &Path| {
        let in_llvm = versions.iter().flat_map(|version| {
            let lib = root.join(format!("usr/lib/llvm-{version}/lib"));
            [lib.join("libomp.so.5"), lib.join(format!("libomp-{version}.so.5"))]
        });
        in_llvm.chain([root.join("usr/lib/x86_64-linux-gnu/libomp.so.5")]).find(|path| path.exists())
    };
    if let Some(installed) = in_tree(Path::new("/")) {
        return Some(installed);
    }
    let script = format!(
        "for version in {}; do apt-get download -q libomp5-$version && break; done && dpkg -x libomp5-*_*.deb .",
        versions.join(" ")
    );
    let done = Command::new("sh").args(["-c", &script]).current_dir(folder).output().ok()?;
    done.status.success().then(|| in_tree(folder)).flatten()
}

/// A program of gcc's OpenMP, with LLVM's run time before its own: nothing in it knows of us.
#[test]
fn phases_of_an_openmp_program_are_told_by_the_tool() {
    let bench = Bench::new("phases-ompt", "8");
    let folder = bench.program.parent().expect("its folder");
    let Some(libomp) = libomp(folder) else {
        return skip(Need::Libomp, "LLVM's OpenMP is neither here nor to be had from Debian");
    };
    let program = folder.join("regions");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-o"]).arg(&program);
    compiler.arg(root().join("tests/native/programs/regions.c"));
    run(&mut compiler, Duration::from_secs(60)).expect_success();
    let tool = format!("OMP_TOOL_LIBRARIES={}", dist().join("lib/libtutti_ompt.so").display());
    let preload = format!("LD_PRELOAD={}", libomp.display());
    let times = |jobs: usize, with: &str| {
        let program = program.to_str().expect("a path in UTF-8");
        let words = ["run", "--phases", "-n", "1", "env", with, &preload, "OMP_NUM_THREADS=2", program];
        let words = [&words, FINE.as_slice()].concat();
        let jobs: Vec<_> = (0..jobs).map(|_| bench.cluster.start(&words)).collect();
        jobs.into_iter().map(finished).fold(0.0, f64::max)
    };
    // One region at a time is 2,000 ms for all; without the tool nobody waits for anybody. Others may keep
    // the machine busy for a while.
    let seen: Vec<_> = (0..3).map(|_| (times(4, &tool), times(4, "TOOL=none"))).collect();
    assert!(seen.iter().all(|(four, _)| *four >= 1900.0), "{seen:.0?} ms");
    assert!(seen.iter().any(|(four, without)| *four > 1.4 * without), "{seen:.0?} ms");
}

/// Parts of `loaded.c`, each with a run time of its own.
struct Loaded {
    bench: Bench,
    program: PathBuf,
    /// Two parts with LLVM's run time, two copies of it that know nothing of each other.
    llvm: [PathBuf; 2],
    gcc: PathBuf,
}

impl Loaded {
    /// None, with a line, without LLVM's run time.
    #[track_caller]
    fn new(name: &str, slots: &str) -> Option<Self> {
        let bench = Bench::new(name, slots);
        let folder = bench.program.parent().expect("its folder").to_owned();
        let Some(libomp) = libomp(&folder) else {
            skip(Need::Libomp, "LLVM's OpenMP is neither here nor to be had from Debian");
            return None;
        };
        let sources = root().join("tests/native/programs");
        let compile = |output: &Path, words: &[&str]| {
            let mut compiler = Command::new("cc");
            compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(output).args(words);
            run(compiler.current_dir(&sources), Duration::from_secs(60)).expect_success();
        };
        let program = folder.join("loaded");
        compile(&program, &["loaded.c", "-ldl"]);
        let gcc = folder.join("part-gcc.so");
        compile(&gcc, &["-fPIC", "-shared", "-fopenmp", "loaded_part.c"]);
        let object = folder.join("part.o");
        compile(&object, &["-fPIC", "-c", "-fopenmp", "loaded_part.c"]);
        let bytes = std::fs::read(libomp).expect("the library");
        let llvm = ["libomp", "libomq"].map(|name| {
            // The loader takes libraries of the same name for one.
            let (old, new) = (b"libomp.so.5", format!("{name}.so.5"));
            let mut renamed = bytes.clone();
            for at in 0..renamed.len() - old.len() {
                if renamed[at..].starts_with(old) {
                    renamed[at..at + old.len()].copy_from_slice(new.as_bytes());
                }
            }
            let library = folder.join(new);
            std::fs::write(&library, renamed).expect("a copy");
            let part = folder.join(format!("part-{name}.so"));
            let [library, object] = [&library, &object].map(|path| path.to_str().expect("a path in UTF-8"));
            let search = format!("-Wl,-rpath,{}", folder.display());
            compile(&part, &["-shared", object, library, &search]);
            part
        });
        Some(Loaded { bench, program, llvm, gcc })
    }

    /// Starts jobs of these parts, 0.27 ms serial and 0.5 ms for each part, with so many threads.
    #[track_caller]
    fn start(&self, rounds: &str, threads: u32, parts: &[&Path]) -> Running {
        let tool = format!("OMP_TOOL_LIBRARIES={}", dist().join("lib/libtutti_ompt.so").display());
        let threads = format!("OMP_NUM_THREADS={threads}");
        let program = self.program.to_str().expect("a path in UTF-8");
        let parts = parts.iter().map(|part| part.to_str().expect("a path in UTF-8"));
        let before = ["run", "--phases", "-n", "1", "env", &tool, &threads, "KMP_DUPLICATE_LIB_OK=TRUE"];
        let words = [&before, [program, rounds, "270", "500"].as_slice()].concat();
        self.bench.cluster.start(&words.into_iter().chain(parts).collect::<Vec<_>>())
    }

    /// Four at once: the longest time of a job in ms, and in how many rounds the threads of each part were to
    /// sleep at once.
    #[track_caller]
    fn four(&self, threads: u32, parts: &[&Path]) -> (f64, Vec<Vec<u32>>) {
        let jobs: Vec<_> = (0..4).map(|_| self.start("1000", threads, parts)).collect();
        let (mut longest, mut asleep) = (0.0_f64, Vec::new());
        for job in jobs {
            let (status, errors, lines) = job.end_with_output();
            assert_eq!((status, errors.as_str()), (0, ""), "{lines:?}");
            longest = longest.max(time(&lines));
            asleep.push(rounds_asleep(&lines));
        }
        (longest, asleep)
    }
}

/// Of each part.
fn rounds_asleep(lines: &[String]) -> Vec<u32> {
    let parts = lines.iter().filter_map(|line| line.strip_prefix("part ")?.split(' ').nth(1)?.parse().ok());
    parts.collect()
}

/// As Python does it: nobody finds the run time's functions but by its own handle.
#[test]
fn phases_of_a_run_time_with_local_scope_are_seen_and_its_threads_sleep() {
    let Some(loaded) = Loaded::new("phases-local", "8") else { return };
    let (longest, asleep) = loaded.four(2, &[&loaded.llvm[0]]);
    assert!(longest >= 1900.0, "one region at a time is 2,000 ms for all: {longest:.0}");
    assert!(asleep.iter().all(|parts| parts[0] >= 100), "rounds asleep beside others: {asleep:?}");
    // Alone they wait as the run time likes.
    let (status, _, lines) = loaded.start("20", 2, &[&loaded.llvm[0]]).end_with_output();
    assert_eq!((status, rounds_asleep(&lines)), (0, vec![0]), "{lines:?}");
}

#[test]
fn phases_of_two_llvm_run_times_in_a_process_are_seen_and_both_sleep() {
    let Some(loaded) = Loaded::new("phases-two", "8") else { return };
    let [one, two] = &loaded.llvm;
    let (longest, asleep) = loaded.four(2, &[one, two]);
    assert!(longest >= 3800.0, "one region at a time is 4,000 ms for all: {longest:.0}");
    let both = |parts: &Vec<u32>| parts.len() == 2 && parts.iter().all(|rounds| *rounds >= 100);
    assert!(asleep.iter().all(both), "rounds asleep beside others: {asleep:?}");
}

/// gcc's says nothing, and is in nobody's way; LLVM's is told all the same.
#[test]
fn phases_of_llvms_run_time_beside_gccs_are_seen() {
    let Some(loaded) = Loaded::new("phases-mixed", "8") else { return };
    let (longest, asleep) = loaded.four(2, &[&loaded.gcc, &loaded.llvm[0]]);
    assert!(longest >= 1900.0, "one region of LLVM's at a time is 2,000 ms for all: {longest:.0}");
    assert!(asleep.iter().all(|parts| parts[0] == 0 && parts[1] >= 100), "{asleep:?}");
}

/// A part has the slots or not, however many threads it runs on them: the others go on, and so does it.
#[test]
fn phases_with_more_threads_than_slots_keep_to_their_turns() {
    let Some(loaded) = Loaded::new("phases-threads", "4") else { return };
    let many = loaded.start("1000", 24, &[&loaded.llvm[0]]);
    let others: Vec<_> = (0..2).map(|_| loaded.bench.start("--phases", &FINE)).collect();
    let others = others.into_iter().map(finished).fold(0.0, f64::max);
    let took = finished(many);
    assert!(took.max(others) >= 1400.0, "one phase at a time is 1,500 ms: {took:.0}, {others:.0}");
}

#[test]
fn phases_that_cannot_be_shared_are_refused_in_one_line() {
    let bench = Bench::new("phases-refused", "2");
    let program = bench.program.to_str().expect("a path in UTF-8");
    for (words, why) in [
        (vec!["-n", "3"], "--phases gives a node of 2 slots 2 ranks at most, not 3"),
        (vec!["--exclusive"], "--phases is for jobs that take turns: not with --exclusive or --no-gang"),
    ] {
        let words = [vec!["run", "--phases"], words, vec![program, "1", "0", "0"]].concat();
        let ran = bench.cluster.tutti(&words);
        assert!(ran.code() != 0 && ran.stderr.contains(why) && ran.stderr.lines().count() == 1, "{ran}");
    }
    let ran = bench.cluster.tutti(&["run", "--phases=often", program]);
    assert!(ran.code() != 0 && ran.stderr.contains("time, shared, hints or hints:US"), "{ran}");
    let two = Cluster::up("phases-wide", 2, &[]);
    let ran = two.tutti(&["run", "-N", "2", "-n", "2", "--phases", program, "1", "0", "0"]);
    let why = "--phases is for jobs with all ranks on one node: this one needs 2";
    assert!(ran.code() != 0 && ran.stderr.contains(why), "{ran}");
}
