// Notes and calls for comparison as code.
#ifndef TUTTI_RCOP_PLACE_H
#define TUTTI_RCOP_PLACE_H

#include "note.h"
#include "writers.h"

namespace llvm {
class DomTreeUpdater;
class IRBuilderBase;
class LoopInfo;
} // namespace llvm

namespace rcop {

struct Ahead;

// Puts code into one function.
class Placer {
public:
    Placer(llvm::Function &function, llvm::DomTreeUpdater &tree, llvm::LoopInfo &loops);

    // A note whose address and length are values; where `unless` is there, one that counts when it is false.
    void place(llvm::Instruction *before, llvm::Value *pointer, llvm::Value *bytes, llvm::Value *unless = nullptr);
    // A note of rows: of `bytes` each, a stride apart.
    void place_rows(llvm::Instruction *before, llvm::Value *pointer, llvm::Value *bytes, llvm::Value *stride,
                    llvm::Value *rows);
    // The call before an instruction that may store without a note.
    void compare(llvm::Instruction *before, const Writer &writer);

    // Whether an address is the arena's.
    llvm::Value *is_shared(llvm::IRBuilderBase &builder, llvm::Value *address);
    // A loop follows that runs ahead; a store that it has found; its end, and whether all of them are noted.
    void begin_ahead(llvm::IRBuilderBase &builder, const Ahead &ahead);
    void tell_ahead(llvm::IRBuilderBase &builder, unsigned number, llvm::Value *slot, llvm::Value *index, bool is_unsigned);
    llvm::Value *end_ahead(llvm::IRBuilderBase &builder);

private:
    llvm::Value *field(llvm::IRBuilderBase &builder, unsigned number);
    llvm::Instruction *split(llvm::Value *condition, llvm::Instruction *before);

    llvm::Module &module;
    llvm::DomTreeUpdater &tree;
    llvm::LoopInfo &loops;
    llvm::Type *wide;
    llvm::PointerType *pointer_type;
    llvm::GlobalVariable *open;
};

} // namespace rcop

#endif
