//! The way between the interfaces of a process and the ranks of other nodes: one network, whose records and
//! bulk messages go each to the interface that they are for.
//!
//! ```text
//! record         its first byte is its kind (the highest bit is the interface's own): the route that takes the kind
//! bulk message   its tag names the route in the highest byte; the interface sees the rest
//! ```
//!
//! Whichever interface looks at the network takes in what has come for all ([`Router::poll_as`]). A look:
//! take what has arrived, let timers fire, tell the interfaces what has ended, let them go on, send. It is
//! all done under the process lock.

pub(crate) mod partner;

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use tutti_channel::{BulkError, Event, Rank, Sink, Source};
pub use tutti_channel::{Mark, SendError, Taken};

use crate::net::{Memory, Net, Traffic};
use crate::service_state;
use crate::wrong::{self, Wrong};

/// A small record that follows another one to the same rank within this time, without a look at the network
/// in between, waits for more to come: a system call costs as much as fifty records.
const GATHER: Duration = Duration::from_micros(10);
/// How often a wait for a rank of this node looks at the socket: an empty look costs 0.3 us.
const LOOK: Duration = Duration::from_micros(20);
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// Beside the kind of a record: the interface's own bit.
const OWN_BIT: u8 = 0x80;
/// Where a tag names its route.
const ROUTE_SHIFT: u32 = 56;
/// Routes of a process: messages, partners, remote memory, multicast, shared pages, and room for others.
const ROUTES_MAX: usize = 8;

/// Work of an interface with its records and bulk messages. None of it may call the router.
///
/// An interface without bulk messages leaves their functions out: none of them is called where nothing was
/// accepted and nothing sent.
///
/// # Safety
/// The place that [`Client::place`] gives is valid for reading and writing `bytes` until the message is
/// complete, and holds nothing that anybody relies on. The bytes that [`Client::slice`] gives stay as they
/// are until the message is sent.
pub unsafe trait Client {
    /// The next record of a rank. It is acknowledged when this returns, so it must be applied or kept; one
    /// that is wrong is [counted](wrong::count).
    fn record(&mut self, from: usize, record: &[u8]) -> Taken;
    /// Bytes that belong at `offset` of the message accepted with `tag`.
    fn fragment(&mut self, tag: u64, _offset: u64, _bytes: &[u8]) {
        without_bulk(tag);
    }
    /// Where those bytes belong, if they lie in one piece.
    fn place(&mut self, tag: u64, _offset: u64, _bytes: usize) -> Option<NonNull<u8>> {
        without_bulk(tag);
    }
    /// Fills `into` with the bytes at `offset` of the message sent with `tag`.
    fn read(&mut self, tag: u64, _offset: u64, _into: &mut [u8]) {
        without_bulk(tag);
    }
    /// The same bytes where they lie, if the whole message lies in one piece.
    fn slice(&self, tag: u64, _offset: u64, _bytes: usize) -> Option<&[u8]> {
        without_bulk(tag);
    }
    /// The bulk message sent with `tag` has arrived whole.
    fn bulk_sent(&mut self, tag: u64) {
        without_bulk(tag);
    }
    /// The bulk message accepted with `tag` is complete.
    fn bulk_received(&mut self, tag: u64) {
        without_bulk(tag);
    }
    /// The receiver of the bulk message sent with `tag` does not know it, or has left.
    fn bulk_refused(&mut self, _to: usize, tag: u64) {
        without_bulk(tag);
    }
    /// A rank has left for good: nothing comes from it, and what it did not take is lost.
    fn peer_exited(&mut self, rank: usize) {
        let _ = rank;
    }
    /// Does what arrivals have made possible, and sends what was held back ([`Router::may_gather`]).
    fn advance(&mut self, outbox: &mut Outbox<'_>);
}

/// A bulk message of an interface that neither sends nor accepts any.
fn without_bulk(tag: u64) -> ! {
    panic!("a bulk message {tag:#x} of an interface that has none");
}

/// Lends an interface's client to somebody else who polls. Called under the process lock, never while the
/// interface polls itself.
pub type Lend = fn(&mut dyn FnMut(&mut dyn Client));

/// Names a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteId(u8);

#[derive(Clone, Debug)]
struct Route {
    kinds: Range<u8>,
    lend: Option<Lend>,
}

/// The network of a rank, and the interfaces that use it.
#[derive(Debug)]
pub struct Router {
    net: Net,
    routes: Vec<Route>,
    polls: u32,
    polled: Instant,
    /// Looks at the socket, counted.
    looks: u64,
    /// By world rank: when a small record last left at once, and how many looks there had been.
    left: Vec<Option<(u64, Instant)>>,
    /// Records wait in a FIFO that could be sent.
    unsent: bool,
    /// By route, one bit: its interface owes others something that has found no room yet.
    owing: u8,
    /// By route, one bit: its interface holds something back until [`Client::advance`] is called next.
    gathering: u8,
}

/// Way by which an interface sends.
#[derive(Debug)]
pub struct Outbox<'a> {
    net: &'a mut Net,
    route: RouteId,
    owing: &'a mut u8,
}

