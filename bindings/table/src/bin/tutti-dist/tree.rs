//! A folder whose files are replaced whole and only when they differ.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The folder, and what this run has put there.
pub(crate) struct Tree {
    root: PathBuf,
    /// The list of what the last finished run put there, one place per line.
    manifest: PathBuf,
    placed: BTreeSet<String>,
    changed: usize,
}

impl Tree {
    /// Opens the tree `root`; `work` keeps the list of its files from one run to the next, under that name.
    pub(crate) fn open(root: &Path, work: &Path, manifest: &str) -> Result<Tree, String> {
        for dir in [root, work] {
            fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let manifest = work.join(manifest);
        Ok(Tree { root: root.to_owned(), manifest, placed: BTreeSet::new(), changed: 0 })
    }

    /// Puts a file with these contents and permissions at `place`.
    pub(crate) fn file(&mut self, place: &str, contents: &[u8], mode: u32) -> Result<(), String> {
        self.placed.insert(place.to_owned());
        let path = self.root.join(place);
        let same = fs::symlink_metadata(&path).is_ok_and(|m| {
            m.is_file() && m.len() == contents.len() as u64 && m.permissions().mode() & 0o7777 == mode
        }) && fs::read(&path).is_ok_and(|old| old == contents);
        if same {
            return Ok(());
        }
        self.replace(&path, |new| {
            fs::write(new, contents)?;
            fs::set_permissions(new, fs::Permissions::from_mode(mode))
        })
    }

    /// Puts a copy of the file `from` at `place`.
    pub(crate) fn copy(&mut self, from: &Path, place: &str, mode: u32) -> Result<(), String> {
        let contents = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
        self.file(place, &contents, mode)
    }

    /// Puts a symbolic link to `to` at `place`.
    pub(crate) fn link(&mut self, place: &str, to: &str) -> Result<(), String> {
        self.placed.insert(place.to_owned());
        let path = self.root.join(place);
        if fs::read_link(&path).is_ok_and(|old| old == Path::new(to)) {
            return Ok(());
        }
        self.replace(&path, |new| symlink(to, new))
    }

    /// Removes what the last run had put there and this one has not; gives the number of changes.
    pub(crate) fn finish(mut self) -> Result<usize, String> {
        let before = fs::read_to_string(&self.manifest).unwrap_or_default();
        for place in before.lines().filter(|place| !self.placed.contains(*place)) {
            let path = self.root.join(place);
            match fs::remove_file(&path) {
                Ok(()) => self.changed += 1,
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(format!("{}: {e}", path.display())),
            }
        }
        let list: String = self.placed.iter().map(|place| format!("{place}\n")).collect();
        if list != before {
            let manifest = self.manifest.clone();
            self.replace(&manifest, |new| fs::write(new, &list))?;
            self.changed -= 1;
        }
        Ok(self.changed)
    }

    /// Makes something beside `path` and renames it there.
    fn replace(&mut self, path: &Path, make: impl Fn(&Path) -> std::io::Result<()>) -> Result<(), String> {
        let in_error = |e: std::io::Error| format!("{}: {e}", path.display());
        let dir = path.parent().expect("a place lies in a folder");
        fs::create_dir_all(dir).map_err(in_error)?;
        let name = path.file_name().expect("a place has a name").to_string_lossy();
        let new = dir.join(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&new);
        let result = make(&new).and_then(|()| fs::rename(&new, path));
        if result.is_err() {
            let _ = fs::remove_file(&new);
        }
        self.changed += 1;
        result.map_err(in_error)
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    /// A folder of the test's own, removed at its end.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn lay(folder: &Path, files: &[(&str, &str)]) -> usize {
        let mut tree = Tree::open(&folder.join("tree"), &folder.join("work"), "manifest").unwrap();
        for (place, text) in files {
            tree.file(place, text.as_bytes(), 0o644).unwrap();
        }
        tree.link("lib/link", "a").unwrap();
        tree.finish().unwrap()
    }

    #[test]
    fn dist_tree_replaces_changes_and_removes_leftovers() {
        let folder = Folder(std::env::temp_dir().join(format!("tutti-dist-{}", std::process::id())));
        let path = |place: &str| folder.0.join("tree").join(place);
        let inode = |place: &str| fs::symlink_metadata(path(place)).unwrap().ino();
        assert_eq!(lay(&folder.0, &[("lib/a", "1"), ("lib/b", "2")]), 3);
        let (a, link) = (inode("lib/a"), inode("lib/link"));
        fs::write(path("lib/foreign"), "not ours").unwrap();

        assert_eq!(lay(&folder.0, &[("lib/a", "1"), ("lib/c", "3")]), 2);
        assert_eq!((inode("lib/a"), inode("lib/link")), (a, link));
        assert!(!path("lib/b").exists() && path("lib/c").exists() && path("lib/foreign").exists());

        // A file that was changed or removed behind our back comes back.
        fs::write(path("lib/a"), "x").unwrap();
        fs::remove_file(path("lib/c")).unwrap();
        assert_eq!(lay(&folder.0, &[("lib/a", "1"), ("lib/c", "3")]), 2);
        assert_eq!(fs::read_to_string(path("lib/a")).unwrap(), "1");
    }
}
