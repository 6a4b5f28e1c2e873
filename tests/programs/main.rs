//! The programs that users copy do what they say, on one rank and on several, also with more ranks than
//! cores.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use tutti_tests::{Ran, Scratch, compile, compile_with, program, run};

const LIMIT: Duration = Duration::from_secs(60);

fn mpiexec(ranks: usize, path: &Path, args: &[&str]) -> Ran {
    let mut mpiexec: Command = program("mpiexec");
    mpiexec.arg("-n").arg(ranks.to_string()).arg(path).args(args);
    run(&mut mpiexec, LIMIT).expect_success()
}

/// The ranks for which every example is run: alone, as many as small machines have cores, more than those.
const RANKS: [usize; 4] = [1, 2, 4, 7];

#[test]
fn hello_prints_once_per_rank() {
    let scratch = Scratch::new("hello");
    let hello = compile("examples/hello.c", scratch.path());
    for ranks in RANKS {
        let ran = mpiexec(ranks, &hello, &[]);
        for rank in 0..ranks {
            let start = format!("rank {rank} of {ranks} on ");
            assert_eq!(ran.stdout.lines().filter(|line| line.starts_with(&start)).count(), 1, "{ran}");
        }
        assert_eq!(ran.stdout.lines().count(), ranks + 1, "{ran}");
    }
}

#[test]
fn ring_token_visits_every_rank() {
    let scratch = Scratch::new("ring");
    let ring = compile("examples/ring.c", scratch.path());
    for ranks in RANKS {
        let ran = mpiexec(ranks, &ring, &["200"]);
        let token = 200 * ranks * (ranks - 1) / 2;
        assert!(ran.stdout.contains(&format!("token {token}, as expected")), "{ran}");
    }
}

#[test]
fn pi_is_the_same_on_any_number_of_ranks() {
    let scratch = Scratch::new("pi");
    let pi = compile("examples/pi.c", scratch.path());
    for ranks in RANKS {
        let ran = mpiexec(ranks, &pi, &["100000"]);
        assert!(ran.stdout.contains("pi is about 3.14159265"), "{ran}");
    }
}

#[test]
fn explore_answers_each_question_before_the_next_is_asked() {
    let scratch = Scratch::new("explore");
    let explore = compile("examples/explore.c", scratch.path());
    let mut command = program("mpiexec");
    command.args(["--timeout", "60", "-n", "3"]).arg(explore);
    let mut mpiexec = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mpiexec starts");
    let (mut asked, answered) = (mpiexec.stdin.take().expect("piped"), mpiexec.stdout.take().expect("piped"));
    let (to_us, answers) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        BufReader::new(answered).lines().map_while(Result::ok).all(|line| to_us.send(line).is_ok())
    });
    // Asked one by one: the next question is not there before the answer is.
    for (question, answer) in [
        ("0 0 0.1", "1.0000 of it; 3 ranks, "),
        ("what?", "a question is X Y WIDTH"),
        ("5 5 1", "0.0000 of it; 3 ranks, "),
    ] {
        writeln!(asked, "{question}").expect("it reads");
        let line = answers.recv_timeout(LIMIT).expect("an answer in time");
        assert!(line.starts_with(answer), "{question}: {line}");
    }
    drop(asked);
    assert!(mpiexec.wait().expect("it ends").success());
    reader.join().expect("no panic");
}

#[test]
fn heat_plate_is_the_same_on_any_number_of_ranks() {
    let scratch = Scratch::new("halo");
    let halo = compile("examples/halo.c", scratch.path());
    // The same sum in another order may differ in the last places, which are not printed.
    let mean = |ranks| {
        let ran = mpiexec(ranks, &halo, &["64", "300"]);
        ran.stdout.split_once("300 steps, mean ").expect(&ran.stdout).1.split(',').next().map(str::to_owned)
    };
    let alone = mean(1);
    for ranks in &RANKS[1..] {
        assert_eq!(mean(*ranks), alone, "{ranks} ranks");
    }
}

