//! Actions of the core, as the shell carries them out.

use super::{JobId, Shell, ShellEvent, drains, numbers, peer_users, peers, records, regions, reservations};
use crate::core::action::Action;
use crate::core::event::Event;
use crate::core::record::StarterRecord;
use crate::gang;

impl Shell {
    /// Does what the core wants.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Dial(address) => self.dial(address),
                Action::Send(link, message) => {
                    let peer = self.peers.get(&link).filter(|peer| peer.far.wire >= message.since());
                    if let Some(peer) = peer {
                        let _ = peer.writer.send(peers::encode(&message));
                    }
                }
                Action::Close(link) => self.forget_peer(link),
                Action::Answer(client, answer) => self.answer(client, &answer),
                Action::ToClient(client, frame) => self.send_to_client(client, frame),
                Action::Continue(client) => {
                    let process = self.clients.get(&client).and_then(|client| client.process);
                    process.iter().for_each(peer_users::PeerProcess::resume);
                }
                // The writer ends when all is written.
                Action::Release(client) => drop(self.clients.remove(&client)),
                Action::Start(job, launch, described) => {
                    tracing::debug!("the starter of job {job} is started");
                    let mut described = *described;
                    described.part.iter_mut().for_each(|part| part.ports = self.settings.network.ports);
                    self.prepare(job, launch, described);
                }
                Action::Enrol(client, job) => self.enrol(client, job),
                Action::ToStarter(job, kind, number, payload) => {
                    self.put_to_starter(job, kind, number, &payload);
                }
                Action::Listen(job) => {
                    if let Some(starter) = self.starters.get(&job) {
                        starter.listen();
                    }
                }
                Action::End(job) => {
                    self.folder.remove(job);
                    self.preparing.end(job);
                    self.end_starter(job);
                }
                Action::RecordStarter(job, record) => {
                    let record = self.preparing.record(job, record);
                    record.into_iter().for_each(|record| self.record_starter(job, *record));
                }
                Action::RecordOutput(job, journal) => self.journals.put(job, &journal),
                Action::ForgetOutput(job) => self.journals.remove(job),
                Action::OpenFiles(job, user, groups, open) => self.open_files(job, user, &groups, *open),
                Action::WriteFiles(job, frames) => self.write_files(job, frames),
                // It ends when it has read all.
                Action::CloseFiles(job) => drop(self.writers.remove(&job)),
                Action::Queue(job, queued) => match (&self.filing, queued) {
                    (Some(filing), Some(queued)) => filing.put(job, queued),
                    (Some(filing), None) => filing.remove(job),
                    (None, _) => {}
                },
                Action::Gang(command) => {
                    if let gang::Command::PartEnded(job) = &command {
                        self.fill_trials.end(*job);
                        self.unsent.remove(job);
                        self.lending.end(*job);
                    }
                    self.switcher.send(command);
                }
                Action::RanksStarted(job, residents) => self.send_residents(job, residents),
                Action::OpenSwitchLink(link, node, is_parent) => self.open_switch_link(link, node, is_parent),
                Action::KeepDrains(nodes) => {
                    let events = self.shell_events.clone();
                    let done = move |kept| drop(events.send(ShellEvent::Core(Event::DrainsKept(kept))));
                    drains::keep(drains::file(&self.settings.folders.queue), nodes, done);
                }
                Action::KeepReservations(all) => {
                    let events = self.shell_events.clone();
                    let done = move |kept| drop(events.send(ShellEvent::Core(Event::ReservationsKept(kept))));
                    drains::keep(reservations::file(&self.settings.folders.queue), all, done);
                }
                Action::SendMail(letter) => self.send_mail(*letter),
                Action::KeepNumbers(nodes) => numbers::keep(&self.settings.folders.queue, &nodes),
                Action::KeepConfiguration(text) => self.keep_configuration(text),
                Action::LimitUsers => self.limit_users(),
                Action::Reload(requester) => self.reload(requester),
                Action::Log(event) => self.events.put(&event),
                Action::LogTurns(turns) => self.turns.put(&turns),
                Action::ShowNode(node, lines, age_ms) => {
                    self.board.iter_mut().for_each(|board| board.show(node, &lines, age_ms));
                }
                Action::GiveRegion(client, given) => {
                    // Who has gone wants no answer.
                    let reply = self.region_clients.remove(&client);
                    let _ = reply.map(|reply| reply.send(given.encode().to_vec()));
                }
                Action::GiveServices(client, text) => {
                    let reply = self.region_clients.remove(&client);
                    let _ = reply.map(|reply| reply.send(text.into_bytes()));
                }
                Action::ListServices(from, id) => regions::list_services(from, id, self.region_events()),
                Action::ReachRegion(from, id, client) => {
                    regions::reach_for(from, id, client, self.settings.network.data, self.region_events());
                }
                Action::Info(text) => match self.speaker {
                    Some(uid) => self.complaints.inform(uid, &text),
                    None => tracing::info!("{text}"),
                },
                Action::Warn(text) => match self.speaker {
                    Some(uid) => self.complaints.warn(uid, &text),
                    None => tracing::warn!("{text}"),
                },
                Action::Leave => self.leaving = true,
                Action::GiveUp(why) => (self.leaving, self.refused) = (true, Some(why)),
            }
        }
    }

    /// Keeps what the next daemon is to know of a starter.
    pub(super) fn record_starter(&mut self, job: JobId, record: StarterRecord) {
        let Some(starter) = self.starters.get(&job) else { return };
        let file = records::File { record: Some(record), ..starter.file.clone() };
        if self.folder.put(job, &file).is_err() {
            self.manifest.renounce();
        }
    }
}
