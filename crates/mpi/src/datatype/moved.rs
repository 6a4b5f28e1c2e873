//! Datatypes while ranks move ([`crate::moving`]): a successor makes those of its predecessor anew, under the
//! same handles. Attributes are addresses in the process that moves: a successor has none.

use std::collections::HashMap;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Datatype, Description, Layout};

use super::{Types, remade};
use crate::abi::MPI_Datatype;

/// Datatypes of a program, as a successor gets them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldTypes {
    /// Layouts; each is made of others before it.
    pub layouts: Vec<HeldLayout>,
    /// Types with handles.
    pub types: Vec<HeldType>,
}

/// How a layout is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldLayout {
    /// The handle of a predefined type.
    pub handle: Option<usize>,
    /// Constructor, with its arguments as [`Description`] has them.
    pub combiner: c_int,
    /// Integers.
    pub integers: Vec<c_int>,
    /// Addresses.
    pub addresses: Vec<i64>,
    /// Large counts.
    pub counts: Vec<i64>,
    /// Types that it is made of, by their places among the layouts.
    pub types: Vec<u32>,
}

/// Type that a program has a handle of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldType {
    /// Handle.
    pub handle: MPI_Datatype,
    /// Place of its layout.
    pub layout: u32,
    /// Whether it may be used in communication.
    pub is_committed: bool,
    /// Name.
    pub name: Vec<u8>,
}

impl HeldTypes {
    /// The place of a layout, kept behind those that it is made of. Without recursion: a program may have
    /// made a chain of types as long as it likes.
    fn keep<'a>(&mut self, places: &mut HashMap<*const Layout, u32>, layout: &'a Layout) -> u32 {
        let mut left: Vec<&'a Layout> = vec![layout];
        while let Some(&layout) = left.last() {
            let description = &layout.description;
            let before = left.len();
            let missing = description.types.iter().filter(|part| !places.contains_key(&Rc::as_ptr(part)));
            left.extend(missing.map(Rc::as_ref));
            if left.len() > before {
                continue;
            }
            left.pop();
            if places.contains_key(&std::ptr::from_ref(layout)) {
                continue;
            }
            places.insert(layout, self.layouts.len() as u32);
            self.layouts.push(HeldLayout {
                handle: layout.handle,
                combiner: description.combiner,
                integers: description.integers.clone(),
                addresses: description.addresses.iter().map(|number| *number as i64).collect(),
                counts: description.counts.clone(),
                types: description.types.iter().map(|part| places[&Rc::as_ptr(part)]).collect(),
            });
        }
        places[&std::ptr::from_ref(layout)]
    }
}

impl Types {
    /// Types of the program, as a successor gets them, and the places of further layouts.
    pub(crate) fn held(&self, further: &[Rc<Layout>]) -> (HeldTypes, Vec<u32>) {
        let (mut held, mut places) = (HeldTypes::default(), HashMap::new());
        for (index, datatype) in self.made.iter() {
            let layout = held.keep(&mut places, &datatype.layout);
            // The layout of a predefined type has its handle.
            let handle = MPI_Datatype(self.made.handle(index));
            if !datatype.is_predefined() && !self.has_freed(handle) {
                held.types.push(HeldType {
                    handle,
                    layout,
                    is_committed: datatype.is_committed(),
                    name: datatype.name.clone(),
                });
            }
        }
        let further = further.iter().map(|layout| held.keep(&mut places, layout)).collect();
        (held, further)
    }

    /// Makes the types of another process, under their handles; gives all layouts.
    ///
    /// # Panics
    /// When one cannot be made: that process has made it.
    pub(crate) fn take_held(&mut self, held: HeldTypes) -> Vec<Rc<Layout>> {
        let mut layouts: Vec<Rc<Layout>> = Vec::with_capacity(held.layouts.len());
        for layout in held.layouts {
            let types = layout.types.iter().map(|place| Rc::clone(&layouts[*place as usize])).collect();
            layouts.push(self.take_layout(layout, types));
        }
        for HeldType { handle, layout, is_committed, name } in held.types {
            let mut datatype = Datatype::new(Rc::clone(&layouts[layout as usize]));
            datatype.name = name;
            if is_committed {
                datatype.commit(crate::check_mode::is_on());
            }
            self.made.insert_at(handle.0, datatype);
        }
        layouts
    }

    fn take_layout(&mut self, held: HeldLayout, types: Vec<Rc<Layout>>) -> Rc<Layout> {
        let made = "a type that has been made can be made again";
        let HeldLayout { handle, combiner, integers, addresses, counts, .. } = held;
        if let Some(handle) = handle.map(MPI_Datatype) {
            if !integers.is_empty() {
                self.f90_type(combiner, &integers, Some(handle)).expect(made);
            }
            return self.layout_or_marker(handle).expect(made);
        }
        let addresses = addresses.into_iter().map(|number| number as isize).collect();
        let description = Description { combiner, integers, addresses, counts, types: Vec::new() };
        Rc::new(remade(&description, types).expect(made))
    }
}
