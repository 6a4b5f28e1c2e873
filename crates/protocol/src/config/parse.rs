//! Text to values, with every mistake and its place.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::rules::{Limits, Queue, Rules};
use super::schema::{self, Key};
use super::section::{Placed, Section};
use super::values::{Kind, Value, is_name, shown};

/// Mistakes that are named; more are counted.
pub const MISTAKES_MAX: usize = 200;

/// Fault at a place of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Text of the fault, and what is allowed; one line.
    pub text: String,
}

impl Mistake {
    /// As a line for the user.
    #[must_use]
    pub fn at(&self, path: &str) -> String {
        format!("{path}:{}:{}: {}", self.line, self.column, tutti_os::stderr::escape_control(&self.text))
    }
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The file, as people are told of it; empty: there is none.
    pub path: String,
    /// `[node]`.
    pub node: Section,
    /// `[nodes.NAME]`.
    pub nodes: BTreeMap<String, Section>,
    /// `[cluster]`.
    pub cluster: Section,
    /// `[sight]`.
    pub sight: Section,
    /// `[client]`.
    pub client: Section,
    /// Queues, limits and shares.
    pub rules: Rules,
}

impl Config {
    /// Text that the controller hands to all nodes: every section but `[node]` and `[client]`, in one way of
    /// writing it, without remarks.
    #[must_use]
    pub fn cluster_text(&self) -> String {
        let mut text = String::new();
        let mut put = |title: &str, section: &Section| {
            if !section.0.is_empty() {
                text.push_str(&format!("[{title}]\n{section}\n"));
            }
        };
        put("cluster", &self.cluster);
        put("sight", &self.sight);
        for (name, section) in &self.nodes {
            put(&format!("nodes.{}", super::values::quoted(name)), section);
        }
        text.push_str(&self.rules.to_string());
        text
    }
}

/// Users and groups of this machine, as far as they are known.
pub trait Accounts {
    /// Whether there is such a user.
    fn has_user(&self, name: &str) -> bool;
    /// Whether there is such a group.
    fn has_group(&self, name: &str) -> bool;
}

/// Everybody is known.
#[derive(Clone, Copy, Debug)]
pub struct AllKnown;

impl Accounts for AllKnown {
    fn has_user(&self, _: &str) -> bool {
        true
    }
    fn has_group(&self, _: &str) -> bool {
        true
    }
}

/// Content of a text, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Configuration, as far as the text is right.
    pub config: Config,
    /// Faults that make the text no configuration.
    pub mistakes: Vec<Mistake>,
    /// Possible mistakes.
    pub warnings: Vec<Mistake>,
}

/// Reads a text; `path` is how people know its file.
#[must_use]
pub fn parse(path: &str, text: &str, accounts: &dyn Accounts) -> Parsed {
    let (table, errors) = DeTable::parse_recoverable(text);
    let lines = Lines::of(text);
    let mut reader = Reader { lines, parsed: Parsed::default(), accounts };
    reader.parsed.config.path = path.to_owned();
    reader.parsed.config.rules.path = path.to_owned();
    for error in errors {
        let place = error.span().unwrap_or(text.len()..text.len());
        reader.mistake(&place, error.message().split_whitespace().collect::<Vec<_>>().join(" "));
    }
    reader.read(table.get_ref());
    reader.parsed.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    // One mistake of the language may be seen twice.
    reader.parsed.mistakes.dedup_by_key(|mistake| (mistake.line, mistake.column));
    reader.parsed.warnings.sort_by_key(|mistake| (mistake.line, mistake.column));
    reader.parsed
}

/// Where lines begin.
struct Lines<'a> {
    text: &'a str,
    begins: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, begins }
    }

    fn place(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let line = self.begins.partition_point(|begin| *begin <= at);
        let begin = self.begins[line - 1];
        // A place may be in the midst of a character.
        let before = (begin..=at).rev().find_map(|end| self.text.get(begin..end)).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

type Entry<'a> = (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>);

struct Reader<'a> {
    lines: Lines<'a>,
    parsed: Parsed,
    accounts: &'a dyn Accounts,
}

