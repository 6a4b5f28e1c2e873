//! The folder of jobs that wait for nodes. Jobs whose records are written at once, or soon after each other,
//! share a file, so that they cost the disk no more than a single one.
//!
//! ```text
//! 7.jobs       a group; a line for each job:   =[["HOME","/h"],...]  environment of some of those behind it
//!                                              [13,{"launch":...}]   in force
//!                                              #14,{"launch":...}]   the job waits no longer, or has a later
//!                                                                    record, or this is being written
//! 13.json      the record of a single job, by an earlier release
//! ```
//!
//! Jobs of a user, and the tasks of an array, mostly have the same environment: a group has it once, and
//! their records say where.
//!
//! A record is written without force, and gets and loses it by its first byte, which needs no room on a full
//! disk. A file without a record in force is removed: at once, or, if it is the one that takes more records,
//! when none have come for a while. Of two records of a job the later one counts: a daemon that is stopped
//! before the earlier one has lost its force leaves both. Where little of a group is in force that is written
//! anew, behind later records: one job does not keep what many others have left. A piece of a line at the end
//! is one that was being written when its daemon or the machine was stopped; nobody appends to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::error::{ShellError, failed};
use crate::core::record::Queued;
use crate::message::{Environment, JobId};

/// Files are written in pieces of so many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// A group takes no more records when it has so many bytes: it stays as long as a job of it waits.
const GROUP_BYTES: u64 = 1 << 20;

/// A group that takes no more records, and has more bytes for each in force, may be gathered from: if these
/// and their environments are less than this part of it.
const SPARSE_BYTES: u64 = 16 << 10;
const SPARSE_PART: u64 = 4;

/// First byte of a record that is not in force.
const VOID: u8 = b'#';

/// First byte of a record in force: that of an array in JSON.
const IN_FORCE: u8 = b'[';

/// First byte of an environment.
const ENVIRONMENT: u8 = b'=';

/// Environments of a group, and where each is.
#[derive(Clone, Debug, Default)]
struct Shared {
    places: Vec<(Environment, u64)>,
    /// Bytes of the first one.
    first_bytes: u64,
}

impl Shared {
    /// Whether a group of so many bytes takes more: without its first environment it has as many as others,
    /// or as that has.
    fn has_room(&self, bytes: u64) -> bool {
        bytes - self.first_bytes < GROUP_BYTES.max(self.first_bytes)
    }
}

/// Where the record of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a file of its own.
    Own,
    /// In a group, from this byte on.
    In(u64, u64),
}

/// The group that takes more records.
#[derive(Debug)]
struct Open {
    group: u64,
    file: Arc<File>,
    /// Length, of whole records.
    bytes: u64,
    /// Whether the disk may not know its name.
    is_new: bool,
    shared: Shared,
}

/// Step for which there is time when no records have come for a while.
#[derive(Debug)]
pub(super) enum Settle {
    /// The group is to be brought to the disk, for nobody waits for it.
    Sync(PathBuf),
    /// Few of the group's records may be in force, which are to be written anew.
    Gather(u64, PathBuf),
}

/// Record in force.
#[derive(Debug)]
struct Found {
    at: u64,
    /// Record; none: it is not understood.
    record: Option<(JobId, Queued)>,
}

