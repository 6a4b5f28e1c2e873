//! The logs of the controller, one JSON object a line: of events, which also says which number the next job
//! has, and of the turns of gangs, apart from it because there are many.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::{ShellError, failed};

/// Bytes of the log; then the old one is put aside, as `NAME.1`.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// A disk that is nearly full has a little room now and then.
const SAID_AGAIN: Duration = Duration::from_secs(10);

pub(super) struct Log {
    file: Option<File>,
    path: std::path::PathBuf,
    /// Of whole lines.
    bytes: u64,
    /// Since when how many entries could not be written, until that has been said.
    lost: Option<(Instant, u64)>,
}

impl Log {
    /// The log at this path; a node that is not the controller has none.
    pub(super) fn open(path: &Path, is_controller: bool) -> Result<Self, ShellError> {
        let mut log = Log { file: None, path: path.to_owned(), bytes: 0, lost: None };
        if is_controller {
            let opened = open(path).and_then(|file| Ok((whole_lines(path, &file)?, file)));
            let (bytes, file) = opened.map_err(failed(format!("open {}", path.display())))?;
            (log.bytes, log.file) = (bytes, Some(file));
        }
        Ok(log)
    }

    /// A full disk loses events, never a job, and says so when it begins and when it is over.
    pub(super) fn put(&mut self, event: &impl serde::Serialize) {
        let Some(file) = &mut self.file else { return };
        let mut line = serde_json::to_vec(event).expect("events are serialisable");
        line.push(b'\n');
        match file.write_all(&line) {
            Ok(()) => self.bytes += line.len() as u64,
            Err(error) => {
                // A piece of it would spoil the next one too.
                let now = file.metadata().map_or(self.bytes, |found| found.len());
                let _ = file.set_len(self.bytes.min(now));
                if self.lost.is_none() {
                    tracing::error!("cannot write {}: {error}; entries are lost", self.path.display());
                }
                self.lost.get_or_insert((Instant::now(), 0)).1 += 1;
                return;
            }
        }
        if self.lost.is_some_and(|(since, _)| since.elapsed() >= SAID_AGAIN)
            && let Some((_, lost)) = self.lost.take()
        {
            tracing::info!("{} has room again; {lost} entries are lost", self.path.display());
        }
        self.put_aside();
    }

    fn put_aside(&mut self) {
        let Some(file) = self.file.as_mut().filter(|_| self.bytes >= LOG_BYTES_MAX) else { return };
        let mut aside = self.path.clone().into_os_string();
        aside.push(".1");
        if std::fs::rename(&self.path, &aside).is_ok() {
            match open(&self.path) {
                Ok(new) => (*file, self.bytes) = (new, 0),
                // It is tried again with the next entry.
                Err(_) => drop(std::fs::rename(&aside, &self.path)),
            }
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Bytes of a log that ends with a whole line from now on: a daemon that died in the middle of one may have
/// left a piece.
fn whole_lines(path: &Path, file: &File) -> std::io::Result<u64> {
    let text = std::fs::read(path)?;
    let bytes = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end as u64 + 1);
    file.set_len(bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    use tutti_protocol::job_numbers::{last_job, next_job};

    #[test]
    fn event_log_continues_behind_a_truncated_line() {
        let path = std::env::temp_dir().join(format!("tutti-events-{}", std::process::id()));
        // The first byte of a letter of two.
        std::fs::write(&path, b"{\"job\":3}\n{\"job\":4,\"text\":\"\xc3").unwrap();
        let mut log = Log::open(&path, true).unwrap();
        log.put(&serde_json::json!({ "job": 7 }));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"job\":3}\n{\"job\":7}\n");
        assert_eq!((log.bytes, next_job(&path), last_job(&path)), (20, 8, 7));
        std::fs::remove_file(&path).unwrap();
    }
}
