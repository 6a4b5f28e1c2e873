//! Files that may be another user's: opened where they are files, and nothing else is touched. To open a pipe
//! is to wait for its other end, and some devices do something when they are opened.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Time that whoever has a lease on a file is left to give it up.
const LEASE_MAX: Duration = Duration::from_secs(2);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Opens a file for reading, behind links too.
///
/// # Errors
/// When it cannot be opened, or is a pipe, a device, a folder or a socket.
pub fn open_file(path: &Path) -> io::Result<File> {
    Ok(open_with_facts(path)?.0)
}

/// The same, with what was found before it was opened.
///
/// # Errors
/// The same.
pub fn open_with_facts(path: &Path) -> io::Result<(File, Metadata)> {
    // Nothing is opened yet, whatever it is.
    let name = File::from(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    let found = name.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file"));
    }
    let link = format!("/proc/self/fd/{}", name.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let began = Instant::now();
    loop {
        match rustix::fs::open(&link, flags, Mode::empty()) {
            // Its holder has been told, and could keep whoever waits for much longer.
            Err(Errno::AGAIN) if began.elapsed() < LEASE_MAX => std::thread::sleep(PAUSE),
            opened => return Ok((File::from(opened?), found)),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// The same, and when it has more than so many bytes.
pub fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_all(open_file(path)?, bytes_max)
}

/// Reads what is left, whatever it comes from.
///
/// # Errors
/// When it cannot be read, or has more than so many bytes.
pub fn read_all(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let text = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, mknodat};
    use tutti_testkit::Scratch;

    use super::*;

    #[test]
    fn files_alone_are_opened_behind_links_too() {
        let scratch = Scratch::new("plain-file");
        let path = |name: &str| scratch.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        symlink(path("file"), path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(path("pipe"), path("link-to-pipe")).unwrap();
        symlink("/dev/zero", path("link-to-device")).unwrap();
        for name in ["file", "link"] {
            let (_, found) = open_with_facts(&path(name)).unwrap();
            assert_eq!((found.len(), read_file(&path(name), 4).unwrap()), (4, b"text".to_vec()), "{name}");
        }
        for name in ["pipe", "link-to-pipe", "link-to-device", "."] {
            assert_eq!(open_file(&path(name)).unwrap_err().to_string(), "it is no file", "{name}");
        }
        assert_eq!(open_file(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn file_without_an_end_is_read_up_to_its_bound() {
        let scratch = Scratch::new("plain-file-long");
        let path = scratch.path().join("file");
        // Takes no room on the disk.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_file(&path, 1000).unwrap_err();
        assert_eq!(error.to_string(), "it is longer than 1000 bytes");
        assert!(read_all(io::repeat(7), 1000).is_err());
        assert_eq!(read_all(io::repeat(7).take(1000), 1000).unwrap().len(), 1000);
    }
}
