//! Faults on purpose: another transport with loss, duplication, reordering and delay of what is sent.
//!
//! `TUTTI_FAULTS="loss=1%,dup=0.5%,reorder=2%,delay=1%,seed=7"` switches it on for a job. Fates are drawn
//! from the seed and the peer's number, one for each datagram offered, so one peer's fates depend on nothing
//! but what it sends.
//!
//! | fault | what happens to a datagram |
//! |---|---|
//! | loss | it is never sent |
//! | dup | it is sent twice |
//! | reorder | it is sent after the next 1 to 3, or after 16 looks for arrivals if no more come |
//! | delay | it is sent after 1 to 256 looks for arrivals |

use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;

use tutti_testkit::{Random, mix};

use crate::{Arrival, Budget, Counters, Datagram, Made, Outgoing, Places, Transport};

/// Environment variable that holds [`Faults`].
pub const FAULTS_VARIABLE: &str = "TUTTI_FAULTS";
/// Datagrams held back at a time; beyond it they are not held back.
const HELD_MAX: usize = 1024;
/// Looks for arrivals after which a reordered datagram is sent although none has followed it.
const REORDER_LOOKS: u32 = 16;

/// Which faults, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Of 2^32 datagrams so many are lost.
    loss: u32,
    duplication: u32,
    reordering: u32,
    delay: u32,
    seed: u64,
}

/// Why a text does not describe faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "TUTTI_FAULTS holds {0:?}, expected a list of loss=P%, dup=P%, reorder=P%, delay=P% (together at most 100 %) and seed=N"
)]
pub struct BadFaults(pub String);

impl FromStr for Faults {
    type Err = BadFaults;

    fn from_str(text: &str) -> Result<Self, BadFaults> {
        let bad = || BadFaults(text.to_owned());
        let mut faults = Faults::default();
        let mut sum = 0;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').ok_or_else(bad)?;
            let share = match name {
                "loss" => &mut faults.loss,
                "dup" => &mut faults.duplication,
                "reorder" => &mut faults.reordering,
                "delay" => &mut faults.delay,
                "seed" => {
                    faults.seed = value.parse().map_err(|_| bad())?;
                    continue;
                }
                _ => return Err(bad()),
            };
            *share = share_of(value).ok_or_else(bad)?;
            sum += u64::from(*share);
        }
        if sum > 1 << 32 { Err(bad()) } else { Ok(faults) }
    }
}

/// `0.5%` of 2^32.
fn share_of(text: &str) -> Option<u32> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then(|| (percent / 100.0 * f64::from(u32::MAX)) as u32)
}

impl Faults {
    /// Faults that the environment asks for, if any.
    ///
    /// # Errors
    /// When the variable holds something else.
    pub fn from_environment() -> Result<Option<Self>, BadFaults> {
        match std::env::var(FAULTS_VARIABLE) {
            Ok(text) if !text.is_empty() => text.parse().map(Some),
            Err(std::env::VarError::NotUnicode(text)) => Err(BadFaults(text.to_string_lossy().into_owned())),
            _ => Ok(None),
        }
    }
}

/// Fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Sent,
    Lost,
    Twice,
    /// After so many datagrams or looks.
    Held {
        datagrams: u32,
        looks: u32,
    },
}

/// A transport with faults.
#[derive(Debug)]
pub struct Faulty<T> {
    inner: T,
    faults: Faults,
    random: Random,
    held: Vec<Held>,
    made: Made,
}

#[derive(Debug)]
struct Held {
    peer: u32,
    bytes: Vec<u8>,
    datagrams: u32,
    looks: u32,
}

impl<T: Transport> Faulty<T> {
    /// Gives `inner`, which is that of peer `own`, faults.
    pub fn new(inner: T, faults: Faults, own: u32) -> Self {
        // Spread, so that neighbouring seeds and peers have nothing in common.
        let random = Random::new(mix(faults.seed ^ mix(u64::from(own))));
        Faulty { inner, faults, random, held: Vec::new(), made: Made::default() }
    }

