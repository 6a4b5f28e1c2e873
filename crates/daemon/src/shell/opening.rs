//! Start of a daemon: what an earlier one has left, and its threads.

use std::collections::{BTreeSet, HashMap};

use super::address::switch_socket;
use super::clock::{now, now_ms, now_us};
use super::error::failed;
use super::settings::Settings;
use super::starters::Starter;
use super::{
    Shell, ShellError, ShellEvent, ShellEvents, board, complaints, doors, drains, epilogs, events, filing,
    filling, first, journals, lending, letters, neighbours, numbers, orphans, peer_users, peers, quota,
    random_number, records, reservations, script_runs, service, used, uses,
};
use crate::core::Core;
use crate::core::config::{Config, KnownNodes};
use crate::core::event::Event;
use crate::core::ledger::queue::Rules;
use crate::gang::fetcher::Fetcher;
use crate::gang::wishes::Listeners;
use crate::gang::{GangSettings, Switcher};
use crate::key::Credential;
use crate::members::About;

fn config(settings: &Settings) -> Result<Config, ShellError> {
    let incarnation = random_number().map_err(failed("draw random bytes"))?;
    let ability = tutti_os::cgroup::ability();
    Ok(Config {
        about: About {
            name: settings.node.name.clone(),
            control: settings.network.listen,
            data: settings.network.data,
            slots: settings.node.slots,
            memory_bytes: settings.node.memory_bytes,
            offered_gpus: settings.node.gpus_for_jobs,
            limits_memory: ability.limits_memory,
            freezes: ability.freezes,
            incarnation,
            preferred: Default::default(),
            machine: settings.node.machine.clone(),
            release: tutti_protocol::version::RELEASE.into(),
        },
        controller: settings.network.controller,
        arity: settings.network.arity,
        lost_ms: settings.delays.lost_ms,
        keep_ms: settings.delays.keep_ms,
        owner: rustix::process::geteuid().as_raw(),
        first_job: settings.folders.first_job(),
        before: None,
        starters: Vec::new(),
        journals: Vec::new(),
        queued: Vec::new(),
        used: Default::default(),
        known_nodes: match settings.network.controller {
            None => KnownNodes {
                drains: drains::load(&drains::file(&settings.folders.queue)),
                reservations: reservations::load(&reservations::file(&settings.folders.queue)),
                numbers: numbers::load(&settings.folders.queue),
                first_ms: 0,
            },
            Some(_) => KnownNodes::default(),
        },
        policy: settings.gangs.policy,
        loaded: settings.configured.loaded.clone(),
        settings: settings.configured.shown.clone(),
        user_name: crate::accounts::name,
        group_name: crate::accounts::group_name,
    })
}

