// A note leaves a loop when the loop, once begun, runs to its end and stores exactly what the note then names:
//
// - one exit whose count of rounds is known at the entry; every instruction hands control on; no call may synchronise
// - the store is in every round, or stands behind an invariant condition, which goes with the note
// - its address goes on by the length of what is stored (a run), stays (the same bytes), or goes on by an
//   invariant stride (rows)
// - or what later rounds store lies within what the first one stores, or the other way round (triangles): then one
//   round's note is that of all, and its condition may change, if it only ever ends, or only ever begins, to hold
//
// A note that is a run may become rows in the next loop; rows stay rows where their address does not change.
#include "loops.h"

#include "writers.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;

namespace rcop {

const char *flaw_of(const Loop &loop, const Nest &nest) {
    if (!loop.getLoopPreheader() || !loop.getLoopLatch())
        return "its form is not simple";
    if (!loop.getExitingBlock())
        return "it has several exits";
    for (const BasicBlock *block : loop.blocks()) {
        const Loop *inner = nest.loops.getLoopFor(block);
        // An inner loop may run for ever, unless its rounds are counted.
        if (inner != &loop && isa<SCEVCouldNotCompute>(nest.evolution.getBackedgeTakenCount(inner)))
            return "the rounds of a loop in it are not known at its entry";
        for (const Instruction &instruction : *block)
            if (is_border(instruction, nest.library))
                return "a call in it may synchronise, or not return";
    }
    const SCEV *count = nest.evolution.getBackedgeTakenCount(&loop);
    if (isa<SCEVCouldNotCompute>(count) || nest.evolution.getTypeSizeInBits(count->getType()) > 64)
        return "its rounds are not known at its entry";
    return nullptr;
}

namespace {

class Gatherer {
public:
    Gatherer(Nest &nest, Function &function)
        : nest(nest), evolution(nest.evolution), wide(Type::getInt64Ty(function.getContext())),
          expander(evolution, function.getParent()->getDataLayout(), "rcop") {}

    // The reason why a note does not leave a loop; null: it has left it.
    const char *leave(Note &note, Loop &loop) {
        auto [known, is_new] = flaws.try_emplace(&loop, nullptr);
        if (is_new)
            known->second = flaw_of(loop, nest);
        if (known->second)
            return known->second;
        Note moved = note;
        if (!moved.start && !begin(moved))
            return "the store is volatile or atomic, or its length is not known";
        if (const char *flaw = find_guards(moved, loop))
            return flaw;
        if (const char *flaw = widen(moved, loop))
            return flaw;
        moved.before = loop.getLoopPreheader()->getTerminator();
        moved.levels++;
        moved.left = &loop;
        if (!can_expand(moved))
            return "its address cannot be computed before the loop";
        note = moved;
        return nullptr;
    }

private:
    bool begin(Note &note) {
        if (auto *store = dyn_cast<StoreInst>(note.store); store && !store->isSimple())
            return false;
        if (auto *load = dyn_cast<LoadInst>(note.store); load && !load->isSimple())
            return false;
        if (isa<AtomicRMWInst>(note.store) || !note.bytes->getType()->isIntegerTy())
            return false;
        note.start = evolution.getSCEV(note.pointer);
        note.length = evolution.getNoopOrZeroExtend(evolution.getSCEV(note.bytes), wide);
        return !isa<SCEVCouldNotCompute>(note.start);
    }

    bool is_invariant(const SCEV *value, const Loop &loop) { return !value || evolution.isLoopInvariant(value, &loop); }

    // Whether the note is in every round of a loop, but for conditions that are the same in all.
    const char *find_guards(Note &note, const Loop &loop) {
        BasicBlock *block = note.before->getParent();
        while (!nest.tree.dominates(block, loop.getLoopLatch())) {
            // A block behind a condition, and nothing else leads to it.
            BasicBlock *from = block->getSinglePredecessor();
            auto *branch = from ? dyn_cast<BranchInst>(from->getTerminator()) : nullptr;
            if (!branch || !loop.contains(from))
                return "the store is not in every round";
            if (branch->isConditional()) {
                if (branch->getSuccessor(0) == branch->getSuccessor(1))
                    return "the store is not in every round";
                Guard guard;
                guard.is_negated = branch->getSuccessor(1) == block;
                if (from == loop.getExitingBlock())
                    return "the store is not in every round";
                if (!take(guard, branch->getCondition(), loop))
                    return "the store stands behind a condition that changes";
                note.guards.push_back(guard);
            }
            block = from;
        }
        note.before = block->getTerminator();
        return nullptr;
    }

    bool is_invariant(const Guard &guard, const Loop &loop) {
        return guard.value ? loop.isLoopInvariant(guard.value)
                           : is_invariant(guard.left, loop) && is_invariant(guard.right, loop);
    }

