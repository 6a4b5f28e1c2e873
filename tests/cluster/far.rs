//! Commands from a host that is no node. The program in place of ssh runs the command here, with another
//! environment, and leaves its pid for whoever cuts the line.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::{Scratch, dist};

use crate::Cluster;
use crate::console::Terminal;
use crate::harness::{LIMIT, RANK, Running, await_that, state_of};

const HOST: &str = "ssh://eva@far";

/// A host that is far from a cluster.
struct Far {
    scratch: Scratch,
}

impl Far {
    fn of(cluster: &Cluster, name: &str) -> Self {
        let far = Far { scratch: Scratch::new(name) };
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = eva@far ] || exit 255\nshift\necho $$ >>{}\n\
             echo 'Welcome to this host'\nexport TUTTI_DIR={} PATH={}:$PATH\nunset TUTTI_AT TUTTI_RSH TUTTI_DAEMON\nexec sh -c \"exec $*\"\n",
            far.pids().display(),
            cluster.socket(0).parent().expect("a folder").display(),
            dist().join("bin").display(),
        );
        std::fs::write(far.program(), script).expect("a file");
        std::fs::set_permissions(far.program(), PermissionsExt::from_mode(0o755)).expect("its mode");
        far
    }

    fn program(&self) -> PathBuf {
        self.scratch.path().join("rsh")
    }

    fn pids(&self) -> PathBuf {
        self.scratch.path().join("pids")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = tutti_tests::program("tutti");
        command.args(["--at", HOST]).args(words).env_remove("TUTTI_DAEMON");
        command.env("TUTTI_RSH", self.program()).env("TUTTI_DIR", self.scratch.path().join("nothing"));
        // Files of jobs are written there.
        command.current_dir(self.scratch.path());
        command
    }

    /// Whether the list of jobs has a word.
    fn lists(&self, word: &str) -> bool {
        tutti_tests::run(&mut self.command(&["ps"]), LIMIT).stdout.contains(word)
    }

    /// Lines that were begun.
    fn lines(&self) -> Vec<Pid> {
        let text = std::fs::read_to_string(self.pids()).unwrap_or_default();
        text.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    /// Processes of `tutti line` that commands from this host have begun.
    fn helpers(&self) -> Vec<Pid> {
        processes_of("line", self.program().as_os_str())
    }

    /// Cuts the line that was begun last.
    fn cut(&self) {
        let line = *self.lines().last().expect("a line was begun");
        kill_process(line, Signal::KILL).expect("the line is there");
    }
}

/// Processes of a command of `tutti` with a variable whose value ends so.
fn processes_of(command: &str, ending: &OsStr) -> Vec<Pid> {
    let is_one = |folder: &Path| {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
        read("cmdline").split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
            && read("environ").split(|byte| *byte == 0).any(|set| set.ends_with(ending.as_encoded_bytes()))
    };
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let found = all.filter(|process| is_one(&process.path()));
    found.filter_map(|process| Pid::from_raw(process.file_name().to_str()?.parse().ok()?)).collect()
}

