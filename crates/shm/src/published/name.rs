//! Names of published regions and of services as users write them: `[user/]name[@node]`; and whom one is for.

use std::ffi::CString;

use super::far::NODE_BYTES_MAX;
use super::{Audience, is_name};

/// A region that is looked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// User of the region.
    pub uid: u32,
    /// Name that its owner has given it.
    pub name: &'a str,
    /// Where, if that is said.
    pub node: Option<&'a str>,
}

/// User of this process.
pub fn own_user() -> u32 {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() }
}

/// `name` of this user, or `user/name`; a user is a name or a number. Behind an @ the node, by the name that
/// the cluster knows, or * for any.
pub fn parse(text: &[u8]) -> Option<Name<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    // A user's name may have an @ in it, a region's may not.
    let (user, rest) = match text.split_once('/') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, text),
    };
    let (name, node) = match rest.split_once('@') {
        Some((name, node)) => (name, Some(node)),
        None => (rest, None),
    };
    let is_node = node.is_none_or(|node| (1..=NODE_BYTES_MAX).contains(&node.len()));
    if !is_name(name.as_bytes()) || !is_node {
        return None;
    }
    Some(Name { uid: user.map_or_else(|| Some(own_user()), user_of)?, name, node })
}

/// Whom a region is for: none or "user": its owner's user; "user:bob", "group:chem", "everybody".
pub fn audience(text: Option<&[u8]>) -> Option<Audience> {
    let Some(text) = text else { return Some(Audience::User(own_user())) };
    let text = std::str::from_utf8(text).ok()?;
    Some(match text.split_once(':') {
        None if text == "user" => Audience::User(own_user()),
        None if text == "everybody" => Audience::Everybody,
        Some(("user", name)) => Audience::User(user_of(name)?),
        Some(("group", name)) => Audience::Group(group_of(name)?),
        _ => return None,
    })
}

/// Room for an entry of the system's tables.
const ENTRY_BYTES: usize = 16 << 10;

fn user_of(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = CString::new(text).ok()?;
    let mut buffer = vec![0; ENTRY_BYTES];
    let mut found = std::ptr::null_mut();
    // SAFETY: zeroed is a valid value of this plain structure; the buffer is valid for its length; the result
    // is null or points to the entry.
    unsafe {
        let mut entry: libc::passwd = std::mem::zeroed();
        libc::getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found);
        (!found.is_null()).then_some(entry.pw_uid)
    }
}

fn group_of(text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = CString::new(text).ok()?;
    let mut buffer = vec![0; ENTRY_BYTES];
    let mut found = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe {
        let mut entry: libc::group = std::mem::zeroed();
        libc::getgrnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found);
        (!found.is_null()).then_some(entry.gr_gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_names_say_whose_they_are() {
        let own = own_user();
        let here = |uid, name| Some(Name { uid, name, node: None });
        assert_eq!(parse(b"counter"), here(own, "counter"));
        assert_eq!(parse(b"0/counter"), here(0, "counter"));
        assert_eq!(parse(b"root/a.b"), here(0, "a.b"));
        assert_eq!(parse(b"a@node1"), Some(Name { uid: own, name: "a", node: Some("node1") }));
        assert_eq!(parse(b"root/a@*"), Some(Name { uid: 0, name: "a", node: Some("*") }));
        for wrong in ["", "/", "a/", "no-such-user-here/x", "0/x/y", "a b", "a@", "@node1", "0/@node1"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn published_audience_is_a_user_a_group_or_everybody() {
        let of = |text: &str| audience(Some(text.as_bytes()));
        assert_eq!(audience(None), Some(Audience::User(own_user())));
        assert_eq!((of("user"), of("everybody")), (audience(None), Some(Audience::Everybody)));
        assert_eq!((of("user:7"), of("group:9")), (Some(Audience::User(7)), Some(Audience::Group(9))));
        assert_eq!((of("user:root"), of("group:root")), (Some(Audience::User(0)), Some(Audience::Group(0))));
        for wrong in ["", "users", "user:", "group:no-such-group-here", "everybody:1"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
