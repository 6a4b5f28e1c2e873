//! Jobs whose serial phases run side by side while one has the parallel slots (`--phases`). Computing is
//! replaced by sleeping, so two cores stand for eight.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, dist, root, run};

use crate::Cluster;
use crate::harness::{Running, await_that};

/// 0.27 ms serial, 0.5 ms parallel.
const FINE: [&str; 3] = ["1000", "270", "500"];

/// Counts of jobs about each other (`tests/native/programs/together.h`), in sum. They hold on a busy
/// machine; times do not.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Regions begun.
    regions: u64,
    /// Regions at whose beginning another job was in one, for less than a lease: longer ones may be held.
    met: u64,
    /// Regions in which another job ended a serial phase.
    beside: u64,
    /// Regions begun without the slots, since the wait was over or the slots were just taken.
    ungranted: u64,
    /// Regions announced to the daemon, which are those begun while others share the slots.
    announced: u64,
    /// Jobs that have announced nearly all of their regions.
    whole: u64,
}

impl Counts {
    /// Reads what the program says in its lines.
    #[track_caller]
    fn of(lines: &[String]) -> Self {
        let line = lines.iter().find_map(|line| line.strip_prefix("together: "));
        let line = line.unwrap_or_else(|| panic!("the program says what it counts: {lines:?}"));
        let counts: Vec<u64> = line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let [regions, met, beside, ungranted] = counts[..] else { panic!("{line}") };
        let page = lines.iter().find_map(|line| line.strip_prefix("page: ")?.strip_suffix(" requests"));
        let announced = page.and_then(|page| page.rsplit(' ').next()?.parse().ok()).unwrap_or(0);
        Counts { regions, met, beside, ungranted, announced, whole: u64::from(announced * 10 >= regions * 9) }
    }

    fn plus(self, other: Self) -> Self {
        Counts {
            regions: self.regions + other.regions,
            met: self.met + other.met,
            beside: self.beside + other.beside,
            ungranted: self.ungranted + other.ungranted,
            announced: self.announced + other.announced,
            whole: self.whole + other.whole,
        }
    }

    /// Sums up these jobs, which have to end well.
    #[track_caller]
    fn of_all(jobs: Vec<Running>) -> Self {
        let counts = jobs.into_iter().map(|job| Counts::of(&lines_of(job)));
        let sum = counts.fold(Counts::default(), Counts::plus);
        println!("{sum:?}");
        sum
    }

    /// Checks that regions took turns: far fewer met others than where no job waits for another. A few do all
    /// the same: a process may begin a region while the slots are being taken.
    #[track_caller]
    fn assert_took_turns(self, free: Self) {
        assert!(free.met * 10 > free.regions, "regions that wait for nobody meet others: {free:?}");
        assert!(self.met * free.regions * 2 < free.met * self.regions, "in turns {self:?}, freely {free:?}");
    }

    /// Checks that the tool has announced the regions, which then had the slots. The last of the jobs has no
    /// others beside it, but those before it have. `free` are jobs without the tool.
    #[track_caller]
    fn assert_announced(self, free: Self) {
        assert!(self.whole > 0, "no job has announced its regions: {self:?}");
        assert!(free.announced == 0 && free.ungranted * 2 > free.regions, "without the tool: {free:?}");
        self.assert_granted();
    }

    /// Checks that no job was in the way of these regions for so long that they began without the slots.
    #[track_caller]
    fn assert_granted(self) {
        assert!(self.ungranted * 2 < self.regions, "most regions wait in vain: {self:?}");
    }
}

/// A file in which jobs count what they see of each other.
struct Together(String);

