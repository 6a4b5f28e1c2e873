//! The page of a cluster, its metrics and its history, of real daemons.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tutti_testkit::{Need, has_command_for_part, skip};
use tutti_tests::users::Users;
use tutti_tests::{Scratch, compile, dist, peers};

use crate::Cluster;
use crate::browser::{Browser, request, request_with};
use crate::harness::{LIMIT, await_that};

/// A cluster with a page.
pub struct Site {
    pub cluster: Cluster,
    pub address: SocketAddr,
    /// A user beside root, where this is root's cluster; behind the cluster, which ends first.
    users: Option<Users>,
    _scratch: Option<Scratch>,
}

impl Site {
    /// Root's cluster is where the account of the page can reach it.
    #[track_caller]
    pub fn up(name: &str, nodes: u32, more: &[&str]) -> Self {
        Site::up_with(name, nodes, more, |_| ())
    }

    /// Pid of the program of the page.
    #[track_caller]
    fn program(&self) -> Pid {
        let table = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids: Vec<i32> = table
            .filter(|entry| {
                let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
                let is_ours = read("cmdline").contains("--until-down")
                    && read("environ").contains(self.cluster.folder.to_str().expect("a path of text"));
                is_ours && read("comm").trim() == "tutti-sight"
            })
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        assert_eq!(pids.len(), 1, "the program of the page");
        Pid::from_raw(pids[0]).expect("a pid")
    }

    /// Kills the program of the page, without warning.
    #[track_caller]
    fn kill_program(&self) {
        kill_process(self.program(), Signal::KILL).expect("it is there");
        await_that("the page is gone", || std::net::TcpStream::connect(self.address).is_err());
    }

