#!/bin/sh
# @NAME@ of Tutti @VERSION@.
echo "@NAME@: Tutti has no Fortran bindings yet; mpicc and mpicxx are there" >&2
exit 1