/// An example of one-sided communication verifies its own result, on one node and on two.
#[track_caller]
fn one_sided(name: &str, wrapper: &str, args: &[&str]) {
    let scratch = Scratch::new(name);
    let path = compile_with(wrapper, &format!("examples/{name}.c"), scratch.path());
    for (ranks, nodes) in [("1", "1"), ("2", "1"), ("5", "1"), ("2", "2"), ("3", "2")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks, "--virtual-nodes", nodes]).arg(&path).args(args);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("verified\n"), "{ranks} ranks on {nodes} nodes: {ran}");
    }
}

#[test]
fn halo_by_puts_is_that_of_one_pe() {
    one_sided("halo_put", "oshcc", &["32", "31"]);
}

#[test]
fn hash_table_of_all_pes_counts_every_key() {
    one_sided("hashtable", "oshcc", &["60", "1"]);
}

#[test]
fn work_queue_gives_every_task_to_one_rank() {
    one_sided("workqueue", "mpicc", &["100", "100"]);
}

#[test]
fn random_access_loses_no_update() {
    one_sided("random_access", "oshcc", &["8", "300"]);
}

#[test]
fn graph_search_finds_the_levels_of_one_pe() {
    one_sided("search", "oshcc", &["300", "4"]);
}

// Paper: S22
#[test]
fn queens_end_when_no_task_is_left_anywhere() {
    one_sided("queens", "mpicc", &["8"]);
}

#[test]
fn spawn_workers_add_up_what_the_master_gives() {
    let scratch = Scratch::new("spawn");
    let spawn = compile("examples/spawn.c", scratch.path());
    for ranks in [1, 2] {
        let ran = mpiexec(ranks, &spawn, &["3"]);
        assert_eq!(ran.stdout, "3 workers: the sum is 500000500000, as expected\n", "{ran}");
    }
}

#[test]
fn ports_server_talks_with_each_client() {
    let scratch = Scratch::new("ports");
    let ports = compile("examples/ports.c", scratch.path());
    let launch = |ranks: &str, words: &[&str]| {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks]).arg(&ports).args(words).env("TUTTI_DIR", scratch.path());
        run(&mut mpiexec, LIMIT).expect_success().stdout
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(|| launch("3", &["serve", "sums", "2"]));
        for ranks in ["1", "2"] {
            let client = launch(ranks, &["ask", "sums"]);
            assert_eq!(client, "client: the other group has 3 ranks, their sum is 3\n", "{ranks} ranks");
        }
        let served = server.join().expect("it ran");
        let lines = [(1, 0), (2, 1)]
            .map(|(ranks, sum)| format!("server: the other group has {ranks} ranks, their sum is {sum}\n"));
        assert_eq!(served, lines.concat());
    });
}

/// The measuring programs check what they move; here they run for the check, not for the time.
fn measuring(name: &str, runs: &[(usize, &[&str])], cores: Option<&str>) {
    let scratch = Scratch::new(&format!("{name}-{}", cores.unwrap_or("all")));
    let path = compile(&format!("bench/c/{name}.c"), scratch.path());
    for (ranks, args) in runs {
        let mpiexec = program("mpiexec");
        let mut command = match cores {
            None => mpiexec,
            Some(cores) => {
                let mut taskset = Command::new("taskset");
                taskset.args(["-c", cores]).arg(mpiexec.get_program());
                taskset
            }
        };
        command.arg("-n").arg(ranks.to_string()).arg(&path).args(*args).args(["--budget-ms", "1"]);
        let ran = run(&mut command, LIMIT).expect_success();
        assert!(ran.stdout.lines().any(|line| line.starts_with(name)), "{ran}");
    }
}

#[test]
fn ring_data_arrives_unchanged() {
    let every_size = "0,1,4,56,57,64,255,1024,4095,4096,16384,16385,65536,262144,1048577";
    measuring(
        "rtt",
        &[
            (2, &["--sizes", every_size]),
            (2, &["--sizes", every_size, "--any-source"]),
            (2, &["--sizes", "65536,1048576", "--rotate"]),
            (5, &["--sizes", "4,65536"]),
        ],
        None,
    );
}

#[test]
fn message_windows_arrive_in_order() {
    let runs: &[(usize, &[&str])] = &[
        (2, &["--window", "64"]),
        (2, &["--window", "1024"]),
        (2, &["--window", "1024", "--unexpected"]),
        (8, &[]),
    ];
    measuring("rate", runs, None);
}

