divert(-1)
# PARMACS sources (.c.in, .C) become C: the macros themselves are those of tutti/parmacs.h, which ENV includes.
# It brings the headers that the sets of macros bring which programs are written for, too.
define(`ENV', `#define TUTTI_OTHER_SETS 1
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <tutti/parmacs.h>')
define(`MAIN_ENV', `ENV')
define(`EXTERN_ENV', `ENV')
# Without parentheses, too.
define(`MAIN_INITENV', `')
define(`INITENV', `')

# Counters of simulators, and hints to them.
define(`TUTTI_NOTHING', `define(`$1', `')')
TUTTI_NOTHING(`AUG_ON')
TUTTI_NOTHING(`AUG_OFF')
TUTTI_NOTHING(`RESET_STATISTICS')
TUTTI_NOTHING(`RESET_STATS')
TUTTI_NOTHING(`START_COUNTERS')
TUTTI_NOTHING(`STOP_COUNTERS')
TUTTI_NOTHING(`PRINT_COUNTERS')
TUTTI_NOTHING(`ALLOCATE_PAGE')
TUTTI_NOTHING(`ALLOCATE_RANGE')

# Macros of other sets, which have no meaning here: one line, and the end.
define(`TUTTI_UNKNOWN', `define(`$1', `errprint(__file__:__line__`: PARMACS macro $1 is not known here; docs/user/shared-memory.md has those that are
')m4exit(1)')')
TUTTI_UNKNOWN(`GETSUB')
TUTTI_UNKNOWN(`ASKFOR')
TUTTI_UNKNOWN(`PROBEND')
TUTTI_UNKNOWN(`MONITOR')
TUTTI_UNKNOWN(`AWAIT')
TUTTI_UNKNOWN(`EVDEC')
TUTTI_UNKNOWN(`EVINIT')
TUTTI_UNKNOWN(`EVWAIT')
TUTTI_UNKNOWN(`EVSET')
TUTTI_UNKNOWN(`EVCLEAR')
TUTTI_UNKNOWN(`SEND')
TUTTI_UNKNOWN(`RECEIVE')
TUTTI_UNKNOWN(`GOTO_MAIN')
divert(0)dnl
#include <tutti/parmacs_declarations.h>
