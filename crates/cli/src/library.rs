//! The launcher decides which MPI library a program gets: ours. The folder of `libmpi_abi.so.1` beside this
//! program goes first into LD_LIBRARY_PATH, so a program built by another MPI's `mpicc_abi` runs under us as
//! it is. It does not when the library is in a folder that the loader searches anyway.
//!
//! Before it goes the folder with our `libmpi.so.12` and `libmpich.so.12`, for programs that were compiled
//! for MPICH or a relative: it is on no other path, so that a real MPICH is never hidden from anybody else.
//! Behind it go those with the libraries of Fortran and C++ that are found nowhere else. A program that
//! looks into folders of its own first gets it preloaded, and Python's mpi4py is told by its own variable.
//! With `--own-mpi` a program runs on its own library, started by PMI.
//!
//! A program of Open MPI always runs on its own library. Its variables name the files of libpmix that its
//! PMIx server may load: the one that came with that Open MPI, else the machine's.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{getegid, geteuid};

use crate::elf;

const VARIABLE: &str = "LD_LIBRARY_PATH";
const PRELOAD: &str = "LD_PRELOAD";
/// By these a user tells the wheel of mpi4py which library it loads.
const OF_MPI4PY: [&str; 2] = ["MPI4PY_LIBMPI", "MPI4PY_MPIABI"];
const SEARCHED_ANYWAY: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];
/// Our files under the names of MPICH's library.
const AS_MPICH: [&str; 2] = ["libmpi.so.12", "libmpich.so.12"];

/// MPICH's libraries of Fortran and C++, and our folders with one: any other one goes before ours, since a
/// program has modules of its own, and ours of C++ has no classes.
const OF_LANGUAGES: [(&str, &str); 3] =
    [("libmpifort.so.12", "mpifort"), ("libmpichfort.so.12", "mpichfort"), ("libmpicxx.so.12", "cxx")];
/// The loader's list of the machine's libraries.
const CACHE: &str = "/etc/ld.so.cache";

/// By this a job gets the server of PMIx: files of libpmix, with colons between them.
pub const OF_PMIX: &str = "TUTTI_LIBPMIX";

/// By this Open MPI finds its texts where it stands in another folder than it was built for.
const OF_OPEN_MPI: &str = "OPAL_PREFIX";

/// Which library a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Ours, for programs of every MPI whose binary interface it has.
    Ours,
    /// Of programs of MPICH the one that they find by themselves.
    Own,
}

/// The variables of a program, with those that give it our library. A path that the user gives for the
/// program itself goes before ours.
pub fn with_own(
    variables: &[(OsString, OsString)],
    choice: Choice,
    program: &Path,
) -> Vec<(OsString, OsString)> {
    let mut all = variables.to_vec();
    let is_given =
        |name: &str| variables.iter().any(|(given, _)| given == name) || std::env::var_os(name).is_some();
    if !is_given(OF_PMIX)
        && let Some(list) = libpmix(program, variables)
    {
        all.push((OF_PMIX.into(), list));
        if !is_given(OF_OPEN_MPI)
            && let Some(prefix) = prefix_of_open_mpi(program, variables)
        {
            all.push((OF_OPEN_MPI.into(), prefix));
        }
    }
    let Some(lib) = lib() else { return all };
    let mpich = Some(lib.join("tutti/mpich")).filter(|mpich| choice == Choice::Ours && mpich.is_dir());
    let searched = SEARCHED_ANYWAY.iter().any(|known| lib == Path::new(known));
    let own = (!searched && lib.join("libmpi_abi.so.1").exists()).then(|| lib.clone());
    let missing = OF_LANGUAGES.iter().filter(|(name, _)| !is_found(name, program, variables));
    let of_languages = mpich.iter().flat_map(|mpich| missing.clone().map(|(_, folder)| mpich.join(folder)));
    let folders: Vec<PathBuf> = mpich.iter().cloned().chain(of_languages).chain(own).collect();
    let ours = folders
        .iter()
        .map(|folder| folder.as_os_str())
        .fold(OsString::new(), |path, folder| joined(&path, folder));
    if !ours.is_empty() {
        all.push((VARIABLE.into(), behind_given(variables, VARIABLE, &ours)));
    }
    let Some(mpich) = mpich else { return all };
    if let Some(preloaded) = to_preload(program) {
        let place = mpich.join(preloaded).into_os_string();
        all.push((PRELOAD.into(), behind_given(variables, PRELOAD, &place)));
    }
    if !OF_MPI4PY.iter().any(|name| is_given(name)) {
        all.push((OF_MPI4PY[0].into(), mpich.join(AS_MPICH[0]).into_os_string()));
    }
    all
}

/// A list of the user with ours: what is given for the program itself goes first, what is inherited last.
fn behind_given(variables: &[(OsString, OsString)], name: &str, ours: &OsStr) -> OsString {
    let given = variables.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.clone());
    match given {
        Some(given) => joined(&given, ours),
        None => joined(ours, &std::env::var_os(name).unwrap_or_default()),
    }
}

