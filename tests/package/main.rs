//! Packages: what is made of the installation tree for a distribution, and is installed, used, upgraded and
//! removed as its users would.

mod deb;
mod root;
mod wheel;
