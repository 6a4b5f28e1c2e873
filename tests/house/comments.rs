//! Comments of the source: how long their lines are, and how they begin.

use std::path::{Path, PathBuf};

use tutti_tests::root;

/// Folders whose comments are wrapped: all that have code.
const WRAPPED: [&str; 5] = ["bench", "bindings", "crates", "examples", "tests"];

/// Comments that are too long, but for tables and drawings.
fn long_lines(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_drawing = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!', ' ']);
        is_drawing ^= comment.starts_with("```");
        if line.chars().count() > 110 && !is_drawing && !comment.starts_with('|') {
            found.push(number + 1);
        }
    }
    found
}

/// Sources below a folder.
pub(crate) fn sources_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            sources_in(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// Lines of all sources that a check finds, as `file:line`.
fn lines_found(check: fn(&str) -> Vec<usize>) -> Vec<String> {
    let mut sources = Vec::new();
    WRAPPED.iter().for_each(|folder| sources_in(&root().join(folder), &mut sources));
    let of_source = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("text");
        let shown = path.display().to_string();
        check(&text).into_iter().map(move |line| format!("{shown}:{line}")).collect::<Vec<_>>()
    };
    sources.iter().flat_map(of_source).collect()
}

/// Words that name nothing: a reader of a comment's first word learns no subject from them.
const PRONOUNS: [&str; 19] = [
    "It",
    "Its",
    "Those",
    "That",
    "This",
    "What",
    "Who",
    "Whoever",
    "Nobody",
    "Nothing",
    "Something",
    "There",
    "So",
    "He",
    "They",
    "Their",
    "These",
    "Ones",
    "Whose",
];

/// Beginnings that say how many there are, and not what it is.
const COUNTS: [&str; 4] = [" One line.", " One line ", " One of ", " One line:"];

/// Doc comments that begin with a pronoun or a count. Texts of help have no full stop, and are for users.
fn pronouns(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let comment = |at: usize| lines.get(at)?.strip_prefix("///").or(lines[at].strip_prefix("//!"));
    let begins = |at: &usize| comment(*at).is_some() && (*at == 0 || comment(at - 1).is_none());
    let is_sentence = |at: usize| {
        let length = (at..).take_while(|at| comment(*at).is_some_and(|text| !text.is_empty())).count();
        comment(at + length.max(1) - 1).is_some_and(|text| text.ends_with(['.', ':', ';']))
    };
    let is_pronoun = |at: &usize| {
        let word = comment(*at).and_then(|text| text.split_whitespace().next()).unwrap_or_default();
        let is_vague = COUNTS.iter().any(|count| comment(*at).is_some_and(|text| text.starts_with(count)));
        is_vague || PRONOUNS.contains(&word.trim_end_matches([',', '.', ':', ';']))
    };
    let found = (0..lines.len()).filter(begins).filter(is_pronoun).filter(|at| is_sentence(*at));
    found.map(|at| at + 1).collect()
}

#[test]
fn comment_lines_are_at_most_110_columns() {
    let found = lines_found(long_lines);
    assert!(found.is_empty(), "{found:#?}");
}

/// Exceptions: a text of the generator, and the page of a function.
#[test]
fn comments_begin_with_nouns_and_verbs() {
    assert_eq!(pronouns("//! It is.\n\n/// Name of it.\n/// That is it.\n/// What\n/// a word.\n"), [1]);
    assert_eq!(pronouns("/// One line.\n\n/// One of them.\n\n/// One job alone.\n"), [1, 3]);
    assert_eq!(pronouns("/// Its number\n\n    /// Their\n    /// numbers.\n"), [3]);
    let mut found = lines_found(pronouns);
    found.retain(|line| !line.contains("table/src/rust_abi.rs") && !line.contains("shmem/src/api/teams.rs"));
    assert!(found.is_empty(), "{found:#?}");
}
