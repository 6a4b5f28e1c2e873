//! The folder of jobs that wait for nodes. Jobs whose records are written at once share a file, so that they
//! cost the disk no more than a single one.
//!
//! ```text
//! new          the group that is being written; none: not there, or left by a daemon that was stopped
//! 7.jobs       a group; a line for each job:   [13,{"launch":...}]   in force
//!                                              #14,{"launch":...}]   the job waits no longer, or a later group has it
//! 13.json      the record of a single job, by an earlier release
//! ```
//!
//! A record loses its force by its first byte, which needs no room on a full disk; a file without a record in
//! force is removed. Of two records of a job that of the later group counts: a daemon that is stopped between
//! its name and the end of the earlier one leaves both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::error::{ShellError, failed};
use crate::core::record::Queued;
use crate::message::JobId;

/// Files are written in pieces of so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// A group takes no more records when it has so many bytes: it stays as long as a job of it waits.
const GROUP_BYTES: u64 = 1 << 20;

/// First byte of a record that is not in force.
const VOID: u8 = b'#';

/// Where the record of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a file of its own.
    Own,
    /// In a group, from this byte on.
    In(u64, u64),
}

/// Files of the folder, and the records in them.
#[derive(Debug)]
pub(super) struct Groups {
    folder: PathBuf,
    places: BTreeMap<JobId, Place>,
    /// How many records of each group are in force.
    in_force: BTreeMap<u64, usize>,
    next: u64,
    /// Groups of which records have lost their force since they were brought to the disk.
    changed: BTreeSet<u64>,
}

