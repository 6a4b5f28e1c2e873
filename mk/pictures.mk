# The pictures of the documents that show a run: made by the programs, never by hand.
.PHONY: pictures
pictures: dist ## draw docs/pictures/two-jobs.svg: two programs that take turns on this machine
	@$(ROOT)/mk/pictures.sh
