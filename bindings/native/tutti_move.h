/* tutti_move.h: ranks that move to another node by themselves. MPI runs. Link with -ltutti. Functions return TUTTI_OK, a number that is
 * asked for, or a negative number: those of tutti.h and this one. */
#ifndef TUTTI_MOVE_H
#define TUTTI_MOVE_H

#include <tutti.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ERR_START (-50) /* a successor could not be started */

/* Lets ranks move; all ranks of MPI_COMM_WORLD call it together. A rank that wishes to move names a node of its job, by the name that
 * `tutti nodes` shows, and gives its state, of any length. One that stays gives NULL and no bytes. Any number may move at once. A rank may
 * name its own node, also as "localhost": its successor is another process there.
 *
 * For each rank that moves a successor is started on that node: the same program with the same arguments. It has the rank in
 * MPI_COMM_WORLD from its MPI_Init on, finds the state by tutti_moved, and receives what has been sent to the rank and was not received,
 * in order. The process that moves ends here, with status 0, as by MPI_Finalize and exit. The others go on with the number of ranks that
 * have moved; 0: none wished to.
 *
 * All communicators of ranks of MPI_COMM_WORLD go on: their ranks are the same, and messages that wait in them are received later. So do
 * groups, datatypes and open files. In the successor their handles are the same: keep an MPI_Comm, MPI_Group, MPI_Datatype or MPI_File in
 * the state and use it. A communicator has its topology, name, hints and error handler there, a datatype its name, and is committed if it
 * was. A file has its view, pointers, hints and modes: the successor opens it by its path. Persistent requests and regions of ranks that
 * stay go on, and windows and persistent collective operations without ranks that move; a tutti_region in the state is of use. What is an
 * address in the process that moves stays behind: attributes and their keys, error handlers and operations that the program has made (it
 * has the initial error handler instead), attached buffers, info objects.
 *
 * Nobody moves, all is as before, and all ranks get the same error, when a rank has what cannot move (TUTTI_ERR_BUSY): a communicator with
 * processes that are not in MPI_COMM_WORLD, a window or a persistent collective operation with a rank that moves, a session, a port, a
 * request that is not completed, a partitioned one, a message taken by MPI_Mprobe, an open queue, invocations, OpenSHMEM, shared memory,
 * MPI_THREAD_MULTIPLE, the checker;
 * when one that moves has an open region, publishes one or a signal, has a service, a persistent request, or a file in a representation
 * of MPI_Register_datarep; or when a successor could not be started (TUTTI_ERR_START): there is no such node, no room (mpiexec --universe N), no such program there, or a
 * file has another file in its place there, or none. tutti_move_refusal says which. */
int tutti_move(const char *node, const void *state, size_t bytes);

/* The state that this process has got from the one whose rank it has taken, valid until it ends, and its length unless `bytes` is NULL. NULL:
 * it has taken nobody's, and begins. After MPI_Init. */
const void *tutti_moved(size_t *bytes);

/* Why tutti_move has moved nobody: one line, the same at all ranks, valid until the next tutti_move; empty if it has not failed. */
const char *tutti_move_refusal(void);

#ifdef __cplusplus
}
#endif
#endif