    bool take(Guard &guard, Value *condition, const Loop &loop) {
        if (loop.isLoopInvariant(condition)) {
            guard.value = condition;
            return true;
        }
        auto *compare = dyn_cast<ICmpInst>(condition);
        if (!compare || !evolution.isSCEVable(compare->getOperand(0)->getType()))
            return false;
        guard.predicate = compare->getPredicate();
        guard.left = evolution.getSCEV(compare->getOperand(0));
        guard.right = evolution.getSCEV(compare->getOperand(1));
        return !isa<SCEVCouldNotCompute>(guard.left) && !isa<SCEVCouldNotCompute>(guard.right);
    }

    // How often the note's block is reached in a whole loop.
    const SCEV *rounds(const Loop &loop, bool is_reached) {
        const SCEV *back = evolution.getNoopOrZeroExtend(evolution.getBackedgeTakenCount(&loop), wide);
        // A block behind the test of a loop that tests first is reached once less than the test.
        if (!is_reached)
            return back;
        return evolution.getAddExpr(back, evolution.getOne(wide));
    }

    const char *widen(Note &note, const Loop &loop) {
        if (!is_invariant(note.stride, loop))
            return "the length of the store changes";
        bool is_reached = nest.tree.dominates(note.before->getParent(), loop.getExitingBlock());
        const SCEV *count = rounds(loop, is_reached);
        if (!is_invariant(count, loop))
            return "its rounds are not known at its entry";
        bool is_same = is_invariant(note.length, loop) && is_invariant(note.rows, loop);
        for (const Guard &guard : note.guards)
            is_same &= is_invariant(guard, loop);
        if (!is_same) {
            if (!nest_rounds(note, loop, count))
                return "its length or its condition changes";
            if (!is_reached)
                note.guards.push_back({nullptr, CmpInst::ICMP_NE, count, evolution.getZero(wide), false});
            return nullptr;
        }
        if (evolution.isLoopInvariant(note.start, &loop)) {
            // The same bytes in each round; none where there may be no round.
            if (!is_reached)
                note.guards.push_back({nullptr, CmpInst::ICMP_NE, count, evolution.getZero(wide), false});
            return nullptr;
        }
        auto *address = dyn_cast<SCEVAddRecExpr>(note.start);
        if (!address || address->getLoop() != &loop || !address->isAffine())
            return "its address is not affine";
        const SCEV *step = address->getStepRecurrence(evolution);
        if (!evolution.isLoopInvariant(step, &loop) || !evolution.isLoopInvariant(address->getStart(), &loop))
            return "its address is not affine";
        step = evolution.getNoopOrSignExtend(step, wide);
        if (note.rows)
            return "it has more than two dimensions";
        const SCEV *whole = evolution.getMulExpr(note.length, count);
        if (step == note.length) {
            note.start = address->getStart();
            note.length = whole;
        } else if (step == evolution.getNegativeSCEV(note.length)) {
            // Backwards: the run begins with the last store.
            if (!is_reached)
                note.guards.push_back({nullptr, CmpInst::ICMP_NE, count, evolution.getZero(wide), false});
            const SCEV *before = evolution.getMulExpr(step, evolution.getMinusSCEV(count, evolution.getOne(wide)));
            note.start = evolution.getAddExpr(address->getStart(), before);
            note.length = whole;
        } else {
            note.start = address->getStart();
            note.stride = step;
            note.rows = count;
            note.is_ascending = is_not_negative(step, loop);
        }
        return nullptr;
    }

    // How much a value changes in a round; null when that is not known.
    const SCEV *step_of(const SCEV *value, const Loop &loop) {
        if (evolution.isLoopInvariant(value, &loop))
            return evolution.getZero(wide);
        auto *changing = dyn_cast<SCEVAddRecExpr>(value);
        if (!changing || changing->getLoop() != &loop || !changing->isAffine())
            return nullptr;
        const SCEV *step = changing->getStepRecurrence(evolution);
        return evolution.isLoopInvariant(step, &loop) ? evolution.getNoopOrSignExtend(step, wide) : nullptr;
    }

    // A step that is a length of something stored does not wrap around when it is multiplied.
    bool is_not_negative(const SCEV *step, const Loop &loop) {
        if (evolution.isKnownNonNegative(step))
            return true;
        if (auto *product = dyn_cast<SCEVMulExpr>(step); product && product->getNumOperands() == 2)
            if (auto *factor = dyn_cast<SCEVConstant>(product->getOperand(0)); factor && factor->getAPInt().isStrictlyPositive())
                step = product->getOperand(1);
        return evolution.isLoopEntryGuardedByCond(&loop, CmpInst::ICMP_SGE, step, evolution.getZero(step->getType()));
    }

