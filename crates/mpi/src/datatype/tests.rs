//! Random nested types against their type maps, written out entry by entry as the standard defines them (MPI
//! 5.1.1).

use std::rc::Rc;

use proptest::prelude::*;
use tutti_datatype::{Basic, Buffer, Datatype, Description, Element, Error, Layout, Signature, Wire};

use super::arrays::{Distribution, darray, subarray};
use super::constructors::{Form, Unit, *};
use super::predefined::part;
use super::{Types, named};
use crate::abi::*;

/// A type as a user would make it.
#[derive(Clone, Debug)]
enum Spec {
    Basic(Element),
    Contiguous(i64, Box<Spec>),
    Vector(i64, i64, i64, Box<Spec>),
    Hvector(i64, i64, i64, Box<Spec>),
    Indexed(Vec<(i64, i64)>, Unit, Box<Spec>),
    Block(i64, Vec<i64>, Unit, Box<Spec>),
    Struct(Vec<(i64, i64, Spec)>),
    Resized(i64, i64, Box<Spec>),
    /// Per dimension: elements before, inside, behind.
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Spec>),
    /// Per dimension: size, distribution, argument, processes.
    Darray(Vec<(i64, i32, i32, i32)>, i32, bool, Box<Spec>),
    Dup(Box<Spec>),
}

/// A type map: places of basic elements in the order of the data, and of markers.
#[derive(Clone, Debug, Default)]
struct Map {
    entries: Vec<(i64, Element)>,
    /// Ends of the elements that it was made of.
    ends: Vec<i64>,
    lower: Vec<i64>,
    upper: Vec<i64>,
}

impl Map {
    fn lb(&self) -> i64 {
        let lowest = || self.entries.iter().map(|entry| entry.0).min();
        self.lower.iter().copied().min().or_else(lowest).unwrap_or(0)
    }

    fn ub(&self) -> i64 {
        if let Some(marker) = self.upper.iter().max() {
            return *marker;
        }
        let Some(end) = self.ends.iter().max() else { return self.lb() };
        let align = self.entries.iter().map(|entry| entry.1.align() as i64).max().unwrap();
        self.lb() + (end - self.lb() + align - 1).div_euclid(align) * align
    }

    fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    fn add(&mut self, other: &Map, by: i64) {
        self.entries.extend(other.entries.iter().map(|(at, element)| (at + by, *element)));
        if !other.entries.is_empty() {
            self.ends.push(other.ub() + by);
        }
        self.lower.extend(other.lower.iter().map(|at| at + by));
        self.upper.extend(other.upper.iter().map(|at| at + by));
    }

    fn block(&mut self, other: &Map, length: i64, by: i64) {
        (0..length).for_each(|i| self.add(other, by + i * other.extent()));
    }

    fn resize(&mut self, lower: i64, extent: i64) {
        (self.lower, self.upper) = (vec![lower], vec![lower + extent]);
    }

    /// Places of all bytes of data, in order.
    fn bytes(&self) -> Vec<i64> {
        self.entries.iter().flat_map(|(at, e)| (0..e.bytes() as i64).map(move |i| at + i)).collect()
    }
}

