//! Calls that make communicators, bring groups together, and end communicators: from handles to what the
//! modules beside this one do, and from what they make to handles.

use std::rc::Rc;

use core::ffi::c_int;

use tutti_shm::spawn::Spawned;

use super::agreement::Meeting;
use super::creation::{NOT_YET, Proposed, check_subset};
use super::intercomm::{Bridge, checked_leader};
use super::spawn::{Codes, Wish};
use super::topology::{Edges, Topology};
use super::{CONTEXTS_PER_COMM, Channel, Group, names, ports, spawn};
use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::check::collectives;
use crate::check_mode;
use crate::collective::plan::Place;
use crate::collective::state::Call;
use crate::engine::Engine;
use crate::errhandler;
use crate::error::{Result, check};
use crate::info::Info;
use crate::process::Guard;
use crate::progress::Progress;
use crate::request::Request;
use crate::wait_goal::Goal;

impl Guard {
    /// The next meeting of all processes of a communicator ([`Meeting::whole`]).
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub fn whole(&mut self, handle: MPI_Comm) -> Result<Meeting> {
        let tag = self.next_creation(handle)?;
        Ok(Meeting::whole(self.comms.find(handle)?, &self.engine, tag))
    }

    fn next_creation(&mut self, handle: MPI_Comm) -> Result<i32> {
        if check_mode::is_on() {
            let place = Place::next(self.comms.find_mut(handle)?, Call::Blocking);
            let (mut schedule, must_not_wait) = collectives::creation(handle, &place);
            if must_not_wait {
                let request = self.launch(schedule);
                self.engine.release(request);
            } else {
                self.run(&mut schedule)?;
            }
        }
        Ok(self.comms.find_mut(handle)?.next_creation())
    }

    /// A copy of a communicator with its attributes (7.4.2), and with hints when there are some.
    ///
    /// # Errors
    /// MPI_ERR_COMM; whatever a copy callback of the user returned.
    pub fn dup_comm(&mut self, handle: MPI_Comm, hints: Option<Info>) -> Result<MPI_Comm> {
        let copied = attribute_calls::copy(self, Owner::Comm(handle));
        // The others wait for us even if our callback has failed.
        let context = self.whole(handle)?.new_context(self)?;
        self.comms.keep_duplicate(handle, context, copied?, hints)
    }

    /// The same without waiting: the communicator is there at once and may be used when the request is done.
    /// The request belongs to the schedule of the broadcast, which gives the communicator its context.
    ///
    /// # Errors
    /// As [`Guard::dup_comm`].
    pub fn start_dup_comm(
        &mut self,
        handle: MPI_Comm,
        hints: Option<Info>,
    ) -> Result<(MPI_Comm, MPI_Request)> {
        let copied = attribute_calls::copy(self, Owner::Comm(handle));
        let meeting = self.whole(handle)?;
        let Proposed { mut schedule, contexts, members } = meeting.propose_context(self)?;
        let attributes = match copied {
            Ok(attributes) => attributes,
            Err(error) => {
                // The others wait for us even if our callback has failed.
                self.run(&mut schedule)?;
                return Err(error);
            }
        };
        let made = self.comms.keep_duplicate(handle, NOT_YET, attributes, hints)?;
        schedule.name(made, contexts, members);
        schedule.await_all();
        let index = self.launch(schedule);
        Ok((made, MPI_Request(self.engine.requests.handle(index))))
    }

    /// The communicator of a part of the members (MPI_Comm_create). All members of the parent call it;
    /// MPI_COMM_NULL for those that are in no group.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_GROUP when the group has members that the parent has not.
    pub fn create_comm(&mut self, handle: MPI_Comm, group: Rc<Group>) -> Result<MPI_Comm> {
        let parent = self.comms.find(handle)?;
        check_subset(&group, parent)?;
        if parent.remote.is_some() {
            let place = group.rank_of(self.engine.world_rank());
            let color = place.map(|_| 0);
            return self.split_inter(handle, color, place.unwrap_or(0) as i32);
        }
        let tag = self.next_creation(handle)?;
        self.create_among(handle, group, Channel::Creation, tag)
    }