impl Shell {
    /// A daemon that has not begun yet, with what an earlier one has left.
    pub(super) fn open(
        settings: Settings,
        credential: Credential,
        shell_events: ShellEvents,
        descriptors: u64,
    ) -> Result<Self, ShellError> {
        let owner = rustix::process::geteuid().as_raw();
        let quota = quota::ConnectionQuota::new(owner, descriptors);
        let folder = records::Folder::open(&settings.folders.parts)?;
        let owed = epilogs::Owed::open(&settings.folders.parts)?;
        let mut config = config(&settings)?;
        let first = settings.is_controller().then(|| first::take(&settings.folders.queue, now_us()));
        config.known_nodes.first_ms = first.unwrap_or(0) / 1000;
        let gangs = GangSettings { first: first.unwrap_or(0), ..settings.gangs.clone() };
        let waiting = settings.is_controller().then(|| filing::Folder::open(&settings.folders.queue));
        let (waiting, queued) = waiting.transpose()?.unzip();
        config.queued = queued.unwrap_or_default();
        let filed = shell_events.clone();
        let done = move |job, result| drop(filed.send(ShellEvent::Core(Event::Filed(job, result))));
        let filing = waiting.map(|folder| filing::Filing::start(folder, filing::sync, done)).transpose();
        let filing = filing.map_err(failed("start a thread for the jobs that wait"))?;
        let mut used = settings.is_controller().then(|| used::UsedFile::new(&settings.folders.queue));
        config.used = used.as_mut().map_or_else(Default::default, |file| file.load(now_ms()));
        let (manifest, before) = records::Manifest::take(&settings.folders.parts, config.about.incarnation);
        config.before = before;
        let mut starters = HashMap::new();
        for (job, mut file) in folder.sweep() {
            let record = file.record.take().expect("a file without is none");
            let _ = folder.put(job, &records::File { record: Some(record.clone()), ..file.clone() });
            starters.insert(job, Starter::away(file));
            config.starters.push((job, record));
        }
        let swept = tutti_os::cgroup::sweep_blocking();
        if swept.removed > 0 {
            tracing::info!("{} cgroups of jobs that were left are removed", swept.removed);
        }
        if let Some(first) = swept.left.first() {
            tracing::warn!("{} cgroups of jobs that were left stay, the first: {first}", swept.left.len());
        }
        let mut journals = journals::Journals::open(settings.folders.output.clone())?;
        config.journals = journals.load();
        let (board, job_lines) = board::Keeper::open(settings.node.slots, settings.delays.board_refresh_ms)
            .map_or((None, None), |(keeper, jobs)| (Some(keeper), Some(jobs)));
        let switch_events = shell_events.clone();
        let socket = switch_socket(&settings);
        let switcher = Switcher::start(&gangs, settings.is_controller(), socket, job_lines, move |event| {
            let _ = switch_events.send(ShellEvent::Core(Event::Gang(event)));
        })
        .map_err(failed("start the switch thread"))?;
        config.about.preferred = switcher.priority_class();
        let found = shell_events.clone();
        let waker = switcher.waker().map_err(failed("wake the switch thread"))?;
        let listeners = Listeners::new(waker.try_clone().map_err(failed("wake the switch thread"))?);
        let fetcher = Fetcher::new(waker, move |job, pages| drop(found.send(ShellEvent::Pages(job, pages))));
        Ok(Shell {
            core: Core::new(config, now()),
            folder,
            manifest,
            filing,
            used,
            events: events::Log::open(&settings.folders.events, settings.is_controller())?,
            turns: events::Log::open(&settings.folders.turns, settings.is_controller())?,
            turns_taken_ms: 0,
            has_board_lines: false,
            credential,
            switcher,
            fetcher,
            lending: lending::Lending::new(listeners),
            unsent: HashMap::new(),
            board,
            meters: uses::Meters::open(),
            fill_trials: filling::FillTrials::default(),
            neighbours: neighbours::Neighbours::new(settings.delays.leave_ms.is_some()),
            pending_peers: peers::PendingPeers::new(),
            shell_events,
            peers: HashMap::new(),
            clients: HashMap::new(),
            region_clients: HashMap::new(),
            complaints: complaints::Complaints::new(quota.clone()),
            quota,
            doors: doors::Doors::new(owner),
            pieces: service::Pieces::new(Rules::of_daemon(owner)),
            speaker: None,
            peer_users: peer_users::PeerUsers::default(),
            starters,
            preparing: script_runs::Preparations::default(),
            epilogs: epilogs::Epilogs::default(),
            owed,
            mails: letters::Mails::default(),
            writers: HashMap::new(),
            journals,
            wards: orphans::Wards::new(),
            enrolled: HashMap::new(),
            needed_ms: now_ms(),
            // Connections of an earlier incarnation are known elsewhere by theirs.
            numbers: now_ms() << 20,
            machine: settings.node.machine.as_str().into(),
            without_groups: false,
            without_user_limits: BTreeSet::new(),
            leaving: false,
            refused: None,
            settings,
        })
    }
}
