//! Cables do to datagrams what they are asked to, counted datagram by datagram.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tutti_testkit::lab::{Lab, Terms};
use tutti_testkit::{LIMIT, Need, await_that, skip};

use crate::udp_at;

/// A lab of two machines, of which the second one's cable does something.
fn lab_with(terms: Terms) -> Option<Lab> {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can make sockets in the machines");
        return None;
    }
    let lab = Lab::new(2)?;
    lab.node(1).set_cable(terms).expect("a cable");
    Some(lab)
}

/// Sends numbered datagrams, few enough at a time for any queue, and gives the numbers that come. More are
/// sent when enough of those that were sent have come: `is_enough` is given how many were sent and have come.
fn through_when(
    [from, to]: [&UdpSocket; 2],
    numbers: std::ops::Range<u32>,
    bytes: usize,
    is_enough: impl Fn(usize, usize) -> bool,
) -> Vec<u32> {
    const AT_ONCE: u32 = 50;
    to.set_read_timeout(Some(Duration::from_millis(60))).expect("a socket");
    let target = to.local_addr().expect("bound");
    let mut came = Vec::new();
    let mut next = numbers.start;
    while next < numbers.end {
        for _ in 0..AT_ONCE.min(numbers.end - next) {
            let mut datagram = vec![0; bytes];
            datagram[..4].copy_from_slice(&next.to_ne_bytes());
            from.send_to(&datagram, target).expect("sent");
            next += 1;
        }
        let mut datagram = vec![0; 65536];
        let sent = (next - numbers.start) as usize;
        await_that("the datagrams are through", || {
            while let Ok((length, _)) = to.recv_from(&mut datagram) {
                let number = u32::from_ne_bytes(datagram[..4].try_into().expect("four bytes"));
                // Others are of an earlier look, and late.
                if numbers.contains(&number) {
                    assert_eq!(length, bytes);
                    came.push(number);
                }
            }
            is_enough(sent, came.len())
        });
    }
    came
}

/// The same, where none need come.
fn through(from: &UdpSocket, to: &UdpSocket, numbers: std::ops::Range<u32>, bytes: usize) -> Vec<u32> {
    through_when([from, to], numbers, bytes, |_, _| true)
}

/// Both know where the other one is: nothing but datagrams is under way after it.
fn acquaint(lab: &Lab, sockets: &[&UdpSocket; 2]) {
    lab.node(1).set_cable(Terms::default()).expect("a cable");
    for (from, to) in [(0, 1), (1, 0)] {
        await_that("a datagram comes", || {
            let number = 4_000_000_000;
            through(sockets[from], sockets[to], number..number + 1, 4) == [number]
        });
    }
}

#[test]
fn lab_plain_cable_gives_every_datagram_in_order() {
    let Some(lab) = lab_with(Terms::default()) else { return };
    let (a, b) = (udp_at(&lab, 0), udp_at(&lab, 1));
    let came = through_when([&a, &b], 0..500, 1000, |sent, came| came >= sent);
    assert_eq!(came, (0..500).collect::<Vec<_>>());
    assert_eq!(lab.node(1).frames().unwrap(), None, "the kernel carries");
}

#[test]
fn lab_cable_loses_doubles_and_reorders_the_asked_share_of_datagrams() {
    let Some(lab) = lab_with(Terms::default()) else { return };
    let (a, b) = (udp_at(&lab, 0), udp_at(&lab, 1));
    acquaint(&lab, &[&a, &b]);
    // The sockets stay; their machine gets another cable.
    lab.node(1).set_cable(Terms::default().delay_us(1)).expect("a cable");
    await_that("a datagram comes", || !through(&a, &b, 4_000_000_000..4_000_000_001, 4).is_empty());
    let counts = || lab.node(1).frames().unwrap().expect("counted")[1];

    let before = counts();
    lab.node(1).set_cable(Terms::default().loss(20.0)).expect("a cable");
    let lost = || (counts().lost - before.lost) as usize;
    let came = through_when([&a, &b], 0..1000, 100, |sent, came| came + lost() >= sent);
    let lost = lost();
    assert!((120..280).contains(&lost), "{lost} of 1000 are lost");
    assert!(came.len() <= 1000 - lost + 20 && came.len() + lost >= 1000, "{} and {lost}", came.len());
    assert!(came.is_sorted(), "none overtakes another");

    let before = counts();
    lab.node(1).set_cable(Terms::default().duplication(10.0)).expect("a cable");
    let doubled = || (counts().doubled - before.doubled) as usize;
    // A few frames are not datagrams.
    let is_enough = |sent, came| came >= sent && came + 20 > sent + doubled();
    let came = through_when([&a, &b], 1000..2000, 100, is_enough);
    let doubled = doubled();
    let mut distinct = came.clone();
    distinct.dedup();
    assert!((50..170).contains(&doubled), "{doubled} of 1000 come twice");
    assert!(distinct.len() == 1000 && came.len() + 20 > 1000 + doubled, "{} and {doubled}", came.len());

    lab.node(1).set_cable(Terms::default().reordering(10.0)).expect("a cable");
    let came = through_when([&a, &b], 2000..3000, 100, |sent, came| came >= sent);
    let overtakings = came.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(came.len() == 1000 && overtakings >= 10, "{} came, {overtakings} overtakings", came.len());
}

