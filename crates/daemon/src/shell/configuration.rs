//! The configuration on the disk: the keeper's file, read anew when it is asked for, and the text of the
//! cluster's sections, which every node stores for the controller after this one.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use super::Shell;
use super::clock::now;
use crate::core::event::Event;
use crate::members::NodeId;

impl Shell {
    /// Reads the file, for this question or because of a signal.
    pub(super) fn reload(&mut self, requester: Option<(NodeId, u64)>) {
        if !self.settings.is_controller() {
            return tracing::warn!("the controller alone reloads its configuration: `tutti reload` asks it");
        }
        let result = self.settings.configured.source.reload();
        self.core.handle(now(), Event::Reloaded(requester, result));
    }

    /// Stores the text.
    pub(super) fn keep_configuration(&mut self, text: Arc<str>) {
        match write(&self.settings.folders.cluster_file, &text) {
            Ok(()) => self.core.handle(now(), Event::ConfigurationKept(text)),
            Err(error) => {
                let file = self.settings.folders.cluster_file.display();
                tracing::warn!("cannot store the configuration in {file}: {error}");
            }
        }
    }
}

/// Replaces the file as a whole; without a text there is none.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let new = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&new)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(new, path)
}
