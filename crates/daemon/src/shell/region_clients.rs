//! Programs that ask this daemon for regions, places, services and lent turns.

use std::io;

use tutti_shm::published::Status;
use tutti_shm::published::far::{Given, Place};

use super::{Shell, ShellEvent, regions};
use crate::core::event::Event;
use crate::gang;
use crate::ids::ClientId;

impl Shell {
    /// A program that wants a region of another node has connected.
    pub(super) fn accept_region_client(&mut self, accepted: io::Result<tokio::net::UnixStream>) {
        let client = ClientId(self.number());
        let tell = self.region_events();
        let users = &mut self.peer_users;
        let admitted = accepted.and_then(|stream| {
            let (user, _) = users.identify(&stream)?;
            regions::accept(stream, client, user, &self.quota, tell)
        });
        if let Err(error) = admitted {
            self.doors.handle_failure("that asks for a region", &error);
        }
    }

    pub(super) fn region_events(&self) -> impl Fn(regions::RegionEvent) + Send + use<> {
        let shell_events = self.shell_events.clone();
        move |event| drop(shell_events.send(ShellEvent::Region(event)))
    }

    /// Takes an event of regions; returns what the core is to know of it.
    pub(super) fn take_region_event(&mut self, event: regions::RegionEvent) -> Option<Event> {
        Some(match event {
            regions::RegionEvent::Wanted(client, (uid, groups), wanted, reply) => {
                self.region_clients.insert(client, reply);
                Event::Region(client, uid, groups, wanted)
            }
            regions::RegionEvent::Place(uid, reply) => {
                let given = match self.core.nodes_alive() {
                    0 | 1 => Given::Refused(Status::Node),
                    _ => {
                        let secret = self.credential.secret_of(uid);
                        Given::Place(Place { address: self.settings.network.data, secret })
                    }
                };
                // Who has gone wants no answer.
                let _ = reply.send(given.encode().to_vec());
                return None;
            }
            regions::RegionEvent::Lend(waiting) => {
                let wish = self.lending.hear(*waiting)?;
                self.switcher.send(gang::Command::Wish(wish));
                return None;
            }
            regions::RegionEvent::Services(client, uid, reply) => {
                self.region_clients.insert(client, reply);
                Event::Services(client, uid)
            }
            regions::RegionEvent::Listed(to, id, services) => Event::ServicesListed(to, id, services),
            regions::RegionEvent::Gone(client) => Event::ClientGone(client),
            regions::RegionEvent::Reached(from, id, result) => Event::RegionReached(from, id, result),
        })
    }
}
