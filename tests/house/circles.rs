//! The imports inside each crate: modules may import each other in circles only up to a size.
//!
//! A module is a file. An arrow runs from a file to the file that owns a name which it imports or writes out
//! as a path (`crate::`, `super::`, `self::`, or a module of its own). Tests do not count, nor does the line
//! `mod x;` itself. Files that reach each other by arrows in both directions form a circle. What is printed
//! shows the arrows of each circle: `cargo test -p tutti-tests --test house circles -- --nocapture`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The largest circle that a crate may have, in files. This number only goes down.
const BOUND: usize = 6;

/// Each module of a crate with those that it imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The code of each module of a crate.
pub(crate) type Texts = BTreeMap<String, String>;

/// The text without comments, strings and modules of tests.
pub(crate) fn code_of(text: &str) -> String {
    code_with(text, |_| "")
}

/// The same with a word in the place of each string, which is not raw: `shown` chooses it.
pub(crate) fn code_with(text: &str, shown: impl Fn(&str) -> &'static str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = raw_string_bytes(rest) {
            raw
        } else if rest.starts_with('"') {
            let bytes = string_bytes(rest);
            code.extend(["\"", shown(&rest[..bytes]), "\""]);
            bytes
        } else if rest.starts_with("'\"'") || rest.starts_with("b'\"'") {
            3
        } else {
            code.push(next);
            next.len_utf8()
        };
        rest = &rest[taken..];
    }
    without_tests(&code)
}

fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn raw_string_bytes(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("r")?;
    let marks = inner.bytes().take_while(|byte| *byte == b'#').count();
    inner[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let start = 1 + marks + 1;
    Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Leaves out each item that is compiled for tests only.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = ["#[cfg(test)]", "#[cfg(all(test"].iter().filter_map(|mark| rest.find(mark)).min() {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let item_ends = rest.find(['{', ';']).unwrap_or(rest.len() - 1);
        let end = match rest.as_bytes()[item_ends] {
            b'{' => closing(rest, item_ends),
            _ => item_ends + 1,
        };
        rest = &rest[end..];
    }
    kept + rest
}

/// Behind the brace that closes the one at `open`.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in text.bytes().enumerate().skip(open) {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth == 0 {
            return at + 1;
        }
    }
    text.len()
}

/// Paths that a text writes out, those of `use` with braces resolved.
pub(crate) fn paths_in(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let tokens = tokens_of(code);
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at] == "use";
        // How far something may be seen is no import.
        let is_visibility = at >= 3 && tokens[at - 3..at] == ["pub", "(", "in"];
        let begins = is_use || !is_visibility && tokens.get(at + 1).is_some_and(|next| next == "::");
        let is_inner = at > 0 && tokens[at - 1] == "::";
        if begins && !is_inner {
            at = take_path(&tokens, at + usize::from(is_use), &mut Vec::new(), is_use, &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Words, `::`, and single other characters.
pub(crate) fn tokens_of(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut characters = code.char_indices().peekable();
    while let Some((start, character)) = characters.next() {
        if character.is_alphanumeric() || character == '_' {
            let mut end = start + character.len_utf8();
            while let Some((at, next)) = characters.peek().copied() {
                if !next.is_alphanumeric() && next != '_' {
                    break;
                }
                end = at + next.len_utf8();
                characters.next();
            }
            tokens.push(code[start..end].to_owned());
        } else if character == ':' && characters.peek().is_some_and(|(_, next)| *next == ':') {
            characters.next();
            tokens.push("::".into());
        } else if !character.is_whitespace() {
            tokens.push(character.into());
        }
    }
    tokens
}

/// Takes the path that begins at a token; gives the token behind it.
fn take_path(
    tokens: &[String],
    start: usize,
    before: &mut Vec<String>,
    is_use: bool,
    found: &mut Vec<Vec<String>>,
) -> usize {
    let depth = before.len();
    let mut at = start;
    if tokens.get(at).is_some_and(|token| token == "::") {
        at += 1;
    }
    while let Some(token) = tokens.get(at) {
        if is_use && token == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|token| token != "}") {
                at = take_path(tokens, at, before, is_use, found);
                if tokens.get(at).is_some_and(|token| token == ",") {
                    at += 1;
                }
            }
            before.truncate(depth);
            return at + 1;
        }
        before.push(token.clone());
        at += 1;
        if tokens.get(at).is_none_or(|token| token != "::") {
            break;
        }
        at += 1;
        if !is_use && tokens.get(at).is_some_and(|token| token == "<" || token == "{" || token == "*") {
            break;
        }
    }
    found.push(before.clone());
    before.truncate(depth);
    if is_use && tokens.get(at).is_some_and(|token| token == "as") {
        at += 2;
    }
    at.max(start + 1)
}

/// The files of a crate by the names of their modules, `crate` first.
pub(crate) fn modules_of(source: &Path) -> BTreeMap<String, PathBuf> {
    let mut modules = BTreeMap::new();
    let mut folders = vec![(source.to_path_buf(), "crate".to_owned())];
    while let Some((folder, name)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, stem) = (entry.path(), entry.path().file_stem().expect("a name").to_owned());
            let stem = stem.to_str().expect("UTF-8").to_owned();
            if path.is_dir() {
                folders.push((path, format!("{name}::{stem}")));
            } else if path.extension().is_some_and(|end| end == "rs") {
                let is_own = ["lib", "mod", "main"].contains(&stem.as_str());
                modules.insert(if is_own { name.clone() } else { format!("{name}::{stem}") }, path);
            }
        }
    }
    modules
}

