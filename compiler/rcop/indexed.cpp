// Stores through an index, as in a[r[f(i)]++] = v or r[f(i)]++. Their places are known once the loop has run; so a copy
// of the loop without its stores runs ahead, tells the run time each place, and the run time makes the notes:
//
//     if (a or r is shared) {
//         for (...) tutti_dsm_ahead_store(site, &r[f(i)], r[f(i)]);
//         noted = tutti_dsm_ahead_end();
//     }
//     for (...) { if (!noted) note(...); a[r[f(i)]++] = v; }
//
// The copy finds the same places when nothing that it loads for them is stored to by the loop. Types prove that, or the
// run time compares the addresses, and says no. Then each store has a note of its own.
//
// An append: r[d] grows by one with each store, and elements follow each other. So the first value of r[d] and how often
// it is seen are a run.
#include "indexed.h"

#include "place.h"
#include "writers.h"

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/DomTreeUpdater.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/MemoryLocation.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

using namespace llvm;
using namespace llvm::PatternMatch;

namespace rcop {

namespace {

class Finder {
public:
    Finder(Loop &loop, Nest &nest, AAResults &aliases)
        : loop(loop), nest(nest), aliases(aliases), layout(loop.getHeader()->getModule()->getDataLayout()) {
        found.loop = &loop;
    }

    // The reason why no copy runs ahead; null: it can.
    const char *find(const SmallPtrSetImpl<const Instruction *> &noted) {
        if (const char *flaw = flaw_of(loop, nest))
            return flaw;
        for (BasicBlock *block : loop.blocks())
            for (Instruction &instruction : *block)
                if (const char *flaw = take_access(instruction))
                    return flaw;
        for (StoreInst *store : stores)
            if (!take_append(*store))
                direct.push_back(store);
        for (StoreInst *store : direct)
            if (!counts.count(store) && !take_direct(*store, noted))
                return "the loop has a store to private memory beside";
        for (const Site &site : found.sites) {
            if (const char *flaw = take_value(site.slot))
                return flaw;
            if (!take_base(site.base ? site.base : site.slot) || (site.base && !take_base(site.slot)))
                return "the beginning of its memory changes";
        }
        for (BasicBlock *block : loop.blocks())
            for (Value *operand : block->getTerminator()->operands())
                if (const char *flaw = take_value(operand))
                    return flaw;
        for (LoadInst *load : loads)
            if (const char *flaw = take_load(*load))
                return flaw;
        return nullptr;
    }

    Ahead found;

private:
    // Everything in the loop that touches memory runs twice, but for its stores.
    const char *take_access(Instruction &instruction) {
        auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction);
        if (!instruction.mayReadOrWriteMemory() || (intrinsic && intrinsic->isAssumeLikeIntrinsic()))
            return nullptr;
        if (auto *load = dyn_cast<LoadInst>(&instruction))
            return load->isSimple() ? nullptr : "the loop has a volatile or atomic load";
        auto *store = dyn_cast<StoreInst>(&instruction);
        if (!store)
            return "the loop has a call that touches memory";
        stores.push_back(store);
        return store->isSimple() ? nullptr : "the loop has a volatile or atomic store";
    }

    // a[index + offset] = v, where index comes from an element that grows by one.
    bool take_append(StoreInst &store) {
        auto *place = dyn_cast<GetElementPtrInst>(store.getPointerOperand());
        if (!place || place->getNumIndices() != 1 || !loop.isLoopInvariant(place->getPointerOperand()))
            return false;
        Value *index = place->getOperand(1);
        Site site;
        site.bytes = layout.getTypeStoreSize(store.getValueOperand()->getType());
        if (layout.getTypeAllocSize(place->getSourceElementType()) != site.bytes)
            return false;
        for (; isa<SExtInst>(index) || isa<ZExtInst>(index); index = cast<Instruction>(index)->getOperand(0))
            site.is_unsigned |= isa<ZExtInst>(index);
        const APInt *constant = nullptr;
        Value *inner = nullptr;
        if (match(index, m_Add(m_Value(inner), m_APInt(constant))) && constant->getSignificantBits() <= 16) {
            site.offset = constant->getSExtValue();
            index = inner;
        }
        site.index = dyn_cast<LoadInst>(index);
        if (!site.index || !loop.contains(site.index) || !site.index->isSimple())
            return false;
        StoreInst *grown = nullptr;
        for (StoreInst *other : stores)
            if (other->getPointerOperand() == site.index->getPointerOperand() &&
                other->getParent() == site.index->getParent() && site.index->comesBefore(other) &&
                match(other->getValueOperand(), m_c_Add(m_Specific(site.index), m_One())))
                grown = other;
        // Each time that the index is loaded, one element is stored.
        if (!grown || grown->getParent() != store.getParent())
            return false;
        site.store = &store;
        site.slot = site.index->getPointerOperand();
        site.slot_bytes = layout.getTypeStoreSize(site.index->getType());
        site.base = place->getPointerOperand();
        if (!counts.insert(grown).second || site.slot_bytes > 8)
            return false;
        found.sites.push_back(site);
        return true;
    }

