//! Types have owners: what a type can do stands in its own module, and few others may change one that they
//! are given.
//!
//! An *outsider* of a type is a file outside its module that has an `impl` of it or takes it by `&mut`: as
//! an argument of a function or closure, in a local variable, in the field of a type that borrows it, or
//! inside a box, an option, a slice or the guard of a lock. A file that takes a type which borrows another
//! one so has that one too. A module is its file with all files below it; that of a root is the root alone.
//! Tests do not count.
//!
//! Names are resolved by the imports of their file: through renamed imports, aliases, names that a module
//! hands on, and globs. Names that stay ambiguous are left out. A field is reached by its name behind a dot,
//! or in a literal or pattern of its type.
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

/// The exceptions: `MEASURE TYPE NUMBER`. Numbers only go down, and no line is added, unless the measure
/// finds more than before.
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
    files: BTreeMap<String, File>,
    types: BTreeMap<String, Vec<Type>>,
}

/// A file: its words, and what its names mean.
struct File {
    tokens: Vec<String>,
    imports: Imports,
    /// Types that are another name for one: both names.
    aliases: BTreeMap<String, String>,
}

/// The names that a file has from elsewhere.
#[derive(Default)]
struct Imports {
    /// Paths by the names that they have here; a path that is written out has its last name.
    paths: BTreeMap<String, Vec<String>>,
    /// Modules of which all names are here.
    globs: Vec<Vec<String>>,
}

impl File {
    fn of(tokens: Vec<String>) -> File {
        let (imports, aliases) = (Imports::of(&tokens), aliases_in(&tokens));
        File { tokens, imports, aliases }
    }
}

