//! `tutti top`: what it shows of real daemons, as text and for scripts.

use std::num::NonZeroU16;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tutti_testkit::{Need, has_command};
use tutti_tests::Ran;

use crate::harness::{LIMIT, await_that};
use crate::{Cluster, console};

fn json(cluster: &Cluster, words: &[&str]) -> Value {
    let ran = cluster.tutti(&[&["top", "--json"], words].concat()).expect_success();
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn submit(cluster: &Cluster, words: &[&str]) -> Ran {
    cluster.tutti(&[&["submit"], words].concat()).expect_success()
}

/// Number of the job that was submitted: the machine may have had others.
fn number_of(submitted: &Ran) -> String {
    submitted.stdout.trim().trim_start_matches("job ").to_owned()
}

/// Two slots that the job has, in the picture of nodes.
fn cell_of(number: &str) -> String {
    let last = number.chars().last().expect("a figure");
    format!("[{last}{last}]")
}

/// The line of a table that begins with a word.
fn line_of<'a>(text: &'a str, word: &str) -> Option<Vec<&'a str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.into_iter().find(|words| words.first() == Some(&word))
}

#[test]
fn top_once_shows_rows_shares_and_reasons() {
    let cluster = Cluster::up("top-once", 2, &["--slots", "2"]);
    let text = || cluster.tutti(&["top", "--once"]).expect_success().stdout;
    submit(&cluster, &["-N", "2", "-n", "4", "--weight", "300", "sh", "-c", "while :; do sleep 0.01; done"]);
    await_that("the job is in the only row", || {
        json(&cluster, &[])["jobs"][0]["rows"] == serde_json::json!([0])
    });
    submit(&cluster, &["-N", "1", "-n", "2", "--name", "second\u{1b}[31m", "sh", "-c", "sleep 1000"]);
    await_that("both take turns", || json(&cluster, &[])["rows"] == 2);
    submit(&cluster, &["-n", "1", "--after-ok", "1", "true"]);
    await_that("the third waits", || text().contains("\njob 3: waits: until job 1 has ended"));
    let found = json(&cluster, &[]);
    let jobs = found["jobs"].as_array().expect("jobs");
    let of = |job: usize, name: &str| jobs[job][name].clone();
    assert_eq!((of(0, "asked_permille"), of(1, "asked_permille")), (750.into(), 250.into()), "{found:#}");
    assert_eq!(of(0, "slots").as_array().map(Vec::len), Some(2), "{found:#}");
    assert_eq!(of(1, "slots")[0][1], serde_json::json!([0, 1]), "{found:#}");
    assert!(of(2, "asked_permille").is_null() && of(2, "shown_state") == "waiting", "{found:#}");
    assert_eq!((found["daemon"].clone(), found["users"][0]["waiting"].clone()), (true.into(), 1.into()));
    await_that("shares that were had are known", || {
        let now = json(&cluster, &[]);
        now["jobs"].as_array().expect("jobs")[..2].iter().all(|job| job["had_permille"].is_u64())
    });
    let shown = text();
    assert!(!shown.contains('\u{1b}') && shown.contains("second"), "{shown}");
    let first = line_of(&shown, "1").expect("the first job");
    assert_eq!((first[1], first[6]), ("running", "75%"), "{shown}");
    // Only those that are wanted; nodes and users count all.
    let waiting = json(&cluster, &["--state", "waiting"]);
    assert_eq!(waiting["jobs"].as_array().map(Vec::len), Some(1), "{waiting:#}");
    assert_eq!(waiting["nodes"].as_array().map(Vec::len), Some(2), "{waiting:#}");
}