    /// Starts the program of the page at the address of before, as `tutti up` does it.
    #[track_caller]
    fn start_program(&self) -> Program {
        let programs = self.users.as_ref().map_or_else(dist, |users| users.programs().to_owned());
        let mut command = Command::new(programs.join("libexec/tutti/tutti-sight"));
        command.args(["--until-down", "--listen", &self.address.to_string(), "--config"]);
        command.arg(self.cluster.folder.with_file_name("tutti.toml"));
        command.env("TUTTI_DIR", &self.cluster.folder);
        command.env("TUTTI_DAEMON", self.cluster.folder.join("tuttid.sock"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = Program(command.spawn().expect("it starts"));
        await_that("the page is there again", || std::net::TcpStream::connect(self.address).is_ok());
        started
    }

    /// Cluster whose folder is prepared before its daemons begin.
    #[track_caller]
    pub fn up_with(name: &str, nodes: u32, more: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let (mut users, mut scratch) = (None, None);
        let folder = if rustix::process::geteuid().is_root() {
            users.insert(Users::new(name, 1).expect("this is root")).root().to_owned()
        } else {
            scratch.insert(Scratch::new(name)).path().to_owned()
        };
        let file = folder.join("tutti.toml");
        std::fs::write(&file, "[sight]\nlisten = \"127.0.0.1:0\"\n").expect("a configuration");
        prepare(&folder.join("cluster"));
        let options = [&["--config", file.to_str().expect("a path of text")], more].concat();
        let programs = users.as_ref().map_or_else(dist, |users| users.programs().to_owned());
        let cluster = Cluster::up_at(folder.join("cluster"), programs, nodes, &options);
        let address = address_of(&link(&cluster, &[]));
        Site { cluster, address, users, _scratch: scratch }
    }
}

/// A program of a page that the test has started; it ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The address in a link.
fn address_of(link: &str) -> SocketAddr {
    let address = link.trim_start_matches("http://").split('/').next().expect("an address");
    address.parse().unwrap_or_else(|_| panic!("{link} is no link to a page"))
}

pub fn get(address: SocketAddr, path: &str) -> String {
    let (status, text) = request(address, "GET", path, "");
    assert_eq!(status, 200, "{path}: {text}");
    text
}

pub fn state(address: SocketAddr) -> Value {
    serde_json::from_str(&get(address, "/api/state")).expect("JSON")
}

/// Number of a job that is submitted.
pub fn submit(cluster: &Cluster, words: &[&str]) -> String {
    number(&cluster.tutti(&[&["submit"], words].concat()).expect_success().stdout)
}

fn number(said: &str) -> String {
    said.trim().strip_prefix("job ").unwrap_or_else(|| panic!("{said:?} names no job")).to_owned()
}

/// The link of `tutti page`, for a view.
pub fn link(cluster: &Cluster, words: &[&str]) -> String {
    cluster.tutti(&[&["page"], words].concat()).expect_success().stdout.trim().to_owned()
}

#[test]
fn page_shows_jobs_and_their_history_and_ends_with_the_cluster() {
    let site = Site::up("page-history", 2, &["--slots", "2"]);
    let (cluster, address) = (&site.cluster, site.address);
    // The program is nobody's but an account without rights.
    if rustix::process::geteuid().is_root() {
        let folder = cluster.folder.join("sight");
        assert_ne!(folder.metadata().expect("the folder of the page").uid(), 0);
    }
    let one = submit(cluster, &["-N", "2", "-n", "4", "--name", "first", "sh", "-c", "sleep 1000"]);
    let two = submit(cluster, &["-n", "1", "--after-ok", &one, "true"]);
    await_that("both are shown, with rows and reasons", || {
        let jobs = state(address)["jobs"].clone();
        jobs[&one]["rows"] == serde_json::json!([0]) && jobs[&two]["state"] == "waiting"
    });
    let found = state(address);
    assert_eq!(found["jobs"][&one]["name"], "first", "{found:#}");
    assert!(
        found["jobs"][&two]["remarks"][0].as_str().is_some_and(|text| text.contains(&format!("job {one}"))),
        "{found:#}"
    );
    assert_eq!(found["nodes"]["node1"]["rows"]["0"][0][1], one.as_str(), "{found:#}");
    cluster.tutti(&["kill", &one]).expect_success();
    cluster.tutti(&["wait", &one]);
    let listed =
        |words: &[&str]| cluster.tutti(&[&["ps", "--history"], words].concat()).expect_success().stdout;
    await_that("the end is in the history", || listed(&[]).contains("over("));
    let rows: Value = serde_json::from_str(&listed(&["--json", "--state", "over"])).expect("JSON");
    let first = rows
        .as_array()
        .and_then(|rows| rows.iter().find(|row| row["job"].as_u64() == one.parse().ok()))
        .expect("the first job");
    assert!(first["started_ms"].is_u64() && first["ended_ms"].is_u64() && first["status"] != 0, "{first:#}");
    let detail: Value = serde_json::from_str(&get(address, &format!("/api/job/{one}"))).expect("JSON");
    let place = &detail["past"]["places"][0];
    assert!(
        place[1] == first["started_ms"] && place[2] == first["ended_ms"] && place[3] == "0",
        "{detail:#}"
    );
    assert_eq!(place[4], "node0:0-1 node1:0-1", "{detail:#}");
    assert!(listed(&["--since", "2001-01-01", "--until", "2001-01-02"]).lines().count() == 1);
    for (words, expected) in [
        (&["ps", "--since", "1h"][..], "--history"),
        (&["ps", "--history", "--since", "yesterday"], "2026-11-28"),
        (&["ps", "--history", "--user", "nobody-has-this-name"], "there is no user"),
    ] {
        let ran = cluster.tutti(words);
        assert!(ran.code() != 0 && ran.stderr.lines().count() == 1 && ran.stderr.contains(expected), "{ran}");
    }
    cluster.tutti(&["down"]).expect_success();
    assert!(std::net::TcpStream::connect(address).is_err(), "the page has ended with its cluster");
    let ran = cluster.tutti(&["page"]);
    assert!(ran.code() == 1 && ran.stderr.lines().count() == 1, "{ran}");
}

#[test]
fn page_metrics_are_read_by_prometheus_parsers() {
    let site = Site::up("page-metrics", 1, &["--slots", "2"]);
    let (cluster, address) = (&site.cluster, site.address);
    submit(cluster, &["-n", "1", "sh", "-c", "exit 3"]);
    submit(cluster, &["-n", "2", "sh", "-c", "sleep 1000"]);
    let has = |line: &str| get(address, "/metrics").lines().any(|found| found == line);
    await_that("the end of a job is counted", || has("tutti_jobs_ended_total{result=\"failed\"} 1"));
    await_that("the other one runs", || has("tutti_jobs{state=\"running\"} 1"));
    let text = get(address, "/metrics");
    assert!(has("tutti_up 1") && has("tutti_slots 2"), "{text}");
    if let Some(folder) = peers::prometheus() {
        let script = "import sys, urllib.request\n\
             from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
             wanted = urllib.request.Request(sys.argv[1], headers={'Accept': 'application/openmetrics-text'})\n\
             text = urllib.request.urlopen(wanted).read().decode()\n\
             found = {family.name: family for family in parse(text)}\n\
             assert found['tutti_jobs_ended'].type == 'counter', found\n\
             assert found['tutti_freeze_seconds'].type == 'histogram', found\n\
             assert found['tutti_up'].samples[0].value == 1, found\n\
             print(len(found))";
        let mut parser = Command::new("python3");
        parser.args(["-c", script, &format!("http://{address}/metrics")]).env("PYTHONPATH", folder);
        let ran = tutti_tests::run(&mut parser, LIMIT).expect_success();
        assert!(ran.stdout.trim().parse::<usize>().is_ok_and(|families| families > 20), "{ran}");
    }
    if has_command_for_part(Need::Setup, "promtool") {
        let scratch = Scratch::new("page-promtool");
        let file = scratch.path().join("metrics");
        std::fs::write(&file, &text).expect("a file");
        let file = std::fs::File::open(&file).expect("a file");
        let checked = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::from(file)).output();
        let checked = checked.expect("promtool starts");
        let complaint = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success() && complaint.is_empty(), "{complaint}");
        let rules = dist().join("share/tutti/monitoring/alerts.yml");
        tutti_tests::run(Command::new("promtool").args(["check", "rules"]).arg(rules), LIMIT)
            .expect_success();
    }
    // What rules and dashboard ask for is there.
    for file in ["alerts.yml", "dashboard.json"] {
        let asked = std::fs::read_to_string(dist().join("share/tutti/monitoring").join(file)).expect(file);
        let words = asked.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let names: Vec<&str> = words.filter(|word| word.starts_with("tutti_")).collect();
        assert!(names.len() > 3, "{file}");
        for name in names {
            let base = name.trim_end_matches("_bucket").trim_end_matches("_total");
            let is_it = |line: &str| {
                let of = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next());
                of.is_some_and(|of| of.trim_end_matches("_total") == base)
            };
            assert!(text.lines().any(is_it), "{file} asks for {name}:\n{text}");
        }
    }
}

