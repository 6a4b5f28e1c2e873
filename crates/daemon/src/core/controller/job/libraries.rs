//! Libraries on which the ranks of a job have begun with MPI.
//!
//! ```text
//! a ticket is redeemed, PMI `init`, a client of PMIx --> starter --Report::Library--> PartState
//!      --> JobRecord --> JobRow
//! ```
//!
//! A library that was seen once stays: the job keeps it when its parts are gone.

use std::collections::BTreeMap;

use tutti_protocol::wire::Library;

use super::JobRecord;
use crate::members::NodeId;
use crate::message::PartState;

impl JobRecord {
    /// Adds what its parts have seen.
    pub(in crate::core::controller) fn note_libraries(
        &mut self,
        states: Option<&BTreeMap<NodeId, PartState>>,
    ) {
        note(&mut self.libraries, states);
    }

    /// Libraries on which its ranks have begun with MPI.
    pub(in crate::core::controller) fn libraries(&self) -> &[Library] {
        &self.libraries
    }
}

fn note(seen: &mut Vec<Library>, states: Option<&BTreeMap<NodeId, PartState>>) {
    let parts = states.into_iter().flat_map(BTreeMap::values);
    for library in parts.flat_map(|part| part.libraries()) {
        library.note(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_job_are_those_of_all_its_parts_and_stay() {
        let part = |libraries: &[Library]| {
            let mut part = PartState::default();
            libraries.iter().for_each(|library| part.note_library(*library));
            part
        };
        let mut seen = Vec::new();
        note(&mut seen, None);
        assert_eq!(seen, []);
        let states = BTreeMap::from([
            (NodeId(0), part(&[Library::Pmi])),
            (NodeId(1), part(&[Library::Pmi, Library::Tutti, Library::Pmi])),
        ]);
        note(&mut seen, Some(&states));
        note(&mut seen, Some(&BTreeMap::new()));
        assert_eq!(seen, [Library::Tutti, Library::Pmi]);
    }
}