impl Outbox<'_> {
    /// Puts a record into the FIFO to a rank.
    ///
    /// # Errors
    /// Those of [`Net::try_send`].
    #[inline]
    pub fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        self.net.try_send(to, head, body)
    }

    /// Where the records to a rank end that are in the FIFO now.
    pub fn completion(&self, to: usize) -> Option<Mark> {
        self.net.completion(to)
    }

    /// Whether a rank has taken all records before a mark, or will take no more.
    pub fn is_complete(&self, to: usize, mark: Mark) -> bool {
        self.net.is_complete(to, mark)
    }

    /// Has a rank acknowledge the records to it at once.
    pub fn ask_now(&mut self, to: usize) {
        self.net.ask_now(to);
    }

    /// Says whether the interface has something for others that no FIFO has taken yet: who looks for
    /// deadlocks then counts on this rank.
    pub fn note_owing(&mut self, is_owing: bool) {
        let bit = 1 << self.route.0;
        *self.owing = if is_owing { *self.owing | bit } else { *self.owing & !bit };
    }

    /// Makes room for a bulk message; its sender needs the name.
    ///
    /// # Errors
    /// Those of [`Net::accept_bulk`].
    pub fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        self.net.accept_bulk(from, bytes, self.route.tag(tag))
    }

    /// Makes room for a bulk message that may never come: until it begins nothing is received there, and
    /// [`Outbox::cancel_bulk`] takes the room back.
    ///
    /// # Errors
    /// As of [`Net::offer_bulk`].
    pub fn offer_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        self.net.offer_bulk(from, bytes, self.route.tag(tag))
    }

    /// The message for which there is room comes, and is of so many bytes; false: more is here already.
    pub fn confirm_bulk(&mut self, name: u64, bytes: usize) -> bool {
        self.net.confirm_bulk(name, bytes)
    }

    /// Takes the room back: no message comes.
    pub fn cancel_bulk(&mut self, name: u64) {
        self.net.cancel_bulk(name);
    }

    /// Begins to send a bulk message under the name that its receiver gave it.
    ///
    /// # Errors
    /// Those of [`Net::send_bulk`].
    pub fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Result<(), BulkError> {
        self.net.send_bulk(to, name, bytes, self.route.tag(tag))
    }
}

impl RouteId {
    fn tag(self, own: u64) -> u64 {
        assert!(own >> ROUTE_SHIFT == 0, "a tag has {ROUTE_SHIFT} bits, found {own:#x}");
        own | u64::from(self.0) << ROUTE_SHIFT
    }

    fn of(tag: u64) -> (Self, u64) {
        (RouteId((tag >> ROUTE_SHIFT) as u8), tag & ((1 << ROUTE_SHIFT) - 1))
    }
}