#[test]
fn page_shows_output_to_the_owner_of_a_job_alone() {
    let site = Site::up("page-output", 1, &[]);
    let (cluster, address) = (&site.cluster, site.address);
    let Some(users) = &site.users else {
        return skip(Need::Root, "only root's page has readers who are not its user");
    };
    let uid = users.uids()[0];
    let as_user = |words: &[&str]| {
        let mut command = users.command(uid, "tutti", words);
        command.env("TUTTI_DIR", &cluster.folder).env("TUTTI_DAEMON", cluster.socket(0));
        tutti_tests::run(command.current_dir(users.folder(uid)), LIMIT).expect_success().stdout
    };
    let own = number(&as_user(&["submit", "-n", "1", "sh", "-c", "printf 'of the user\\033[2J\\n'"]));
    as_user(&["wait", &own]);
    let roots = submit(cluster, &["-n", "1", "sh", "-c", "echo of root"]);
    cluster.tutti(&["wait", &roots]).expect_success();
    let token = as_user(&["page", &own]).trim().rsplit_once("&token=").expect("a token").1.to_owned();
    let shown = |job: &str, token: &str| {
        let more =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        request_with(address, "GET", &format!("/api/output/{job}"), &more, "")
    };
    let (status, text) = shown(&own, &token);
    assert!(status == 200 && text.contains(r"of the user\u{1b}[2J"), "{status}: {text}");
    assert_eq!((shown(&roots, &token).0, shown(&own, "").0, shown(&own, &token[1..]).0), (403, 401, 403));
    // The token does nothing else, and root has none.
    assert!(!link(cluster, &[&own]).contains("token"));
    assert!(!as_user(&["page", "--share"]).contains("token"));
}