impl Reader<'_> {
    fn mistake(&mut self, place: &Range<usize>, text: String) {
        let (line, column) = self.lines.place(place.start);
        self.parsed.mistakes.push(Mistake { line, column, text });
    }

    fn warning(&mut self, place: &Range<usize>, text: String) {
        let (line, column) = self.lines.place(place.start);
        self.parsed.warnings.push(Mistake { line, column, text });
    }

    fn read(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let title = name.get_ref().as_ref();
            match title {
                "node" => self.parsed.config.node = self.section("[node]", value, schema::NODE),
                "cluster" => self.parsed.config.cluster = self.section("[cluster]", value, schema::CLUSTER),
                "sight" => self.parsed.config.sight = self.section("[sight]", value, schema::SIGHT),
                "client" => self.parsed.config.client = self.section("[client]", value, schema::CLIENT),
                "nodes" => self.nodes(value),
                "queue" => self.queues(value),
                "limits" => self.limits(value),
                "shares" => self.shares(value),
                other => {
                    let advice = advice(other, schema::SECTIONS.iter().copied());
                    self.mistake(&name.span(), format!("there is no section [{}]{advice}", brief(other)));
                }
            }
        }
    }

    /// The entries of a table; a mistake if it is none.
    fn entries<'v>(&mut self, title: &str, value: &'v Spanned<DeValue<'v>>) -> Vec<Entry<'v>> {
        match value.get_ref() {
            DeValue::Table(table) => table.iter().collect(),
            other => {
                self.mistake(&value.span(), format!("{title} is a section, not {}", shown(other)));
                Vec::new()
            }
        }
    }

    fn section(&mut self, title: &str, value: &Spanned<DeValue<'_>>, keys: &'static [Key]) -> Section {
        let mut section = Section::default();
        for entry in self.entries(title, value) {
            self.key(title, entry, keys, &mut section);
        }
        section
    }

    fn key(&mut self, title: &str, (name, value): Entry<'_>, keys: &'static [Key], section: &mut Section) {
        let word = name.get_ref().as_ref();
        let Some(key) = schema::find(keys, word) else {
            let advice = match word == schema::MEMORY_PER_NODE && title.starts_with("[limits.group") {
                true => ": nodes hold each user to a limit of his own; [limits] has that of each".into(),
                false => advice(word, keys.iter().map(|key| key.name)),
            };
            return self.mistake(&name.span(), format!("{} is not a key of {title}{advice}", brief(word)));
        };
        if let Some(value) = self.value(word, key.kind, value) {
            let line = self.lines.place(name.span().start).0 as u32;
            section.0.insert(key.name.to_owned(), Placed { value, line });
        }
    }

    fn value(&mut self, name: &str, kind: Kind, value: &Spanned<DeValue<'_>>) -> Option<Value> {
        match kind.read(value.get_ref()) {
            Ok(value) => Some(value),
            Err(text) => {
                self.mistake(&value.span(), format!("{name}: {text}"));
                None
            }
        }
    }

    /// Sections with names of the keeper's choice.
    fn named(
        &mut self,
        title: &str,
        value: &Spanned<DeValue<'_>>,
        keys: &'static [Key],
    ) -> BTreeMap<String, Section> {
        let mut sections = BTreeMap::new();
        for (name, value) in self.entries(&format!("[{title}]"), value) {
            let word = name.get_ref().as_ref();
            if !is_name(word) {
                self.mistake(&name.span(), format!("{:?} is not a name: no spaces, not empty", brief(word)));
                continue;
            }
            let section = self.section(&format!("[{title}.{word}]"), value, keys);
            sections.insert(word.to_owned(), section);
        }
        sections
    }

    fn nodes(&mut self, value: &Spanned<DeValue<'_>>) {
        let nodes = self.named("nodes", value, schema::NODE);
        if let DeValue::Table(table) = value.get_ref() {
            let names = table.iter().filter_map(|(_, node)| match node.get_ref() {
                DeValue::Table(keys) => keys.get_key_value("name").map(|(key, _)| key.span()),
                _ => None,
            });
            for place in names.collect::<Vec<_>>() {
                self.mistake(&place, "name is not a key of [nodes.NAME]: the section has the name".into());
            }
        }
        self.parsed.config.nodes = nodes;
    }

    fn queues(&mut self, value: &Spanned<DeValue<'_>>) {
        let queues = self.named("queue", value, schema::QUEUE);
        self.parsed.config.rules.queues =
            queues.into_iter().map(|(name, section)| (name, Queue(section))).collect();
    }

    fn limits(&mut self, value: &Spanned<DeValue<'_>>) {
        let mut all = Section::default();
        for (name, value) in self.entries("[limits]", value) {
            match name.get_ref().as_ref() {
                of @ ("user" | "group") => {
                    self.known(of, value);
                    let keys = if of == "user" { schema::LIMITS } else { schema::GROUP_LIMITS };
                    let sections = self.named(&format!("limits.{of}"), value, keys);
                    let limits = sections.into_iter().map(|(name, section)| (name, Limits(section)));
                    let rules = &mut self.parsed.config.rules;
                    let map = if of == "user" { &mut rules.user_limits } else { &mut rules.group_limits };
                    *map = limits.collect();
                }
                _ => self.key("[limits]", (name, value), schema::LIMITS, &mut all),
            }
        }
        self.parsed.config.rules.limits = Limits(all);
    }

    fn shares(&mut self, value: &Spanned<DeValue<'_>>) {
        for (name, value) in self.entries("[shares]", value) {
            match name.get_ref().as_ref() {
                "half_life" => {
                    let read = self.value("half_life", Kind::Duration(0, 366 * 86_400_000), value);
                    if let Some(Value::Ms(ms)) = read {
                        self.parsed.config.rules.half_life_ms = Some(ms);
                    }
                }
                of @ ("user" | "group") => {
                    self.known(of, value);
                    let mut shares = BTreeMap::new();
                    for (name, value) in self.entries(&format!("[shares.{of}]"), value) {
                        let word = name.get_ref().as_ref();
                        if !is_name(word) {
                            let text = format!("{:?} is not a name: no spaces, not empty", brief(word));
                            self.mistake(&name.span(), text);
                        } else if let Some(Value::Count(share)) =
                            self.value(word, Kind::Count(1, 10_000), value)
                        {
                            shares.insert(word.to_owned(), share as u32);
                        }
                    }
                    let rules = &mut self.parsed.config.rules;
                    let map = if of == "user" { &mut rules.user_shares } else { &mut rules.group_shares };
                    *map = shares;
                }
                other => {
                    let advice = advice(other, ["half_life", "user", "group"].into_iter());
                    let text = format!("{} is not a key of [shares]{advice}", brief(other));
                    self.mistake(&name.span(), text);
                }
            }
        }
    }

    /// Warns of users or groups that nobody knows: the directory may be down.
    fn known(&mut self, of: &str, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.get_ref() else { return };
        let accounts = self.accounts;
        let is_known = |name: &str| match of {
            "user" => accounts.has_user(name),
            _ => accounts.has_group(name),
        };
        let unknown = table.iter().filter(|(name, _)| is_name(name.get_ref()) && !is_known(name.get_ref()));
        let unknown: Vec<_> = unknown.map(|(name, _)| (name.span(), brief(name.get_ref()))).collect();
        for (place, name) in unknown {
            self.warning(
                &place,
                format!("no {of} {name} is known here now; the line holds when there is one"),
            );
        }
    }
}

/// A word of the file, not too long.
fn brief(word: &str) -> String {
    match word.char_indices().nth(60) {
        Some((at, _)) => format!("{}...", &word[..at]),
        None => word.to_owned(),
    }
}

/// Names the word that is probably meant, else all that there are.
fn advice<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match schema::nearest(word, known.clone()) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; there are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests;