impl Spec {
    fn map(&self) -> Map {
        let mut map = Map::default();
        match self {
            Spec::Basic(element) => {
                map.entries.push((0, *element));
                map.ends.push(element.bytes() as i64);
            }
            Spec::Contiguous(count, old) => map.block(&old.map(), *count, 0),
            Spec::Vector(count, length, stride, old) => {
                let old = old.map();
                (0..*count).for_each(|i| map.block(&old, *length, i * stride * old.extent()));
            }
            Spec::Hvector(count, length, stride, old) => {
                let old = old.map();
                (0..*count).for_each(|i| map.block(&old, *length, i * stride));
            }
            Spec::Indexed(blocks, unit, old) => {
                let old = old.map();
                blocks.iter().for_each(|(length, at)| map.block(&old, *length, at * scale(*unit, &old)));
            }
            Spec::Block(length, places, unit, old) => {
                let old = old.map();
                places.iter().for_each(|at| map.block(&old, *length, at * scale(*unit, &old)));
            }
            Spec::Struct(members) => {
                members.iter().for_each(|(length, at, old)| map.block(&old.map(), *length, *at));
            }
            Spec::Resized(lower, extent, old) => {
                map = old.map();
                map.resize(*lower, *extent);
            }
            Spec::Subarray(dims, fortran, old) => {
                let inside = |d: usize, i: i64| i >= dims[d].0 && i < dims[d].0 + dims[d].1;
                let sizes: Vec<i64> = dims.iter().map(|(a, b, c)| a + b + c).collect();
                array(&mut map, &old.map(), &sizes, *fortran, inside);
            }
            Spec::Darray(dims, rank, fortran, old) => {
                let mut coordinates = vec![0; dims.len()];
                let mut left = *rank;
                for d in (0..dims.len()).rev() {
                    (coordinates[d], left) = (i64::from(left % dims[d].3), left / dims[d].3);
                }
                let owner = |d: usize, i: i64| {
                    let (size, distribution, argument, processes) = dims[d];
                    let block = match (distribution, argument) {
                        (MPI_DISTRIBUTE_NONE, _) => size,
                        (MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG) => {
                            (size + i64::from(processes) - 1) / i64::from(processes)
                        }
                        (_, MPI_DISTRIBUTE_DFLT_DARG) => 1,
                        (_, argument) => i64::from(argument),
                    };
                    i / block % i64::from(processes)
                };
                let sizes: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
                array(&mut map, &old.map(), &sizes, *fortran, |d, i| owner(d, i) == coordinates[d]);
            }
            Spec::Dup(old) => map = old.map(),
        }
        map
    }

    fn layout(&self) -> Rc<Layout> {
        self.layout_by(Form::Large)
    }

    fn layout_by(&self, form: Form) -> Rc<Layout> {
        Rc::new(match self {
            Spec::Basic(element) => named(handle_of(*element), part(MPI_BYTE, *element)),
            Spec::Contiguous(count, old) => contiguous(form, *count, &old.layout_by(form)).unwrap(),
            Spec::Vector(count, length, stride, old) => {
                vector(form, *count, *length, *stride, &old.layout_by(form)).unwrap()
            }
            Spec::Hvector(count, length, stride, old) => {
                hvector(form, *count, *length, *stride, &old.layout_by(form)).unwrap()
            }
            Spec::Indexed(blocks, unit, old) => {
                let (lengths, places): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                indexed(form, *unit, &lengths, &places, &old.layout_by(form)).unwrap()
            }
            Spec::Block(length, places, unit, old) => {
                indexed_block(form, *unit, *length, places, &old.layout_by(form)).unwrap()
            }
            Spec::Struct(members) => {
                let lengths: Vec<_> = members.iter().map(|member| member.0).collect();
                let places: Vec<_> = members.iter().map(|member| member.1).collect();
                let types = members.iter().map(|member| member.2.layout_by(form)).collect();
                structure(form, &lengths, &places, types).unwrap()
            }
            Spec::Resized(lower, extent, old) => {
                resized(form, *lower, *extent, &old.layout_by(form)).unwrap()
            }
            Spec::Subarray(dims, fortran, old) => {
                let sizes: Vec<_> = dims.iter().map(|(a, b, c)| a + b + c).collect();
                let subsizes: Vec<_> = dims.iter().map(|dim| dim.1).collect();
                let starts: Vec<_> = dims.iter().map(|dim| dim.0).collect();
                subarray(form, &sizes, &subsizes, &starts, order(*fortran), &old.layout_by(form)).unwrap()
            }
            Spec::Darray(dims, rank, fortran, old) => {
                let psizes: Vec<_> = dims.iter().map(|dim| dim.3).collect();
                let array = Distribution {
                    size: psizes.iter().product(),
                    rank: *rank,
                    gsizes: &dims.iter().map(|dim| dim.0).collect::<Vec<_>>(),
                    distribs: &dims.iter().map(|dim| dim.1).collect::<Vec<_>>(),
                    dargs: &dims.iter().map(|dim| dim.2).collect::<Vec<_>>(),
                    psizes: &psizes,
                    order: order(*fortran),
                };
                darray(form, array, &old.layout_by(form)).unwrap()
            }
            Spec::Dup(old) => duplicate(&old.layout_by(form)),
        })
    }