impl Together {
    /// File for so many jobs at once, which begin when all are there.
    fn new(bench: &Bench, jobs: u32) -> Self {
        static FILES: AtomicU32 = AtomicU32::new(0);
        let name = format!("together-{}", FILES.fetch_add(1, Ordering::Relaxed));
        Together(format!("TEST_TOGETHER={}:{jobs}", bench.program.with_file_name(name).display()))
    }
}

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

    /// A program of gcc's OpenMP in which nothing knows of us.
    #[track_caller]
    fn regions(&self) -> PathBuf {
        let program = self.program.with_file_name("regions");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-o"]).arg(&program);
        compiler.arg(root().join("tests/native/programs/regions.c"));
        run(&mut compiler, Duration::from_secs(60)).expect_success();
        program
    }

    /// Counts of four jobs of it at once, with these variables.
    #[track_caller]
    fn four_of(&self, program: &Path, with: [&str; 2]) -> Counts {
        let (program, together) = (program.to_str().expect("a path in UTF-8"), Together::new(self, 4));
        let before =
            ["run", "--phases", "-n", "1", "env", &together.0, with[0], with[1], "OMP_NUM_THREADS=2"];
        let words = [&before, [program].as_slice(), &FINE].concat();
        Counts::of_all((0..4).map(|_| self.cluster.start(&words)).collect())
    }

    fn words<'a>(&'a self, options: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
        let program = self.program.to_str().expect("a path in UTF-8");
        [&["run"], options, &["-n", "1", program], arguments].concat()
    }

    /// Starts a job of several that count what they see of each other.
    #[track_caller]
    fn start_together(&self, together: &Together, policy: &str, arguments: &[&str]) -> Running {
        let program = self.program.to_str().expect("a path in UTF-8");
        let words = ["run", policy, "-n", "1", "env", &together.0, program];
        self.cluster.start(&[&words, arguments].concat())
    }

    /// Starts a job that shares the slots and computes serially for ever: beside it all announce phases.
    #[track_caller]
    fn company(&self) -> Running {
        let company = self.start("--phases", &["1", "1000000000", "0"]);
        await_that("it runs", || self.cluster.job(1).contains("\"running\""));
        company
    }

    /// Starts a job that begins its phases when so many others share the slots.
    #[track_caller]
    fn start_beside(&self, others: u32, arguments: &[&str]) -> Running {
        let (program, others) =
            (self.program.to_str().expect("a path in UTF-8"), format!("TEST_OTHERS={others}"));
        let words = ["run", "--phases", "-n", "1", "env", &others, program];
        self.cluster.start(&[&words, arguments].concat())
    }

    /// Checks that the jobs beside another one are not in its way.
    #[track_caller]
    fn assert_granted_beside(&self, others: u32) {
        Counts::of(&lines_of(self.start_beside(others, &["200", "270", "500"]))).assert_granted();
    }

    /// Runs four jobs at once.
    #[track_caller]
    fn four_together(&self, policy: &str) -> Counts {
        let together = Together::new(self, 4);
        Counts::of_all((0..4).map(|_| self.start_together(&together, policy, &FINE)).collect())
    }

    #[track_caller]
    fn start(&self, policy: &str, arguments: &[&str]) -> Running {
        self.cluster.start(&self.words(&[policy], arguments))
    }
}

/// Lines of a job that has to end well.
#[track_caller]
fn lines_of(job: Running) -> Vec<String> {
    let (status, errors, lines) = job.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""), "{lines:?}");
    let is_through = lines.iter().any(|line| line.starts_with("phases: "));
    assert!(is_through, "the program says that it is through: {lines:?}");
    lines
}

#[track_caller]
fn wait_until_there(path: &Path) {
    std::fs::write(path, "").expect("a file in a scratch folder");
}

// Paper: R10, R14
#[test]
fn r10_r14_serial_phases_run_beside_one_jobs_parallel_phase() {
    let bench = Bench::new("phases-beside", "8");
    let shared = bench.four_together("--phases");
    shared.assert_took_turns(bench.four_together("--no-gang"));
    shared.assert_granted();
    // Beside most regions a serial phase of another job goes on, and ends.
    assert!(shared.beside * 4 > shared.regions, "{shared:?}");
}

// Paper: R12
#[test]
fn r12_alone_a_phase_costs_nothing() {
    let bench = Bench::new("phases-alone", "2");
    let lines = lines_of(bench.start("--phases", &["2000000", "0", "0"]));
    assert!(lines.iter().any(|line| line == "page: 0 rings, 0 requests"), "{lines:?}");
}

