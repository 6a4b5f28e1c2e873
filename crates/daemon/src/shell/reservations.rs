//! Reserved nodes, on the controller, for the controller after this one: a file beside its folder of waiting
//! jobs, `NAME.reservations`. It is written as that of drained nodes ([`super::drains::keep`]).

use std::io;
use std::path::{Path, PathBuf};

use tutti_protocol::reservation::Reservation;

use super::kept;

/// A longer file is none.
const BYTES_MAX: u64 = 64 << 20;

/// The file beside this folder.
pub(super) fn file(folder: &Path) -> PathBuf {
    folder.with_extension("reservations")
}

/// Reads what an earlier controller has left.
pub(super) fn load(path: &Path) -> Vec<Reservation> {
    kept::read(path, BYTES_MAX).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::error!("{} is not read, no node is reserved: {error}", path.display());
        }
        Vec::new()
    })
}
