divert(-1)
# PARMACS sources (.c.in, .C) become C: the macros themselves are those of tutti/parmacs.h, which ENV includes.
define(`MAIN_ENV', `#include <tutti/parmacs.h>')
define(`EXTERN_ENV', `#include <tutti/parmacs.h>')
define(`ENV', `#include <tutti/parmacs.h>')

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
