//! Numbers of the jobs of one user on a machine: one series for all `mpiexec`, with a daemon and without one.
//!
//! ```text
//! mpiexec, on-demand daemon: lock FILE -> read the last number -> write one more -> unlock
//! a cluster's controller: reads the last number when it begins, and goes on with numbers of its own
//! ```
//!
//! The file is in the user's run folder. Numbers that a cluster has given are in its log; a log that is newer
//! than the file is looked at. Nothing here waits longer than [`WAIT`].

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::paths;

/// The file, in the run folder.
const FILE: &str = "last-job";
/// Another program keeps the lock for a few microseconds, unless it is stopped.
const WAIT: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_millis(1);
/// Bytes at the end of a log in which its last job is looked for.
const TAIL_BYTES: u64 = 1 << 20;
/// Bytes of the file that are read: more than a number has.
const NUMBER_BYTES: usize = 24;
/// Numbers end here: JSON readers take larger ones for others.
const NUMBER_MAX: u64 = 1 << 53;

/// The series of a user on this machine.
#[derive(Clone, Debug)]
pub struct JobNumbers {
    folder: PathBuf,
    /// Logs of clusters, which have a series of their own while they run.
    clusters: Vec<PathBuf>,
    /// Logs, for the first number after a boot.
    all: Vec<PathBuf>,
}

impl JobNumbers {
    /// The series of the user whose run folder this is.
    #[must_use]
    pub fn of(run: &Path) -> Self {
        let all = paths::other_logs(run, false);
        let clusters = all.iter().filter(|log| !paths::is_on_demand_log(log)).cloned().collect();
        JobNumbers { folder: run.to_owned(), clusters, all }
    }

    /// Takes the next number, and those behind it: so many in all. The first of them.
    ///
    /// # Errors
    /// When the folder is not the user's alone, the file cannot be written, or another program keeps it
    /// locked.
    pub fn draw(&self, count: u64) -> io::Result<u64> {
        let is_root = rustix::process::geteuid().is_root();
        paths::make(&self.folder, is_root)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file: File = rustix::fs::open(self.folder.join(FILE), flags, Mode::RUSR | Mode::WUSR)?.into();
        lock(&file)?;
        let written = file.metadata()?.modified()?;
        let last = match number_in(&file)? {
            None => self.all.iter().map(|log| last_job(log)).max(),
            Some(last) => {
                let is_newer = |log: &&PathBuf| {
                    log.metadata().and_then(|found| found.modified()).is_ok_and(|at| at >= written)
                };
                self.clusters.iter().filter(is_newer).map(|log| last_job(log)).chain([last]).max()
            }
        };
        let first = last.unwrap_or(0) + 1;
        let last = first.saturating_add(count.saturating_sub(1));
        if last > NUMBER_MAX {
            return Err(io::Error::other(format!("{FILE} has no {count} numbers from {first} on")));
        }
        file.write_all_at(format!("{last}\n").as_bytes(), 0)?;
        Ok(first)
    }

    /// The last number that was taken; 0: none.
    #[must_use]
    pub fn last(&self) -> u64 {
        let file = File::open(self.folder.join(FILE));
        file.and_then(|file| number_in(&file)).ok().flatten().unwrap_or(0)
    }
}

fn lock(file: &File) -> io::Result<()> {
    let deadline = Instant::now() + WAIT;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(POLL),
            done => return Ok(done?),
        }
    }
}

/// The number in the file; none: it is new, or another program has written into it.
fn number_in(file: &File) -> io::Result<Option<u64>> {
    let mut bytes = [0; NUMBER_BYTES];
    let read = file.read_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes[..read]).unwrap_or_default();
    Ok(text.trim().parse().ok().filter(|number| *number <= NUMBER_MAX))
}

/// A line of a log that is of a job.
#[derive(serde::Deserialize)]
struct Line {
    job: Option<u64>,
}

