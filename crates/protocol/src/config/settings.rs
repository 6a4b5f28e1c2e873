//! Settings that hold, and where each value comes from.

use std::collections::BTreeSet;

use super::parse::Config;
use super::schema::{self, Key};
use super::section::Section;
use super::values::Value;
pub use crate::settings::{Setting, Source};

/// Values that go before the file: flags of the daemon with their values, and the environment.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Flag and value.
    pub flags: Vec<(String, String)>,
    /// Key, variable and value.
    pub environment: Vec<(String, String, String)>,
}

impl Given {
    /// The value that goes before the file.
    fn find(&self, key: &Key) -> Option<(String, Source)> {
        let flag = key.flag?;
        let by_flag = self.flags.iter().find(|(name, _)| name == flag);
        let by_flag = by_flag.map(|(name, value)| (value.clone(), Source::Flag(name.clone())));
        let by_name = self.environment.iter().find(|(name, ..)| name == key.name);
        by_flag.or_else(|| by_name.map(|(_, name, value)| (value.clone(), Source::Environment(name.clone()))))
    }
}

/// Merges `[node]` and `[nodes.NAME]` for the node of this name; the latter goes before.
#[must_use]
pub fn of_node(config: &Config, name: &str) -> Section {
    let mut section = config.node.clone();
    let own = config.nodes.get(name).map(|section| section.0.clone()).unwrap_or_default();
    section.0.extend(own);
    section
}

/// Every setting of the node of this name and of the cluster, as `tutti config show` has it.
#[must_use]
pub fn rows(config: &Config, name: &str, given: &Given) -> (Vec<Setting>, Vec<Setting>) {
    let keys = |title: &str, keys: &'static [Key], section: &Section| {
        let row = |key: &Key| {
            let (value, source) = given.find(key).unwrap_or_else(|| match section.0.get(key.name) {
                Some(placed) => (placed.value.to_string(), Source::File(config.path.clone(), placed.line)),
                None => (key.default.to_owned(), Source::Default),
            });
            Setting { key: format!("{title}.{}", key.name), value, source }
        };
        keys.iter().map(row).collect::<Vec<_>>()
    };
    let mut node = keys("node", schema::NODE, &of_node(config, name));
    node.extend(keys("client", schema::CLIENT, &config.client));
    let mut cluster = keys("cluster", schema::CLUSTER, &config.cluster);
    cluster.extend(keys("sight", schema::SIGHT, &config.sight));
    cluster.extend(rule_rows(config));
    (node, cluster)
}

/// Queues, limits and shares that the file has.
fn rule_rows(config: &Config) -> Vec<Setting> {
    let rules = &config.rules;
    let mut rows = Vec::new();
    let mut put = |title: String, section: &Section| {
        rows.extend(section.0.iter().map(|(name, placed)| Setting {
            key: format!("{title}.{name}"),
            value: placed.value.to_string(),
            source: Source::File(config.path.clone(), placed.line),
        }));
    };
    rules.queues.iter().for_each(|(name, queue)| put(format!("queue.{name}"), &queue.0));
    put("limits".into(), &rules.limits.0);
    rules.user_limits.iter().for_each(|(name, limits)| put(format!("limits.user.{name}"), &limits.0));
    rules.group_limits.iter().for_each(|(name, limits)| put(format!("limits.group.{name}"), &limits.0));
    let half_life = Value::Ms(rules.half_life_ms()).to_string();
    let from_file = |is_given: bool| match is_given {
        true => Source::File(config.path.clone(), 0),
        false => Source::Default,
    };
    let source = from_file(rules.half_life_ms.is_some());
    rows.push(Setting { key: "shares.half_life".into(), value: half_life, source });
    for (of, shares) in [("user", &rules.user_shares), ("group", &rules.group_shares)] {
        rows.extend(shares.iter().map(|(name, share)| Setting {
            key: format!("shares.{of}.{name}"),
            value: share.to_string(),
            source: from_file(true),
        }));
    }
    rows
}

/// Keys of `[cluster]` that two files have differently and that take effect at the next start only.
#[must_use]
pub fn restart_keys(before: &Section, after: &Section) -> Vec<String> {
    let value = |section: &Section, name: &str| section.0.get(name).map(|placed| placed.value.clone());
    let names: BTreeSet<&String> = before.0.keys().chain(after.0.keys()).collect();
    let changed = names.into_iter().filter(|name| value(before, name) != value(after, name));
    let is_fixed = |name: &&String| schema::find(schema::CLUSTER, name).is_some_and(|key| !key.live);
    changed.filter(is_fixed).map(|name| format!("cluster.{name}")).collect()
}
