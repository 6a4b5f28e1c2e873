//! The tool information interface (MPI chapter 15): what it shows and what a tool has allocated.
//!
//! It works before MPI_Init and after MPI_Finalize, so it has a table and a lock of its own. A performance
//! variable is one of [`crate::variables`]. A handle of a counter adds up what is counted while it is
//! started, so that each tool can stop, reset and write its own without disturbing others. A level is what it
//! is. A control variable is a setting out of the environment: it can be read only.

use core::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::abi::*;
use crate::events;
use crate::process;
use crate::tool_users::{Answer, USERS, check_initialized, checked_index};
use crate::variables::{self, Class, Variable};

/// A setting: name, meaning.
pub const SETTINGS: [(&str, &str); 3] = [
    ("TUTTI_CHECK", "1: the ranks look for mistakes of the program; warn: they only say them"),
    ("TUTTI_STATS", "1: a table of what the ranks have sent is printed at the end; json: for scripts"),
    ("TUTTI_SINGLETON", "a process below a launcher that has no ticket of its job may run alone"),
];
/// Characters of a setting that can be read, its final zero included.
pub const SETTING_CHARS: usize = 256;

/// A category: name, meaning.
pub const CATEGORIES: [(&str, &str); 7] = [
    ("tutti.messages", "messages between ranks: how many, how large, which way they went"),
    ("tutti.settings", "settings out of the environment"),
    ("tutti.collectives", "collective operations"),
    ("tutti.files", "access to files"),
    ("tutti.turns", "how the job was frozen and thawed"),
    ("tutti.queues", "receives without a message, messages without a receive"),
    ("tutti.remote_memory", "operations of ranks of other nodes on memory of this one"),
];
/// The category of the control variables.
pub const OF_SETTINGS: c_int = 1;

/// A handle of a performance variable.
#[derive(Clone, Copy, Debug)]
struct Handle {
    id: usize,
    session: usize,
    variable: Variable,
    /// Count while it was started, without the present stretch.
    counted: u64,
    /// Value of the counter at the present start; none while it is stopped.
    started_at: Option<u64>,
}

impl Handle {
    fn value(&self) -> u64 {
        match self.variable.class {
            Class::Level => now(&self.variable),
            Class::Counter => {
                let since = self.started_at.map_or(0, |start| now(&self.variable).wrapping_sub(start));
                self.counted.wrapping_add(since)
            }
        }
    }

    fn set(&mut self, value: u64) {
        self.counted = value;
        self.started_at = self.started_at.map(|_| now(&self.variable));
    }
}

#[derive(Debug)]
struct Table {
    /// Identities are never given twice; 0 is the null handle, 1 stands for all handles.
    next_id: usize,
    sessions: Vec<usize>,
    handles: Vec<Handle>,
    /// Handles of control variables: identity, setting.
    settings: Vec<(usize, usize)>,
}

static TABLE: Mutex<Table> =
    Mutex::new(Table { next_id: 2, sessions: Vec::new(), handles: Vec::new(), settings: Vec::new() });

/// The value of a variable; 0 outside of MPI.
fn now(variable: &Variable) -> u64 {
    process::enter().map_or(0, |guard| variable.value(&guard.engine, &guard.rank))
}

/// Runs `action` on the table, if the interface has been initialized.
fn with<T>(action: impl FnOnce(&mut Table) -> Answer<T>) -> Answer<T> {
    check_initialized()?;
    // A callback that comes under the process lock waits for no thread that may wait for that one.
    if events::is_restricted() {
        return Err(MPI_T_ERR_NOT_ACCESSIBLE);
    }
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    check_initialized()?;
    action(&mut table)
}

impl Table {
    fn new_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id - 1
    }

    fn check_session(&self, session: MPI_T_pvar_session) -> Answer {
        if events::is_restricted() {
            return Err(MPI_T_ERR_NOT_ACCESSIBLE);
        }
        if self.sessions.contains(&session.0) { Ok(()) } else { Err(MPI_T_ERR_INVALID_SESSION) }
    }

    fn handle(&mut self, session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Answer<&mut Handle> {
        self.check_session(session)?;
        let found = self.handles.iter_mut().find(|one| one.id == handle.0 && one.session == session.0);
        found.ok_or(MPI_T_ERR_INVALID_HANDLE)
    }
}

/// The interface is initialized once more.
pub fn initialize() {
    let _table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    USERS.fetch_add(1, Ordering::AcqRel);
}

/// One user less; the last one's sessions and handles go.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED.
pub fn finalize() -> Answer {
    with(|table| {
        if USERS.fetch_sub(1, Ordering::AcqRel) == 1 {
            events::clear();
            table.sessions.clear();
            table.handles.clear();
            table.settings.clear();
        }
        Ok(())
    })
}

/// A new session.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED.
pub fn open_session() -> Answer<MPI_T_pvar_session> {
    with(|table| {
        let id = table.new_id();
        table.sessions.push(id);
        Ok(MPI_T_pvar_session(id))
    })
}

