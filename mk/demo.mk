# C programs on our library, two jobs that share the machine, then mpi4py from PyPI.
.PHONY: demo
demo: ## set up what is missing, build, run C programs, two jobs in turns, and mpi4py (each step says how long it takes)
	@MAKE="$(MAKE)" CARGO="$(CARGO)" mk/demo.sh

.PHONY: mpi4py-setup
mpi4py-setup:
	@mk/setup.sh gcc venv python-headers
