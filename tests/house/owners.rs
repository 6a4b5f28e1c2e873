//! Types have owners: what a type can do stands in its own module, and few others may change one that they
//! are given.
//!
//! An *outsider* of a type is a file outside its module that has an `impl` of it, or a function that takes it
//! by `&mut`. A module is its file with all files below it; that of a root is the root alone. Tests do
//! not count. Names are resolved by the imports of their file; those that stay ambiguous are left out.
//! `cargo test -p tutti-tests --test house owners -- --nocapture` prints the worst five of each measure.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::{Texts, code_of, is_for_tests, modules_of, paths_in, tokens_of};

/// Files outside its module that may hold an `impl` of a type or a function that takes it by `&mut`.
const OUTSIDERS_MAX: usize = 3;
/// Fields of a type that other modules may reach.
const FIELDS_MAX: usize = 8;
/// Files that may name what stands for a process of MPI.
const NAMED_MAX: usize = 10;
const PROCESS: [(&str, &str); 2] = [("mpi::process", "Guard"), ("mpi::process", "Process")];

/// The exceptions: `MEASURE TYPE NUMBER`. Numbers only go down, and no line is added.
const EXCEPTIONS: &str = include_str!("owners.txt");

/// A type of the workspace: `crate::module::Name`, the crate by its folder.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Type {
    module: String,
    name: String,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.module, self.name)
    }
}

/// The code of the workspace by module; `mpi::comm::group` is `crates/mpi/src/comm/group.rs`.
struct Workspace {
    files: BTreeMap<String, Vec<String>>,
    types: BTreeMap<String, Vec<Type>>,
}

impl Workspace {
    fn read() -> Workspace {
        let mut files = BTreeMap::new();
        for folder in ["crates", "bindings"] {
            for entry in std::fs::read_dir(tutti_tests::root().join(folder)).expect("a folder").flatten() {
                let source = entry.path().join("src");
                if source.is_dir() {
                    let name = entry.file_name().to_str().expect("UTF-8").replace('-', "_");
                    files.extend(files_of(&name, &source));
                }
            }
        }
        Workspace::of(files)
    }

    fn of(files: BTreeMap<String, Vec<String>>) -> Workspace {
        let mut types: BTreeMap<String, Vec<Type>> = BTreeMap::new();
        for (module, tokens) in &files {
            for name in declared_in(tokens) {
                types.entry(name.clone()).or_default().push(Type { module: module.clone(), name });
            }
        }
        Workspace { files, types }
    }

    /// The type that a name in a file means.
    fn resolve(&self, module: &str, name: &str) -> Option<&Type> {
        let all = self.types.get(name)?;
        if let Some(own) = all.iter().find(|found| found.module == module) {
            return Some(own);
        }
        let tokens = &self.files[module];
        let code = tokens.join(" ");
        let imported = paths_in(&code)
            .into_iter()
            .find(|path| path.len() > 1 && path.last().is_some_and(|last| last == name));
        let krate = module.split("::").next().expect("a crate");
        let prefix = match &imported {
            Some(path) => absolute(module, krate, path)?,
            None if code.contains("use super :: *") => module.rsplit_once("::")?.0.to_owned(),
            None => return None,
        };
        // A name may be imported from a module that has it from one below.
        let root = prefix.split("::").next()?;
        let fits = |found: &&Type| found.module.split("::").next() == Some(root);
        let mut fitting: Vec<&Type> = all.iter().filter(fits).collect();
        fitting.sort_by_key(|found| std::cmp::Reverse(common(&found.module, &prefix)));
        match fitting[..] {
            [] => None,
            [only] => Some(only),
            [first, second, ..] => {
                (common(&first.module, &prefix) > common(&second.module, &prefix)).then_some(first)
            }
        }
    }

    /// The files outside their modules that have an `impl` of types, or take them by `&mut`.
    fn outsiders(&self) -> BTreeMap<&Type, BTreeSet<&str>> {
        let mut found: BTreeMap<&Type, BTreeSet<&str>> = BTreeMap::new();
        for (module, tokens) in &self.files {
            let names: BTreeSet<&str> = implemented_in(tokens).chain(taken_in(tokens)).collect();
            for name in names {
                if let Some(named) = self.resolve(module, name)
                    && !is_inside(module, &named.module)
                {
                    found.entry(named).or_default().insert(module);
                }
            }
        }
        found
    }