/// The file that a program of MPICH needs preloaded, since it looks into folders of its own first.
fn to_preload(program: &Path) -> Option<&'static str> {
    let needs = elf::needs(&tutti_os::open_file(program).ok()?);
    AS_MPICH
        .into_iter()
        .find(|name| needs.own_path_first && needs.libraries.iter().any(|needed| needed == name))
}

/// The bit of a program that keeps our library from it: where a program gets the rights of another user or
/// group the loader passes over LD_LIBRARY_PATH and LD_PRELOAD. `None`: it finds the library that it gets.
pub fn bit_that_hides(program: &Path, choice: Choice) -> Option<&'static str> {
    if choice == Choice::Own || rustix::thread::no_new_privs().unwrap_or(false) {
        return None;
    }
    let file = tutti_os::open_file(program).ok()?;
    let needs = elf::needs(&file);
    let of_mpich = |library: &String| elf::other_mpi(library) == Some(elf::OtherMpi::Mpich);
    if !needs.libraries.iter().any(of_mpich) {
        return None;
    }
    let status = file.metadata().ok()?;
    if statvfs(program).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID)) {
        return None;
    }
    let has = |bits: u32| status.mode() & bits == bits;
    if has(0o4000) && status.uid() != geteuid().as_raw() {
        return Some("setuid");
    }
    (has(0o2010) && status.gid() != getegid().as_raw()).then_some("setgid")
}

/// Whether a program needs Open MPI's library.
pub fn is_of_open_mpi(program: &Path) -> bool {
    tutti_os::open_file(program).is_ok_and(|file| of_open_mpi(&elf::needs(&file)))
}

/// Whether a program needs the library of another MPI than Open MPI, ours among them.
pub fn is_of_other_mpi(program: &Path) -> bool {
    let is_other = |library: &String| {
        library.starts_with("libmpi_abi.so") || elf::other_mpi(library) == Some(elf::OtherMpi::Mpich)
    };
    tutti_os::open_file(program).is_ok_and(|file| elf::needed(&file).iter().any(is_other))
}

fn of_open_mpi(needs: &elf::Needs) -> bool {
    needs.libraries.iter().any(|library| elf::other_mpi(library) == Some(elf::OtherMpi::OpenMpi))
}

/// Files of libpmix for a program of Open MPI, as they are tried on its node: in the folders in which it
/// searches for libraries, and where Open MPI's wheel has it below one; else where the loader finds it.
fn libpmix(program: &Path, variables: &[(OsString, OsString)]) -> Option<OsString> {
    if !is_of_open_mpi(program) {
        return None;
    }
    let beside = |folder: PathBuf| [folder.join("openmpi/libpmix.so.2"), folder.join("libpmix.so.2")];
    let files = searched(program, variables).into_iter().flat_map(beside);
    std::env::join_paths(files.chain([PathBuf::from("libpmix.so.2")])).ok()
}

/// The folder above that of the library, if Open MPI's texts are there.
fn prefix_of_open_mpi(program: &Path, variables: &[(OsString, OsString)]) -> Option<OsString> {
    let mut folders = searched(program, variables).into_iter();
    let lib = folders.find(|folder| folder.join("libmpi.so.40").exists())?;
    let prefix = lib.parent().filter(|prefix| prefix.join("share/openmpi").is_dir())?;
    Some(prefix.as_os_str().to_owned())
}

/// Folders in which a program searches for libraries before the machine's: its own, and LD_LIBRARY_PATH.
fn searched(program: &Path, variables: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let needs = tutti_os::open_file(program).map(|file| elf::needs(&file)).unwrap_or_default();
    let absolute = std::path::absolute(program).unwrap_or_default();
    let origin = absolute.parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    let own = needs.own_path.iter();
    let own = own.map(|folder| folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin).into());
    let path = behind_given(variables, VARIABLE, OsStr::new(""));
    let path = std::env::split_paths(&path).filter(|folder| !folder.as_os_str().is_empty());
    own.chain(path).collect()
}

/// Whether the loader finds a library without us.
fn is_found(library: &str, program: &Path, variables: &[(OsString, OsString)]) -> bool {
    let mut folders = searched(program, variables).into_iter().chain(SEARCHED_ANYWAY.map(PathBuf::from));
    let is_name = |text: &[u8]| text == library.as_bytes();
    folders.any(|folder| folder.join(library).exists())
        || std::fs::read(CACHE).is_ok_and(|cache| cache.split(|byte| *byte == 0).any(is_name))
}

fn joined(first: &OsStr, second: &OsStr) -> OsString {
    let mut path = first.to_owned();
    // An empty part would mean the working directory.
    if !first.is_empty() && !second.is_empty() {
        path.push(":");
    }
    path.push(second);
    path
}

/// The folder of libraries of this installation.
fn lib() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.parent()?.parent()?.join("lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_path_has_no_empty_part() {
        for (first, second, expected) in [("/a", "/b:/c", "/a:/b:/c"), ("/a", "", "/a"), ("", "/b", "/b")] {
            assert_eq!(joined(first.as_ref(), second.as_ref()), expected);
        }
    }
}
