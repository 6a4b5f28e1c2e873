//! Local sockets that listen under abstract names, each with its user by the kernel's word (sock_diag(7)): a
//! name is anybody's.

use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// SOCK_DIAG_BY_FAMILY of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// Bytes of nlmsghdr, of unix_diag_req, and of unix_diag_msg.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 24;
const ANSWER_BYTES: usize = HEADER_BYTES + 16;
/// The state of a socket that listens (TCP_LISTEN), as a set.
const LISTENS: u32 = 1 << 10;
/// UDIAG_SHOW_NAME and UDIAG_SHOW_UID, and the attributes that come for them.
const SHOWN: u32 = 0x01 | 0x40;
const NAME: u16 = 0;
const USER: u16 = 7;
/// Room for an answer: the kernel sends no longer ones.
const ROOM_BYTES: usize = 32 << 10;

/// A list that has changed while the kernel wrote it is asked for so often.
const TRIES: usize = 3;

/// Names, without the zero byte before them, and users of all that listen in this network namespace.
///
/// # Errors
/// When the kernel cannot list them, or does not say whose they are.
pub fn abstract_listeners() -> io::Result<Vec<(Vec<u8>, u32)>> {
    let mut tried = 1;
    loop {
        match ask() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted && tried < TRIES => tried += 1,
            found => return found,
        }
    }
}

/// Interrupted: the list may lack some, or have some twice.
fn ask() -> io::Result<Vec<(Vec<u8>, u32)>> {
    let diag =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    send(&diag, &request(), SendFlags::empty())?;
    let (mut found, mut room) = (Vec::new(), vec![0; ROOM_BYTES]);
    loop {
        let (length, _) = recv(&diag, &mut room[..], RecvFlags::empty())?;
        if length == 0 || take(&room[..length], &mut found)? {
            return Ok(found);
        }
    }
}

fn request() -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = Vec::with_capacity(REQUEST_BYTES);
    bytes.extend((REQUEST_BYTES as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    // With any inode; no cookie.
    [LISTENS, 0, SHOWN, u32::MAX, u32::MAX].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

/// Takes what is in an answer; whether it is the last one.
fn take(answer: &[u8], found: &mut Vec<(Vec<u8>, u32)>) -> io::Result<bool> {
    let unknown = || io::Error::from(io::ErrorKind::Unsupported);
    let mut rest = answer;
    while rest.len() >= HEADER_BYTES {
        let length = word(rest, 0).ok_or_else(unknown)? as usize;
        let message = rest.get(..length).filter(|_| length >= HEADER_BYTES).ok_or_else(unknown)?;
        if i32::from(half(message, 6).ok_or_else(unknown)?) & libc::NLM_F_DUMP_INTR != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        // Also behind the list stands how it has ended.
        let number = || word(message, HEADER_BYTES).map_or(0, |word| word.cast_signed().wrapping_neg());
        match i32::from(half(message, 4).ok_or_else(unknown)?) {
            libc::NLMSG_DONE if number() > 0 => return Err(io::Error::from_raw_os_error(number())),
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => return Err(io::Error::from_raw_os_error(number())),
            kind if kind == i32::from(BY_FAMILY) => found.extend(listener(message).map_err(|()| unknown())?),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Name and user of a socket; none: its name is not abstract. The error: a kernel that does not say whose.
fn listener(message: &[u8]) -> Result<Option<(Vec<u8>, u32)>, ()> {
    let (mut name, mut user) = (None, None);
    let mut rest = message.get(ANSWER_BYTES..).unwrap_or_default();
    while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
        let Some(value) = rest.get(4..usize::from(length)) else { break };
        match kind {
            NAME => name = value.strip_prefix(b"\0").map(<[u8]>::to_vec),
            USER => user = word(value, 0),
            _ => {}
        }
        rest = rest.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
    }
    name.map_or(Ok(None), |name| user.map(|user| Some((name, user))).ok_or(()))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn listeners_are_listed_with_their_user_and_no_other_sockets() {
        let names = ["one", "\u{e9}\u{1b}", "two"];
        let names = names.map(|name| format!("tutti-listeners-{}/{name}", std::process::id()));
        let address = |name: &str| SocketAddr::from_abstract_name(name).unwrap();
        let kept: Vec<UnixListener> =
            names[..2].iter().map(|name| UnixListener::bind_addr(&address(name)).unwrap()).collect();
        let own = rustix::process::geteuid().as_raw();
        let found = match abstract_listeners() {
            Err(error) if error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(2) => {
                return tutti_testkit::skip(tutti_testkit::Need::Kernel, "no sock_diag for local sockets");
            }
            found => found.unwrap(),
        };
        let is_listed = |name: &str| found.contains(&(name.as_bytes().to_vec(), own));
        assert_eq!(names.each_ref().map(|name| is_listed(name)), [true, true, false]);
        drop(kept);
        let found = abstract_listeners().unwrap();
        assert!(!found.iter().any(|(name, _)| name == names[0].as_bytes()), "it is closed");
    }

    #[test]
    fn answers_that_are_cut_name_no_socket_twice_and_no_other() {
        let mut message = vec![0; ANSWER_BYTES];
        for (kind, value) in [(NAME, &b"\0name"[..]), (USER, &7_u32.to_ne_bytes())] {
            message.extend((value.len() as u16 + 4).to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        let mut found = Vec::new();
        assert!(!take(&message.repeat(2), &mut found).unwrap());
        assert_eq!(found, [(b"name".to_vec(), 7), (b"name".to_vec(), 7)]);
        for cut in 0..message.len() {
            let mut found = Vec::new();
            let taken = take(&message[..cut], &mut found);
            assert!(found.is_empty() && (cut < HEADER_BYTES || taken.is_err()), "{cut}");
        }
    }

    #[test]
    fn list_that_has_changed_or_failed_meanwhile_is_no_list() {
        let done = |flags: i32, result: i32| {
            let mut message = 20_u32.to_ne_bytes().to_vec();
            message.extend((libc::NLMSG_DONE as u16).to_ne_bytes());
            message.extend((flags as u16).to_ne_bytes());
            message.extend([0; 8]);
            message.extend(result.to_ne_bytes());
            take(&message, &mut Vec::new())
        };
        assert!(done(libc::NLM_F_MULTI, 0).unwrap());
        let changed = done(libc::NLM_F_MULTI | libc::NLM_F_DUMP_INTR, 0).unwrap_err();
        assert_eq!(changed.kind(), io::ErrorKind::Interrupted);
        assert_eq!(done(libc::NLM_F_MULTI, -libc::ENOMEM).unwrap_err().raw_os_error(), Some(libc::ENOMEM));
    }
}
