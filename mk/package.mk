# Packages of the finished tree.
.PHONY: deb
deb: dist ## Debian packages in target/deb: tutti, tutti-dev, tutti-dbgsym
	@mk/setup.sh dpkg-deb readelf
	@mk/deb.sh

.PHONY: deb-lint
deb-lint: deb ## Debian's own check of the packages, lintian
	@mk/setup.sh lintian
	@for package in tutti tutti-dev; do lintian --allow-root --fail-on error,warning "$$(ls -t target/deb/$${package}_*.deb | head -1)" || exit; done

DEBIAN ?= 12
.PHONY: deb-bare
deb-bare: deb ## the packages in a bare root of Debian (DEBIAN=12|13; needs root, mmdebstrap, the network)
	@mk/deb-bare.sh "$(DEBIAN)"

.PHONY: image image-bare
image: deb ## files of which docker and Apptainer build an image with the packages, in target/image
	@mk/image.sh

image-bare: image ## the image, built by buildah in a bare root of Debian; the steps for Apptainer too (needs root, mmdebstrap, the network)
	@mk/image-bare.sh

# WHEEL_VERSION names another version than the release with the day and the name of the commit.
.PHONY: wheel
wheel: dist ## the Python wheel tutti-mpi in target/wheel
	@mk/setup.sh python3 readelf
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || date +%s) python3 mk/wheel.py $(DIST) $(TARGET)/wheel \
		"$(or $(WHEEL_VERSION),$(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$$/\1/p' Cargo.toml)$(shell git log -1 --format=+git%cd.%h --date=format:%Y%m%d 2>/dev/null))"