// Paper: R15
#[test]
fn r15_three_policies_run_the_same_program() {
    let bench = Bench::new("phases-policies", "4");
    for policy in ["--phases=time", "--phases=shared", "--phases=hints", "--phases=hints:500"] {
        let jobs = [(); 2].map(|()| bench.start(policy, &["100", "270", "500"]));
        jobs.into_iter().for_each(|job| drop(lines_of(job)));
    }
}

#[test]
fn phases_that_never_end_hold_nobody_up() {
    let bench = Bench::new("phases-never", "4");
    let _company = bench.company();
    let mut never = bench.start_beside(1, &["5", "100", "100", "never"]);
    never.await_line("in its phase");
    bench.assert_granted_beside(2);
    let said = "job 2 keeps the parallel slots that others want: it ";
    await_that("the daemon says it", || {
        let log = std::fs::read_to_string(bench.cluster.folder.join("node0.log")).expect("its log");
        log.matches(said).count() == 1
    });
    bench.cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(never.end().0, 137);
}

#[test]
fn phases_of_a_job_that_dies_with_the_slots_are_over() {
    let bench = Bench::new("phases-dies", "4");
    let _company = bench.company();
    for _ in 0..3 {
        let (status, _) = bench.start_beside(1, &["5", "100", "100", "dies"]).end();
        assert_eq!(status, 137);
        bench.assert_granted_beside(1);
    }
}

#[test]
fn phases_of_a_job_that_is_frozen_with_the_slots_hold_nobody_up() {
    let bench = Bench::new("phases-frozen", "4");
    let _company = bench.company();
    let go = bench.program.with_file_name("go");
    let file = go.to_str().expect("a path in UTF-8");
    let mut frozen = bench.start_beside(1, &["5", "100", "100", "waits", file]);
    frozen.await_line("in its phase");
    bench.cluster.tutti(&["suspend", "2"]).expect_success();
    bench.assert_granted_beside(1);
    wait_until_there(&go);
    bench.cluster.tutti(&["resume", "2"]).expect_success();
    lines_of(frozen);
}

#[test]
fn phases_of_a_forked_child_are_none() {
    let bench = Bench::new("phases-forks", "4");
    let _company = bench.company();
    lines_of(bench.start_beside(1, &["20", "100", "100", "forks"]));
    bench.assert_granted_beside(1);
}

#[test]
fn phases_go_on_without_a_daemon() {
    let bench = Bench::new("phases-daemon", "4");
    let program = bench.program.to_str().expect("a path in UTF-8");
    // Each waits for the other before its first phase.
    let words = ["submit", "--phases", "-n", "1", "env", "TEST_OTHERS=1", program, "5000", "270", "500"];
    for _ in 0..2 {
        bench.cluster.tutti(&words).expect_success();
    }
    let is = |job, state: &str| bench.cluster.job(job).contains(state);
    let has_begun = |job| is(job, "\"running\"") || is(job, "\"over\"");
    await_that("they run", || has_begun(1) && has_begun(2));
    bench.cluster.replace(0);
    await_that("they end well", || is(1, "\"status\": 0") && is(2, "\"status\": 0"));
    for job in ["1", "2"] {
        let said = bench.cluster.tutti(&["logs", job]).expect_success().stdout;
        Counts::of(&said.lines().map(str::to_owned).collect::<Vec<_>>()).assert_granted();
    }
}

// Paper: R5
#[test]
fn r5_team_barrier_call_from_outside_the_mask_is_an_error() {
    let bench = Bench::with("team-errors", "team", &[]);
    let ran = bench.cluster.tutti(&bench.words(&[], &["errors"])).expect_success();
    assert_eq!(ran.stdout, "team: ok\n");
}

/// The barrier's words, in a file of the program's: all but the number of those that sleep in it, which
/// members that are inside look at again whenever they are woken.
fn words(file: &Path) -> Vec<u8> {
    std::fs::read(file).expect("the barrier's file")[..28].to_vec()
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
    let suspend = || {
        // First all threads have stopped, and that has been confirmed; then the state is what it is.
        bench.cluster.tutti(&["suspend", "1"]).expect_success();
        await_that("it is suspended", || bench.cluster.job(1).contains("\"suspended\""));
        if let Some(group) = &group {
            await_that("all of it is frozen", || crate::gangs::is_frozen(group));
        }
    };
    for _ in 0..3 {
        suspend();
        assert_eq!(words(&barrier), before);
        bench.cluster.tutti(&["resume", "1"]).expect_success();
        await_that("it runs", || bench.cluster.job(1).contains("\"running\""));
        assert_eq!(words(&barrier)[16..24], before[16..24]);
    }
    // The last one comes while the job stands still: nobody passes.
    suspend();
    wait_until_there(&go);
    assert_eq!(words(&barrier), before);
    bench.cluster.tutti(&["resume", "1"]).expect_success();
    lines_of(job);
    assert_eq!(words(&barrier)[16..24], [0; 8]);
}

