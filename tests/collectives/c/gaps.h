/*
 * Data with gaps, on some ranks and not on others: MPI 6.4 asks for equal type signatures, not for equal counts and types.
 *
 * MPICH 5.0.2 and Open MPI 5.0.11 choose algorithms and pieces by the count or the layout that a rank names, so ranks that name
 * different ones disagree: wrong data, hangs, and messages left over that spoil later operations (open-mpi/ompi issues 199, 1763,
 * 10523). In `common` mode all ranks name the same.
 */
#ifndef TUTTI_GAPS_H
#define TUTTI_GAPS_H

#include "draws.h"

/* The data lie with gaps: in every second int, on some ranks and not on others. */
static inline MPI_Datatype every_second(int count) {
    MPI_Datatype vector, type;
    MPI_Type_vector(count, 1, 2, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint)(2 * (size_t)count * sizeof(int)), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&vector);
    return type;
}

static inline void with_gaps(MPI_Comm comm, int rank, int size, bool nb) {
    int what = below(4), root = below(size), count = random_count() / (what == 0 ? 1 : 4);
    bool gaps = (below(4) + (common ? 0 : rank)) % 2 == 0;
    uint64_t salt = draw();
    int step = gaps ? 2 : 1, pieces = what == 0 ? 1 : size;
    size_t ints = (size_t)count * (size_t)step;
    int *in = allocate(ints * (size_t)size * sizeof(int)), *out = allocate(ints * (size_t)size * sizeof(int));
    MPI_Datatype type = gaps ? every_second(count) : MPI_INT;
    int n = gaps ? 1 : count;
    MPI_Request request;
    static const char *const names[] = {"bcast", "gather", "allgather", "alltoall"};
    static char name[64];
    snprintf(name, sizeof name, "%s%s of data with gaps", nb ? "i" : "", names[what]);
    stage = name;
    for (int p = 0; p < size; p++) {
        for (int i = 0; i < count; i++) {
            in[((size_t)p * (size_t)count + (size_t)i) * (size_t)step] = value(salt, rank, p * 100 + i);
        }
    }
    int *found = what == 0 && rank == root ? in : out;
    switch (what) {
    case 0:
        nb ? MPI_Ibcast(found, n, type, root, comm, &request) : MPI_Bcast(found, n, type, root, comm);
        break;
    case 1:
        nb ? MPI_Igather(in, n, type, out, n, type, root, comm, &request)
           : MPI_Gather(in, n, type, out, n, type, root, comm);
        break;
    case 2:
        nb ? MPI_Iallgather(in, n, type, out, n, type, comm, &request)
           : MPI_Allgather(in, n, type, out, n, type, comm);
        break;
    default:
        nb ? MPI_Ialltoall(in, n, type, out, n, type, comm, &request)
           : MPI_Alltoall(in, n, type, out, n, type, comm);
        break;
    }
    if (gaps) {
        MPI_Type_free(&type);
    }
    finish(&request, nb);
    for (int p = 0; (what != 1 || rank == root) && p < pieces; p++) {
        for (int i = 0; i < count; i++) {
            size_t at = ((size_t)p * (size_t)count + (size_t)i) * (size_t)step;
            int expected = value(salt, what == 0 ? root : p, (what == 3 ? rank * 100 : 0) + i);
            if (found[at] != expected) {
                fail("piece %d, place %d: %d instead of %d", p, i, found[at], expected);
            }
            if (gaps && found == out && found[at + 1] != 0x5a5a5a5a) {
                fail("piece %d: the gap behind place %d was written to", p, i);
            }
        }
    }
    free(in);
    free(out);
}

#endif
