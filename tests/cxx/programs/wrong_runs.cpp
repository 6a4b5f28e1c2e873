// What is wrong while a program runs, and ends it with one line. "layout": a coroutine that some versions of g++ lay out wrongly.
// "ring": a rank calls one that waits for it in MPI. "returns": main returns while calls are under way.
#include <cstdio>
#include <cstring>

#include <mpi.h>
#include <tutti.hpp>

static tutti::task<bool> is_there()
{
    bool value = true;
    co_return value;
}

// No variable stands before its first co_await.
static tutti::task<int> chooses()
{
    if (co_await is_there()) co_return 1;
    co_return 2;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    tutti::init();
    const int me = tutti::this_rank();
    if (std::strcmp(what, "layout") == 0) {
        const int chosen = chooses().get();
        if (me == 0) std::printf("layout: %d\n", chosen);
    } else if (std::strcmp(what, "ring") == 0) {
        int word = 0;
        if (me == 0) tutti::invoke(1, [] {});
        else MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (std::strcmp(what, "returns") == 0 && me == 0) {
        for (int i = 0; i < 10; ++i) tutti::post(1, [] {});
        return 0;
    }
    tutti::quit();
}
