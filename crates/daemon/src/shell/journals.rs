//! The journals of output files (`core/origin/files.rs`): a file for each job that was submitted here, which
//! only the daemon's owner may read. The file is also what writers lock.
//!
//! Writer: the daemon, before a batch goes to the job's writer. A record is written in place, in the one of
//! two slots that has the older one, so that a full disk, on which both have room already, is none for it.
//! What happens if it stops right here: the record is whole (its checksum says so) or the one before it
//! counts. What was in the memory of a machine that stopped is lost.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tutti_os::stderr::print_line;
use tutti_protocol::codec;

use super::error::{ShellError, failed};
use crate::core::journal::Journal;
use crate::message::JobId;

/// Bytes of a slot; what is not used of it takes no room on the disk.
const SLOT_BYTES: u64 = 4 << 20;
/// Number of the record, length, checksum.
const HEADER_BYTES: usize = 24;
/// Journals of jobs that are over, for a controller that does not know yet that they are.
const OVER_MAX: usize = 64;
/// Age of a journal after which nobody comes back to its job.
const OLD: Duration = Duration::from_secs(90 * 86_400);

/// The folder of these files.
#[derive(Debug)]
pub(super) struct Journals {
    folder: PathBuf,
    /// Number of the last record, by job.
    numbers: HashMap<JobId, u64>,
    /// Whether it has been said that a journal cannot be written.
    complained: bool,
}

impl Journals {
    pub(super) fn open(folder: PathBuf) -> Result<Self, ShellError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(failed(format!("make {}", folder.display())))?;
        Ok(Journals { folder, numbers: HashMap::new(), complained: false })
    }

    /// All that an earlier daemon has left, but for what is too old to matter.
    pub(super) fn load(&mut self) -> Vec<(JobId, Journal)> {
        let (mut open, mut over) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let job = path.file_stem().and_then(|name| name.to_str()?.parse().ok()).map(JobId);
            let is_old = || {
                let changed = entry.metadata().and_then(|metadata| metadata.modified());
                changed
                    .is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age > OLD))
            };
            match job.zip(read(&path)) {
                Some((job, (number, journal))) if !is_old() => {
                    self.numbers.insert(job, number);
                    if journal.over { &mut over } else { &mut open }.push((job, journal));
                }
                _ => drop(std::fs::remove_file(&path)),
            }
        }
        over.sort_by_key(|(job, _)| *job);
        let excess = over.len().saturating_sub(OVER_MAX);
        over.drain(..excess).for_each(|(job, _)| self.remove(job));
        open.extend(over);
        open
    }

    /// A full disk costs the certainty that no byte stands twice in the job's files should the daemon die,
    /// and nothing else.
    pub(super) fn put(&mut self, job: JobId, journal: &Journal) {
        let number = self.numbers.entry(job).or_insert(0);
        *number += 1;
        let number = *number;
        if let Err(error) = write(&self.path(job), number, journal)
            && !std::mem::replace(&mut self.complained, true)
        {
            let path = self.path(job);
            print_line(format_args!(
                "tuttid: cannot write {}: {error}; what jobs write may be twice in their files if this daemon dies",
                path.display()
            ));
        }
    }

    pub(super) fn remove(&mut self, job: JobId) {
        self.numbers.remove(&job);
        let _ = std::fs::remove_file(self.path(job));
    }

    /// Opens what the job's writers lock, if there is one.
    pub(super) fn lock(&self, job: JobId) -> Option<File> {
        File::open(self.path(job)).ok()
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.journal"))
    }
}

fn write(path: &Path, number: u64, journal: &Journal) -> io::Result<()> {
    let record = record(number, &codec::encode(journal));
    if record.len() as u64 > SLOT_BYTES {
        return Err(io::Error::other("the record is too long"));
    }
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    file.write_all_at(&record, number % 2 * SLOT_BYTES)
}

/// Record of a journal's bytes.
fn record(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEADER_BYTES + bytes.len());
    for word in [number, bytes.len() as u64, checksum(number, bytes)] {
        record.extend_from_slice(&word.to_le_bytes());
    }
    record.extend_from_slice(bytes);
    record
}

