#!/bin/bash
# MPI_Waitany and MPI_Testany of requests of which none is active give the index MPI_UNDEFINED. In the module mpi_f08 it is;
# in the module mpi (and mpif.h) of MPICH 4.0.2 it is MPI_UNDEFINED + 1, since one is added to every index of C. A loop
# that ends when the index is MPI_UNDEFINED never ends. Seen with Debian 12's packages and gfortran 12.2; needs apt-get,
# dpkg and gfortran, and installs nothing.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for package in {mpich,libmpich-dev,libmpich12}=4.0.2-3+b1 libhwloc15=2.9.0-1 libucx0=1.13.1-1; do
    apt-get download "$package" >/dev/null 2>&1
done
for file in *.deb; do dpkg -x "$file" root; done
modules=$work/root/usr/include/x86_64-linux-gnu/mpich
export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu
cat >any.F90 <<'F'
program any
  use MODULE
  implicit none
  integer :: index, tested, error
  logical :: flag
#ifdef OLD
  integer :: requests(2)
#else
  type(MPI_Request) :: requests(2)
#endif
  call MPI_Init(error)
  requests = MPI_REQUEST_NULL
  call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, error)
  call MPI_Testany(2, requests, tested, flag, MPI_STATUS_IGNORE, error)
  print '(a,i0,a,i0)', 'Waitany MPI_UNDEFINED + ', index - MPI_UNDEFINED, ', Testany MPI_UNDEFINED + ', tested - MPI_UNDEFINED
  call MPI_Finalize(error)
end program
F
link=(-L"$LD_LIBRARY_PATH" -lmpichfort -l:libmpich.so.12)
gfortran -I"$modules" -DMODULE=mpi -DOLD any.F90 -o with-mpi "${link[@]}"
gfortran -I"$modules" -DMODULE=mpi_f08 any.F90 -o with-mpi_f08 "${link[@]}"
for module in mpi mpi_f08; do printf '%s: %s\n' $module "$(timeout 60 ./with-$module | tee said-$module)"; done
[ "$(cat said-mpi)" = "Waitany MPI_UNDEFINED + 1, Testany MPI_UNDEFINED + 1" ] &&
    [ "$(cat said-mpi_f08)" = "Waitany MPI_UNDEFINED + 0, Testany MPI_UNDEFINED + 0" ] || { echo "this has changed"; exit 1; }
