//! Requests that stand for others: persistent ones (MPI 3.9), a send and a receive at once (3.10),
//! generalized ones (13.2).
//!
//! ```text
//! persistent   inactive --start--> active --done, completed by the user--> inactive --free--> gone
//! others                           active --done, completed by the user--> gone
//! ```
//!
//! A persistent request keeps a function that starts its operation; collective operations use it as well.

use core::ffi::c_int;
use std::rc::Rc;

use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::process::{Guard, Start, Starter};
use crate::progress::Progress;
use crate::request::Outcome;
use crate::request::extra::{Compound, Extra, Generalized, NOTHING, Part};

impl Guard {
    /// An inactive persistent request.
    pub fn persistent(&mut self, start: Rc<Start>) -> u32 {
        let index =
            self.engine.insert_compound(Compound { is_persistent: true, parts: [NOTHING; 2], active: false });
        let starts = &mut self.persistents.starts;
        starts.resize_with(starts.len().max(index as usize + 1), || None);
        starts[index as usize] = Some(Starter(start));
        index
    }

    /// Starts a persistent request (3.9).
    ///
    /// # Errors
    /// MPI_ERR_REQUEST when it is not persistent or is active already.
    pub fn start_persistent(&mut self, index: u32) -> Result<()> {
        if self.engine.partitioned(index).is_some() {
            return self.engine.start_partitioned(index);
        }
        let wrong = |text| Err(Error::new(MPI_ERR_REQUEST, text));
        let Some(Compound { is_persistent: true, active, .. }) = self.engine.compound(index) else {
            return wrong("the request is not a persistent one");
        };
        if *active {
            return wrong("the persistent request has been started already");
        }
        let Starter(start) =
            self.persistents.starts[index as usize].clone().expect("a persistent request can be started");
        let parts = start(self)?;
        let compound = self.engine.compound_mut(index).expect("it was one just now");
        (compound.parts, compound.active) = (parts, true);
        Ok(())
    }

    /// Takes the outcome of a done request that has extras. A persistent one stays, inactive.
    pub fn take_with_extra(&mut self, index: u32) -> Outcome {
        match self.engine.requests.get_mut(index).extra.as_deref_mut() {
            Some(Extra::Compound(compound)) => {
                let parts = std::mem::replace(&mut compound.parts, [NOTHING; 2]);
                compound.active = false;
                let stays = compound.is_persistent;
                let [first, second] = parts.map(|part| self.take_part(part));
                if !stays {
                    self.engine.requests.free(index);
                }
                Outcome {
                    error: if first.error == MPI_SUCCESS { second.error } else { first.error },
                    ..first
                }
            }
            Some(Extra::Generalized(generalized)) => {
                let generalized = *generalized;
                self.engine.requests.free(index);
                self.finish_generalized(generalized)
            }
            Some(Extra::Partitioned(_)) => self.engine.take_partitioned(index),
            Some(Extra::Suspect(suspect)) => {
                let suspect = *suspect;
                self.inspect().say_suspect(index, suspect);
                let outcome = self.engine.requests.get(index).outcome();
                self.engine.requests.free(index);
                outcome
            }
            Some(Extra::Remote(remote)) => {
                let outcome = remote.outcome();
                self.engine.requests.free(index);
                outcome
            }
            _ => {
                let outcome = self.engine.requests.get(index).outcome();
                self.engine.requests.free(index);
                outcome
            }
        }
    }

    fn take_part(&mut self, part: Part) -> Outcome {
        match part {
            Part::Done(outcome) => outcome,
            Part::Pending(index) => self.take_request(index),
        }
    }

