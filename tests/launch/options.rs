//! Options that change what ranks see.

use tutti_tests::Scratch;

use crate::harness::mpiexec;

fn sorted(stdout: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn mpmd_programs_make_one_job() {
    let ran = mpiexec(&[
        "-n",
        "2",
        "sh",
        "-c",
        "echo a $TUTTI_RANK $TUTTI_SIZE",
        ":",
        "-n",
        "1",
        "sh",
        "-c",
        "echo b $TUTTI_RANK",
    ])
    .expect_success();
    assert_eq!(sorted(&ran.stdout), ["a 0 3", "a 1 3", "b 2"]);
}

/// `mpiexec -configfile`, as MPI has it, and Open MPI's `--app`.
#[test]
fn options_of_programs_are_read_from_a_file() {
    let scratch = Scratch::new("configfile");
    let file = scratch.path().join("programs");
    let text = "# a master and its workers\n-genv WORD said\n-n 1 sh -c 'echo master $WORD $TUTTI_RANK $TUTTI_SIZE'\n\n\
                -n 2 \\\n    sh -c 'echo worker $WORD'\n";
    std::fs::write(&file, text).expect("a file");
    let name = file.to_str().expect("UTF-8");
    for option in ["-configfile", "--configfile", "--app"] {
        let ran = mpiexec(&[option, name]).expect_success();
        assert_eq!(sorted(&ran.stdout), ["master said 0 3", "worker said", "worker said"], "{option}: {ran}");
    }
    let ran = mpiexec(&["-l", &format!("--configfile={name}")]).expect_success();
    assert!(ran.stdout.contains("[0] master said 0 3\n"), "{ran}");
    for words in
        [&["-configfile", "/no/such"][..], &["-configfile", name, "true"], &["true", ":", "--app", name]]
    {
        let ran = mpiexec(words);
        assert_eq!((ran.code(), ran.stderr.lines().count(), ran.stdout.as_str()), (2, 1, ""), "{ran}");
    }
}

#[test]
fn environment_is_the_callers_with_changes() {
    let show = ["sh", "-c", "echo \"$A,$B,$TUTTI_TEST_MARK\""];
    let with = |options: &[&str]| {
        let ran = mpiexec(&[options, &["-n", "1"], &show].concat()).expect_success();
        ran.stdout.trim_end().to_owned()
    };
    assert!(with(&["-x", "A=1", "-genv", "B", "2"]).starts_with("1,2,"));
    assert!(with(&["-env", "A", "1 2", "-env", "A", "3"]).starts_with("3,,"));
    let mark = with(&[]).split_off(2);
    assert!(!mark.is_empty());
    assert_eq!(with(&["-genvnone"]), ",,");
    assert!(with(&["-genvlist", "TUTTI_TEST_MARK"]).len() > 2);
}

#[test]
fn working_directory_is_the_callers_or_given() {
    let here = std::env::current_dir().expect("a folder");
    let ran = mpiexec(&["-n", "1", "pwd"]).expect_success();
    assert_eq!(ran.stdout.trim_end(), here.to_str().expect("UTF-8"));
    for option in ["-wdir", "-wd", "--wdir", "-cwd"] {
        let ran = mpiexec(&[option, "/usr", "-n", "1", "pwd"]).expect_success();
        assert_eq!(ran.stdout, "/usr\n", "{option}");
    }
}

#[test]
fn binding_stays_within_the_callers_cores() {
    let show = "echo $(grep Cpus_allowed_list /proc/self/status | cut -f2)";
    let cores = std::thread::available_parallelism().expect("cores").get();
    let of = |options: &[&str], ranks: &str| {
        mpiexec(&[options, &["-n", ranks, "sh", "-c", show]].concat()).expect_success().stdout
    };
    let all = of(&["--bind-to", "none"], "1");
    assert_eq!(sorted(&of(&["-bind-to", "none"], "2")), [all.trim(), all.trim()]);
    if cores >= 2 {
        let bound = of(&[], "2");
        let lines = sorted(&bound);
        assert_ne!(lines[0], lines[1], "two ranks on two cores do not share one");
        let one = of(&["--bind", "core"], "1");
        assert_ne!(one, all);
        let ran = mpiexec(&["--report-bindings", "-n", "2", "true"]).expect_success();
        assert!(ran.stderr.contains("rank 0 is bound to cores"), "{ran}");
    }
}

#[test]
fn options_of_other_launchers_are_reported_once() {
    let ran = mpiexec(&["--mca", "btl", "self", "-iface", "lo", "--allow-run-as-root", "-n", "1", "true"]);
    let ran = ran.expect_success();
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    assert!(ran.stderr.contains("--mca, -iface"), "{ran}");
    let ran = mpiexec(&["--mca", "btl", "self", "-q", "-n", "1", "true"]).expect_success();
    assert_eq!(ran.stderr, "");
}

#[test]
fn search_path_is_searched_before_path() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("search-path");
    let script = scratch.path().join("true");
    std::fs::write(&script, "#!/bin/sh\necho mine\n").expect("a file");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("its mode");
    let ran = mpiexec(&["--path", scratch.path().to_str().expect("UTF-8"), "-n", "1", "true"]);
    assert_eq!(ran.expect_success().stdout, "mine\n");
}