#[test]
fn page_that_is_stopped_or_killed_harms_no_daemon() {
    let site = Site::up("page-killed", 1, &[]);
    let cluster = &site.cluster;
    kill_process(site.program(), Signal::STOP).expect("it is there");
    cluster.tutti(&["run", "-n", "1", "true"]).expect_success();
    site.kill_program();
    cluster.tutti(&["run", "-n", "1", "true"]).expect_success();
    let ran = cluster.tutti(&["ps", "--history"]);
    assert!(ran.code() == 1 && ran.stderr.contains("no page is served here"), "{ran}");
}

#[test]
fn page_in_a_browser_follows_jobs_and_loads_nothing_of_elsewhere() {
    let Some(browser) = Browser::start("page-browser", (1280, 800)) else { return };
    let site = Site::up("page-in-browser", 2, &["--slots", "2"]);
    let (cluster, address) = (&site.cluster, site.address);
    browser.open(&link(cluster, &[]));
    let text = |selector: &str| {
        let script = format!("return document.querySelector({selector:?})?.innerText ?? ''");
        browser.run(&script).as_str().expect("text").to_owned()
    };
    await_that("the nodes are there", || text("#summary").starts_with("2 of 2 nodes, 4 slots, 0 jobs run"));
    let name = "<b>bold</b>";
    let job = submit(cluster, &["-N", "2", "-n", "4", "--name", name, "sh", "-c", "sleep 1000"]);
    await_that("the job is in its row", || text(".matrix").contains(&job));
    browser.press("2");
    await_that("the table has it", || text("#rows").contains("running"));
    assert!(text("#rows").contains("<b>bold</b>"), "{}", text("#rows"));
    assert_eq!(browser.run("return document.querySelectorAll('#rows b').length"), 0);
    browser.press("j\u{e007}");
    await_that("its own view has its ranks", || {
        text("#job").contains("node1") && text("#h-job") == format!("Job {job}")
    });
    // Ranks, each of which waits for the next one; also more than fit, and one that waits for itself.
    for (cycle, ranks, arrows) in
        [("[0, 1]", 2, 2), ("[2, 4, 1]", 3, 3), ("[5]", 1, 1), ("[...Array(99).keys()]", 64, 63)]
    {
        let drawn =
            |part: &str| browser.run(&format!("return waits({cycle}).querySelectorAll('{part}').length"));
        assert_eq!(
            (drawn("circle"), drawn("text"), drawn("path")),
            (json!(ranks), json!(ranks), json!(arrows)),
            "{cycle}"
        );
    }
    cluster.tutti(&["kill", &job]).expect_success();
    browser.press("4");
    await_that("the timeline has its bars", || {
        browser.run("return Number(document.body.dataset.bars ?? 0)").as_u64().is_some_and(|bars| bars >= 2)
    });
    if let Some(axe) = peers::axe() {
        browser.run(&axe);
        for view in ["cluster", "jobs", &format!("job/{job}"), "users", "timeline", "history", "help"] {
            for look in ["light", "dark"] {
                browser.run(&format!(
                    "location.hash = '{view}'; document.documentElement.dataset.look = '{look}'"
                ));
                let found = browser.run_later(
                    "const done = arguments[0]; axe.run().then((found) => \
                     done(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html))))",
                );
                assert_eq!(found, serde_json::json!([]), "{view}, {look}");
            }
        }
    }
    browser.press("2");
    await_that("it is gone from the table", || text("#more") == "no jobs");
    let entries = "return performance.getEntriesByType('resource').map((entry) => entry.name)";
    let base = format!("http://{address}/");
    let asked = browser.run(entries);
    let asked = asked.as_array().expect("names");
    assert!(
        asked.len() > 3 && asked.iter().all(|name| name.as_str().is_some_and(|name| name.starts_with(&base)))
    );
    assert_eq!(browser.complaints(&base), Vec::<String>::new());
    for (width, height) in [(360, 740), (3840, 2160)] {
        let browser = Browser::start("page-sizes", (width, height)).expect("it was there before");
        browser.open(&link(cluster, &[]));
        await_that("the page is there", || {
            browser
                .run("return document.getElementById('summary').innerText")
                .as_str()
                .is_some_and(|text| !text.is_empty())
        });
        for view in ["cluster", "jobs", "users", "timeline", "history", "help"] {
            let script = format!(
                "location.hash = '{view}'; return document.documentElement.scrollWidth <= window.innerWidth"
            );
            assert_eq!(browser.run(&script), true, "{view} is wider than {width}");
        }
        assert!(browser.picture().len() > 1000);
    }
}

