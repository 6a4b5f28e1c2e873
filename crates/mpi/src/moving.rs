//! Ranks that move by themselves (`tutti_move.h`): a successor, started where the rank wishes to be, takes
//! over its places in MPI_COMM_WORLD and other communicators, its state and the messages that wait for it.
//!
//! All ranks of MPI_COMM_WORLD call [`go`] together, each with its wish or without one.
//!
//! | step | who | says or does |
//! |---|---|---|
//! | ask | all | wishes, then objections ([`objection`]); one objection refuses the move at all |
//! | start | each mover | a successor, which opens its files and waits in its MPI_Init ([`take_over`]) |
//! | agree | all | the successors; one failure withdraws all |
//! | flush | each mover and each other rank | one message each way: nothing of the old pair is under way behind it |
//! | hand over | each mover | places, groups, datatypes, files, messages that wait ([`handover`]); the state; it leaves |
//! | go on | all but movers, and successors | the new members; messages of movers are of successors; a barrier; files |
//!
//! Nothing has changed anywhere until all have agreed. From then on nothing can fail but a process, and that
//! ends the job, as the end of any rank does.
//!
//! Communicators keep their contexts and counts, so what is under way between two ranks that stay is not
//! touched. Their members are all in MPI_COMM_WORLD, so all of them take part. The barrier keeps the order of
//! messages: those of successors, and to them, come behind those that were handed over.

mod files;
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
use crate::file::HasFiles;
use crate::file::moved::{self, OpenedAgain};
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
/// knows that MPI does not, when it is told whether it moves itself.
///
/// # Errors
/// Why no rank has moved; all is as before.
pub fn go(
    wish: Option<Wish<'_>>,
    objection: impl FnOnce(bool) -> Option<String>,
) -> std::result::Result<Moved, Refusal> {
    let mut guard = process::enter().ok_or(Refusal::NotRunning)?;
    guard.env.call = c"tutti_move";
    if check_mode::is_on() {
        // Ranks are all checked, or none is.
        return Err(Refusal::Objection("the program is being checked (TUTTI_CHECK)".into()));
    }
    let lost = |error: crate::error::Error| Refusal::Start(error.text.to_string());
    let meeting = calls::whole(&mut guard, MPI_COMM_WORLD).map_err(lost)?;
    let movers = ask(&mut guard, &meeting, wish.is_some()).map_err(lost)?;
    if movers.is_empty() {
        return Ok(Moved::Others(0));
    }
    let objection = objection::of(&guard, &movers).or_else(|| objection(wish.is_some()));
    refuse_if_any_objects(&mut guard, &meeting, objection).map_err(lost)??;
    calls::forget_left_ranks(&mut guard);
    let (moves, successor) = start(&mut guard, &meeting, wish.as_ref()).map_err(lost)??;
    moved::end_service(&mut guard, &movers).map_err(lost)?;
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

/// The ranks that wish to move, by their numbers in the job.
fn ask(call: &mut impl Progress, meeting: &Meeting, wishes: bool) -> Result<Vec<u32>> {
    let all = said::gather(call, meeting, &Said { is_set: wishes, ..Said::default() })?;
    let movers = meeting.members.iter().zip(&all).filter(|(_, said)| said.is_set);
    Ok(movers.map(|(rank, _)| *rank).collect())
}

/// Gives all ranks the first objection.
fn refuse_if_any_objects(
    call: &mut impl Progress,
    meeting: &Meeting,
    objection: Option<String>,
) -> Result<std::result::Result<(), Refusal>> {
    let own = Said { text: objection.unwrap_or_default(), ..Said::default() };
    let all = said::gather(call, meeting, &own)?;
    let objecting = all.iter().enumerate().find(|(_, said)| !said.text.is_empty());
    Ok(match objecting {
        Some((rank, said)) => Err(Refusal::Objection(format!("rank {rank} {}", said.text))),
        None => Ok(()),
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
    call: &mut (impl Progress + HasFiles),
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
                let started = Successor { number, meeting };
                own.text = started.open_files(call)?.err().unwrap_or_default();
                successor = Some(started);
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

    /// Has it open the files of this rank.
    fn open_files(&self, call: &mut (impl Progress + HasFiles)) -> Result<std::result::Result<(), String>> {
        let openings = match moved::openings(call) {
            Ok(openings) if openings.is_empty() => return Ok(Ok(())),
            Ok(openings) => openings,
            Err(text) => return Ok(Err(text)),
        };
        self.tell(call, &Word::Files(openings));
        let answer = self.meeting.receive_numbers(call, self.number)?;
        let text = words::take_bytes(&mut &answer[..]).unwrap_or_default();
        Ok(if text.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&text).into_owned()) })
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
    let (types, layouts) = guard.types.held(&moved::layouts(guard));
    let files = moved::held(guard, &layouts);
    let place = Place { memberships, groups, types, files, state_bytes: state.len() as u64, waiting };
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
    guard.persistents.renumber(number_now);
    meet(guard)?;
    let successors: Vec<u32> = moves.now.values().copied().collect();
    moved::renew(guard, number_now, &successors)
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
    let mut opened = OpenedAgain::default();
    let place = loop {
        let heard = meeting.receive_numbers(guard, parent).ok();
        match heard.as_deref().and_then(Word::decode) {
            Some(Word::Place(place)) => break place,
            Some(Word::Withdrawn) => return false,
            Some(Word::Files(openings)) => {
                let outcome = moved::open_again(openings);
                let mut answer = Vec::new();
                words::put_bytes(&mut answer, outcome.as_ref().err().map_or(&[], |text| text.as_bytes()));
                if let Some(send) = meeting.send_numbers(guard, parent, &answer) {
                    guard.finish_request(send);
                }
                opened = outcome.unwrap_or_default();
            }
            None => panic!("rank {parent} hands over in a way that is not known here"),
        }
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
    let layouts = guard.types.take_held(place.types);
    guard.engine.keep_waiting(place.waiting);
    moved::take(guard, place.files, opened, &layouts).expect("files that another process has had open");
    // Processes of other launches are not among them, and no others are lost alone.
    let _ = meet(guard);
    let me = guard.engine.world_rank();
    moved::renew(guard, |rank| rank, &[me]).expect("all ranks are of one launch");
    true
}