    bool take_direct(StoreInst &store, const SmallPtrSetImpl<const Instruction *> &noted) {
        if (!noted.contains(&store))
            return false;
        Site site;
        site.store = &store;
        site.slot = store.getPointerOperand();
        site.slot_bytes = layout.getTypeStoreSize(store.getValueOperand()->getType());
        found.sites.push_back(site);
        return true;
    }

    // What a value is computed from, in the loop.
    const char *take_value(Value *value) {
        auto *instruction = dyn_cast<Instruction>(value);
        if (!instruction || !loop.contains(instruction) || !taken.insert(instruction).second)
            return nullptr;
        if (auto *load = dyn_cast<LoadInst>(instruction)) {
            if (!load->isSimple())
                return "the loop has a volatile or atomic load";
            loads.push_back(load);
        } else if (instruction->mayReadOrWriteMemory()) {
            return "its place comes from a call";
        }
        for (Value *operand : instruction->operands())
            if (const char *flaw = take_value(operand))
                return flaw;
        return nullptr;
    }

    bool take_base(Value *value) {
        while (!loop.isLoopInvariant(value)) {
            auto *place = dyn_cast<GetElementPtrInst>(value);
            if (!place)
                return false;
            value = place->getPointerOperand();
        }
        if (!is_contained(found.bases, value))
            found.bases.push_back(value);
        return true;
    }

    // Whether stores of the loop may change what a load finds, in whichever round.
    bool may_change(const LoadInst &load) {
        auto location = [](const Instruction &access, const Value *pointer) {
            AAMDNodes types;
            types.TBAA = access.getMetadata(LLVMContext::MD_tbaa);
            return MemoryLocation(pointer, LocationSize::beforeOrAfterPointer(), types);
        };
        for (const StoreInst *store : stores)
            if (!aliases.isNoAlias(location(load, load.getPointerOperand()), location(*store, store->getPointerOperand())))
                return true;
        return false;
    }

    const char *take_load(LoadInst &load) {
        if (!may_change(load))
            return nullptr;
        Looked looked;
        looked.bytes = layout.getTypeStoreSize(load.getType());
        looked.first = looked.last = nest.evolution.getSCEV(load.getPointerOperand());
        if (!nest.evolution.isLoopInvariant(looked.first, &loop)) {
            auto *address = dyn_cast<SCEVAddRecExpr>(looked.first);
            if (!address || address->getLoop() != &loop || !address->isAffine())
                return "its place comes from memory that the loop may store to";
            const SCEV *back = nest.evolution.getBackedgeTakenCount(&loop);
            Type *wide = nest.evolution.getEffectiveSCEVType(address->getType());
            looked.last = address->evaluateAtIteration(nest.evolution.getNoopOrZeroExtend(back, wide), nest.evolution);
            looked.first = address->getStart();
        }
        SCEVExpander expander(nest.evolution, layout, "rcop");
        Instruction *before = loop.getLoopPreheader()->getTerminator();
        if (!expander.isSafeToExpandAt(looked.first, before) || !expander.isSafeToExpandAt(looked.last, before))
            return "its place comes from memory that the loop may store to";
        found.looked.push_back(looked);
        return nullptr;
    }