/// The server of the page dies, a job ends and another one begins, and it is started anew.
#[test]
fn page_in_a_browser_goes_on_behind_a_restart_of_its_server() {
    let Some(browser) = Browser::start("page-restart-browser", (1280, 800)) else { return };
    let site = Site::up("page-restart", 1, &["--slots", "2"]);
    let cluster = &site.cluster;
    let first = submit(cluster, &["-n", "2", "sleep", "1000"]);
    browser.open(&link(cluster, &[]));
    let is = |script: &str| browser.run(&format!("return Boolean({script})")) == true;
    let has_cell = |job: &str| {
        let text = browser.run("return document.querySelector('.matrix')?.innerText ?? ''");
        text.as_str().is_some_and(|text| text.split_whitespace().any(|word| word == job))
    };
    await_that("the job is in its row", || has_cell(&first));
    browser.run("window.kept = true");
    site.kill_program();
    await_that("the reader is told", || is("$('status').classList.contains('bad')"));
    assert!(has_cell(&first), "what was there stays");
    cluster.tutti(&["kill", &first]).expect_success();
    cluster.tutti(&["wait", &first]);
    let second = submit(cluster, &["-n", "1", "sleep", "1001"]);
    let _program = site.start_program();
    await_that("the other job is there", || has_cell(&second) && !has_cell(&first));
    assert!(is("window.kept && !$('status').classList.contains('bad')"), "it is the page of before");
    browser.run(&format!("location.hash = 'job/{first}'"));
    await_that("the end of the first is in the history", || {
        is("$('job').innerText.includes('over, status')")
    });
}