    fn fate(&mut self) -> Fate {
        let drawn = self.random.number();
        let (place, detail) = (drawn as u32, (drawn >> 32) as u32);
        let Faults { loss, duplication, reordering, delay, .. } = self.faults;
        let mut end = 0_u32;
        let mut within = |share: u32| {
            let begin = end;
            end = end.saturating_add(share);
            (begin..end).contains(&place)
        };
        if within(loss) {
            Fate::Lost
        } else if within(duplication) {
            Fate::Twice
        } else if within(reordering) {
            Fate::Held { datagrams: 1 + detail % 3, looks: REORDER_LOOKS }
        } else if within(delay) {
            Fate::Held { datagrams: u32::MAX, looks: 1 + detail % 256 }
        } else {
            Fate::Sent
        }
    }

    /// Sends those whose time has come; one that finds no room is lost.
    fn release(&mut self) -> io::Result<()> {
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].datagrams > 0 && self.held[index].looks > 0 {
                index += 1;
                continue;
            }
            let Held { peer, bytes, .. } = self.held.remove(index);
            self.inner.send(&[Outgoing { peer, head: &bytes, body: &[] }])?;
        }
        Ok(())
    }

    fn pass(&mut self, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
        if datagrams.is_empty() {
            return Ok(0);
        }
        let passed = self.inner.send(datagrams)?;
        for held in self.held.iter_mut().filter(|held| held.datagrams < u32::MAX) {
            held.datagrams = held.datagrams.saturating_sub(passed as u32);
        }
        Ok(passed)
    }

    /// The looks for which datagrams are held back are counted here.
    fn look(&mut self) -> io::Result<()> {
        if !self.held.is_empty() {
            self.held.iter_mut().for_each(|held| held.looks -= 1);
            self.release()?;
        }
        Ok(())
    }
}

impl<T: Transport> Transport for Faulty<T> {
    fn peers(&self) -> usize {
        self.inner.peers()
    }

    fn datagram_bytes_max(&self) -> usize {
        self.inner.datagram_bytes_max()
    }

    fn budget(&self) -> &Budget {
        self.inner.budget()
    }

    fn refusal(&self) -> Option<(u32, io::Error)> {
        self.inner.refusal()
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize> {
        // What is left goes on together: a loss in the network would not cut the runs that the kernel gets.
        let (mut kept, mut places) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for (index, datagram) in batch.iter().enumerate() {
            let fate = match self.fate() {
                Fate::Held { .. } if self.held.len() >= HELD_MAX => Fate::Sent,
                fate => fate,
            };
            match fate {
                Fate::Lost => self.made.lost += 1,
                Fate::Sent => {
                    kept.push(*datagram);
                    places.push(index);
                }
                Fate::Twice => {
                    self.made.doubled += 1;
                    kept.extend([*datagram; 2]);
                    places.extend([index; 2]);
                }
                Fate::Held { datagrams, looks } => {
                    let passed = self.pass(&kept)?;
                    if let Some(first_left) = places.get(passed) {
                        return Ok(*first_left);
                    }
                    kept.clear();
                    places.clear();
                    self.release()?;
                    let bytes = [datagram.head, datagram.body].concat();
                    self.held.push(Held { peer: datagram.peer, bytes, datagrams, looks });
                    self.made.late += 1;
                }
            }
        }
        let passed = self.pass(&kept)?;
        self.release()?;
        Ok(places.get(passed).copied().unwrap_or(batch.len()))
    }

    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        self.look()?;
        self.inner.receive(take)
    }

