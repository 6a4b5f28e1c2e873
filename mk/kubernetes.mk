# Manifests of examples/kubernetes against the schema of Kubernetes; kubernetes-validate comes from PyPI.
KUBERNETES ?= 1.37

.PHONY: test-kubernetes
test-kubernetes: ## check the manifests of examples/kubernetes by the schema of Kubernetes KUBERNETES (1.37), from PyPI
	@mkdir -p $(TARGET); [ -x $(TARGET)/kubernetes/bin/python ] || python3 -m venv $(TARGET)/kubernetes
	@$(TARGET)/kubernetes/bin/python -m pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0 || \
		{ echo "kubernetes: skipped: PyPI does not give kubernetes-validate"; exit 0; }; \
		$(TARGET)/kubernetes/bin/python -B tests/kubernetes/check.py $(KUBERNETES) examples/kubernetes/*.yaml