/// Views are drawn anew each second: a reader by keyboard, or in the middle of a long output, stays where he
/// is, and the job's own view goes on to its end.
#[test]
fn page_of_a_job_follows_it_to_its_end_and_keeps_the_place_of_its_reader() {
    let Some(browser) = Browser::start("page-place-browser", (1280, 800)) else { return };
    let site = Site::up("page-place", 1, &["--slots", "4"]);
    let cluster = &site.cluster;
    let array = submit(cluster, &["--array", "3,7", "-n", "1", "sh", "-c", "sleep 1000"]);
    let failing = submit(cluster, &["-n", "1", "sh", "-c", "sleep 1000"]);
    browser.open(&link(cluster, &[]));
    let value = |script: &str| browser.run(&format!("return {script}"));
    let is = |script: &str| value(script) == true;
    let frames = |count: u64| {
        let number = || value("Number(document.body.dataset.frame)").as_u64().unwrap_or(0);
        let first = number();
        await_that("further frames have come", || number() >= first + count);
    };
    let cell = "[...document.querySelectorAll('.matrix a')].find((cell) => cell.textContent.endsWith('_7'))";
    await_that("a task of the array has its slot", || is(&format!("Boolean({cell})")));
    browser.run(&format!("{cell}.focus()"));
    frames(2);
    assert!(is(&format!("document.activeElement === {cell}")), "the reader is on the task's slot still");
    browser.press("\u{e007}");
    await_that("the task has a view", || value("$('h-job').textContent") == format!("Job {array}_7"));
    let tasks = "[...document.querySelectorAll('.tasks a')].map((link) => link.textContent).join(' ')";
    assert_eq!(value(tasks), format!("{array}_3 {array}_7"));
    browser.run("location.hash = 'jobs'");
    let head = "document.querySelector('[data-sort=state]')";
    browser.run(&format!("{head}.focus()"));
    browser.press("\u{e007}");
    frames(1);
    assert!(is(&format!("document.activeElement === {head}")), "the column is sorted by, and still chosen");
    assert!(is(&format!("{head}.parentElement.getAttribute('aria-sort') === 'ascending'")));
    browser.run(&format!("location.hash = 'job/{failing}'"));
    await_that("the job runs", || is("details?.now && $('job').innerText.includes('running')"));
    // A long output, whose middle is read.
    browser.run("details.output = 'a line\\n'.repeat(500); details.until = Infinity; drawJob()");
    browser.run("document.querySelector('#job > pre').scrollTop = 700");
    frames(2);
    assert_eq!(value("document.querySelector('#job > pre').scrollTop"), 700);
    cluster.tutti(&["kill", &failing]).expect_success();
    await_that("its end is shown", || {
        is("$('job').innerText.includes('over, status') && /Ended\\s+20/.test($('job').innerText)")
    });
    for nothing in ["job/999999", "job/nobody%2F3", "job/%22%3E"] {
        browser.run(&format!("location.hash = '{nothing}'"));
        await_that("there is no such job", || {
            is("$('job').innerText === 'neither the daemon nor the history knows this job'")
        });
    }
    // The page goes on behind a link that was cut off.
    browser.run("location.hash = 'job/%'");
    frames(1);
}

#[test]
fn page_scrolls_a_day_of_ten_thousand_jobs() {
    let Some(browser) = Browser::start("page-scrolls", (1280, 800)) else { return };
    let site = Site::up("page-scrolls-site", 1, &[]);
    browser.open(&format!("{}#timeline", link(&site.cluster, &[]).split('#').next().expect("a link")));
    await_that("the page is there", || {
        browser.run("return document.body.dataset.bars !== undefined") == true
    });
    // Bars of a minute on eight nodes, eight hours of them at once.
    let found = browser.run_later(
        "const done = arguments[0];
         const begin = () => {
         if (timeline.pending) { setTimeout(begin, 20); return; }
         const now = Date.now(), day = 86400000, jobs = [], places = [], nodes = {};
         for (let node = 0; node < 8; node += 1) nodes['n' + node] = [];
         for (let job = 1; job <= 10000; job += 1) {
           const from = now - day + (job * day) / 10000, until = from + 60000;
           jobs.push({ job, name: 'j', command: 'x', started_ms: from, ended_ms: until, nodes: [] });
           places.push([job, from, until, '0', 'n' + (job % 8) + ':0-1', 500, 1]);
         }
         // What was asked for before would come between.
         timeline.load = async () => {};
         timeline.data = { jobs, places, nodes, gaps: [] };
         timeline.asked = [now - 2 * day, now + day];
         timeline.arrange();
         let frames = 0, least = Infinity;
         const began = performance.now();
         const step = () => {
           frames += 1;
           const from = now - day + (frames * day * 2) / 3 / 100;
           timeline.move(from, from + day / 3);
           // What is painted is of the step before.
           if (frames > 4) least = Math.min(least, Number(document.body.dataset.bars));
           if (frames < 100) requestAnimationFrame(step);
           else done([frames, Math.round(performance.now() - began), least]);
         };
         requestAnimationFrame(step);
         };
         begin();",
    );
    let number = |at: usize| found[at].as_u64().unwrap_or_else(|| panic!("{found} is no measurement"));
    println!("{} frames in {} ms, {} bars and more in each", number(0), number(1), number(2));
    // A third of them, but for those at the end of the day.
    assert!(number(2) > 3000, "{found}");
}

