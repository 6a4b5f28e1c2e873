# Unmodified MPI programs on our library: mpi4py from PyPI and the C programs of examples/.
.PHONY: demo demo-setup
demo: dist demo-setup ## set up what is missing, build, and run mpi4py and C programs on 1, 2 and 4 ranks
	@$(ROOT)/mk/demo.sh

demo-setup:
	@$(ROOT)/mk/setup.sh gcc nm venv python-headers