#[test]
fn top_refuses_in_one_line() {
    let cluster = Cluster::up("top-refusals", 1, &[]);
    let cases: [(&[&str], &str); 4] = [
        (&["--interval", "0.1"], "0.5 to 3600"),
        (&["--state", "asleep"], "asleep"),
        (&["--once", "--user", "nobody-has-this-name"], "there is no user nobody-has-this-name"),
        (&["--oncee"], "--once"),
    ];
    for (words, expected) in cases {
        let ran = cluster.tutti(&[&["top"], words].concat());
        assert!(ran.code() != 0 && ran.stdout.is_empty(), "{ran}");
        assert!(ran.stderr.lines().count() == 1 && ran.stderr.contains(expected), "{ran}");
        assert!(ran.stderr.starts_with("tutti top: "), "{ran}");
    }
    for (kind, expected) in [("xterm", "must be a terminal"), ("dumb", "must be a terminal")] {
        let ran = tutti_tests::run(cluster.command(&["top"]).env("TERM", kind), LIMIT);
        assert!(ran.code() == 1 && ran.stderr.lines().count() == 1 && ran.stdout.is_empty(), "{ran}");
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("--once"), "{ran}");
    }
    let mut dumb = cluster.at_terminal("$tutti top; echo status $?", &[("TERM", "dumb".as_ref())]);
    dumb.await_text("(TERM=dumb); --once");
    dumb.await_text("status 1");
    // Whoever names a socket means a daemon.
    let mut command = cluster.command(&["top", "--once"]);
    let ran = tutti_tests::run(command.env("TUTTI_DAEMON", "/nonexistent/socket"), LIMIT);
    assert!(ran.code() == 1 && ran.stderr.lines().count() == 1, "{ran}");
    assert!(ran.stderr.contains("no daemon answers at /nonexistent/socket"), "{ran}");
}

/// A screen as a person sees it, with `tutti top` on it.
struct Screen {
    terminal: console::Terminal,
    seen: vt100::Parser,
}

impl Screen {
    /// A script that begins when the window has its size.
    fn run(cluster: &Cluster, script: &str, size: (u16, u16)) -> Self {
        let variables = [("TERM", "xterm".as_ref()), ("LC_ALL", "C".as_ref()), ("NO_COLOR", "1".as_ref())];
        let script = format!("echo ready; read -r; {script}");
        let mut terminal = cluster.at_terminal(&script, &variables);
        terminal.await_text("ready");
        terminal.resize(size.0, size.1);
        terminal.press("\n");
        Screen { terminal, seen: vt100::Parser::new(cells(size.0), cells(size.1), 0) }
    }

    fn text(&self) -> String {
        self.seen.screen().contents()
    }

    #[track_caller]
    fn await_screen(&mut self, what: &str, is_there: impl Fn(&str) -> bool) {
        // Each second something comes: the clock.
        let deadline = Instant::now() + LIMIT;
        while !is_there(&self.text()) {
            match self.terminal.next_bytes().filter(|_| Instant::now() < deadline) {
                Some(bytes) => self.seen.process(&bytes),
                None => panic!("{what}: the screen shows\n{}", self.text()),
            }
        }
    }

    #[track_caller]
    fn await_text(&mut self, text: &str) {
        self.await_screen(text, |screen| screen.contains(text));
    }

    fn resize(&mut self, lines: u16, columns: u16) {
        self.seen.screen_mut().set_size(cells(lines), cells(columns));
        self.terminal.resize(lines, columns);
    }