/// Records in force of a group that takes no more, to be written anew, if they are a small part of it; where
/// each is stands in front. Nothing else of the file is held in memory.
pub(super) fn sparse(path: &Path) -> io::Result<Vec<(u64, JobId, Queued)>> {
    let mut file = io::BufReader::new(File::open(path)?);
    let (mut at, mut live, mut line) = (0, 0, Vec::new());
    let (mut lengths, mut records) = (BTreeMap::new(), Vec::new());
    while let Some(&first) = file.fill_buf()?.first() {
        let bytes = if first == VOID || first == ENVIRONMENT {
            file.skip_until(b'\n')? as u64
        } else {
            line.clear();
            file.read_until(b'\n', &mut line)? as u64
        };
        if first == ENVIRONMENT {
            lengths.insert(at, bytes);
        } else if first != VOID
            && let Ok((job, record)) = serde_json::from_slice::<(JobId, Queued)>(&line)
        {
            live += bytes;
            records.push((at, job, record));
        }
        at += bytes;
    }
    let places: BTreeSet<u64> = records.iter().filter_map(|(_, _, record)| record.environment_at).collect();
    live += places.iter().filter_map(|place| lengths.get(place)).sum::<u64>();
    if live > at / SPARSE_PART {
        return Ok(Vec::new());
    }
    let mut environments = BTreeMap::new();
    for place in places {
        file.seek(io::SeekFrom::Start(place))?;
        line.clear();
        file.read_until(b'\n', &mut line)?;
        let text = line.strip_prefix(&[ENVIRONMENT]).unwrap_or_default();
        environments.insert(place, serde_json::from_slice::<Environment>(text)?);
    }
    let is_known = |place: u64| environments.contains_key(&place);
    records.retain(|(_, _, record)| record.environment_at.is_none_or(is_known));
    for (_, _, record) in &mut records {
        if let Some(environment) = record.environment_at.take().and_then(|place| environments.get(&place)) {
            record.launch.environment = environment.clone();
        }
    }
    Ok(records)
}

/// The records in force of a group.
fn find(text: &[u8], path: &Path) -> Vec<Found> {
    let (mut next, mut found, mut environments) = (0, Vec::new(), BTreeMap::new());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let at = next;
        next += line.len() as u64;
        if line.first() == Some(&VOID) || line.last() != Some(&b'\n') {
            continue;
        }
        let complain = |why: &dyn std::fmt::Display| {
            tracing::error!("{} at byte {at} is not read: {why}", path.display());
        };
        if let Some(line) = line.strip_prefix(&[ENVIRONMENT]) {
            match serde_json::from_slice::<Environment>(line) {
                Ok(environment) => drop(environments.insert(at, environment)),
                Err(error) => complain(&error),
            }
            continue;
        }
        let mut one = Found { at, record: None };
        match serde_json::from_slice::<(JobId, Queued)>(line) {
            Ok((job, mut record)) => match record.environment_at.take().map(|at| environments.get(&at)) {
                None => one.record = Some((job, record)),
                Some(Some(environment)) => {
                    record.launch.environment = environment.clone();
                    one.record = Some((job, record));
                }
                Some(None) => complain(&"its environment is not there"),
            },
            Err(error) => complain(&error),
        }
        found.push(one);
    }
    found
}

/// Files of the folder, and the records in them.
#[derive(Debug)]
pub(super) struct Groups {
    folder: PathBuf,
    places: BTreeMap<JobId, Place>,
    /// Records in force that are on their way to the disk.
    fresh: BTreeMap<JobId, Place>,
    /// How many records of each group are in force.
    in_force: BTreeMap<u64, usize>,
    /// Bytes of groups that take no more.
    closed: BTreeMap<u64, u64>,
    open: Option<Open>,
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
        // A group that had no name, by an earlier release.
        let _ = std::fs::remove_file(folder.join("new"));
        let mut groups = Groups {
            folder: folder.to_owned(),
            places: BTreeMap::new(),
            fresh: BTreeMap::new(),
            in_force: BTreeMap::new(),
            closed: BTreeMap::new(),
            open: None,
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
        groups.bring_to_disk();
        Ok((groups, queued.into_iter().collect()))
    }

