//! Programs of new ranks, and the nodes that are wished for.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tutti_protocol::wire::{Job, Program, Text};
use tutti_shm::spawn::Request;

use crate::environment::is_of_pmix;
use crate::pmi::spawning::{Command, Pair};

/// Programs that ranks of other ranks execute. `variables`: with the number of its program each.
pub(super) fn programs_of(request: &Request, origin: &Program, variables: Option<&[Pair]>) -> Vec<Program> {
    let text = |bytes: &[u8]| Text::from(OsStr::from_bytes(bytes).to_owned());
    let program = |(number, program): (usize, &tutti_shm::spawn::Program)| {
        let own = variables.unwrap_or_default().iter();
        let own = own.filter(|(of, _)| *of == number.to_string().as_bytes()).filter_map(|(_, pair)| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            // Those of its own the new rank gets.
            (!is_of_pmix(&pair[..at])).then(|| (text(&pair[..at]), text(&pair[at + 1..])))
        });
        Program {
            file: text(&program.file),
            arguments: program.arguments.iter().map(|argument| text(argument)).collect(),
            ranks: program.ranks,
            directory: (!program.directory.is_empty()).then(|| text(&program.directory)),
            variables: origin.variables.iter().cloned().chain(own).collect(),
            ..origin.clone()
        }
    };
    request.programs.iter().enumerate().map(program).collect()
}

pub(super) fn program_over_pmi(command: Command, here: &Path) -> tutti_shm::spawn::Program {
    let hint = |name: &[u8]| command.hints.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..]);
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let directory = here.join(hint(b"wdir").or(hint(b"wd")).map(path).unwrap_or_default());
    let name = path(&command.file);
    let file = if command.file.contains(&b'/') {
        directory.join(&name)
    } else {
        let of_user = hint(b"path").map(|path| directory.join(OsStr::from_bytes(path)));
        let programs = std::env::var_os("PATH").unwrap_or_default();
        let mut places =
            of_user.into_iter().chain([directory.clone()]).chain(std::env::split_paths(&programs));
        // Else it cannot be executed, which says which one.
        places.find_map(|place| Some(place.join(&name)).filter(|file| file.is_file())).unwrap_or(name)
    };
    let arguments = std::iter::once(command.file.clone()).chain(command.arguments.iter().cloned()).collect();
    let bytes = |path: PathBuf| path.into_os_string().into_vec();
    let host = hint(b"host").unwrap_or_default().to_vec();
    tutti_shm::spawn::Program {
        ranks: command.ranks,
        file: bytes(file),
        arguments,
        directory: bytes(directory),
        host,
    }
}

/// The names of the nodes.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    names: Vec<String>,
    /// The node of the rank that asks.
    here: usize,
}

impl Hosts {
    pub(super) fn of(job: &Job, parent: u32) -> Self {
        let Some(part) = &job.part else { return Hosts::default() };
        let nodes = part.first_ranks.len();
        let name = |node: usize| part.names.get(node).cloned().unwrap_or_else(|| format!("node{node}"));
        let here = match u64::from(parent).checked_sub(job.ranks()) {
            Some(behind) => tutti_shm::numbers::node_of_later(behind as usize, nodes),
            None => part.first_ranks.partition_point(|first| *first <= parent).saturating_sub(1),
        };
        Hosts { names: (0..nodes).map(name).collect(), here }
    }

    pub(super) fn name(&self, node: usize) -> &str {
        self.names.get(node).map_or("", String::as_str)
    }

    /// The node that is wished for, if one is.
    pub(super) fn node(&self, host: &[u8]) -> Result<Option<usize>, String> {
        if host.is_empty() || self.names.is_empty() {
            return Ok(None);
        }
        if host == b"localhost" {
            return Ok(Some(self.here));
        }
        let found = self.names.iter().position(|name| name.as_bytes() == host);
        found.map(Some).ok_or_else(|| {
            let host = String::from_utf8_lossy(host);
            format!("host {host} is none of the job's nodes ({})", self.names.join(", "))
        })
    }
}