#[test]
fn ranks_per_node_and_hosts_give_the_number_of_ranks() {
    for (words, ranks) in [
        (&["-N", "3"][..], 3),
        (&["-ppn", "2", "--virtual-nodes", "2"], 4),
        (&["--map-by", "ppr:3:node:OVERSUBSCRIBE"], 3),
        (&["-host", "localhost:3,127.0.0.1:2"], 5),
        (&["-host", "localhost:3", "-n", "2"], 2),
    ] {
        let ran = mpiexec(&[words, &["echo", "x"]].concat()).expect_success();
        assert_eq!(ran.stdout, "x\n".repeat(ranks), "{words:?}");
    }
    mpiexec(&["--map-by", "node", "--rank-by", "node", "-n", "2", "true"]).expect_success();
    let ran = mpiexec(&["--map-by", "node", "--virtual-nodes", "2", "-n", "2", "true"]);
    assert!(ran.code() == 2 && ran.stderr.starts_with("mpiexec: --map-by node is for one node"), "{ran}");
}

/// A batch system's allocation of this node alone, and the names and addresses that a node has.
#[test]
fn hosts_of_this_machine_are_it_and_say_how_many_ranks() {
    let scratch = Scratch::new("own-hosts");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let file = |name: &str, text: &str| {
        let file = scratch.path().join(name);
        std::fs::write(&file, text).expect("a file");
        file.to_str().expect("UTF-8").to_owned()
    };
    let lines = file("lines", &format!("{name}\n{name}\n{name}\n"));
    let engine = file("engine", &format!("{name} 3 all.q@{name} <NULL>\n"));
    let run = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = tutti_tests::program("mpiexec");
        command.args(words).args(["echo", "x"]).envs(variables.iter().copied());
        tutti_tests::run(&mut command, crate::harness::LIMIT)
    };
    let slurm =
        |more: &'static [(&'static str, &'static str)]| [more, &[("SLURM_JOB_NODELIST", "this")]].concat();
    for (words, variables) in [
        (&["-host", "[::1]:3"][..], vec![]),
        (&["-host", "127.0.0.2:3"], vec![]),
        (&["-host", "localhost.localdomain,localhost:2", "-n", "3"], vec![]),
        (&["-host", &format!("{name},{name},{name}")], vec![]),
        (&["-f", &lines], vec![]),
        (&[], vec![("SLURM_NODELIST", &*name), ("SLURM_TASKS_PER_NODE", "3")]),
        (&[], slurm(&[("SLURMD_NODENAME", "this"), ("SLURM_NTASKS", "3")])),
        (&[], vec![("PBS_NODEFILE", &*lines)]),
        (&[], vec![("PE_HOSTFILE", &*engine)]),
        (&[], vec![("LSB_MCPU_HOSTS", "localhost 3")]),
        (&["-host", "localhost:1", "echo", "x", ":", "-host", "127.0.0.1:2"], vec![]),
    ] {
        let ran = run(words, &variables).expect_success();
        assert_eq!(ran.stdout, "x\n".repeat(3), "{words:?} {variables:?}");
    }
    for wrong in ["localhost:many", "localhost:-1", "localhost:2:3", "localhost:0", "[::1"] {
        let ran = run(&["-host", wrong], &[]);
        let line = format!(
            "mpiexec: -host is given {wrong:?}, expected NAME or NAME:N, where N is a whole number above 0\n"
        );
        assert_eq!((ran.code(), ran.stderr), (2, line));
    }
}

#[test]
fn verbose_prints_which_ranks_start_where() {
    let ran = mpiexec(&["-v", "-n", "2", "true"]).expect_success();
    for rank in 0..2 {
        assert!(ran.stderr.contains(&format!("mpiexec: rank {rank} is pid ")), "{ran}");
    }
}

#[test]
fn command_names_select_the_command() {
    for (name, arguments) in [("mpiexec", &[][..]), ("mpirun", &[]), ("tutti", &["run"])] {
        let run = |more: &[&str]| {
            let mut command = tutti_tests::program(name);
            tutti_tests::run(command.args(arguments).args(more), crate::harness::LIMIT)
        };
        assert_eq!(run(&["-n", "1", "echo", "x"]).expect_success().stdout, "x\n");
        assert!(run(&["--help"]).expect_success().stdout.contains("usage:"));
        assert!(run(&["--version"]).expect_success().stdout.contains("Tutti"));
        let shown = [&[name], arguments].concat().join(" ");
        assert!(run(&["-n", "0", "x"]).stderr.starts_with(&format!("{shown}: ")), "{shown}");
    }
}

#[test]
fn unknown_command_is_refused_in_one_line() {
    let ran = tutti_tests::run(tutti_tests::program("tutti").arg("dance"), crate::harness::LIMIT);
    assert_eq!(ran.code(), 2, "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
}
