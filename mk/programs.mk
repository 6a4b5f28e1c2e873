# Programs from Debian's source packages on our library.
.PHONY: test-programs
test-programs: dist ## build HPCC, NetPIPE and FFTW from Debian's sources with our mpicc and run them; they verify themselves
	@$(ROOT)/mk/setup.sh gcc dpkg-deb perl
	@$(ROOT)/mk/programs.sh
