//! Ends what killed daemons and starters have left. A daemon calls it when it begins, while others make and
//! remove parts beside it: what is locked is somebody's, and is left alone.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::fs::{FlockOperation, flock, fstat};

use super::{CONTROLLERS, Enforced, PartGroup, PartPlace, open};
use crate::cgroup::mount::{Mount, own_directory, own_place};
use crate::cgroup::names::PART;
use crate::cgroup::removal::{Left, Removal, Why, is_populated};
use crate::cgroup::{REMOVAL_MAX, name, user};

/// Result of a sweep.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of our cgroups that are gone, without those inside of them.
    pub removed: usize,
    /// Cgroups that are there still.
    pub left: Vec<Left>,
}

/// A sweep that is under way.
struct Sweep {
    /// Rest of its budget, for all that it finds.
    removal: Removal,
    swept: Swept,
}

impl Sweep {
    fn new() -> Self {
        Sweep { removal: Removal::new(), swept: Swept::default() }
    }

    /// Counts one that was to be removed. One that somebody else has removed meanwhile is neither.
    fn count(&mut self, result: Result<(), Left>) {
        match result {
            Ok(()) => self.swept.removed += 1,
            Err(Left { why: Why::Refused(rustix::io::Errno::NOENT), .. }) => {}
            Err(left) => self.swept.left.push(left),
        }
    }

    /// Removes one without processes, with what is inside.
    fn remove_empty(&mut self, parent: &OwnedFd, found: &str) {
        let removed = self.removal.remove_empty(parent, found);
        self.count(removed);
    }

    /// The parts of a user, and its group if it is empty then.
    fn sweep_user(&mut self, around: &OwnedFd, user: &str, place: impl Fn(&str) -> PartPlace) {
        let Ok(group) = user::open_directory(around, user) else { return };
        let (_, names) = with_names(group);
        for name in names.iter().filter_map(|found| found.strip_prefix(PART)) {
            self.sweep_part(&place(name));
        }
        self.swept.removed += usize::from(user::remove_empty(around, user));
    }

    /// Groups of version 1 whose part is gone from version 2.
    fn sweep_version1(&mut self, group: &OwnedFd, names: &[String], version2: &OwnedFd) {
        for found in names {
            if user::is_name(found) {
                if let Ok(inside) = user::open_directory(group, found) {
                    let (inside, names) = with_names(inside);
                    match user::open_directory(version2, found) {
                        Ok(version2) => self.sweep_version1(&inside, &names, &version2),
                        Err(_) => self.sweep_version1(&inside, &names, version2),
                    }
                }
                self.swept.removed += usize::from(user::remove_empty(group, found));
            } else if !has_part(version2, found) && is_own(group, found) {
                self.remove_empty(group, found);
            }
        }
    }

    fn sweep_part(&mut self, place: &PartPlace) {
        let Some(part) = PartGroup::reopen(place) else {
            let around = Mount::open().and_then(|mount| mount.open_directory(&place.parent).ok());
            if let Some(parent) = around.and_then(|around| place.open_parent(&around).ok()) {
                self.sweep_unfinished(&parent, place);
            }
            return;
        };
        // Its own lock becomes one that no other process has.
        let is_held = flock(&part.directory, FlockOperation::NonBlockingLockExclusive).is_err();
        if is_held || part.has_starter() {
            return;
        }
        let removed = part.remove_until(Instant::now() + REMOVAL_MAX, &mut self.removal);
        self.count(removed);
    }

    /// Removes what a daemon has begun to make, unless it is making it: then the daemon has locked it, or
    /// finds it locked and begins again.
    fn sweep_unfinished(&mut self, parent: &OwnedFd, place: &PartPlace) {
        let Ok(directory) = open(parent, &place.directory_name()) else { return };
        let is_held = flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err();
        if !is_held && is_own(parent, &place.directory_name()) {
            let removed = place.remove_unfinished(&mut self.removal, parent);
            self.count(removed);
        }
    }

    /// One that a starter has made. The kernel removes it only if it is empty.
    fn sweep_starters(&mut self, directory: &OwnedFd, found: &str) {
        let Ok(job) = open(directory, found) else { return };
        let is_held = flock(&job, FlockOperation::NonBlockingLockExclusive).is_err();
        if !is_held && is_own(directory, found) && !is_populated(&job) {
            self.remove_empty(directory, found);
        }
    }
}

/// Ends what killed daemons and starters have left in the cgroup of this process. That is parts that no
/// daemon holds and that have no starter any more, and empty cgroups of starters. Only those with our names
/// and our owner. What was made inside of them is removed up to a bound for the whole sweep.
pub fn sweep_blocking() -> Swept {
    let mut sweep = Sweep::new();
    let (Ok(parent), Some(mount)) = (own_place(), Mount::open()) else { return sweep.swept };
    let Ok(directory) = mount.open_directory(&parent) else { return sweep.swept };
    // Before those of version 2 are listed: a daemon makes the part first.
    let version1: Vec<(OwnedFd, Vec<String>)> =
        CONTROLLERS.iter().filter_map(|controller| own_directory(controller)).map(with_names).collect();
    let (directory, names) = with_names(directory);
    let place = |user: Option<&str>, name: &str| PartPlace {
        parent: parent.clone(),
        user: user.map(str::to_owned),
        name: name.to_owned(),
        enforced: Enforced::default(),
    };
    for found in names {
        if user::is_name(&found) {
            sweep.sweep_user(&directory, &found, |name| place(Some(&found), name));
            continue;
        }
        match found.strip_prefix(PART) {
            Some(name) => sweep.sweep_part(&place(None, name)),
            None => sweep.sweep_starters(&directory, &found),
        }
    }
    for (group, names) in version1 {
        sweep.sweep_version1(&group, &names, &directory);
    }
    sweep.swept
}

/// Whether a part is in this cgroup, or in that of a user there: only the memory of version 1 has such.
fn has_part(version2: &OwnedFd, part: &str) -> bool {
    let in_user = |user: &String| {
        user::is_name(user)
            && user::open_directory(version2, user).is_ok_and(|user| open(&user, part).is_ok())
    };
    let users = || version2.try_clone().map(with_names).is_ok_and(|(_, names)| names.iter().any(in_user));
    open(version2, part).is_ok() || users()
}

/// A directory, and what is in it that is named as ours.
fn with_names(directory: OwnedFd) -> (OwnedFd, Vec<String>) {
    let entries = rustix::fs::Dir::read_from(&directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let is_one =
        |found: &String| found.starts_with(PART) || found.starts_with(&name("")) || user::is_name(found);
    let names = names.filter(is_one).collect();
    (directory, names)
}

fn is_own(directory: &OwnedFd, found: &str) -> bool {
    let me = rustix::process::geteuid().as_raw();
    open(directory, found).is_ok_and(|found| fstat(found).is_ok_and(|found| found.st_uid == me))
}

#[cfg(test)]
mod tests;
