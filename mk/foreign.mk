# Programs of Debian's MPICH and Open MPI under our launchers: their packages are unpacked into target/peers/mpich-debian and
# target/peers/openmpi-debian, nothing is installed.
.PHONY: foreign-debian
foreign-debian: dist ## run the tests of foreign programs with Debian's MPICH and Open MPI instead of the wheels
	@mk/foreign-debian.sh
	@mk/foreign-open-mpi.sh
