//! Clients of all regions of a server: so many at once, and so many of a user.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd};

use tutti_shm::published::lines::Lines;
use tutti_shm::published::{Answer, Ask, Opened, READ, Status, WRITE};

use super::client::{Connection, Read, refusal};
use super::network::Admitted;
use super::region::{Kind, Region};
use super::sources::Interest;

/// Clients of one user at once.
const OF_USER_MAX: usize = 128;

/// A client of a region.
#[derive(Debug)]
pub(super) struct Client {
    pub connection: Connection,
    uid: u32,
    /// Region that it is a client of, of one generation.
    of: Admitted,
    /// Whether the region is for it.
    is_let_in: bool,
    /// Whether what it says of clients of other nodes is believed: it is root's, or this user's.
    may_vouch: bool,
    /// Whether it comes from another node, so it gets no descriptors.
    is_far: bool,
    /// Rights that it has been given, once it has asked.
    rights: u32,
    /// Status of its region, once that has ended.
    ended: Option<Status>,
    /// Question whose answer it waits for.
    waits: Option<Ask>,
    /// Time when it is read again, after it has asked too fast.
    paused_until_ns: Option<u64>,
}

impl Client {
    /// Client of this node that has asked for nothing yet. `is_let_in`: the region is for it; `may_vouch`: it
    /// is believed what it says of clients of other nodes.
    pub(super) fn near(
        connection: Connection,
        uid: u32,
        of: Admitted,
        is_let_in: bool,
        may_vouch: bool,
    ) -> Self {
        let (is_far, rights, ended, waits, paused_until_ns) = (false, 0, None, None, None);
        Client { connection, uid, of, is_let_in, may_vouch, is_far, rights, ended, waits, paused_until_ns }
    }

    /// Client of another node, for which one has vouched; its region may have ended since.
    pub(super) fn far(connection: Connection, uid: u32, of: Admitted, ended: Option<Status>) -> Self {
        Client { is_far: true, ended, ..Client::near(connection, uid, of, true, false) }
    }

    /// Region that it is a client of, of one generation.
    pub(super) fn of(&self) -> Admitted {
        self.of
    }

    /// Rights that it has been given.
    pub(super) fn rights(&self) -> u32 {
        self.rights
    }

    /// Status of its region, once that has ended.
    pub(super) fn ended(&self) -> Option<Status> {
        self.ended
    }

    /// Whether what it says of clients of other nodes is believed.
    pub(super) fn may_vouch(&self) -> bool {
        self.may_vouch
    }

    /// Status with which all its questions are refused, if they are.
    pub(super) fn refused(&self) -> Option<Status> {
        self.ended.or((!self.is_let_in).then_some(Status::Right))
    }

    /// Whether no question of it is read for now: it waits for an answer, or has asked too fast.
    pub(super) fn is_unread(&self) -> bool {
        self.waits.is_some() || self.paused_until_ns.is_some()
    }

    /// The next question, which counts.
    pub(super) fn read(&mut self, now_ns: u64) -> Read {
        let read = self.connection.read();
        if let Read::Question((ask, data)) = &read {
            let bytes = if let Ask::Read(_, bytes) = ask { *bytes as usize } else { data.len() };
            self.paused_until_ns = self.connection.charge(bytes, now_ns);
        }
        read
    }

    /// Question whose answer it waits for.
    pub(super) fn waits(&self) -> Option<Ask> {
        self.waits
    }

    /// Waits for the answer of a question from now on.
    pub(super) fn wait(&mut self, ask: Ask) {
        self.waits = Some(ask);
    }

    /// Answers the question for whose answer it waits; false when it has gone.
    pub(super) fn end_wait(&mut self, answer: Answer) -> bool {
        self.waits = None;
        self.connection.answer(answer, &[])
    }

    /// Part of its connection that is waited for.
    pub(super) fn interest(&self) -> Interest {
        if self.connection.is_jammed() {
            Interest::Room
        } else if self.is_unread() {
            Interest::End
        } else {
            Interest::Questions
        }
    }

    /// Gives it the rights that it wants, 0: all; false when it has gone.
    pub(super) fn open(&mut self, region: &Region, lines: &Lines, wanted: u32) -> bool {
        let wanted = if wanted == 0 { region.rights } else { wanted };
        if wanted & !region.rights != 0 {
            return self.connection.answer(refusal(Status::Right), &[]);
        }
        self.rights = wanted;
        let answer = Answer { status: Status::Ok, value: wanted.into() };
        let (line, generation, bytes) = (self.of.line, region.generation, region.bytes);
        if self.is_far {
            let opened = Opened { line, is_mapped: false, generation, bytes };
            return self.connection.answer(answer, &opened.encode());
        }
        let writes = wanted & (READ | WRITE) == READ | WRITE;
        let memory = match &region.kind {
            Kind::Memory(area) if writes => area.descriptor().try_clone_to_owned().ok(),
            Kind::Memory(area) if wanted & READ != 0 => area.reading_end().ok(),
            _ => None,
        };
        let opened = Opened { line, is_mapped: memory.is_some(), generation, bytes };
        let mut gifts: Vec<BorrowedFd<'_>> = memory.iter().map(|memory| memory.as_fd()).collect();
        gifts.push(lines.descriptor());
        self.connection.give(answer, opened, &gifts)
    }
}

