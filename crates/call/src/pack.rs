//! Small posts on their way into one message (packing); pure.
//!
//! | post to a rank | what becomes of it |
//! |---|---|
//! | the first since the last wait | leaves at once, alone |
//! | those behind it, the *burst* | kept; they leave together |
//!
//! They leave when the message is full, when a call for that rank follows, with the next wait, or by the
//! thread that serves quick calls.
//!
//! So a lone post is not delayed, and posts and calls of one rank to another keep their order.

use crate::function::Name;
use crate::wire::{POSTS_BYTES, Posts};

/// Bytes of arguments of a post that is worth packing, at most.
pub(crate) const PACKED_BYTES_MAX: usize = 256;

/// Posts that leave together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pack {
    /// Message with all of them.
    pub(crate) message: Vec<u8>,
    /// Number of them.
    pub(crate) posts: u64,
}

/// Fate of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The first of a burst: the caller sends it.
    Alone,
    /// Kept.
    Kept,
    /// Kept behind others, which leave now.
    Full(Pack),
}

#[derive(Clone, Debug, Default)]
struct Peer {
    is_burst: bool,
    pack: Pack,
}

/// Posts that are kept, by rank.
#[derive(Debug)]
pub(crate) struct Packs {
    peers: Vec<Peer>,
    /// Ranks with a burst.
    bursts: Vec<usize>,
    message_bytes: usize,
}

impl Packs {
    /// State without posts. A message has so many bytes at most.
    pub(crate) fn new(ranks: usize, message_bytes: usize) -> Self {
        assert!(message_bytes >= POSTS_BYTES + Posts::bytes_of(PACKED_BYTES_MAX), "one post fits");
        Packs { peers: vec![Peer::default(); ranks], bursts: Vec::new(), message_bytes }
    }

    /// A post of at most [`PACKED_BYTES_MAX`] bytes of arguments.
    pub(crate) fn add(&mut self, to: usize, name: Name, signature: u64, arguments: &[u8]) -> Added {
        let peer = &mut self.peers[to];
        if !peer.is_burst {
            peer.is_burst = true;
            self.bursts.push(to);
            return Added::Alone;
        }
        let bytes = peer.pack.message.len() + Posts::bytes_of(arguments.len());
        let full = (bytes > self.message_bytes).then(|| std::mem::take(&mut peer.pack));
        if peer.pack.message.is_empty() {
            peer.pack.message = Posts::begin(self.message_bytes);
        }
        Posts::add(&mut peer.pack.message, name, signature, arguments);
        peer.pack.posts += 1;
        full.map_or(Added::Kept, Added::Full)
    }

    /// Posts to a rank, which leave before what follows; none if there are none.
    pub(crate) fn take(&mut self, to: usize) -> Option<Pack> {
        let pack = &mut self.peers[to].pack;
        (pack.posts > 0).then(|| std::mem::take(pack))
    }

    /// Posts to each rank. The bursts go on.
    pub(crate) fn take_all(&mut self) -> Vec<(usize, Pack)> {
        let bursts = std::mem::take(&mut self.bursts);
        let taken = bursts.iter().filter_map(|to| Some((*to, self.take(*to)?))).collect();
        self.bursts = bursts;
        taken
    }

    /// Ends all bursts: the next post to each rank leaves at once. Nothing is kept any more.
    pub(crate) fn end_bursts(&mut self) {
        for to in self.bursts.drain(..) {
            let peer = &mut self.peers[to];
            debug_assert_eq!(peer.pack.posts, 0, "posts leave before their burst ends");
            peer.is_burst = false;
        }
    }

    /// Whether a burst is under way.
    pub(crate) fn has_bursts(&self) -> bool {
        !self.bursts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Message;

    fn numbers(pack: &Pack) -> Vec<u64> {
        let Some(Message::Posts(posts)) = Message::decode(&pack.message) else {
            panic!("no posts: {pack:?}")
        };
        let found: Vec<u64> = posts.map(|post| post.signature).collect();
        assert_eq!(found.len() as u64, pack.posts);
        found
    }

    /// Whatever is added and taken in which order, each post leaves once and behind those before it.
    #[test]
    fn packs_keep_each_post_once_and_in_order() {
        let name = Name { module: 1, offset: 8 };
        for seed in 1..40_u64 {
            let mut random = seed;
            let mut next = move |below: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                (random >> 33) as usize % below
            };
            let mut packs = Packs::new(3, 1024);
            let (mut sent, mut left) = ([0_u64; 3], [0_u64; 3]);
            let mut leave = |to: usize, numbers: Vec<u64>| {
                for number in numbers {
                    assert_eq!(number, left[to], "seed {seed}, rank {to}");
                    left[to] += 1;
                }
            };
            for _ in 0..3000 {
                let to = next(3);
                match next(40) {
                    0 => {
                        packs.take_all().into_iter().for_each(|(to, pack)| leave(to, numbers(&pack)));
                        packs.end_bursts();
                        assert!(!packs.has_bursts());
                    }
                    1 => packs.take_all().into_iter().for_each(|(to, pack)| leave(to, numbers(&pack))),
                    2 => packs.take(to).into_iter().for_each(|pack| leave(to, numbers(&pack))),
                    _ => {
                        let number = sent[to];
                        sent[to] += 1;
                        match packs.add(to, name, number, &vec![7; next(PACKED_BYTES_MAX + 1)]) {
                            Added::Alone => leave(to, vec![number]),
                            Added::Kept => {}
                            Added::Full(pack) => {
                                assert!(pack.message.len() <= 1024);
                                leave(to, numbers(&pack));
                            }
                        }
                    }
                }
            }
            packs.take_all().into_iter().for_each(|(to, pack)| leave(to, numbers(&pack)));
            assert_eq!(left, sent, "seed {seed}");
        }
    }

    #[test]
    fn packs_send_a_lone_post_at_once() {
        let mut packs = Packs::new(1, 1024);
        let name = Name { module: 1, offset: 8 };
        assert_eq!(packs.add(0, name, 0, &[]), Added::Alone);
        assert_eq!(packs.add(0, name, 1, &[]), Added::Kept);
        assert_eq!(packs.take_all().len(), 1);
        assert_eq!(packs.add(0, name, 2, &[]), Added::Kept, "the burst goes on");
        assert_eq!(packs.take_all().len(), 1);
        packs.end_bursts();
        assert_eq!(packs.add(0, name, 3, &[]), Added::Alone);
    }
}