    /// The terminal is as it was, and the program has ended with that status.
    #[track_caller]
    fn await_end(&mut self, status: u8) {
        self.await_text(&format!("status {status}"));
        self.await_text("as before");
        let screen = self.seen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", self.text());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("a size")
}

/// A line that the shell prints if the terminal has its usual modes.
const AS_BEFORE: &str = "stty -a | grep -q ' icanon.* echo ' && echo as before";

#[test]
fn top_live_shows_jobs_at_any_size_and_kills_one() {
    let cluster = Cluster::up("top-live", 2, &["--slots", "2"]);
    let script = format!("$tutti top -i 0.5; echo status $?; {AS_BEFORE}");
    let mut screen = Screen::run(&cluster, &script, (24, 80));
    screen.await_text("2 of 2 nodes, 4 slots  0 jobs");
    submit(&cluster, &["-N", "2", "-n", "4", "--name", "wide", "sleep", "1000"]);
    screen.await_screen("the job is in both nodes", |text| text.matches("[11]").count() == 2);
    screen.await_screen("it runs", |text| {
        text.lines().any(|line| line.contains(" running ") && line.contains("wide sleep 1000"))
    });
    submit(&cluster, &["-n", "2", "sleep", "1001"]);
    screen.await_screen("both take turns", |text| text.contains("[22]") && text.contains(" 50%"));
    for (lines, columns) in [(8, 40), (5, 20), (50, 160), (24, 80)] {
        screen.resize(lines, columns);
        let expected = if lines < 8 { "tutti top needs" } else { "JOB STATE" };
        screen.await_screen("it is drawn in the new size", |text| {
            text.contains(expected) && text.lines().count() <= usize::from(lines)
        });
    }
    cluster.tutti(&["suspend", "1"]).expect_success();
    screen.await_text("suspended");
    // The second, and the question before it.
    screen.terminal.press("/1001\r");
    screen.await_text("1 with \"1001\"");
    screen.terminal.press("k");
    screen.await_text("kill job 2? y: yes");
    screen.terminal.press("n");
    screen.await_text("nothing was done");
    screen.terminal.press("ky");
    screen.await_screen("it has gone", |text| text.contains("0 with \"1001\""));
    assert!(cluster.job(1).contains("\"suspended\""), "the other one was not meant");
    screen.terminal.press("\x1b?");
    screen.await_text("any key: back");
    screen.terminal.press(" q");
    screen.await_end(0);
}

/// Job over two nodes, one of which is lost, and one that waits: each size shows as much of it as it has room
/// for.
#[test]
fn top_live_shows_a_lost_node_at_three_sizes() {
    let cluster = Cluster::up("top-lost", 2, &["--slots", "2", "--lost-after", "2"]);
    let script = format!("$tutti top -i 0.5; echo status $?; {AS_BEFORE}");
    let mut screen = Screen::run(&cluster, &script, (24, 80));
    screen.await_text("2 of 2 nodes, 4 slots  0 jobs");
    let stays = number_of(&submit(&cluster, &["-n", "2", "--name", "stays", "sleep", "1000"]));
    let falls = submit(&cluster, &["-N", "2", "-n", "4", "--name", "falls", "sleep", "1001"]);
    let falls = cell_of(&number_of(&falls));
    screen.await_screen("both take turns", |text| text.contains("falls") && text.contains(&falls));
    drop(cluster.kill_daemon(1));
    let next = number_of(&submit(&cluster, &["-n", "1", "--after-ok", &stays, "true"]));
    screen.await_text("1 of 2 nodes, 2 slots");
    for (lines, columns) in [(24, 80), (12, 40), (50, 132)] {
        screen.resize(lines, columns);
        screen.await_screen("node, job and reason are in the new size", |text| {
            let has = |words: &[&str]| {
                text.lines()
                    .any(|line| words.iter().all(|word| line.split_whitespace().any(|it| it == *word)))
            };
            let is_whole = text.lines().count() <= usize::from(lines)
                && text.lines().all(|line| line.chars().count() <= usize::from(columns));
            // Names of commands have no room in a narrow one.
            let command: &[&str] =
                if columns < 80 { &[&stays, "running"] } else { &[&stays, "running", "stays"] };
            is_whole && text.contains("1 of 2 nodes") && has(command) && has(&[&next, "waiting"])
        });
    }
    screen.terminal.press("2");
    screen.await_screen("the node is listed as lost", |text| {
        text.lines().any(|line| line.contains("node1") && line.contains("lost"))
    });
    screen.terminal.press("q");
    screen.await_end(0);
}

/// A tmux of its own, which ends with its test.
struct Tmux<'a> {
    cluster: &'a Cluster,
    socket: std::path::PathBuf,
}