    /// The fields of each type that other modules may reach and some file outside its module does.
    fn reached_fields(&self) -> BTreeMap<Type, usize> {
        let mut reached = BTreeMap::new();
        let accesses: BTreeMap<&str, BTreeSet<&str>> =
            self.files.iter().map(|(module, tokens)| (module.as_str(), accessed_in(tokens))).collect();
        for (module, tokens) in &self.files {
            for (name, fields) in open_fields_in(tokens) {
                let is_reached = |field: &&str| {
                    accesses
                        .iter()
                        .any(|(other, accessed)| !is_inside(other, module) && accessed.contains(*field))
                };
                let count = fields.into_iter().filter(is_reached).count();
                reached.insert(Type { module: module.clone(), name: name.to_owned() }, count);
            }
        }
        reached
    }

    /// The files that name a type, its own apart.
    fn files_that_name(&self, module: &str, name: &str) -> usize {
        let names = |other: &str, tokens: &[String]| {
            other != module
                && tokens.iter().any(|token| token == name)
                && self.resolve(other, name).is_some_and(|found| found.module == module)
        };
        self.files.iter().filter(|(other, tokens)| names(other, tokens)).count()
    }
}

/// The code of a crate, as words, by module.
fn files_of(name: &str, source: &std::path::Path) -> BTreeMap<String, Vec<String>> {
    let texts: Texts = modules_of(source)
        .into_iter()
        .map(|(module, path)| (module, code_of(&std::fs::read_to_string(path).expect("text"))))
        .collect();
    let kept = texts.iter().filter(|(module, _)| !is_for_tests(module, &texts));
    kept.map(|(module, code)| (module.replacen("crate", name, 1), tokens_of(code))).collect()
}

/// A path without its last name, from the crate on; none of what is no crate of ours.
fn absolute(module: &str, krate: &str, path: &[String]) -> Option<String> {
    let inner = &path[..path.len() - 1];
    let (first, mut rest) = inner.split_first()?;
    let mut base = match first.as_str() {
        "crate" => krate.to_owned(),
        "self" => module.to_owned(),
        "super" => module.rsplit_once("::")?.0.to_owned(),
        other => match other.strip_prefix("tutti_") {
            Some(krate) => krate.to_owned(),
            None => format!("{module}::{other}"),
        },
    };
    while let Some(("super", behind)) = rest.split_first().map(|(first, behind)| (first.as_str(), behind)) {
        base = base.rsplit_once("::")?.0.to_owned();
        rest = behind;
    }
    Some(rest.iter().fold(base, |path, name| format!("{path}::{name}")))
}

/// How many leading names two paths have in common.
fn common(one: &str, other: &str) -> usize {
    one.split("::").zip(other.split("::")).take_while(|(a, b)| a == b).count()
}

/// Whether a file belongs to a module.
fn is_inside(file: &str, module: &str) -> bool {
    file == module
        || module.contains("::") && file.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"))
}

/// The names of the types that a file declares.
fn declared_in(tokens: &[String]) -> Vec<String> {
    let is_kind = |token: &String| ["struct", "enum", "union"].contains(&token.as_str());
    tokens
        .windows(2)
        .filter(|two| is_kind(&two[0]) && starts_upper(&two[1]))
        .map(|two| two[1].clone())
        .collect()
}

fn starts_upper(token: &str) -> bool {
    token.starts_with(char::is_uppercase)
}

/// Behind the angle bracket that closes the one at `at`.
fn behind_generics(tokens: &[String], at: usize) -> usize {
    let mut depth = 0_i32;
    let mut end = at;
    while let Some(token) = tokens.get(end) {
        let is_arrow = token == ">" && end > 0 && ["-", "="].contains(&tokens[end - 1].as_str());
        depth += i32::from(token == "<") - i32::from(token == ">" && !is_arrow);
        end += 1;
        if depth == 0 {
            break;
        }
    }
    end
}