impl Groups {
    /// Makes the folder; the jobs that waited when an earlier controller ended. A record of another version
    /// is none, and stays for who looks.
    pub(super) fn open(folder: &Path) -> Result<(Self, Vec<(JobId, Queued)>), ShellError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(failed(format!("make {}", folder.display())))?;
        let _ = std::fs::remove_file(new_file(folder));
        let mut groups = Groups {
            folder: folder.to_owned(),
            places: BTreeMap::new(),
            in_force: BTreeMap::new(),
            next: 1,
            changed: BTreeSet::new(),
        };
        let (mut own, mut numbers) = (Vec::new(), Vec::new());
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let number = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
            match (number, path.extension().and_then(|ending| ending.to_str())) {
                (Some(job), Some("json")) => own.push(JobId(job)),
                (Some(group), Some("jobs")) => numbers.push(group),
                _ => {}
            }
        }
        let mut queued = BTreeMap::new();
        own.into_iter().for_each(|job| groups.read_own(job, &mut queued));
        numbers.sort_unstable();
        numbers.into_iter().for_each(|group| groups.read(group, &mut queued));
        Ok((groups, queued.into_iter().collect()))
    }

    fn read_own(&mut self, job: JobId, queued: &mut BTreeMap<JobId, Queued>) {
        let path = self.own_file(job);
        match std::fs::read(&path)
            .map_err(serde_json::Error::io)
            .and_then(|text| serde_json::from_slice(&text))
        {
            Ok(record) => {
                queued.insert(job, record);
                self.places.insert(job, Place::Own);
            }
            Err(error) => tracing::error!("{} is not read: {error}", path.display()),
        }
    }

    fn read(&mut self, group: u64, queued: &mut BTreeMap<JobId, Queued>) {
        self.next = self.next.max(group + 1);
        let path = self.file(group);
        let text = std::fs::read(&path).inspect_err(|error| {
            tracing::error!("{} is not read: {error}", path.display());
        });
        let mut at = 0;
        for line in text.unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            let start = at;
            at += line.len() as u64;
            if line.first() == Some(&VOID) {
                continue;
            }
            *self.in_force.entry(group).or_default() += 1;
            match serde_json::from_slice(line) {
                Ok((job, record)) => {
                    queued.insert(job, record);
                    self.put(job, Place::In(group, start));
                }
                Err(error) => tracing::error!("{} at byte {start} is not read: {error}", path.display()),
            }
        }
        if !self.in_force.contains_key(&group) {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Gives the group its name, with those of its records that are wanted, at least one; they take the place
    /// of earlier ones.
    pub(super) fn name(&mut self, written: &Written, wanted: &BTreeSet<JobId>) -> io::Result<()> {
        let (kept, unwanted): (Vec<_>, Vec<_>) =
            written.records.iter().copied().partition(|(job, _)| wanted.contains(job));
        assert!(!kept.is_empty(), "a group without a job that waits");
        unwanted.iter().try_for_each(|(_, at)| written.file.write_all_at(&[VOID], *at))?;
        let group = self.next;
        std::fs::rename(new_file(&self.folder), self.file(group))?;
        self.next += 1;
        self.in_force.insert(group, kept.len());
        if !unwanted.is_empty() {
            self.changed.insert(group);
        }
        kept.into_iter().for_each(|(job, at)| self.put(job, Place::In(group, at)));
        Ok(())
    }

    fn put(&mut self, job: JobId, place: Place) {
        if let Some(earlier) = self.places.insert(job, place) {
            self.void(job, earlier);
        }
    }

    /// The job waits no longer.
    pub(super) fn remove(&mut self, job: JobId) {
        if let Some(place) = self.places.remove(&job) {
            self.void(job, place);
        }
    }

    fn void(&mut self, job: JobId, place: Place) {
        let Place::In(group, at) = place else {
            return drop(std::fs::remove_file(self.own_file(job)));
        };
        let path = self.file(group);
        let Some(in_force) = self.in_force.get_mut(&group) else { return };
        *in_force -= 1;
        if *in_force == 0 {
            self.in_force.remove(&group);
            self.changed.remove(&group);
            return drop(std::fs::remove_file(path));
        }
        let file = File::options().write(true).open(&path);
        if let Err(error) = file.and_then(|file| file.write_all_at(&[VOID], at)) {
            tracing::error!("job {job} waits no longer, but stays in {}: {error}", path.display());
        }
        self.changed.insert(group);
    }

    /// Path of a group that is to be brought to the disk, for nobody waits for it.
    pub(super) fn take_changed(&mut self) -> Option<PathBuf> {
        self.changed.pop_first().map(|group| self.file(group))
    }

    /// Whether there is one.
    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Path of the group that is named next.
    pub(super) fn next_file(&self) -> PathBuf {
        self.file(self.next)
    }

    fn file(&self, group: u64) -> PathBuf {
        self.folder.join(format!("{group}.jobs"))
    }

    fn own_file(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.json"))
    }
}

/// A group on its way to its file. There is one at a time.
#[derive(Debug)]
pub(super) struct Writing {
    out: io::BufWriter<File>,
    records: Vec<(JobId, u64)>,
    bytes: u64,
}

/// A group that has no name yet.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) file: File,
    /// Jobs, and where the record of each begins.
    records: Vec<(JobId, u64)>,
}

impl Writing {
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(new_file(folder))?;
        // Piece by piece: a user's environment may be long, and is in memory once already.
        Ok(Writing { out: io::BufWriter::with_capacity(PIECE_BYTES, file), records: Vec::new(), bytes: 0 })
    }

    /// Adds the record of a job.
    pub(super) fn put(&mut self, job: JobId, queued: &Queued) -> io::Result<()> {
        let start = self.bytes;
        serde_json::to_writer(&mut *self, &(job, queued))?;
        self.write_all(b"\n")?;
        self.records.push((job, start));
        Ok(())
    }

    /// Whether another record may follow.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < GROUP_BYTES
    }

    pub(super) fn finish(self) -> io::Result<Written> {
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Written { file, records: self.records })
    }
}

impl Write for Writing {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.out.write(piece)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Path of the group that has no name yet.
fn new_file(folder: &Path) -> PathBuf {
    folder.join("new")
}

/// Removes the group that has no name: it is not wanted, or could not be written, and takes room that there
/// is not.
pub(super) fn discard(folder: &Path) {
    let _ = std::fs::remove_file(new_file(folder));
}