#[test]
fn sendrecv_large_crossing_messages_do_not_deadlock() {
    let sizes = "65536,1048576,16777216";
    measuring("cross", &[(1, &["--sizes", sizes]), (2, &["--sizes", sizes]), (8, &["--sizes", sizes])], None);
}

#[test]
fn sendrecv_large_crossing_messages_on_one_core_do_not_deadlock() {
    measuring("cross", &[(2, &[]), (8, &["--sizes", "65536,1048576"])], Some("0"));
}

#[test]
fn collectives_work_on_world_dup_and_split() {
    let runs: &[(usize, &[&str])] = &[
        (1, &["--sizes", "8,1024,65536"]),
        (2, &["--sizes", "8,1024,65536,1048576"]),
        (3, &["--sizes", "8,65536"]),
        (8, &["--sizes", "1024,65536"]),
    ];
    measuring("coll", runs, None);
}

/// A kernel of this folder verifies its own result on each of these numbers of ranks; gives what each run
/// printed.
fn kernel(name: &str, ranks: &[usize]) -> Vec<String> {
    let scratch = Scratch::new(name);
    let path = compile(&format!("tests/programs/kernels/{name}.c"), scratch.path());
    let one = |&ranks: &usize| {
        let ran = mpiexec(ranks, &path, &[]);
        assert!(ran.stdout.contains("verified"), "on {ranks} ranks: {ran}");
        ran.stdout
    };
    ranks.iter().map(one).collect()
}

/// Round trips and one-way windows over the sizes of every way that messages take, with the data checked.
#[test]
fn kernel_pingpong_carries_every_size() {
    let sizes = "0,8,64,512,2048,2049,16384,16385,262144,4194304";
    measuring("rtt", &[(2, &["--sizes", sizes])], None);
    measuring("rate", &[(2, &["--window", "64"])], None);
    measuring("cross", &[(2, &["--sizes", "65536,4194304"])], None);
}

// Paper: M18
#[test]
fn kernel_ep_verifies() {
    let printed = kernel("ep", &[1, 2, 4, 8]);
    assert!(printed.iter().all(|counts| *counts == printed[0]), "{printed:?}");
}

// Paper: M18
#[test]
fn kernel_cg_verifies() {
    kernel("cg", &[1, 2, 4, 8]);
}

// Paper: M18
#[test]
fn kernel_is_verifies() {
    kernel("is", &[1, 2, 4, 8]);
}

#[test]
fn kernel_ft_verifies() {
    kernel("ft", &[1, 2, 4, 8]);
}

#[test]
fn kernel_heat_verifies() {
    kernel("plate", &[1, 4, 9]);
}

/// Programs of `make bench`, with its options: one that does not compile leaves out a whole MPI.
#[test]
fn bench_programs_compile_without_a_warning() {
    let scratch = Scratch::new("bench-programs");
    let folder = tutti_tests::root().join("bench/c");
    let mut compiled = 0;
    for entry in std::fs::read_dir(&folder).expect("the programs are there") {
        let source = entry.expect("an entry").path();
        let name = source.file_name().and_then(|name| name.to_str()).expect("a name");
        let (wrapper, more): (&str, &[&str]) = match name {
            "waiting.c" => ("oshcc", &["-ltutti", "-lpthread"]),
            "shmem_calls.c" => ("oshcc", &[]),
            "handover.c" => ("tutticc", &[]),
            "dse.c" | "native.c" | "pages.c" => ("mpicc", &["-ltutti"]),
            "cg.c" => ("mpicc", &["-ltutti", "-lm", "-fopenmp"]),
            name if name.ends_with(".c") => ("mpicc", &["-lm", "-fopenmp"]),
            _ => continue,
        };
        let mut compiler = program(wrapper);
        compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]).arg(&folder);
        compiler.arg("-o").arg(scratch.path().join("program")).arg(&source).args(more);
        run(&mut compiler, LIMIT).expect_success();
        compiled += 1;
    }
    assert!(compiled >= 16, "{compiled} programs in {}", folder.display());
}
