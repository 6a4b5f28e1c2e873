//! The command line of `tutti top`: of the command, which checks it, and of the program that shows it.

use std::time::Duration;

use crate::filter::Filter;
use crate::name_list::{self, NameList};
use crate::states;

/// The shortest and the longest time between two reports, in seconds.
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.5..=3600.0;

/// Options of `tutti top`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Print what there is once, as text, and end; no terminal is needed
    #[arg(long)]
    pub once: bool,
    /// The same for scripts
    #[arg(long)]
    pub json: bool,
    /// Seconds from one report to the next, 0.5 or more
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Only jobs of these users
    #[arg(long, short, value_name = "USER", value_delimiter = ',')]
    pub user: Vec<String>,
    /// Only jobs in these states
    #[arg(long, short, value_name = "STATE", value_delimiter = ',', value_parser = states::WORDS)]
    pub state: Vec<String>,
    /// Only jobs with these names; a comma of a name is \,
    #[arg(long, short, value_name = "NAME", value_parser = name_list::parse)]
    pub name: Vec<NameList>,
}

impl Options {
    /// Filter of the jobs that are shown.
    pub fn filter(&self) -> Filter {
        Filter { user: self.user.clone(), state: self.state.clone(), name: name_list::all(&self.name) }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| INTERVAL_S.contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        format!("a number of seconds from {} to {} is expected", INTERVAL_S.start(), INTERVAL_S.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_interval_is_half_a_second_or_more() {
        assert_eq!(interval("2.5"), Ok(Duration::from_millis(2500)));
        for wrong in ["0", "0.49", "-1", "nan", "inf", "1e9", "x", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