    /// A bound of the number of basic elements, so that a test stays small.
    fn weight(&self) -> i64 {
        match self {
            Spec::Basic(_) => 1,
            Spec::Contiguous(count, old) => count * old.weight(),
            Spec::Vector(count, length, _, old) | Spec::Hvector(count, length, _, old) => {
                count * length * old.weight()
            }
            Spec::Indexed(blocks, _, old) => blocks.iter().map(|block| block.0).sum::<i64>() * old.weight(),
            Spec::Block(length, places, _, old) => length * places.len() as i64 * old.weight(),
            Spec::Struct(members) => members.iter().map(|(length, _, old)| length * old.weight()).sum(),
            Spec::Resized(_, _, old) | Spec::Dup(old) => old.weight(),
            Spec::Subarray(dims, _, old) => dims.iter().map(|dim| dim.1).product::<i64>() * old.weight(),
            Spec::Darray(dims, _, _, old) => dims.iter().map(|dim| dim.0).product::<i64>() * old.weight(),
        }
    }
}

/// The type that a program makes which reads another type's contents: the same constructor with the same
/// arguments.
fn rebuilt(layout: &Rc<Layout>) -> Rc<Layout> {
    if layout.handle.is_some() {
        return layout.clone();
    }
    let Description { combiner, integers, addresses, counts, types } = &layout.description;
    let form = if counts.is_empty() { Form::Int } else { Form::Large };
    let types: Vec<_> = types.iter().map(rebuilt).collect();
    let old = &types.first().cloned().unwrap_or_else(|| layout.clone());
    // What are ints with int counts are large counts in the other form, and so are addresses.
    let n: Vec<i64> = match form {
        Form::Int => integers.iter().map(|n| i64::from(*n)).collect(),
        Form::Large => counts.clone(),
    };
    let bytes = |from: usize| -> Vec<i64> {
        match form {
            Form::Int => addresses.iter().map(|at| *at as i64).collect(),
            Form::Large => n[from..].to_vec(),
        }
    };
    let count = n.first().map_or(0, |count| *count as usize);
    let (fixed, order) = (integers.as_slice(), integers.last().copied().unwrap_or(0));
    Rc::new(
        match *combiner {
            MPI_COMBINER_CONTIGUOUS => contiguous(form, n[0], old),
            MPI_COMBINER_VECTOR => vector(form, n[0], n[1], n[2], old),
            MPI_COMBINER_HVECTOR => hvector(form, n[0], n[1], bytes(2)[0], old),
            MPI_COMBINER_INDEXED => indexed(form, Unit::Elements, &n[1..=count], &n[count + 1..], old),
            MPI_COMBINER_HINDEXED => indexed(form, Unit::Bytes, &n[1..=count], &bytes(count + 1), old),
            MPI_COMBINER_INDEXED_BLOCK => indexed_block(form, Unit::Elements, n[1], &n[2..], old),
            MPI_COMBINER_HINDEXED_BLOCK => indexed_block(form, Unit::Bytes, n[1], &bytes(2), old),
            MPI_COMBINER_STRUCT => structure(form, &n[1..=count], &bytes(count + 1), types),
            MPI_COMBINER_RESIZED => resized(form, bytes(0)[0], bytes(0)[1], old),
            MPI_COMBINER_SUBARRAY => {
                let d = fixed[0] as usize;
                let n = if form == Form::Int { &n[1..] } else { &n[..] };
                subarray(form, &n[..d], &n[d..2 * d], &n[2 * d..3 * d], order, old)
            }
            MPI_COMBINER_DARRAY => {
                let d = fixed[2] as usize;
                let (gsizes, rest) = match form {
                    Form::Int => (n[3..3 + d].to_vec(), &fixed[3 + d..]),
                    Form::Large => (n.clone(), &fixed[3..]),
                };
                let array = Distribution {
                    size: fixed[0],
                    rank: fixed[1],
                    gsizes: &gsizes,
                    distribs: &rest[..d],
                    dargs: &rest[d..2 * d],
                    psizes: &rest[2 * d..3 * d],
                    order,
                };
                darray(form, array, old)
            }
            MPI_COMBINER_DUP => Ok(duplicate(old)),
            other => panic!("combiner {other}"),
        }
        .unwrap(),
    )
}