    /// The same, called by the members of the group only (MPI_Comm_create_group).
    ///
    /// # Errors
    /// As [`Guard::create_comm`]; MPI_ERR_TAG.
    pub fn create_comm_of_group(
        &mut self,
        handle: MPI_Comm,
        group: Rc<Group>,
        tag: c_int,
    ) -> Result<MPI_Comm> {
        let parent = self.comms.intracomm(handle)?;
        check_subset(&group, parent)?;
        check(tag >= 0, MPI_ERR_TAG, || format!("tag is {tag}, expected 0 to {}", c_int::MAX))?;
        self.create_among(handle, group, Channel::TaggedCreation, tag)
    }

    /// The members of the group agree over the parent's channel.
    fn create_among(
        &mut self,
        handle: MPI_Comm,
        group: Rc<Group>,
        channel: Channel,
        tag: c_int,
    ) -> Result<MPI_Comm> {
        let me = self.engine.world_rank();
        let Some(rank) = group.rank_of(me) else { return Ok(MPI_COMM_NULL) };
        let context = self.comms.find(handle)?.context;
        let meeting = Meeting::new(group.members().to_vec(), me, context, channel, tag);
        let made = meeting.create(self, rank, group)?;
        Ok(self.comms.keep_child(handle, made))
    }

    /// One new communicator for each color (MPI_Comm_split); MPI_COMM_NULL for those that give none.
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_ARG when the color is negative.
    pub fn split_comm(&mut self, handle: MPI_Comm, color: c_int, key: c_int) -> Result<MPI_Comm> {
        let parent = self.comms.find(handle)?;
        check(color >= 0 || color == MPI_UNDEFINED, MPI_ERR_ARG, || {
            format!("color is {color}, expected 0 or more, or MPI_UNDEFINED")
        })?;
        let color = (color != MPI_UNDEFINED).then_some(color as u32);
        if parent.remote.is_some() {
            return self.split_inter(handle, color, key);
        }
        let made = self.whole(handle)?.split(self, color, key)?;
        Ok(self.comms.keep_part(handle, made))
    }

    fn split_inter(&mut self, handle: MPI_Comm, color: Option<u32>, key: i32) -> Result<MPI_Comm> {
        let (parent, remote) = self.comms.intercomm(handle)?;
        let (local, remote) = (parent.group.clone(), remote.clone());
        let made = self.whole(handle)?.split_inter(self, (&local, &remote), color, key)?;
        Ok(self.comms.keep_part(handle, made))
    }

    /// An intercommunicator between two groups (7.6.2).
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TAG; MPI_ERR_GROUP when the groups overlap.
    pub fn create_intercomm(&mut self, bridge: Bridge) -> Result<MPI_Comm> {
        let group = self.comms.intracomm(bridge.local)?.group.clone();
        let leader = checked_leader(bridge.local_leader, group.size(), "local_leader")?;
        let meeting = self.whole(bridge.local)?;
        let other = |guard: &mut Guard| guard.comms.other_leader(bridge, guard.engine.world_rank());
        let made = meeting.bridge(self, leader, group, other)?;
        Ok(self.comms.keep_child(bridge.local, made))
    }

    /// One communicator of both groups ([`Meeting::merge`]).
    ///
    /// # Errors
    /// MPI_ERR_COMM; MPI_ERR_ARG when the members of a group do not agree.
    pub fn merge_intercomm(&mut self, handle: MPI_Comm, high: bool) -> Result<MPI_Comm> {
        let (comm, remote) = self.comms.intercomm(handle)?;
        let (local, remote) = (comm.group.clone(), remote.clone());
        let made = self.whole(handle)?.merge(self, &local, &remote, high)?;
        Ok(self.comms.keep_child(handle, made))
    }

