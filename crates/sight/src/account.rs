//! Started by root, the program becomes a user without rights before it opens anything: `tutti-sight` where
//! there is such an account, else `nobody`.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Accounts that are tried, in order.
const USUAL: [&str; 2] = ["tutti-sight", "nobody"];

/// Makes the folder for the account and starts this program anew as it; comes back only with the reason why
/// it cannot.
pub fn leave_root(named: Option<&str>, folder: &Path) -> String {
    let found = match named {
        Some(name) => find(name).ok_or_else(|| format!("there is no user {name} ([sight] user)")),
        None => USUAL.iter().find_map(|name| find(name)).ok_or_else(|| {
            "root is not to run this, and there is no user tutti-sight: [sight] user names one".to_owned()
        }),
    };
    let (uid, gid) = match found {
        Ok(ids) if ids.0 != 0 => ids,
        Ok(_) => return "[sight] user is root: it must be a user without rights".into(),
        Err(text) => return text,
    };
    if let Err(error) = give(folder, uid, gid) {
        return format!("cannot make the folder {}: {error}", folder.display());
    }
    // All groups of root's are left with that, too.
    let error = Command::new("/proc/self/exe")
        .arg0("tutti-sight")
        .args(std::env::args_os().skip(1))
        .uid(uid)
        .gid(gid)
        .current_dir("/")
        .exec();
    format!("cannot become user {uid}: {error}")
}

/// A folder of the account's; one that is there must be its own or root's.
fn give(folder: &Path, uid: u32, gid: u32) -> std::io::Result<()> {
    let parent = folder.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent)?;
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let found = std::fs::symlink_metadata(folder)?;
    if !found.is_dir() || ![0, uid].contains(&found.uid()) {
        let text = format!("it is no folder of user {uid}");
        return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, text));
    }
    if found.uid() == uid { Ok(()) } else { chown(folder, Some(uid), Some(gid)) }
}

/// User and group of an account, by the machine's list, else by its directory service.
fn find(name: &str) -> Option<(u32, u32)> {
    let ids = |line: &str| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().find_map(ids).or_else(|| {
        let found = Command::new("getent").args(["passwd", name]).output().ok()?;
        ids(std::str::from_utf8(&found.stdout).ok()?.trim_end())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn account_has_user_and_group() {
        assert_eq!(super::find("root"), Some((0, 0)));
        assert_eq!(super::find("no-such-account-anywhere"), None);
    }
}
