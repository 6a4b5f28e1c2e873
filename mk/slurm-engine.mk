# Tutti as the guest of a real Slurm: three slurmd on this machine, from Debian's packages, unpacked and not installed.
.PHONY: test-slurm
test-slurm: dist ## run jobs in allocations of a real Slurm from Debian's packages, as root and as a user (root, the network)
	@DIST="$(CURDIR)/$(DIST)" PLACE="$(CURDIR)/$(TARGET)/slurm-engine" mk/slurm-engine.sh