impl Imports {
    fn of(tokens: &[String]) -> Imports {
        let mut imports = Imports::default();
        for path in paths_in(&tokens.join(" ")).into_iter().filter(|path| path.len() > 1) {
            match path.last().map(String::as_str) {
                Some("*") => imports.globs.push(path),
                Some(last) => {
                    imports.paths.entry(last.to_owned()).or_insert(path);
                }
                None => {}
            }
        }
        for three in tokens.windows(3).filter(|three| three[1] == "as" && starts_upper(&three[2])) {
            if let Some(path) = imports.paths.get(&three[0]).cloned() {
                imports.paths.insert(three[2].clone(), path);
            }
        }
        imports
    }
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
        let files: BTreeMap<String, File> =
            files.into_iter().map(|(module, tokens)| (module, File::of(tokens))).collect();
        let mut types: BTreeMap<String, Vec<Type>> = BTreeMap::new();
        for (module, file) in &files {
            for name in declared_in(&file.tokens) {
                types.entry(name.clone()).or_default().push(Type { module: module.clone(), name });
            }
        }
        Workspace { files, types }
    }

    /// The type that a name in a file means.
    fn resolve(&self, module: &str, name: &str) -> Option<&Type> {
        self.resolve_within(module, name, 8)
    }

    /// The same within so many steps from file to file.
    fn resolve_within(&self, module: &str, name: &str, steps: usize) -> Option<&Type> {
        let own = |found: &&Type| found.module == module;
        if let Some(own) = self.types.get(name).and_then(|all| all.iter().find(own)) {
            return Some(own);
        }
        let file = self.files.get(module)?;
        let steps = steps.checked_sub(1)?;
        if let Some(target) = file.aliases.get(name).filter(|target| *target != name) {
            return self.resolve_within(module, target, steps);
        }
        if let Some(path) = file.imports.paths.get(name) {
            return self.resolve_path(module, path, steps);
        }
        let globs = file.imports.globs.iter();
        globs.into_iter().find_map(|glob| {
            let (last, inner) = glob.split_last()?;
            debug_assert_eq!(last, "*");
            let path: Vec<String> = inner.iter().cloned().chain([name.to_owned()]).collect();
            self.resolve_path(module, &path, steps)
        })
    }

    /// The type that a path in a file means.
    fn resolve_path(&self, module: &str, path: &[String], steps: usize) -> Option<&Type> {
        let name = path.last()?;
        let krate = module.split("::").next().expect("a crate");
        let prefix = absolute(module, krate, path)?;
        if prefix != module
            && let Some(found) = self.resolve_within(&prefix, name, steps)
        {
            return Some(found);
        }
        // What a module hands on in another way, as by a macro: the nearest type of this name.
        let root = prefix.split("::").next()?;
        let fits = |found: &&Type| found.module.split("::").next() == Some(root);
        let mut fitting: Vec<&Type> = self.types.get(name)?.iter().filter(fits).collect();
        fitting.sort_by_key(|found| std::cmp::Reverse(common(&found.module, &prefix)));
        match fitting[..] {
            [] => None,
            [only] => Some(only),
            [first, second, ..] => {
                (common(&first.module, &prefix) > common(&second.module, &prefix)).then_some(first)
            }
        }
    }

    /// The types that other types borrow by `&mut`, or hand on as themselves (`DerefMut`).
    fn borrowed(&self) -> BTreeMap<&Type, BTreeSet<&Type>> {
        let mut borrowed: BTreeMap<&Type, BTreeSet<&Type>> = BTreeMap::new();
        for (module, file) in &self.files {
            for (holder, name) in borrowed_in(&file.tokens) {
                if let (Some(holder), Some(named)) =
                    (self.resolve(module, holder), self.resolve(module, name))
                {
                    borrowed.entry(holder).or_default().insert(named);
                }
            }
        }
        borrowed
    }

    /// The files outside their modules that have an `impl` of types, or take them by `&mut`.
    fn outsiders(&self) -> BTreeMap<&Type, BTreeSet<&str>> {
        let mut found: BTreeMap<&Type, BTreeSet<&str>> = BTreeMap::new();
        let borrowed = self.borrowed();
        for (module, file) in &self.files {
            let tokens = &file.tokens;
            let changed: BTreeSet<&str> = implemented_in(tokens).chain(taken_in(tokens)).collect();
            let mut named: BTreeSet<&Type> =
                changed.into_iter().filter_map(|name| self.resolve(module, name)).collect();
            let taken = parameters_in(tokens).filter_map(|name| self.resolve(module, name));
            let through: Vec<_> =
                taken.filter_map(|holder| borrowed.get(holder)).flatten().copied().collect();
            named.extend(through);
            for named in named.into_iter().filter(|named| !is_inside(module, &named.module)) {
                found.entry(named).or_default().insert(module);
            }
        }
        found
    }

    /// The fields of each type that other modules may reach and some file outside its module does.
    fn reached_fields(&self) -> BTreeMap<Type, usize> {
        let mut reached = BTreeMap::new();
        let accesses: BTreeMap<&str, BTreeSet<&str>> =
            self.files.iter().map(|(module, file)| (module.as_str(), accessed_in(&file.tokens))).collect();
        let literals = self.literal_fields();
        for (module, file) in &self.files {
            for (name, fields) in open_fields_in(&file.tokens) {
                let of_type = Type { module: module.clone(), name: name.to_owned() };
                let written = literals.get(&of_type);
                let is_reached = |field: &&str| {
                    written.is_some_and(|written| written.contains(*field))
                        || accesses
                            .iter()
                            .any(|(other, accessed)| !is_inside(other, module) && accessed.contains(*field))
                };
                let count = fields.into_iter().filter(is_reached).count();
                reached.insert(of_type, count);
            }
        }
        reached
    }

    /// The fields that literals and patterns outside of their type's module name.
    fn literal_fields(&self) -> BTreeMap<Type, BTreeSet<&str>> {
        let mut written: BTreeMap<Type, BTreeSet<&str>> = BTreeMap::new();
        for (module, file) in &self.files {
            for (name, fields) in literals_in(&file.tokens) {
                if let Some(named) = self.resolve(module, name)
                    && !is_inside(module, &named.module)
                {
                    written.entry(named.clone()).or_default().extend(fields);
                }
            }
        }
        written
    }

    /// The files that name a type, its own apart.
    fn files_that_name(&self, module: &str, name: &str) -> usize {
        let names = |other: &str, file: &File| {
            other != module
                && file.tokens.iter().any(|token| token == name)
                && self.resolve(other, name).is_some_and(|found| found.module == module)
        };
        self.files.iter().filter(|(other, file)| names(other, file)).count()
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
        let before = at.checked_sub(1).map(|before| tokens[before].as_str());
        tokens[*at] == "impl" && before.is_none_or(|before| ["}", "{", ";", "unsafe", "]"].contains(&before))
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
        element(tokens, of)
    })
}