#[test]
fn lab_cable_delays_and_limits_its_rate() {
    let Some(lab) = lab_with(Terms::default()) else { return };
    let (a, b) = (udp_at(&lab, 0), udp_at(&lab, 1));
    acquaint(&lab, &[&a, &b]);
    lab.node(1).set_cable(Terms::default().delay_us(30_000)).expect("a cable");
    b.set_read_timeout(Some(LIMIT)).expect("a socket");
    let takes = |datagrams: u32, bytes: usize| {
        let began = Instant::now();
        for _ in 0..datagrams {
            a.send_to(&vec![0; bytes], b.local_addr().unwrap()).expect("sent");
        }
        for _ in 0..datagrams {
            b.recv(&mut [0; 2000]).expect("it comes");
        }
        began.elapsed()
    };
    assert!(takes(1, 10) >= Duration::from_millis(30));
    lab.node(1).set_cable(Terms::default().rate_bits(8_000_000)).expect("a cable");
    takes(1, 10);
    // 50 datagrams of 1,000 bytes at a megabyte a second.
    assert!(takes(50, 1000) >= Duration::from_millis(49));
}

#[test]
fn lab_cable_has_the_asked_mtu_with_and_without_loss() {
    for terms in [Terms::default().mtu(9000), Terms::default().mtu(9000).delay_us(1)] {
        if !rustix::process::geteuid().is_root() {
            return skip(Need::Root, "only root can make sockets in the machines");
        }
        let Some(lab) = Lab::of(&Lab::plan(2).cables(terms)) else { return };
        assert_eq!(lab.node(0).run(&["cat", "/sys/class/net/eth0/mtu"]), "9000\n");
        let (a, b) = (udp_at(&lab, 0), udp_at(&lab, 1));
        await_that("a datagram comes", || !through(&a, &b, 0..1, 8000).is_empty());
        lab.node(1).set_cable(terms.mtu(1500)).expect("a cable");
        assert_eq!(lab.node(1).run(&["cat", "/sys/class/net/eth0/mtu"]), "1500\n");
    }
}

#[test]
fn lab_cable_that_is_cut_has_no_carrier_and_a_silent_one_looks_well() {
    for terms in [Terms::default(), Terms::default().delay_us(1)] {
        let Some(lab) = lab_with(terms) else { return };
        let (a, b) = (udp_at(&lab, 0), udp_at(&lab, 1));
        let carrier = || lab.node(1).run(&["cat", "/sys/class/net/eth0/carrier"]);
        let comes = || !through(&a, &b, 0..1, 8).is_empty();
        await_that("a datagram comes", comes);
        lab.node(1).cut();
        await_that("the link is down", || carrier() == "0\n");
        assert!(!comes());
        lab.node(1).mend();
        await_that("the link is up", || carrier() == "1\n");
        await_that("a datagram comes", comes);
        lab.node(1).silence();
        assert!(!comes() && carrier() == "1\n");
        lab.node(1).mend();
        await_that("a datagram comes", comes);
        let refused = b.recv(&mut [0; 8]).err().map(|error| error.kind());
        assert!(matches!(refused, None | Some(ErrorKind::WouldBlock)));
    }
}
