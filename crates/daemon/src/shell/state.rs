//! The state folder (`tutti_protocol::paths`) of a daemon whose former release had its state in the run
//! folder. Called once at the start, before anything of it is opened; it never overwrites what the state
//! folder has.

use std::fs;
use std::io;
use std::path::Path;

use tutti_protocol::paths;

/// Moves what outlives a boot out of the run folder.
pub(super) fn adopt(run: &Path, state: &Path, name: &str) {
    if run == state {
        return;
    }
    let name = name.replace('/', "_");
    let own = ["queue", "used", "first", "output", "cluster.toml"].map(|ending| format!("{name}.{ending}"));
    let logs = [paths::EVENTS, paths::TURNS].into_iter().flat_map(|log| [log.to_owned(), format!("{log}.1")]);
    for file in own.into_iter().chain(logs) {
        let (from, to) = (run.join(&file), state.join(&file));
        if from.symlink_metadata().is_err() || to.symlink_metadata().is_ok() {
            continue;
        }
        match move_entry(&from, &to) {
            Ok(()) => tracing::info!("{} is {} now", from.display(), to.display()),
            Err(error) => tracing::warn!("cannot move {} to {}: {error}", from.display(), to.display()),
        }
    }
}

/// Between file systems as well: a file, or a folder of files. What is half copied has another name.
fn move_entry(from: &Path, to: &Path) -> io::Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    let part = to.with_file_name(format!("{}.new", to.file_name().unwrap_or_default().to_string_lossy()));
    if from.is_dir() {
        let _ = fs::remove_dir_all(&part);
        fs::create_dir(&part)?;
        fs::set_permissions(&part, from.metadata()?.permissions())?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), part.join(entry.file_name()))?;
        }
        fs::rename(&part, to)?;
        return fs::remove_dir_all(from);
    }
    fs::copy(from, &part)?;
    fs::rename(&part, to)?;
    fs::remove_file(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_an_earlier_release_is_moved_and_none_is_overwritten() {
        let folder = std::env::temp_dir().join(format!("tutti-adopt-{}", std::process::id()));
        let (run, state) = (folder.join("run"), folder.join("state"));
        fs::create_dir_all(run.join("a.queue")).unwrap();
        fs::create_dir_all(&state).unwrap();
        fs::write(run.join("a.queue/7.json"), "job").unwrap();
        fs::write(run.join("b.used"), "another node's").unwrap();
        fs::write(run.join("events.jsonl"), "old").unwrap();
        fs::write(state.join("events.jsonl"), "new").unwrap();
        adopt(&run, &state, "a");
        assert_eq!(fs::read_to_string(state.join("a.queue/7.json")).unwrap(), "job");
        assert!(!run.join("a.queue").exists() && run.join("b.used").exists());
        assert_eq!(fs::read_to_string(state.join("events.jsonl")).unwrap(), "new");
        fs::remove_dir_all(folder).unwrap();
    }
}