/// All clients, by number.
#[derive(Debug)]
pub(super) struct Clients {
    all: BTreeMap<u64, Client>,
    of_user: HashMap<u32, usize>,
    max: usize,
}

impl Clients {
    /// None yet, and so many at once.
    pub(super) fn new(max: usize) -> Self {
        Clients { all: BTreeMap::new(), of_user: HashMap::new(), max }
    }

    /// Whether there is no room for one more of this user.
    pub(super) fn is_full_for(&self, uid: u32) -> bool {
        let count = self.of_user.get(&uid).copied().unwrap_or(0);
        self.all.len() >= self.max || count >= OF_USER_MAX
    }

    pub(super) fn insert(&mut self, number: u64, client: Client) {
        *self.of_user.entry(client.uid).or_default() += 1;
        self.all.insert(number, client);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Client> {
        let client = self.all.remove(&number)?;
        if let Some(count) = self.of_user.get_mut(&client.uid) {
            *count -= 1;
            if *count == 0 {
                self.of_user.remove(&client.uid);
            }
        }
        Some(client)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Client> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Client> {
        self.all.get_mut(&number)
    }

    /// Number of clients of a region.
    pub(super) fn count_of(&self, line: u32) -> usize {
        self.all.values().filter(|client| client.of.line == line).count()
    }

    /// Ends the region of clients: those that wait hear it. Those that have gone meanwhile.
    pub(super) fn end_region(&mut self, of: Admitted, status: Status) -> Vec<u64> {
        let mut lost = Vec::new();
        for (number, client) in self.all.iter_mut().filter(|(_, client)| client.of == of) {
            client.ended = Some(status);
            if client.waits.take().is_some() && !client.connection.answer(refusal(status), &[]) {
                lost.push(*number);
            }
        }
        lost
    }

    /// Time when the first of those that pause is read again.
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.all.values().filter_map(|client| client.paused_until_ns).min()
    }

    /// Ends the pauses that are over; whose they were.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Vec<u64> {
        let is_due = |client: &Client| client.paused_until_ns.is_some_and(|due_ns| due_ns <= now_ns);
        let due = self.all.iter_mut().filter(|(_, client)| is_due(client));
        due.map(|(number, client)| {
            client.paused_until_ns = None;
            *number
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
    use std::os::fd::OwnedFd;

    use super::*;

    const OF: Admitted = Admitted { line: 3, generation: 8 };

    /// Client of a user, and its own end.
    fn client(uid: u32, of: Admitted) -> (Client, OwnedFd) {
        let (own, end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        (Client::near(Connection::new(own, 0), uid, of, true, false), end)
    }

    /// Status of the answer that has come.
    fn answer_of(end: &OwnedFd) -> Option<Status> {
        let mut bytes = [0; 64];
        let (length, _) = recv(end, &mut bytes, RecvFlags::DONTWAIT).ok()?;
        Answer::take(&bytes[..length]).unwrap().map(|(answer, ..)| answer.status)
    }

    #[test]
    fn clients_of_one_user_are_bounded_and_make_room_when_they_go() {
        let mut clients = Clients::new(OF_USER_MAX + 1);
        let mut ends = Vec::new();
        for number in 0..OF_USER_MAX as u64 {
            assert!(!clients.is_full_for(5));
            let (client, end) = client(5, OF);
            clients.insert(number, client);
            ends.push(end);
        }
        assert!(clients.is_full_for(5) && !clients.is_full_for(6));
        assert!(clients.remove(7).is_some() && clients.remove(7).is_none());
        assert!(!clients.is_full_for(5));
        for number in [7, 900] {
            clients.insert(number, client(6, OF).0);
        }
        assert!(clients.is_full_for(6) && clients.is_full_for(9), "there is no room for anybody");
        assert_eq!(clients.count_of(3), OF_USER_MAX + 1);
    }

    #[test]
    fn clients_that_wait_hear_of_the_end_of_their_region_of_that_generation() {
        let mut clients = Clients::new(16);
        let others = [Admitted { line: 4, ..OF }, Admitted { generation: 9, ..OF }];
        let mut ends = Vec::new();
        for (number, of) in (1..).zip([OF, OF, others[0], others[1]]) {
            let (mut client, end) = client(5, of);
            if number != 2 {
                client.wait(Ask::Wait(0, 1, 7));
            }
            clients.insert(number, client);
            ends.push(end);
        }
        assert_eq!(clients.end_region(OF, Status::Gone), [0; 0]);
        let heard: Vec<Option<Status>> = ends.iter().map(answer_of).collect();
        assert_eq!(heard, [Some(Status::Gone), None, None, None]);
        let refused = |number| clients.get(number).unwrap().refused();
        assert_eq!([1, 2, 3, 4].map(refused), [Some(Status::Gone), Some(Status::Gone), None, None]);
    }

    #[test]
    fn client_that_has_gone_while_it_waited_is_lost_with_its_region() {
        let mut clients = Clients::new(16);
        let (mut client, end) = client(5, OF);
        client.wait(Ask::Wait(0, 1, 7));
        clients.insert(1, client);
        drop(end);
        assert_eq!(clients.end_region(OF, Status::Gone), [1]);
    }

    #[test]
    fn client_of_a_region_that_is_not_for_it_is_refused() {
        let (own, _end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let client = Client::near(Connection::new(own, 0), 5, OF, false, false);
        assert_eq!((client.refused(), client.ended()), (Some(Status::Right), None));
    }
}
