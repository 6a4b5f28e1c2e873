/* MPI chapter 8: grids and graphs. */
#include "check.h"

static int rank, size;

static int kind_of(MPI_Comm comm)
{
    int kind = -1;
    CHECK(MPI_Topo_test(comm, &kind) == MPI_SUCCESS);
    return kind;
}

static void grids(void)
{
    MPI_Comm grid, copy, row;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], got_dims[2], got_periods[2], n, source, dest;
    CHECK(kind_of(MPI_COMM_WORLD) == MPI_UNDEFINED);
    CHECK(MPI_Dims_create(size, 2, dims) == MPI_SUCCESS && dims[0] * dims[1] == size && dims[0] >= dims[1]);
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid) == MPI_SUCCESS);
    CHECK(kind_of(grid) == MPI_CART);
    CHECK(MPI_Cartdim_get(grid, &n) == MPI_SUCCESS && n == 2);
    CHECK(MPI_Cart_get(grid, 2, got_dims, got_periods, coords) == MPI_SUCCESS);
    CHECK(got_dims[0] == dims[0] && got_dims[1] == dims[1] && got_periods[0] && !got_periods[1]);
    CHECK(coords[0] == rank / dims[1] && coords[1] == rank % dims[1]);
    CHECK(MPI_Cart_rank(grid, coords, &n) == MPI_SUCCESS && n == rank);
    coords[0] -= dims[0];
    CHECK(MPI_Cart_rank(grid, coords, &n) == MPI_SUCCESS && n == rank);
    CHECK(MPI_Cart_coords(grid, size - 1, 2, coords) == MPI_SUCCESS);
    CHECK(coords[0] == dims[0] - 1 && coords[1] == dims[1] - 1);

    CHECK(MPI_Cart_shift(grid, 0, 1, &source, &dest) == MPI_SUCCESS);
    CHECK(dest == (rank + dims[1]) % size && source == (rank + size - dims[1]) % size);
    CHECK(MPI_Cart_shift(grid, 1, 1, &source, &dest) == MPI_SUCCESS);
    CHECK(dest == (rank % dims[1] == dims[1] - 1 ? MPI_PROC_NULL : rank + 1));
    CHECK(source == (rank % dims[1] == 0 ? MPI_PROC_NULL : rank - 1));

    CHECK(MPI_Comm_dup(grid, &copy) == MPI_SUCCESS && kind_of(copy) == MPI_CART);
    MPI_Comm_free(&copy);
    int keep[2] = {0, 1};
    CHECK(MPI_Cart_sub(grid, keep, &row) == MPI_SUCCESS);
    MPI_Comm_size(row, &n);
    CHECK(n == dims[1]);
    MPI_Comm_rank(row, &n);
    CHECK(n == rank % dims[1]);
    CHECK(MPI_Cartdim_get(row, &n) == MPI_SUCCESS && n == 1);
    MPI_Comm_free(&row);
    keep[1] = 0;
    CHECK(MPI_Cart_sub(grid, keep, &row) == MPI_SUCCESS);
    MPI_Comm_size(row, &n);
    CHECK(n == 1);
    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);

    /* A grid of one place, and one of no dimension. */
    int one = 1;
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, &one, periods, 0, &grid) == MPI_SUCCESS);
    CHECK((grid == MPI_COMM_NULL) == (rank > 0));
    if (grid != MPI_COMM_NULL) {
        CHECK(MPI_Cart_shift(grid, 0, 5, &source, &dest) == MPI_SUCCESS && source == 0 && dest == 0);
        MPI_Comm_free(&grid);
    }
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &grid) == MPI_SUCCESS);
    CHECK((grid == MPI_COMM_NULL) == (rank > 0));
    if (grid != MPI_COMM_NULL) {
        CHECK(MPI_Cartdim_get(grid, &n) == MPI_SUCCESS && n == 0);
        MPI_Comm_free(&grid);
    }
    CHECK(MPI_Cart_map(MPI_COMM_WORLD, 1, &one, periods, &n) == MPI_SUCCESS && (n == MPI_UNDEFINED || n == 0));
}

