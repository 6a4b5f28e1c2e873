//! The configuration of a daemon: its file, and the flags and variables that go before it.

use std::sync::Arc;

use tutti_protocol::config::parse::Mistake;
use tutti_protocol::config::settings::{self, Given, restart_keys};
use tutti_protocol::config::{self, Accounts, Config, Origin};
use tutti_sched::SLICE_DEFAULT_NS;

use crate::accounts;
use crate::core::config::Loaded;

/// Where the configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationSource {
    /// The file; none: this daemon reads none.
    pub origin: Option<Origin>,
    /// Settings that go before it.
    pub given: Given,
    /// The name of this node, once it is known.
    pub name: String,
    /// The slice that a flag sets, in ns.
    pub slice_ns: Option<u64>,
    /// The file as it was when the daemon began: what cannot change while it runs.
    pub started: Config,
}

/// Users and groups as the machine's own lists have them.
#[derive(Clone, Copy, Debug)]
pub struct Lists;

impl Accounts for Lists {
    fn has_user(&self, name: &str) -> bool {
        accounts::has(accounts::USERS, name)
    }
    fn has_group(&self, name: &str) -> bool {
        accounts::has(accounts::GROUPS, name)
    }
}

impl ConfigurationSource {
    /// Reads the file.
    ///
    /// # Errors
    /// A line for each mistake.
    pub fn read(&self) -> Result<(Config, Vec<String>), Vec<String>> {
        let Some(origin) = &self.origin else { return Ok((Config::default(), Vec::new())) };
        let parsed = config::load(origin, &Lists);
        let path = origin.path().to_string_lossy();
        let lines =
            |mistakes: &[Mistake]| mistakes.iter().map(|mistake| mistake.at(&path)).collect::<Vec<_>>();
        if parsed.mistakes.is_empty() {
            let warnings = lines(&parsed.warnings).into_iter().map(|line| format!("warning: {line}"));
            return Ok((parsed.config, warnings.collect()));
        }
        let most = config::parse::MISTAKES_MAX;
        let mut lines = lines(&parsed.mistakes);
        if lines.len() > most {
            let more = lines.len() - most;
            lines.truncate(most);
            lines.push(format!("{path}: {more} more mistakes"));
        }
        Err(lines)
    }

    /// Part of this file that the controller goes by.
    #[must_use]
    pub fn loaded(&self, config: &Config, notes: Vec<String>) -> Loaded {
        let slice_ns = config.cluster.ms("slice").map(|ms| ms * 1_000_000);
        let slice_ns = self.slice_ns.or(slice_ns).unwrap_or(SLICE_DEFAULT_NS);
        let (_, settings) = settings::rows(config, &self.name, &self.given);
        let text = Arc::from(config.cluster_text());
        Loaded { text, rules: config.rules.clone(), slice_ns, settings, notes }
    }

    /// Reads the file anew, for a daemon that runs.
    ///
    /// # Errors
    /// A line for each mistake.
    pub fn reload(&self) -> Result<Box<Loaded>, Vec<String>> {
        let (config, mut notes) = self.read()?;
        let fixed = restart_keys(&self.started.cluster, &config.cluster);
        let node = |config: &Config| settings::of_node(config, &self.name);
        let of_node = |section: config::section::Section| {
            section.0.into_iter().map(|(key, placed)| (key, placed.value)).collect::<Vec<_>>()
        };
        let is_other = of_node(node(&config)) != of_node(node(&self.started));
        let fixed = fixed.into_iter().chain(is_other.then(|| "[node]".to_owned()));
        notes.extend(fixed.map(|key| format!("{key} takes effect when the daemons are started anew")));
        if self.given.flags.iter().any(|(flag, _)| flag == "slice") && config.cluster.ms("slice").is_some() {
            notes.push("cluster.slice is set by --slice, which goes before the file".into());
        }
        Ok(Box::new(self.loaded(&config, notes)))
    }
}