/// Two teams on the same cores, frozen every 5 ms wherever they are.
// Paper: R8
#[test]
fn r8_team_barriers_are_exact_under_forced_switches() {
    let more = ["--slots", "2", "--slice", "5", "--force-switch"];
    let bench = Bench::with("team-switches", "team", &more);
    let jobs: Vec<_> = (0..2).map(|_| bench.start("--phases=time", &["rounds", "3", "4000"])).collect();
    jobs.into_iter().for_each(|job| drop(lines_of(job)));
}

/// Formula (1) is 1 / (v / a + 1 - v): of the part v of the time `a` processors make a times as little. On
/// virtual processors: 6 ms of 7 are parallel, the paper's v for half of 8.
// Paper: R17
#[test]
fn r17_measured_speed_up_is_near_the_formula() {
    let bench = Bench::with("team-formula", "team", &["--slots", "8"]);
    // Others may keep the machine busy: then a round takes longer, but for the fastest ones. A barrier costs
    // something, and no sleep is shorter than it is said to be, so nobody is faster than the formula.
    for threads in [1_u32, 2, 4, 8] {
        let (due, mut fastest) = (6.0 / f64::from(threads) + 1.0, f64::INFINITY);
        let words = ["solves", &threads.to_string(), "100", "1000", "6000"];
        await_that(&format!("a round of {threads} threads takes as long as the formula says"), || {
            let lines = lines_of(bench.start("--phases", &words));
            let round =
                lines.iter().find_map(|line| line.strip_prefix("fastest round: ")?.strip_suffix(" ms"));
            fastest = round.and_then(|round| round.parse().ok()).map_or(fastest, |round| fastest.min(round));
            assert!(fastest >= due, "{threads} threads: {fastest} ms, {due} ms by the formula");
            fastest < due / 0.85
        });
        println!("{threads} threads: {fastest:.2} ms, {due:.2} ms by the formula");
    }
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
    let preload = format!("LD_PRELOAD={}", libomp.display());
    // Without the tool nobody waits for anybody.
    let program = bench.regions();
    let four = |tool: &str| bench.four_of(&program, [tool, &preload]);
    four(&Loaded::tool()).assert_announced(four(NO_TOOL));
}

/// The same program with gcc's own run time, which knows no tools: the library is loaded before it.
// Paper: R16
#[test]
fn phases_of_gccs_openmp_are_announced_by_the_library_before_it() {
    let bench = Bench::new("phases-gomp", "8");
    let program = bench.regions();
    let preload = format!("LD_PRELOAD={}", dist().join("lib/libtutti_ompt.so").display());
    let four = |with: &str| bench.four_of(&program, [with, NO_TOOL]);
    four(&preload).assert_announced(four("PRELOAD=none"));
}

/// Variable in place of the tool's.
const NO_TOOL: &str = "TOOL=none";

