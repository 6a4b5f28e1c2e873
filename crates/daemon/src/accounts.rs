//! Users by name, for lines that say who did what.

use std::fs::File;
use std::io::Read;

/// A longer list of users is read so far.
const LIST_BYTES_MAX: u64 = 4 << 20;

/// The machine's own list of users.
pub const USERS: &str = "/etc/passwd";
/// The machine's own list of groups.
pub const GROUPS: &str = "/etc/group";

/// A user's name as the machine's own list has it; a directory service may take its time, and is not asked.
pub fn name(uid: u32) -> Option<String> {
    if uid == 0 { Some("root".into()) } else { find(&list(USERS)?, uid) }
}

/// The same of a group.
pub fn group_name(gid: u32) -> Option<String> {
    find(&list(GROUPS)?, gid)
}

/// A user's number, by the machine's own list.
pub(crate) fn number_of(name: &str) -> Option<u32> {
    field(&list(USERS)?, |fields| fields.first() == Some(&name), 2)
}

/// A user's group, by the machine's own list.
pub(crate) fn group_of(uid: u32) -> Option<u32> {
    let uid = uid.to_string();
    field(&list(USERS)?, |fields| fields.get(2) == Some(&&*uid), 3)
}

/// Field of the first line that is wanted.
fn field(list: &str, is_wanted: impl Fn(&[&str]) -> bool, index: usize) -> Option<u32> {
    list.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        is_wanted(&fields).then(|| fields.get(index)?.parse().ok())?
    })
}

/// A list has this name.
pub fn has(file: &str, name: &str) -> bool {
    list(file).is_some_and(|list| list.lines().any(|line| line.split(':').next() == Some(name)))
}

/// Text of a list of the machine, so far as it is read.
pub(crate) fn list(file: &str) -> Option<String> {
    let mut text = Vec::new();
    File::open(file).ok()?.take(LIST_BYTES_MAX).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn find(list: &str, uid: u32) -> Option<String> {
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_come_from_the_list_of_the_machine() {
        let list = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbroken\n";
        assert_eq!(find(list, 1000).as_deref(), Some("alice"));
        assert_eq!(find(list, 1001), None);
        assert_eq!(field(list, |fields| fields[0] == "alice", 2), Some(1000));
        assert_eq!(field(list, |fields| fields[0] == "broken", 2), None);
        assert_eq!(name(0).as_deref(), Some("root"));
    }
}
