//! Bytes that the processes of a cgroup (version 2) send to other machines, as the kernel counts them.
//!
//! A program of fifteen instructions is attached to the cgroup (`cgroup_skb`, egress). It lets every packet
//! pass and adds its length to one of two words: what stays on this machine, and what leaves it. It is gone
//! with the descriptor of its link, so a daemon that dies leaves nothing. It needs root's rights (CAP_BPF and
//! CAP_NET_ADMIN) and Linux 5.7; where it cannot be had nothing is counted.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kernel ends the check of a program when a signal comes: it is asked again so often, as libbpf does.
const LOADS_MAX: u32 = 5;

/// Commands, types and places of `linux/bpf.h`.
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const ARRAY: u32 = 2;
const CGROUP_SKB: u32 = 8;
const EGRESS: u32 = 1;
/// Number of the interface in which a machine talks to itself, in each network namespace.
const LOOPBACK: i32 = 1;
/// Where `struct __sk_buff` has a packet's length and its interface.
const LENGTH_AT: i16 = 0;
const INTERFACE_AT: i16 = 40;

/// An instruction: code, registers (target low, source high), offset, number.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction(u8, u8, i16, i32);

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapLookup {
    map: u32,
    _gap: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    program_type: u32,
    instructions: u32,
    first: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

/// A counter of a cgroup, and of all inside it.
#[derive(Debug)]
pub struct TrafficCounter {
    map: OwnedFd,
    _link: OwnedFd,
}

impl TrafficCounter {
    /// Counts from now on what the processes of this cgroup send.
    ///
    /// # Errors
    /// When the kernel cannot do so, or this process may not.
    pub fn attach(cgroup: BorrowedFd<'_>) -> io::Result<Self> {
        let create = MapCreate { map_type: ARRAY, key_bytes: 4, value_bytes: 8, entries: 2, flags: 0 };
        let map = descriptor(MAP_CREATE, &create)?;
        let instructions = program(map.as_raw_fd());
        let load = ProgramLoad {
            program_type: CGROUP_SKB,
            instructions: instructions.len() as u32,
            first: instructions.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            attach_type: EGRESS,
            ..ProgramLoad::default()
        };
        let program = retried(LOADS_MAX, || descriptor(PROGRAM_LOAD, &load))?;
        let link = LinkCreate {
            program: program.as_raw_fd() as u32,
            target: cgroup.as_raw_fd() as u32,
            attach_type: EGRESS,
            flags: 0,
        };
        Ok(TrafficCounter { map, _link: descriptor(LINK_CREATE, &link)? })
    }

    /// Bytes sent to other machines so far.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn sent_bytes(&self) -> io::Result<u64> {
        self.count(1)
    }

    /// Bytes sent to this machine itself so far.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn own_bytes(&self) -> io::Result<u64> {
        self.count(0)
    }

    fn count(&self, key: u32) -> io::Result<u64> {
        let mut value = 0_u64;
        let lookup = MapLookup {
            map: self.map.as_fd().as_raw_fd() as u32,
            key: &raw const key as u64,
            value: &raw mut value as u64,
            ..MapLookup::default()
        };
        bpf(MAP_LOOKUP, &lookup)?;
        Ok(value)
    }
}

/// The program, with registers r0 to r10.
fn program(map: i32) -> [Instruction; 15] {
    let registers = |target: u8, source: u8| target | source << 4;
    [
        // r6 = the packet
        Instruction(0xbf, registers(6, 1), 0, 0),
        // Key 0, on the stack.
        Instruction(0x62, registers(10, 0), -4, 0),
        // r1 = its interface; another one than the machine's own: key 1
        Instruction(0x61, registers(1, 6), INTERFACE_AT, 0),
        Instruction(0x15, registers(1, 0), 1, LOOPBACK),
        Instruction(0x62, registers(10, 0), -4, 1),
        // r2 = address of the key
        Instruction(0xbf, registers(2, 10), 0, 0),
        Instruction(0x07, registers(2, 0), 0, -4),
        // r1 = the map: an instruction of two places
        Instruction(0x18, registers(1, 1), 0, map),
        Instruction(0, 0, 0, 0),
        // r0 = address of the word, by a call of bpf_map_lookup_elem
        Instruction(0x85, 0, 0, 1),
        Instruction(0x15, registers(0, 0), 2, 0),
        // It grows by the length, atomically.
        Instruction(0x61, registers(1, 6), LENGTH_AT, 0),
        Instruction(0xdb, registers(0, 1), 0, 0),
        // The packet passes.
        Instruction(0xb7, 0, 0, 1),
        Instruction(0x95, 0, 0, 0),
    ]
}

fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let descriptor = bpf(command, attributes)?;
    // SAFETY: a fresh descriptor of this process, of which nobody else knows.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned)
}

/// Calls again what the kernel has given up because of a signal.
fn retried<T>(most: u32, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..most {
        match call() {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            result => return result,
        }
    }
    call()
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the attributes are plain numbers, as long as said. What they point to (program, key, value) is
    // kept by the caller until the call has returned, and has the lengths that the map was made with.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *const T, size_of::<T>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::cgroup::{Cgroup, INNER, JobGroup, name};

    /// A shell in a network of its own with one card, to which nobody is connected: 100 bytes leave by it,
    /// and 1000 stay on the machine.
    const SENDS: &str = "(echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6) 2>/dev/null; \
        ip link set lo up && ip link add name card type veth peer name far && \
        ip addr add 10.99.0.1/24 dev card && ip link set card up && ip link set far up && \
        printf %0100d 0 > /dev/udp/10.99.0.2/9 && printf %01000d 0 > /dev/udp/127.0.0.1/9; exit 0";

    #[test]
    fn traffic_counter_is_tried_again_where_a_signal_was_in_the_way() {
        let tried = |failures: u32, errno| {
            let mut calls = 0;
            let result = super::retried(5, || {
                calls += 1;
                if calls <= failures { Err(std::io::Error::from_raw_os_error(errno)) } else { Ok(()) }
            });
            (calls, result.is_ok())
        };
        assert_eq!(tried(0, libc::EAGAIN), (1, true));
        assert_eq!(tried(4, libc::EAGAIN), (5, true));
        assert_eq!(tried(9, libc::EAGAIN), (5, false));
        assert_eq!(tried(1, libc::EPERM), (1, false));
    }

    #[test]
    fn traffic_counter_tells_what_leaves_the_machine_from_what_stays() {
        use tutti_testkit::{Need, has_command, skip};
        if !has_command(Need::Ip, "ip") {
            return;
        }
        let Some(cgroup) = Cgroup::create(&name(&format!("unit-traffic-{}", std::process::id()))) else {
            return skip(Need::Cgroup, "no cgroup can be made here");
        };
        let path = cgroup.path().unwrap();
        let group = JobGroup::new(std::fs::File::open(path).unwrap().into()).unwrap();
        let counter = match group.count_traffic() {
            Ok(counter) => counter,
            Err(error) => return skip(Need::Root, error),
        };
        assert_eq!((counter.sent_bytes().unwrap(), counter.own_bytes().unwrap()), (0, 0));
        let enter = format!("echo $$ > {}", path.join(INNER).join("cgroup.procs").display());
        let script = format!("{enter} && exec unshare --net bash -c '{SENDS}'");
        let ran = Command::new("bash").args(["-c", &script]).output().unwrap();
        if !ran.status.success() || !ran.stderr.is_empty() {
            return skip(Need::NetworkNamespace, String::from_utf8_lossy(&ran.stderr));
        }
        // With heads of IP and UDP. The machine may have more to say to a new card, by itself.
        let (sent_bytes, own_bytes) = (counter.sent_bytes().unwrap(), counter.own_bytes().unwrap());
        assert_eq!(sent_bytes, 128);
        assert!((1028..2000).contains(&own_bytes), "{own_bytes}: refusals come beside");
    }
}
