// A note of a store, or the check of a load: which bytes, and where in the function it stands. Made by writers, changed by the optimisations,
// turned into code by place.
#ifndef TUTTI_RCOP_NOTE_H
#define TUTTI_RCOP_NOTE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/Instruction.h"

namespace llvm {
class Loop;
} // namespace llvm

namespace rcop {

// A condition under which a note counts that left its loop: a comparison, or any invariant value.
struct Guard {
    llvm::Value *value = nullptr;
    llvm::CmpInst::Predicate predicate = llvm::CmpInst::BAD_ICMP_PREDICATE;
    const llvm::SCEV *left = nullptr, *right = nullptr;
    bool is_negated = false;
};

struct Note {
    // The note comes before this instruction.
    llvm::Instruction *before = nullptr;
    // The store or load itself.
    llvm::Instruction *store = nullptr;
    // As long as it has not left a loop: address and length.
    llvm::Value *pointer = nullptr, *bytes = nullptr;
    // Afterwards: a run, or rows when `stride` is there. All are 64 bits wide.
    const llvm::SCEV *start = nullptr, *length = nullptr, *stride = nullptr, *rows = nullptr;
    llvm::SmallVector<Guard, 2> guards;
    // Whether the rows are known to follow each other upwards.
    bool is_ascending = false;
    // Loops that it has left, and the outermost of them.
    unsigned levels = 0;
    const llvm::Loop *left = nullptr;
    // What it names has to be here before: a load follows between it and its stores that no check precedes.
    bool needs_presence = false;
};

using Notes = llvm::SmallVector<Note, 16>;

} // namespace rcop

#endif
