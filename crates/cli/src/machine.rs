//! `tutti machine`: caches and speeds of this machine ([`tutti_os::machine`]), measured once per boot.
//!
//! ```text
//! root's folder:  machine.json of root     --\
//! own folder:     machine.json of this user --> shown; none of this boot: measured, and put into the own folder
//! ```
//!
//! A file counts if its owner, root or this user, is the only one who may write it: what another user has
//! put there is measured anew, so nobody tells another what the machine is like.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::OFlags;
use serde_json::json;
use tutti_client::table::aligned;
use tutti_os::machine::{Cache, Figure, Machine};
use tutti_os::stderr::{escape_control, print_line};
use tutti_protocol::paths;

use crate::stdout;

/// Name of the file.
const NAME: &str = "machine.json";
/// Bytes of the file, at most.
const BYTES_MAX: u64 = 1 << 20;

/// Options of `tutti machine`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// For scripts
    #[arg(long)]
    json: bool,
    /// Measure again, whatever is known
    #[arg(long)]
    again: bool,
}

/// Shows what is known of this machine, measured now if nothing is.
///
/// # Errors
/// None: what cannot be measured is said of its figure, and a folder that cannot be written in a line.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let own = paths::folder();
    // Whoever names a folder means no other.
    let is_named = std::env::var_os(paths::FOLDER_VARIABLE).is_some();
    let system = Some(paths::system().to_owned()).filter(|_| !is_named);
    let folders: Vec<PathBuf> = system.into_iter().chain([own.clone()]).collect();
    let known = folders.iter().filter(|_| !options.again).find_map(|folder| read(&folder.join(NAME)));
    let is_kept = known.is_some();
    let (machine, path) = match known {
        Some((machine, path)) => (machine, Some(path)),
        None => {
            let machine = Machine::measure();
            let path = keep(&own, &machine).map_err(|error| {
                print_line(format_args!("tutti machine: what was measured is not kept: {error}"));
            });
            (machine, path.ok())
        }
    };
    let text = if options.json {
        let all =
            json!({ "machine": machine, "file": path, "measured": if is_kept { "before" } else { "now" } });
        serde_json::to_string_pretty(&all).expect("a machine is serialisable") + "\n"
    } else {
        text(&machine)
    };
    Ok(stdout::print(Some(text), ""))
}

/// Machine that a file describes since its boot, if root or this user alone has written it.
fn read(path: &Path) -> Option<(Machine, PathBuf)> {
    // No link is followed, and nothing waits for a pipe's writer.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = found.is_file() && [0, own].contains(&found.uid()) && found.mode() & 0o022 == 0;
    let mut text = String::new();
    if !is_trusted || file.take(BYTES_MAX).read_to_string(&mut text).is_err() {
        return None;
    }
    let machine: Machine = serde_json::from_str(&text).ok()?;
    machine.is_of_now().then(|| (machine, path.to_owned()))
}

/// Stores a machine in the folder; a reader finds all of it or what was there before.
fn keep(folder: &Path, machine: &Machine) -> std::io::Result<PathBuf> {
    paths::make(folder, folder == paths::system())?;
    let (path, new) = (folder.join(NAME), folder.join(format!("{NAME}.{}", std::process::id())));
    let text = serde_json::to_vec_pretty(machine).expect("a machine is serialisable");
    // A process of the same number may have died here.
    let _ = std::fs::remove_file(&new);
    let write = || {
        let mut file: File =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
        file.write_all(&text)?;
        std::fs::rename(&new, &path)
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written.map(|()| path)
}

fn text(machine: &Machine) -> String {
    let mut text = format!("{}, cores {}\n\n", escape_control(&machine.processor), machine.cores);
    let head = ["CACHE", "SIZE", "LINE", "SHARED BY"].map(str::to_owned).to_vec();
    let caches = std::iter::once(head).chain(machine.caches.iter().map(cache_row)).collect::<Vec<_>>();
    text += &aligned(&caches, &[false, true, true, false]);
    text.push('\n');
    let head = ["FIGURE", "VALUE", "CORES", "MEASURED FOR", ""].map(str::to_owned).to_vec();
    let rows = machine.figures.iter().map(|(name, figure)| figure_row(name, figure));
    text +=
        &aligned(&std::iter::once(head).chain(rows).collect::<Vec<_>>(), &[false, true, false, true, false]);
    text
}

fn cache_row(cache: &Cache) -> Vec<String> {
    let size = match cache.bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    };
    let shared = if cache.cores.len() > 4 {
        format!("{} and {} more", cache.cores[..3].join(" "), cache.cores.len() - 3)
    } else {
        cache.cores.join(" ")
    };
    vec![
        format!("level {}, {}", cache.level, escape_control(&cache.kind).to_lowercase()),
        size,
        format!("{} B", cache.line_bytes),
        escape_control(&shared),
    ]
}

fn figure_row(name: &str, figure: &Figure) -> Vec<String> {
    let (name, unit) = match name.rsplit_once('_') {
        Some((name, "gbs")) => (name, "GB/s"),
        Some((name, unit)) => (name, unit),
        None => (name, ""),
    };
    let value = match figure.value {
        Some(value) if value < 10.0 => format!("{value:.2} {unit}"),
        Some(value) => format!("{value:.0} {unit}"),
        None => "-".to_owned(),
    };
    let cores: Vec<String> = figure.between.iter().map(ToString::to_string).collect();
    vec![
        escape_control(&name.replace('_', " ")),
        escape_control(&value),
        cores.join(", "),
        format!("{} us", figure.took_us),
        figure.why.as_deref().map(escape_control).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn machine_file_of_another_form_owner_or_writer_is_measured_anew() {
        let scratch = tutti_testkit::Scratch::new("machine");
        let folder = scratch.path().join("run");
        let path = folder.join(NAME);
        assert!(read(&path).is_none());
        let mut machine = Machine::measure();
        // A reader that rounds once too often is off by the last bit of this one.
        machine.figures.get_mut("kernel_copy_gbs").unwrap().value = Some(13.579_776_212_184_004);
        assert_eq!(keep(&folder, &machine).unwrap(), path);
        // Where both cores have been busy all the time it is tried again.
        let expected = machine.is_of_now().then(|| (machine.clone(), path.clone()));
        assert_eq!(read(&path), expected);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read(&path).is_none(), "anyone may have written it");
        std::fs::remove_file(&path).unwrap();
        let elsewhere = scratch.path().join("elsewhere");
        std::fs::write(&elsewhere, &text).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(read(&path).is_none(), "a link");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, text.replace("\"boot\": \"", "\"boot\": \"0")).unwrap();
        assert!(read(&path).is_none(), "before the last boot");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(keep(&folder, &machine).is_err(), "a folder that anyone may write");
    }

    #[test]
    fn machine_text_has_all_caches_and_figures() {
        let machine = Machine::measure();
        let text = text(&machine);
        let rows = machine.caches.len() + machine.figures.len();
        assert_eq!(text.lines().count(), rows + 5, "{text}");
    }
}