/// Ends a session with all its handles.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_SESSION.
pub fn close_session(session: MPI_T_pvar_session) -> Answer {
    with(|table| {
        table.check_session(session)?;
        table.sessions.retain(|&id| id != session.0);
        table.handles.retain(|handle| handle.session != session.0);
        Ok(())
    })
}

/// A new handle, stopped.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_INVALID_INDEX.
pub fn new_handle(session: MPI_T_pvar_session, index: c_int) -> Answer<MPI_T_pvar_handle> {
    let variable = variables::of(checked_index(index, variables::COUNT)?);
    with(|table| {
        table.check_session(session)?;
        let id = table.new_id();
        table.handles.push(Handle { id, session: session.0, variable, counted: 0, started_at: None });
        Ok(MPI_T_pvar_handle(id))
    })
}

/// Frees a handle.
///
/// # Errors
/// As [`read`].
pub fn free_handle(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Answer {
    with(|table| {
        table.handle(session, handle)?;
        table.handles.retain(|one| one.id != handle.0);
        Ok(())
    })
}

/// Action of a tool on a handle, or on all handles of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Counts from now on.
    Start,
    /// Counts no more.
    Stop,
    /// Begins again with 0.
    Reset,
}

/// Changes one handle, or all that can be changed.
///
/// # Errors
/// As [`read`]; MPI_T_ERR_PVAR_NO_STARTSTOP and MPI_T_ERR_PVAR_NO_WRITE of a level.
pub fn change(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, change: Change) -> Answer {
    with(|table| {
        if handle != MPI_T_PVAR_ALL_HANDLES {
            return apply(table.handle(session, handle)?, change);
        }
        table.check_session(session)?;
        let of_session = table.handles.iter_mut().filter(|one| one.session == session.0);
        for handle in of_session {
            // Levels are left out (15.3.7).
            let _ = apply(handle, change);
        }
        Ok(())
    })
}

fn apply(handle: &mut Handle, change: Change) -> Answer {
    if handle.variable.class == Class::Level {
        let is_reset = change == Change::Reset;
        return Err(if is_reset { MPI_T_ERR_PVAR_NO_WRITE } else { MPI_T_ERR_PVAR_NO_STARTSTOP });
    }
    match change {
        Change::Start => handle.started_at = handle.started_at.or_else(|| Some(now(&handle.variable))),
        Change::Stop => {
            handle.counted = handle.value();
            handle.started_at = None;
        }
        Change::Reset => handle.set(0),
    }
    Ok(())
}

/// The value of a handle.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_INVALID_HANDLE.
pub fn read(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Answer<u64> {
    with(|table| Ok(table.handle(session, handle)?.value()))
}

/// The value of a handle, which begins again with 0; nothing that is counted meanwhile is lost.
///
/// # Errors
/// As [`read`]; MPI_T_ERR_PVAR_NO_WRITE of a level.
pub fn read_and_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Answer<u64> {
    with(|table| {
        let handle = table.handle(session, handle)?;
        if handle.variable.class == Class::Level {
            return Err(MPI_T_ERR_PVAR_NO_WRITE);
        }
        let present = handle.started_at.map(|_| now(&handle.variable));
        let since = handle.started_at.zip(present).map_or(0, |(start, end)| end.wrapping_sub(start));
        let value = handle.counted.wrapping_add(since);
        (handle.counted, handle.started_at) = (0, present);
        Ok(value)
    })
}

/// Gives a handle a value.
///
/// # Errors
/// As [`read`]; MPI_T_ERR_PVAR_NO_WRITE of a level.
pub fn write(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, value: u64) -> Answer {
    with(|table| {
        let handle = table.handle(session, handle)?;
        if handle.variable.class == Class::Level {
            return Err(MPI_T_ERR_PVAR_NO_WRITE);
        }
        handle.set(value);
        Ok(())
    })
}

/// A handle of a control variable.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_INDEX.
pub fn new_setting_handle(index: c_int) -> Answer<MPI_T_cvar_handle> {
    let setting = checked_index(index, SETTINGS.len())?;
    with(|table| {
        let id = table.new_id();
        table.settings.push((id, setting));
        Ok(MPI_T_cvar_handle(id))
    })
}

/// Frees a handle of a control variable.
///
/// # Errors
/// As [`setting`].
pub fn free_setting_handle(handle: MPI_T_cvar_handle) -> Answer {
    setting(handle)?;
    with(|table| {
        table.settings.retain(|one| one.0 != handle.0);
        Ok(())
    })
}

/// Which setting a handle is of.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_HANDLE.
pub fn setting(handle: MPI_T_cvar_handle) -> Answer<usize> {
    with(|table| {
        let found = table.settings.iter().find(|one| one.0 == handle.0);
        found.map(|one| one.1).ok_or(MPI_T_ERR_INVALID_HANDLE)
    })
}
