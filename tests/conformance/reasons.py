"""Why a test of MPICH's suite in C does not pass: whose matter it is, and what, by the test's name.

suite     the program is wrong, or does what the standard leaves open
standard  it uses what newer versions of the standard have changed or taken away, or types that are not there
mpich     it asks for MPICH's own behaviour or functions
ours      we do not do it

Nothing is left out for it: such a test counts as failed.
"""
import fnmatch

NO_ERROR = "what it wants to be found is no error that an implementation must find; TUTTI_CHECK=1 finds it"
STATUS_OF_SUCCESS = "it reads MPI_ERROR of statuses of a success, which is not set then (3.2.5)"
FREED = "it commits a type that was freed before"
WINDOWS_HANDLER = "its handler is MPI_COMM_WORLD's, the error is raised on a window"
CONTEXTS = "it wants an error before 200,000 communicators, which MPICH cannot have"
FOLLOWS = "it sets MPI_COMM_WORLD's handler after MPI_Comm_dup and wants the copy to follow"
SIGNATURES = "signatures that differ without truncation: " + NO_ERROR
REASONS = [
    ("coll/nonblocking[23]", "suite",
     "arrays of int as arrays of datatypes, which are pointers in the standard ABI"),
    ("datatype/pack_external", "suite",
     "handles as labels of case; in the standard ABI they are no integers"),
    ("datatype/typename", "suite",
     "MPI_C_COMPLEX is a synonym of MPI_C_FLOAT_COMPLEX; MPI_INTEGER16 need not exist"),
    ("datatype/typename_oldapi", "standard", "MPI_LB, which MPI-3.0 has removed"),
    ("datatype/struct_no_real_types", "standard", "MPI_LB, which MPI-3.0 has removed"),
    ("datatype/indexed_misc*", "suite", FREED),
    ("datatype/large_count", "suite",
     "it sets elements in units of a type and wants them in basic ones (3.9.3)"),
    ("errhan/adderr", "mpich", "not built: MPI_Delete_error_*; the standard has MPI_Remove_error_*"),
    ("errors/attr/keyvalmis", "suite", WINDOWS_HANDLER),
    ("errors/coll/*length", "suite", "lengths that differ: " + NO_ERROR),
    ("errors/coll/*reduceop", "suite", "operations that differ: " + NO_ERROR),
    ("errors/comm/too_many_*", "mpich", CONTEXTS),
    ("errors/comm/comm_*_nullarg", "mpich", FOLLOWS),
    ("errors/pt2pt/truncmsg2", "suite", SIGNATURES),
    ("errors/spawn/connect_timeout_no_accept", "mpich",
     "a time limit of MPI_Comm_connect by a variable of MPICH's"),
    ("mpi_t/qmpi_test", "mpich", "not built: MPICH's own interface for tools"),
    ("part/multipart", "suite", STATUS_OF_SUCCESS),
    ("part/nonblocking_pready", "suite", "it sends nothing of MPI_DATATYPE_NULL, which is no datatype"),
    ("pt2pt/*scancel*", "suite",
     "it cancels messages that have arrived; the suite itself expects that it fails"),
    ("threads/init/mult_session", "suite", "a session without thread_level has MPI_THREAD_SINGLE (11.3.1)"),
    ("threads/pt2pt/mt_improbe_*", "suite",
     "it compares messages with MPI_REQUEST_NULL, another value in the standard ABI"),
    ("topo/cartsuball", "suite", "without dimensions each process has a communicator, not rank 0 alone"),
    ("topo/dims5", "mpich", "MPICH's choice among dimensions that are as close"),
]


def reason(name):
    """Whose matter the test FOLDER/TEST is, and what; ("unexplained", "") when nobody knows."""
    for pattern, whose, what in REASONS:
        if fnmatch.fnmatchcase(name, pattern):
            return whose, what
    return "unexplained", ""


# Of binaries of MPICH: why a test passes on MPICH's library and not on ours.
REASONS_OF_BINARIES = [
    ("*/init/baseenv*", "it wants the version of MPI that its header names, 4.0"),
    ("*/datatype/allctypes*", "MPI_LB and MPI_UB, which MPI-3.0 has removed; the other name of a synonym"),
    ("cxx/datatype/typenamex", "MPI_LB and MPI_UB, which MPI-3.0 has removed; the other name of a synonym"),
    ("cxx/coll/redscatblk", "it reads a result in place behind the beginning of recvbuf (6.10.1)"),
    ("comm/cmsplit_type", "MPIX_COMM_TYPE_NEIGHBORHOOD, MPICH's own"),
    ("datatype/indexed_misc*", FREED),
    ("datatype/struct_no_real_types",
     "the upper bound of a type of MPI_LB alone, which is 0 in MPICH and the marker's place here"),
    ("errors/attr/keyvalmis", WINDOWS_HANDLER),
    ("errors/coll/noalias[23]", "MPI_Exscan on rank 0, where recvbuf is not significant (6.11.2)"),
    ("errors/coll/*length", "lengths that differ: " + NO_ERROR),
    ("errors/comm/too_many_*", CONTEXTS),
    ("errors/comm/comm_*_nullarg", FOLLOWS),
    ("errors/pt2pt/truncmsg2", SIGNATURES),
    ("part/multipart", STATUS_OF_SUCCESS),
    ("part/nonblocking_pready", "it sends nothing of MPI_DATATYPE_NULL, which is no datatype"),
    ("threads/init/mult_session", "a session without thread_level has MPI_THREAD_SINGLE (11.3.1)"),
    ("topo/dims5", "MPICH's choice among dimensions that are as close"),
]


def reason_of_binary(name):
    """Why the test FOLDER/TEST, compiled by MPICH's wrapper, passes on MPICH's library alone; empty when nobody knows."""
    return next((what for pattern, what in REASONS_OF_BINARIES if fnmatch.fnmatchcase(name, pattern)), "")