    bool is_not_positive(const SCEV *step, const Loop &loop) {
        return is_not_negative(evolution.getNegativeSCEV(step), loop);
    }

    // Whether a condition that holds in a round holds in the first one (or in the last one).
    bool holds_before(const Guard &guard, const Loop &loop, bool is_first) {
        if (is_invariant(guard, loop))
            return true;
        if (guard.value)
            return false;
        auto predicate = guard.is_negated ? CmpInst::getInversePredicate(guard.predicate) : guard.predicate;
        const SCEV *changing = guard.left;
        if (is_invariant(changing, loop)) {
            changing = guard.right;
            predicate = CmpInst::getSwappedPredicate(predicate);
        }
        const SCEV *other = changing == guard.left ? guard.right : guard.left;
        auto *left = dyn_cast<SCEVAddRecExpr>(changing);
        if (!left || left->getLoop() != &loop || !left->isAffine() || !is_invariant(other, loop))
            return false;
        auto kind = evolution.getMonotonicPredicateType(left, predicate);
        return kind && (*kind == ScalarEvolution::MonotonicallyDecreasing) == is_first;
    }

    // Whether each round's bytes lie within the first one's (or the last one's).
    bool is_within(const Note &note, const Loop &loop, bool is_first) {
        const SCEV *start = step_of(note.start, loop), *length = step_of(note.length, loop);
        if (!start || !length)
            return false;
        if (note.rows) {
            // Rows are left out at the beginning, as many in each round; the rest moves inside of its row.
            const SCEV *rows = step_of(note.rows, loop);
            if (!is_first || !rows || !isa<SCEVConstant>(rows) || !evolution.isKnownNonPositive(rows))
                return false;
            start = evolution.getAddExpr(start, evolution.getMulExpr(rows, note.stride));
        }
        const SCEV *end = evolution.getAddExpr(start, length);
        if (is_first)
            return is_not_negative(start, loop) && is_not_positive(end, loop);
        return is_not_positive(start, loop) && is_not_negative(end, loop);
    }

    // One round's note for all, where their bytes are nested.
    bool nest_rounds(Note &note, const Loop &loop, const SCEV *count) {
        for (bool is_first : {true, false}) {
            bool holds = is_within(note, loop, is_first);
            for (const Guard &guard : note.guards)
                holds = holds && holds_before(guard, loop, is_first);
            if (!holds)
                continue;
            const SCEV *round = is_first ? evolution.getZero(wide) : evolution.getMinusSCEV(count, evolution.getOne(wide));
            auto in_round = [&](const SCEV *&value) {
                if (value && !evolution.isLoopInvariant(value, &loop))
                    value = cast<SCEVAddRecExpr>(value)->evaluateAtIteration(
                        evolution.getTruncateOrNoop(round, evolution.getEffectiveSCEVType(value->getType())), evolution);
            };
            in_round(note.start), in_round(note.length), in_round(note.rows);
            for (Guard &guard : note.guards)
                in_round(guard.left), in_round(guard.right);
            return true;
        }
        return false;
    }

    bool can_expand(const Note &note) {
        auto is_safe = [&](const SCEV *value) { return !value || expander.isSafeToExpandAt(value, note.before); };
        for (const Guard &guard : note.guards)
            if (guard.value ? !dominates(guard.value, note.before)
                            : !is_safe(guard.left) || !is_safe(guard.right))
                return false;
        return is_safe(note.start) && is_safe(note.length) && is_safe(note.stride) && is_safe(note.rows);
    }

    bool dominates(Value *value, Instruction *before) {
        auto *instruction = dyn_cast<Instruction>(value);
        return !instruction || nest.tree.dominates(instruction, before);
    }

    Nest &nest;
    DenseMap<const Loop *, const char *> flaws;
    ScalarEvolution &evolution;
    Type *wide;
    SCEVExpander expander;
};

void missed(OptimizationRemarkEmitter &emitter, const Note &note, const Loop &loop, const char *reason) {
    emitter.emit([&] {
        return OptimizationRemarkMissed("rcop", "NotGathered", note.store)
               << "the note stays in the loop at depth " << ore::NV("Depth", loop.getLoopDepth()) << ": " << reason;
    });
}

} // namespace

void gather(Notes &notes, Nest &nest) {
    if (notes.empty())
        return;
    Gatherer gatherer(nest, *notes.front().before->getFunction());
    for (Note &note : notes)
        while (Loop *loop = nest.loops.getLoopFor(note.before->getParent()))
            if (const char *reason = gatherer.leave(note, *loop)) {
                missed(nest.emitter, note, *loop, reason);
                break;
            }
}

} // namespace rcop
