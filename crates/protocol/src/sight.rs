//! Page, metrics and history of a cluster: where `tutti-sight` leaves its address, and commands find it.
//!
//! | file in the folder | what | readable by |
//! |---|---|---|
//! | `address` | where the page is | all |
//! | `token` | what readers of the page of a user's own daemon need | its user |
//! | `history.db` | the history | all whose permissions reach it |
//!
//! A command believes an address if the kernel says that the owner of the file listens there
//! ([`address`]): a port that is free may be taken by anybody.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Address of the page where none is given.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7480);
/// Time for which a history is kept by default, in ms.
pub const HISTORY_MS: u64 = 30 * 24 * 3600 * 1000;
/// Bytes that are written to it on a day where nothing is said.
pub const DAY_BYTES: u64 = 16 << 20;

const ADDRESS: &str = "address";
const TOKEN: &str = "token";
/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;
/// Bytes of a file of ours that are read, at most.
const FILE_BYTES_MAX: u64 = 200;

/// Folder of the program, in the state folder of a daemon.
#[must_use]
pub fn folder(state: &Path) -> PathBuf {
    state.join("sight")
}

/// Leaves the address for commands.
///
/// # Errors
/// When it cannot be written.
pub fn write_address(folder: &Path, address: SocketAddr) -> io::Result<()> {
    replace(folder, ADDRESS, &format!("{address}\n"), 0o644)
}

/// Takes the address away, so that no command finds an earlier page.
pub fn forget_address(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(ADDRESS));
}

/// Makes the token, unless there is one.
///
/// # Errors
/// When it can be neither read nor written.
pub fn make_token(folder: &Path) -> io::Result<String> {
    if let Some(found) = token(folder) {
        return Ok(found);
    }
    let mut bytes = [0; TOKEN_BYTES];
    tutti_os::random::fill_random(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    replace(folder, TOKEN, &format!("{text}\n"), 0o600)?;
    Ok(text)
}

/// The token that readers need, where this user may know it.
#[must_use]
pub fn token(folder: &Path) -> Option<String> {
    let text = read(&folder.join(TOKEN))?;
    let text = text.trim();
    (text.len() == 2 * TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| text.to_owned())
}

/// Where the page of this folder is, if its owner listens there now.
#[must_use]
pub fn address(folder: &Path) -> Option<SocketAddr> {
    let path = folder.join(ADDRESS);
    let owner = std::fs::symlink_metadata(&path).ok()?.uid();
    let address: SocketAddr = read(&path)?.trim().parse().ok()?;
    let table = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let sockets = std::fs::read_to_string(table).ok()?;
    (listener(&sockets, address) == Some(owner)).then(|| reachable(address))
}

/// One that listens everywhere is asked here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// User of the socket that listens at an address, by the kernel's table.
fn listener(sockets: &str, address: SocketAddr) -> Option<u32> {
    // Words of four bytes, each as the machine stores it.
    let words: Vec<u8> = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let hex: String = words
        .chunks_exact(4)
        .map(|word| format!("{:08X}", u32::from_ne_bytes(word.try_into().expect("four bytes"))))
        .collect();
    let local = format!("{hex}:{:04X}", address.port());
    sockets.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_it = words.next()? == local;
        // 0A: it listens.
        let listens = words.nth(1)? == "0A";
        let uid = words.nth(3)?.parse().ok()?;
        (is_it && listens).then_some(uid)
    })
}

fn read(path: &Path) -> Option<String> {
    // Its owner may have made a pipe of it.
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    let file = std::fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text).ok()?;
    Some(text)
}

/// Writes a file as a whole.
fn replace(folder: &Path, name: &str, text: &str, mode: u32) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let _ = std::fs::remove_file(&new);
    let mut file = std::fs::File::options().write(true).create_new(true).mode(mode).open(&new)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(new, folder.join(name))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn page_address_counts_while_the_owner_of_the_file_listens() {
        let folder = std::env::temp_dir().join(format!("tutti-sight-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(address(&folder), None);
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let at = listener.local_addr().unwrap();
            write_address(&folder, at).unwrap();
            assert_eq!(address(&folder), Some(at));
            drop(listener);
            assert_eq!(address(&folder), None, "another one may have the port");
        }
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
                     0: 0100007F:1D38 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1";
        assert_eq!(listener(table, LISTEN), Some(1000));
        assert_eq!(reachable("0.0.0.0:7480".parse().unwrap()), LISTEN);
        std::fs::write(folder.join("address"), "rubbish").unwrap();
        assert_eq!(address(&folder), None);
        let first = make_token(&folder).unwrap();
        assert_eq!(Some(make_token(&folder).unwrap()), token(&folder));
        assert_eq!(first.len(), 2 * TOKEN_BYTES);
        assert_eq!(folder.join("token").metadata().unwrap().mode() & 0o777, 0o600);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