/// The last name of a path that begins at a token.
fn last_name(tokens: &[String], mut at: usize) -> Option<&str> {
    while tokens.get(at + 1).is_some_and(|next| next == "::") {
        at += 2;
    }
    tokens.get(at).map(String::as_str).filter(|name| starts_upper(name))
}

/// The types that a file implements.
fn implemented_in(tokens: &[String]) -> impl Iterator<Item = &str> {
    let begins = |at: &usize| {
        tokens[*at] == "impl" && (*at == 0 || ["}", ";", "unsafe", "]"].contains(&tokens[*at - 1].as_str()))
    };
    (0..tokens.len()).filter(begins).filter_map(|at| {
        let mut from = at + 1;
        if tokens.get(from).is_some_and(|token| token == "<") {
            from = behind_generics(tokens, from);
        }
        let head = tokens[from..].iter().position(|token| token == "{" || token == "where")?;
        let of = tokens[from..from + head]
            .iter()
            .position(|token| token == "for")
            .map_or(from, |of| from + of + 1);
        last_name(tokens, of)
    })
}

/// The types that functions of a file take by `&mut`: between the parentheses behind their names.
fn taken_in(tokens: &[String]) -> impl Iterator<Item = &str> {
    (0..tokens.len()).filter(|at| tokens[*at] == "fn").flat_map(|at| {
        let mut from = at + 2;
        if tokens.get(from).is_some_and(|token| token == "<") {
            from = behind_generics(tokens, from);
        }
        let mut depth = 0_i32;
        let length = tokens.get(from..).unwrap_or_default().iter().position(|token| {
            depth += i32::from(token == "(") - i32::from(token == ")");
            depth == 0
        });
        let end = from + length.unwrap_or(0);
        (from..end)
            .filter(|at| tokens[*at] == "mut" && tokens[*at - 1] == "&" || is_lifetime_mut(tokens, *at))
            .filter_map(|at| last_name(tokens, at + 1))
    })
}

/// Whether a token is the `mut` of `&'a mut`.
fn is_lifetime_mut(tokens: &[String], at: usize) -> bool {
    tokens[at] == "mut" && at >= 3 && tokens[at - 2] == "'" && tokens[at - 3] == "&"
}

/// The names behind a dot.
fn accessed_in(tokens: &[String]) -> BTreeSet<&str> {
    let fields = tokens.windows(3).filter(|three| three[0] == "." && three[2] != "(");
    fields.map(|three| three[1].as_str()).collect()
}

/// The types of a file with the fields that other modules may reach, but those whose layout is a contract.
fn open_fields_in(tokens: &[String]) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(2) {
        if tokens[at] != "struct" || is_contract(tokens, at) {
            continue;
        }
        let mut open = at + 2;
        if tokens[open] == "<" {
            open = behind_generics(tokens, open);
        }
        if tokens.get(open).is_none_or(|token| token != "{") {
            continue;
        }
        let mut depth = 0_i32;
        let length = tokens[open..].iter().position(|token| {
            depth += i32::from(token == "{") - i32::from(token == "}");
            depth == 0
        });
        let fields = &tokens[open..open + length.unwrap_or(0)];
        let is_open = |at: &usize| {
            let mut before = at.saturating_sub(1);
            if fields[before] == ")" {
                before =
                    fields[..before].iter().rposition(|token| token == "(").unwrap_or(1).saturating_sub(1);
            }
            fields[before] == "pub"
        };
        let names = (1..fields.len().saturating_sub(1)).filter(|at| fields[*at + 1] == ":").filter(is_open);
        found.push((tokens[at + 1].as_str(), names.map(|at| fields[at].as_str()).collect()));
    }
    found
}

/// Whether the attributes in front of a type say that its layout is fixed.
fn is_contract(tokens: &[String], at: usize) -> bool {
    let begin = tokens[..at].iter().rposition(|token| token == ";" || token == "}").map_or(0, |at| at + 1);
    tokens[begin..at].windows(3).any(|three| three[0] == "repr" && three[2] == "C")
}

/// The lines of a measure.
fn exceptions<'a>(list: &'a str, measure: &str) -> BTreeMap<&'a str, usize> {
    let lines = list.lines().filter_map(|line| line.strip_prefix(measure)?.trim().split_once(' '));
    lines.map(|(named, count)| (named, count.parse().expect("a number"))).collect()
}

