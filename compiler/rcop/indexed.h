// Notes of stores through an index, whose places a look ahead finds.
#ifndef TUTTI_RCOP_INDEXED_H
#define TUTTI_RCOP_INDEXED_H

#include "loops.h"
#include "note.h"

#include "llvm/ADT/DenseMap.h"

namespace llvm {
class AAResults;
class AllocaInst;
class DomTreeUpdater;
class LoadInst;
class StoreInst;
} // namespace llvm

namespace rcop {

class Placer;

// A store whose place the look ahead finds.
struct Site {
    llvm::StoreInst *store = nullptr;
    // The element that says where, or the place itself.
    llvm::Value *slot = nullptr;
    unsigned slot_bytes = 0;
    // An append: what the element holds is an index behind `base`, of elements of so many bytes.
    llvm::LoadInst *index = nullptr;
    bool is_unsigned = false;
    llvm::Value *base = nullptr;
    int64_t offset = 0;
    unsigned bytes = 0;
};

// Memory that a loop loads to find places: from the first round's to the last one's.
struct Looked {
    const llvm::SCEV *first = nullptr, *last = nullptr;
    uint64_t bytes = 0;
    // The same as values, once they are expanded.
    llvm::Value *first_value = nullptr, *last_value = nullptr;
};

// A loop that a copy without stores runs ahead of.
struct Ahead {
    llvm::Loop *loop = nullptr;
    llvm::SmallVector<Site, 2> sites;
    // Where places begin that are not known before: shared or not decides whether the copy runs.
    llvm::SmallVector<llvm::Value *, 2> bases;
    llvm::SmallVector<Looked, 2> looked;
};

// Loops with stores through an index that a look ahead can find. Nothing of the function changes.
llvm::SmallVector<Ahead, 2> find_indexed(Notes &notes, Nest &nest, llvm::AAResults &aliases);

// Puts the copy before the loop; for each store of the loop, a value of the loop's begin that says whether its bytes are
// noted already.
void place_ahead(const Ahead &ahead, Placer &placer, Nest &nest, llvm::DomTreeUpdater &updater,
                 llvm::DenseMap<const llvm::Instruction *, llvm::Value *> &noted);

} // namespace rcop

#endif