/// A predefined type of so many bytes.
fn handle_of(element: Element) -> MPI_Datatype {
    match element {
        Element::Character(1) => MPI_CHAR,
        Element::Signed(2) => MPI_SHORT,
        Element::Signed(4) => MPI_INT,
        Element::Float(8) => MPI_DOUBLE,
        Element::Float(16) => MPI_LONG_DOUBLE,
        Element::Complex(4) => MPI_C_FLOAT_COMPLEX,
        other => panic!("{other:?}"),
    }
}

fn scale(unit: Unit, old: &Map) -> i64 {
    if unit == Unit::Elements { old.extent() } else { 1 }
}

fn order(fortran: bool) -> i32 {
    if fortran { MPI_ORDER_FORTRAN } else { MPI_ORDER_C }
}

/// All elements of an array for which every index is `inside`, in the order of memory.
fn array(map: &mut Map, old: &Map, sizes: &[i64], fortran: bool, inside: impl Fn(usize, i64) -> bool) {
    let total: i64 = sizes.iter().product();
    for element in 0..total {
        let mut left = element;
        let mut take = true;
        for k in 0..sizes.len() {
            let d = if fortran { k } else { sizes.len() - 1 - k };
            take &= inside(d, left % sizes[d]);
            left /= sizes[d];
        }
        if take {
            map.add(old, element * old.extent());
        }
    }
    map.resize(0, total * old.extent());
}

fn basic() -> impl Strategy<Value = Spec> {
    use Element::*;
    prop::sample::select(vec![Character(1), Signed(2), Signed(4), Float(8), Float(16), Complex(4)])
        .prop_map(Spec::Basic)
}

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![Unit::Elements, Unit::Bytes])
}

fn spec() -> impl Strategy<Value = Spec> {
    basic().prop_recursive(4, 12, 3, |inner| {
        let old = inner.clone().prop_map(Box::new);
        let count = 0..5_i64;
        let dim = (0..3_i64, 1..4_i64, 0..3_i64);
        let distribution = prop_oneof![
            (1..7_i64).prop_map(|size| (size, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_DFLT_DARG, 1)),
            (1..7_i64, 1..4_i32).prop_map(|(size, n)| (
                size,
                MPI_DISTRIBUTE_BLOCK,
                MPI_DISTRIBUTE_DFLT_DARG,
                n
            )),
            (1..7_i64, 1..4_i32).prop_map(|(size, n)| (
                size,
                MPI_DISTRIBUTE_CYCLIC,
                MPI_DISTRIBUTE_DFLT_DARG,
                n
            )),
            (1..7_i64, 1..3_i32, 1..4_i32).prop_map(|(s, k, n)| (s, MPI_DISTRIBUTE_CYCLIC, k, n)),
        ];
        prop_oneof![
            (count.clone(), old.clone()).prop_map(|(n, old)| Spec::Contiguous(n, old)),
            (count.clone(), 0..4_i64, -6..7_i64, old.clone())
                .prop_map(|(n, b, s, old)| Spec::Vector(n, b, s, old)),
            (1..40_i64, 1..3_i64, 1..6_i64, old.clone())
                .prop_map(|(n, b, s, old)| Spec::Vector(n, b, s, old)),
            (count, 0..4_i64, -90..90_i64, old.clone())
                .prop_map(|(n, b, s, old)| Spec::Hvector(n, b, s, old)),
            (prop::collection::vec((0..4_i64, -9..30_i64), 0..20), unit(), old.clone())
                .prop_map(|(blocks, unit, old)| Spec::Indexed(blocks, unit, old)),
            (0..4_i64, prop::collection::vec(-9..30_i64, 0..20), unit(), old.clone())
                .prop_map(|(length, places, unit, old)| Spec::Block(length, places, unit, old)),
            prop::collection::vec((0..3_i64, -50..200_i64, inner), 0..4).prop_map(Spec::Struct),
            (-20..20_i64, -10..100_i64, old.clone()).prop_map(|(lb, e, old)| Spec::Resized(lb, e, old)),
            (prop::collection::vec(dim, 1..4), any::<bool>(), old.clone())
                .prop_map(|(dims, fortran, old)| Spec::Subarray(dims, fortran, old)),
            (prop::collection::vec(distribution, 1..4), 0..64_i32, any::<bool>(), old.clone()).prop_map(
                |(dims, rank, fortran, old)| {
                    let size: i32 = dims.iter().map(|dim| dim.3).product();
                    Spec::Darray(dims, rank % size, fortran, old)
                }
            ),
            old.prop_map(Spec::Dup),
        ]
    })
}