/// The types that a file takes by `&mut`, but for results of functions.
fn taken_in(tokens: &[String]) -> impl Iterator<Item = &str> {
    let results = results_in(tokens);
    let is_taken = move |at: &usize| is_mutable_borrow(tokens, *at) && !results[*at];
    let borrowed = (1..tokens.len()).filter(is_taken).filter_map(|at| element(tokens, at + 1));
    borrowed.chain(guarded_in(tokens))
}

/// For each token whether it stands in the result of a function.
fn results_in(tokens: &[String]) -> Vec<bool> {
    let (mut results, mut at) = (vec![false; tokens.len()], 0);
    while at + 1 < tokens.len() {
        if tokens[at] != "-" || tokens[at + 1] != ">" {
            at += 1;
            continue;
        }
        at += 2;
        let mut depth = 0_i32;
        while let Some(token) = tokens.get(at).map(String::as_str) {
            let ends = ["{", ";", "where", "=", "|"].contains(&token) || depth == 0 && token == ",";
            depth +=
                i32::from(["<", "(", "["].contains(&token)) - i32::from([">", ")", "]"].contains(&token));
            if ends || depth < 0 {
                break;
            }
            results[at] = true;
            at += 1;
        }
    }
    results
}

/// Whether a token is the `mut` of `&mut` or `&'a mut`.
fn is_mutable_borrow(tokens: &[String], at: usize) -> bool {
    let with_lifetime = at >= 3 && tokens[at - 2] == "'" && tokens[at - 3] == "&";
    tokens[at] == "mut" && (at >= 1 && tokens[at - 1] == "&" || with_lifetime)
}

/// The types in the guards of locks that functions of a file take.
fn guarded_in(tokens: &[String]) -> impl Iterator<Item = &str> {
    let guards = ["MutexGuard", "RwLockWriteGuard", "RefMut"];
    let is_guard = move |at: &usize| guards.contains(&tokens[*at].as_str());
    let is_argument = move |at: &usize| *at > 0 && [":", "&", "::"].contains(&tokens[*at - 1].as_str());
    (0..tokens.len()).filter(is_guard).filter(is_argument).filter_map(|at| element(tokens, at))
}

/// Whatever hands on the one thing in it.
const AROUND: [&str; 8] =
    ["Option", "Box", "Pin", "ManuallyDrop", "MaybeUninit", "MutexGuard", "RwLockWriteGuard", "RefMut"];

/// The name of the type that begins at a token: of what a reference, slice, option, box or guard has in it.
fn element(tokens: &[String], mut at: usize) -> Option<&str> {
    loop {
        match tokens.get(at)?.as_str() {
            "&" | "mut" | "[" | "dyn" | "impl" => at += 1,
            "'" => at += 2,
            _ => {}
        }
        if ["&", "mut", "[", "'", "dyn", "impl"].contains(&tokens.get(at)?.as_str()) {
            continue;
        }
        let name = last_name(tokens, at)?;
        let mut behind = at;
        while tokens.get(behind + 1).is_some_and(|next| next == "::") {
            behind += 2;
        }
        if !AROUND.contains(&name) || tokens.get(behind + 1).is_none_or(|next| next != "<") {
            return Some(name);
        }
        at = behind + 2;
        while tokens.get(at).is_some_and(|token| token == "'") {
            at += 3;
        }
    }
}

/// The types that functions of a file have as arguments, by value or by reference.
fn parameters_in(tokens: &[String]) -> impl Iterator<Item = &str> {
    (0..tokens.len()).filter(|at| tokens[*at] == "fn").flat_map(|at| {
        let mut from = at + 2;
        if tokens.get(from).is_some_and(|token| token == "<") {
            from = behind_generics(tokens, from);
        }
        let end = from + closing(tokens, from, "(", ")");
        (from..end).filter(|at| tokens[*at] == ":").filter_map(|at| element(tokens, at + 1))
    })
}

/// How many tokens further the bracket closes that a token opens.
fn closing(tokens: &[String], at: usize, open: &str, close: &str) -> usize {
    let mut depth = 0_i32;
    let length = tokens.get(at..).unwrap_or_default().iter().position(|token| {
        depth += i32::from(token == open) - i32::from(token == close);
        depth == 0
    });
    length.unwrap_or(0)
}

