# Programs of Debian's MPICH and Open MPI under our launchers: their packages are unpacked into target/peers/mpich-debian and
# target/peers/openmpi-debian, nothing is installed.
.PHONY: foreign-debian foreign-machines
foreign-debian: dist ## run the tests of foreign programs with Debian's MPICH and Open MPI instead of the wheels
	@mk/foreign-debian.sh
	@mk/foreign-open-mpi.sh

# The same programs where ranks share nothing but a cable: by the daemons of two machines of the lab.
foreign-machines: dist ## run programs of Debian on two machines of the lab: HPCC, NetPIPE, LAMMPS, GROMACS, GetDP on Open MPI 5 of PyPI and 4.1 of Debian, those for MPICH on our library (root)
	timeout --kill-after=5 600 $(CARGO) test --package tutti-tests --test foreign -- --exact --ignored packages::open_mpi_packages_run_on_machines
	@mk/foreign-open-mpi.sh machines
	@mk/foreign-debian.sh machines
