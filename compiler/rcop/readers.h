// What instructions read of memory, and what is done about each where loads are checked (--dsm=udsm).
#ifndef TUTTI_RCOP_READERS_H
#define TUTTI_RCOP_READERS_H

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instruction.h"

namespace rcop {

enum class Reading {
    // Reads nothing of the program's, or memory that is never shared.
    Nothing,
    // Reads exactly `bytes` from `pointer` on.
    Checked,
    // May read through its arguments. Pages that are not here fault where one of them is shared.
    CoveredArguments,
    // May read anything. Pages that are not here fault.
    Covered,
    // Calls `callee`, which another source defines: they fault unless that checks its loads itself.
    Called,
};

struct Reader {
    Reading kind = Reading::Nothing;
    llvm::Value *pointer = nullptr, *bytes = nullptr;
    llvm::Function *callee = nullptr;
};

// The reader that an instruction with mayReadFromMemory() is. `proves` says whether proofs of privacy are wanted.
Reader classify_reader(llvm::Instruction &instruction, const llvm::TargetLibraryInfo &library, bool proves);

} // namespace rcop

#endif