impl Router {
    /// The way to the ranks of other nodes, in a job of so many ranks; nothing uses it yet.
    pub fn new(net: Net, ranks: usize) -> Self {
        Router {
            net,
            routes: Vec::with_capacity(ROUTES_MAX),
            polls: 0,
            polled: Instant::now(),
            looks: 0,
            left: vec![None; ranks],
            unsent: false,
            owing: 0,
            gathering: 0,
        }
    }

    /// From now on an interface takes the records of these kinds. `lend` is for those who poll in other
    /// interfaces and for the service thread.
    ///
    /// # Panics
    /// When another interface takes one of the kinds, or there are more interfaces than a process has.
    pub fn register(&mut self, kinds: Range<u8>, lend: Option<Lend>) -> RouteId {
        let overlaps = |route: &Route| route.kinds.start < kinds.end && kinds.start < route.kinds.end;
        assert!(!self.routes.iter().any(overlaps), "records of kinds {kinds:?} have a route already");
        assert!(kinds.end <= OWN_BIT, "kinds {kinds:?} have the bit of the interface");
        assert!(self.routes.len() < ROUTES_MAX, "more than {ROUTES_MAX} interfaces");
        self.routes.push(Route { kinds, lend });
        RouteId(self.routes.len() as u8 - 1)
    }

    /// The process of a rank has ended, and nothing names it any more: the way to the next one begins anew,
    /// as that of the `processes`th of both sides. False, and nothing has changed, while long messages are
    /// under way.
    pub fn renew(&mut self, rank: usize, processes: u32) -> bool {
        let is_renewed = self.net.renew(rank, processes);
        if is_renewed {
            self.left[rank] = None;
        }
        is_renewed
    }

    /// Bytes of the longest record.
    pub fn record_bytes_max(&self) -> usize {
        self.net.record_bytes_max()
    }

