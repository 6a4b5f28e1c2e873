//! The words of the protocol: who, which incarnation, which message, and when.

/// A rank of the job, counted over all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

/// The secret of a job: 64 random bits in every packet. It goes in clear, so it keeps out strays, not
/// attackers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

/// Changes when a job is restored, migrated or started again, never at a switch. A packet of another
/// incarnation is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u32);

impl Incarnation {
    /// The one so many later.
    #[must_use]
    pub fn after(self, count: u32) -> Incarnation {
        Incarnation(self.0.wrapping_add(count))
    }
}

/// Grows by one at every thaw. Stands only in control messages and never makes data stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation(pub u32);

/// The number of a record in its flow. It wraps; two numbers are compared by half range, which is exact as
/// long as fewer than 2^31 lie between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `count` later.
    #[inline]
    #[must_use]
    pub fn plus(self, count: u32) -> Seq {
        Seq(self.0.wrapping_add(count))
    }

    /// How much later than `other` this is; negative when it is earlier.
    #[inline]
    #[must_use]
    pub fn since(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// Whether this comes before `other`.
    #[inline]
    #[must_use]
    pub fn is_before(self, other: Seq) -> bool {
        self.since(other) < 0
    }
}

/// The name of a bulk message, made by its receiver when it accepts it: a place in the receiver's table and
/// how often that place has been used. So a late copy of a fragment is known as late for ever, and nothing
/// need be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BulkId {
    pub(crate) slot: u32,
    pub(crate) turn: u32,
}

impl BulkId {
    /// As a number, to be sent to the other side in a record.
    #[inline]
    #[must_use]
    pub fn to_bits(self) -> u64 {
        u64::from(self.turn) << 32 | u64::from(self.slot)
    }

    /// From the number that the receiver sent. Any number is a name; the receiver refuses one that it did not
    /// give.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u64) -> BulkId {
        BulkId { slot: (bits & 0xffff_ffff) as u32, turn: (bits >> 32) as u32 }
    }
}

/// The time at a call: library time, that is monotonic time without the time spent frozen, and how often
/// the rank has been thawed. Where the number of thaws has changed, timers start anew and do not fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Library time in nanoseconds, from any start.
    pub ns: u64,
    /// Thaws of this rank so far.
    pub thaw_count: u32,
}

/// Identity of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The job's secret.
    pub key: Key,
    /// The job's present incarnation.
    pub incarnation: Incarnation,
    /// The rank that the endpoint belongs to.
    pub rank: Rank,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seq_compares_across_the_wrap() {
        let last = Seq(u32::MAX);
        assert!(last.is_before(Seq(0)) && !Seq(0).is_before(last));
        assert_eq!(last.plus(3), Seq(2));
        assert_eq!((Seq(2).since(last), last.since(Seq(2))), (3, -3));
    }

    #[test]
    fn bulk_name_round_trips() {
        let id = BulkId { slot: 7, turn: u32::MAX };
        assert_eq!(BulkId::from_bits(id.to_bits()), id);
    }
}
