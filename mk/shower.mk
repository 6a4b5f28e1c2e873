# Ten million forged packets against running jobs of messages, and as many against jobs of windows; `make test`
# sends some 300,000.
.PHONY: shower
shower: dist ## shower running jobs with twice ten million forged packets (minutes)
	timeout --kill-after=5 3600 $(CARGO) test -p tutti-tests --test network -- --ignored --nocapture ten_million_forged