/// Compares what was measured with the list: neither more than it says, nor less without saying so.
fn compare(measure: &str, most: usize, list: &str, measured: &BTreeMap<String, usize>) -> Vec<String> {
    let mut worst: Vec<(&String, &usize)> = measured.iter().collect();
    worst.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    for (name, count) in worst.iter().take(5) {
        println!("{measure} {name} {count}");
    }
    let listed = exceptions(list, measure);
    let above = worst.into_iter().filter_map(|(name, count)| {
        let allowed = listed.get(name.as_str()).copied().unwrap_or(most);
        (*count > allowed).then(|| format!("{measure} {name} {count}: at most {allowed}"))
    });
    let below = listed.iter().filter_map(|(name, count)| {
        let now = measured.get(*name).copied().unwrap_or(0);
        (now < *count).then(|| format!("{measure} {name} {now}: owners.txt still says {count}"))
    });
    above.chain(below).collect()
}

#[test]
fn owners_have_few_outsiders() {
    let workspace = Workspace::read();
    let outsiders = workspace.outsiders();
    let measured = outsiders.iter().map(|(named, files)| (named.to_string(), files.len())).collect();
    let wrong = compare("outsiders", OUTSIDERS_MAX, EXCEPTIONS, &measured);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn owners_have_few_fields_that_others_reach() {
    let fields = Workspace::read().reached_fields();
    let measured = fields.into_iter().map(|(named, count)| (named.to_string(), count)).collect();
    let wrong = compare("fields", FIELDS_MAX, EXCEPTIONS, &measured);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn owners_of_a_process_are_named_in_few_files() {
    let workspace = Workspace::read();
    let count =
        |(module, name): (&str, &str)| (format!("{module}::{name}"), workspace.files_that_name(module, name));
    let measured = PROCESS.into_iter().map(count).collect();
    let wrong = compare("named", NAMED_MAX, EXCEPTIONS, &measured);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn owners_outsiders_are_found() {
    let files = [
        ("a", "pub mod b; pub mod c;"),
        (
            "a::b",
            "pub struct Owner<'a> { pub(crate) one: u8, pub two: u8, three: u8 } impl Owner<'_> {} fn f(o: &mut Owner) {}",
        ),
        ("a::b::part", "use super::Owner; impl Owner<'_> {}"),
        (
            "a::c",
            "use crate::b::{Owner, Other}; impl<T: Into<u8>> From<T> for Owner<'_> {} fn g(x: &super::b::Owner) { x.one; x.three; }",
        ),
        (
            "a::d",
            "use super::b::Owner; fn h<'a>(x: impl Fn(&mut Owner<'a>), y: &'a mut u8) -> &mut Owner<'a> {}",
        ),
        ("a::e", "use crate::b::Owner; fn i(x: &Owner<'_>) -> Option<&mut Owner<'_>> { for Owner in x {} }"),
        ("d", "use tutti_a::b::Owner; fn j(x: &'static mut Owner<'static>) {}"),
    ];
    let files = files.iter().map(|(name, code)| ((*name).to_owned(), tokens_of(&code_of(code)))).collect();
    let workspace = Workspace::of(files);
    let outsiders = workspace.outsiders();
    let found: Vec<_> = outsiders.iter().map(|(named, files)| (named.to_string(), files.clone())).collect();
    assert_eq!(found, [("a::b::Owner".to_owned(), BTreeSet::from(["a::c", "a::d", "d"]))]);
    let fields = workspace.reached_fields();
    assert_eq!(fields.values().collect::<Vec<_>>(), [&1], "{fields:?}");
    assert_eq!(workspace.files_that_name("a::b", "Owner"), 5);
}

#[test]
fn owners_lists_fail_in_both_directions() {
    let measured = BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 3)]);
    let wrong = |most, list| compare("of", most, list, &measured).len();
    assert_eq!((wrong(3, "of a 5"), wrong(3, "of a 4"), wrong(3, "of a 6")), (0, 1, 1));
    assert_eq!((wrong(3, "of a 5\nof c 4"), wrong(2, "of a 5"), wrong(3, "")), (1, 1, 1));
    assert_eq!(wrong(3, "of a 5\nother c 4"), 0);
}
