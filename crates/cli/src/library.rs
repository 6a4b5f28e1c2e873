//! The launcher decides which MPI library an ABI program gets: ours. The folder of `libmpi_abi.so.1` beside
//! this program goes first into LD_LIBRARY_PATH. So a program built by another MPI's `mpicc_abi`, or a wheel
//! of mpi4py, runs under us as it is. It does not when the library is in a folder that the loader searches
//! anyway.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const VARIABLE: &str = "LD_LIBRARY_PATH";
const SEARCHED_ANYWAY: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"];

/// The variables of a program, with the folder of our library in them. A path that the user gives for the
/// program itself goes before it.
pub fn with_own(variables: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut all = variables.to_vec();
    let Some(own) = folder() else { return all };
    let given = variables.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| value.clone());
    let value = match given {
        Some(given) => joined(&given, own.as_os_str()),
        None => joined(own.as_os_str(), &std::env::var_os(VARIABLE).unwrap_or_default()),
    };
    all.push((VARIABLE.into(), value));
    all
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

fn folder() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?.parent()?.join("lib");
    let searched = SEARCHED_ANYWAY.iter().any(|known| folder == Path::new(known));
    (!searched && folder.join("libmpi_abi.so.1").exists()).then_some(folder)
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
