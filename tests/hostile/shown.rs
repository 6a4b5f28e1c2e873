//! Names and commands of a user's jobs, as root's commands and the daemon's log show them.

use tutti_os::stderr::is_deceptive;
use tutti_tests::{LIMIT, Ran, run};

use crate::Machine;

const HOSTILE: usize = 0;
/// Clears the screen, names the window, hides, turns, and begins a line that looks like another job's.
pub const DECEPTION: &str =
    "\u{1b}[2J\u{1b}]0;mine\u{7}\r\u{202e}evil\u{2028}\u{200b}\u{9b}1m\n99 over(0) root\u{feff}";

/// A request with a text in place of a word.
fn with(request: &serde_json::Value, word: &str, text: &str) -> String {
    let text = serde_json::to_string(text).expect("text");
    request.to_string().replace(word, text.trim_matches('"'))
}

/// Note such as the stand-ins for Slurm's commands keep with a job, which a user has kept without them.
fn note() -> String {
    let texts = ["comment", "account", "dependency", "folder", "script", "submit_host"];
    let note: serde_json::Map<String, serde_json::Value> =
        texts.map(|name| (name.to_owned(), DECEPTION.into())).into_iter().collect();
    serde_json::Value::from(note).to_string()
}

#[track_caller]
pub fn assert_shows_its_text(what: &str, text: &str) {
    let found = text.chars().find(|letter| is_deceptive(*letter) && *letter != '\n');
    assert_eq!(found, None, "{what}: {}", text.escape_debug());
    assert!(
        !text.lines().any(|line| line.starts_with("99 over(0)")),
        "{what} has a line of a user's: {text}"
    );
}

#[test]
fn names_and_commands_of_a_user_deceive_no_reader_of_any_command() {
    let Some(machine) = Machine::up("hostile-shown", 1, 1, &[]) else { return };
    let words = ["submit", "-o", "none", "--name", "NAMEHERE", "-n", "1", "sleep", "1000", "ARGUMENTHERE"];
    let request = machine.request(HOSTILE, &words);
    // A name of that kind is refused, or shown as what it is.
    let named = serde_json::from_str(&with(&request, "NAMEHERE", DECEPTION)).expect("JSON");
    let refused = machine.ask(HOSTILE, &named).1["Refused"].as_str().map(str::to_owned);
    assert_shows_its_text("the refusal", refused.as_deref().unwrap_or_default());
    let mut request = request;
    assert!(request["Submit"]["batch"]["annotation"].is_string(), "{request}");
    request["Submit"]["batch"]["annotation"] = note().into();
    let (_kept, answer) = machine.ask_text(HOSTILE, &with(&request, "ARGUMENTHERE", DECEPTION));
    let runs = answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    // One whose program is not there: it is named in why it has ended.
    run(&mut machine.script(HOSTILE, "cp /bin/true PROGRAMHERE"), LIMIT).expect_success();
    let request = machine.request(HOSTILE, &["submit", "-o", "none", "-n", "1", "./PROGRAMHERE"]);
    let (_kept, answer) = machine.ask_text(HOSTILE, &with(&request, "PROGRAMHERE", DECEPTION));
    let ended = answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    machine.await_state(ended as u32, "over");
    let [runs, ended] = [runs, ended].map(|job| job.to_string());
    let commands: [&[&str]; 16] = [
        &["ps", "--all"],
        &["ps", "--all", "-l"],
        &["status", &runs],
        &["status", &ended],
        &["why", &runs],
        &["why", &ended],
        &["account"],
        &["advise"],
        &["prices"],
        &["nodes"],
        &["board"],
        &["top", "--once"],
        &["wait", &ended],
        &["timeline", "--all", "-o", "-"],
        &["services"],
        &["suspend", &runs],
    ];
    let check = |what: &str, ran: &Ran| {
        assert_shows_its_text(what, &ran.stdout);
        assert_shows_its_text(what, &ran.stderr);
    };
    for words in commands {
        check(&words.join(" "), &machine.cluster.tutti(words));
    }
    let slurm: [&[&str]; 7] = [
        &["squeue"],
        &["squeue", "-o", "%i %j %k %o %Z %a %E"],
        &["squeue", "-O", "JobID,Comment:90,Command:90,WorkDir:90,Account:90,Dependency:90"],
        &["sacct"],
        &["sacct", "-P", "-o", "JobID,JobName,Account,Comment,WorkDir,SubmitLine"],
        &["scontrol", "show", "job", &runs],
        &["scontrol", "-o", "show", "job", &runs],
    ];
    for words in slurm {
        let path = machine.users.programs().join("share/tutti/slurm/bin").join(words[0]);
        let mut command = std::process::Command::new(path);
        check(words[0], &run(command.args(&words[1..]).env("TUTTI_DAEMON", machine.socket()), LIMIT));
    }
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("its log");
    assert_shows_its_text("the daemon's log", &log);
    machine.cluster.tutti(&["kill", "--user", &machine.uid(HOSTILE).to_string()]);
}
