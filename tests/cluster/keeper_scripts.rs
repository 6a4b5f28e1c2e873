//! Scripts of the keeper around jobs, and the keeper's command for mail.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tutti_testkit::{Need, skip};
use tutti_tests::keeper_folder::KeeperFolder;

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{LIMIT, await_that};

/// Scripts and a configuration of a keeper.
struct Keeper {
    folder: KeeperFolder,
}

impl Keeper {
    fn new(name: &str) -> Self {
        Keeper { folder: KeeperFolder::new(name) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A script; `$here` is this folder.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let text = format!("#!/bin/sh\nhere={}\n{text}\n", self.folder.path().display());
        std::fs::write(&path, text).expect("our folder");
        set_mode(&path, 0o755);
        path
    }

    /// The text of a configuration, as options of `tutti up`.
    fn configuration(&self, text: &str) -> [String; 2] {
        let path = self.path("tutti.toml");
        std::fs::write(&path, text).expect("our folder");
        ["--config".into(), path.to_str().expect("a path of text").into()]
    }

    fn up(&self, name: &str, nodes: u32, text: &str) -> Cluster {
        let [option, file] = self.configuration(text);
        let words = [&[option.as_str(), &file, "--slots", "1"], &SLOWLY_LOST[..]].concat();
        Cluster::up(name, nodes, &words)
    }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our file");
}

fn row(cluster: &Cluster, job: u32) -> Value {
    let rows: Value = serde_json::from_str(&cluster.job(job)).unwrap_or_default();
    rows[0].clone()
}

/// Why a node is drained; nothing where it is not.
fn drained(cluster: &Cluster, node: &str) -> String {
    let said = cluster.tutti(&["nodes", "--json"]).stdout;
    let rows: Value = serde_json::from_str(&said).unwrap_or_default();
    let mut rows = rows.as_array().into_iter().flatten();
    let row = rows.find(|row| row["name"] == node).cloned().unwrap_or_default();
    row["drained"]["why"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn prolog_is_over_before_the_ranks_begin_and_epilog_begins_behind_them() {
    let keeper = Keeper::new("keeper-around");
    let line = "echo $TUTTI_SCRIPT $TUTTI_NODE $TUTTI_JOBID $TUTTI_JOB_UID $TUTTI_JOB_NODES";
    let prolog = keeper.script("prolog", &format!("{line} >>$here/log"));
    // The epilog finds what the ranks have left.
    let epilog = keeper.script("epilog", &format!("{line} $(cat $here/left) >>$here/log"));
    let text = format!("[node]\nprolog = \"{}\"\nepilog = \"{}\"\n", prolog.display(), epilog.display());
    let cluster = keeper.up("keeper-around", 2, &text);
    let (log, left) = (keeper.path("log"), keeper.path("left"));
    let script = format!("cp {0} {0}.$TUTTI_RANK; echo x >{1}", log.display(), left.display());
    cluster.run(&["run", "-N", "2", "-n", "2", "sh", "-c", &script]).expect_success();
    let uid = rustix::process::geteuid().as_raw();
    let of = |what: &str, node: u32| format!("{what} node{node} 1 {uid} node0,node1");
    for rank in 0..2 {
        let seen = keeper.read(&format!("log.{rank}"));
        let mut lines: Vec<&str> = seen.lines().collect();
        lines.sort_unstable();
        assert!(lines.contains(&of("prolog", rank).as_str()), "{seen}");
        assert!(!seen.contains("epilog"), "{seen}");
    }
    await_that("both epilogs have run", || keeper.read("log").matches("epilog").count() == 2);
    let seen = keeper.read("log");
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable();
    let epilogs = [0, 1].map(|node| of("epilog", node) + " x");
    assert_eq!(lines, [&epilogs[0], &epilogs[1], &of("prolog", 0), &of("prolog", 1)]);
    // A plain mpiexec is no job of the daemons.
    let shown = cluster.tutti(&["config", "show"]).expect_success().stdout;
    assert!(shown.lines().any(|line| line.starts_with("node.prolog ")), "{shown}");
}

#[test]
fn node_whose_prolog_fails_is_drained_and_the_job_runs_elsewhere() {
    let keeper = Keeper::new("keeper-prolog");
    // The first node that runs it is the bad one, until `well` is there.
    let text = "mkdir $here/first 2>/dev/null && echo $TUTTI_NODE >$here/bad\n\
                [ -e $here/well ] || [ \"$(cat $here/bad)\" != $TUTTI_NODE ] || { echo bad disk; exit 3; }";
    let prolog = keeper.script("prolog", text);
    let cluster = keeper.up("keeper-prolog", 3, &format!("[node]\nprolog = \"{}\"\n", prolog.display()));
    let submit =
        |words: &[&str]| cluster.tutti(&[&["submit", "-o", "none"], words].concat()).expect_success();
    submit(&["-N", "2", "-n", "2", "true"]);
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 0);
    let bad = keeper.read("bad").trim().to_owned();
    let why = format!("node {bad}: the prolog {} has failed (exit status: 3): bad disk", prolog.display());
    assert_eq!(drained(&cluster, &bad), why);
    let again = row(&cluster, 2);
    let nodes = again["nodes"].as_array().expect("its nodes").clone();
    assert!(
        again["restart"]["count"] == 1 && nodes.len() == 2 && !nodes.contains(&bad.as_str().into()),
        "{again}"
    );
    assert!(cluster.job(1).contains("bad disk"), "{}", cluster.job(1));
    // One that needs the node waits for it.
    cluster.tutti(&["undrain", &bad]).expect_success();
    submit(&["--host", &bad, "-n", "1", "true"]);
    await_that("its successor waits for the node", || {
        row(&cluster, 4)["waits"] == "it needs 1 node, 0 are not drained (tutti nodes)"
    });
    std::fs::write(keeper.path("well"), "").expect("our folder");
    cluster.tutti(&["undrain", &bad]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "3"]).code(), 0);
    assert_eq!(drained(&cluster, &bad), "");
}