static void dims(void)
{
    static const int cases[][4] = {{6, 0, 0, 0}, {24, 0, 0, 0}, {64, 0, 0, 0}, {7, 0, 0, 0}, {12, 0, 3, 0}, {1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int found[3] = {cases[i][1], cases[i][2], cases[i][3]};
        CHECK(MPI_Dims_create(cases[i][0], 3, found) == MPI_SUCCESS);
        CHECK(found[0] * found[1] * found[2] == cases[i][0]);
        CHECK(found[0] >= found[2]);
    }
}

/* A ring as a graph that all know. */
static void graphs(void)
{
    MPI_Comm graph;
    int *index = malloc((size_t)size * sizeof *index), *edges = malloc((size_t)size * 2 * sizeof *edges), got[2], n, m;
    for (int i = 0; i < size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    CHECK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph) == MPI_SUCCESS);
    CHECK(kind_of(graph) == MPI_GRAPH);
    CHECK(MPI_Graphdims_get(graph, &n, &m) == MPI_SUCCESS && n == size && m == 2 * size);
    CHECK(MPI_Graph_neighbors_count(graph, rank, &n) == MPI_SUCCESS && n == 2);
    CHECK(MPI_Graph_neighbors(graph, size - 1, 2, got) == MPI_SUCCESS);
    CHECK(got[0] == (2 * size - 2) % size && got[1] == 0);
    memset(index, 0, (size_t)size * sizeof *index);
    memset(edges, 0, (size_t)size * 2 * sizeof *edges);
    CHECK(MPI_Graph_get(graph, size, 2 * size, index, edges) == MPI_SUCCESS);
    CHECK(index[size - 1] == 2 * size && edges[2 * size - 1] == 0);
    MPI_Comm_free(&graph);
    free(index);
    free(edges);
}

static void distributed_graphs(void)
{
    MPI_Comm graph;
    int left = (rank + size - 1) % size, right = (rank + 1) % size, in, out, weighted, from[2], to[2], weights[2];
    int weight = 10 + rank, weight_of_left = 10 + left;
    /* Each process names its own edges: a ring to the right. */
    CHECK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &weight_of_left, 1, &right, &weight, MPI_INFO_NULL, 0,
                                         &graph) == MPI_SUCCESS);
    CHECK(kind_of(graph) == MPI_DIST_GRAPH);
    CHECK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted) == MPI_SUCCESS && in == 1 && out == 1 && weighted);
    CHECK(MPI_Dist_graph_neighbors(graph, 1, from, weights, 1, to, weights + 1) == MPI_SUCCESS);
    CHECK(from[0] == left && to[0] == right && weights[0] == 10 + left && weights[1] == 10 + rank);
    MPI_Comm_free(&graph);
    /* Each names the edges of its left neighbour; nobody weighs. */
    int degree = 1, end = rank;
    CHECK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &left, &degree, &end, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph) ==
          MPI_SUCCESS);
    CHECK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted) == MPI_SUCCESS && in == 1 && out == 1 && !weighted);
    CHECK(MPI_Dist_graph_neighbors(graph, 1, from, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED) == MPI_SUCCESS);
    CHECK(from[0] == left && to[0] == right);
    MPI_Comm_free(&graph);
    /* Rank 0 names them all: everybody sends to rank 0 with its rank as weight. */
    int *sources = malloc((size_t)size * sizeof *sources), *degrees = malloc((size_t)size * sizeof *degrees);
    int *zeros = calloc((size_t)size, sizeof *zeros);
    for (int i = 0; i < size; i++) {
        sources[i] = i;
        degrees[i] = 1;
    }
    CHECK(MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? size : 0, sources, degrees, zeros,
                                rank == 0 ? sources : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph) == MPI_SUCCESS);
    CHECK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted) == MPI_SUCCESS && weighted);
    CHECK(in == (rank == 0 ? size : 0) && out == 1);
    CHECK(MPI_Dist_graph_neighbors(graph, in, sources, degrees, 1, to, weights) == MPI_SUCCESS);
    CHECK(to[0] == 0 && weights[0] == rank);
    for (int i = 0; i < in; i++)
        CHECK(degrees[i] == sources[i]);
    MPI_Comm_free(&graph);
    free(sources);
    free(degrees);
    free(zeros);
}

static void wrong_arguments(void)
{
    MPI_Comm made;
    int dims[1] = {size + 1}, periods[1] = {0}, n, bad_dims[2] = {0, size + 1}, coords[1] = {size};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made) != MPI_SUCCESS);
    CHECK(class_of(MPI_Cartdim_get(MPI_COMM_WORLD, &n)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Dims_create(size, 2, bad_dims)) == MPI_ERR_DIMS);
    dims[0] = size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made);
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    CHECK(MPI_Cart_rank(made, coords, &n) != MPI_SUCCESS);
    CHECK(class_of(MPI_Cart_coords(made, size, 1, coords)) == MPI_ERR_RANK);
    CHECK(MPI_Cart_shift(made, 1, 1, &n, &n) != MPI_SUCCESS);
    MPI_Comm_free(&made);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    grids();
    dims();
    graphs();
    distributed_graphs();
    wrong_arguments();
    return finish("topologies");
}
