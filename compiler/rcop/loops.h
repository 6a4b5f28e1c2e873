// Notes of affine stores leave loop nests.
#ifndef TUTTI_RCOP_LOOPS_H
#define TUTTI_RCOP_LOOPS_H

#include "note.h"

namespace llvm {
class DominatorTree;
class Loop;
class LoopInfo;
class OptimizationRemarkEmitter;
class TargetLibraryInfo;
} // namespace llvm

namespace rcop {

struct Nest {
    llvm::LoopInfo &loops;
    llvm::DominatorTree &tree;
    llvm::ScalarEvolution &evolution;
    const llvm::TargetLibraryInfo &library;
    llvm::OptimizationRemarkEmitter &emitter;
};

// What is wrong with a loop of which notes are to leave; null when nothing is.
const char *flaw_of(const llvm::Loop &loop, const Nest &nest);

// Lets each note leave as many loops as are understood. Nothing of the function changes.
void gather(Notes &notes, Nest &nest);

} // namespace rcop

#endif
