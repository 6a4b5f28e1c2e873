# MPICH's own Fortran tests on our library: what fails, and how much passes per folder (docs/internals/conformance-fortran.md).
.PHONY: test-conformance-fortran
test-conformance-fortran: dist ## MPICH's Fortran tests (f77, f90, f08) from the distribution's source package
	@$(ROOT)/mk/conformance-fortran.sh