    /// What a look at a done request tells, without completing it.
    pub fn peek_outcome(&mut self, index: u32) -> Outcome {
        match self.engine.requests.get(index).extra.as_deref() {
            Some(Extra::Compound(compound)) => match compound.parts[0] {
                Part::Done(outcome) => outcome,
                Part::Pending(part) => self.engine.requests.get(part).outcome(),
            },
            Some(Extra::Generalized(generalized)) => {
                let generalized = *generalized;
                self.query_generalized(generalized)
            }
            Some(Extra::Partitioned(partitioned)) => partitioned.outcome(),
            Some(Extra::Remote(remote)) => remote.outcome(),
            _ => self.engine.requests.get(index).outcome(),
        }
    }

    /// The user lets go of a request (3.7.3); what is under way goes on.
    pub fn release_request(&mut self, index: u32) {
        if self.engine.partitioned(index).is_some() {
            self.engine.release_partitioned(index);
            return;
        }
        let parts = match self.engine.compound(index) {
            Some(compound) => compound.parts,
            None => {
                let request = self.engine.requests.get_mut(index);
                if let Some(Extra::Remote(_)) = request.extra.as_deref() {
                    if let Some(Extra::Remote(remote)) = request.extra.take().map(|extra| *extra) {
                        remote.done.abandon();
                    }
                    self.engine.requests.free(index);
                    return;
                }
                // The buffer empties itself whether somebody waits for it or not.
                request.done |= matches!(request.extra.as_deref(), Some(Extra::Flush(_)));
                self.engine.release(index);
                return;
            }
        };
        for part in parts {
            if let Part::Pending(part) = part {
                self.engine.release(part);
            }
        }
        if let Some(start) = self.persistents.starts.get_mut(index as usize) {
            *start = None;
        }
        self.engine.requests.free(index);
    }

    /// Asks for the cancellation of an operation (3.8.4). Sends and receives that are not matched are
    /// cancelled; everything else goes on.
    ///
    /// # Errors
    /// What the cancel function of a generalized request returns (13.2); MPI_ERR_REQUEST for one with
    /// partitions (4.2.1).
    pub fn cancel_request(&mut self, index: u32) -> Result<()> {
        match self.engine.requests.get(index).extra.as_deref() {
            Some(Extra::Compound(compound)) => {
                for part in compound.parts {
                    if let Part::Pending(part) = part {
                        self.engine.cancel(part);
                    }
                }
            }
            Some(Extra::Generalized(generalized)) => {
                let (generalized, done) = (*generalized, self.engine.requests.get(index).done);
                let error = self.unlocked(|| {
                    // SAFETY: the user gave this address as that of a cancel function; no lock is held.
                    unsafe {
                        let cancel =
                            std::mem::transmute::<usize, MPI_Grequest_cancel_function_fn>(generalized.cancel);
                        cancel(generalized.state, c_int::from(done))
                    }
                });
                check(error == MPI_SUCCESS, error, || {
                    format!("the request's cancel function returned error code {error}")
                })?;
            }
            Some(Extra::Partitioned(_)) => {
                return Err(Error::new(MPI_ERR_REQUEST, "partitioned operations cannot be cancelled"));
            }
            _ => self.engine.cancel(index),
        }
        Ok(())
    }

    fn query_generalized(&mut self, generalized: Generalized) -> Outcome {
        self.unlocked(|| {
            let mut status = MPI_Status::default();
            // SAFETY: the user gave this address as that of a query function; no lock is held.
            let error = unsafe {
                let query = std::mem::transmute::<usize, MPI_Grequest_query_function_fn>(generalized.query);
                query(generalized.state, &mut status)
            };
            Outcome { error, ..Outcome::read(&status) }
        })
    }

    fn finish_generalized(&mut self, generalized: Generalized) -> Outcome {
        let outcome = self.query_generalized(generalized);
        let error = self.unlocked(|| {
            // SAFETY: the user gave this address as that of a free function; no lock is held.
            unsafe {
                let free = std::mem::transmute::<usize, MPI_Grequest_free_function_fn>(generalized.free);
                free(generalized.state)
            }
        });
        Outcome { error: if outcome.error == MPI_SUCCESS { error } else { outcome.error }, ..outcome }
    }
}