    /// The socket, for a thread that waits for datagrams.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn duplicate_socket(&self) -> io::Result<OwnedFd> {
        self.net.duplicate_socket()
    }

    /// Opens the outbox of an interface; [`Router::transmit_as`] hands to the socket what is put there.
    pub fn outbox(&mut self, route: RouteId) -> Outbox<'_> {
        Outbox { net: &mut self.net, route, owing: &mut self.owing }
    }

    /// Whether the socket is to be looked at: always when the wait is for another node, else now and then.
    #[inline]
    pub fn is_due(&mut self, for_local: bool) -> bool {
        if !for_local {
            return true;
        }
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return false;
        }
        let now = Instant::now();
        let due = now.duration_since(self.polled) >= LOOK;
        if due {
            self.polled = now;
        }
        due
    }

    /// Whether a small record in the FIFO to a rank may wait for others to go with it. The first of a burst
    /// goes at once, and a rank that has heard something since may be awaited.
    pub fn may_wait(&mut self, to: usize) -> bool {
        let now = Instant::now();
        self.unsent = self.follows(to, now) && service_state::will_poll();
        if !self.unsent {
            self.left[to] = Some((self.looks, now));
        }
        self.unsent
    }

    /// Whether an interface may hold back what it has for a rank until [`Client::advance`] is called next:
    /// the rule of [`Router::may_wait`], also while the program computes. Else it is to be sent now.
    pub fn may_gather(&mut self, route: RouteId, to: usize) -> bool {
        let now = Instant::now();
        let may_gather = self.follows(to, now) && service_state::will_advance();
        match may_gather {
            true => self.gathering |= 1 << route.0,
            false => self.left[to] = Some((self.looks, now)),
        }
        may_gather
    }

    /// Notes that what was held back for a rank leaves now: what follows soon may be held back again.
    pub fn note_left(&mut self, to: usize) {
        self.left[to] = Some((self.looks, Instant::now()));
    }

    /// Whether something has left for a rank a moment ago, with no look at the network since.
    fn follows(&self, to: usize, now: Instant) -> bool {
        self.left[to].is_some_and(|(looks, at)| looks == self.looks && now.duration_since(at) < GATHER)
    }

    /// Looks at the socket and the timers, for all interfaces. Returns whether anything moved.
    pub fn poll(&mut self) -> bool {
        let routes = std::mem::take(&mut self.routes);
        let moved = self.poll_by(&mut Routed { own: None::<(RouteId, &mut Nothing)>, routes: &routes });
        self.routes = routes;
        moved
    }

    /// The same by an interface, whose client need not be lent.
    pub fn poll_as(&mut self, route: RouteId, client: &mut impl Client) -> bool {
        let routes = std::mem::take(&mut self.routes);
        let moved = self.poll_by(&mut Routed { own: Some((route, client)), routes: &routes });
        self.routes = routes;
        moved
    }

    fn poll_by<C: Client>(&mut self, routed: &mut Routed<'_, C>) -> bool {
        self.looks += 1;
        let moved = self.net.receive(routed);
        self.net.handle_timeout();
        self.advance(routed) | moved
    }

    /// Does what a call of an interface has made possible, and sends.
    pub fn advance_as(&mut self, route: RouteId, client: &mut impl Client) -> bool {
        let routes = std::mem::take(&mut self.routes);
        let moved = self.advance(&mut Routed { own: Some((route, client)), routes: &routes });
        self.routes = routes;
        moved
    }

    fn advance<C: Client>(&mut self, routed: &mut Routed<'_, C>) -> bool {
        let mut moved = false;
        while let Some(event) = self.net.poll_event() {
            moved = true;
            match event {
                Event::BulkSent { tag, .. } => routed.with(tag, |client, tag| client.bulk_sent(tag)),
                Event::BulkReceived { tag, .. } => routed.with(tag, |client, tag| client.bulk_received(tag)),
                Event::BulkRefused { to, tag } => {
                    routed.with(tag, |client, tag| client.bulk_refused(to.0 as usize, tag));
                }
                Event::PeerExited { rank, .. } => {
                    routed.each(&mut |_, client| client.peer_exited(rank.0 as usize));
                }
            }
        }
        self.gathering = 0;
        let Router { net, owing, .. } = self;
        routed.each(&mut |route, client| {
            client.advance(&mut Outbox { net: &mut *net, route, owing: &mut *owing });
        });
        self.send(routed);
        moved
    }

    /// The same for what waits, by nobody in particular.
    pub fn send_unsent(&mut self) {
        let routes = std::mem::take(&mut self.routes);
        self.send(&mut Routed { own: None::<(RouteId, &mut Nothing)>, routes: &routes });
        self.routes = routes;
    }

    /// Sends what is to be sent, as far as the socket takes it.
    pub fn transmit_as(&mut self, route: RouteId, client: &mut impl Client) {
        let routes = std::mem::take(&mut self.routes);
        self.send(&mut Routed { own: Some((route, client)), routes: &routes });
        self.routes = routes;
    }

    fn send<C: Client>(&mut self, routed: &mut Routed<'_, C>) {
        self.unsent = false;
        self.net.transmit(routed);
        service_state::sent();
    }

    /// Whether a rank has taken all records before a mark, or will take no more.
    pub fn is_complete(&self, to: usize, mark: Mark) -> bool {
        self.net.is_complete(to, mark)
    }

    /// Notes that something was put into a FIFO by who cannot send it now: the next look does.
    pub fn note_unsent(&mut self) {
        self.unsent = true;
    }

    /// Whether an interface has something for others that no FIFO has taken yet, as far as it has said so.
    pub fn owes(&self) -> bool {
        self.owing != 0
    }

    /// Whether small records wait for others to go with them.
    pub fn has_unsent(&self) -> bool {
        self.unsent
    }

    /// Whether an interface holds something back until [`Client::advance`] is called next.
    pub fn is_gathering(&self) -> bool {
        self.gathering != 0
    }

    /// How long until a timer is due, if there is one.
    pub fn timeout(&self) -> Option<Duration> {
        self.net.timeout_ns().map(Duration::from_nanos)
    }

    /// Whether nothing waits for the socket, and no timer is set: whatever comes next comes from others or
    /// from the program.
    pub fn is_clear(&self) -> bool {
        self.net.is_clear()
    }

    /// Whether everything sent has been acknowledged, and everything received too.
    pub fn is_quiet(&self) -> bool {
        self.net.is_quiet()
    }

    /// From now on the kernel says when datagrams came, or not any more.
    pub fn stamp_arrivals(&mut self, is_wanted: bool) {
        self.net.stamp_arrivals(is_wanted);
    }

    /// Counts of this rank's datagrams, by what has become of them.
    pub fn traffic(&self) -> Traffic {
        self.net.traffic()
    }
}