    /// Jobs of an earlier controller may not be on the disk yet, and are answered for from now on.
    fn bring_to_disk(&self) {
        let files = self.in_force.keys().map(|group| self.file(*group));
        for path in files.chain([self.folder.clone()]) {
            if let Err(error) = File::open(&path).and_then(|file| super::sync(&file)) {
                tracing::error!("{} is not brought to the disk: {error}", path.display());
            }
        }
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
        let text = text.unwrap_or_default();
        for Found { at, record } in find(&text, &path) {
            *self.in_force.entry(group).or_default() += 1;
            if let Some((job, record)) = record {
                queued.insert(job, record);
                self.put(job, Place::In(group, at));
            }
        }
        if self.in_force.contains_key(&group) {
            self.closed.insert(group, text.len() as u64);
            self.changed.insert(group);
        } else {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Begins to write records, behind those of the group that takes more, or in a new one.
    pub(super) fn begin(&mut self) -> io::Result<Writing> {
        if self.open.as_ref().is_some_and(|open| !open.shared.has_room(open.bytes)) {
            self.close();
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let mut options = File::options();
                let file = options.write(true).create_new(true).mode(0o600).open(self.file(self.next))?;
                self.next += 1;
                let shared = Shared::default();
                Open { group: self.next - 1, file: Arc::new(file), bytes: 0, is_new: true, shared }
            }
        };
        let open = self.open.insert(open);
        let tail = Tail { file: Arc::clone(&open.file), at: open.bytes };
        // Piece by piece: a user's environment may be long, and is in memory once already.
        let out = io::BufWriter::with_capacity(PIECE_BYTES, tail);
        let (group, bytes, shared) = (open.group, open.bytes, open.shared.clone());
        Ok(Writing { out, group, records: Vec::new(), bytes, begins: false, shared })
    }

    /// Gives their force to those of the records that are wanted. They are to be brought to the disk if they
    /// are `for_good`, then [kept](Self::keep).
    ///
    /// # Errors
    /// When they cannot be written, or the folder is [closed](Self::close).
    pub(super) fn enforce(
        &mut self,
        written: &Written,
        wanted: &BTreeSet<JobId>,
        for_good: bool,
    ) -> io::Result<ToSync> {
        let open = self.open.as_mut().filter(|open| open.group == written.group);
        let open = open.ok_or_else(|| io::Error::other("the daemon ends"))?;
        (open.bytes, open.shared) = (written.end, written.shared.clone());
        let to_sync = ToSync { file: Arc::clone(&open.file), has_new_name: open.is_new };
        if for_good {
            self.changed.remove(&written.group);
        }
        for (job, at) in written.records.iter().filter(|(job, _)| wanted.contains(job)) {
            to_sync.file.write_all_at(&[IN_FORCE], *at)?;
            self.fresh.insert(*job, Place::In(written.group, *at));
            *self.in_force.entry(written.group).or_default() += 1;
        }
        Ok(to_sync)
    }

    /// The records are on the disk, with the name of their file if it `has_name` there, or were not to be:
    /// they take the place of earlier ones.
    pub(super) fn keep(&mut self, written: &Written, has_name: bool) {
        self.open.iter_mut().for_each(|open| open.is_new &= !has_name);
        if !self.in_force.contains_key(&written.group) {
            self.changed.insert(written.group);
        }
        for (job, _) in &written.records {
            if let Some(place) = self.fresh.remove(job) {
                self.put(*job, place);
            }
        }
    }

    /// Gives up records that could not be written, or not be brought to the disk: none of them is in force or
    /// takes room. Returns those of their jobs that are still wanted.
    pub(super) fn give_up(&mut self) -> BTreeSet<JobId> {
        let fresh = std::mem::take(&mut self.fresh);
        fresh.iter().for_each(|(job, place)| self.void(*job, *place));
        if let Some(open) = &self.open {
            let _ = open.file.set_len(open.bytes);
        }
        self.close();
        fresh.into_keys().collect()
    }

    /// Removes the group that takes more records, if none of it is in force; it takes no more.
    pub(super) fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if !self.in_force.contains_key(&open.group) {
            self.changed.remove(&open.group);
            let _ = std::fs::remove_file(self.file(open.group));
        } else {
            self.closed.insert(open.group, open.bytes);
            // It may be sparse by now.
            self.changed.insert(open.group);
        }
    }

    fn put(&mut self, job: JobId, place: Place) {
        if let Some(earlier) = self.places.insert(job, place) {
            self.void(job, earlier);
        }
    }

    /// The job waits no longer.
    pub(super) fn remove(&mut self, job: JobId) {
        for place in [self.fresh.remove(&job), self.places.remove(&job)].into_iter().flatten() {
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
            if self.open.as_ref().is_none_or(|open| open.group != group) {
                self.changed.remove(&group);
                self.closed.remove(&group);
                return drop(std::fs::remove_file(path));
            }
        }
        let file = File::options().write(true).open(&path);
        if let Err(error) = file.and_then(|file| file.write_all_at(&[VOID], at)) {
            tracing::error!("job {job} waits no longer, but stays in {}: {error}", path.display());
        }
        self.changed.insert(group);
    }