    /// A communicator of the first `places` processes, with a topology; MPI_COMM_NULL for the others.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub fn arrange(&mut self, handle: MPI_Comm, places: usize, topology: Topology) -> Result<MPI_Comm> {
        let rank = self.comms.intracomm(handle)?.rank;
        let color = if rank < places { 0 } else { MPI_UNDEFINED };
        self.split_arranged(handle, color, rank as c_int, topology)
    }

    /// The part of a grid that has this process and the dimensions kept (8.5.6).
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_TOPOLOGY.
    pub fn part_of_grid(&mut self, handle: MPI_Comm, kept: &[bool]) -> Result<MPI_Comm> {
        let (grid, color, key) = self.comms.grid(handle)?.part(self.comms.find(handle)?.rank, kept);
        self.split_arranged(handle, color as c_int, key as c_int, Topology::Cart(grid))
    }

    fn split_arranged(
        &mut self,
        handle: MPI_Comm,
        color: c_int,
        key: c_int,
        topology: Topology,
    ) -> Result<MPI_Comm> {
        let made = self.split_comm(handle, color, key)?;
        if made != MPI_COMM_NULL {
            self.comms.find_mut(made)?.topology = Some(Rc::new(topology));
        }
        Ok(made)
    }

    /// All processes name edges of the whole graph, each (from, to, weight); gives those of this process, in
    /// the order of the ranks that named them.
    ///
    /// # Errors
    /// MPI_ERR_COMM.
    pub fn distribute_edges(
        &mut self,
        handle: MPI_Comm,
        named: &[[c_int; 3]],
        is_weighted: bool,
    ) -> Result<Edges> {
        let rank = self.comms.intracomm(handle)?.rank as c_int;
        let meeting = self.whole(handle)?;
        let mine: Vec<u32> = named.iter().flatten().map(|&number| number as u32).collect();
        let all = meeting.gather_numbers(self, &mine)?;
        let mut edges = Edges { is_weighted, ..Edges::default() };
        for edge in all.chunks_exact(3) {
            let [from, to, weight] = [edge[0] as c_int, edge[1] as c_int, edge[2] as c_int];
            if to == rank {
                edges.sources.push((from, weight));
            }
            if from == rank {
                edges.destinations.push((to, weight));
            }
        }
        Ok(edges)
    }

    /// Opens a port; gives its name.
    ///
    /// # Errors
    /// MPI_ERR_INTERN when this process has too many.
    pub fn open_port(&mut self) -> Result<String> {
        self.comms.ports.clone().open(self)
    }

    /// Closes a port; whoever waits for an accept is refused.
    ///
    /// # Errors
    /// MPI_ERR_PORT when this process has not opened it, or has closed it.
    pub fn close_port(&mut self, name: &[u8]) -> Result<()> {
        self.comms.ports.clone().close(self, name)
    }

    /// An intercommunicator with the group that connects next to a port of the root's (11.9.2). `name` is
    /// asked at the root only.
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_ROOT; MPI_ERR_PORT on all when the root cannot accept there; MPI_ERR_GROUP when
    /// the groups overlap.
    pub fn accept(
        &mut self,
        name: impl FnOnce() -> Result<Vec<u8>>,
        root: c_int,
        comm: MPI_Comm,
    ) -> Result<MPI_Comm> {
        let open = self.comms.ports.clone();
        self.meet_other_group(root, comm, |guard| open.accept(guard, &name()?))
    }

    /// An intercommunicator with the group that accepts at a port (11.9.2). `name` is asked at the root only.
    ///
    /// # Errors
    /// As [`Guard::accept`].
    pub fn connect(
        &mut self,
        name: impl FnOnce() -> Result<Vec<u8>>,
        root: c_int,
        comm: MPI_Comm,
    ) -> Result<MPI_Comm> {
        self.meet_other_group(root, comm, |guard| ports::connect(guard, &name()?))
    }

    fn meet_other_group(
        &mut self,
        root: c_int,
        comm: MPI_Comm,
        other: impl FnOnce(&mut Guard) -> Result<Meeting>,
    ) -> Result<MPI_Comm> {
        let intracomm = self.comms.intracomm(comm)?;
        let (root, group) = (intracomm.checked_root(root)?, intracomm.group.clone());
        let made = self.whole(comm)?.bridge(self, root, group, other)?;
        Ok(self.comms.keep_child(comm, made))
    }

    /// An intercommunicator with the process at the other end of a socket ([`ports::join`]).
    ///
    /// # Errors
    /// MPI_ERR_ARG, MPI_ERR_OTHER.
    pub fn join(&mut self, socket: c_int) -> Result<MPI_Comm> {
        let made = ports::join(self, socket)?;
        Ok(self.comms.keep_child(MPI_COMM_SELF, made))
    }

    /// Publishes a port under the name of a service.
    ///
    /// # Errors
    /// MPI_ERR_SERVICE, MPI_ERR_PORT.
    pub fn publish_name(&mut self, service: &[u8], port: &[u8]) -> Result<()> {
        self.comms.ports.clone().publish_name(self, service, port)
    }

    /// Takes back what this process has published.
    ///
    /// # Errors
    /// MPI_ERR_SERVICE.
    pub fn unpublish_name(&mut self, service: &[u8], port: &[u8]) -> Result<()> {
        self.comms.ports.clone().unpublish_name(self, service, port)
    }

    /// The port that is published under the name of a service.
    ///
    /// # Errors
    /// MPI_ERR_NAME when there is none.
    pub fn lookup_name(&mut self, service: &[u8]) -> Result<Vec<u8>> {
        names::lookup_name(self, service)
    }

    /// Starts processes and makes an intercommunicator with them ([`spawn::spawn`]). Gives the codes too, if
    /// it has come so far.
    ///
    /// # Errors
    /// MPI_ERR_COMM, MPI_ERR_ROOT; what is wrong with the wishes; MPI_ERR_SPAWN.
    pub fn spawn(
        &mut self,
        wishes: impl FnOnce() -> Result<Vec<Wish>>,
        root: c_int,
        comm: MPI_Comm,
    ) -> (Result<MPI_Comm>, Codes) {
        let mut codes = Vec::new();
        let made = self.spawn_with(wishes, root, comm, &mut codes);
        (made, codes)
    }

    fn spawn_with(
        &mut self,
        wishes: impl FnOnce() -> Result<Vec<Wish>>,
        root: c_int,
        comm: MPI_Comm,
        codes: &mut Codes,
    ) -> Result<MPI_Comm> {
        // Their numbers may be what the new ones need.
        self.forget_left_ranks();
        let intracomm = self.comms.intracomm(comm)?;
        let (root, group) = (intracomm.checked_root(root)?, intracomm.group.clone());
        let meeting = self.whole(comm)?;
        let made = spawn::spawn(self, &meeting, root, group, wishes, codes)?;
        Ok(self.comms.keep_child(comm, made))
    }

    /// Meets those who have started this process, from MPI_Init.
    pub fn meet_parents(&mut self, spawned: &Spawned) {
        let group = Rc::clone(&self.comms.world().group);
        let meeting = self.whole(MPI_COMM_WORLD);
        match meeting.and_then(|meeting| spawn::meet_parents(self, &meeting, group, spawned)) {
            Ok(mut made) => {
                // 7.8: the one name of a communicator that is not a constant.
                made.name = b"MPI_COMM_PARENT".to_vec();
                self.comms.parent = self.comms.keep_child(MPI_COMM_WORLD, made);
            }
            Err(error) => tutti_runtime::log::line(format_args!(
                "rank {}: no communicator with those who started this process: {error}",
                self.engine.world_rank()
            )),
        }
    }

    /// Frees a communicator: its attributes are deleted, then the handle is stale. Pending operations go on;
    /// they hold what they need, and the context is never used again.
    ///
    /// # Errors
    /// MPI_ERR_COMM; whatever a delete callback of the user returned, and then the communicator stays.
    pub fn free_comm(&mut self, handle: MPI_Comm) -> Result<()> {
        self.check_own(handle)?;
        attribute_calls::delete_all(self, Owner::Comm(handle))?;
        // A callback of the user may have freed it itself.
        self.comms.find(handle)?;
        if self.comms.parent == handle {
            self.comms.parent = MPI_COMM_NULL;
            self.engine.job.part();
        }
        let has_guests = self.comms.find(handle)?.has_guests(&self.engine);
        if let Some(index) = self.comms.made.index(handle.0) {
            let mut comm = self.comms.made.remove(index);
            comm.collective.release(&self.engine.job);
            errhandler::release(comm.errhandler);
        }
        if has_guests {
            let launches = self.comms.launches(&self.engine);
            self.engine.keep_connected(&launches);
        }
        self.forget_left_ranks();
        Ok(())
    }

    /// Frees a communicator when all its messages have arrived, at all members.
    ///
    /// # Errors
    /// As [`Guard::free_comm`].
    pub fn disconnect_comm(&mut self, handle: MPI_Comm) -> Result<()> {
        self.check_own(handle)?;
        let comm = self.comms.find(handle)?;
        let contexts = comm.context..comm.context + CONTEXTS_PER_COMM;
        let pending = |request: &Request| !request.done && contexts.contains(&request.context);
        let is_quiet = |engine: &mut Engine| {
            (!engine.requests.iter().any(|(_, request)| pending(request))).then_some(())
        };
        self.wait(None, Goal::Pending(&pending), is_quiet);
        if self.comms.parent == handle {
            // Before the others know it: they may ask for other ranks at once.
            self.engine.job.part();
        }
        // Members of other launches may be gone, which is no error here.
        if !self.comms.find(handle)?.has_guests(&self.engine) {
            self.whole(handle)?.allgather(self, [0])?;
        }
        self.free_comm(handle)
    }

    fn check_own(&self, handle: MPI_Comm) -> Result<()> {
        self.comms.find(handle)?;
        let predefined = [(MPI_COMM_WORLD, "MPI_COMM_WORLD"), (MPI_COMM_SELF, "MPI_COMM_SELF")];
        let name = predefined.into_iter().find(|(comm, _)| *comm == handle).map(|(_, name)| name);
        check(name.is_none(), MPI_ERR_COMM, || {
            format!("comm is {}, which cannot be freed", name.unwrap_or_default())
        })
    }

    /// Forgets the ranks that have left and that nothing here names ([`super::reuse`]).
    #[cold]
    pub fn forget_left_ranks(&mut self) {
        let forgets_guests = !self.has_collectives();
        for rank in self.engine.left_ranks() {
            if self.engine.is_guest(rank) && !forgets_guests {
                continue;
            }
            if !self.names(rank as u32) && self.engine.try_forget(rank) {
                self.rank.forget_remote(rank);
            }
        }
    }

    /// Whether a collective operation goes on by itself. The tasks of ports and shared file pointers always
    /// do.
    fn has_collectives(&self) -> bool {
        self.colls.schedules.iter().count() > self.comms.port_tasks() + self.files.servers()
    }

    /// Whether something that the program may use names a rank.
    fn names(&self, rank: u32) -> bool {
        let has = |group: &Group| group.contains(rank);
        self.engine.contexts.is_bridging(rank)
            || self.comms.names(rank)
            || self.wins.iter().any(|window| has(&window.group))
            || self.engine.requests.iter().any(|(_, request)| request.group.as_deref().is_some_and(has))
    }
}