/// The types of a file that borrow others by `&mut`, or are taken for them: both names.
fn borrowed_in(tokens: &[String]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for at in 0..tokens.len().saturating_sub(2) {
        if tokens[at] == "struct" {
            let name = tokens[at + 1].as_str();
            let mut open = at + 2;
            if tokens[open] == "<" {
                open = behind_generics(tokens, open);
            }
            let (begin, end) =
                if tokens.get(open).is_some_and(|token| token == "(") { ("(", ")") } else { ("{", "}") };
            let fields = open..open + closing(tokens, open, begin, end);
            let borrows = fields.filter(|at| is_mutable_borrow(tokens, *at));
            found.extend(borrows.filter_map(|at| Some((name, element(tokens, at + 1)?))));
        }
        if tokens[at] == "Deref"
            && tokens[at + 1] == "for"
            && let Some(holder) = last_name(tokens, at + 2)
        {
            let target = tokens[at..].iter().position(|token| token == "Target").map(|target| at + target);
            let is_mutable = tokens.windows(3).any(|three| three[..] == ["DerefMut", "for", holder]);
            let target = target.filter(|_| is_mutable).and_then(|target| element(tokens, target + 2));
            found.extend(target.map(|target| (holder, target)));
        }
    }
    found
}

/// The types of a file that are other names of types: both names.
fn aliases_in(tokens: &[String]) -> BTreeMap<String, String> {
    let (mut aliases, mut depth) = (BTreeMap::new(), 0_i32);
    for (at, token) in tokens.iter().enumerate() {
        depth += i32::from(token == "{") - i32::from(token == "}");
        // Inside of braces it is a type of a trait.
        if token == "type"
            && depth == 0
            && let Some(name) = tokens.get(at + 1)
        {
            let mut equals = at + 2;
            if tokens.get(equals).is_some_and(|token| token == "<") {
                equals = behind_generics(tokens, equals);
            }
            let target =
                tokens.get(equals).filter(|token| *token == "=").and_then(|_| element(tokens, equals + 1));
            aliases.extend(target.map(|target| (name.clone(), target.to_owned())));
        }
    }
    aliases
}

/// The literals and patterns of types in a file, each with the fields that it names.
fn literals_in(tokens: &[String]) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for open in 1..tokens.len() {
        let name = tokens[open - 1].as_str();
        let is_before = |at: &usize| {
            !["::", "&", "mut", "'"].contains(&tokens[*at].as_str())
                && tokens[*at + 1] != "::"
                && (*at == 0 || tokens[*at - 1] != "'")
        };
        let begin = (0..open - 1).rev().find(is_before);
        let is_variant = open > 2 && tokens[open - 2] == "::" && starts_upper(&tokens[open - 3]);
        let before = begin.map_or("", |at| tokens[at].as_str());
        let declares = ["struct", "enum", "union", "trait", "impl", "for", "mod", ">", "+", "dyn", "match"];
        if tokens[open] != "{" || !starts_upper(name) || is_variant || declares.contains(&before) {
            continue;
        }
        let (mut fields, mut depth) = (Vec::new(), 0_i32);
        for at in open..tokens.len() {
            let token = tokens[at].as_str();
            let is_first = depth == 1 && ["{", ","].contains(&tokens[at - 1].as_str());
            if is_first && token.starts_with(|first: char| first.is_lowercase() || first == '_') {
                fields.push(token);
            }
            depth +=
                i32::from(["{", "(", "["].contains(&token)) - i32::from(["}", ")", "]"].contains(&token));
            if depth == 0 {
                break;
            }
        }
        found.push((name, fields));
    }
    found
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
        let fields = &tokens[open..open + closing(tokens, open, "{", "}")];
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

/// The outsiders of `a::b::Owner` when another file of the crate has this code.
fn outsiders_with(code: &str) -> bool {
    let files = [
        ("a", "pub mod b; pub mod c; pub mod d; pub use b::Owner as Renamed;"),
        ("a::b", "pub struct Owner { pub one: u8, pub two: u8 } pub type Alias = Owner; pub struct Other;"),
        ("a::c", "pub use super::b::*; pub struct Borrows<'a> { owner: &'a u8 }"),
        ("a::d", code),
    ];
    let files = files.iter().map(|(name, code)| ((*name).to_owned(), tokens_of(&code_of(code)))).collect();
    let workspace = Workspace::of(files);
    workspace.outsiders().iter().any(|(named, files)| named.name == "Owner" && files.contains("a::d"))
}

