# Ten million forged packets against running jobs of messages, and as many against jobs of windows; five million
# wrong records in right packets against each. `make test` sends some 300,000 and 20,000.
.PHONY: shower
shower: dist ## shower running jobs with forged packets and wrong records by the million (minutes)
	timeout --kill-after=5 3600 $(CARGO) test -p tutti-tests --test network -- --ignored --nocapture million