/// The last job of a log that another program writes, as far as its last lines have one; 0: none.
#[must_use]
pub fn last_job(path: &Path) -> u64 {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    last_of(&mut read().unwrap_or_default().as_slice())
}

fn last_of(log: &mut impl BufRead) -> u64 {
    let lines = log.split(b'\n').map_while(Result::ok);
    let jobs = lines.filter_map(|line| serde_json::from_slice::<Line>(&line).ok()?.job);
    jobs.max().unwrap_or(0)
}

/// One more than the last job of a log and of the older file beside it.
#[must_use]
pub fn next_job(path: &Path) -> u64 {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".1");
    let files = [Path::new(&aside), path].into_iter().filter_map(|path| File::open(path).ok());
    files.map(|file| last_of(&mut BufReader::new(file))).max().unwrap_or(0) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tutti-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn numbers(&self) -> JobNumbers {
            let logs = vec![self.0.join(paths::EVENTS)];
            JobNumbers { folder: self.0.clone(), clusters: logs.clone(), all: logs }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn series_is_one_for_all_that_draw_at_once() {
        const EACH: usize = 50;
        let folder = Folder::new("numbers-at-once");
        let mut found: Vec<u64> = std::thread::scope(|scope| {
            let draw = || {
                let numbers = folder.numbers();
                // A thread that finds the file locked for long tries again.
                (0..EACH)
                    .map(move |_| std::iter::repeat_with(|| numbers.draw(1)).find_map(Result::ok).unwrap())
            };
            let threads = [(); 4].map(|()| scope.spawn(move || draw().collect::<Vec<_>>()));
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        found.sort_unstable();
        assert_eq!(found, (1..=4 * EACH as u64).collect::<Vec<_>>());
        assert_eq!(folder.numbers().last(), 4 * EACH as u64);
    }

    #[test]
    fn series_goes_on_behind_logs_and_behind_what_is_no_number() {
        let folder = Folder::new("numbers-logs");
        let (numbers, log) = (folder.numbers(), folder.0.join(paths::EVENTS));
        std::fs::write(&log, "{\"job\":7}\n{\"ms\":1}\n{\"job\":3}\n{\"jo").unwrap();
        assert_eq!((numbers.last(), numbers.draw(1).unwrap(), numbers.draw(1).unwrap()), (0, 8, 9));
        // A cluster has run meanwhile.
        std::fs::write(&log, "{\"job\":20}\n").unwrap();
        assert_eq!(
            (numbers.draw(1).unwrap(), numbers.draw(5).unwrap(), numbers.draw(1).unwrap()),
            (21, 22, 27)
        );
        for text in ["", "x", "-4", "99999999999999999999"] {
            std::fs::write(folder.0.join(FILE), text).unwrap();
            assert_eq!(numbers.draw(1).unwrap(), 21, "{text:?}");
        }
        std::fs::write(folder.0.join(FILE), NUMBER_MAX.to_string()).unwrap();
        assert!(numbers.draw(1).is_err() && numbers.draw(u64::MAX).is_err());
    }

    #[test]
    fn series_waits_for_no_program_that_keeps_the_file() {
        let folder = Folder::new("numbers-locked");
        let numbers = folder.numbers();
        assert_eq!(numbers.draw(1).unwrap(), 1);
        let file = File::open(folder.0.join(FILE)).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        assert!(numbers.draw(1).is_err());
        drop(file);
        assert_eq!(numbers.draw(1).unwrap(), 2);
    }

    #[test]
    fn next_job_is_behind_both_files_of_a_log() {
        let folder = Folder::new("numbers-next");
        let log = folder.0.join(paths::EVENTS);
        assert_eq!(next_job(&log), 1);
        std::fs::write(folder.0.join("events.jsonl.1"), "{\"job\":9}\n").unwrap();
        std::fs::write(&log, "{\"job\":4}\n").unwrap();
        assert_eq!((next_job(&log), last_job(&log)), (10, 4));
    }
}