/// Rounds of a job of `loaded.c`: gcc's threads spin, and are slow where others have the cores.
const ROUNDS: &str = "300";
/// Number of rounds, at least, in the company of other jobs.
const ROUNDS_BESIDE: u32 = 30;

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

    /// Variable by which a run time finds the tool.
    fn tool() -> String {
        format!("OMP_TOOL_LIBRARIES={}", dist().join("lib/libtutti_ompt.so").display())
    }

    /// Starts a job of these parts, 0.27 ms serial and 0.5 ms for each part, with so many threads; `with` are
    /// its policy and two variables.
    #[track_caller]
    fn start(&self, with: [&str; 3], rounds: &str, threads: u32, parts: &[&Path]) -> Running {
        let [policy, tool, together] = with;
        let threads = format!("OMP_NUM_THREADS={threads}");
        let program = self.program.to_str().expect("a path in UTF-8");
        let parts = parts.iter().map(|part| part.to_str().expect("a path in UTF-8"));
        let before = ["run", policy, "-n", "1", "env", tool, together, &threads, "KMP_DUPLICATE_LIB_OK=TRUE"];
        let words = [&before, [program, rounds, "270", "500"].as_slice()].concat();
        self.bench.cluster.start(&words.into_iter().chain(parts).collect::<Vec<_>>())
    }

    /// Runs four at once, with the tool or without: what they count of the regions of LLVM's run time, and in
    /// how many rounds the threads of each part were to sleep at once.
    #[track_caller]
    fn four(&self, tool: &str, parts: &[&Path]) -> (Counts, Vec<Vec<u32>>) {
        let together = Together::new(&self.bench, 4);
        let jobs: Vec<_> =
            (0..4).map(|_| self.start(["--phases", tool, &together.0], ROUNDS, 2, parts)).collect();
        let lines: Vec<_> = jobs.into_iter().map(lines_of).collect();
        let counts = lines.iter().map(|lines| Counts::of(lines)).fold(Counts::default(), Counts::plus);
        println!("{tool}: {counts:?}");
        (counts, lines.iter().map(|lines| rounds_asleep(lines)).collect())
    }

    /// Checks that the regions of four jobs of these parts are announced; gives in how many rounds the
    /// threads of each part were to sleep at once.
    #[track_caller]
    fn four_announce(&self, parts: &[&Path]) -> Vec<Vec<u32>> {
        let (in_turns, asleep) = self.four(&Self::tool(), parts);
        in_turns.assert_announced(self.four(NO_TOOL, parts).0);
        asleep
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
    // Alone they wait as the run time likes.
    let alone =
        lines_of(loaded.start(["--phases", &Loaded::tool(), "ALONE=yes"], "20", 2, &[&loaded.llvm[0]]));
    assert_eq!(rounds_asleep(&alone), [0], "{alone:?}");
    let asleep = loaded.four_announce(&[&loaded.llvm[0]]);
    assert!(asleep.iter().all(|parts| parts[0] >= ROUNDS_BESIDE), "rounds asleep beside others: {asleep:?}");
}

#[test]
fn phases_of_two_llvm_run_times_in_a_process_are_seen_and_both_sleep() {
    let Some(loaded) = Loaded::new("phases-two", "8") else { return };
    let [one, two] = &loaded.llvm;
    let asleep = loaded.four_announce(&[one, two]);
    let both = |parts: &Vec<u32>| parts.len() == 2 && parts.iter().all(|rounds| *rounds >= ROUNDS_BESIDE);
    assert!(asleep.iter().all(both), "rounds asleep beside others: {asleep:?}");
}

/// gcc's says nothing, and is in nobody's way; LLVM's is told all the same.
#[test]
fn phases_of_llvms_run_time_beside_gccs_are_seen() {
    let Some(loaded) = Loaded::new("phases-mixed", "8") else { return };
    let asleep = loaded.four_announce(&[&loaded.gcc, &loaded.llvm[0]]);
    assert!(asleep.iter().all(|parts| parts[0] == 0 && parts[1] >= ROUNDS_BESIDE), "{asleep:?}");
}

/// A part has the slots or not, however many threads it runs on them: the others go on, and so does it.
#[test]
fn phases_with_more_threads_than_slots_keep_to_their_turns() {
    let Some(loaded) = Loaded::new("phases-threads", "4") else { return };
    let three = |tool: &str, policy: &str| {
        let together = Together::new(&loaded.bench, 3);
        // So many threads are slow where others have the cores.
        let many = loaded.start([policy, tool, &together.0], "100", 24, &[&loaded.llvm[0]]);
        let other = ["300", "270", "500"];
        let others = [(); 2].map(|()| loaded.bench.start_together(&together, policy, &other));
        Counts::of_all([many].into_iter().chain(others).collect())
    };
    three(&Loaded::tool(), "--phases").assert_took_turns(three(NO_TOOL, "--no-gang"));
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
