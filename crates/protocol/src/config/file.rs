//! Which file is read, and what can be wrong with it before its text is.

use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::parse::{Accounts, Mistake, Parsed, parse};

/// Environment variable that names the file.
pub const VARIABLE: &str = "TUTTI_CONFIG";
/// Bytes of a file, at most.
pub const BYTES_MAX: u64 = 1 << 20;
/// The file of root's daemons.
const SYSTEM: &str = "/etc/tutti/tutti.toml";

/// How a file was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A user has named it: it must be there.
    Named(PathBuf),
    /// Path of a file that is read if it is there.
    Usual(PathBuf),
}

impl Origin {
    /// Chooses what `--config` says, else the environment, else root's file or the user's own.
    #[must_use]
    pub fn choose(named: Option<&Path>) -> Self {
        if let Some(path) = named {
            return Origin::Named(path.to_owned());
        }
        let variable = |name| std::env::var_os(name).filter(|text| !text.is_empty());
        if let Some(path) = variable(VARIABLE) {
            return Origin::Named(path.into());
        }
        if rustix::process::geteuid().is_root() {
            return Origin::Usual(SYSTEM.into());
        }
        let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
        let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
        Origin::Usual(folder.join("tutti/tutti.toml"))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Origin::Named(path) | Origin::Usual(path) => path,
        }
    }
}

/// Reads a file. One that need not be there, and is not, says nothing and has no path.
#[must_use]
pub fn load(origin: &Origin, accounts: &dyn Accounts) -> Parsed {
    let path = origin.path();
    let shown = path.to_string_lossy();
    match text_of(path) {
        Ok(text) => parse(&shown, &text, accounts),
        Err(None) if matches!(origin, Origin::Usual(_)) => Parsed::default(),
        Err(mistake) => {
            let none = || Mistake { line: 1, column: 1, text: "there is no such file".into() };
            let mut parsed = Parsed::default();
            parsed.config.path = shown.into_owned();
            parsed.mistakes.push(mistake.unwrap_or_else(none));
            parsed
        }
    }
}

/// The text; the inner none: there is no such file.
fn text_of(path: &Path) -> Result<String, Option<Mistake>> {
    let wrong = |text: String| Some(Mistake { line: 1, column: 1, text });
    // A named pipe would be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Err(None),
        Err(error) => return Err(wrong(format!("it cannot be read: {}", std::io::Error::from(error)))),
    };
    let found = file.metadata().map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    if found.is_dir() {
        return Err(wrong("it is a folder, expected a file".into()));
    }
    if !found.is_file() {
        return Err(wrong("it is a device, a pipe or a socket, expected a file".into()));
    }
    let mut bytes = Vec::new();
    let read = file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong(format!(
            "it has {} bytes, expected at most {BYTES_MAX}",
            found.len().max(bytes.len() as u64)
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let byte = error.as_bytes()[at];
        Some(Mistake {
            line,
            column,
            text: format!("byte 0x{byte:02x} is not UTF-8, expected a text in UTF-8"),
        })
    })
}
