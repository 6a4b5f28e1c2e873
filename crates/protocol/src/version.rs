//! Versions of what outlives a program, or is shared by programs that are replaced one after the other
//! (SPECIFICATION.md, "Releases").
//!
//! A program speaks a range of versions. Two of them speak the highest that both know; where there is none,
//! each says so in one line that names both releases. Within a version values grow as [`crate::codec`] says
//! (JSON alike: a field more has a default, an unknown one is skipped). What an older reader must understand
//! needs another version.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The release of this program.
pub const RELEASE: &str = if cfg!(feature = "next-wire") {
    concat!(env!("CARGO_PKG_VERSION"), "+next")
} else {
    env!("CARGO_PKG_VERSION")
};

/// The release before which daemons began a link without saying their versions, and how TLS names that wire.
pub const SILENT: (&str, &[u8]) = ("0.1.0", b"tutti/2");

/// How TLS names the wire of daemons that begin with a [`Greeting`].
pub const ALPN: &[u8] = b"tutti-wire";

/// Versions from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The first.
    pub min: u32,
    /// The last.
    pub max: u32,
}

impl Versions {
    /// The last that is in both.
    pub fn agree(self, other: Versions) -> Option<u32> {
        let agreed = self.max.min(other.max);
        (agreed >= self.min.max(other.min)).then_some(agreed)
    }
}

impl Default for Versions {
    /// Versions of a program that does not say them: of release 0.2.0.
    fn default() -> Self {
        Versions { min: 3, max: 3 }
    }
}

/// Versions that daemons, starters, front ends and users' commands of this release speak.
pub const WIRE: Versions = Versions { min: 3, max: if cfg!(feature = "next-wire") { 4 } else { 3 } };

/// Field that a later release might add.
#[cfg(feature = "next-wire")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next(Vec<String>);

#[cfg(feature = "next-wire")]
impl Default for Next {
    fn default() -> Self {
        Next(vec!["a field more".into(); 3])
    }
}

/// How a program begins: on a link of daemons the first message of both, of a starter a part of what it says
/// to a daemon that takes it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// Versions that the program speaks.
    pub wire: Versions,
    /// Release of the program.
    pub release: String,
    /// A field more, as a later release may have it.
    #[cfg(feature = "next-wire")]
    #[serde(default)]
    pub next: Next,
}

impl Greeting {
    /// Ours.
    pub fn ours() -> Self {
        Greeting::of(WIRE, RELEASE)
    }

    /// Of a program of this release.
    pub fn of(wire: Versions, release: &str) -> Self {
        Greeting {
            wire,
            release: release.into(),
            #[cfg(feature = "next-wire")]
            next: Next::default(),
        }
    }
}

impl Default for Greeting {
    /// Of a program that does not say it: of release 0.2.0.
    fn default() -> Self {
        Greeting::of(Versions::default(), "0.2.0")
    }
}

/// Two programs have no version in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// Versions that the other one speaks; none: it does not say.
    pub wire: Option<Versions>,
    /// Release of the other one.
    pub release: String,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, Versions { min, max }| match min == max {
            true => write!(f, " (wire {min})"),
            false => write!(f, " (wire {min} to {max})"),
        };
        write!(f, "it is of release {}", clean(&self.release))?;
        self.wire.map_or(Ok(()), |wire| range(f, wire))?;
        write!(f, ", this one of {RELEASE}")?;
        range(f, WIRE)?;
        f.write_str(": they do not speak with each other; releases that follow each other do, from 0.2.0 on")
    }
}

/// Name of another program's release, short and on one line.
fn clean(release: &str) -> String {
    release.chars().filter(|char| char.is_ascii_graphic()).take(32).collect()
}

/// The version that is spoken with who has begun so.
///
/// # Errors
/// When there is none.
pub fn agree(greeting: &Greeting) -> Result<u32, Stranger> {
    let Greeting { wire, release, .. } = greeting;
    WIRE.agree(*wire).ok_or_else(|| Stranger { wire: Some(*wire), release: release.clone() })
}

/// Of a daemon that does not say its versions.
pub fn silent() -> Stranger {
    Stranger { wire: None, release: SILENT.0.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(min: u32, max: u32) -> Versions {
        Versions { min, max }
    }

    #[test]
    fn versions_agree_on_the_last_that_both_know() {
        for (one, other, agreed) in [
            (versions(3, 3), versions(3, 3), Some(3)),
            (versions(3, 3), versions(3, 4), Some(3)),
            (versions(3, 5), versions(4, 4), Some(4)),
            (versions(3, 3), versions(4, 5), None),
            (versions(1, u32::MAX), versions(u32::MAX, u32::MAX), Some(u32::MAX)),
            (versions(5, 3), versions(3, 5), None),
        ] {
            assert_eq!((one.agree(other), other.agree(one)), (agreed, agreed), "{one:?} {other:?}");
        }
    }

    #[test]
    fn versions_of_strangers_are_named_in_one_line() {
        let far = Greeting::of(versions(WIRE.max + 1, WIRE.max + 2), "9.1.0\nx\u{7}");
        let line = agree(&far).expect_err("nothing in common").to_string();
        assert!(line.starts_with("it is of release 9.1.0x (wire ") && !line.contains('\n'), "{line}");
        assert!(line.contains(&format!(", this one of {RELEASE} (wire ")), "{line}");
        assert!(silent().to_string().starts_with("it is of release 0.1.0, this one of "), "{}", silent());
        assert_eq!(agree(&Greeting::ours()), Ok(WIRE.max));
    }
}
