//! Users by name.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Mutex;

/// Names found so far: a table of jobs needs the same few again and again.
static KNOWN: Mutex<Option<HashMap<u32, String>>> = Mutex::new(None);

/// A user's name: from the machine's list of users, else from the directory service, else the number.
pub fn name(uid: u32) -> String {
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    known.get_or_insert_default().entry(uid).or_insert_with(|| look_up(uid)).clone()
}

/// The number of a user, given as such or by name; none: the machine does not know the name.
pub fn number(user: &str) -> Option<u32> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let in_file = || std::fs::read_to_string("/etc/passwd").ok()?.lines().find_map(of_line);
    let from_getent = || {
        let found = Command::new("getent").args(["passwd", user]).output().ok()?;
        std::str::from_utf8(&found.stdout).ok()?.lines().find_map(of_line)
    };
    user.parse().ok().or_else(in_file).or_else(from_getent)
}

/// A list of the machine, or its directory service, knows the name.
pub fn is_known(list: &str, name: &str) -> bool {
    let text = std::fs::read_to_string(format!("/etc/{list}")).unwrap_or_default();
    let in_file = text.lines().any(|line| line.split(':').next() == Some(name));
    in_file || Command::new("getent").args([list, name]).output().is_ok_and(|found| found.status.success())
}

fn look_up(uid: u32) -> String {
    let name = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    };
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let from_getent = || {
        let found = Command::new("getent").args(["passwd", &uid.to_string()]).output().ok()?;
        name(std::str::from_utf8(&found.stdout).ok()?)
    };
    users.lines().find_map(name).or_else(from_getent).unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn user_name_or_number() {
        assert_eq!(super::name(0), "root");
        assert_eq!(super::name(3_999_999_999), "3999999999");
        assert_eq!(["root", "7", "no such user"].map(super::number), [Some(0), Some(7), None]);
    }
}
