/* Collective calls about a file see what a rank has done before its own call, however late that comes:
 * the place of the shared pointer, the size of the file, and the displacement of a sequential file.
 * Argument: the file. */
#include "../../mpi/programs/require.h"
#include <sched.h>

enum { ROUNDS = 40, TURNS = 300 };
static int rank, last;

/* The last rank waits until the others have said that they call now, and gives them time to begin. That decides
 * nothing: however far they are, what it does now counts. */
static void be_late(void)
{
    char said = 0;
    if (rank < last) {
        MPI_Send(&said, 1, MPI_CHAR, last, 0, MPI_COMM_WORLD);
        return;
    }
    for (int from = 0; from < last; from++)
        MPI_Recv(&said, 1, MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int turn = 0; turn < TURNS; turn++)
        sched_yield();
}

static void opened(char *path, int amode, MPI_File *file)
{
    amode |= MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, file));
}

/* The pointer after a seek that follows 4 bytes of the last rank. */
static void from_the_current_place(char *path, int is_nonblocking)
{
    MPI_File file;
    MPI_Offset place;
    opened(path, MPI_MODE_RDWR, &file);
    for (int round = 0; round < ROUNDS; round++) {
        be_late();
        if (rank == last && is_nonblocking) {
            MPI_Request request;
            CHECK(MPI_File_iwrite_shared(file, "late", 4, MPI_CHAR, &request));
            CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else if (rank == last) {
            CHECK(MPI_File_write_shared(file, "late", 4, MPI_CHAR, MPI_STATUS_IGNORE));
        }
        CHECK(MPI_File_seek_shared(file, 1, MPI_SEEK_CUR));
        CHECK(MPI_File_get_position_shared(file, &place));
        WANT(place == 5 * (round + 1), "round %d: the pointer is at %lld", round, (long long)place);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(MPI_File_close(&file));
}

static void from_the_end(char *path)
{
    MPI_File file;
    MPI_Offset place;
    opened(path, MPI_MODE_RDWR, &file);
    for (int round = 0; round < ROUNDS; round++) {
        be_late();
        if (rank == last)
            CHECK(MPI_File_write_at(file, 10 * round + 9, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE));
        CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_END));
        CHECK(MPI_File_get_position_shared(file, &place));
        WANT(place == 10 * (round + 1), "round %d: the pointer is at %lld", round, (long long)place);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(MPI_File_close(&file));
}

static void of_a_sequential_file(char *path)
{
    MPI_File file;
    MPI_Offset begin;
    MPI_Datatype etype, filetype;
    char representation[MPI_MAX_DATAREP_STRING];
    opened(path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, &file);
    for (int round = 0; round < ROUNDS; round++) {
        be_late();
        if (rank == last)
            CHECK(MPI_File_write_shared(file, "late", 4, MPI_CHAR, MPI_STATUS_IGNORE));
        CHECK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
        CHECK(MPI_File_get_view(file, &begin, &etype, &filetype, representation));
        WANT(begin == 4 * (round + 1), "round %d: the view begins at %lld", round, (long long)begin);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(MPI_File_close(&file));
}

/* All ranks agree that there is no such place, and the pointer stays. */
static void before_the_beginning(char *path)
{
    MPI_File file;
    MPI_Offset place;
    int class;
    opened(path, MPI_MODE_RDWR, &file);
    CHECK(MPI_File_seek_shared(file, 3, MPI_SEEK_SET));
    MPI_Error_class(MPI_File_seek_shared(file, -4, MPI_SEEK_CUR), &class);
    WANT(class == MPI_ERR_ARG, "class %d", class);
    CHECK(MPI_File_get_position_shared(file, &place));
    WANT(place == 3, "the pointer is at %lld", (long long)place);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &last);
    last--;
    from_the_current_place(argv[1], 0);
    from_the_current_place(argv[1], 1);
    from_the_end(argv[1]);
    of_a_sequential_file(argv[1]);
    before_the_beginning(argv[1]);
    if (rank == 0)
        printf("late are right\n");
    MPI_Finalize();
    return 0;
}