/// Three ranks of a real program in a ring: each waits for the one behind it, and nobody sends.
#[test]
fn page_draws_the_cycle_of_a_real_deadlock_and_top_has_it_in_words() {
    let Some(browser) = Browser::start("page-ring-browser", (1280, 800)) else { return };
    let site = Site::up("page-ring", 1, &["--slots", "3"]);
    let cluster = &site.cluster;
    let scratch = Scratch::new("page-ring-program");
    let program = compile("tests/cluster/programs/ring.c", scratch.path());
    let job = submit(cluster, &["-n", "3", program.to_str().expect("a path of text")]);
    browser.open(&link(cluster, &[&job]));
    let count =
        |part: &str| browser.run(&format!("return document.querySelectorAll('.waits {part}').length"));
    await_that("its ranks are drawn", || count("circle") == 3);
    assert_eq!(count("path"), 3);
    let label = browser.run("return document.querySelector('.waits').getAttribute('aria-label')");
    assert_eq!(label, "who waits for whom: rank 0 for rank 1, rank 1 for rank 2, rank 2 for rank 0");
    // The rank at which each arrow begins, and the one at which it ends, by what is nearest.
    let arrows = browser.run(
        "const circles = [...document.querySelectorAll('.waits circle')]; \
         const names = [...document.querySelectorAll('.waits text')].map((text) => text.textContent); \
         const nearest = (at) => { \
           const far = (one) => Math.hypot(one.cx.baseVal.value - at.x, one.cy.baseVal.value - at.y); \
           return names[circles.indexOf([...circles].sort((a, b) => far(a) - far(b))[0])]; }; \
         return [...document.querySelectorAll('.waits path')].map((path) => { \
           const shaft = document.createElementNS(path.namespaceURI, 'path'); \
           shaft.setAttribute('d', path.getAttribute('d').split('m')[0]); \
           return [nearest(shaft.getPointAtLength(0)), nearest(shaft.getPointAtLength(1e6))]; })",
    );
    assert_eq!(arrows, json!([["0", "1"], ["1", "2"], ["2", "0"]]));
    let words = "the ranks wait for each other for ever: rank 0 receives from rank 1, tag 7, MPI_COMM_WORLD; \
         rank 1 receives from rank 2, tag 7, MPI_COMM_WORLD; rank 2 receives from rank 0, tag 7, MPI_COMM_WORLD";
    let shown = browser.run("return document.querySelector('.waits').nextElementSibling.textContent");
    assert_eq!(shown, words);
    let top = cluster.tutti(&["top", "--once"]).expect_success().stdout;
    assert!(top.contains(&format!("\njob {job}: {words}\n")), "{top}");
    if let Some(axe) = peers::axe() {
        browser.run(&axe);
        let found = browser.run_later(
            "const done = arguments[0]; axe.run().then((found) => \
             done(found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html))))",
        );
        assert_eq!(found, json!([]));
    }
}