#[test]
fn prolog_that_is_late_or_not_wanted_is_ended() {
    let keeper = Keeper::new("keeper-late");
    let prolog = keeper.script("prolog", "echo $$ >>$here/pids; exec sleep 1000");
    let text = |time: &str| format!("[node]\nprolog = \"{}\"\nscript_time = \"{time}\"\n", prolog.display());
    let cluster = keeper.up("keeper-late", 1, &text("1s"));
    let ran = cluster.run(&["run", "-n", "1", "true"]);
    let why = format!("node node0: the prolog {} was not over after 1 s", prolog.display());
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, format!("tutti run: {why}\n").as_str()));
    assert_eq!(drained(&cluster, "node0"), why);
    drop(cluster);
    let _ = std::fs::remove_file(keeper.path("pids"));
    let cluster = keeper.up("keeper-killed", 1, &text("1h"));
    cluster.tutti(&["submit", "-o", "none", "-n", "1", "true"]).expect_success();
    await_that("the prolog runs", || keeper.read("pids").ends_with('\n'));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 137);
    let pid = keeper.read("pids").trim().to_owned();
    await_that("the prolog is gone", || !Path::new("/proc").join(&pid).exists());
    assert_eq!(drained(&cluster, "node0"), "", "nothing is wrong with the node");
}