/// Modules that a parent declares for tests only, with what is below them.
pub(crate) fn is_for_tests(name: &str, texts: &Texts) -> bool {
    let mut module = name;
    while let Some((parent, own)) = module.rsplit_once("::") {
        let declares = |code: &String| {
            let tokens = tokens_of(code);
            tokens.windows(3).any(|three| three[0] == "mod" && three[1] == own && three[2] == ";")
        };
        if texts.get(parent).is_some_and(|code| !declares(code)) {
            return true;
        }
        module = parent;
    }
    false
}

fn graph_of(source: &Path) -> Graph {
    let read = |path: &PathBuf| code_of(&std::fs::read_to_string(path).expect("text"));
    let texts: Texts = modules_of(source).into_iter().map(|(name, path)| (name, read(&path))).collect();
    let names: Vec<_> = texts.keys().filter(|name| !is_for_tests(name, &texts)).cloned().collect();
    let imports = |name: &String| {
        let targets = paths_in(&texts[name]).into_iter().filter_map(|path| target_of(name, &path, &texts));
        targets.filter(|target| target != name && names.contains(target)).collect()
    };
    names.iter().map(|name| (name.clone(), imports(name))).collect()
}

/// The module that owns what a path in `module` names, if it is one of the crate.
fn target_of(module: &str, path: &[String], texts: &Texts) -> Option<String> {
    let mut base = module.to_owned();
    let mut rest = path;
    match path[0].as_str() {
        "crate" => (base, rest) = ("crate".into(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {}
        first if texts.contains_key(&format!("{module}::{first}")) => {}
        _ => return None,
    }
    while let Some("super") = rest.first().map(String::as_str) {
        base = base.rsplit_once("::")?.0.to_owned();
        rest = &rest[1..];
    }
    for part in rest {
        let inner = format!("{base}::{part}");
        if !texts.contains_key(&inner) {
            break;
        }
        base = inner;
    }
    Some(base)
}

/// Everything that a module reaches by arrows.
fn reached_from<'a>(start: &'a str, graph: &'a Graph) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        for next in &graph[module] {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

/// The circles of a crate.
fn circles(graph: &Graph) -> BTreeSet<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|name| (name.as_str(), reached_from(name, graph))).collect();
    let circle = |name: &&str| -> Vec<&str> {
        reached[name].iter().copied().filter(|other| reached[other].contains(name)).collect()
    };
    reached.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The crates with their imports.
fn graphs() -> impl Iterator<Item = (String, Graph)> {
    let crates = std::fs::read_dir(tutti_tests::root().join("crates")).expect("a folder").flatten();
    crates.map(|entry| {
        let name = format!("crates/{}", entry.file_name().to_str().expect("UTF-8"));
        (name, graph_of(&entry.path().join("src")))
    })
}

#[test]
fn import_circles_are_bounded() {
    let mut broken = Vec::new();
    for (name, graph) in graphs() {
        let circles = circles(&graph);
        let circle = circles.iter().max_by_key(|circle| circle.len()).cloned().unwrap_or_default();
        println!("{name}: {} files, largest circle {} of at most {BOUND}", graph.len(), circle.len());
        for module in &circle {
            let inside = graph[*module].iter().filter(|target| circle.contains(&target.as_str()));
            println!("  {module} -> {}", inside.cloned().collect::<Vec<_>>().join(" "));
        }
        if circle.len() > BOUND {
            broken
                .push(format!("{name} has a circle of {} files, at most {BOUND}: {circle:?}", circle.len()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Without the arrows from a file to a module that it is a part of.
fn without_own_modules(mut graph: Graph) -> Graph {
    for (from, to) in &mut graph {
        to.retain(|to| !from.starts_with(&format!("{to}::")));
    }
    graph
}

/// Arrows never run upwards: a file takes from files below it, or from the module that it is a part of.
#[test]
fn import_circles_are_a_module_and_its_parts() {
    let mut broken = Vec::new();
    for (name, graph) in graphs() {
        let graph = without_own_modules(graph);
        for circle in circles(&graph) {
            broken.push(format!("{name}: {}", circle.join(" ")));
        }
    }
    assert!(broken.is_empty(), "these import each other, and none is a part of the other: {broken:#?}");
}

#[test]
fn import_circles_are_found() {
    let arrows = |text: &[(&str, &[&str])]| -> Graph {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        text.iter().map(|(from, to)| ((*from).to_owned(), owned(to))).collect()
    };
    let ring = arrows(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a"])]);
    assert_eq!(circles(&ring), BTreeSet::from([vec!["a", "b", "c"]]));
    let part = arrows(&[("a", &["a::b"]), ("a::b", &["a"])]);
    assert_eq!(circles(&part), BTreeSet::from([vec!["a", "a::b"]]));
    assert_eq!(circles(&without_own_modules(part)), BTreeSet::new());
}

#[test]
fn import_paths_are_found_in_braces_and_bodies() {
    let code = code_of(
        "//! crate::no\nuse crate::{a, b::{self, c as d}};\nfn f() { super::g::h(\"crate::no\"); self::i() }\n\
         pub(in crate::no) fn j() {}\n\
         #[cfg(test)]\nmod tests { use crate::no; }",
    );
    let found: Vec<String> = paths_in(&code).iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::a", "crate::b::self", "crate::b::c", "super::g::h", "self::i"]);
}
