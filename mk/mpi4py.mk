# mpi4py's own test suite on our library, on 1 to 5 ranks: what fails, and how much of it runs. MPI4PY_NETWORK=udp: each rank a node, all
# over UDP; netns (root only): two nodes, each a network namespace; cluster2, cluster4: the nodes of a cluster of so many daemons. SWITCH=5: on
# two ranks of a cluster of two that is switched off and on every 5 ms.
SWITCH ?=
MPI4PY_NETWORK ?= $(if $(SWITCH),cluster2,node)
MPI4PY_RANKS ?= $(if $(SWITCH),2,$(if $(filter cluster%,$(MPI4PY_NETWORK)),4,$(if $(filter node,$(MPI4PY_NETWORK)),1) 2 3 4 $(if $(filter node,$(MPI4PY_NETWORK)),5)))

# What its tests can use besides: without them they are skipped.
MPI4PY_USES = numpy==2.4.6 cffi==2.1.1 cython==3.3.1 cloudpickle==3.1.2 dill==0.4.1 pyyaml==6.0.3 setuptools==80.9.0

.PHONY: test-mpi4py test-mpi4py-wheel test-mpi4py-open-mpi
test-mpi4py: dist mpi4py-setup ## run mpi4py's own tests on MPI4PY_RANKS (1 2 3 4 5) ranks over MPI4PY_NETWORK (node, udp, netns, cluster2, cluster4), or switched every SWITCH ms; all must pass but unwritten chapters
	@mk/mpi4py.sh
	@$(TARGET)/mpi4py/venv/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 $(MPI4PY_USES) || \
		echo "test-mpi4py: PyPI does not give what some tests use; they are skipped"
	@root="$(CURDIR)"; place="$$root/$(TARGET)/mpi4py"; \
		MPI4PY_SWITCH=$(SWITCH) "$$place/venv/bin/python" "$$root/tests/mpi4py/run.py" "$$place/venv/bin/python" "$$place/source/test" \
		"$$root/$(DIST)/bin/mpiexec" "$$root/bindings/mpi/functions.txt" "$$place/results-$(MPI4PY_NETWORK)$(if $(SWITCH),-switched)" \
		$(MPI4PY_NETWORK) $(MPI4PY_RANKS)

# The same suite on the binary that PyPI gives: on our library with MPICH's interface, or with MPI4PY_LIBMPI on any other.
test-mpi4py-wheel: dist mpi4py-setup ## run mpi4py's own tests with PyPI's wheel of mpi4py, as it is, in place of a build of our own (settings as above)
	@mk/mpi4py.sh source && mk/mpi4py.sh wheel
	@$(TARGET)/mpi4py/wheel/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 $(MPI4PY_USES) || \
		echo "test-mpi4py-wheel: PyPI does not give what some tests use; they are skipped"
	@root="$(CURDIR)"; place="$$root/$(TARGET)/mpi4py"; \
		MPI4PY_SWITCH=$(SWITCH) "$$place/wheel/bin/python" "$$root/tests/mpi4py/run.py" "$$place/wheel/bin/python" "$$place/source/test" \
		"$$root/$(DIST)/bin/mpiexec" "$$root/bindings/mpi/functions.txt" "$$place/results-wheel-$(MPI4PY_NETWORK)$(if $(SWITCH),-switched)" \
		$(MPI4PY_NETWORK) $(MPI4PY_RANKS)

# Its other half, which needs Open MPI's library: the same suite, started by Open MPI's launcher and by ours.
test-mpi4py-open-mpi: dist mpi4py-setup ## run mpi4py's own tests with Open MPI 5 and 4.1 under Open MPI's launcher and under ours (MPI4PY_RANKS): the same results
	@mk/mpi4py.sh source && mk/mpi4py.sh wheel
	@$(TARGET)/mpi4py/wheel/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 $(MPI4PY_USES) || \
		echo "test-mpi4py-open-mpi: PyPI does not give what some tests use; they are skipped"
	@mk/mpi4py-open-mpi.sh "$(CURDIR)/$(DIST)" $(MPI4PY_RANKS)