impl Tmux<'_> {
    fn command(&self, words: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(words);
        command.env("tutti", tutti_tests::program("tutti").get_program()).env("LC_ALL", "C.UTF-8");
        command.env("TUTTI_DIR", &self.cluster.folder).env_remove("TMUX").env_remove("NO_COLOR");
        command.env("TUTTI_DAEMON", self.cluster.folder.join("tuttid.sock"));
        command
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> String {
        tutti_tests::run(&mut self.command(words), LIMIT).expect_success().stdout
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn await_screen(&self, what: &str, is_there: impl Fn(&str) -> bool) {
        await_that(what, || is_there(&self.screen()));
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(shown) = self.command(&["capture-pane", "-p"]).output()
        {
            println!("the pane shows\n{}", String::from_utf8_lossy(&shown.stdout));
        }
        let _ = self.command(&["kill-server"]).output();
    }
}

#[test]
fn top_live_in_tmux_follows_its_pane_and_leaves_it_whole() {
    if !has_command(Need::Setup, "tmux") {
        return;
    }
    let cluster = Cluster::up("top-tmux", 1, &["--slots", "2"]);
    let tmux = Tmux { cluster: &cluster, socket: cluster.folder.join("tmux") };
    let script = format!("$tutti top -i 0.5; echo status $?; {AS_BEFORE}; read -r");
    tmux.run(&["new-session", "-d", "-x", "80", "-y", "24", "bash", "--norc", "-c", &script]);
    tmux.await_screen("it is there", |text| text.contains("1 of 1 nodes, 2 slots  0 jobs"));
    let modes = || tmux.run(&["display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}"]);
    assert_eq!(modes().trim(), "1 0 1");
    let job = number_of(&submit(&cluster, &["-n", "2", "--name", "\u{e4}\u{202e}x", "sleep", "1000"]));
    tmux.await_screen("the job is there", |text| {
        text.contains(&cell_of(&job)) && text.contains("\u{e4} x sleep")
    });
    for (columns, lines) in [("132", "40"), ("40", "8"), ("20", "5"), ("80", "24")] {
        tmux.run(&["resize-window", "-x", columns, "-y", lines]);
        let expected = if columns == "20" { "tutti top needs" } else { "JOB STATE" };
        tmux.await_screen("it is drawn in the new size", |text| {
            let line = text.lines().next().unwrap_or_default();
            // The clock is at the right end.
            let is_wide =
                columns == "20" || line.chars().count() == columns.parse::<usize>().expect("a number");
            text.contains(expected) && is_wide
        });
    }
    // Half of the window is another pane's.
    tmux.run(&["split-window", "-h", "-d", "bash", "--norc", "-c", "read -r"]);
    tmux.await_screen("it has the half", |text| {
        text.lines().next().is_some_and(|line| line.chars().count() == 40) && text.contains("JOB STATE")
    });
    tmux.run(&["send-keys", "k"]);
    tmux.await_screen("it asks", |text| text.contains(&format!("kill job {job}? y: yes")));
    tmux.run(&["send-keys", "y"]);
    tmux.await_screen("the job is gone", |text| !text.contains(&cell_of(&job)));
    tmux.run(&["send-keys", "q"]);
    tmux.await_screen("the shell goes on", |text| text.contains("status 0") && text.contains("as before"));
    assert_eq!(modes().trim(), "0 1 0");
}

#[test]
fn top_live_goes_on_without_its_daemon() {
    let cluster = Cluster::up("top-daemon", 1, &[]);
    let script = format!("$tutti top -i 0.5; echo status $?; {AS_BEFORE}");
    let mut screen = Screen::run(&cluster, &script, (24, 80));
    screen.await_text("1 of 1 nodes");
    cluster.replace(0);
    await_that("the next daemon answers", || cluster.tutti(&["ps"]).status.success());
    submit(&cluster, &["-n", "1", "--name", "later", "sleep", "1000"]);
    screen.await_text("later sleep 1000");
    cluster.tutti(&["down"]).expect_success();
    screen.await_text(" s old: no daemon answers");
    screen.terminal.press("q");
    screen.await_end(0);
}

#[test]
fn top_live_gives_the_terminal_back_by_every_signal() {
    let cluster = Cluster::up("top-signals", 1, &[]);
    let start = |before: &str, after: &str| {
        let script = format!(
            "{before} sh -c 'echo pid $$.; read -r x; exec $tutti top'; echo status $?; {AS_BEFORE}; {after}"
        );
        let mut screen = Screen::run(&cluster, &script, (24, 80));
        screen.await_screen("its number", |text| {
            text.split("pid ").nth(1).is_some_and(|rest| rest.contains('.'))
        });
        let text = screen.text();
        let number = text.split("pid ").nth(1).and_then(|rest| rest.split('.').next()).expect("a number");
        let pid = Pid::from_raw(number.parse().expect("a number")).expect("a pid");
        screen.terminal.press("\n");
        screen.await_text("1 of 1 nodes");
        (screen, pid)
    };
    // A shell without job control leaves the terminal as it finds it.
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP] {
        let (mut screen, pid) = start("", "");
        kill_process(pid, signal).expect("it is there");
        screen.await_end(128 + signal.as_raw() as u8);
    }
    let (mut screen, pid) =
        start("set -m;", "read -r; fg; echo status $?; stty -a | grep -q ' icanon' && echo as ever");
    screen.terminal.press("\x1a");
    screen.await_end(148);
    screen.terminal.press("\n");
    screen.await_text("1 of 1 nodes");
    assert!(screen.seen.screen().alternate_screen());
    kill_process(pid, Signal::TERM).expect("it is there");
    screen.await_end(143);
    screen.await_text("as ever");
}

#[test]
fn top_live_ends_with_its_terminal() {
    let cluster = Cluster::up("top-hang-up", 1, &[]);
    let mut screen = Screen::run(&cluster, "$tutti top; echo status $?", (24, 80));
    screen.await_text("1 of 1 nodes");
    // Its end is seen by what is left, when the terminal is dropped.
    screen.terminal.hang_up();
}
