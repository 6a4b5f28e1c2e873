# Programs of Debian's MPICH under our launchers: its packages are unpacked into target/peers/mpich-debian, nothing is installed.
.PHONY: foreign-debian
foreign-debian: dist ## run the tests of foreign programs with Debian's MPICH instead of the wheel
	@mk/foreign-debian.sh
