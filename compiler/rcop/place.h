// Notes and calls for comparison as code.
#ifndef TUTTI_RCOP_PLACE_H
#define TUTTI_RCOP_PLACE_H

#include "note.h"
#include "readers.h"
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
    // The check of a load: of a constant number of bytes, which lie in one page where `is_one_page`.
    void check(llvm::Instruction *before, llvm::Value *pointer, uint64_t bytes, bool is_one_page);
    // The check of a run, or of rows where a stride is there.
    void check_run(llvm::Instruction *before, llvm::Value *pointer, llvm::Value *bytes, llvm::Value *stride,
                   llvm::Value *rows);
    // What a note has named is stored to: the check of a store, as of a load.
    void open(llvm::Instruction *before, llvm::Value *pointer, llvm::Value *bytes);
    void open_run(llvm::Instruction *before, llvm::Value *pointer, llvm::Value *bytes, llvm::Value *stride,
                  llvm::Value *rows);
    // The call before an instruction that may load without a check.
    void cover(llvm::Instruction *before, const Reader &reader);
    // The call before an instruction that may store without a note.
    void compare(llvm::Instruction *before, const Writer &writer);

    // Whether an address is the arena's.
    llvm::Value *is_shared(llvm::IRBuilderBase &builder, llvm::Value *address);
    // A loop follows that runs ahead; a store that it has found; its end, and whether all of them are noted.
    void begin_ahead(llvm::IRBuilderBase &builder, const Ahead &ahead);
    void tell_ahead(llvm::IRBuilderBase &builder, unsigned number, llvm::Value *slot, llvm::Value *index, bool is_unsigned);
    llvm::Value *end_ahead(llvm::IRBuilderBase &builder);

private:
    // What is known of the page of an address that is the arena's.
    llvm::Value *state(llvm::IRBuilderBase &builder, llvm::Value *address);
    void call_run(llvm::StringRef name, llvm::Instruction *before, llvm::Value *pointer, llvm::Value *bytes,
                  llvm::Value *stride, llvm::Value *rows);
    // The condition under which another source's function does not do something itself.
    llvm::Value *lacks(llvm::IRBuilderBase &builder, llvm::StringRef what, const llvm::Function &callee);
    // Whether a pointer argument of a call is shared; of those that it may write through alone, or of all.
    llvm::Value *has_shared_argument(llvm::IRBuilderBase &builder, llvm::CallBase &call, bool is_written);
    llvm::Value *field(llvm::IRBuilderBase &builder, unsigned number);
    llvm::Instruction *split(llvm::Value *condition, llvm::Instruction *before);

    llvm::Module &module;
    llvm::DomTreeUpdater &tree;
    llvm::LoopInfo &loops;
    llvm::Type *wide;
    llvm::PointerType *pointer_type;
    llvm::GlobalVariable *open_range;
};

} // namespace rcop

#endif
