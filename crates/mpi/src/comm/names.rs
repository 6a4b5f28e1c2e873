//! Published names (MPI 11.9.4): a service has the name of a port, for all ranks of the job. Who keeps them
//! is [`crate::engine::names`]' matter. Other launches of the user find it too, on this node
//! ([`user_names`]) and on others ([`cluster_names`]), if none of them has the name already; names of the own
//! launch come first.

use tutti_runtime::cluster_names::{self, ClusterName, LookUp};
use tutti_runtime::{log, user_names};
use tutti_shm::names::{NAMES_MAX, PORT_BYTES_MAX, Question, Refusal, SERVICE_BYTES_MAX};

use core::ffi::c_int;

use super::open_ports::Ports;
use super::ports::quoted;
use crate::abi::*;
use crate::engine::Engine;
use crate::engine::names::NoAnswer;
use crate::error::{Error, Result, check};
use crate::progress::Progress;
use crate::wait_goal::{Goal, Outside};

impl Ports {
    /// Publishes a port under the name of a service.
    ///
    /// # Errors
    /// MPI_ERR_SERVICE when the name is published already, too long, or cannot be published; MPI_ERR_PORT
    /// when the port's name is too long.
    pub(super) fn publish_name(&self, call: &mut impl Progress, service: &[u8], port: &[u8]) -> Result<()> {
        check_length("service_name", service, SERVICE_BYTES_MAX, MPI_ERR_SERVICE)?;
        check_length("port_name", port, PORT_BYTES_MAX, MPI_ERR_PORT)?;
        ask_names(call, service, Question::Publish { service, port }, MPI_ERR_SERVICE)?;
        let text = match user_names::publish(service, port) {
            Ok(Some(name)) => {
                let far = publish_on_other_nodes(call.engine(), service, port);
                self.published.borrow_mut().insert(service.to_vec(), (name, far));
                return Ok(());
            }
            Ok(None) => "another launch of this user has it published already".to_string(),
            Err(error) => error.to_string(),
        };
        let (rank, name) = (call.engine().world_rank(), quoted(service));
        log::line(format_args!("rank {rank}: the name {name} is known in this launch only: {text}"));
        Ok(())
    }

    /// Takes back what this process has published.
    ///
    /// # Errors
    /// MPI_ERR_SERVICE when the name is not published, by another process, or with another port.
    pub(super) fn unpublish_name(&self, call: &mut impl Progress, service: &[u8], port: &[u8]) -> Result<()> {
        check_length("service_name", service, SERVICE_BYTES_MAX, MPI_ERR_SERVICE)?;
        check_length("port_name", port, PORT_BYTES_MAX, MPI_ERR_SERVICE)?;
        ask_names(call, service, Question::Unpublish { service, port }, MPI_ERR_SERVICE)?;
        self.published.borrow_mut().remove(service);
        Ok(())
    }
}

fn publish_on_other_nodes(engine: &Engine, service: &[u8], port: &[u8]) -> Option<ClusterName> {
    cluster_names::publish(&engine.job, service, port).unwrap_or_else(|text| {
        let (rank, name) = (engine.world_rank(), quoted(service));
        log::line(format_args!("rank {rank}: the name {name} is known on this node only: {text}"));
        None
    })
}

/// The port that is published under the name of a service.
///
/// # Errors
/// MPI_ERR_NAME when there is none.
pub(super) fn lookup_name(call: &mut impl Progress, service: &[u8]) -> Result<Vec<u8>> {
    check_length("service_name", service, SERVICE_BYTES_MAX, MPI_ERR_NAME)?;
    ask_names(call, service, Question::Lookup { service }, MPI_ERR_NAME)
        .or_else(|error| user_names::look_up(service).ok().flatten().ok_or(error))
        .or_else(|error| look_up_on_other_nodes(call, service).ok_or(error))
}

fn look_up_on_other_nodes(call: &mut impl Progress, service: &[u8]) -> Option<Vec<u8>> {
    let job = &call.engine().job;
    let look_up = LookUp::start(service, job.endpoint(job.rank()))?;
    call.wait(None, Goal::Outside(Outside::Names), |_| look_up.poll())
}

fn ask_names(
    call: &mut impl Progress,
    service: &[u8],
    question: Question<'_>,
    class: c_int,
) -> Result<Vec<u8>> {
    let answer = match call.engine_mut().ask_names(question) {
        Ok(answer) => answer,
        Err(number) => {
            let goal = Goal::Outside(Outside::Names);
            call.wait(None, goal, |engine| engine.poll_names(number))
        }
    };
    answer.map_err(|why| {
        let name = quoted(service);
        let text = match why {
            NoAnswer::Refused(Refusal::Taken) => format!("the name {name} is published already"),
            NoAnswer::Refused(Refusal::Unknown) => format!("no name {name} is published"),
            NoAnswer::Refused(Refusal::OtherOwner) => {
                format!("the name {name} was published by another process, which alone may take it back")
            }
            NoAnswer::Refused(Refusal::OtherPort) => {
                format!("the name {name} is published with another port_name than this one")
            }
            NoAnswer::Refused(Refusal::Full) => {
                format!("the job has {NAMES_MAX} names published, no more are possible")
            }
            NoAnswer::Gone => "rank 0, which keeps the job's names, has left the job".into(),
        };
        Error::new(class, text)
    })
}

fn check_length(argument: &str, name: &[u8], most: usize, class: c_int) -> Result<()> {
    check(name.len() <= most, class, || {
        format!("{argument} has {} bytes, at most {most} are possible", name.len())
    })
}
