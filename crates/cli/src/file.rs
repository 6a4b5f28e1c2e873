//! Files that users asked for: whole, or as they were.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Uid, fchown, fstatfs, open, openat, readlinkat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::Signal;
use tutti_os::random::fill_random;

/// The kernel follows as many symbolic links.
const LINKS_MAX: usize = 40;
/// Number of users where all of them are.
const ALL: &str = " 4294967295";
/// Signals whose default is to end the program, from a terminal or another program.
const ENDS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Where what is written to a path goes.
enum Target {
    /// The file of this name, which need not be there yet.
    File(PathBuf),
    /// A descriptor that we were started with: `/dev/stdout`, `/dev/fd/3`.
    Descriptor(RawFd),
    /// A pipe, a terminal, what another program's descriptor leads to: nothing that another one could take
    /// the place of.
    Stream(PathBuf),
}

impl Target {
    /// Symbolic links are followed, as open(2) does; but a link of another user would lead root anywhere.
    fn of(path: &Path) -> io::Result<Self> {
        let mut at = path.to_owned();
        for _ in 0..LINKS_MAX {
            // A folder is meant, if there is one.
            if ends_as_folder(&at) {
                drop(enter(&at)?);
                return Err(Errno::ISDIR.into());
            }
            if is_guarded() {
                drop(open_folder(&at)?);
            }
            match std::fs::symlink_metadata(&at) {
                Ok(found) if found.is_symlink() => check_link(&at, &found)?,
                Ok(found) if !found.is_file() => return Ok(Target::Stream(at)),
                _ => return Ok(Target::File(at)),
            }
            let (opened, folder) = (open_folder(&at), folder_of(&at));
            let (Ok(folder), Ok(next)) = (folder.canonicalize(), at.read_link()) else { break };
            // A link to an open file, which may have no name.
            if opened.is_ok_and(is_proc) {
                let own = descriptor(&folder, at.file_name());
                return Ok(own.map_or(Target::Stream(at), Target::Descriptor));
            }
            at = folder.join(next);
        }
        Ok(Target::Stream(path.to_owned()))
    }
}

/// Whether this process is root's. In a namespace of users the links of the machine's root are nobody's, and
/// root has no more rights than whoever has made it.
fn is_guarded() -> bool {
    let is_whole =
        || std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.trim_end().ends_with(ALL));
    rustix::process::geteuid().is_root() && is_whole()
}

/// Root follows no link of another user.
fn check_link(path: &Path, link: &Metadata) -> io::Result<()> {
    if link.uid() == 0 || !is_guarded() {
        return Ok(());
    }
    let (link, user) = (path.display(), link.uid());
    let text = format!("{link} is a link that user {user} has made: name the file itself");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."))
}