    /// No records have come for a while. Next step; none: a group was removed in its place.
    pub(super) fn settle(&mut self) -> Option<Settle> {
        let group = self.changed.pop_first()?;
        let Some(in_force) = self.in_force.get(&group) else {
            self.close();
            return None;
        };
        let is_sparse = |bytes: &u64| *bytes > SPARSE_BYTES * *in_force as u64;
        Some(match self.closed.get(&group).is_some_and(is_sparse) {
            true => Settle::Gather(group, self.file(group)),
            false => Settle::Sync(self.file(group)),
        })
    }

    /// Whether the record of a job is still this one.
    pub(super) fn is_at(&self, job: JobId, group: u64, at: u64) -> bool {
        self.places.get(&job) == Some(&Place::In(group, at))
    }

    /// How many groups there are to [settle](Self::settle).
    pub(super) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Path of the group that takes the next records.
    pub(super) fn next_file(&self) -> PathBuf {
        self.file(self.open.as_ref().map_or(self.next, |open| open.group))
    }

    fn file(&self, group: u64) -> PathBuf {
        self.folder.join(format!("{group}.jobs"))
    }

    fn own_file(&self, job: JobId) -> PathBuf {
        self.folder.join(format!("{job}.json"))
    }
}

/// The end of a file, beyond what counts of it.
#[derive(Debug)]
struct Tail {
    file: Arc<File>,
    at: u64,
}

impl Write for Tail {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(piece, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records on their way to their file, without force.
#[derive(Debug)]
pub(super) struct Writing {
    out: io::BufWriter<Tail>,
    group: u64,
    /// Jobs, and where the record of each begins.
    records: Vec<(JobId, u64)>,
    /// Length of the file.
    bytes: u64,
    /// Whether the next byte is the first one of a record.
    begins: bool,
    shared: Shared,
}

/// Records in their file, without force.
#[derive(Debug)]
pub(super) struct Written {
    group: u64,
    records: Vec<(JobId, u64)>,
    end: u64,
    shared: Shared,
}

/// Group that is to be brought to the disk, and perhaps the folder behind it.
#[derive(Debug)]
pub(super) struct ToSync {
    pub(super) file: Arc<File>,
    pub(super) has_new_name: bool,
}

impl Writing {
    /// Adds the record of a job.
    pub(super) fn put(&mut self, job: JobId, queued: &Queued) -> io::Result<()> {
        let environment = &queued.launch.environment;
        let environment_at = (environment.bytes() > 0).then(|| self.share(environment)).transpose()?;
        let mut queued = Queued { environment_at, ..queued.clone() };
        queued.launch.environment.clear();
        self.records.push((job, self.bytes));
        self.begins = true;
        serde_json::to_writer(&mut *self, &(job, queued))?;
        self.write_all(b"\n")
    }

    /// Where the group has an environment: a new one is written.
    fn share(&mut self, environment: &Environment) -> io::Result<u64> {
        if let Some((_, at)) = self.shared.places.iter().find(|(known, _)| known == environment) {
            return Ok(*at);
        }
        let at = self.bytes;
        self.write_all(&[ENVIRONMENT])?;
        serde_json::to_writer(&mut *self, environment)?;
        self.write_all(b"\n")?;
        if self.shared.places.is_empty() {
            self.shared.first_bytes = self.bytes - at;
        }
        self.shared.places.push((environment.clone(), at));
        Ok(at)
    }

    /// Whether another record may follow.
    pub(super) fn has_room(&self) -> bool {
        self.shared.has_room(self.bytes)
    }

    pub(super) fn finish(self) -> io::Result<Written> {
        self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Written { group: self.group, records: self.records, end: self.bytes, shared: self.shared })
    }
}

impl Write for Writing {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = match piece.first() {
            Some(_) if std::mem::take(&mut self.begins) => self.out.write(&[VOID])?,
            _ => self.out.write(piece)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