/// The clients of all interfaces; that of the one that polls is at hand.
struct Routed<'a, C> {
    own: Option<(RouteId, &'a mut C)>,
    routes: &'a [Route],
}

impl<C: Client> Routed<'_, C> {
    fn with_route<T>(&mut self, route: RouteId, use_client: impl FnOnce(&mut dyn Client) -> T) -> T {
        if let Some((own, client)) = &mut self.own
            && *own == route
        {
            return use_client(*client);
        }
        let lend = self.routes[usize::from(route.0)].lend.expect("a client that is not at hand can be lent");
        let (mut use_client, mut value) = (Some(use_client), None);
        lend(&mut |client| value = use_client.take().map(|use_client| use_client(client)));
        value.expect("a client is lent once")
    }

    fn with<T>(&mut self, tag: u64, use_client: impl FnOnce(&mut dyn Client, u64) -> T) -> T {
        let (route, own) = RouteId::of(tag);
        self.with_route(route, |client| use_client(client, own))
    }

    fn each(&mut self, use_client: &mut dyn FnMut(RouteId, &mut dyn Client)) {
        for route in 0..self.routes.len() as u8 {
            self.with_route(RouteId(route), |client| use_client(RouteId(route), client));
        }
    }

    #[cold]
    fn lent_record(&mut self, from: usize, record: &[u8]) -> Taken {
        let kind = record.first().map(|first| first & !OWN_BIT);
        let takes = |route: &Route| kind.is_some_and(|kind| route.kinds.contains(&kind));
        let Some(route) = self.routes.iter().position(takes) else {
            wrong::count(from, Wrong::Kind);
            return Taken::Yes;
        };
        self.with_route(RouteId(route as u8), |client| client.record(from, record))
    }
}

impl<C: Client> Sink for Routed<'_, C> {
    #[inline]
    fn record(&mut self, from: Rank, record: &[u8]) -> Taken {
        if let (Some((own, client)), Some(first)) = (&mut self.own, record.first())
            && self.routes[usize::from(own.0)].kinds.contains(&(first & !OWN_BIT))
        {
            return client.record(from.0 as usize, record);
        }
        self.lent_record(from.0 as usize, record)
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        self.with(tag, |client, tag| client.fragment(tag, offset, bytes));
    }
}

// SAFETY: as clients promise.
unsafe impl<C: Client> Memory for Routed<'_, C> {
    fn place(&mut self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.with(tag, |client, tag| client.place(tag, offset, bytes))
    }
}

impl<C: Client> Source for Routed<'_, C> {
    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        self.with(tag, |client, tag| client.read(tag, offset, into));
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        let (route, tag) = RouteId::of(tag);
        if let Some((own, client)) = &self.own
            && *own == route
        {
            return client.slice(tag, offset, bytes);
        }
        let lend = self.routes[usize::from(route.0)].lend?;
        let mut found = None;
        lend(&mut |client| {
            // SAFETY: contract of `Client`: the bytes stay until the message is sent, which is after this
            // look.
            found = client.slice(tag, offset, bytes).map(|slice| unsafe { &*std::ptr::from_ref(slice) });
        });
        found
    }
}

/// The client of a look that no interface has begun.
enum Nothing {}

// SAFETY: there is no value of this type.
unsafe impl Client for Nothing {
    fn record(&mut self, _from: usize, _record: &[u8]) -> Taken {
        match *self {}
    }

    fn advance(&mut self, _outbox: &mut Outbox<'_>) {
        match *self {}
    }
}

impl fmt::Debug for Nothing {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
