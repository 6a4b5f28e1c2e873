//! All services of a node, as the kernel lists abstract sockets: everybody may see their names.

use tutti_shm::published::{is_name, service_socket_name};

/// A service that somebody offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// User that its name says; a name is no proof.
    pub uid: u32,
    /// Name of the service.
    pub name: String,
}

/// Flag of a socket on which connections are accepted (`__SO_ACCEPTCON`).
const LISTENS: u32 = 1 << 16;

fn listed(line: &str) -> Option<Listed> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, _, flags, _, _, _, path] = words.as_slice() else { return None };
    let (uid, name) = path.strip_prefix("@tutti-service/")?.split_once('/')?;
    let found = Listed { uid: uid.parse().ok()?, name: name.to_owned() };
    let is_right = is_name(name.as_bytes()) && service_socket_name(found.uid, name) == path[1..];
    (is_right && u32::from_str_radix(flags, 16).ok()? & LISTENS != 0).then_some(found)
}

/// The services in the kernel's list of local sockets.
pub fn of(text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = text.lines().filter_map(listed).collect();
    all.sort();
    all.dedup();
    all
}

/// The services of this node.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn here() -> std::io::Result<Vec<Listed>> {
    // Names of other sockets need not be UTF-8.
    std::fs::read("/proc/net/unix").map(|bytes| of(&String::from_utf8_lossy(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_what_listens_under_their_names() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0: 00000002 00000000 00010000 0005 01 17 @tutti-service/7/kv\n\
                    0: 00000003 00000000 00000000 0005 03 18 @tutti-service/7/kv\n\
                    0: 00000002 00000000 00010000 0005 01 19 @tutti-service/7/a.b-c\n\
                    0: 00000002 00000000 00010000 0005 01 20 @tutti-service/07/kv\n\
                    0: 00000002 00000000 00010000 0005 01 21 @tutti-service/8/a/b\n\
                    0: 00000002 00000000 00010000 0005 01 22 @tutti-region/8/kv\n\
                    0: 00000002 00000000 00010000 0001 01 23 /run/tutti/tuttid.sock\n\
                    0: 00000002 00000000 00010000 0001 01 24\n";
        let one = |name: &str| Listed { uid: 7, name: name.to_owned() };
        assert_eq!(of(text), [one("a.b-c"), one("kv")]);
    }
}