/// The newer one of the two records that is whole.
fn read(path: &Path) -> Option<(u64, Journal)> {
    let file = File::open(path).ok()?;
    let slot = |at: u64| {
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, at * SLOT_BYTES).ok()?;
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (number, length, sum) = (word(0), word(8), word(16));
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|length| *length < SLOT_BYTES as usize)?];
        file.read_exact_at(&mut bytes, at * SLOT_BYTES + HEADER_BYTES as u64).ok()?;
        let journal = (checksum(number, &bytes) == sum).then(|| codec::decode(&bytes).ok())??;
        Some((number, journal))
    };
    [slot(0), slot(1)].into_iter().flatten().max_by_key(|(number, _)| *number)
}

/// FNV-1a.
fn checksum(number: u64, bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    number.to_le_bytes().iter().chain(bytes).fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(request_id: u64) -> Journal {
        let mut journal = Journal::default();
        journal.request_id = request_id;
        journal
    }

    #[test]
    fn journal_that_is_half_written_counts_as_not_written() {
        let folder = std::env::temp_dir().join(format!("tutti-journals-{}", std::process::id()));
        let mut journals = Journals::open(folder.clone()).expect("a folder");
        for request_id in 1..=3 {
            journals.put(JobId(7), &journal(request_id));
        }
        let path = folder.join("7.journal");
        let load = || Journals::open(folder.clone()).expect("a folder").load();
        assert_eq!(load(), [(JobId(7), journal(3))]);
        // The third record stands where the first did.
        let file = File::options().write(true).open(&path).expect("a file");
        file.write_all_at(&[0xff], SLOT_BYTES + HEADER_BYTES as u64).expect("written");
        assert_eq!(load(), [(JobId(7), journal(2))]);
        let mut next = Journals::open(folder.clone()).expect("a folder");
        assert_eq!(next.load().len(), 1);
        next.put(JobId(7), &journal(4));
        assert_eq!(load(), [(JobId(7), journal(4))]);
        // What is none goes.
        file.set_len(10).expect("shorter");
        std::fs::write(folder.join("x.journal"), "x").expect("written");
        assert_eq!(load(), []);
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }

    /// A disk that has other bytes than were written: the record before counts, and nothing is believed that
    /// its checksum does not confirm.
    #[test]
    fn journal_records_that_are_nearly_right_count_as_not_written() {
        let scratch = tutti_testkit::Scratch::in_memory("journals-nearly");
        let path = scratch.path().join("7.journal");
        let bytes: Vec<Vec<u8>> = (2..6).map(|request_id| codec::encode(&journal(request_id))).collect();
        let samples: Vec<Vec<u8>> = bytes.iter().map(|bytes| record(4, bytes)).collect();
        write(&path, 3, &journal(1)).expect("written");
        let file = File::options().write(true).open(&path).expect("a file");
        let mut number = 0_u64;
        tutti_testkit::nearly::read_frames(&samples, |frame| {
            file.write_all_at(&[0; 4096], 0).expect("written");
            file.write_all_at(frame, 0).expect("written");
            let (found, kept) = read(&path).expect("the record before is whole");
            // Zeros at its end may be cut: they are there anyway.
            let mut on_disk = frame.to_vec();
            on_disk.resize(4096.max(frame.len()), 0);
            let is_whole = samples.iter().any(|sample| on_disk.starts_with(sample));
            assert!(is_whole || (found, &kept) == (3, &journal(1)), "record {found}: {kept:?}");
            // The same bytes with a checksum that is right: only the codec is left to refuse them.
            number += 1;
            let payload = frame.get(HEADER_BYTES..).unwrap_or_default();
            file.write_all_at(&record(4 + number * 2, payload), 0).expect("written");
            let (found, _) = read(&path).expect("the record before is whole");
            assert!(found == 3 || found == 4 + number * 2, "record {found}");
        });
    }
}
