// What instructions write to memory, and what is done about each.
#ifndef TUTTI_RCOP_WRITERS_H
#define TUTTI_RCOP_WRITERS_H

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Instruction.h"

namespace llvm {
class IntrinsicInst;
} // namespace llvm

namespace rcop {

enum class Kind {
    // Writes nothing of the program's, although mayWriteToMemory() is true of it.
    Nothing,
    // Writes memory that is never shared.
    Private,
    // Writes exactly `bytes` from `pointer` on.
    Noted,
    // May write through its arguments. Pages are compared where one of them is shared.
    ComparedArguments,
    // May write anything. Pages are compared.
    Compared,
    // Calls `callee`, which another source defines: pages are compared unless that makes notes itself.
    Called,
};

struct Writer {
    Kind kind = Kind::Nothing;
    llvm::Value *pointer = nullptr, *bytes = nullptr;
    llvm::Function *callee = nullptr;
};

// The writer that an instruction with mayWriteToMemory() is. `proves` says whether proofs of privacy are wanted.
Writer classify(llvm::Instruction &instruction, const llvm::TargetLibraryInfo &library, bool proves);

// Whether a call may synchronise, or end before the instruction behind it: no note crosses it.
bool is_border(const llvm::Instruction &instruction, const llvm::TargetLibraryInfo &library);

// Whether an intrinsic is a marker without an effect on memory.
bool is_marker(const llvm::IntrinsicInst &call);

// Whether a function is the run time's own: it stores and loads nothing for the program.
bool is_ours(llvm::StringRef name);

// Whether memory at a pointer is never shared: the stack, variables of C, fresh blocks of the private heap.
bool is_private(const llvm::Value *pointer);

} // namespace rcop

#endif
