# MPICH's own tests on our library: what fails, and how much passes per folder (docs/internals/conformance.md).
.PHONY: test-conformance test-conformance-fortran
test-conformance: dist ## MPICH's C tests from the distribution's source package (FOLDERS="pt2pt spawn" for some; half an hour)
	@$(ROOT)/mk/conformance.sh c $(FOLDERS)

test-conformance-fortran: dist ## MPICH's Fortran tests (f77, f90, f08) from the distribution's source package
	@$(ROOT)/mk/conformance.sh fortran
