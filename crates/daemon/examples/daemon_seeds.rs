//! Writes the seeds of the fuzz target (`make fuzz`) into a folder.

#[path = "../fuzz/targets/samples.rs"]
mod samples;

use std::fs;
use std::path::Path;

use tutti_daemon::gang::SwitchMessage;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("daemon_seeds FOLDER");
    let folder = Path::new(&folder).join("switch");
    fs::create_dir_all(&folder)?;
    samples::samples()
        .iter()
        .enumerate()
        .try_for_each(|(number, bytes)| fs::write(folder.join(number.to_string()), bytes))
}