fn small_spec() -> impl Strategy<Value = Spec> {
    spec().prop_filter("a type map that fits a test", |spec| spec.weight() <= 3000)
}

/// Memory for elements at any displacement: the places of all bytes of data, moved so that the lowest is 0,
/// and the base.
fn memory(map: &Map, count: i64) -> (Vec<usize>, isize, usize) {
    let one = map.bytes();
    let places: Vec<i64> = (0..count).flat_map(|i| one.iter().map(move |at| at + i * map.extent())).collect();
    let low = places.iter().copied().min().unwrap_or(0);
    let high = places.iter().copied().max().unwrap_or(0);
    let moved = places.iter().map(|at| (at - low) as usize).collect();
    (moved, -low as isize, (high - low + 1) as usize)
}

fn buffer(datatype: &Datatype, memory: &mut [u8], base: isize, count: i64) -> Buffer {
    datatype.buffer(memory.as_mut_ptr().wrapping_offset(base), count as usize).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn datatype_bounds_match_the_type_map(spec in small_spec()) {
        let (map, layout) = (spec.map(), spec.layout());
        let bounds = layout.part.bounds;
        prop_assert_eq!(bounds.size, map.bytes().len() as i128);
        prop_assert_eq!((bounds.lower(), bounds.extent()), (map.lb().into(), map.extent().into()));
        let bytes = map.bytes();
        let (low, high) = (bytes.iter().min(), bytes.iter().max());
        prop_assert_eq!(bounds.true_lower(), i128::from(low.copied().unwrap_or(0)));
        prop_assert_eq!(bounds.true_extent(), high.map_or(0, |high| i128::from(high - low.unwrap() + 1)));
    }

    #[test]
    fn datatype_pack_in_any_pieces_matches_the_type_map(
        spec in small_spec(),
        count in 0..6_i64,
        cuts in prop::collection::vec(prop_oneof![1..200_usize, 1000..20_000_usize], 1..20),
        jumps in prop::collection::vec((any::<prop::sample::Index>(), 1..100_usize), 0..10),
    ) {
        let map = spec.map();
        let mut datatype = Datatype::new(spec.layout());
        datatype.commit(false);
        let (places, base, length) = memory(&map, count);
        let mut memory: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let expected: Vec<u8> = places.iter().map(|at| memory[*at]).collect();
        let buffer = buffer(&datatype, &mut memory, base, count);
        prop_assert_eq!(buffer.bytes, expected.len());
        let mut packed = vec![0; expected.len()];
        let (mut offset, mut cut) = (0, cuts.iter().cycle());
        while offset < packed.len() {
            let part = (*cut.next().unwrap()).min(packed.len() - offset);
            // SAFETY: memory covers all places of the type map, and packed is as long as the data.
            unsafe { buffer.load(offset, packed.as_mut_ptr().add(offset), part) };
            offset += part;
        }
        prop_assert_eq!(&packed, &expected);
        for (index, part) in jumps {
            if expected.is_empty() { break; }
            let offset = index.index(expected.len());
            let part = part.min(expected.len() - offset);
            let mut piece = vec![0; part];
            // SAFETY: as above.
            unsafe { buffer.load(offset, piece.as_mut_ptr(), part) };
            prop_assert_eq!(&piece[..], &expected[offset..offset + part]);
        }
    }

    #[test]
    fn datatype_unpack_in_any_pieces_matches_the_type_map(
        spec in small_spec(),
        count in 0..6_i64,
        cuts in prop::collection::vec(prop_oneof![1..200_usize, 1000..20_000_usize], 1..20),
    ) {
        let map = spec.map();
        let mut datatype = Datatype::new(spec.layout());
        datatype.commit(false);
        let (places, base, length) = memory(&map, count);
        // MPI forbids to receive twice into the same place.
        let distinct: std::collections::HashSet<_> = places.iter().collect();
        prop_assume!(distinct.len() == places.len());
        let data: Vec<u8> = (0..places.len()).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut expected = vec![0xee; length];
        places.iter().zip(&data).for_each(|(at, byte)| expected[*at] = *byte);
        let mut memory = vec![0xee; length];
        let buffer = buffer(&datatype, &mut memory, base, count);
        let (mut offset, mut cut) = (0, cuts.iter().cycle());
        while offset < data.len() {
            let part = (*cut.next().unwrap()).min(data.len() - offset);
            // SAFETY: memory covers all places of the type map; data is as long as it says.
            unsafe { buffer.store(offset, data.as_ptr().add(offset), part) };
            offset += part;
        }
        prop_assert_eq!(memory, expected);
    }

    #[test]
    fn datatype_contents_rebuild_the_type(spec in small_spec(), large in any::<bool>()) {
        let layout = spec.layout_by(if large { Form::Large } else { Form::Int });
        let again = rebuilt(&layout);
        prop_assert_eq!(layout.part.bounds, again.part.bounds);
        prop_assert_eq!(layout.part.signature.hash, again.part.signature.hash);
        prop_assert_eq!(format!("{:?}", layout.part.node), format!("{:?}", again.part.node));
        prop_assert_eq!(layout.description.integers.len(), again.description.integers.len());
    }

    #[test]
    fn datatypes_of_another_process_are_the_same_here(
        specs in prop::collection::vec(small_spec(), 1..4),
        large in any::<bool>(),
    ) {
        let form = if large { Form::Large } else { Form::Int };
        let mut types = Types::new();
        let make = |types: &mut Types, spec: &Spec, is_committed: bool| {
            let mut datatype = Datatype::new(Rc::new(duplicate(&spec.layout_by(form))));
            datatype.name = format!("{spec:?}").into();
            if is_committed {
                datatype.commit(false);
            }
            types.add(datatype)
        };
        let freed = make(&mut types, &specs[0], true);
        let integer = types.f90_integer(9).unwrap();
        let mut handles: Vec<_> =
            specs.iter().enumerate().map(|(at, spec)| make(&mut types, spec, at % 2 == 0)).collect();
        handles.push(types.add(Datatype::new(Rc::new(duplicate(&types.layout(integer).unwrap())))));
        types.free(freed).unwrap();
        let mut other = Types::new();
        let (held, places) = types.held(&[]);
        assert!(places.is_empty());
        other.take_held(held);
        prop_assert_eq!(other.made().len(), types.made().len());
        prop_assert_eq!(other.f90_integer(9).unwrap(), integer);
        prop_assert!(other.find(freed).is_err());
        for handle in handles {
            let (here, there) = (types.find(handle).unwrap(), other.find(handle).unwrap());
            prop_assert_eq!((&here.name, here.is_committed()), (&there.name, there.is_committed()));
            let (here, there) = (&here.layout, &there.layout);
            prop_assert_eq!(here.part.bounds, there.part.bounds);
            prop_assert_eq!(format!("{:?}", here.part.node), format!("{:?}", there.part.node));
            let (here, there) = (&here.description.types[0].description, &there.description.types[0].description);
            prop_assert_eq!((here.combiner, &here.integers), (there.combiner, &there.integers));
            prop_assert_eq!((&here.addresses, &here.counts), (&there.addresses, &there.counts));
            prop_assert_eq!(here.types.len(), there.types.len());
        }
    }

    #[test]
    fn datatype_signature_matches_the_type_map(spec in small_spec(), bytes in any::<prop::sample::Index>()) {
        let map = spec.map();
        let signature = spec.layout().part.signature.clone();
        let flat = Signature::sequence(
            map.entries.iter().map(|entry| Signature::basic(Basic { element: entry.1, wire: Wire::Same })).collect()).unwrap();
        prop_assert_eq!(signature.hash, flat.hash);
        prop_assert_eq!((signature.elements, signature.size), (flat.elements, flat.size));
        let bytes = bytes.index(map.bytes().len() + 1);
        let (mut elements, mut left) = (0, bytes);
        for entry in &map.entries {
            if left < entry.1.bytes() { break; }
            left -= entry.1.bytes();
            elements += 1;
        }
        prop_assert_eq!(signature.elements_in(bytes as i128), (elements, left as i128));
        prop_assert_eq!(signature.bytes_of(elements), (bytes - left) as i128);
        let mut visited = Vec::new();
        signature.visit(&mut |basic, count| visited.extend((0..count).map(|_| basic.element)));
        prop_assert_eq!(visited, map.entries.iter().map(|entry| entry.1).collect::<Vec<_>>());
    }
}

