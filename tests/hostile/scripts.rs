//! Scripts and the command for mail that root's daemon runs around the jobs of hostile users: they end when
//! the daemon is killed, they are few, and no word of a user's gets into them.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::keeper_folder::KeeperFolder;

use crate::Machine;
use crate::harness::await_that;

/// Users: the attacked one, and the attacker.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Jobs that end at once, and epilogs that run at a time for one user.
const JOBS: usize = 12;
const OF_ACCOUNT_MAX: usize = 4;
/// Daemons in turn until all epilogs have begun, at most.
const RESTARTS_MAX: usize = 4;

/// Daemons of root's with scripts.
struct Kept {
    machine: Machine,
    folder: KeeperFolder,
}

impl Kept {
    /// `scripts` have a key of the configuration and a text, in which `$here` is a folder of root's; `more`
    /// are other lines of the section of the first one. None, with a line, when this is not root.
    #[track_caller]
    fn up(name: &str, scripts: &[(&str, &str)], more: &str) -> Option<Self> {
        let folder = KeeperFolder::new(name);
        let mut configuration = String::new();
        for (key, text) in scripts {
            let (section, key) = key.split_once('.').expect("a section and a key");
            let path = folder.path().join(key);
            let text = format!("#!/bin/sh\nhere={}\n{text}\n", folder.path().display());
            std::fs::write(&path, text).expect("our folder");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .expect("our file");
            if !configuration.contains(&format!("[{section}]")) {
                configuration.push_str(&format!("[{section}]\n{more}\n"));
            }
            configuration.push_str(&format!("{key} = \"{}\"\n", path.display()));
        }
        let file = folder.path().join("tutti.toml");
        std::fs::write(&file, configuration).expect("our folder");
        let more = ["--config", file.to_str().expect("a path of text"), "--slots", "2"];
        let machine = Machine::up(name, 1, 2, &more)?;
        Some(Kept { machine, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lines of a file, as many as there are now.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Pids that a script has written, each on a line of its own.
    #[track_caller]
    fn await_pids(&self, count: usize) -> Vec<Pid> {
        await_that("the script runs", || self.lines("pids").len() == count);
        let pids = self.lines("pids");
        pids.iter().map(|pid| pid.parse().ok().and_then(Pid::from_raw).expect("a pid")).collect()
    }
}

fn is_there(pid: Pid) -> bool {
    Path::new("/proc").join(pid.as_raw_nonzero().to_string()).exists()
}

/// A prolog, what it waits for, and what has left its group of processes.
const LONG: &str = "setsid sh -c 'echo $$ >>'$here'/pids; exec sleep 1000' &\n\
    sh -c 'echo $$ >>'$here'/pids; exec sleep 1000' &\necho $$ >>$here/pids; wait";

#[test]
fn prolog_of_a_daemon_that_is_killed_ends_with_all_that_it_has_started() {
    let more = "script_time = \"1h\"";
    let Some(kept) = Kept::up("hostile-prolog", &[("node.prolog", LONG)], more) else { return };
    kept.machine.submit(HOSTILE, &["-o", "none", "-n", "1", "true"]);
    let pids = kept.await_pids(3);
    assert!(pids.iter().all(|pid| is_there(*pid)));
    let gone = kept.machine.cluster.kill_daemon(0);
    await_that("nothing is left of it", || !pids.iter().any(|pid| is_there(*pid)));
    gone.start();
    await_that("another daemon answers", || kept.machine.tutti(HONEST, &["ps"]).code() == 0);
    kept.machine.cluster.tutti(&["kill", "--user", &kept.machine.uid(HOSTILE).to_string()]);
}

#[test]
fn epilog_of_a_daemon_that_is_killed_goes_on_and_has_an_end() {
    let text = "echo $$ >>$here/pids; until [ -e $here/go ]; do sleep 0.05; done; echo over >>$here/over";
    let more = "script_time = \"1h\"";
    let Some(kept) = Kept::up("hostile-epilog", &[("node.epilog", text)], more) else { return };
    kept.machine.submit(HOSTILE, &["-o", "none", "-n", "1", "true"]);
    let pids = kept.await_pids(1);
    let gone = kept.machine.cluster.kill_daemon(0);
    assert!(is_there(pids[0]), "it goes on");
    std::fs::write(kept.path("go"), "").expect("our folder");
    await_that("it has done its work", || kept.lines("over") == ["over"] && !is_there(pids[0]));
    gone.start();
    drop(kept);
    // One that does not end is killed, if not by its daemon then some seconds later by its runner.
    let more = "script_time = \"3s\"";
    let Some(kept) = Kept::up("hostile-epilog-end", &[("node.epilog", LONG)], more) else { return };
    kept.machine.submit(HOSTILE, &["-o", "none", "-n", "1", "true"]);
    let pids = kept.await_pids(3);
    let gone = kept.machine.cluster.kill_daemon(0);
    await_that("nothing is left of it", || !pids.iter().any(|pid| is_there(*pid)));
    gone.start();
}

/// Jobs that end faster than the node is cleaned cost their user turns, and nobody else.
#[test]
fn epilogs_of_a_user_are_few_and_delay_no_other_user() {
    let text = "echo $TUTTI_JOB_UID >>$here/began; until [ -e $here/go ]; do sleep 0.1; done";
    let more = "script_time = \"1h\"";
    let Some(kept) = Kept::up("hostile-epilogs", &[("node.epilog", text)], more) else { return };
    let machine = &kept.machine;
    let of = |user: usize| {
        let uid = machine.uid(user).to_string();
        kept.lines("began").iter().filter(|line| **line == uid).count()
    };
    let jobs: Vec<u32> =
        (0..JOBS).map(|_| machine.submit(HOSTILE, &["-o", "none", "-n", "1", "true"])).collect();
    await_that("some of its epilogs run", || of(HOSTILE) == OF_ACCOUNT_MAX);
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    await_that("another's runs beside them", || of(HONEST) == 1);
    let is_over = |job: &u32| machine.row(*job)["state"] == "over";
    await_that("an epilog waits", || jobs.iter().filter(|job| is_over(job)).count() > OF_ACCOUNT_MAX);
    assert_eq!(of(HOSTILE), OF_ACCOUNT_MAX);
    // No more of its jobs begin, and one of those can be ended.
    let [next, ended] = [(); 2].map(|()| machine.submit(HOSTILE, &["-o", "none", "-n", "1", "true"]));
    machine.tutti(HOSTILE, &["kill", &ended.to_string()]).expect_success();
    await_that("one that has not begun ends", || is_over(&ended));
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    await_that("another's runs beside them", || of(HONEST) == 2);
    assert!(!is_over(&next) && of(HOSTILE) == OF_ACCOUNT_MAX, "{}", machine.row(next));
    std::fs::write(kept.path("go"), "").expect("our folder");
    await_that("each has its epilog in the end", || of(HOSTILE) == JOBS + 1 && jobs.iter().all(is_over));
}

/// Parts that wait, and those whose starters end while there is no daemon.
#[test]
fn epilogs_that_have_not_begun_are_begun_by_the_next_daemon() {
    let text = "echo $TUTTI_JOBID >>$here/began; until [ -e $here/go ]; do sleep 0.1; done\n\
                echo $TUTTI_JOBID >>$here/over";
    let more = "script_time = \"1h\"";
    let Some(kept) = Kept::up("hostile-epilogs-next", &[("node.epilog", text)], more) else { return };
    let machine = &kept.machine;
    let gate = machine.users.root().join("gate");
    let waits = format!("until [ -e {} ]; do sleep 0.05; done", gate.display());
    let submit = |script: &str| machine.submit(HOSTILE, &["-o", "none", "-n", "1", "sh", "-c", script]);
    let stays = submit("sleep 1000");
    let mut jobs: Vec<u32> = (0..2 * OF_ACCOUNT_MAX).map(|_| submit(&waits)).collect();
    jobs.iter().chain([&stays]).for_each(|job| machine.await_state(*job, "running"));
    std::fs::write(&gate, "").expect("our folder");
    // One may have two where the daemon is killed as it begins: the second one takes a place as well.
    let lines = |name: &str| kept.lines(name).len();
    let numbers = |name: &str| -> std::collections::BTreeSet<u32> {
        kept.lines(name).iter().map(|line| line.parse().expect("a number of a job")).collect()
    };
    await_that("some of its epilogs run", || lines("began") == OF_ACCOUNT_MAX);
    let gone = machine.cluster.kill_daemon(0);
    for process in machine.users.processes_by_status(machine.uid(HOSTILE)) {
        let _ = kill_process(process, Signal::KILL);
    }
    gone.start();
    jobs.push(stays);
    jobs.sort_unstable();
    let have_all_begun = || numbers("began").iter().eq(jobs.iter());
    await_that("others run under the next daemon", || lines("began") == 2 * OF_ACCOUNT_MAX);
    assert!(numbers("began").len() > OF_ACCOUNT_MAX, "{:?}", kept.lines("began"));
    // Each one that is killed as an epilog begins leaves one of the next one's places to that.
    for _ in 0..RESTARTS_MAX {
        if have_all_begun() {
            break;
        }
        let before = lines("began");
        machine.cluster.kill_daemon(0).start();
        await_that("more run under another", || {
            lines("began") == before + OF_ACCOUNT_MAX || have_all_begun()
        });
    }
    assert!(have_all_begun(), "{:?}", kept.lines("began"));
    std::fs::write(kept.path("go"), "").expect("our folder");
    await_that("all have done their work", || numbers("over").iter().eq(jobs.iter()));
    let left = || std::fs::read_dir(machine.cluster.folder.join("node0.epilogs")).expect("a folder").count();
    await_that("no file of them is left", || left() == 0);
    // Nor does a daemon after that begin one.
    let lines = kept.lines("began");
    machine.cluster.kill_daemon(0).start();
    await_that("it answers", || machine.tutti(HONEST, &["ps"]).code() == 0);
    assert_eq!(kept.lines("began"), lines);
}

/// Scripts run as root: what a user says of a job is not in their environment, nor on their command line.
#[test]
fn scripts_have_no_word_of_a_users() {
    let text = "{ env; echo \"arguments $#\"; } >$here/seen.new; mv $here/seen.new $here/seen";
    let Some(kept) = Kept::up("hostile-words", &[("node.prolog", text)], "") else { return };
    let script = "export LD_PRELOAD= BASH_ENV=/tmp/evil ENV=/tmp/evil PATH=/tmp/evil:$PATH \
        TUTTI_NODE=evil TUTTI_JOBID=evil PS4='$(touch /tmp/evil)'; exec $tutti submit -o none \
        -J 'evil\nTUTTI_JOBID=evil' -n 1 echo evil";
    tutti_tests::run(&mut kept.machine.script(HOSTILE, script), tutti_tests::LIMIT).expect_success();
    await_that("the prolog has run", || !kept.lines("seen").is_empty());
    let seen = kept.lines("seen");
    assert!(!seen.iter().any(|line| line.contains("evil")), "{seen:?}");
    assert!(seen.contains(&"arguments 0".to_owned()) && seen.contains(&"TUTTI_NODE=node0".to_owned()));
    let uid = kept.machine.uid(HOSTILE).to_string();
    assert!(seen.contains(&format!("TUTTI_JOB_UID={uid}")), "{seen:?}");
    // Nor may a user reserve nodes, or name what the daemon runs.
    for words in [&["reserve", "--name", "mine", "--for", "1h", "--host", "node0"][..], &["unreserve", "x"]] {
        assert_ne!(kept.machine.tutti(HOSTILE, words).code(), 0, "{words:?}");
    }
}

#[test]
fn mail_that_its_user_stops_delays_no_other_user() {
    // What is a user's that user may stop.
    let text = "f=/tmp/tutti-hostile-mail.$(id -u).$$; \
        { id -u; ulimit -Hn; cat /proc/self/oom_score_adj; echo \"$# $1|$2|$3\"; } >$f; mv $f $f.letter; \
        [ \"$3\" = stops ] && kill -STOP $$; exit 0";
    let Some(kept) = Kept::up("hostile-mail", &[("cluster.mail", text)], "") else { return };
    let machine = &kept.machine;
    let letters = |user: usize| -> Vec<String> {
        let name = format!("tutti-hostile-mail.{}.", machine.uid(user));
        let files = std::fs::read_dir("/tmp").expect("/tmp").flatten().map(|file| file.path());
        let is_its = |path: &PathBuf| {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            file.starts_with(&name) && file.ends_with(".letter")
        };
        files.filter(is_its).filter_map(|path| std::fs::read_to_string(path).ok()).collect()
    };
    let script = format!(
        "ulimit -n 177; for i in $(seq {JOBS}); do $tutti submit -o none --mail-type END --mail-user stops \
         -J 'a\nBcc: root' -n 1 true; done"
    );
    tutti_tests::run(&mut machine.script(HOSTILE, &script), tutti_tests::LIMIT).expect_success();
    await_that("its first mail is being sent", || letters(HOSTILE).len() == 1);
    let words = ["-o", "none", "--mail-type", "END", "--mail-user", "me@example.org", "-n", "1", "true"];
    machine.submit(HONEST, &words);
    await_that("another's is sent beside it", || letters(HONEST).len() == 1);
    assert_eq!(letters(HOSTILE).len(), 1, "of one user one after the other");
    let letter = letters(HOSTILE).remove(0);
    let lines: Vec<&str> = letter.lines().collect();
    assert_eq!(lines[..2], [&machine.uid(HOSTILE).to_string(), "177"], "with its limits: {letter}");
    assert!(lines[2].parse::<i32>().is_ok_and(|score| score >= 0), "{letter}");
    assert!(lines.len() == 4 && lines[3].starts_with("3 -s|Tutti: job "), "one line: {letter:?}");
    // No option, no other header, no shell's words.
    let request = machine.request(HOSTILE, &[&["submit"], &words[..]].concat()).to_string();
    for to in ["-oQ/tmp", "a\\nBcc: root", "a b", "|sh", "$(sh)", "/tmp/x", "a\\u0000"] {
        let asked = request.replace("me@example.org", to);
        assert_ne!(asked, request);
        let (_, answer) = machine.ask_text(HOSTILE, &asked);
        assert!(answer["Refused"].as_str().is_some_and(|why| why.contains("--mail-user")), "{to}: {answer}");
    }
    for process in machine.users.processes(machine.uid(HOSTILE)) {
        let _ = kill_process(process, Signal::KILL);
    }
    await_that("the next one is sent", || letters(HOSTILE).len() > 1);
    machine.cluster.tutti(&["kill", "--user", &machine.uid(HOSTILE).to_string()]);
    for user in [HONEST, HOSTILE] {
        let name = format!("tutti-hostile-mail.{}.", machine.uid(user));
        for file in std::fs::read_dir("/tmp").expect("/tmp").flatten() {
            if file.file_name().to_string_lossy().starts_with(&name) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }
}
