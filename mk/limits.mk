# README's list of what is missing is that of docs/user/limits.md, shortened to its words.
.PHONY: limits
limits: ## write the list of what is missing into README.md, from docs/user/limits.md
	@mk/limits.sh "$(CURDIR)"