// Paper: S1
#[test]
fn far_host_submits_watches_and_ends_jobs() {
    let cluster = Cluster::up("cluster-far", 2, &[]);
    let far = Far::of(&cluster, "cluster-far-host");
    let ran = tutti_tests::run(&mut far.command(&["run", "-N", "2", "-n", "2", RANK, "say=here"]), LIMIT);
    assert_eq!((ran.stdout.as_str(), ran.code()), ("here\nhere\n", 0), "{}", ran.stderr);
    let ran = tutti_tests::run(&mut far.command(&["run", "-n", "1", RANK, "exit=7"]), LIMIT);
    assert_eq!(ran.code(), 7, "{}", ran.stderr);
    let ran = tutti_tests::run(&mut far.command(&["submit", "-n", "1", "sleep", "600"]), LIMIT);
    assert_eq!(ran.stdout, "job 3\n", "{}", ran.stderr);
    await_that("the job runs", || far.lists("running"));
    tutti_tests::run(&mut far.command(&["kill", "3"]), LIMIT).expect_success();
    await_that("it has ended", || !far.lists("sleep"));
    let ran = tutti_tests::run(&mut far.command(&["run", "-n", "1", "./no-such-program"]), LIMIT);
    assert_eq!(ran.code(), 1);
    assert!(ran.stderr.starts_with("tutti run: ") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

#[test]
fn far_host_that_the_configuration_names_is_asked() {
    let cluster = Cluster::up("cluster-far-configuration", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-configuration-host");
    let file = far.scratch.path().join("tutti.toml");
    let command = |words: &[&str], text: &str| {
        std::fs::write(&file, text).expect("a file");
        let mut command = tutti_tests::program("tutti");
        command.args(words).env_remove("TUTTI_DAEMON").env_remove("TUTTI_DIR");
        command.env("TUTTI_CONFIG", &file).env("TUTTI_RSH", far.program()).current_dir(far.scratch.path());
        command
    };
    let text = format!("[client]\nat = \"{HOST}\"\n");
    let ran = tutti_tests::run(&mut command(&["run", "-n", "1", RANK, "say=here"], &text), LIMIT);
    assert_eq!((ran.stdout.as_str(), ran.code()), ("here\n", 0), "{}", ran.stderr);
    let lines = far.lines().len();
    assert!(lines > 0);

    // What is about this machine, or has a daemon named, asks no other host.
    let ran = tutti_tests::run(&mut command(&["config", "check"], &text), LIMIT).expect_success();
    assert_eq!((far.lines().len(), ran.stderr.as_str()), (lines, ""));
    let mut named = command(&["ps"], &text);
    tutti_tests::run(named.env("TUTTI_DIR", cluster.socket(0).parent().expect("a folder")), LIMIT)
        .expect_success();
    assert_eq!(far.lines().len(), lines);

    // So do the commands of Slurm.
    let slurm = |words: &[&str], text: &str| {
        let slurm = command(words, text);
        let mut called = Command::new(dist().join("share/tutti/slurm/bin").join(words[0]));
        called.args(&words[1..]).current_dir(far.scratch.path());
        slurm.get_envs().for_each(|(name, value)| match value {
            Some(value) => drop(called.env(name, value)),
            None => drop(called.env_remove(name)),
        });
        tutti_tests::run(&mut called, LIMIT)
    };
    let ran = slurm(&["sinfo", "-h", "-o", "%D %t"], &text);
    assert_eq!((ran.stdout.as_str(), ran.code()), ("1 idle\n", 0), "{}", ran.stderr);
    assert!(far.lines().len() > lines);
    let ran = slurm(&["squeue"], "[client]\nta = \"ssh://x\"\n");
    assert!(ran.code() == 1 && ran.stderr.starts_with("squeue: error: "), "{}", ran.stderr);

    let ran = tutti_tests::run(&mut command(&["ps"], "[client]\nta = \"ssh://x\"\n"), LIMIT);
    let line = format!("tutti: {}:2:1: ta is not a key of [client]; did you mean at?\n", file.display());
    assert_eq!((ran.stderr.as_str(), ran.code()), (line.as_str(), 1));
}

#[test]
fn far_line_that_is_cut_loses_and_doubles_no_output() {
    let cluster = Cluster::up("cluster-far-cut", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-cut-host");
    let go = |cut: usize| far.scratch.path().join(format!("go{cut}"));
    let piece = |cut: usize| {
        format!(
            "seq {} {}; until [ -e {} ]; do sleep 0.02; done",
            cut * 50_000 + 1,
            (cut + 1) * 50_000,
            go(cut).display()
        )
    };
    let script = format!("{}; {}; {}", piece(0), piece(1), piece(2));
    let mut front = Running::start_command(&mut far.command(&["run", "-n", "1", "sh", "-c", &script]));
    for cut in 0..3 {
        // In the middle of a piece of output.
        front.await_line(&(cut * 50_000 + 1).to_string());
        far.cut();
        await_that("the line is made anew", || far.lines().len() > cut + 1);
        std::fs::write(go(cut), "").expect("a file");
    }
    let (status, errors, lines) = front.end_with_output();
    assert_eq!(status, 0, "{errors}");
    assert!(errors.contains("is cut") && errors.contains("is there again"), "{errors}");
    let expected: Vec<String> = (1..=150_000).map(|number| number.to_string()).collect();
    let differs = lines.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert!(lines == expected, "{} lines, the first that differs: {differs:?}", lines.len());
}

/// A command that is killed leaves no process behind, neither while its line holds nor where the host cannot
/// be reached any more.
#[test]
fn far_line_ends_with_its_command_also_where_the_host_is_not_reached() {
    let cluster = Cluster::up("cluster-far-left", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-left-host");
    let unreached = far.scratch.path().join("unreached");
    let far = far.begins_with(&format!("[ ! -e {} ] || exit 255", unreached.display()));
    for is_cut in [false, true] {
        let for_ever = format!("await={}", far.scratch.path().join("never").display());
        let mut run = far.command(&["run", "-n", "1", RANK, "say=on", &for_ever]);
        let mut front = Running::start_command(run.env("TUTTI_LINE_SILENCE", "1"));
        front.await_line("on");
        assert_eq!(far.helpers().len(), 1);
        if is_cut {
            std::fs::write(&unreached, "").expect("a file");
            far.cut();
        }
        front.signal(Signal::KILL);
        await_that("nothing has the line", || far.helpers().is_empty());
        if is_cut {
            // Nothing has told the host: the job goes on there, and its session waits for another line.
            cluster.tutti(&["kill", "2"]).expect_success();
            let sessions = processes_of("relay", cluster.folder.as_os_str());
            assert_eq!(sessions.len(), 1);
            kill_process(sessions[0], Signal::KILL).expect("it waits");
        }
        front.end();
        // The next round counts its own.
        await_that("no session is left", || processes_of("relay", cluster.folder.as_os_str()).is_empty());
    }
}

/// Processes that carry a line, as long as it stands still.
struct Carriers(Vec<Pid>);

impl Carriers {
    fn stop(pids: Vec<Pid>) -> Self {
        assert_eq!(pids.len(), 2, "one for each direction");
        pids.iter().for_each(|pid| kill_process(*pid, Signal::STOP).expect("it carries"));
        Carriers(pids)
    }
}

impl Drop for Carriers {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::CONT);
        }
    }
}

/// Neither end hears that the line is cut, as where a network carries nothing for a while: what is on its way
/// stands still, new lines get no answer, and at last the old one goes on beside the new one.
#[test]
fn far_line_that_is_silent_loses_and_doubles_no_output() {
    let cluster = Cluster::up("cluster-far-silent", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-silent-host");
    let folder = far.scratch.path();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = eva@far ] || exit 255\nshift\ncd {}\necho >>tries\n\
         [ ! -e silent ] || exec sleep 1000\nline=line$$; mkfifo $line.in $line.out\nexec 3<&0\n\
         (export TUTTI_DIR={} PATH={}:$PATH; unset TUTTI_AT TUTTI_RSH TUTTI_DAEMON\n\
         exec sh -c \"exec $*\" <$line.in >$line.out) &\n\
         cat <&3 >$line.in & up=$!\ncat $line.out & down=$!\nexec 3<&- >&- <&-\necho $up >>pids; echo $down >>pids\nwait\n",
        folder.display(),
        cluster.socket(0).parent().expect("a folder").display(),
        dist().join("bin").display(),
    );
    std::fs::write(far.program(), script).expect("a file");
    let file = |name: &str| folder.join(name);
    let tries = || std::fs::read_to_string(file("tries")).unwrap_or_default().lines().count();
    let silent = file("silent");
    let script = format!(
        "seq 1 50000; until [ -e {0}0 ]; do sleep 0.02; done; seq 50001 100000; \
         until [ -e {0}1 ]; do sleep 0.02; done; seq 100001 150000",
        file("go").display()
    );
    let mut command = far.command(&["run", "-n", "1", "sh", "-c", &script]);
    let mut front = Running::start_command(command.env("TUTTI_LINE_SILENCE", "2"));
    // In the middle of a piece of output.
    front.await_line("1");
    // Output may pass before the script has written down whom it has begun.
    await_that("both carriers are noted", || far.lines().len() == 2);
    std::fs::write(&silent, "").expect("a file");
    let carriers = Carriers::stop(far.lines());
    let before = tries();
    std::fs::write(file("go0"), "").expect("a file");
    await_that("new lines are tried, and silent", || tries() > before + 1);
    std::fs::remove_file(&silent).expect("it is there");
    await_that("the line is made anew", || far.lines().len() > 2);
    drop(carriers);
    std::fs::write(file("go1"), "").expect("a file");
    let (status, errors, lines) = front.end_with_output();
    assert_eq!(status, 0, "{errors}");
    assert!(errors.contains("is cut") && errors.contains("is there again"), "{errors}");
    let expected: Vec<String> = (1..=150_000).map(|number| number.to_string()).collect();
    let differs = lines.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert!(lines == expected, "{} lines, the first that differs: {differs:?}", lines.len());
}

#[test]
fn far_front_end_passes_signals_and_outlived_jobs_are_attached() {
    let cluster = Cluster::up("cluster-far-signals", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-signals-host");
    let go = far.scratch.path().join("go");
    let await_go = format!("await={}", go.display());
    let mut front =
        Running::start_command(&mut far.command(&["run", "-n", "1", RANK, "say=on", &await_go, "say=over"]));
    front.await_line("on");
    front.signal(Signal::TSTP);
    await_that("the job and its front end stand still", || {
        cluster.job(1).contains("\"suspended\"") && state_of(front.pid()) == Some('T')
    });
    front.signal(Signal::CONT);
    await_that("the job goes on", || cluster.job(1).contains("\"running\""));
    front.signal(Signal::INT);
    assert_eq!(front.end().0, 130);
    let mut submit = far.command(&["submit", "-n", "1", RANK, "say=on", &await_go, "say=over"]);
    tutti_tests::run(&mut submit, LIMIT).expect_success();
    let mut front = Running::start_command(&mut far.command(&["attach", "2"]));
    front.await_line("on");
    std::fs::write(&go, "").expect("a file");
    front.await_line("over");
    assert_eq!(front.end().0, 0);
}

impl Far {
    /// In front of what the program does, these lines.
    fn begins_with(self, lines: &str) -> Self {
        let script = std::fs::read_to_string(self.program()).expect("the program");
        let script = script.replacen("echo 'Welcome", &format!("{lines}\necho 'Welcome"), 1);
        std::fs::write(self.program(), script).expect("a file");
        self
    }

    /// A shell at a terminal where `$tutti` is that of the far host.
    fn at_terminal(&self, script: &str) -> Terminal {
        let tutti = format!("{} --at {HOST}", tutti_tests::program("tutti").get_program().display());
        let (program, nothing) = (self.program(), self.scratch.path().join("nothing"));
        let variables: [(&str, &std::ffi::OsStr); 3] =
            [("tutti", tutti.as_ref()), ("TUTTI_RSH", program.as_ref()), ("TUTTI_DIR", nothing.as_ref())];
        Terminal::run(script, &variables)
    }
}

#[test]
fn far_host_that_ssh_does_not_reach_is_named_in_one_line() {
    let cluster = Cluster::up("cluster-far-refused", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-refused-host");
    let ran = tutti_tests::run(far.command(&["ps"]).env("TUTTI_RSH", "/nothing/ssh"), LIMIT);
    let line =
        "tutti ps: cannot start /nothing/ssh: No such file or directory (TUTTI_RSH names another program)\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, line));
    let denied = "eva@far: Permission denied (publickey,password).";
    for (lines, own) in [
        (format!("echo '{denied}' >&2; exit 255"), format!("{denied}\n")),
        // No tutti there.
        ("exec sh -c 'exec no-such-tutti relay' 2>/dev/null".to_owned(), String::new()),
        // A host that never stops to greet.
        ("exec yes welcome 2>/dev/null".to_owned(), String::new()),
    ] {
        let far = Far::of(&cluster, "cluster-far-refused-host").begins_with(&lines);
        for words in [&["ps"][..], &["run", "-n", "1", RANK]] {
            let ran = tutti_tests::run(&mut far.command(words), LIMIT);
            let expected = format!("{own}tutti {}: no `tutti relay` answers on eva@far", words[0]);
            let is_one_line = ran.stderr.lines().count() == own.lines().count() + 1;
            assert!(ran.code() == 1 && is_one_line && ran.stderr.starts_with(&expected), "{lines}: {ran}");
        }
    }
    // A greeting as long as a book, without an end of its last line, is left out.
    let book = "seq 200000; printf 'and last: '";
    let far = Far::of(&cluster, "cluster-far-refused-host").begins_with(book);
    let ran = tutti_tests::run(&mut far.command(&["run", "-n", "1", RANK, "say=here"]), LIMIT);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code()), ("here\n", "", 0));
}

/// The program in place of ssh asks for a password at the terminal.
#[test]
fn far_host_that_asks_for_a_password_gets_it_from_the_terminal() {
    let asks = "printf 'password: ' >/dev/tty; read word </dev/tty; [ \"$word\" = secret ] || exit 255";
    let cluster = Cluster::up("cluster-far-password", 1, &[]);
    let far = Far::of(&cluster, "cluster-far-password-host").begins_with(asks);
    let mut terminal = far.at_terminal(&format!("$tutti run -n 1 {RANK} say=here; echo \"status $?\""));
    terminal.await_text("password: ");
    terminal.press("secret\n");
    terminal.await_text("here");
    terminal.await_text("status 0");
    drop(terminal);
    // Who does not know it presses Ctrl-C: the command ends, and nothing goes on asking.
    for command in ["ps", "run -n 1 true"] {
        let mut terminal = far.at_terminal(&format!("trap : INT; $tutti {command}; echo \"status $?\""));
        terminal.await_text("password: ");
        terminal.press("\x03");
        terminal.await_text("status 130");
        let has_gone = || far.lines().into_iter().all(|pid| state_of(pid).is_none());
        await_that("nothing asks at the terminal", has_gone);
        drop(terminal);
    }
}

/// Hosts that a program in place of ssh reaches: each is a folder here. The first try finds none of them.
fn hosts(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (program, file) = (scratch.path().join("rsh"), scratch.path().join("hosts"));
    let script = format!(
        "#!/bin/sh\nhost=$1\nshift\ncd {}\n[ -e reached ] || {{ touch reached; exit 255; }}\n\
         export TUTTI_DIR=$PWD/$host SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n\
         unset TUTTI_AT TUTTI_RSH TUTTI_DAEMON HYDRA_HOST_FILE\nexec sh -c \"exec $*\"\n",
        scratch.path().display()
    );
    std::fs::write(&program, script).expect("a file");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("its mode");
    std::fs::write(&file, "far1:2\nfar2 slots=1\n").expect("a file");
    (program, file)
}

#[test]
fn hosts_that_ssh_reaches_become_a_cluster() {
    let scratch = Scratch::new("cluster-far-up");
    let (program, _) = hosts(&scratch);
    let tutti = |words: &[&str]| {
        let mut command = tutti_tests::program("tutti");
        command
            .args(words)
            .env_remove("TUTTI_DAEMON")
            .env("TUTTI_RSH", &program)
            .env("TUTTI_DIR", scratch.path().join("none"));
        tutti_tests::run(&mut command, LIMIT)
    };
    let ran = tutti(&["up", "--hosts", "far1,far2", "--slots", "1", "--json"]);
    let answer = ran.stdout.clone();
    assert!(
        answer.contains("\"nodes\":2") && ran.stderr.contains("far1 cannot be reached yet"),
        "{answer}{}",
        ran.stderr
    );
    let target = answer.split('"').find(|word| word.starts_with("ssh://")).expect("it says where").to_owned();
    let ran = tutti(&["--at", &target, "run", "-N", "2", RANK, "say=here"]);
    assert_eq!(ran.stdout, "here\nhere\n", "{}", ran.stderr);
    let again = tutti(&["up", "--hosts", "far1"]);
    assert!(again.stderr.contains("far1: a daemon is running at") && again.code() == 1, "{}", again.stderr);
    tutti(&["--at", &target, "down"]).expect_success();
}

#[test]
fn hosts_of_a_launchers_variable_run_the_job_and_are_left() {
    let scratch = Scratch::new("cluster-far-file");
    let (program, file) = hosts(&scratch);
    let mut mpiexec = tutti_tests::program("mpiexec");
    mpiexec.args([RANK, "say=here"]).env_remove("TUTTI_DAEMON").env("HYDRA_HOST_FILE", file);
    mpiexec.env("TUTTI_RSH", program).env("TUTTI_DIR", scratch.path().join("none"));
    let ran = tutti_tests::run(&mut mpiexec, LIMIT);
    assert_eq!((ran.stdout.as_str(), ran.code()), ("here\nhere\nhere\n", 0), "{}", ran.stderr);
    for host in ["far1", "far2"] {
        let socket = scratch.path().join(host).join("tuttid.sock");
        await_that("the daemons have ended", || !socket.exists());
    }
}
