//! Writes the seeds of the fuzz target (`make fuzz`) into a folder.

#[path = "../fuzz/targets/records.rs"]
#[allow(dead_code, reason = "here they are only written")]
mod records;

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("rma_seeds FOLDER");
    let folder = Path::new(&folder).join("record");
    fs::create_dir_all(&folder)?;
    let samples = records::samples();
    samples
        .iter()
        .enumerate()
        .try_for_each(|(number, bytes)| fs::write(folder.join(number.to_string()), bytes))
}
