//! The sections and keys of `tutti.toml`.

use super::values::Kind;

/// A key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Kind of value that it takes.
    pub kind: Kind,
    /// The flag of `tuttid` that goes before it, if there is one.
    pub flag: Option<&'static str>,
    /// Default value, in words for people.
    pub default: &'static str,
    /// `tutti reload` takes it; else it takes effect at the next start of the daemon.
    pub live: bool,
}

const MS: u64 = 1;
const SECOND: u64 = 1000 * MS;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;

const fn key(name: &'static str, kind: Kind, flag: &'static str, default: &'static str) -> Key {
    Key { name, kind, flag: Some(flag), default, live: false }
}

const fn live(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, flag: None, default: "-", live: true }
}

const fn own(name: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { name, kind, flag: None, default, live: false }
}

/// `[node]`: of the node whose file it is; `[nodes.NAME]` has the same for one node, and goes before it.
pub const NODE: &[Key] = &[
    key("name", Kind::Text, "name", "the host's name"),
    key("join", Kind::Text, "join", "none: this daemon is the controller"),
    key("listen", Kind::Socket, "listen", "127.0.0.1:7411"),
    key("data", Kind::Address, "data", "that of listen"),
    key("ports", Kind::Ports, "ports", "those that the kernel chooses"),
    key("slots", Kind::Count(1, u32::MAX as u64), "slots", "all cores that the daemon may use"),
    key("memory", Kind::Size(0), "memory", "the machine's but a sixteenth"),
    key("gpus", Kind::Gpus, "gpus", "those found for root's daemon"),
    key("pids_max", Kind::Count(16, 1 << 22), "pids_max", "an eighth of what the kernel takes"),
    key("machine", Kind::Text, "machine", "the machine's boot id"),
    key("key", Kind::Path, "key", "cluster.key in the folder"),
    key("socket", Kind::Path, "socket", "tuttid.sock in the folder"),
    key("state", Kind::Path, "state", "/var/lib/tutti for root's daemon"),
    key("keep_for", Kind::Duration(0, DAY), "keep_for", "1m"),
    own("prolog", Kind::Path, "none"),
    own("epilog", Kind::Path, "none"),
    own("script_time", Kind::Duration(SECOND, HOUR), "1m"),
    key("log_level", Kind::Choice(&["error", "warn", "info", "debug", "trace"]), "log_level", "info"),
];

/// `[cluster]`: what the controller goes by.
pub const CLUSTER: &[Key] = &[
    Key {
        name: "slice",
        kind: Kind::Duration(5 * MS, HOUR),
        flag: Some("slice"),
        default: "100ms",
        live: true,
    },
    key("policy", Kind::Choice(&["matrix", "dqt"]), "policy", "matrix"),
    key("strict", Kind::Switch, "strict", "false"),
    key("force_switch", Kind::Switch, "force_switch", "false"),
    key("arity", Kind::Count(1, 64), "arity", "4"),
    key("lost_after", Kind::Duration(200 * MS, HOUR), "lost_after", "5s"),
    own("mail", Kind::Path, "none"),
];

/// `[sight]`: history, metrics and the page.
pub const SIGHT: &[Key] = &[
    own("listen", Kind::Socket, "127.0.0.1:7480"),
    own("hosts", Kind::Names, "addresses and localhost"),
    own("user", Kind::Text, "tutti-sight, else nobody"),
    own("history", Kind::Duration(DAY, 3660 * DAY), "30d"),
    own("bytes_a_day", Kind::Size(1 << 20), "16M"),
];

/// `[client]`: what commands go by that ask a daemon.
pub const CLIENT: &[Key] = &[own("at", Kind::Text, "none: the daemon of this machine")];

/// `[queue.NAME]`.
pub const QUEUE: &[Key] = &[
    live("weight", Kind::Count(1, 10_000)),
    live("nodes", Kind::Names),
    live("time", Kind::Duration(SECOND, 366 * DAY)),
    live("exclusive", Kind::Switch),
];

/// `[limits]`, `[limits.user.NAME]`.
pub const LIMITS: &[Key] = &[
    live(MEMORY_PER_NODE, Kind::Size(MEMORY_PER_NODE_MIN)),
    live("ranks", Kind::Count(1, 1 << 32)),
    live("slots", Kind::Count(1, 1 << 32)),
    live("nodes", Kind::Count(1, 1 << 20)),
    live("memory", Kind::Size(0)),
    live("jobs", Kind::Count(1, 1 << 32)),
    live("waiting", Kind::Count(1, 1 << 32)),
    live("time", Kind::Duration(SECOND, 366 * DAY)),
    live("exclusive", Kind::Switch),
    live("weight_max", Kind::Count(1, 10_000)),
];

/// Limit of memory for all jobs of a user on a node; the nodes' kernels see to that.
pub const MEMORY_PER_NODE: &str = "memory_per_node";
/// Least value of it in bytes: with less the starter of a job cannot work, which is in it too.
pub const MEMORY_PER_NODE_MIN: u64 = 32 << 20;

/// `[limits.group.NAME]`: what is not held by the cgroup of a user.
pub const GROUP_LIMITS: &[Key] = LIMITS.split_at(1).1;

/// Sections that there are, for who has written another one.
pub const SECTIONS: &[&str] = &["node", "nodes", "cluster", "queue", "limits", "shares", "sight", "client"];

/// The keys of a section whose table this is.
#[must_use]
pub fn find(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    keys.iter().find(|key| key.name == name)
}

/// The known word that a misspelt one is nearest to, if it is near.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = 1 + word.chars().count().min(32) / 4;
    let near = known.map(|known| (distance(word, known), known)).filter(|(distance, _)| *distance <= most);
    near.min().map(|(_, known)| known)
}

/// Letters to be put in, left out, changed or swapped with the next.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, j) => j,
                (i, 0) => i,
                (i, j) => {
                    let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let mut least = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        least = least.min(rows[i - 2][j - 2] + 1);
                    }
                    least
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_found_for_small_mistakes_alone() {
        let known = || ["slice", "policy", "strict"].into_iter();
        assert_eq!(nearest("slcie", known()), Some("slice"));
        assert_eq!(nearest("polices", known()), Some("policy"));
        assert_eq!(nearest("memory", known()), None);
        assert_eq!(nearest("", known()), None);
    }
}
