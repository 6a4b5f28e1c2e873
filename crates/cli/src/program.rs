//! From the word that a user typed to a file that can be executed, or one line with the reason why not.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use crate::elf::{self, OtherMpi};

/// Why a word is no program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Nowhere.
    #[error("cannot find the program {0}: it is neither in PATH nor in the working directory")]
    NotInPath(String),
    /// Not there.
    #[error("cannot find the program {0}: no such file")]
    NoFile(String),
    /// The kernel refuses to look.
    #[error("cannot read the program {program}: {source}")]
    Unreadable {
        /// As given.
        program: String,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// A folder.
    #[error("cannot execute {0}: it is a directory")]
    Directory(String),
    /// No permission.
    #[error("cannot execute {0}: permission denied (is it a program? then chmod +x)")]
    Permission(String),
    /// No program may be executed there.
    #[error("cannot execute {0}: its file system is mounted noexec; copy it to another one")]
    NoExecution(String),
    /// A script for something that is not here.
    #[error("cannot execute {program}: its interpreter {interpreter} does not exist")]
    Interpreter {
        /// As given.
        program: String,
        /// Named in its first line.
        interpreter: String,
    },
    /// A program of an Open MPI that is not known.
    #[error(
        "{program} was built for a version of Open MPI that is not known here (needs {library}; known are those with libmpi.so.40: 4 and 5); recompile it with mpicc of Tutti"
    )]
    OpenMpi {
        /// As given.
        program: String,
        /// By what it is known.
        library: String,
    },
    /// A program of an MPI that we do not know.
    #[error("{program} was built for another MPI (needs {library}); recompile it with mpicc of Tutti")]
    OtherMpi {
        /// As given.
        program: String,
        /// By what it is known.
        library: String,
    },
    /// A program with two libraries of MPI.
    #[error(
        "{program} is linked with two MPIs ({first} and {second}), whose functions have the same names; link it with one"
    )]
    TwoMpis {
        /// As given.
        program: String,
        /// A library of the first.
        first: String,
        /// A library of the second.
        second: String,
    },
}

impl ProgramError {
    /// The exit status that a shell gives in that case.
    pub fn status(&self) -> u8 {
        match self {
            ProgramError::NotInPath(_) | ProgramError::NoFile(_) => 127,
            ProgramError::OpenMpi { .. } | ProgramError::OtherMpi { .. } | ProgramError::TwoMpis { .. } => 1,
            _ => 126,
        }
    }
}

/// Finds and checks a program. `search` comes before `path`; names with a slash are relative to `directory`.
///
/// # Errors
/// When it cannot be executed.
pub fn find(
    word: &OsStr,
    directory: Option<&OsStr>,
    search: Option<&OsStr>,
    path: Option<&OsStr>,
) -> Result<PathBuf, ProgramError> {
    let name = word.to_string_lossy().into_owned();
    let here =
        |file: &Path| directory.map_or_else(|| file.to_owned(), |directory| Path::new(directory).join(file));
    if word.as_bytes().contains(&b'/') {
        check(&name, &here(Path::new(word)))?;
        return Ok(PathBuf::from(word));
    }
    let mut refused = None;
    for folder in [search, path].into_iter().flatten().flat_map(std::env::split_paths) {
        let file = if folder.as_os_str().is_empty() { Path::new(".").join(word) } else { folder.join(word) };
        if file.metadata().is_ok_and(|found| found.is_file()) {
            match check(&name, &file) {
                // A file of that name that may not be executed does not hide a program further on.
                Err(error @ ProgramError::Permission(_)) => refused = Some(error),
                Err(error) => return Err(error),
                Ok(()) => return Ok(std::path::absolute(&file).unwrap_or(file)),
            }
        }
    }
    // Both families take `mpiexec a.out` for `mpiexec ./a.out`.
    let local = Path::new(".").join(word);
    if here(&local).exists() {
        check(&name, &here(&local))?;
        return Ok(local);
    }
    Err(refused.unwrap_or(ProgramError::NotInPath(name)))
}

fn check(name: &str, file: &Path) -> Result<(), ProgramError> {
    let unreadable = |source| ProgramError::Unreadable { program: name.into(), source };
    let found = match file.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(ProgramError::NoFile(name.into()));
        }
        Err(error) => return Err(unreadable(error)),
        Ok(found) => found,
    };
    if found.is_dir() {
        return Err(ProgramError::Directory(name.into()));
    }
    if access(file, Access::EXEC_OK).is_err() {
        let may_elsewhere = found.permissions().mode() & 0o111 != 0;
        let is_barred = statvfs(file).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOEXEC));
        return Err(match may_elsewhere && is_barred {
            true => ProgramError::NoExecution(name.into()),
            false => ProgramError::Permission(name.into()),
        });
    }
    // A program may be executable and not readable: then there is nothing to see.
    let Ok(mut opened) = tutti_os::open_file(file) else { return Ok(()) };
    let mut head = [0; 256];
    let length = opened.read(&mut head).unwrap_or(0);
    if let Some(interpreter) = interpreter(&head[..length])
        && !Path::new(&interpreter).exists()
    {
        return Err(ProgramError::Interpreter {
            program: name.into(),
            interpreter: interpreter.to_string_lossy().into_owned(),
        });
    }
    let libraries = elf::needed(&opened);
    for library in &libraries {
        let (program, library) = (name.into(), library.clone());
        match elf::other_mpi(&library) {
            Some(OtherMpi::OtherOpenMpi) => return Err(ProgramError::OpenMpi { program, library }),
            Some(OtherMpi::Unknown) => return Err(ProgramError::OtherMpi { program, library }),
            // They start by PMI and by PMIx.
            Some(OtherMpi::Mpich | OtherMpi::OpenMpi) | None => {}
        }
    }
    match elf::two_mpis(&libraries) {
        Some((first, second)) => {
            Err(ProgramError::TwoMpis { program: name.into(), first: first.into(), second: second.into() })
        }
        None => Ok(()),
    }
}

/// The interpreter that the first line of a script names.
fn interpreter(head: &[u8]) -> Option<OsString> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_interpreter_of_a_script_is_found() {
        let name = |head: &[u8]| interpreter(head).map(|name| name.to_string_lossy().into_owned());
        assert_eq!(name(b"#!/bin/sh\n"), Some("/bin/sh".into()));
        assert_eq!(name(b"#!  /usr/bin/env python3\nx"), Some("/usr/bin/env".into()));
        assert_eq!(name(b"#!\n"), None);
        assert_eq!(name(b"\x7fELF"), None);
    }

    #[test]
    fn program_lookup_matches_the_shell() {
        let find = |word: &str| find(word.as_ref(), None, None, Some("/nowhere:/bin:/usr/bin".as_ref()));
        assert_eq!(find("sh").unwrap(), PathBuf::from("/bin/sh"));
        assert_eq!(find("/bin/sh").unwrap(), PathBuf::from("/bin/sh"));
        assert!(matches!(find("no-such-program"), Err(ProgramError::NotInPath(_))));
        assert!(matches!(find("./no-such-program"), Err(ProgramError::NoFile(_))));
        assert!(matches!(find("/tmp/"), Err(ProgramError::Directory(_))));
        assert!(matches!(find("/etc/passwd"), Err(ProgramError::Permission(_))));
        assert!(matches!(find("/etc/passwd/x"), Err(ProgramError::Unreadable { .. })));
    }
}