/// Whether the path can be a folder's alone, as the kernel reads it.
fn ends_as_folder(path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Whether a file is the kernel's: links there lead where no text says.
fn is_proc(file: impl AsFd) -> bool {
    fstatfs(file).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// The folder of a path.
fn open_folder(path: &Path) -> io::Result<File> {
    enter(folder_of(path))
}

/// A folder. Root goes from folder to folder: whoever changes a name meanwhile leads it nowhere.
fn enter(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let of_folder = flags | OFlags::DIRECTORY;
    if !is_guarded() {
        return Ok(open(path, of_folder, Mode::empty())?.into());
    }
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect();
    let mut rest: Vec<OsString> = parts(path);
    let begin = if path.is_absolute() { "/" } else { "." };
    let (mut folder, mut shown, mut links) = (open(begin, flags, Mode::empty())?, PathBuf::new(), 0);
    while let Some(part) = rest.pop() {
        shown.push(&part);
        // By this a folder is mounted that is mounted when it is wanted. The path begins, or begins anew, at
        // the root, which is no link.
        match openat(&folder, &part, of_folder | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => {
                folder = next;
                continue;
            }
            Err(Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
        let link = File::from(openat(&folder, &part, flags | OFlags::NOFOLLOW, Mode::empty())?);
        let found = link.metadata()?;
        if !found.is_symlink() {
            return Err(Errno::NOTDIR.into());
        }
        check_link(&shown, &found)?;
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if is_proc(&link) {
            folder = openat(&folder, &part, of_folder, Mode::empty())?;
            continue;
        }
        let to = readlinkat(&link, "", Vec::new())?;
        shown.pop();
        let to: Vec<OsString> = parts(Path::new(OsStr::from_bytes(to.as_bytes())));
        rest.extend(to);
    }
    Ok(folder.into())
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| Errno::ISDIR.into())
}

/// Opens what is no file, for writing at its end. Root writes into no pipe of a user, who need not read.
fn open_stream(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    if !is_guarded() {
        return Ok(open(path, flags, Mode::empty())?.into());
    }
    // Nothing is opened yet, whatever it is.
    let (folder, name) = (open_folder(path)?, name_of(path)?);
    let found = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = File::from(openat(&folder, name, found, Mode::empty())?);
    let facts = found.metadata()?;
    // A program of root's has it open.
    if facts.is_symlink() && is_proc(&found) {
        check_link(path, &facts)?;
        return Ok(openat(&folder, name, flags, Mode::empty())?.into());
    }
    if facts.uid() != 0 && !facts.is_dir() && !facts.file_type().is_char_device() {
        let text = format!("it is user {}'s, and no file", facts.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty())?.into())
}

/// The number of one of our own descriptors, by its place in /proc.
fn descriptor(folder: &Path, name: Option<&OsStr>) -> Option<RawFd> {
    let inside = folder.strip_prefix(format!("/proc/{}", std::process::id())).ok()?;
    (inside.ends_with("fd")).then_some(name?.to_str()?.parse().ok()?)
}

/// True if what is written to the path is no file of that name, as with `/dev/stdout`.
pub fn is_stream(path: &Path) -> bool {
    match Target::of(path) {
        Ok(Target::File(_)) | Err(_) => false,
        Ok(Target::Descriptor(_)) => true,
        Ok(Target::Stream(path)) => !path.is_dir(),
    }
}

/// True if the path names a descriptor of this process, as `/dev/stdout` does.
pub fn is_descriptor(path: &Path) -> bool {
    matches!(Target::of(path), Ok(Target::Descriptor(_)))
}

/// Writes the file under another name beside it, then gives it its own: a full disk leaves what was there,
/// and nothing new. A signal that comes meanwhile is handled when it is done. A target that is no regular
/// file is written to as it is, a descriptor at its position; it can be named once.
///
/// # Errors
/// When it cannot be written; a text for the user.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let written = Target::of(path).and_then(|target| match target {
        Target::File(target) => {
            tutti_os::without_signals(&ENDS.map(Signal::as_raw), || replace(path, &target, bytes))
        }
        Target::Descriptor(number) => put(number, bytes),
        Target::Stream(target) => open_stream(&target).and_then(|mut file| file.write_all(bytes)),
    });
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The file of this name; none: there is none. One that may not be written may not be replaced either, and
/// some links the kernel does not follow.
fn old_file(path: &Path, folder: &File, name: &OsStr) -> io::Result<Option<Metadata>> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match is_guarded() {
        // It may have become a pipe meanwhile.
        true => openat(folder, name, flags | OFlags::NOFOLLOW | OFlags::NONBLOCK, Mode::empty()),
        false => open(path, flags, Mode::empty()),
    };
    match opened {
        Ok(file) => File::from(file).metadata().map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn replace(path: &Path, target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut number = [0; 8];
    fill_random(&mut number)?;
    let new = format!(".tutti-{:016x}", u64::from_ne_bytes(number));
    let (folder, name) = (open_folder(target)?, name_of(target)?);
    let old = old_file(path, &folder, name)?;
    let write = || {
        // Not for one moment may more people read it than could read the old one.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &new, flags, mode)?);
        file.write_all(bytes)?;
        // Some file systems find out only now that there is no room.
        file.sync_all()?;
        if let Some(old) = &old {
            take_over(&file, old)?;
        }
        Ok(renameat(&folder, &new, &folder, name)?)
    };
    write().inspect_err(|_| {
        let _ = unlinkat(&folder, &new, AtFlags::empty());
    })
}

/// The file keeps its former owner, as far as that is allowed. A file of another group gets no rights of a
/// group.
fn take_over(file: &File, old: &Metadata) -> io::Result<()> {
    let (owner, group) = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
    if fchown(file, Some(owner), Some(group)).is_err() {
        let _ = fchown(file, None, Some(group));
    }
    let same_group = file.metadata()?.gid() == old.gid();
    let mode = old.mode() & if same_group { 0o7777 } else { 0o707 };
    file.set_permissions(Permissions::from_mode(mode))
}

/// A descriptor's file is not opened again: it would be written from two places, and a socket cannot be
/// opened.
fn put(number: RawFd, bytes: &[u8]) -> io::Result<()> {
    match number {
        0 => File::from(rustix::stdio::stdin().try_clone_to_owned()?).write_all(bytes),
        1 => tutti_os::stdout::write(bytes),
        2 => io::stderr().write_all(bytes),
        _ => File::from(tutti_os::take_descriptor(number)?).write_all(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;
    use std::os::fd::IntoRawFd;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tutti-file-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<std::ffi::OsString> {
            let mut names: Vec<_> =
                std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn output_file_symlink_is_kept() {
        let folder = Folder::new("links");
        std::os::unix::fs::symlink("second", folder.0.join("first")).unwrap();
        std::os::unix::fs::symlink(folder.0.join("file"), folder.0.join("second")).unwrap();
        for text in ["new", "newer"] {
            write(&folder.0.join("first"), text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(folder.0.join("file")).unwrap(), text);
            assert_eq!(folder.names(), ["file", "first", "second"]);
            assert!(folder.0.join("second").is_symlink());
        }
        std::os::unix::fs::symlink("round", folder.0.join("round")).unwrap();
        assert!(write(&folder.0.join("round"), b"").is_err_and(|text| text.contains("round")));
    }

    /// A test of root's: who else could be led by whom?
    #[test]
    fn output_file_of_root_is_not_behind_a_link_of_another_user() {
        let folder = Folder::new("led");
        let (link, file) = (folder.0.join("link"), folder.0.join("file"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let given = rustix::fs::chownat(
            rustix::fs::CWD,
            &link,
            Some(Uid::from_raw(65_534)),
            None,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        );
        if given.is_err() {
            return tutti_testkit::skip(tutti_testkit::Need::Root, "only root gives links away");
        }
        let error = write(&link, b"text").unwrap_err();
        assert!(error.contains("link is a link that user 65534 has made: name the file"), "{error}");
        assert!(!is_stream(&link) && !is_descriptor(&link) && !file.exists());
        // Neither by a folder that is such a link, nor into a pipe that he need not read.
        let (folders, user) = (folder.0.join("folders"), Some(Uid::from_raw(65_534)));
        let give = |path: &Path| {
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(rustix::fs::CWD, path, user, None, flags).unwrap();
        };
        std::os::unix::fs::symlink(&folder.0, &folders).unwrap();
        std::os::unix::fs::symlink("folders/file", folder.0.join("own")).unwrap();
        write(&folder.0.join("own"), b"text").unwrap();
        std::fs::remove_file(&file).unwrap();
        give(&folders);
        for path in ["folders/file", "own", "folders/../none"] {
            let error = write(&folder.0.join(path), b"text").unwrap_err();
            assert!(error.contains("folders is a link that user 65534 has made"), "{error}");
        }
        assert!(!file.exists());
        let pipe = folder.0.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        give(&pipe);
        // The way through /proc makes it none of the kernel's.
        let around = Path::new("/proc/..").join(pipe.strip_prefix("/").unwrap());
        for pipe in [&pipe, &around] {
            let error = write(pipe, b"text").unwrap_err();
            assert!(error.ends_with("pipe: it is user 65534's, and no file"), "{error}");
        }
        // The user's file itself is written to, and stays the user's.
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
        write(&file, b"new").unwrap();
        assert_eq!(
            (std::fs::read(&file).unwrap(), file.metadata().unwrap().uid()),
            (b"new".to_vec(), 65_534)
        );
    }

    #[test]
    fn output_file_keeps_its_mode_while_replaced() {
        let folder = Folder::new("mode");
        let file = folder.0.join("file");
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let modes = || {
            let entries = std::fs::read_dir(&folder.0).unwrap();
            entries
                .filter_map(|entry| Some(entry.unwrap().metadata().ok()?.mode() & 0o777))
                .collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&file, &vec![0; 32 << 20]).unwrap());
            while !writer.is_finished() {
                assert!(modes().iter().all(|mode| *mode == 0o600), "{:?}", modes());
            }
        });
        assert_eq!((folder.names().len(), modes()), (1, vec![0o600]));
    }

    #[test]
    fn output_file_descriptor_keeps_its_offset() {
        let folder = Folder::new("descriptor");
        let path = folder.0.join("file");
        for (append, expected) in [(false, "abTEXTghij"), (true, "abcdefghijTEXT")] {
            std::fs::write(&path, "abcdefghij").unwrap();
            let mut file = File::options().write(true).append(append).open(&path).unwrap();
            file.seek(io::SeekFrom::Start(2)).unwrap();
            let inherited = file.try_clone().unwrap();
            rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
            let number = inherited.into_raw_fd();
            let named = PathBuf::from(format!("/dev/fd/{number}"));
            assert!(is_stream(&named));
            write(&named, b"TEXT").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
            assert_eq!(file.stream_position().unwrap() as usize, expected.find("TEXT").unwrap() + 4);
        }
        assert_eq!(folder.names(), ["file"]);
    }

    #[test]
    fn output_file_whose_path_ends_as_a_folders_is_not_written() {
        let folder = Folder::new("slash");
        std::fs::write(folder.0.join("file"), "old").unwrap();
        std::os::unix::fs::symlink("file/", folder.0.join("link")).unwrap();
        for name in ["file/", "file/.", "link", "file/none"] {
            let error = write(&folder.0.join(name), b"new").unwrap_err();
            assert!(error.contains(": Not a directory"), "{error}");
        }
        let error = write(&folder.0.join("none/"), b"new").unwrap_err();
        assert!(error.contains(": No such file or directory"), "{error}");
        let error = write(&folder.0.join(""), b"new").unwrap_err();
        assert!(error.contains(": Is a directory"), "{error}");
        assert_eq!(folder.names(), ["file", "link"]);
        assert_eq!(std::fs::read(folder.0.join("file")).unwrap(), b"old");
    }

    #[test]
    fn output_file_in_an_open_folder_is_written() {
        let folder = Folder::new("open");
        let opened = File::open(&folder.0).unwrap();
        let path = format!("/proc/self/fd/{}/file", opened.as_raw_fd());
        for text in ["new", "newer"] {
            write(Path::new(&path), text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(folder.0.join("file")).unwrap(), text);
        }
        assert_eq!(folder.names(), ["file"]);
    }

    #[test]
    fn output_file_pipe_is_written_to() {
        let folder = Folder::new("pipe");
        let pipe = folder.0.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(is_stream(&pipe) && !is_stream(&folder.0) && !is_stream(&folder.0.join("none")));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| std::fs::read_to_string(&pipe).unwrap());
            write(&pipe, b"text").unwrap();
            assert_eq!(reader.join().unwrap(), "text");
        });
        assert_eq!(folder.names(), ["pipe"]);
    }
}
