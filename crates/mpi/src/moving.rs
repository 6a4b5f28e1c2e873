//! Ranks that move by themselves (`tutti_move.h`): a successor, started where the rank wishes to be, takes
//! over its places in MPI_COMM_WORLD and other communicators, its state and the messages that wait for it.
//!
//! All ranks of MPI_COMM_WORLD call [`go`] together, each with its wish or without one.
//!
//! | step | who | says or does |
//! |---|---|---|
//! | ask | all | wishes and objections ([`objection`]); one objection refuses the move at all |
//! | start | each mover | a successor, which waits in its MPI_Init ([`take_over`]) |
//! | agree | all | the successors; one failure withdraws all |
//! | flush | each mover and each other rank | one message each way: nothing of the old pair is under way behind it |
//! | hand over | each mover | places, groups, datatypes, messages that wait ([`handover`]); the state; it leaves |
//! | go on | all but movers, and successors | the new members; messages of movers are of successors; a barrier |
//!
//! Nothing has changed anywhere until all have agreed. From then on nothing can fail but a process, and that
//! ends the job, as the end of any rank does.
//!
//! Communicators keep their contexts and counts, so what is under way between two ranks that stay is not
//! touched. Their members are all in MPI_COMM_WORLD, so all of them take part. The barrier keeps the order of
//! messages: those of successors, and to them, come behind those that were handed over.

mod handover;
mod membership;
mod objection;
mod said;
mod types;
mod words;

use std::collections::HashMap;
use std::sync::OnceLock;

use tutti_shm::spawn::Spawned;

use crate::abi::*;
use crate::check_mode;
use crate::comm::agreement::Meeting;
use crate::comm::{calls, spawn};
use crate::error::Result;
use crate::info;
use crate::process::{self, Guard};
use crate::progress::Progress;
use crate::wait_goal::Goal;
use handover::{Place, Word};
use said::Said;

/// Wish of a rank to move.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Name of the node.
    pub node: &'a [u8],
    /// State for the successor.
    pub state: &'a [u8],
}

/// Result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Number of others that have moved.
    Others(u32),
    /// Another process has the place of this one, which ends MPI and itself now.
    Own,
}

/// Reason why nobody has moved; the same at all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// MPI does not run in this process.
    NotRunning,
    /// A rank has what cannot move, or what another one's move would break.
    Objection(String),
    /// A successor could not be started.
    Start(String),
}

/// State that this process has got from the one whose place it has.
static STATE: OnceLock<Box<[u8]>> = OnceLock::new();

/// State that this process has got from the one whose place it has; none: it has its own place.
pub fn state() -> Option<&'static [u8]> {
    STATE.get().map(|state| &**state)
}

/// Lets the ranks move that wish to; all ranks of MPI_COMM_WORLD call this. `objection`: what the caller
/// knows that MPI does not.
///
/// # Errors
/// Why no rank has moved; all is as before.
pub fn go(wish: Option<Wish<'_>>, objection: Option<String>) -> std::result::Result<Moved, Refusal> {
    let mut guard = process::enter().ok_or(Refusal::NotRunning)?;
    guard.env.call = c"tutti_move";
    if check_mode::is_on() {
        // Ranks are all checked, or none is.
        return Err(Refusal::Objection("the program is being checked (TUTTI_CHECK)".into()));
    }
    let lost = |error: crate::error::Error| Refusal::Start(error.text.to_string());
    let meeting = calls::whole(&mut guard, MPI_COMM_WORLD).map_err(lost)?;
    let objection = objection::of(&guard).or(objection);
    if !ask(&mut guard, &meeting, wish.is_some(), objection).map_err(lost)?? {
        return Ok(Moved::Others(0));
    }
    calls::forget_left_ranks(&mut guard);
    let (moves, successor) = start(&mut guard, &meeting, wish.as_ref()).map_err(lost)??;
    flush(&mut guard, &meeting, &moves).map_err(lost)?;
    if let Some((wish, successor)) = wish.zip(successor) {
        hand_over(&mut guard, &moves, &successor, wish.state);
        return Ok(Moved::Own);
    }
    go_on(&mut guard, &meeting, &moves).map_err(lost)?;
    Ok(Moved::Others(moves.now.len() as u32))
}

/// Ranks that move: their numbers in the job, before and afterwards.
#[derive(Debug)]
struct Moves {
    now: HashMap<u32, u32>,
}

impl Moves {
    fn number_now(&self, rank: u32) -> u32 {
        self.now.get(&rank).copied().unwrap_or(rank)
    }

    fn members(&self, before: &[u32]) -> Vec<u32> {
        before.iter().map(|rank| self.number_now(*rank)).collect()
    }
}

/// Whether somebody wishes to move, and none objects.
fn ask(
    call: &mut impl Progress,
    meeting: &Meeting,
    wishes: bool,
    objection: Option<String>,
) -> Result<std::result::Result<bool, Refusal>> {
    let own = Said { is_set: wishes, text: objection.unwrap_or_default(), ..Said::default() };
    let all = said::gather(call, meeting, &own)?;
    if !all.iter().any(|said| said.is_set) {
        return Ok(Ok(false));
    }
    let objecting = all.iter().enumerate().find(|(_, said)| !said.text.is_empty());
    Ok(match objecting {
        Some((rank, said)) => Err(Refusal::Objection(format!("rank {rank} {}", said.text))),
        None => Ok(true),
    })
}

/// Way of a mover to its successor.
#[derive(Debug)]
struct Successor {
    number: u32,
    meeting: Meeting,
}

