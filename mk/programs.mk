# Programs from Debian's source packages on our library.
.PHONY: test-programs test-apps
test-programs: dist ## build HPCC, NetPIPE, FFTW, PnetCDF, HDF5, HYPRE and LAMMPS from Debian's sources with our mpicc and run them; they verify themselves
	@$(ROOT)/mk/setup.sh gcc gfortran dpkg-deb perl autoreconf
	@$(ROOT)/mk/programs.sh

test-apps: test-programs ## the same as test-programs
