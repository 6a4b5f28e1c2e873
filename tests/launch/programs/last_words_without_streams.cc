// Ends the job by MPI_Abort in a program that uses the library of C++, but none of its streams.
#include <cstdio>
#include <stdexcept>
#include <string>

#include <mpi.h>

int main(int argc, char **argv)
{
    // A buffer of its own: nothing leaves by itself.
    static char buffer[1 << 16];
    std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    MPI_Init(&argc, &argv);
    try {
        throw std::runtime_error(std::string(argv[0]));
    } catch (const std::exception &) {
        std::printf("the reason\n");
    }
    MPI_Abort(MPI_COMM_WORLD, 6);
}
