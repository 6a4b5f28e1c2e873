# Public tools for Slurm, unmodified from PyPI, on Slurm's commands of this tree and three daemons. What PyPI does not give is
# skipped and counted.
SLURM_TOOLS ?= snakemake submitit simple_slurm psij dask_jobqueue executorlib parsl aiida reframe qtoolkit pysqa cluster_tools dpdispatcher cylc reportseff law maestrowf b2luigi clusterfutures troika easybuild toil myqueue

.PHONY: test-slurm-tools
test-slurm-tools: dist ## run SLURM_TOOLS (snakemake submitit simple_slurm psij dask_jobqueue executorlib parsl aiida reframe qtoolkit pysqa cluster_tools dpdispatcher cylc reportseff law maestrowf b2luigi clusterfutures troika easybuild toil myqueue) from PyPI on our sbatch, squeue and others
	@DIST="$(CURDIR)/$(DIST)" PLACE="$(CURDIR)/$(TARGET)/slurm-tools" mk/slurm-tools.sh $(SLURM_TOOLS)
