//! The numbers of nodes by name. The controller keeps them in a file for the controller after it: a daemon
//! that knows nothing must not get the number of a node that has not come back yet, whose jobs have that
//! number in them.
//!
//! ```text
//! Hello(name, wish) --> Numbers: the number of that name, the wish, the next one --> Members
//!                   --> KeepNumbers (file) --> Welcome(number)
//! ```
//!
//! What happens if the controller stops right here: the number is in the file before the node hears it.

use std::collections::BTreeMap;

use crate::members::{Members, NODES_MAX, NodeId};

/// Beyond so many names those that are not in the list of nodes are forgotten.
const NAMES_MAX: usize = 65_536;

/// Which number each node has had.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    by_name: BTreeMap<String, NodeId>,
}

impl Numbers {
    /// With what an earlier controller has kept.
    pub(super) fn new(by_name: BTreeMap<String, NodeId>) -> Self {
        Numbers { by_name }
    }

    /// The number under which a node is taken in: its own by the list, then the one that it wishes, then its
    /// own by the file, if nobody else has them, then the next one.
    pub(super) fn choose(&self, members: &Members, name: &str, preferred: Option<NodeId>) -> NodeId {
        if let Some(known) = members.number(name) {
            return known;
        }
        let is_free = |node: &NodeId| {
            let is_others = |(other, taken): (&String, &NodeId)| taken == node && other != name;
            node.0 < NODES_MAX && !members.nodes.contains_key(node) && !self.by_name.iter().any(is_others)
        };
        let own = self.by_name.get(name).copied();
        preferred.into_iter().chain(own).find(is_free).unwrap_or_else(|| {
            let listed = members.nodes.last_key_value().map(|(last, _)| last);
            NodeId(listed.into_iter().chain(self.by_name.values()).max().map_or(0, |last| last.0 + 1))
        })
    }

    /// The list has changed. Gives what the file is to say, if that is new. Where both differ the list is
    /// right, since nodes that live have it.
    pub(super) fn learn(&mut self, members: &Members) -> Option<BTreeMap<String, NodeId>> {
        let mut has_changed = false;
        for (node, member) in &members.nodes {
            if self.by_name.get(&member.about.name) != Some(node) {
                self.by_name.retain(|_, other| other != node);
                self.by_name.insert(member.about.name.clone(), *node);
                has_changed = true;
            }
        }
        if self.by_name.len() > NAMES_MAX {
            self.by_name.retain(|name, _| members.number(name).is_some());
        }
        has_changed.then(|| self.by_name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::About;

    fn about(name: &str) -> About {
        About {
            name: name.into(),
            control: "127.0.0.1:1".parse().unwrap(),
            data: "127.0.0.1".parse().unwrap(),
            slots: 2,
            memory_bytes: 0,
            offered_gpus: Default::default(),
            limits_memory: false,
            freezes: false,
            incarnation: 1,
            preferred: Default::default(),
            machine: String::new(),
            release: String::new(),
        }
    }

    fn admit(numbers: &mut Numbers, members: &mut Members, name: &str, preferred: Option<u32>) -> u32 {
        let node = numbers.choose(members, name, preferred.map(NodeId));
        members.admit(node, about(name));
        let _ = numbers.learn(members);
        node.0
    }

    #[test]
    fn number_of_a_node_that_was_lost_stays_its_own() {
        let (mut numbers, mut members) = (Numbers::default(), Members::new(2, about("head"), 1));
        let names = ["a", "b", "c"];
        assert_eq!(names.map(|name| admit(&mut numbers, &mut members, name, None)), [1, 2, 3]);
        members.lose(NodeId(2));
        assert_eq!(admit(&mut numbers, &mut members, "b", None), 2);
        assert!(members.is_alive(NodeId(2)));
        assert_eq!(admit(&mut numbers, &mut members, "d", Some(2)), 4);
    }

    #[test]
    fn number_that_an_earlier_controller_gave_is_for_that_name_alone() {
        let kept = [("head", 0), ("a", 1), ("b", 2), ("c", 7)];
        let kept = kept.into_iter().map(|(name, node)| (name.to_owned(), NodeId(node))).collect();
        let (mut numbers, mut members) = (Numbers::new(kept), Members::new(2, about("head"), 1));
        // New ones, one of which wishes for another's.
        assert_eq!(admit(&mut numbers, &mut members, "new", None), 8);
        assert_eq!(admit(&mut numbers, &mut members, "other", Some(1)), 9);
        assert_eq!(admit(&mut numbers, &mut members, "free", Some(4)), 4);
        assert_eq!(admit(&mut numbers, &mut members, "far", Some(NODES_MAX)), 10);
        assert_eq!(admit(&mut numbers, &mut members, "b", None), 2);
        // What a node itself has kept of its jobs is newer than a file.
        assert_eq!(admit(&mut numbers, &mut members, "a", Some(5)), 5);
        assert_eq!(admit(&mut numbers, &mut members, "c", Some(0)), 7);
    }

    #[test]
    fn numbers_are_written_when_they_change_and_only_then() {
        let mut members = Members::new(2, about("head"), 1);
        let mut numbers = Numbers::default();
        let names = |numbers: BTreeMap<String, NodeId>| numbers.into_keys().collect::<Vec<_>>();
        assert_eq!(numbers.learn(&members).map(names), Some(vec!["head".to_owned()]));
        assert_eq!(numbers.learn(&members), None);
        members.admit(NodeId(3), about("a"));
        assert_eq!(numbers.learn(&members).map(names), Some(vec!["a".to_owned(), "head".to_owned()]));
        members.lose(NodeId(3));
        assert_eq!(numbers.learn(&members), None);
    }
}
