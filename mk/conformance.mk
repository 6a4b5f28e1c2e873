# MPICH's own tests on our library: what fails, and how much passes per folder (docs/internals/conformance.md). WAY=nodes: on two virtual
# nodes; WAY=crowded: all ranks of a test on one core.
.PHONY: test-conformance test-conformance-fortran test-conformance-binaries test-conformance-binaries-fortran
test-conformance: dist ## MPICH's C tests from the distribution's source package (FOLDERS="pt2pt spawn" for some, WAY=nodes|crowded; half an hour)
	@CONFORMANCE_WAY=$(WAY) mk/conformance.sh c $(FOLDERS)

test-conformance-fortran: dist ## MPICH's Fortran tests (f77, f90, f08) from the distribution's source package (FOLDERS="f08/io", WAY as above)
	@CONFORMANCE_WAY=$(WAY) mk/conformance.sh fortran $(FOLDERS)

test-conformance-binaries: dist ## MPICH's C tests compiled by MPICH's own mpicc, each on its library and on ours: what differs (FOLDERS as above)
	@mk/conformance.sh both $(FOLDERS)

test-conformance-binaries-fortran: dist ## MPICH's tests in Fortran and C++ compiled by its own mpifort and mpicxx (Debian's), as above (FOLDERS="f08/coll cxx")
	@mk/conformance.sh both-fortran $(FOLDERS)
