# Programs from Debian's source packages on our library.
.PHONY: test-programs test-apps
test-programs: dist ## build HPCC, NetPIPE, FFTW, PnetCDF, HDF5, HYPRE, PETSc and LAMMPS from Debian's sources with our mpicc and run them; they verify themselves
	@mk/programs.sh

test-apps: test-programs ## the same as test-programs

# The same programs beside the peers. PROGRAMS="hpcc lammps", RANKS="2 4", ROUNDS=5, REPORT=1 (only the table of the last run).
.PHONY: bench-programs
bench-programs: dist bench-setup ## HPCC, FFTW, LAMMPS, HYPRE, PnetCDF, HDF5 and NetPIPE beside MPICH 5 and Open MPI 5 (builds 30 minutes, runs 40)
	@mk/programs-peers.sh
