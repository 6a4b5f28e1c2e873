//! The installed manual pages and completions are those of the programs beside them.

use std::process::Command;

use rustix::process::{Signal, kill_process};
use tutti_tests::{Scratch, dist, program, root};

use crate::harness::{LIMIT, Mark};

/// Sections that every page has.
const SECTIONS: [&str; 6] = ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "FILES", "EXIT STATUS"];

/// Each page below share/man, and the command lines whose options are on it.
const PAGES: [(&str, &[&[&str]]); 5] = [
    ("man1/mpiexec.1", &[&["mpiexec"]]),
    ("man1/tutti-run.1", &[&["tutti", "run"]]),
    ("man1/tutti-submit.1", &[&["tutti", "submit"]]),
    (
        "man1/tutti.1",
        &[
            &["tutti", "wait"],
            &["tutti", "ps"],
            &["tutti", "top"],
            &["tutti", "status"],
            &["tutti", "nodes"],
            &["tutti", "snapshot"],
            &["tutti", "timeline"],
            &["tutti", "trace-op"],
            &["tutti", "doctor"],
            &["tutti", "machine"],
            &["tutti", "attach"],
            &["tutti", "logs"],
            &["tutti", "suspend"],
            &["tutti", "resume"],
            &["tutti", "signal"],
            &["tutti", "kill"],
            &["tutti", "up"],
            &["tutti", "down"],
            &["tutti", "keygen"],
            &["tutti", "completion"],
            &["tutti", "man"],
            &["tutti", "version"],
        ],
    ),
    ("man8/tuttid.8", &[&["tuttid"]]),
];

/// A page as its reader sees it, about.
fn page(place: &str) -> String {
    let path = dist().join("share/man").join(place);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    ["\\fB", "\\fI", "\\fR"].iter().fold(text, |text, mark| text.replace(mark, "")).replace("\\-", "-")
}

fn help(words: &[&str]) -> String {
    let mut command: Command = program(words[0]);
    tutti_tests::run(command.args(&words[1..]).arg("--help"), LIMIT).expect_success().stdout
}

/// The spellings of options at the left of a text of `--help`.
fn options_in(help: &str) -> Vec<&str> {
    // Further in is text.
    let left = help.lines().map(|line| (line, line.trim_start()));
    let left = left.filter(|(line, text)| text.starts_with('-') && line.len() - text.len() <= 6);
    let left = left.map(|(_, text)| text.split("  ").next().unwrap_or(text));
    left.flat_map(|line| line.split([' ', ',']))
        .filter(|word| word.starts_with('-') && *word != "-?")
        .collect()
}

#[test]
fn manual_pages_have_their_sections() {
    for (place, _) in PAGES {
        let text = page(place);
        for section in SECTIONS {
            assert!(text.contains(&format!("\n.SH {section}\n")), "{place} has no {section}");
        }
    }
}

#[test]
fn manual_pages_have_every_option_of_help() {
    for (place, commands) in PAGES {
        let text = page(place);
        let words: Vec<&str> = text.split([' ', ',', '\n', '.', '|', '[', ']', '(', ')']).collect();
        for command in commands {
            let help = help(command);
            let options = options_in(&help);
            assert!(!options.is_empty(), "{command:?} has no --help");
            for option in options {
                // One dash and two mean the same for a job; clap prints two before a word.
                let spellings = [option.to_owned(), format!("-{option}")];
                let is_there = spellings.iter().any(|option| words.contains(&option.as_str()));
                assert!(is_there, "{option} of {command:?} is not in {place}");
            }
        }
    }
}

#[test]
fn manual_page_explains_every_command_and_state() {
    let text = page("man1/tutti.1");
    for line in help(&["tutti"]).lines().filter_map(|line| line.strip_prefix("  ")) {
        let name = line.split(' ').next().expect("a word");
        assert!(text.contains(&format!("\n.SS {name}\n")), "tutti {name} is not in the page");
    }
    let (_, states) = text.split_once("\n.SH JOB STATES\n").expect("a section");
    let ps = tutti_tests::run(program("tutti").args(["ps", "--state", "unknown"]), LIMIT);
    let (_, known) = ps.stderr.split_once("[possible values: ").expect("the refusal lists the states");
    for state in known.split(']').next().expect("an end").split(", ") {
        assert!(states.contains(&format!("\n.B {state}\n")), "{state} is not explained");
    }
}

#[test]
fn completions_are_installed_for_every_shell() {
    for name in ["mpiexec", "mpirun", "tutti", "tuttid"] {
        for place in [
            format!("bash-completion/completions/{name}"),
            format!("zsh/site-functions/_{name}"),
            format!("fish/vendor_completions.d/{name}.fish"),
        ] {
            let text = std::fs::read_to_string(dist().join("share").join(&place)).expect(&place);
            let option = if name == "tuttid" { "lost-after" } else { "virtual-nodes" };
            assert!(text.contains(option), "{place} has no --{option}");
        }
    }
}

#[test]
fn completion_of_bash_offers_options_and_programs() {
    let offered = |words: &[&str]| {
        let name = words[0];
        let script = format!(
            "compopt() {{ :; }}; . {}; COMP_WORDS=({}); COMP_CWORD={}; _{name}_or_program {name} '{}' '{}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            dist().join("share/bash-completion/completions").join(name).display(),
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        tutti_tests::run(Command::new("bash").args(["--norc", "-c", &script]), LIMIT).expect_success().stdout
    };
    for (words, expected) in [
        (&["mpiexec", "--virt"][..], "--virtual-nodes"),
        (&["mpirun", "-n", "4", "bas"], "bash"),
        (&["tutti", "sus"], "suspend"),
        (&["tutti", "run", "-n", "4", "bas"], "bash"),
        (&["tutti", "ps", "--state", "run"], "running"),
    ] {
        assert!(offered(words).lines().any(|line| line == expected), "{words:?}: {}", offered(words));
    }
}

/// The front door: what stands there is typed line by line, with fewer rounds.
#[test]
fn first_session_of_the_readme_runs_as_it_is_typed() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let session = readme.split("\n## A first session\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let session = session.expect("a first session");
    let typed: Vec<&str> = session.lines().filter_map(|line| line.strip_prefix("    $ ")).collect();
    assert!(typed.len() >= 10, "{typed:?}");
    let scratch = Scratch::new("first-session");
    std::os::unix::fs::symlink(root().join("examples"), scratch.path().join("examples"))
        .expect("the examples");
    std::fs::create_dir(scratch.path().join("target")).expect("a folder");
    std::os::unix::fs::symlink(dist(), scratch.path().join("target/dist")).expect("the tree");
    let script = typed.join("\n").replace(" 40000", " 8000");
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", &script]).current_dir(scratch.path()).env_remove("TUTTI_DAEMON");
    bash.env("TUTTI_DIR", scratch.path().join("run"));
    let mark = Mark::new();
    mark.on(&mut bash);
    let ran = tutti_tests::run(&mut bash, LIMIT);
    // The daemon that mpiexec starts goes by itself, later.
    for left in mark.processes() {
        let _ = kill_process(left, Signal::KILL);
    }
    mark.assert_nothing_left();
    let rounds = ran.stdout.lines().filter(|line| line.starts_with("8000 rounds in ")).count();
    assert_eq!(
        (ran.code(), rounds),
        (0, 4),
        "two at once, one of the cluster, one that was submitted: {ran}"
    );
}
