//! All services of a node, as the kernel lists abstract sockets: everybody may see their names.

use std::collections::BTreeMap;
use std::io::ErrorKind;

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
    let found = named(path.strip_prefix('@')?)?;
    (u32::from_str_radix(flags, 16).ok()? & LISTENS != 0).then_some(found)
}

/// The service whose socket has this name.
fn named(socket: &str) -> Option<Listed> {
    let (uid, name) = socket.strip_prefix("tutti-service/")?.split_once('/')?;
    let found = Listed { uid: uid.parse().ok()?, name: name.to_owned() };
    (is_name(name.as_bytes()) && service_socket_name(found.uid, name) == socket).then_some(found)
}

/// The services in the kernel's list of local sockets.
pub fn of(text: &str) -> Vec<Listed> {
    let mut all: Vec<Listed> = text.lines().filter_map(listed).collect();
    all.sort();
    all.dedup();
    all
}

/// The services of this node. A name that says another user than the kernel does is none; where the kernel
/// does not say whose a socket is, all names count.
///
/// # Errors
/// When the kernel lists no sockets, or not all of them.
pub fn here() -> std::io::Result<Vec<Listed>> {
    match tutti_os::abstract_listeners() {
        Ok(listeners) => return Ok(of_users(&listeners)),
        // It knows, and cannot say it now: names alone would be no answer.
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::OutOfMemory) => {
            return Err(error);
        }
        Err(_) => {}
    }
    // Names of other sockets need not be UTF-8.
    std::fs::read("/proc/net/unix").map(|bytes| of(&String::from_utf8_lossy(&bytes)))
}

/// The services among abstract names with their users.
fn of_users(listeners: &[(Vec<u8>, u32)]) -> Vec<Listed> {
    let of_one =
        |(name, uid): &(Vec<u8>, u32)| named(std::str::from_utf8(name).ok()?).filter(|it| it.uid == *uid);
    let mut all: Vec<Listed> = listeners.iter().filter_map(of_one).collect();
    all.sort();
    all.dedup();
    all
}

/// Services, at most so many: of each user as many as of any other, as far as it has them.
pub fn fair(services: Vec<Listed>, most: usize) -> Vec<Listed> {
    if services.len() <= most {
        return services;
    }
    let mut counts = BTreeMap::<u32, usize>::new();
    let numbered = services.into_iter().map(|service| {
        let number = counts.entry(service.uid).or_default();
        *number += 1;
        (*number, service)
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort();
    let mut kept: Vec<Listed> = numbered.into_iter().take(most).map(|(_, service)| service).collect();
    kept.sort();
    kept
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

    #[test]
    fn services_of_users_are_those_of_the_list_of_the_kernel() {
        let names =
            ["tutti-service/7/kv", "tutti-service/8/kv", "tutti-service/8/a/b", "tutti-service/7/\u{1b}"];
        let listeners = names.map(|name| (name.as_bytes().to_vec(), 7));
        assert_eq!(of_users(&listeners), [Listed { uid: 7, name: "kv".into() }]);
        assert_eq!(of_users(&[(b"tutti-service/7/\xff".to_vec(), 7)]), []);
    }

    #[test]
    fn services_of_a_user_with_thousands_hide_none_of_another() {
        let one = |uid: u32, name: String| Listed { uid, name };
        let many = (0..3000).map(|number| one(5, format!("n{number:04}")));
        let few = (0..10).map(|number| one(9, format!("n{number}")));
        let mut all: Vec<Listed> = many.chain(few.clone()).collect();
        all.sort();
        let kept = fair(all.clone(), 1024);
        assert_eq!(kept.len(), 1024);
        assert!(few.clone().all(|service| kept.contains(&service)) && kept.is_sorted());
        assert_eq!(fair(all.clone(), 4000), all);
    }
}