/// Movers start their successors, and all hear of them. All are there, or none stays.
fn start(
    call: &mut impl Progress,
    meeting: &Meeting,
    wish: Option<&Wish<'_>>,
) -> Result<std::result::Result<(Moves, Option<Successor>), Refusal>> {
    let mut own = Said::default();
    let mut successor = None;
    if let Some(wish) = wish {
        match spawn::launch_successor(call, wish.node) {
            Ok((number, meeting)) => {
                call.engine_mut().contexts.begin_bridge(number);
                (own.is_set, own.number) = (true, number);
                successor = Some(Successor { number, meeting });
            }
            Err(error) => own.text = error.text.to_string(),
        }
    }
    let all = said::gather(call, meeting, &own)?;
    if let Some((rank, said)) = all.iter().enumerate().find(|(_, said)| !said.text.is_empty()) {
        if let Some(successor) = &successor {
            successor.tell(call, &Word::Withdrawn);
            call.engine_mut().contexts.end_bridge(successor.number);
        }
        return Ok(Err(Refusal::Start(format!("rank {rank} has no successor: {}", said.text))));
    }
    let moved = meeting.members.iter().zip(&all).filter(|(_, said)| said.is_set);
    let now = moved.map(|(rank, said)| (*rank, said.number)).collect();
    call.meet_new_ranks();
    Ok(Ok((Moves { now }, successor)))
}

impl Successor {
    fn tell(&self, call: &mut impl Progress, word: &Word) {
        let words = word.encode();
        if let Some(send) = self.meeting.send_numbers(call, self.number, &words) {
            call.finish_request(send);
        }
    }
}

/// Each mover and each other rank send each other a message, behind which nothing is under way between them.
fn flush(call: &mut impl Progress, meeting: &Meeting, moves: &Moves) -> Result<()> {
    let me = meeting.members[meeting.me];
    let is_mover = |rank: &u32| moves.now.contains_key(rank);
    let concerned = meeting.members.iter().copied().filter(|rank| *rank != me);
    let others: Vec<u32> = concerned.filter(|rank| is_mover(&me) || is_mover(rank)).collect();
    let mut sends = Vec::new();
    for other in &others {
        sends.extend(meeting.send_numbers(call, *other, &[0]));
    }
    for other in &others {
        meeting.receive_numbers(call, *other)?;
    }
    for send in sends {
        call.finish_request(send);
    }
    // Data that have been announced before come by themselves.
    let nothing = |_: &crate::request::Request| false;
    call.wait(None, Goal::Pending(&nothing), |engine| (!engine.awaits_streams()).then_some(()));
    Ok(())
}

/// Hands over to the successor.
fn hand_over(guard: &mut Guard, moves: &Moves, successor: &Successor, state: &[u8]) {
    let number_now = |rank| moves.number_now(rank);
    let memberships = guard.comms.memberships(number_now);
    let mut waiting = Vec::new();
    for membership in &memberships {
        // Whoever connects to this process alone sends to it over the contexts of its MPI_COMM_SELF.
        let is_member = |from| membership.has(number_now(from));
        waiting.extend(guard.engine.take_waiting(membership.context, is_member));
    }
    waiting.iter_mut().for_each(|message| message.from = number_now(message.from));
    let groups = guard.comms.held_groups(number_now);
    let types = guard.types.held();
    let place = Place { memberships, groups, types, state_bytes: state.len() as u64, waiting };
    successor.tell(guard, &Word::Place(place));
    if !state.is_empty()
        && let Some(send) = successor.meeting.send_bytes(guard, successor.number, state)
    {
        guard.finish_request(send);
    }
}

/// The communicators of a rank that stays.
fn go_on(guard: &mut Guard, meeting: &Meeting, moves: &Moves) -> Result<()> {
    let number_now = |rank| moves.number_now(rank);
    let job = guard.engine.job.clone();
    job.renew_world(&moves.members(&meeting.members));
    for context in guard.comms.renumber(&job, number_now) {
        guard.engine.readdress(context, number_now);
    }
    meet(guard)
}

/// All of the new world have what was handed over.
fn meet(guard: &mut Guard) -> Result<()> {
    calls::whole(guard, MPI_COMM_WORLD)?.allgather(guard, [0]).map(drop)
}

/// Takes the place of the process that has started this one, from MPI_Init. False: it is not needed.
pub(crate) fn take_over(guard: &mut Guard, spawned: &Spawned) -> bool {
    let parent = spawned.parent;
    let meeting = spawn::meeting_with_parent(guard, spawned);
    // Messages of it stay until they are taken, though it may have left.
    guard.engine.contexts.begin_bridge(parent);
    let heard = meeting.receive_numbers(guard, parent).ok();
    let place = match heard.as_deref().and_then(Word::decode) {
        Some(Word::Place(place)) => place,
        Some(Word::Withdrawn) => return false,
        None => panic!("rank {parent} hands over in a way that is not known here"),
    };
    let bytes = place.state_bytes as usize;
    let state = match bytes {
        0 => Vec::new(),
        _ => meeting.receive_bytes(guard, parent, bytes).expect("no process of another launch has sent it"),
    };
    guard.engine.contexts.end_bridge(parent);
    let _ = STATE.set(state.into());
    let world = place.memberships.first().expect("a rank is in MPI_COMM_WORLD").members.clone();
    info::remember_ranks(world.len());
    guard.meet_new_ranks();
    guard.engine.job.renew_world(&world);
    guard.comms.take_places(place.memberships, place.groups);
    guard.types.take_held(place.types);
    guard.engine.keep_waiting(place.waiting);
    // Processes of other launches are not among them, and no others are lost alone.
    let _ = meet(guard);
    true
}
