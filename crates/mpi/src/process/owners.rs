//! The owners that a call reaches through the process: each by the trait that stands beside the owner, so
//! that a function says by its bounds which of them it may touch.

use super::{Guard, Process};
use crate::attributes::{HasAttributes, Table};
use crate::check::inspection::{Inspect, Inspection};
use crate::collective::schedule::Schedule;
use crate::collective::state::{Collectives, HasCollectives};
use crate::comm::{Comms, HasComms};
use crate::datatype::{HasTypes, Types};
use crate::file::{Files, HasFiles};
use crate::session::{Environment, HasEnvironment};
use crate::win::{HasWindows, Windows};

macro_rules! reach {
    ($owner:ty, $trait:ident: $get:ident, $get_mut:ident) => {
        impl $trait for Guard {
            #[inline(always)]
            fn $get(&self) -> &$owner {
                &self.$get
            }

            #[inline(always)]
            fn $get_mut(&mut self) -> &mut $owner {
                &mut self.$get
            }
        }
    };
}

reach!(Comms, HasComms: comms, comms_mut);
reach!(Types, HasTypes: types, types_mut);
reach!(Table, HasAttributes: attributes, attributes_mut);
reach!(Windows, HasWindows: wins, wins_mut);
reach!(Files, HasFiles: files, files_mut);
reach!(Environment, HasEnvironment: env, env_mut);

impl HasCollectives for Guard {
    #[inline(always)]
    fn colls(&self) -> &Collectives {
        &self.colls
    }

    #[inline(always)]
    fn colls_mut(&mut self) -> &mut Collectives {
        &mut self.colls
    }

    fn put_schedule(&mut self, schedule: Box<Schedule>, awaited: u32) {
        let Process { colls, engine, .. } = &mut **self;
        colls.schedules.put(schedule, awaited, &mut engine.requests);
    }
}

impl Inspect for Guard {
    fn inspect(&mut self) -> Inspection<'_> {
        (**self).inspect()
    }
}
