# From the last release to this one, and from this one to one that has a kind of message and a field more (feature `next-wire`): nodes
# are replaced one after the other while jobs run. ONLY=next: to that one alone, without the last release's tree.
.PHONY: test-upgrade
test-upgrade: dist ## build the last release (mk/last-release) once, and replace the daemons of a cluster one by one while 20 jobs run (minutes)
	@mk/upgrade.sh $(ONLY)
