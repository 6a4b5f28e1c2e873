/* shmemx.h of Tutti @VERSION@: extensions of OpenSHMEM. There are none; the header must be there all the same. */

#ifndef TUTTI_SHMEMX_H
#define TUTTI_SHMEMX_H

#include <shmem.h>

#endif