    Loop &loop;
    Nest &nest;
    AAResults &aliases;
    const DataLayout &layout;
    SmallVector<StoreInst *, 4> stores, direct;
    // Stores that let an index grow.
    SmallPtrSet<StoreInst *, 4> counts;
    SmallPtrSet<Instruction *, 16> taken;
    SmallVector<LoadInst *, 4> loads;
};

} // namespace

SmallVector<Ahead, 2> find_indexed(Notes &notes, Nest &nest, AAResults &aliases) {
    SmallVector<Ahead, 2> all;
    SmallPtrSet<const Instruction *, 16> noted;
    SmallVector<Loop *, 4> loops;
    for (const Note &note : notes) {
        if (note.start || !isa<StoreInst>(note.store))
            continue;
        noted.insert(note.store);
        Loop *loop = nest.loops.getLoopFor(note.store->getParent());
        if (loop && loop->isInnermost() && !is_contained(loops, loop))
            loops.push_back(loop);
    }
    for (Loop *loop : loops) {
        Finder finder(*loop, nest, aliases);
        if (const char *reason = finder.find(noted)) {
            nest.emitter.emit([&] {
                return OptimizationRemarkMissed("rcop", "NotAhead", loop->getStartLoc(), loop->getHeader())
                       << "no copy of the loop runs ahead: " << reason;
            });
            continue;
        }
        all.push_back(finder.found);
    }
    return all;
}

void place_ahead(const Ahead &ahead, Placer &placer, Nest &nest, DomTreeUpdater &updater,
                 DenseMap<const Instruction *, Value *> &noted) {
    Loop &loop = *ahead.loop;
    BasicBlock *test = loop.getLoopPreheader(), *exiting = loop.getExitingBlock();
    BasicBlock *begin = SplitBlock(test, test->getTerminator(), &updater, &nest.loops);
    SmallVector<BasicBlock *, 8> blocks;
    ValueToValueMapTy values;
    Loop *copy = cloneLoopWithPreheader(begin, test, &loop, values, ".ahead", &nest.loops, &nest.tree, blocks);
    remapInstructionsInBlocks(blocks, values);
    // The copy ends in a block of its own, which goes on to the loop.
    auto *copied = cast<BasicBlock>(values[exiting]);
    auto *end = BasicBlock::Create(test->getContext(), "ahead.end", test->getParent(), begin);
    copied->getTerminator()->replaceSuccessorWith(loop.getExitBlock(), end);
    nest.tree.addNewBlock(end, copied);
    if (Loop *outer = loop.getParentLoop())
        outer->addBasicBlockToLoop(end, nest.loops);
    IRBuilder<> builder(end);
    Value *is_noted = placer.end_ahead(builder);
    builder.CreateBr(begin);
    // The test.
    Instruction *old = test->getTerminator();
    builder.SetInsertPoint(old);
    Value *condition = builder.getFalse();
    for (Value *base : ahead.bases)
        condition = builder.CreateOr(condition, placer.is_shared(builder, builder.CreatePtrToInt(base, builder.getInt64Ty())));
    builder.CreateCondBr(condition, copy->getLoopPreheader(), begin);
    old->eraseFromParent();
    builder.SetInsertPoint(begin, begin->begin());
    PHINode *phi = builder.CreatePHI(builder.getInt1Ty(), 2);
    phi->addIncoming(builder.getFalse(), test);
    phi->addIncoming(is_noted, end);
    // What the copy is told before, and in the place of its stores.
    builder.SetInsertPoint(copy->getLoopPreheader()->getTerminator());
    placer.begin_ahead(builder, ahead);
    for (auto [number, site] : enumerate(ahead.sites)) {
        auto *store = cast<StoreInst>(values[site.store]);
        builder.SetInsertPoint(store);
        auto mapped = [&](Value *value) { Value *there = values.lookup(value); return there ? there : value; };
        placer.tell_ahead(builder, number, mapped(site.slot), site.index ? mapped(site.index) : nullptr, site.is_unsigned);
    }
    for (BasicBlock *block : copy->blocks())
        for (Instruction &instruction : make_early_inc_range(*block))
            if (isa<StoreInst>(instruction))
                instruction.eraseFromParent();
    for (BasicBlock *block : loop.blocks())
        for (Instruction &instruction : *block)
            if (isa<StoreInst>(instruction))
                noted[&instruction] = phi;
}

} // namespace rcop