#[test]
fn node_whose_epilog_fails_is_drained_and_the_job_keeps_its_status() {
    let keeper = Keeper::new("keeper-epilog");
    let epilog = keeper.script("epilog", "echo cannot clean >&2; exit 1");
    let cluster = keeper.up("keeper-epilog", 2, &format!("[node]\nepilog = \"{}\"\n", epilog.display()));
    cluster.tutti(&["submit", "-o", "none", "--host", "node1", "-n", "1", "true"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 0);
    let why = format!("the epilog {} has failed (exit status: 1): cannot clean", epilog.display());
    await_that("the node is drained", || drained(&cluster, "node1") == why);
    assert_eq!(drained(&cluster, "node0"), "");
    assert_eq!(row(&cluster, 1)["status"], 0);
}

#[test]
fn script_that_others_may_change_is_refused_in_one_line() {
    let keeper = Keeper::new("keeper-refused");
    let script = keeper.script("script", "exit 0");
    set_mode(&script, 0o777);
    for key in ["[node]\nprolog", "[node]\nepilog", "[cluster]\nmail"] {
        let [option, file] = keeper.configuration(&format!("{key} = \"{}\"\n", script.display()));
        let ran = Cluster::try_up("keeper-refused", &[&option, &file]);
        let what = key.rsplit('\n').next().expect("a name");
        let line = format!("{what} {}: others may write to ", script.display());
        assert!(ran.code() != 0 && ran.stderr.contains(&line), "{ran}");
    }
}

#[test]
fn mail_is_sent_as_the_user_of_the_job() {
    let keeper = Keeper::new("keeper-mail");
    let letters = keeper.path("letters");
    std::fs::create_dir(&letters).expect("our folder");
    set_mode(&letters, 0o1777);
    // Each letter whole, under a name that is there when it is.
    let text = "f=$here/letters/$$; { id -u; echo \"$# $1|$2|$3\"; cat; } >$f.new; mv $f.new $f.letter";
    let mail = keeper.script("mail", text);
    let cluster = keeper.up("keeper-mail", 1, &format!("[cluster]\nmail = \"{}\"\n", mail.display()));
    let all = || {
        let files = std::fs::read_dir(&letters).expect("our folder").flatten();
        let letters = files.filter(|file| file.path().extension().is_some_and(|end| end == "letter"));
        let mut texts: Vec<String> =
            letters.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
        texts.sort();
        texts
    };
    let to = "me+x@example.org";
    let submit = |words: &[&str]| cluster.tutti(&[&["submit", "-o", "none"], words].concat());
    submit(&["--mail-type", "BEGIN,end", "--mail-user", to, "-J", "mesh", "-n", "1", "true"])
        .expect_success();
    await_that("two letters are there", || all().len() == 2);
    let uid = rustix::process::geteuid().as_raw();
    let texts = all();
    let lines: Vec<Vec<&str>> = texts.iter().map(|text| text.lines().collect()).collect();
    let subject = |what: &str| format!("3 -s|Tutti: job 1 (mesh) {what}|{to}");
    assert_eq!(lines[0][..2], [uid.to_string(), subject("has begun")]);
    assert_eq!(lines[1][..2], [uid.to_string(), subject("has ended with status 0")]);
    assert!(
        texts[1].contains("\ncommand   true\n") && texts[1].contains("\nnodes     node0\n"),
        "{}",
        texts[1]
    );
    // One letter of an end, and none that nobody wants.
    submit(&["--mail-type", "ALL", "-n", "1", "false"]).expect_success();
    submit(&["--mail-type", "FAIL", "-n", "1", "true"]).expect_success();
    submit(&["-n", "1", "false"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "3"]).code(), 0);
    assert_eq!(cluster.tutti(&["wait", "4"]).code(), 1);
    await_that("two more are there", || all().len() == 4);
    let user = tutti_tests::run(std::process::Command::new("id").arg("-un"), LIMIT).stdout;
    let failed = format!("Tutti: job 2 has failed with status 1|{}", user.trim());
    assert!(all().iter().any(|text| text.contains(&failed)), "{:?}", all());
    let ran = submit(&["--mail-type", "END", "--mail-user", "-Sx", "-n", "1", "true"]);
    assert!(ran.code() == 2 && ran.stderr.contains("--mail-user"), "{ran}");
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root's daemon sends mail of others");
        return;
    }
    let words = ["submit", "-o", "none", "--mail-type", "END", "--mail-user", to, "-n", "1", "true"];
    let mut command = cluster.command(&words);
    tutti_tests::run(command.uid(54321).gid(54321).current_dir("/"), LIMIT).expect_success();
    await_that("it is sent as that user", || all().iter().any(|text| text.starts_with("54321\n3 -s|")));
    chown(&mail, Some(54321), None).expect("our file");
    submit(&["--mail-type", "END", "-n", "1", "true"]).expect_success();
    let log = || std::fs::read_to_string(cluster.folder.join("node0.log")).unwrap_or_default();
    await_that("a line says why it is not", || {
        log().contains("the mail about job 6 is not sent: ") && log().contains("user 54321 owns ")
    });
}
