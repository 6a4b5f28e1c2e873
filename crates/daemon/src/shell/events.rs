//! The logs of the head, one JSON object a line: of events, which also says which number the next job has, and of the turns of gangs,
//! apart from it because there are many.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use super::{ShellError, failed};

/// Bytes of the log; then the old one is put aside, as `NAME.1`.
const LOG_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Log {
    file: Option<File>,
    path: std::path::PathBuf,
    bytes: u64,
}

impl Log {
    /// The log at this path; a node that is not the head has none.
    pub(super) fn open(path: &Path, is_head: bool) -> Result<Self, ShellError> {
        let mut log = Log { file: None, path: path.to_owned(), bytes: 0 };
        if is_head {
            log.file = Some(open(&log.path).map_err(failed(format!("open {}", log.path.display())))?);
            log.bytes = std::fs::metadata(&log.path).map_or(0, |found| found.len());
        }
        Ok(log)
    }

    pub(super) fn put(&mut self, event: &impl serde::Serialize) {
        let Some(file) = &mut self.file else { return };
        let mut line = serde_json::to_vec(event).expect("events are serialisable");
        line.push(b'\n');
        // A full disk loses events, never a job.
        if file.write_all(&line).is_ok() {
            self.bytes += line.len() as u64;
        }
        if self.bytes >= LOG_BYTES_MAX {
            let mut aside = self.path.clone().into_os_string();
            aside.push(".1");
            if std::fs::rename(&self.path, aside).is_ok()
                && let Ok(new) = open(&self.path)
            {
                (*file, self.bytes) = (new, 0);
            }
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// One more than the last job of the log.
pub(super) fn next_job(path: &Path) -> u64 {
    #[derive(serde::Deserialize)]
    struct Line {
        job: Option<u64>,
    }
    let mut aside = path.as_os_str().to_owned();
    aside.push(".1");
    let mut last = 0;
    for file in [Path::new(&aside), path].iter().filter_map(|path| File::open(path).ok()) {
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            let job = serde_json::from_str::<Line>(&line).ok().and_then(|line| line.job);
            last = last.max(job.unwrap_or(0));
        }
    }
    last + 1
}
