//! A program, and the files by which a test steers it: it waits for one before each thing that it does.
//! `programs/snapshot.c` unless another one is named.

use std::path::{Path, PathBuf};

use tutti_tests::{Scratch, compile};

/// Program, compiled, with a folder for its files.
pub struct Steered {
    scratch: Scratch,
    path: PathBuf,
}

impl Steered {
    pub fn new(name: &str) -> Self {
        Self::of(name, "snapshot.c")
    }

    /// Another one of `programs`.
    pub fn of(name: &str, program: &str) -> Self {
        let scratch = Scratch::new(&format!("{name}-files"));
        let path = compile(&format!("tests/gang/programs/{program}"), scratch.path());
        Steered { scratch, path }
    }

    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// A command line: what is said before, the program, what it is to do, its folder.
    pub fn words<'a>(&'a self, before: &[&'a str], what: &'a str) -> Vec<&'a str> {
        let (path, folder) = (self.path.to_str().expect("text"), self.folder().to_str().expect("text"));
        [before, &[path, what, folder]].concat()
    }

    /// Removes a file, so that the program waits for it again.
    #[allow(dead_code, reason = "one of the programs that have this file needs it")]
    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder().join(name)).expect("a file");
    }

    /// Makes a file, so that the program goes on.
    pub fn touch(&self, name: &str) {
        std::fs::write(self.folder().join(name), "").expect("a file");
    }
}