    fn receive_placed(
        &mut self,
        places: &Places,
        take: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> io::Result<usize> {
        self.look()?;
        self.inner.receive_placed(places, take)
    }

    fn counters(&self) -> Counters {
        Counters { made: self.made, ..self.inner.counters() }
    }

    fn stamp_arrivals(&mut self, is_wanted: bool) {
        self.inner.stamp_arrivals(is_wanted);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim;

    /// Numbers of the datagrams that arrive, of `count` that are sent one by one, after all looks.
    fn arrivals(faults: &str, count: u32) -> Vec<u32> {
        made(faults, count).0
    }

    /// The same, and what was done to them.
    fn made(faults: &str, count: u32) -> (Vec<u32>, Made) {
        let mut ends = sim::network(2, 1 << 30, 64);
        let mut receiver = ends.pop().unwrap();
        let mut sender = Faulty::new(ends.pop().unwrap(), faults.parse().unwrap(), 0);
        for number in 0..count {
            let head = number.to_le_bytes();
            assert_eq!(sender.send(&[Outgoing { peer: 1, head: &head, body: &[] }]).unwrap(), 1);
            sender.receive(&mut |_| panic!("nothing is sent there")).unwrap();
        }
        for _ in 0..256 {
            sender.receive(&mut |_| panic!("nothing is sent there")).unwrap();
        }
        assert!(sender.held.is_empty());
        let mut arrived = Vec::new();
        let mut take = |datagram: Datagram<'_>| {
            arrived.push(u32::from_le_bytes(datagram.bytes.try_into().expect("four bytes")));
        };
        while receiver.receive(&mut take).unwrap() > 0 {}
        (arrived, sender.counters().made)
    }

    #[test]
    fn faults_occur_at_their_rate_and_repeat_with_the_seed() {
        const COUNT: u32 = 100_000;
        let in_order: Vec<u32> = (0..COUNT).collect();
        assert!(arrivals("", COUNT) == in_order);
        let (arrived, faults) = made("loss=1%,seed=3", COUNT);
        let lost = u64::from(COUNT) - arrived.len() as u64;
        assert!((900..1100).contains(&lost), "{lost} of {COUNT} are lost");
        assert_eq!(faults, Made { lost, ..Made::default() });
        let (arrived, faults) = made("dup=0.5%,seed=3", COUNT);
        let doubled = arrived.len() as u64 - u64::from(COUNT);
        assert!((430..570).contains(&doubled), "{doubled} of {COUNT} came twice");
        assert_eq!(faults, Made { doubled, ..Made::default() });
        for (faults, apart_max) in [("reorder=2%,seed=3", 8), ("delay=2%,seed=3", 256)] {
            let (mut arrived, late) = made(faults, COUNT);
            assert!((1800..2200).contains(&late.late), "{faults}: {late:?}");
            assert_eq!(late, Made { late: late.late, ..Made::default() });
            let apart = arrived.iter().enumerate().map(|(at, number)| number.abs_diff(at as u32)).max();
            assert!((1..=apart_max).contains(&apart.unwrap()), "{faults}: {apart:?} places apart");
            arrived.sort_unstable();
            assert!(arrived == in_order, "{faults}: lost or twice");
        }
        let all = "loss=5%,dup=5%,reorder=5%,delay=5%,seed=";
        assert_eq!(arrivals(&format!("{all}1"), 1000), arrivals(&format!("{all}1"), 1000));
        assert_ne!(arrivals(&format!("{all}1"), 1000), arrivals(&format!("{all}2"), 1000));
        assert!(arrivals("loss=100%", 1000).is_empty());
    }

    #[test]
    fn faults_bad_description_is_refused() {
        for text in
            ["loss", "loss=1", "loss=-1%", "loss=101%", "x=1%", "seed=x", "loss=60%,dup=60%", "loss=NaN%"]
        {
            assert_eq!(text.parse::<Faults>(), Err(BadFaults(text.into())));
        }
        assert_eq!("".parse(), Ok(Faults::default()));
        assert_eq!(" seed=7 , loss=0%".parse(), Ok(Faults { seed: 7, ..Faults::default() }));
    }
}
