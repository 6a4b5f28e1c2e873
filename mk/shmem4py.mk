# shmem4py's own test suite on our OpenSHMEM.
SHMEM4PY_PES ?= 1 2 3

.PHONY: test-shmem4py
test-shmem4py: dist ## build shmem4py from PyPI with oshcc and run its own tests on SHMEM4PY_PES (1 2 3) PEs
	@mk/shmem4py.sh "$(CURDIR)/$(DIST)" "$(CURDIR)/$(TARGET)/shmem4py" $(SHMEM4PY_PES)