/// Columns of a matrix, all of them: the shape that is copied in tiles.
#[test]
fn datatype_transposes_a_matrix() {
    for (bytes, rows, columns) in
        [(1, 100, 70), (2, 33, 200), (4, 64, 64), (8, 70, 1024), (8, 2100, 9), (16, 70, 15), (24, 40, 13)]
    {
        let element = Rc::new(named(MPI_BYTE, part(MPI_BYTE, Element::Character(bytes as u8))));
        let column = Rc::new(vector(Form::Large, rows, 1, columns, &element).unwrap());
        let spaced = Rc::new(resized(Form::Large, 0, bytes, &column).unwrap());
        let mut datatype = Datatype::new(spaced);
        datatype.commit(false);
        let length = (bytes * rows * columns) as usize;
        let mut matrix: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let at = |row: i64, column: i64| ((row * columns + column) * bytes) as usize;
        let expected: Vec<u8> = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| at(row, column)))
            .flat_map(|at| matrix[at..at + bytes as usize].to_vec())
            .collect();
        let (mut packed, original) = (vec![0; length], matrix.clone());
        let buffer = datatype.buffer(matrix.as_mut_ptr(), columns as usize).unwrap();
        // SAFETY: matrix and packed are as long as the data.
        unsafe { buffer.load(0, packed.as_mut_ptr(), length) };
        assert_eq!(packed, expected);
        matrix.fill(0);
        let buffer = datatype.buffer(matrix.as_mut_ptr(), columns as usize).unwrap();
        // SAFETY: as above.
        unsafe { buffer.store(0, packed.as_ptr(), length) };
        assert_eq!(matrix, original);
    }
}

