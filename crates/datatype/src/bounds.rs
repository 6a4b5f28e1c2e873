//! Size, bounds and alignment of a type (MPI 5.1: lower bound, upper bound, extent, true extent).
//!
//! Numbers are 128 bits wide: counts of 63 bits may be nested, and what leaves the range of the result type
//! is reported by the caller, not lost here. What leaves even 128 bits has no bounds.
//!
//! A type that the user has set no upper bound of ends where the last of its old elements does, with what was
//! added to that for alignment, as in Open MPI: an array of the type has room for all of them. The standard
//! leaves that open (5.1.6).

/// Bounds of the data of one element, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of data.
    pub size: i128,
    /// First byte of the data and the one behind the last; none when there are no data.
    data: Option<(i128, i128)>,
    /// Where the last element ends of which the type was made; that of the data for basic types.
    end: i128,
    /// Lower bound set by the user.
    lower_marker: Option<i128>,
    /// Upper bound set by the user.
    upper_marker: Option<i128>,
    /// Largest alignment of a basic type inside.
    align: i128,
}

impl Bounds {
    /// Of nothing.
    pub const EMPTY: Bounds =
        Bounds { size: 0, data: None, end: 0, lower_marker: None, upper_marker: None, align: 1 };

    /// Of a basic type.
    pub const fn basic(size: usize, align: usize) -> Self {
        Bounds { align: align as i128, ..Self::of_data(size as i128, 0, size as i128) }
    }

    /// Of a predefined type with gaps: `size` bytes of data in the first `end` bytes.
    pub const fn with_gaps(size: usize, end: usize, align: usize) -> Self {
        Bounds { size: size as i128, ..Self::basic(end, align) }
    }

    /// Of `size` bytes of data between two places.
    pub const fn of_data(size: i128, begin: i128, end: i128) -> Self {
        Bounds { size, data: Some((begin, end)), end, ..Self::EMPTY }
    }

    /// Of MPI_LB.
    pub const LOWER_MARKER: Bounds = Bounds { lower_marker: Some(0), ..Self::EMPTY };

    /// Of MPI_UB.
    pub const UPPER_MARKER: Bounds = Bounds { upper_marker: Some(0), ..Self::EMPTY };

    /// Lower bound.
    pub fn lower(&self) -> i128 {
        self.lower_marker.unwrap_or_else(|| self.true_lower())
    }

    /// Upper bound: set by the user, or the end of the elements rounded so that the next one is aligned.
    pub fn upper(&self) -> i128 {
        match (self.upper_marker, self.data) {
            (Some(marker), _) => marker,
            (None, None) => self.lower(),
            (None, Some(_)) => {
                let lower = self.lower();
                lower + (self.end - lower + self.align - 1).div_euclid(self.align) * self.align
            }
        }
    }

    /// Distance from one element to the next.
    pub fn extent(&self) -> i128 {
        self.upper() - self.lower()
    }

    /// First byte of the data.
    pub fn true_lower(&self) -> i128 {
        self.data.map_or(0, |(begin, _)| begin)
    }

    /// Distance from the first byte of the data to the last.
    pub fn true_extent(&self) -> i128 {
        self.data.map_or(0, |(begin, end)| end - begin)
    }

    /// Whether all of it can be an address or a number of bytes of this machine.
    pub fn fit_memory(&self) -> bool {
        let (begin, end) = self.data.unwrap_or((0, 0));
        [self.size, begin, end, self.true_extent(), self.lower(), self.upper(), self.extent()]
            .into_iter()
            .all(|number| isize::try_from(number).is_ok())
    }

    /// Of `count` copies, `stride` bytes apart.
    pub fn repeat(&self, count: i64, stride: i128) -> Option<Self> {
        if count == 0 {
            return Some(Self::EMPTY);
        }
        let last = stride.checked_mul(i128::from(count - 1))?;
        // As an element it ends where the next one may begin.
        let near = Bounds { end: if self.data.is_some() { self.upper() } else { 0 }, ..*self };
        let far = near.shift(last)?;
        Bounds { size: self.size.checked_mul(i128::from(count))?, ..near.hull(&far) }.checked()
    }

    /// The same, `by` bytes further.
    pub fn shift(&self, by: i128) -> Option<Self> {
        let moved = |place: i128| place.checked_add(by);
        let data = match self.data {
            None => None,
            Some((begin, end)) => Some((moved(begin)?, moved(end)?)),
        };
        let end = if self.data.is_some() { moved(self.end)? } else { 0 };
        let marker = |place: Option<i128>| match place {
            None => Some(None),
            Some(place) => moved(place).map(Some),
        };
        let (lower_marker, upper_marker) = (marker(self.lower_marker)?, marker(self.upper_marker)?);
        Bounds { data, end, lower_marker, upper_marker, ..*self }.checked()
    }

    /// Of both together.
    pub fn and(&self, other: &Self) -> Option<Self> {
        Bounds { size: self.size.checked_add(other.size)?, ..self.hull(other) }.checked()
    }

    /// With bounds set by the user; older ones are forgotten.
    pub fn resized(&self, lower: i128, extent: i128) -> Option<Self> {
        let upper = lower.checked_add(extent)?;
        Bounds { lower_marker: Some(lower), upper_marker: Some(upper), ..*self }.checked()
    }

    fn hull(&self, other: &Self) -> Self {
        let both = |a: Option<i128>, b: Option<i128>, choose: fn(i128, i128) -> i128| match (a, b) {
            (Some(a), Some(b)) => Some(choose(a, b)),
            (a, b) => a.or(b),
        };
        Bounds {
            size: self.size,
            data: match (self.data, other.data) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (a, b) => a.or(b),
            },
            end: match (self.data, other.data) {
                (Some(_), Some(_)) => self.end.max(other.end),
                (Some(_), None) => self.end,
                _ => other.end,
            },
            lower_marker: both(self.lower_marker, other.lower_marker, i128::min),
            upper_marker: both(self.upper_marker, other.upper_marker, i128::max),
            align: self.align.max(other.align),
        }
    }

    /// Itself, if later sums and differences of two of its numbers cannot overflow.
    fn checked(self) -> Option<Self> {
        const PLACES: std::ops::Range<i128> = -(1 << 125)..(1 << 126) - 16;
        let (begin, end) = self.data.unwrap_or((0, 0));
        let places = [begin, end, self.end, self.lower_marker.unwrap_or(0), self.upper_marker.unwrap_or(0)];
        (self.size < 1 << 126 && places.iter().all(|place| PLACES.contains(place))).then_some(self)
    }
}
