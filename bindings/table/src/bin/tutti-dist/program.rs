//! Programs and libraries without their debug information, and that in a tree of its own.
//!
//! A debugger finds it by the build id, a number that the linker has computed from the contents and that
//! stays when a file is stripped: `.build-id/ab/cdef.debug` below each of its folders of debug information.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::Tree;

/// The two trees of programs.
pub(crate) struct Programs<'a> {
    pub(crate) debug: &'a mut Tree,
    pub(crate) work: &'a Path,
}

/// A program as cargo has built it, taken apart in the work folder.
pub(crate) struct Parts {
    pub(crate) program: PathBuf,
    debug: PathBuf,
}

impl Programs<'_> {
    /// Puts a program into the tree, and its debug information into the other one.
    pub(crate) fn place(
        &mut self,
        tree: &mut Tree,
        from: &Path,
        place: &str,
        mode: u32,
    ) -> Result<(), String> {
        let parts = self.take_apart(from)?;
        tree.copy(&parts.program, place, mode)?;
        self.place_debug(&parts)
    }

    fn place_debug(&mut self, parts: &Parts) -> Result<(), String> {
        let bytes = fs::read(&parts.program).map_err(|e| format!("{}: {e}", parts.program.display()))?;
        let id = build_id(&bytes).ok_or_else(|| {
            format!("{} has no build id: the linker must be one that makes them", parts.program.display())
        })?;
        self.debug.copy(&parts.debug, &debug_place(&id), 0o644)
    }

    /// The same program in two files, made anew if cargo has built another one.
    pub(crate) fn take_apart(&self, from: &Path) -> Result<Parts, String> {
        let in_error = |e: std::io::Error| format!("{}: {e}", from.display());
        let name = from.file_name().expect("a program has a name").to_string_lossy();
        let folder = self.work.join("stripped");
        fs::create_dir_all(&folder).map_err(in_error)?;
        let [program, debug, stamp] = ["", ".debug", ".stamp"].map(|end| folder.join(format!("{name}{end}")));
        let about = fs::metadata(from).map_err(in_error)?;
        let made_from = format!("{} {} {} {}", about.ino(), about.len(), about.mtime(), about.mtime_nsec());
        if program.is_file()
            && debug.is_file()
            && fs::read_to_string(&stamp).is_ok_and(|old| old == made_from)
        {
            return Ok(Parts { program, debug });
        }
        let _ = fs::remove_file(&stamp);
        run(Command::new("objcopy").arg("--only-keep-debug").arg(from).arg(&debug))?;
        run(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(&program).arg(from))?;
        fs::write(&stamp, made_from).map_err(in_error)?;
        Ok(Parts { program, debug })
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status =
        command.status().map_err(|e| format!("`{name}` cannot be started: {e}; install binutils"))?;
    if status.success() { Ok(()) } else { Err(format!("`{name}`: {status}")) }
}

/// Where a debugger looks below a folder of debug information.
fn debug_place(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(".build-id/{}/{}.debug", &hex[..2], &hex[2..])
}

/// The build id of a program in ELF's format, 64 bits, little endian.
fn build_id(elf: &[u8]) -> Option<Vec<u8>> {
    const SECTION_BYTES: usize = 64;
    const NOTE: u32 = 7;
    const BUILD_ID: u32 = 3;
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(elf.get(at..at + 8)?.try_into().ok()?) as usize);
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let sections = long(0x28)?;
    let count = usize::from(u16::from_le_bytes(elf.get(0x3c..0x3e)?.try_into().ok()?));
    for section in (0..count).map(|number| sections + number * SECTION_BYTES) {
        if word(section + 4)? != NOTE {
            continue;
        }
        let (mut at, end) = (long(section + 24)?, long(section + 24)?.checked_add(long(section + 32)?)?);
        while at + 12 <= end {
            let (name, bytes, kind) = (word(at)? as usize, word(at + 4)? as usize, word(at + 8)?);
            let data = at + 12 + name.next_multiple_of(4);
            if kind == BUILD_ID && elf.get(at + 12..at + 16)? == b"GNU\0" && bytes > 1 {
                return elf.get(data..data + bytes).map(<[u8]>::to_vec);
            }
            at = data + bytes.next_multiple_of(4);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{build_id, debug_place};

    #[test]
    fn dist_program_has_the_build_id_that_readelf_shows() {
        let own = std::env::current_exe().unwrap();
        let place = build_id(&std::fs::read(&own).unwrap()).map(|id| debug_place(&id));
        let shown = std::process::Command::new("readelf").arg("-n").arg(&own).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let id = shown.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).map(str::to_owned);
        assert_eq!(place, id.map(|id| format!(".build-id/{}/{}.debug", &id[..2], &id[2..])));
        assert!(place.is_some(), "{shown}");
        assert_eq!(build_id(b"#!/bin/sh\n"), None);
        assert_eq!(build_id(b"\x7fELF\x02\x01 cut off"), None);
    }
}
