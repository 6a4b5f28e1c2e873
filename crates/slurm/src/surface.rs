//! The table of Slurm's surface (`docs/internals/slurm-surface.md`) against the code: every option, field and
//! state is in both, and behaves as the table says.

use std::collections::BTreeSet;

use crate::getopt::{self, Ends, Spec};
use crate::wanted::{Treatment, treatment};
use crate::{accounts, sacct, scancel, scontrol, sinfo, squeue, view, wanted};

const TABLE: &str = include_str!("../../../docs/internals/slurm-surface.md");

/// Cells of the rows below a heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let part = TABLE.split("\n## ").find_map(|part| part.strip_prefix(heading)).expect("the heading");
    let lines = part.lines().filter(|line| line.starts_with("| ")).skip(1);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn words(cell: &str) -> Vec<String> {
    cell.split(['`', ' ', '/']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Options of a command as the table has them, each with what becomes of it.
fn options(command: &str) -> BTreeSet<(String, &'static str)> {
    let own = rows("Options").into_iter().filter(|row| row[0] == command);
    own.flat_map(|row| words(row[2]).into_iter().map(move |word| (word, row[1]))).collect()
}

fn spelled(specs: &[Spec], of: impl Fn(&str) -> &'static str) -> BTreeSet<(String, &'static str)> {
    let all = specs.iter().flat_map(|(name, letter, _)| {
        let letter = (*letter != '\0').then(|| format!("-{letter}"));
        std::iter::once(format!("--{name}")).chain(letter).map(|word| (word, of(name))).collect::<Vec<_>>()
    });
    all.collect()
}

#[test]
fn surface_of_submitting_commands_is_the_tables() {
    let of = |name: &str| match treatment(name) {
        Treatment::Works => "works",
        Treatment::Holds => "holds",
        Treatment::Said => "said",
        Treatment::Refused => "refused",
    };
    assert_eq!(spelled(wanted::SPECS, of), options("sbatch, srun, salloc"));
}

#[test]
fn surface_of_listing_commands_is_the_tables() {
    type Read = fn(&getopt::Line) -> Result<(), String>;
    let commands: [(&str, &[Spec], Read); 4] = [
        ("squeue", squeue::SPECS, |line| squeue::read(&line.options, &mut Vec::new()).map(drop)),
        ("sacct", sacct::SPECS, |line| sacct::read(line).map(drop)),
        ("scancel", scancel::SPECS, |line| scancel::read(line).map(drop)),
        ("sinfo", sinfo::SPECS, |line| sinfo::list(&line.options, &[]).map(drop)),
    ];
    for (command, specs, read) in commands {
        let table = options(command);
        let names: BTreeSet<String> = spelled(specs, |_| "").into_iter().map(|(word, _)| word).collect();
        assert_eq!(names, table.iter().map(|(word, _)| word.clone()).collect(), "{command}");
        for (name, _, takes) in specs {
            let value = match *name {
                "format" if command == "sacct" => "State",
                "format" => "%t",
                "Format" => "state",
                "jobs" | "steps" => "1",
                "user" | "uid" => "0",
                "states" if command == "sinfo" => "idle",
                "states" | "state" => "R",
                "starttime" | "endtime" => "now",
                "units" => "K",
                "signal" => "TERM",
                "sort" => "i",
                "clusters" => "tutti",
                _ => "x",
            };
            let word = match takes {
                getopt::Takes::Value => format!("--{name}={value}"),
                getopt::Takes::Nothing => format!("--{name}"),
                getopt::Takes::Maybe => format!("--{name}={value}"),
            };
            let line = getopt::parse(specs, &[word], Ends::AtDashes).expect(name);
            let is_refused = table.contains(&(format!("--{name}"), "refused"));
            assert_eq!(read(&line).is_err(), is_refused, "{command} --{name}: {:?}", read(&line));
        }
    }
    let names: BTreeSet<String> =
        spelled(scontrol::SPECS, |_| "").into_iter().map(|(word, _)| word).collect();
    assert_eq!(names, options("scontrol").into_iter().map(|(word, _)| word).collect());
    for (command, specs) in [("sacctmgr", accounts::MANAGER_SPECS), ("sshare", accounts::SHARE_SPECS)] {
        let names: BTreeSet<String> = spelled(specs, |_| "").into_iter().map(|(word, _)| word).collect();
        assert_eq!(names, options(command).into_iter().map(|(word, _)| word).collect(), "{command}");
    }
}

#[test]
fn surface_of_fields_and_states_is_the_tables() {
    let fields = |command: &str| {
        let row = rows("Fields").into_iter().find(|row| row[0] == command).expect("the row");
        row[1].split(' ').map(|word| word.trim_matches('`').to_owned()).collect::<Vec<_>>()
    };
    let letter = |text: &String| text.chars().next().expect("a letter");
    for field in fields("squeue -o") {
        assert!(squeue::title(letter(&field)).is_some(), "{field}");
    }
    let all = (' '..='~').filter(|letter| squeue::title(*letter).is_some()).count();
    assert_eq!(fields("squeue -o").len(), all, "every letter that squeue has");
    let all = (' '..='~').filter(|letter| sinfo::title(*letter).is_some()).count();
    assert_eq!(fields("sinfo -o").len(), all, "every letter that sinfo has");
    let nodes = [sinfo::tests::node(0, 0, true)];
    let named = |option: &'static str, value: String| sinfo::list(&[(option, value)], &nodes);
    for field in fields("sinfo -o") {
        assert!(named("format", format!("%{field}")).is_ok(), "{field}");
    }
    for field in fields("sinfo -O") {
        assert!(named("Format", field.clone()).is_ok(), "{field}");
    }
    for field in fields("squeue -O") {
        assert!(squeue::read(&[("Format", field.clone())], &mut Vec::new()).is_ok(), "{field}");
    }
    let columns: Vec<String> = sacct::columns::COLUMNS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(fields("sacct -o"), columns);
    let states: Vec<[&str; 2]> = view::STATES.iter().map(|(_, long, short)| [*long, *short]).collect();
    assert_eq!(rows("States"), states);
}

#[test]
fn surface_of_texts_is_seen_by_tests_that_there_are() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/slurm");
    let files = std::fs::read_dir(folder).expect("the tests").flatten();
    let sources: String = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    for row in rows("Texts") {
        let name = row[1].trim_matches('`');
        assert!(sources.contains(&format!("fn {name}(")), "{name} is no test of tests/slurm");
    }
}
