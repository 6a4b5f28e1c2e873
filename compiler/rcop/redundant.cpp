// A note stays good until something flushes, and nothing but a call does. So the first of two notes of the same bytes
// covers the second when it dominates it and no call that may synchronise lies between: in one block, or anywhere in a
// function that has none.
//
// The first is kept, not the last: the run time must know of a store before it happens, and it never flushes because of
// a note.
#include "redundant.h"

#include "writers.h"

#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;

namespace rcop {

namespace {

bool are_same(const Guard &one, const Guard &other) {
    return one.value == other.value && one.predicate == other.predicate && one.left == other.left &&
           one.right == other.right && one.is_negated == other.is_negated;
}

// Whether a run that has left its loops has all bytes of another note at its place.
bool covers_gathered(const Note &first, const Note &second, ScalarEvolution &evolution) {
    if (first.before != second.before || first.stride || (second.stride && !second.is_ascending))
        return false;
    for (const Guard &guard : first.guards)
        if (none_of(second.guards, [&](const Guard &other) { return are_same(guard, other); }))
            return false;
    const SCEV *behind = evolution.getAddExpr(second.start, second.length);
    if (second.stride)
        behind = evolution.getAddExpr(
            behind, evolution.getMulExpr(second.stride, evolution.getMinusSCEV(second.rows, evolution.getOne(second.rows->getType()))));
    const SCEV *low = evolution.getMinusSCEV(second.start, first.start);
    const SCEV *high = evolution.getMinusSCEV(evolution.getAddExpr(first.start, first.length), behind);
    // Constants, so that nothing may wrap around.
    auto is_distance = [](const SCEV *value) {
        auto *constant = dyn_cast<SCEVConstant>(value);
        return constant && constant->getAPInt().isNonNegative();
    };
    return is_distance(low) && is_distance(high);
}

bool covers(const Note &first, const Note &second, ScalarEvolution &evolution) {
    if (first.start && second.start)
        return covers_gathered(first, second, evolution);
    if (first.start || second.start || first.pointer->stripPointerCasts() != second.pointer->stripPointerCasts())
        return false;
    auto *one = dyn_cast<ConstantInt>(first.bytes), *other = dyn_cast<ConstantInt>(second.bytes);
    return first.bytes == second.bytes || (one && other && one->getZExtValue() >= other->getZExtValue());
}

// Whether a call that may synchronise lies between two instructions of one block.
bool has_border(const Instruction *from, const Instruction *to, const TargetLibraryInfo &library) {
    for (; from != to; from = from->getNextNode())
        if (is_border(*from, library))
            return true;
    return false;
}

} // namespace

void drop_redundant(Notes &notes, const DominatorTree &tree, const TargetLibraryInfo &library,
                    ScalarEvolution &evolution) {
    if (notes.empty())
        return;
    const Function &function = *notes.front().before->getFunction();
    bool synchronises = any_of(instructions(function), [&](const Instruction &one) { return is_border(one, library); });
    auto precedes = [&](const Note &first, const Note &second) {
        const Instruction *from = first.before, *to = second.before;
        if (from == to)
            return true;
        if (!tree.dominates(from, to))
            return false;
        return !synchronises || (from->getParent() == to->getParent() && !has_border(from, to, library));
    };
    Notes kept;
    std::vector<bool> is_gone(notes.size());
    for (size_t second = 0; second < notes.size(); second++)
        for (size_t first = 0; first < notes.size() && !is_gone[second]; first++)
            if (first != second && !is_gone[first] && covers(notes[first], notes[second], evolution) &&
                precedes(notes[first], notes[second]))
                is_gone[second] = true;
    for (size_t place = 0; place < notes.size(); place++)
        if (!is_gone[place])
            kept.push_back(notes[place]);
    notes = std::move(kept);
}

} // namespace rcop
