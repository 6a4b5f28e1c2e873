//! Which nodes are drained, on the controller, for the controller after this one: a file beside its folder of
//! waiting jobs, `NAME.drained`.
//!
//! Writer: a thread for each change, one at a time, since a disk may take its time. What happens if it stops
//! right here: the file is replaced as a whole and on the disk before anybody is answered, so the next
//! controller reads the old or the new one.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tutti_protocol::users::Drained;

use super::kept::{self, Until};

/// A longer file is none: 1 KiB a node.
const BYTES_MAX: u64 = 64 << 20;

/// The file beside this folder.
pub(super) fn file(folder: &Path) -> PathBuf {
    folder.with_extension("drained")
}

/// Reads what an earlier controller has left.
pub(super) fn load(path: &Path) -> BTreeMap<String, Drained> {
    kept::read(path, BYTES_MAX).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::error!("{} is not read, no node is drained: {error}", path.display());
        }
        BTreeMap::new()
    })
}

/// Replaces the file in a thread, and then calls `done`. The file of reservations is written so too.
pub(super) fn keep<T: Serialize + Send + Sync + 'static>(
    path: PathBuf,
    nodes: T,
    done: impl Fn(Result<(), String>) + Send + Sync + 'static,
) {
    let write = Arc::new(move || {
        let result = kept::replace(&path, &nodes, Until::OnDisk);
        done(result.map_err(|error| format!("cannot write {}: {error}", path.display())));
    });
    let in_thread = Arc::clone(&write);
    if std::thread::Builder::new().name("tutti-drains".into()).spawn(move || in_thread()).is_err() {
        // There is no thread to be had: whoever asks is not left waiting.
        write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drained_nodes_are_read_by_the_next_controller_and_rubbish_is_none() {
        let scratch = std::env::temp_dir().join(format!("tutti-drains-{}", std::process::id()));
        std::fs::create_dir_all(&scratch).unwrap();
        let path = file(&scratch.join("node0.queue"));
        assert_eq!(load(&path), BTreeMap::new());
        let drained = Drained { since_ms: 5, uid: 7, why: "disk".into() };
        let nodes = BTreeMap::from([("node1".to_owned(), drained)]);
        let (told, heard) = std::sync::mpsc::channel();
        keep(path.clone(), nodes.clone(), move |result| told.send(result).unwrap());
        assert_eq!(heard.recv(), Ok(Ok(())));
        assert_eq!(load(&path), nodes);
        for rubbish in [&b"{"[..], b"\xff", b"[1]", b"{\"node1\":{\"why\":3}}"] {
            std::fs::write(&path, rubbish).unwrap();
            assert_eq!(load(&path), BTreeMap::new());
        }
        let (told, heard) = std::sync::mpsc::channel();
        keep(scratch.join("none/node0.drained"), nodes, move |result| told.send(result).unwrap());
        assert!(heard.recv().unwrap().is_err_and(|text| text.starts_with("cannot write ")));
        std::fs::remove_dir_all(scratch).unwrap();
    }
}
