//! GPUs of a node that are counted, by their numbers. A job gets some of them alone; which ones the
//! controller says.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Variable by which programs with CUDA or HIP find their GPUs: numbers with commas; empty: none.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// GPUs of a node, at most.
const MOST: u32 = 64;
/// Forms that a user may write.
const EXPECTED: &str = "a number of GPUs up to 64, or their numbers, such as 4, 0-3 or 0,2";

/// GPUs of one node, by their numbers from 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Gpus(u64);

impl Gpus {
    /// No GPU.
    pub const NONE: Gpus = Gpus(0);

    /// The numbers from `first` on, without those from 64 on.
    #[must_use]
    pub fn range(first: u32, count: u32) -> Self {
        let numbers = first.min(MOST)..first.saturating_add(count).min(MOST);
        Gpus(numbers.fold(0, |set, number| set | 1 << number))
    }

    /// GPUs of this machine: a device file of NVIDIA's driver each, or a render node of AMD's.
    #[must_use]
    pub fn found() -> Self {
        let of_nvidia = count(Path::new("/dev"), |name| name.strip_prefix("nvidia").is_some_and(is_number));
        let is_of_amd = |name: &str| name.strip_prefix("renderD").is_some_and(is_number);
        let has_amd = Path::new("/dev/kfd").exists();
        let of_amd = || if has_amd { count(Path::new("/dev/dri"), is_of_amd) } else { 0 };
        Gpus::range(0, if of_nvidia > 0 { of_nvidia } else { of_amd() })
    }

    /// How many.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// GPUs of both.
    #[must_use]
    pub fn with(self, other: Gpus) -> Self {
        Gpus(self.0 | other.0)
    }

    /// GPUs that are not in `other`.
    #[must_use]
    pub fn without(self, other: Gpus) -> Self {
        Gpus(self.0 & !other.0)
    }

    /// True if no GPU is in both.
    #[must_use]
    pub fn is_disjoint(self, other: Gpus) -> bool {
        self.0 & other.0 == 0
    }

    /// The `count` lowest of them; none: there are not so many.
    #[must_use]
    pub fn lowest(self, count: u32) -> Option<Self> {
        let chosen = self.numbers().take(count as usize).fold(0, |set, number| set | 1 << number);
        (self.count() >= count).then_some(Gpus(chosen))
    }

    /// Text that is read as these GPUs again, also where it is one.
    #[must_use]
    pub fn spelled(self) -> String {
        match self.count() {
            0 => "none".into(),
            1 => format!("{self}-{self}"),
            _ => self.to_string(),
        }
    }

    fn numbers(self) -> impl Iterator<Item = u32> {
        (0..MOST).filter(move |number| self.0 >> number & 1 == 1)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn count(folder: &Path, is_one: impl Fn(&str) -> bool) -> u32 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| is_one(&entry.file_name().to_string_lossy())).count() as u32
}

/// Numbers with commas, as [`VISIBLE`] has them.
impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.numbers().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{number}")?;
        }
        Ok(())
    }
}

impl FromStr for Gpus {
    type Err = String;

    /// A plain number is how many there are, from 0 on; `4-4` is the one with number 4. `found` are those of
    /// this machine, `none` is none.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not {EXPECTED}");
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|_| !text.trim().starts_with('+'));
        match text {
            "found" => return Ok(Gpus::found()),
            "none" => return Ok(Gpus::NONE),
            _ => {}
        }
        if let Some(count) = number(text) {
            return (count <= MOST).then(|| Gpus::range(0, count)).ok_or_else(wrong);
        }
        let mut all = Gpus::NONE;
        for piece in text.split(',') {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
            if first > last || last >= MOST {
                return Err(wrong());
            }
            let piece = Gpus::range(first, last + 1 - first);
            if !all.is_disjoint(piece) {
                return Err(wrong());
            }
            all = all.with(piece);
        }
        Ok(all)
    }
}

impl TryFrom<String> for Gpus {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Gpus> for String {
    fn from(gpus: Gpus) -> String {
        gpus.spelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted_or_named() {
        let text = |text: &str| text.parse::<Gpus>().unwrap().to_string();
        assert_eq!(
            ["4", "0-3", "0,2", "4-4", "1-2,5", "0", "none"].map(text),
            ["0,1,2,3", "0,1,2,3", "0,2", "4", "1,2,5", "", ""]
        );
        assert_eq!("64".parse::<Gpus>().unwrap().count(), 64);
        for wrong in ["", "65", "3-1", "0-64", "a", "1,1", "0-2,2", "-1", "1,", "99999999999", "0-4294967295"]
        {
            assert!(wrong.parse::<Gpus>().unwrap_err().contains("such as 4"), "{wrong}");
        }
    }

    #[test]
    fn gpus_are_given_out_from_the_lowest_on() {
        let all: Gpus = "1-4".parse().unwrap();
        let first = all.lowest(2).unwrap();
        let second = all.without(first).lowest(2).unwrap();
        assert_eq!((first.to_string(), second.to_string()), ("1,2".into(), "3,4".into()));
        assert!(first.is_disjoint(second) && first.with(second) == all);
        assert_eq!((all.lowest(5), all.lowest(0)), (None, Some(Gpus::NONE)));
        for some in [Gpus::NONE, first, all, Gpus::range(7, 1)] {
            assert_eq!(some.spelled().parse(), Ok(some));
        }
    }
}
