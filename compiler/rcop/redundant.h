// Notes that an earlier one covers.
#ifndef TUTTI_RCOP_REDUNDANT_H
#define TUTTI_RCOP_REDUNDANT_H

#include "note.h"

namespace llvm {
class DominatorTree;
class TargetLibraryInfo;
} // namespace llvm

namespace rcop {

// Drops notes of bytes that another note, which comes before in every case, has named in the same interval.
void drop_redundant(Notes &notes, const llvm::DominatorTree &tree, const llvm::TargetLibraryInfo &library,
                    llvm::ScalarEvolution &evolution);

} // namespace rcop

#endif
