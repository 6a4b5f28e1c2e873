//! Nodes of a mounted folder that the kernel knows: a number for each file that it has looked up, its name
//! now, and which files are open.

use std::collections::HashMap;

use super::wire::ROOT;

/// A file that the kernel has a number of.
#[derive(Debug)]
struct Node {
    /// Folder and name; none: it was removed.
    at: Option<(u64, Vec<u8>)>,
    /// How often the kernel was given its number.
    lookups: u64,
    /// Version of its data when the kernel last kept some.
    version: Option<u64>,
}

/// An open file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle {
    pub node: u64,
    /// Executed: its data must stay those of this version.
    pub executed: Option<u64>,
    /// A lock may be set by it.
    pub may_lock: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: HashMap<u64, Node>,
    names: HashMap<(u64, Vec<u8>), u64>,
    next: u64,
    pub handles: HashMap<u64, Handle>,
}

impl Default for Nodes {
    fn default() -> Self {
        let root = Node { at: None, lookups: 1, version: None };
        let nodes = HashMap::from([(ROOT, root)]);
        Nodes { nodes, names: HashMap::new(), next: ROOT + 1, handles: HashMap::new() }
    }
}

impl Nodes {
    /// Path of a node below the folder; none: it was removed.
    pub(super) fn path(&self, node: u64) -> Option<Vec<u8>> {
        let mut parts = Vec::new();
        let mut at = node;
        while at != ROOT {
            let (parent, name) = self.nodes.get(&at)?.at.as_ref()?;
            parts.push(&name[..]);
            at = *parent;
        }
        parts.reverse();
        Some(parts.join(&b'/'))
    }

    /// Path of a name in a folder.
    pub(super) fn path_in(&self, folder: u64, name: &[u8]) -> Option<Vec<u8>> {
        let path = self.path(folder)?;
        Some(if path.is_empty() { name.to_vec() } else { [&path[..], name].join(&b'/') })
    }

    /// The kernel gets the number of a name once more.
    pub(super) fn enter(&mut self, folder: u64, name: &[u8]) -> u64 {
        let key = (folder, name.to_vec());
        if let Some(node) = self.names.get(&key) {
            self.nodes.entry(*node).and_modify(|node| node.lookups += 1);
            return *node;
        }
        let number = self.next;
        self.next += 1;
        self.names.insert(key.clone(), number);
        self.nodes.insert(number, Node { at: Some(key), lookups: 1, version: None });
        number
    }

    /// The kernel has given a number back so often.
    pub(super) fn forget(&mut self, number: u64, lookups: u64) {
        let Some(node) = self.nodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            let node = self.nodes.remove(&number).expect("it was just found");
            if let Some(key) = &node.at {
                self.names.remove(key);
            }
        }
    }

    /// A name is gone.
    pub(super) fn remove(&mut self, folder: u64, name: &[u8]) {
        if let Some(number) = self.names.remove(&(folder, name.to_vec())) {
            self.nodes.entry(number).and_modify(|node| node.at = None);
        }
    }

    /// A file has got another name; `exchanges`: both have changed names.
    pub(super) fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), exchanges: bool) {
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let (old, new) = (self.names.remove(&from), self.names.remove(&to));
        if let Some(number) = new {
            self.nodes.entry(number).and_modify(|node| node.at = exchanges.then(|| from.clone()));
            if exchanges {
                self.names.insert(from, number);
            }
        }
        if let Some(number) = old {
            self.nodes.entry(number).and_modify(|node| node.at = Some(to.clone()));
            self.names.insert(to, number);
        }
    }

    /// Notes the version of a node's data; whether what the kernel has kept is of another one.
    pub(super) fn note_version(&mut self, number: u64, version: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        node.version.replace(version).is_some_and(|before| before != version)
    }

    /// Any open file of a node.
    pub(super) fn open_handle(&self, node: u64) -> Option<u64> {
        self.handles.iter().find(|(_, handle)| handle.node == node).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_testkit::{Random, seed};

    #[test]
    fn nodes_keep_their_numbers_through_renames_of_folders_above() {
        let mut nodes = Nodes::default();
        let folder = nodes.enter(ROOT, b"a");
        let file = nodes.enter(folder, b"x");
        assert_eq!(nodes.path(file).as_deref(), Some(&b"a/x"[..]));
        nodes.rename((ROOT, b"a"), (ROOT, b"b"), false);
        assert_eq!(nodes.path(file).as_deref(), Some(&b"b/x"[..]));
        nodes.remove(folder, b"x");
        assert_eq!(nodes.path(file), None);
        let other = nodes.enter(folder, b"x");
        assert_ne!(other, file);
        nodes.forget(file, 1);
        assert_eq!(nodes.path(other).as_deref(), Some(&b"b/x"[..]));
    }

    /// Against the plain table of names that a folder is.
    #[test]
    fn nodes_lead_to_the_names_that_files_have() {
        let mut random = Random::new(seed());
        let mut nodes = Nodes::default();
        let mut names: HashMap<u8, u64> = HashMap::new();
        for _ in 0..20_000 {
            let (one, two) = (random.below(8) as u8, random.below(8) as u8);
            match random.below(4) {
                0 => {
                    names.insert(one, nodes.enter(ROOT, &[b'a' + one]));
                }
                1 => {
                    nodes.remove(ROOT, &[b'a' + one]);
                    names.remove(&one);
                }
                2 if one != two => {
                    nodes.rename((ROOT, &[b'a' + one]), (ROOT, &[b'a' + two]), false);
                    names.remove(&two);
                    if let Some(node) = names.remove(&one) {
                        names.insert(two, node);
                    }
                }
                3 if one != two => {
                    nodes.rename((ROOT, &[b'a' + one]), (ROOT, &[b'a' + two]), true);
                    let (first, second) = (names.remove(&one), names.remove(&two));
                    names.extend(first.map(|node| (two, node)));
                    names.extend(second.map(|node| (one, node)));
                }
                _ => {}
            }
            for (name, node) in &names {
                assert_eq!(nodes.path(*node), Some(vec![b'a' + name]));
            }
        }
    }
}
