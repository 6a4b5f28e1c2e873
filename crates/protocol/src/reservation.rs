//! Reservations: nodes that only jobs of some users get for a time (`tutti reserve`).

use serde::{Deserialize, Serialize};

/// Characters of a name, at most.
pub const NAME_CHARS_MAX: usize = 64;
/// Users of a reservation, at most.
pub const USERS_MAX: usize = 256;
/// Reservations of a cluster, at most.
pub const RESERVATIONS_MAX: usize = 256;

/// Nodes that are reserved for users for a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Name by which jobs name it.
    pub name: String,
    /// Names of its nodes.
    pub nodes: Vec<String>,
    /// When it begins, in ms since 1970.
    pub from_ms: u64,
    /// When it ends.
    pub until_ms: u64,
    /// Users whose jobs may run in it.
    pub users: Vec<u32>,
    /// User who has made it. A value from a program does not count.
    #[serde(default)]
    pub by: u32,
    /// Number for the scheduler, which no other has. A value from a program does not count.
    #[serde(default)]
    pub number: u32,
}

impl Reservation {
    /// Whether it has begun and is not over.
    #[must_use]
    pub fn is_open(&self, now_ms: u64) -> bool {
        self.from_ms <= now_ms && !self.is_over(now_ms)
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_over(&self, now_ms: u64) -> bool {
        self.until_ms <= now_ms
    }

    /// Whether jobs of this user may run in it; root's may in all.
    #[must_use]
    pub fn is_for(&self, uid: u32) -> bool {
        uid == 0 || self.users.contains(&uid)
    }

    /// Whether both have the same nodes for the same users until the same time, made by the same user.
    #[must_use]
    pub fn is_same_as(&self, other: &Reservation) -> bool {
        let of = |one: &Reservation| {
            (one.name.clone(), one.nodes.clone(), one.until_ms, one.users.clone(), one.by)
        };
        of(self) == of(other)
    }

    /// Node that both have, at some time.
    #[must_use]
    pub fn meets<'a>(&'a self, other: &Reservation) -> Option<&'a str> {
        let is_at_once = self.from_ms < other.until_ms && other.from_ms < self.until_ms;
        let mut nodes = self.nodes.iter().filter(|node| is_at_once && other.nodes.contains(node));
        nodes.next().map(String::as_str)
    }

    /// Why it cannot be, whatever other reservations there are.
    ///
    /// # Errors
    /// A line for the user.
    pub fn check(&self, now_ms: u64) -> Result<(), String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.len() > NAME_CHARS_MAX || !self.name.chars().all(is_plain) {
            return Err(format!(
                "a reservation has a name of letters, digits, - _ and ., {NAME_CHARS_MAX} at most"
            ));
        }
        if self.nodes.is_empty() {
            return Err(format!("reservation {} has no nodes", self.name));
        }
        if self.users.is_empty() || self.users.len() > USERS_MAX {
            return Err(format!("reservation {} is for 1 to {USERS_MAX} users", self.name));
        }
        if self.until_ms <= self.from_ms || self.is_over(now_ms) {
            return Err(format!("reservation {} would be over before it begins", self.name));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(nodes: &[&str], from_ms: u64, until_ms: u64) -> Reservation {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        Reservation { name: "r".into(), nodes, from_ms, until_ms, users: vec![5], by: 0, number: 1 }
    }

    #[test]
    fn reservations_meet_on_a_node_at_some_time() {
        let one = reservation(&["a", "b"], 10, 20);
        assert_eq!(one.meets(&reservation(&["c", "b"], 19, 30)), Some("b"));
        assert_eq!(one.meets(&reservation(&["b"], 20, 30)), None);
        assert_eq!(one.meets(&reservation(&["b"], 5, 10)), None);
        assert_eq!(one.meets(&reservation(&["c"], 10, 20)), None);
        assert_eq!([9, 10, 19, 20].map(|now| one.is_open(now)), [false, true, true, false]);
        assert_eq!([0, 5, 6].map(|uid| one.is_for(uid)), [true, true, false]);
    }

    #[test]
    fn reservation_that_cannot_be_is_refused() {
        let right = reservation(&["a"], 10, 20);
        assert_eq!(right.check(19), Ok(()));
        for wrong in [
            Reservation { name: String::new(), ..right.clone() },
            Reservation { name: "a b".into(), ..right.clone() },
            Reservation { nodes: Vec::new(), ..right.clone() },
            Reservation { users: Vec::new(), ..right.clone() },
            Reservation { until_ms: 10, ..right.clone() },
        ] {
            assert!(wrong.check(5).is_err(), "{wrong:?}");
        }
        assert!(right.check(20).is_err(), "it is over");
    }
}
