# The pictures of the documents that show a run: made by the programs, never by hand.
.PHONY: pictures
pictures: dist ## draw docs/pictures/two-jobs.svg and top.svg: programs that take turns on this machine
	@$(CARGO) build --quiet --package tutti-tests --bin tutti-screen
	@mk/pictures.sh
