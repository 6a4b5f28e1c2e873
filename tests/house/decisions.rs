//! Sentences are for people: no program compares a text with one, or looks for one in it. What a program
//! decides by travels as a variant or a field. Texts of other systems are read where [`FOREIGN`] says.
//!
//! A *sentence* is a string with two words of two letters that one space parts. It decides where it is what a
//! text is compared with or searched for, or the pattern of a match; so does a constant that holds one, and a
//! sentence with places to fill in. The name of a command (`tutti run`) is none. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::{Texts, code_with, is_for_tests, modules_of};

/// Mark of a sentence in the place of its string.
const SENTENCE: &str = "a sentence";

/// Functions that compare a text, or look into it.
const CALLS: [&str; 10] = [
    "contains",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "split_once",
    "rsplit_once",
    "find",
    "rfind",
    "eq",
];

/// Modules that read texts of other systems, and whose.
const FOREIGN: [(&str, &str); 2] = [
    ("mpi::invariant", "Rust's text of an exception of C++, which has no other mark"),
    ("os::machine", "the kernel's /proc/cpuinfo"),
];

fn is_sentence(literal: &str) -> bool {
    let is_word = |word: &str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_alphabetic());
    let words: Vec<&str> = literal.trim_matches('"').split(' ').collect();
    let is_command = words.len() == 2 && words[0] == "tutti";
    !is_command && words.windows(2).any(|two| two.iter().all(|word| is_word(word)))
}

/// Code of a file in which strings are marks.
fn marked(text: &str) -> String {
    code_with(text, |literal| if is_sentence(literal) { SENTENCE } else { "" })
}

/// Constants of a text that hold a sentence, and those that hold something else.
fn constants(code: &str) -> Vec<(String, bool)> {
    let of_line = |rest: &str| {
        let (name, rest) = rest.split_once(':')?;
        let value = rest.split_once('=')?.1.trim_start();
        Some((name.trim().to_owned(), value.starts_with(&format!("\"{SENTENCE}\";"))))
    };
    code.split("const ").skip(1).filter_map(of_line).collect()
}

/// Places that decide by a sentence, or by a constant of these.
fn decisions(code: &str, sentences: &BTreeSet<String>) -> Vec<String> {
    let code: Vec<&str> = code.split_whitespace().collect();
    let code = code.join(" ");
    let mark = format!("\"{SENTENCE}\"");
    let is_one = |operand: &str| {
        let operand = operand.trim_start_matches([' ', '(', '&', '*']);
        let operand = operand.strip_prefix("format!(").unwrap_or(operand).trim_start();
        let path: String =
            operand.chars().take_while(|it| it.is_alphanumeric() || "_:".contains(*it)).collect();
        operand.starts_with(&mark) || sentences.contains(path.rsplit(':').next().unwrap_or_default())
    };
    let shown = |at: usize| code[at..].chars().take(60).collect::<String>();
    let mut found = Vec::new();
    for call in CALLS {
        let call = format!(".{call}(");
        let calls = code.match_indices(&call).filter(|(at, call)| is_one(&code[at + call.len()..]));
        found.extend(calls.map(|(at, _)| shown(at)));
    }
    for operator in ["== ", "!= "] {
        let compared = code.match_indices(operator).filter(|(at, _)| is_one(&code[at + operator.len()..]));
        found.extend(compared.map(|(at, _)| shown(at)));
    }
    let patterns = code.match_indices(&mark).filter(|(at, _)| {
        let behind = code[at + mark.len()..].trim_start_matches([' ', ')']);
        behind.starts_with("=>") || behind.starts_with("==")
    });
    found.extend(patterns.map(|(at, _)| shown(at)));
    found
}

/// Code of the workspace by module, without that of tests.
fn workspace() -> Texts {
    let mut all = Texts::new();
    for entry in std::fs::read_dir(tutti_tests::root().join("crates")).expect("crates").flatten() {
        let name = entry.file_name().to_str().expect("UTF-8").to_owned();
        let modules = modules_of(&entry.path().join("src"));
        let read = |(module, path): (String, std::path::PathBuf)| {
            (module, marked(&std::fs::read_to_string(path).expect("text")))
        };
        let texts: Texts = modules.into_iter().map(read).collect();
        let product = texts.iter().filter(|(module, _)| !is_for_tests(module, &texts));
        all.extend(product.map(|(module, code)| (module.replacen("crate", &name, 1), code.clone())));
    }
    all
}

#[test]
fn sentences_decide_nothing() {
    let texts = workspace();
    let mut held: BTreeMap<String, bool> = BTreeMap::new();
    for (name, is_sentence) in texts.values().flat_map(|code| constants(code)) {
        held.entry(name).and_modify(|all| *all &= is_sentence).or_insert(is_sentence);
    }
    let sentences = held.into_iter().filter(|(_, is_sentence)| *is_sentence).map(|(name, _)| name).collect();
    let foreign = |module: &str| FOREIGN.iter().any(|(one, _)| *one == module);
    let by_module = |(module, code): (&String, &String)| {
        decisions(code, &sentences).into_iter().map(|at| format!("{module}: {at}")).collect::<Vec<_>>()
    };
    let found: Vec<String> =
        texts.iter().filter(|(module, _)| !foreign(module)).flat_map(by_module).collect();
    assert!(found.is_empty(), "a variant or a field, in the place of: {found:#?}");
}

#[test]
fn sentences_differ_from_other_texts() {
    let sentences = BTreeSet::from(["OVER".to_owned()]);
    let found = |code: &str| decisions(&marked(code), &sentences).len();
    for code in [
        r#"text.starts_with("job takes no turns")"#,
        r#"text.starts_with(&format!("job {job} is over"))"#,
        r#"text.contains(users::OVER)"#,
        r#"if text == "no such job" {}"#,
        r#"if text != OVER {}"#,
        r#"match text { "no such job" => 1, _ => 2 }"#,
        "text\n    .ends_with(\n        \"is over\",\n    )",
    ] {
        assert_eq!(found(code), 1, "{code}");
    }
    for code in [
        r#"line.strip_prefix("rank ")"#,
        r#"mounts.contains(" - cgroup2 ")"#,
        r#"say("no such job")"#,
        r#"words.contains(&word)"#,
        r#"match name { "tutti run" => 1, _ => 2 }"#,
        "/// text == \"no such job\"\nfn f() {}",
        "#[cfg(test)]\nmod tests { fn f() { text.contains(\"no such job\"); } }",
    ] {
        assert_eq!(found(code), 0, "{code}");
    }
    assert_eq!(constants("const A: &str = \"a sentence\"; const B: u32 = 1;").len(), 2);
}
