# Packages of the finished tree.
.PHONY: deb
deb: dist ## Debian packages in target/deb: tutti, tutti-dev, tutti-dbgsym
	@mk/setup.sh dpkg-deb readelf
	@mk/deb.sh
