//! Other MPIs that tests run beside ours: wheels from PyPI, versions pinned, in `target/peers` (the place
//! that the bench uses too).

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use tutti_testkit::{Need, skip};

use crate::{root, run};

/// An index that does not answer in this time is as good as none.
const INSTALL_LIMIT: Duration = Duration::from_secs(100);

/// Where MPICH stands, installed if need be; `None` when it cannot be had.
pub fn mpich() -> Option<&'static PathBuf> {
    static PLACE: OnceLock<Option<PathBuf>> = OnceLock::new();
    PLACE
        .get_or_init(|| {
            let place = root().join("target/peers/mpich");
            if place.join("bin/mpicc_abi").is_file() {
                return Some(place);
            }
            // Several test processes may install at once: each into a folder of its own, the first one to be
            // ready is kept.
            let own = root().join(format!("target/peers/mpich-{}", std::process::id()));
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--retries",
                "1",
            ]);
            let ran = run(
                pip.arg("--prefix").arg(&own).args(["--ignore-installed", "mpich==5.0.2"]),
                INSTALL_LIMIT,
            );
            let usable = own.join("bin/mpicc_abi").is_file();
            let kept =
                usable && (std::fs::rename(&own, &place).is_ok() || place.join("bin/mpicc_abi").is_file());
            let _ = std::fs::remove_dir_all(&own);
            if !kept {
                let why = ran.stderr.lines().last().unwrap_or("no reason given").to_owned();
                skip(Need::Mpich, format_args!("MPICH's wheel from PyPI cannot be had ({why})"));
            }
            kept.then_some(place)
        })
        .as_ref()
}