#[test]
fn owners_outsiders_cannot_hide() {
    let hidden = [
        "use super::b::Owner as Mine; impl Mine {}",
        "use super::b::Alias; impl Alias {}",
        "use crate::Renamed; fn f(x: &mut Renamed) {}",
        "use super::c::*; fn f(x: &mut Owner) {}",
        "use super::c::Owner; fn f(x: &mut Owner) {}",
        "use super::b::Owner; fn f(x: &mut [Owner]) {}",
        "use super::b::Owner; fn f(x: &mut Option<Owner>) {}",
        "use super::b::Owner; fn f(x: Option<&mut Owner>) {}",
        "use super::b::Owner; fn f(x: &mut Box<Owner>) {}",
        "use super::b::Owner; fn f(x: MutexGuard<'_, Owner>) {}",
        "use super::b::Owner; fn f(x: std::cell::RefMut<'_, Owner>) {}",
        "use super::b::Owner; fn f() { g(|x: &mut Owner| x.one()) }",
        "use super::b::Owner; fn f() { let x: &mut Owner = g(); }",
        "use super::b::Owner; struct Has<'a> { owner: &'a mut Owner }",
        "mod inner { use crate::b::Owner; impl Owner {} }",
        "use super::b::Owner; trait T {} impl T for &mut Owner {}",
    ];
    let found: Vec<&str> = hidden.into_iter().filter(|code| !outsiders_with(code)).collect();
    assert!(found.is_empty(), "not found: {found:#?}");
    let innocent = [
        "use super::b::Owner; fn f(x: &Owner) -> &mut Owner {}",
        "use super::b::Owner; fn f<'a>(x: u8) -> Result<Option<&'a mut Owner>, u8> {}",
        "use super::b::Other; impl Other {}",
        "struct Owner; impl Owner {}",
        "fn f() { g(&mut Owner::default()) }",
    ];
    let found: Vec<&str> = innocent.into_iter().filter(|code| outsiders_with(code)).collect();
    assert!(found.is_empty(), "found: {found:#?}");
}

#[test]
fn owners_outsiders_are_found_behind_types_that_borrow() {
    let files = [
        ("a", "pub mod b; pub mod c; pub mod d;"),
        (
            "a::b",
            "pub struct Owner; pub struct Lent<'a> { x: &'a mut Owner } pub struct Locked; impl Deref for Locked { type Target = Owner; } impl DerefMut for Locked {}",
        ),
        ("a::c", "use super::b::Lent; fn f(x: Lent<'_>) {}"),
        ("a::d", "use super::b::Locked; fn f(x: &mut Locked) {}"),
    ];
    let files = files.iter().map(|(name, code)| ((*name).to_owned(), tokens_of(&code_of(code)))).collect();
    let workspace = Workspace::of(files);
    let outsiders = workspace.outsiders();
    let (_, found) = outsiders.iter().find(|(named, _)| named.name == "Owner").expect("outsiders");
    assert_eq!(*found, BTreeSet::from(["a::c", "a::d"]));
}

#[test]
fn owners_fields_are_reached_by_literals_and_patterns() {
    let reached = |code: &str| {
        let owner = "pub struct Owner { pub one: u8, pub two: u8, three: u8 }";
        let files = [("a", "pub mod b; pub mod d;"), ("a::b", owner), ("a::d", code)];
        let files =
            files.iter().map(|(name, code)| ((*name).to_owned(), tokens_of(&code_of(code)))).collect();
        Workspace::of(files).reached_fields().values().sum::<usize>()
    };
    assert_eq!(reached("use super::b::Owner; fn f() -> Owner { Owner { one: g(two), ..h() } }"), 1);
    assert_eq!(reached("use super::b::Owner; fn f(x: Owner) { let Owner { one, two, .. } = x; }"), 2);
    assert_eq!(reached("use super::b::Owner; fn f(x: Owner) -> Owner { one(two) }"), 0);
}
