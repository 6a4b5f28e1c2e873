//! Names that a user's launches publish for each other on all nodes of a cluster (MPI 11.9.4). On one node
//! they are [`crate::user_names`].
//!
//! A name is a published region ([`tutti_shm::published`]) that only the user may read: it is answered while
//! its publisher is frozen, goes with it, and needs no daemon once a reader has found it. Who reads is known
//! by the word of the daemons.
//!
//! ```text
//! publisher -- Publish, Ready --> server of its job's regions <-- Enter, Open, Read -- whoever looks it up
//!                                                             <-- Admit -- daemons (who looks it up, where)
//! ```
//!
//! The region's name is a hash of the service's, its content is [`tutti_shm::names`]' record of both.

use std::os::fd::AsFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tutti_shm::doorbell;
use tutti_shm::endpoint::Endpoint;
use tutti_shm::names::{PORT_BYTES_MAX, SERVICE_BYTES_MAX};
use tutti_shm::published::area::Mapped;
use tutti_shm::published::door::Door;
use tutti_shm::published::far::{ANY_NODE, Given, Wanted, ask_daemon, ask_place, enter, sockets};
use tutti_shm::published::{Ask, Audience, Opened, READ, Status};

use crate::background;
use crate::job::Job;
use crate::user_names::{file_name, port_of};

/// Attempts to look up a name when a pass has become too old, or all questions of the user are under way.
const TRIES: usize = 40;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// A name that this process has published. It goes with the value, and with the process.
#[derive(Debug)]
pub struct ClusterName {
    /// The region ends with it.
    _door: Door,
}

/// Publishes a port under the name of a service; none where the daemon knows no other nodes. A process that
/// was started without a starter gets one, whose server keeps the name.
///
/// # Errors
/// When the server of regions refuses, or there is no starter for it; a line for the user.
pub fn publish(job: &Job, service: &[u8], port: &[u8]) -> Result<Option<ClusterName>, String> {
    if !may_have_daemon() || ask_place().is_none() {
        return Ok(None);
    }
    let starter = job.starter_or_adopted()?;
    let content = [&(service.len() as u32).to_le_bytes(), service, port].concat();
    let (door, other) = Door::pair().map_err(|error| error.to_string())?;
    starter.give_connection(other.as_fd()).map_err(|error| error.to_string())?;
    drop(other);
    let ask = |ask, data: &[u8]| {
        let (answer, data, descriptors) = door.ask(ask, data).map_err(|error| error.to_string())?;
        match answer.status {
            Status::Ok => Ok((data, descriptors)),
            Status::Busy => Err("another launch of this user has it published already".to_owned()),
            status => Err(format!("the server of regions says {status:?}")),
        }
    };
    let audience = Audience::User(own_user());
    let (opened, gifts) =
        ask(Ask::Publish(content.len() as u64, READ, audience), region_name(service).as_bytes())?;
    let opened = Opened::decode(&opened).ok_or("the server of regions is of another version")?;
    let memory = gifts.first().map(|memory| Mapped::map(memory.as_fd(), content.len(), true));
    let is_written = matches!(memory, Some(Ok(memory)) if memory.write(0, &content));
    if !is_written {
        return Err("the memory of its region cannot be written".into());
    }
    ask(Ask::Ready(opened.line.into()), &[])?;
    Ok(Some(ClusterName { _door: door }))
}

/// A look-up that is under way.
#[derive(Debug)]
pub struct LookUp {
    answer: Arc<Mutex<Option<Found>>>,
}

/// The port, if there is such a name.
type Found = Option<Vec<u8>>;

struct Bell(NonNull<Endpoint>);

// SAFETY: the endpoint lies in the segment, which stays mapped until the process ends; its fields are
// atomics.
unsafe impl Send for Bell {}

impl LookUp {
    /// Begins to look for the port that a launch on any node has published. `endpoint` is rung when it is
    /// known. None where no daemon can be asked.
    pub fn start(service: &[u8], endpoint: &Endpoint) -> Option<LookUp> {
        if !may_have_daemon() {
            return None;
        }
        let answer = Arc::new(Mutex::new(None));
        let (told, bell, service) = (answer.clone(), Bell(NonNull::from(endpoint)), service.to_vec());
        let body = move || {
            // Captured whole: the pointer alone may not go to another thread.
            let bell = bell;
            let found = look_up(&service);
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
            // SAFETY: see the Send implementation.
            doorbell::ring_if_sleeping(unsafe { bell.0.as_ref() });
        };
        background::spawn("tutti-names", body).ok().map(|()| LookUp { answer })
    }

    /// Takes the result of the look-up, once.
    pub fn poll(&self) -> Option<Found> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn look_up(service: &[u8]) -> Found {
    let wanted = Wanted { owner: own_user(), name: region_name(service), node: ANY_NODE.into() };
    // Launches of this node may have another folder for their files.
    if let Some(port) = Door::connect(wanted.owner, &wanted.name).ok().and_then(|door| read(&door, service)) {
        return Some(port);
    }
    for _ in 0..TRIES {
        match ask_daemon(&wanted) {
            Ok(Given::There { address, pass, .. }) => {
                if let Some(port) = enter(address, &pass).ok().and_then(|door| read(&door, service)) {
                    return Some(port);
                }
            }
            // Others of this user are being answered.
            Ok(Given::Refused(Status::Memory)) => {}
            _ => return None,
        }
        std::thread::sleep(PAUSE);
    }
    None
}

fn read(door: &Door, service: &[u8]) -> Found {
    let ask = |ask| {
        let (answer, data, _) = door.ask(ask, &[]).ok()?;
        (answer.status == Status::Ok).then_some(data)
    };
    let opened = Opened::decode(&ask(Ask::Open(READ))?)?;
    let most = 4 + SERVICE_BYTES_MAX + PORT_BYTES_MAX;
    if opened.bytes > most as u64 {
        return None;
    }
    port_of(&ask(Ask::Read(0, opened.bytes))?, service).map(<[u8]>::to_vec)
}

fn region_name(service: &[u8]) -> String {
    format!("mpi-name-{}", file_name(service))
}

fn may_have_daemon() -> bool {
    sockets().iter().any(|socket| Path::exists(socket))
}

fn own_user() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { libc::geteuid() }
}
