//! Files of a machine's /etc about itself: who its users are and which machines there are. The same users
//! have the same uids on all machines, as by a directory service. Everything else leads to this machine's
//! /etc.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use super::cable::address_of;

/// A user of the machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) name: &'static str,
    pub(super) uid: u32,
    pub(super) home: &'static str,
}

/// Users who log in.
pub(super) const USERS: [User; 3] = [
    User { name: "root", uid: 0, home: "/root" },
    User { name: "alice", uid: 1001, home: "/home/alice" },
    User { name: "bob", uid: 1002, home: "/home/bob" },
];

/// The user of that name.
pub(super) fn user(name: &str) -> Option<User> {
    USERS.into_iter().find(|user| user.name == name)
}

/// Names that are not the host's.
const OWN: [&str; 16] = [
    "passwd",
    "passwd-",
    "group",
    "group-",
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "subuid",
    "subgid",
    "hosts",
    "hostname",
    "nsswitch.conf",
    "resolv.conf",
    "machine-id",
    "mtab",
];

/// Name of a machine.
pub(super) fn host_name(node: u32) -> String {
    format!("node{node}")
}

/// Writes the /etc of a machine of a lab of so many.
pub(super) fn write(folder: &Path, node: u32, nodes: u32, owner: u32) -> io::Result<()> {
    for entry in fs::read_dir("/etc")?.flatten() {
        let name = entry.file_name();
        if OWN.iter().all(|own| name != *own) && name != "tutti" {
            symlink(Path::new("/.host/etc").join(&name), folder.join(&name))?;
        }
    }
    let (mut passwd, mut group) = (String::new(), String::new());
    for User { name, uid, home } in USERS {
        let _ = writeln!(passwd, "{name}:x:{uid}:{uid}:{name}:{home}:/bin/bash");
        let _ = writeln!(group, "{name}:x:{uid}:");
    }
    passwd.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    group.push_str("tty:x:5:\nnogroup:x:65534:\n");
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for node in 0..nodes {
        let _ = writeln!(hosts, "{} {}", address_of(node), host_name(node));
    }
    let files = [
        ("passwd", passwd),
        ("group", group),
        ("hosts", hosts),
        ("hostname", host_name(node) + "\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n".into()),
        ("resolv.conf", String::new()),
        ("machine-id", format!("{:032x}\n", 0x7u128 << 64 | u128::from(owner) << 32 | u128::from(node))),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
        chown(folder.join(name), Some(owner), Some(owner))?;
    }
    symlink("/proc/self/mounts", folder.join("mtab"))?;
    fs::create_dir(folder.join("tutti"))?;
    chown(folder.join("tutti"), Some(owner), Some(owner))?;
    chown(folder, Some(owner), Some(owner))
}
