//! The files of a submitted job: which ones its user wants, and what is in them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use tutti_os::{open_with_facts, stdout};
use tutti_protocol::output::{Output, expand, is_of_ranks, is_of_tasks};

use crate::cluster::JobRow;
use crate::file;
use crate::options::Options;

/// Where the output goes by default.
const DEFAULT: &str = "tutti-%j.out";
/// The same of an array.
const DEFAULT_OF_TASKS: &str = "tutti-%A_%a.out";
/// Files of a job, at most.
const FILES_MAX: u64 = 16 << 10;
/// In place of a file: no file.
const NONE: &str = "none";

/// The files of the options; none: no files.
///
/// # Errors
/// When it is known already that one cannot be written; a text for the user.
pub fn wanted(options: &Options) -> Result<Option<Output>, String> {
    let is_array = options.batch.array().is_some();
    let default = if is_array { DEFAULT_OF_TASKS } else { DEFAULT };
    let out = options.output.stdout.clone().unwrap_or_else(|| default.into());
    let errors = options.output.stderr.clone().unwrap_or_else(|| out.clone());
    for pattern in [&out, &errors].into_iter().filter(|pattern| *pattern != NONE) {
        if !is_array && is_of_tasks(pattern.as_bytes()) {
            return Err(format!("{}: %A and %a are for the tasks of --array", pattern.to_string_lossy()));
        }
        check(pattern).map_err(|text| {
            format!("{text}; -o FILE names another file, -o none keeps only the last of what the job writes")
        })?;
    }
    let named = |pattern: OsString| (pattern != NONE).then(|| pattern.into());
    let output = Output { out: named(out), errors: named(errors), append: options.output.append };
    Ok((output.out.is_some() || output.errors.is_some()).then_some(output))
}

/// Whether there may be such a file, as far as can be known before the job has a number.
fn check(pattern: &OsString) -> Result<(), String> {
    let path = Path::new(pattern);
    if path.file_name().is_none() || pattern.as_bytes().ends_with(b"/") {
        return Err(format!("{} is not a file name", path.display()));
    }
    let refused = |path: &Path, error: io::Error| Err(format!("cannot write {}: {error}", path.display()));
    let is_known = |path: &Path| !path.as_os_str().as_bytes().contains(&b'%');
    let may_write = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS);
    if is_known(path) && path.exists() {
        if path.is_dir() {
            return Err(format!("cannot write {}: it is a folder", path.display()));
        }
        if file::is_descriptor(path) {
            return Err(format!("{} is this command's: the job has none", path.display()));
        }
        return may_write(path).or_else(|error| refused(path, error.into()));
    }
    let folder = path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
    if is_known(folder) {
        let may_make = || accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
        if folder.exists() && !folder.is_dir() {
            return Err(format!("cannot write {}: {} is no folder", path.display(), folder.display()));
        }
        return may_make().or_else(|error| refused(path, error.into()));
    }
    Ok(())
}

/// For people: a name without ranks as it is.
pub fn shown(pattern: &str) -> String {
    if is_of_ranks(pattern.as_bytes()) {
        return pattern.to_owned();
    }
    let name = expand(pattern.as_bytes(), crate::cluster::JobId(0), Some((0, "")));
    String::from_utf8_lossy(&name).into_owned()
}

/// Files that a job writes to, from what has been read of them on.
#[derive(Debug)]
pub struct Reader {
    files: Vec<(File, Kind)>,
}

/// Where the contents of a file belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Output,
    Errors,
}

impl Reader {
    /// Opens the files of a job; none: they are not here, or are others by now.
    pub fn open(row: &JobRow) -> Option<Self> {
        let inode = row.output_state.inode?;
        let (mut paths, mut known) = (Vec::<(PathBuf, Kind)>::new(), BTreeSet::new());
        for (pattern, kind) in row.output.iter().zip([Kind::Output, Kind::Errors]) {
            // Daemons write no more files of a job, however many ranks it says that it has.
            let ranks = if is_of_ranks(pattern.as_bytes()) { row.ranks.min(FILES_MAX) as u32 } else { 1 };
            for rank in 0..ranks {
                let index = row.first_ranks.partition_point(|first| *first <= rank).saturating_sub(1);
                let node = row.nodes.get(index).map_or("", String::as_str);
                let name = expand(pattern.as_bytes(), row.job, Some((rank, node)));
                let path = PathBuf::from(OsString::from_vec(name));
                if known.insert(path.clone()) {
                    paths.push((path, kind));
                }
            }
        }
        let first = paths.first()?;
        let is_own = |owner: u32| owner == row.uid || row.uid == rustix::process::geteuid().as_raw();
        // In the folder of another user there may be anything.
        let open = |path: &Path| open_with_facts(path).ok().filter(|(_, found)| is_own(found.uid()));
        let is_it = open(&first.0).is_some_and(|(_, found)| found.ino() == inode);
        let opened = |(path, kind): &(PathBuf, Kind)| Some((open(path)?.0, *kind));
        is_it.then(|| paths.iter().map(opened).collect()).flatten().map(|files| Reader { files })
    }

    /// Copies what has not been read yet. `false`: not all of it can be written.
    ///
    /// # Errors
    /// When a file cannot be read; a text for the user.
    pub fn copy(&mut self) -> Result<bool, String> {
        let mut errors = io::stderr().lock();
        let mut bytes = vec![0; 256 << 10];
        for (file, kind) in &mut self.files {
            loop {
                let read =
                    file.read(&mut bytes).map_err(|error| format!("cannot read the output: {error}"))?;
                if read == 0 {
                    break;
                }
                let written = match kind {
                    Kind::Output => stdout::write(&bytes[..read]).inspect_err(stdout::report),
                    Kind::Errors => errors.write_all(&bytes[..read]),
                };
                if written.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
