//! Writes the seeds of the fuzz target (`make fuzz`) into a folder.

#[path = "../../client/src/report/samples.rs"]
#[allow(dead_code, reason = "its other half is for tests of the reports")]
mod samples;
#[path = "../fuzz/targets/seeds.rs"]
mod seeds;

use std::fs;
use std::path::Path;

use tutti_client::report::Answers;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("sight_seeds FOLDER");
    let folder = Path::new(&folder).join("sight");
    fs::create_dir_all(&folder)?;
    seeds::seeds()
        .iter()
        .enumerate()
        .try_for_each(|(number, bytes)| fs::write(folder.join(number.to_string()), bytes))
}
