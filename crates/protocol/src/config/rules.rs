//! Queues, limits and shares: what the controller goes by.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::schema::MEMORY_PER_NODE;
use super::section::Section;
use super::values::{Value, duration_text, quoted};

/// How long it takes until half of what somebody has used is forgotten, in ms.
pub const HALF_LIFE_MS: u64 = 600_000;
/// The share of who has none in the file.
pub const SHARE_DEFAULT: u32 = 100;

/// A queue: what its jobs have that say nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue(pub Section);

impl Queue {
    /// Weight of jobs that name none.
    #[must_use]
    pub fn weight(&self) -> Option<u32> {
        self.0.count("weight").map(|weight| weight as u32)
    }

    /// The nodes of its jobs; empty: all.
    #[must_use]
    pub fn nodes(&self) -> &[String] {
        self.0.names("nodes")
    }

    /// The longest time limit, and that of jobs that name none, in ms.
    #[must_use]
    pub fn time_ms(&self) -> Option<u64> {
        self.0.ms("time")
    }

    /// Whether its jobs have their nodes alone.
    #[must_use]
    pub fn exclusive(&self) -> bool {
        self.0.switch("exclusive").unwrap_or(false)
    }
}

/// Limits of a user, a group, or of each user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits(pub Section);

/// Scope of limits: whose they are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Of each user who has none of his own.
    Each,
    /// Of this user.
    User(String),
    /// Of all users of this group together.
    Group(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Each => f.write_str("[limits]"),
            Scope::User(name) => write!(f, "[limits.user.{name}]"),
            Scope::Group(name) => write!(f, "[limits.group.{name}]"),
        }
    }
}

/// Rules that the controller goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The file that they are from, as people are told of it.
    pub path: String,
    /// By name.
    pub queues: BTreeMap<String, Queue>,
    /// Of each user.
    pub limits: Limits,
    /// By user.
    pub user_limits: BTreeMap<String, Limits>,
    /// By group: all its users together.
    pub group_limits: BTreeMap<String, Limits>,
    /// By user.
    pub user_shares: BTreeMap<String, u32>,
    /// By group, which its users divide.
    pub group_shares: BTreeMap<String, u32>,
    /// See [`HALF_LIFE_MS`]; 0: the past does not count.
    pub half_life_ms: Option<u64>,
}

impl Rules {
    /// Whether anybody has any.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        !(self.limits.0.0.is_empty() && self.user_limits.is_empty() && self.group_limits.is_empty())
    }

    /// The limit `name` that holds for a user and that for his group, each with its scope and place.
    #[must_use]
    pub fn limits_of(
        &self,
        user: Option<&str>,
        group: Option<&str>,
        name: &str,
    ) -> Vec<(Scope, Value, String)> {
        let place =
            |scope: &Scope, limits: &Limits| format!("{scope} in {}:{}", self.path, limits.0.line(name));
        let found = |scope: Scope, limits: &Limits| {
            let value = limits.0.0.get(name)?.value.clone();
            let place = place(&scope, limits);
            Some((scope, value, place))
        };
        let of_user = user.and_then(|user| found(Scope::User(user.into()), self.user_limits.get(user)?));
        let of_user = of_user.or_else(|| found(Scope::Each, &self.limits));
        let of_group =
            group.and_then(|group| found(Scope::Group(group.into()), self.group_limits.get(group)?));
        of_user.into_iter().chain(of_group).collect()
    }

    /// Of all this what every node needs, since its kernel sees to it: `memory_per_node`, with its places.
    #[must_use]
    pub fn of_nodes(&self) -> Rules {
        let of_nodes = |limits: &Limits| {
            let kept = limits.0.0.get_key_value(MEMORY_PER_NODE);
            Limits(Section(kept.into_iter().map(|(name, placed)| (name.clone(), placed.clone())).collect()))
        };
        let users = self.user_limits.iter().filter(|(_, limits)| limits.0.0.contains_key(MEMORY_PER_NODE));
        let user_limits: BTreeMap<_, _> =
            users.map(|(name, limits)| (name.clone(), of_nodes(limits))).collect();
        let limits = of_nodes(&self.limits);
        let is_none = user_limits.is_empty() && limits.0.0.is_empty();
        let path = if is_none { String::new() } else { self.path.clone() };
        Rules { path, limits, user_limits, ..Rules::default() }
    }

    /// Limit of memory for all jobs of a user on a node, in bytes, and where that is written; none: no limit.
    /// `user`: his name, or his number where he has none.
    #[must_use]
    pub fn memory_per_node(&self, user: &str) -> Option<(u64, String)> {
        let limits = self.limits_of(Some(user), None, MEMORY_PER_NODE);
        limits.into_iter().find_map(|(_, value, place)| match value {
            Value::Bytes(bytes) => Some((bytes, place)),
            _ => None,
        })
    }

    /// How long it takes until half of what somebody has used is forgotten, in ms; 0: at once.
    #[must_use]
    pub fn half_life_ms(&self) -> u64 {
        self.half_life_ms.unwrap_or(HALF_LIFE_MS)
    }
}

/// As sections of the file.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, queue) in &self.queues {
            writeln!(f, "[queue.{}]\n{}", quoted(name), queue.0)?;
        }
        if !self.limits.0.0.is_empty() {
            writeln!(f, "[limits]\n{}", self.limits.0)?;
        }
        for (of, limits) in [("user", &self.user_limits), ("group", &self.group_limits)] {
            for (name, limits) in limits {
                writeln!(f, "[limits.{of}.{}]\n{}", quoted(name), limits.0)?;
            }
        }
        if let Some(ms) = self.half_life_ms {
            writeln!(f, "[shares]\nhalf_life = \"{}\"\n", duration_text(ms))?;
        }
        for (of, shares) in [("user", &self.user_shares), ("group", &self.group_shares)] {
            if !shares.is_empty() {
                writeln!(f, "[shares.{of}]")?;
                shares.iter().try_for_each(|(name, share)| writeln!(f, "{} = {share}", quoted(name)))?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
