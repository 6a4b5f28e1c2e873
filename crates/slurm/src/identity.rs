//! Users and this machine by name and number.

/// The number of a user of this name, or the number itself; none: there is no such user.
#[must_use]
pub fn uid_of(name: &str) -> Option<u32> {
    if let Ok(uid) = name.parse() {
        return Some(uid);
    }
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let from_getent = || {
        let found = std::process::Command::new("getent").args(["passwd", "--", name]).output().ok()?;
        of_line(std::str::from_utf8(&found.stdout).ok()?.trim())
    };
    list.lines().find_map(of_line).or_else(from_getent)
}

/// The first group of a user, as this machine's lists have it; none: they have not.
#[must_use]
pub fn group_of(uid: u32) -> Option<(u32, String)> {
    let row_of = |path: &str, at: usize, number: &str| {
        let list = std::fs::read_to_string(path).ok()?;
        let row = list.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
        row.into_iter().find(|row| row.get(at).is_some_and(|field| field == number))
    };
    let gid = row_of("/etc/passwd", 2, &uid.to_string())?.get(3)?.clone();
    let name = row_of("/etc/group", 2, &gid)?.first()?.clone();
    Some((gid.parse().ok()?, name))
}

/// Own user.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The name of this machine.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
