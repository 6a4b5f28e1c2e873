//! The exported folders. A path is resolved below its folder by the kernel (`openat2`): one that leads out of
//! it is refused (EXDEV), also by a link, also if somebody renames folders meanwhile.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fstat,
};

use super::Folder;
use crate::frames::{Attributes, Change, EXPORTS_MAX, Export, Place, Request, Room, Target, Times, Writer};

/// The folders, by number.
#[derive(Debug)]
pub(super) struct Folders(Vec<(Export, OwnedFd)>);

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Folders {
    pub(super) fn open(folders: &[Folder]) -> Result<Self, String> {
        if folders.len() > EXPORTS_MAX {
            return Err(format!("--files names {} folders, {EXPORTS_MAX} are possible", folders.len()));
        }
        let mut opened = Vec::new();
        for folder in folders {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let cannot = |error| {
                format!("cannot open the folder {}: {}", folder.path.display(), io::Error::from(error))
            };
            let file = rustix::fs::open(&folder.path, flags, Mode::empty()).map_err(cannot)?;
            let status = fstat(&file).map_err(cannot)?;
            let path = folder.path.as_os_str().as_bytes().to_vec();
            let identity = (status.st_dev, status.st_ino);
            opened.push((Export { path, is_read_only: folder.is_read_only, identity }, file));
        }
        Ok(Folders(opened))
    }

    pub(super) fn list(&self) -> Vec<Export> {
        self.0.iter().map(|(export, _)| export.clone()).collect()
    }

    fn find(&self, place: &Place, writes: bool) -> io::Result<&OwnedFd> {
        let (export, file) = self.0.get(usize::from(place.export)).ok_or_else(|| error(libc::ENOENT))?;
        if writes && export.is_read_only { Err(error(libc::EROFS)) } else { Ok(file) }
    }

    pub(super) fn open_below(
        &self,
        place: &Place,
        flags: OFlags,
        mode: Mode,
        writes: bool,
    ) -> io::Result<OwnedFd> {
        let folder = self.find(place, writes)?;
        let path = if place.path.is_empty() { &b"."[..] } else { &place.path };
        let mode = if flags.contains(OFlags::CREATE) { mode } else { Mode::empty() };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(folder, path, flags | OFlags::CLOEXEC, mode, how) {
                // Something was renamed meanwhile.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn at(&self, place: &Place, follow: bool) -> io::Result<OwnedFd> {
        let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
        self.open_below(place, flags, Mode::empty(), false)
    }

    /// The folder of a name, and the name.
    fn parent<'a>(&self, place: &'a Place) -> io::Result<(OwnedFd, &'a [u8])> {
        let cut = place.path.iter().rposition(|byte| *byte == b'/');
        let (folder, name) =
            cut.map_or((&b""[..], &place.path[..]), |at| (&place.path[..at], &place.path[at + 1..]));
        if name.is_empty() || name == b"." || name == b".." {
            return Err(error(libc::EINVAL));
        }
        let place = Place { export: place.export, path: folder.to_vec() };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        Ok((self.open_below(&place, flags, Mode::empty(), true)?, name))
    }

    pub(super) fn answer(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut out = Writer::answer(0);
        match request {
            Request::Stat { target: Target::Place(place), follow } => {
                out.attributes(&attributes_of(&fstat(self.at(place, *follow)?)?));
            }
            Request::Set { target: Target::Place(place), change } => {
                out.attributes(&self.change(place, change)?);
            }
            Request::ReadLink { place } => {
                out.bytes(&self.read_link(place)?);
            }
            Request::Symlink { place, to } => {
                let (folder, name) = self.parent(place)?;
                rustix::fs::symlinkat(&to[..], folder, name)?;
            }
            Request::MakeDirectory { place, mode } => {
                let (folder, name) = self.parent(place)?;
                rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(mode & 0o7777))?;
            }
            Request::Remove { place, is_directory } => {
                let (folder, name) = self.parent(place)?;
                let flags = if *is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                rustix::fs::unlinkat(folder, name, flags)?;
            }
            Request::Rename { from, to, flags } => {
                let ((old, name), (new, other)) = (self.parent(from)?, self.parent(to)?);
                rustix::fs::renameat_with(old, name, new, other, RenameFlags::from_bits_retain(*flags))?;
            }
            Request::Link { from, to } => {
                let ((old, name), (new, other)) = (self.parent(from)?, self.parent(to)?);
                rustix::fs::linkat(old, name, new, other, AtFlags::empty())?;
            }
            Request::Room { place } => {
                let found = rustix::fs::fstatvfs(self.at(place, true)?)?;
                let bytes = [found.f_bsize as u32, found.f_namemax as u32, found.f_frsize as u32];
                let blocks = [found.f_blocks, found.f_bfree, found.f_bavail];
                return Ok(Room { blocks, files: [found.f_files, found.f_ffree], bytes }.encode());
            }
            Request::Access { place, mask } => {
                let writes = mask & libc::W_OK as u32 != 0;
                self.find(place, writes)?;
                let file = self.at(place, true)?;
                let access = Access::from_bits_truncate(mask & 7);
                rustix::fs::access(format!("/proc/self/fd/{}", file.as_raw_fd()), access)?;
            }
            _ => return Err(error(libc::EOPNOTSUPP)),
        }
        Ok(out.finish())
    }

    fn change(&self, place: &Place, change: &Change) -> io::Result<Attributes> {
        self.find(place, true)?;
        let file = self.at(place, false)?;
        if let Some(size) = change.size {
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            rustix::fs::ftruncate(self.open_below(place, flags, Mode::empty(), true)?, size)?;
        }
        if let Some(mode) = change.mode {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::chmod(path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        if let Some(times) = times_of(change) {
            if place.path.is_empty() {
                rustix::fs::utimensat(&file, ".", &times, AtFlags::empty())?;
            } else {
                let (folder, name) = self.parent(place)?;
                rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        Ok(attributes_of(&fstat(&file)?))
    }

    /// Where a link leads, as long as that is served: on another node the same path would be another file.
    fn read_link(&self, place: &Place) -> io::Result<Vec<u8>> {
        let file = self.at(place, false)?;
        let to = rustix::fs::readlinkat(&file, "", Vec::new())?.into_bytes();
        let from = &self.0[usize::from(place.export)].0.path;
        let folder = place.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let whole = match to.first() {
            Some(b'/') => to.clone(),
            _ => [from, &b"/"[..], &place.path[..folder], b"/", &to].concat(),
        };
        let whole = normal(&whole);
        let is_served = self.0.iter().any(|(export, _)| whole.starts_with(&normal(&export.path)));
        if is_served { Ok(to) } else { Err(error(libc::EXDEV)) }
    }
}

/// Components of an absolute path, without `.` and `..`.
fn normal(path: &[u8]) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                out.pop();
            }
            name => out.push(std::ffi::OsStr::from_bytes(name).to_owned().into_vec()),
        }
    }
    out
}

pub(super) fn attributes_of(status: &Stat) -> Attributes {
    let time = |seconds: i64, ns: u64| (seconds, ns as u32);
    Attributes {
        ino: status.st_ino,
        size: status.st_size.cast_unsigned(),
        blocks: status.st_blocks.cast_unsigned(),
        times: Times {
            accessed: time(status.st_atime, status.st_atime_nsec),
            modified: time(status.st_mtime, status.st_mtime_nsec),
            changed: time(status.st_ctime, status.st_ctime_nsec),
        },
        mode: status.st_mode,
        links: status.st_nlink as u32,
        owner: (status.st_uid, status.st_gid),
        block_bytes: status.st_blksize as u32,
    }
}

pub(super) fn times_of(change: &Change) -> Option<Timestamps> {
    let one = |time: Option<(i64, u32)>| match time {
        Some((seconds, ns)) => Timespec { tv_sec: seconds, tv_nsec: i64::from(ns) },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    (change.accessed.is_some() || change.modified.is_some())
        .then(|| Timestamps { last_access: one(change.accessed), last_modification: one(change.modified) })
}
