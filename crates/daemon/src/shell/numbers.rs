//! The numbers of nodes by name, on the controller, for the controller after this one: a file beside its
//! folder of waiting jobs, `NAME.numbers`.
//!
//! Writer: the controller's main loop, when a node comes whose number is not in it, before that node hears
//! its number. It is not brought to the disk: a power cut ends the controller's machine, and may cost a
//! number or all; those who come back first then say which numbers they had. A file that is no such file
//! counts as none.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::kept::{self, Until};
use crate::members::NodeId;

/// A longer file is none: 1 KiB a node.
const BYTES_MAX: u64 = 64 << 20;

fn file(folder: &Path) -> PathBuf {
    folder.with_extension("numbers")
}

/// Reads what an earlier controller has left beside this folder.
pub(super) fn load(folder: &Path) -> BTreeMap<String, NodeId> {
    let path = file(folder);
    kept::read(&path, BYTES_MAX).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!("{} is not read, nodes say themselves which they were: {error}", path.display());
        }
        BTreeMap::new()
    })
}

/// Replaces the file beside this folder.
pub(super) fn keep(folder: &Path, numbers: &BTreeMap<String, NodeId>) {
    let path = file(folder);
    if let Err(error) = kept::replace(&path, numbers, Until::Renamed) {
        let path = path.display();
        tracing::warn!("cannot write {path}, a new controller may number nodes in another way: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_nodes_are_read_by_the_next_controller_and_rubbish_is_none() {
        let scratch = std::env::temp_dir().join(format!("tutti-numbers-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).unwrap();
        let folder = scratch.join("node0.queue");
        assert_eq!(load(&folder), BTreeMap::new());
        let numbers = BTreeMap::from([("node0".into(), NodeId(0)), ("a \"b\"".into(), NodeId(7))]);
        keep(&folder, &numbers);
        assert_eq!(load(&folder), numbers);
        // One that cannot be written leaves the old one, and nothing of its own.
        keep(&scratch.join("none/node0.queue"), &numbers);
        for rubbish in [&b"{"[..], b"\xff", b"[1]", b"{\"a\":-1}", b""] {
            std::fs::write(file(&folder), rubbish).unwrap();
            assert_eq!(load(&folder), BTreeMap::new());
        }
        std::fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn numbers_of_nodes_that_are_nearly_right_are_read_or_none() {
        let scratch = tutti_testkit::Scratch::in_memory("numbers-nearly");
        let folder = scratch.path().join("node0.queue");
        let samples: Vec<Vec<u8>> = (1..5_u32)
            .map(|count| {
                keep(&folder, &(0..count).map(|at| (format!("node{at}"), NodeId(at))).collect());
                std::fs::read(file(&folder)).expect("written")
            })
            .collect();
        let (mut read, mut none) = (0_u64, 0_u64);
        tutti_testkit::nearly::read_frames(&samples, |bytes| {
            std::fs::write(file(&folder), bytes).expect("a file");
            let found = load(&folder);
            *(if found.is_empty() { &mut none } else { &mut read }) += 1;
            // The next controller reads what this one keeps of them.
            keep(&folder, &found);
            assert_eq!(load(&folder), found);
        });
        assert!(read > 0 && none > 0, "{read} read, {none} none");
    }
}