#[test]
fn datatype_larger_than_memory_has_a_size() {
    let byte = Rc::new(named(MPI_BYTE, part(MPI_BYTE, Element::Byte)));
    let long = Rc::new(contiguous(Form::Large, i64::MAX, &byte).unwrap());
    let huge = Rc::new(contiguous(Form::Large, i64::MAX, &long).unwrap());
    assert_eq!(huge.part.bounds.size, i128::from(i64::MAX) * i128::from(i64::MAX));
    let mut datatype = Datatype::new(huge);
    datatype.commit(false);
    let error = datatype.buffer(std::ptr::null_mut(), 1).unwrap_err();
    assert!(matches!(error, Error::TooMany(_)), "{error}");
    assert_eq!(datatype.buffer(std::ptr::null_mut(), 0).unwrap().bytes, 0);
}

#[test]
fn datatype_vector_stays_a_loop() {
    let double = Rc::new(named(MPI_DOUBLE, part(MPI_BYTE, Element::Float(8))));
    let column = vector(Form::Large, 1 << 40, 1, 1000, &double).unwrap();
    assert_eq!(column.part.bounds.size, 8 << 40);
    assert_eq!(column.part.bounds.extent(), ((1 << 40) - 1) * 8000 + 8);
}

#[test]
fn datatype_chain_is_freed_without_recursion() {
    let mut layout = Rc::new(named(MPI_BYTE, part(MPI_BYTE, Element::Byte)));
    for _ in 0..200_000 {
        layout = Rc::new(duplicate(&layout));
    }
    drop(layout);
}

#[test]
fn datatype_uncommitted_is_refused() {
    let byte = Rc::new(named(MPI_BYTE, part(MPI_BYTE, Element::Byte)));
    let datatype = Datatype::new(Rc::new(contiguous(Form::Int, 3, &byte).unwrap()));
    assert_eq!(datatype.buffer(std::ptr::null_mut(), 1).unwrap_err(), Error::NotCommitted);
}
