// RCOP, a pass plugin for LLVM 19: notes of stores to shared memory (docs/internals/dsm.md).
//
//     for each function, where the vectoriser begins
//         writers    every instruction that may write memory is noted, private by proof, or compared by page
//         loops      notes of affine stores leave loop nests
//         redundant  notes that earlier ones cover go away
//         indexed    notes of stores through an index leave loops of which a copy runs ahead
//         place      the rest becomes code
//         where loads are checked (--dsm=udsm): readers, whose checks leave loops as notes do
//     for the module, at its end: marks of functions whose stores are noted
//
// The run time gets a note before the store, so a fault finds it. Nothing flushes but calls that synchronise, and no
// note crosses one.
#include "indexed.h"
#include "loops.h"
#include "note.h"
#include "options.h"
#include "place.h"
#include "readers.h"
#include "redundant.h"
#include "writers.h"

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/DomTreeUpdater.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;
using namespace rcop;

namespace {

constexpr const char *noted_attribute = "tutti-rcop";
// Of an object all of whose functions are noted: 1, and 2 where its loads are checked too.
constexpr const char *object_mark = "tutti_rcop_object";

// A longer access may be in more than two pages.
constexpr uint64_t small_bytes = 4096;

void remark(OptimizationRemarkEmitter &emitter, const Note &note) {
    emitter.emit([&] {
        OptimizationRemark remark("rcop", note.levels ? "Gathered" : "Noted", note.store);
        if (note.levels)
            remark << "one note for " << ore::NV("Levels", note.levels) << " levels of loops";
        else
            remark << "a note for each store";
        return remark;
    });
}

// A value that is invariant from the note on, at its place.
class Expander {
public:
    Expander(ScalarEvolution &evolution, const DataLayout &layout, Instruction *before)
        : expander(evolution, layout, "rcop"), before(before) {}

    // Frozen: a condition may say that it does not count.
    Value *value(const SCEV *wanted, Type *type) {
        Value *expanded = expander.expandCodeFor(wanted, type, before);
        return IRBuilder<>(before).CreateFreeze(expanded);
    }

    Value *guard(const Guard &guard) {
        Value *condition = guard.value;
        IRBuilder<> builder(before);
        if (!condition) {
            Value *left = value(guard.left, guard.left->getType()), *right = value(guard.right, guard.right->getType());
            condition = builder.CreateICmp(guard.predicate, left, right);
        }
        return guard.is_negated ? builder.CreateNot(condition) : condition;
    }

private:
    SCEVExpander expander;
    Instruction *before;
};

// A gathered note as values.
struct Expanded {
    Instruction *before;
    Value *pointer, *bytes, *stride, *rows;
    bool needs_presence;
};

Expanded expand(const Note &note, ScalarEvolution &evolution) {
    LLVMContext &context = note.before->getContext();
    auto *wide = Type::getInt64Ty(context);
    Expander expander(evolution, note.before->getModule()->getDataLayout(), note.before);
    Expanded expanded{note.before, expander.value(note.start, PointerType::getUnqual(context)),
                      expander.value(note.length, wide), nullptr, nullptr, note.needs_presence};
    if (note.rows) {
        expanded.stride = expander.value(note.stride, wide);
        expanded.rows = expander.value(note.rows, wide);
    }
    for (const Guard &guard : note.guards) {
        Value *condition = expander.guard(guard);
        IRBuilder<> builder(note.before);
        expanded.bytes = builder.CreateSelect(builder.CreateFreeze(condition), expanded.bytes, builder.getInt64(0));
    }
    return expanded;
}

void expand(Ahead &ahead, ScalarEvolution &evolution) {
    Instruction *before = ahead.loop->getLoopPreheader()->getTerminator();
    Expander expander(evolution, before->getModule()->getDataLayout(), before);
    auto *pointer = PointerType::getUnqual(before->getContext());
    for (Looked &looked : ahead.looked) {
        looked.first_value = expander.value(looked.first, pointer);
        looked.last_value = expander.value(looked.last, pointer);
    }
}

struct Writers {
    Notes notes;
    SmallVector<std::pair<Instruction *, Writer>, 8> compared;
};

Writers find_writers(Function &function, const TargetLibraryInfo &library) {
    Writers writers;
    for (Instruction &instruction : instructions(function)) {
        if (!instruction.mayWriteToMemory())
            continue;
        Writer writer = classify(instruction, library, use_proofs);
        switch (writer.kind) {
        case Kind::Nothing:
        case Kind::Private:
            break;
        case Kind::Noted:
            if (breaks_stores && isa<StoreInst>(instruction))
                break;
            writers.notes.emplace_back();
            writers.notes.back().before = writers.notes.back().store = &instruction;
            writers.notes.back().pointer = writer.pointer;
            writers.notes.back().bytes = writer.bytes;
            break;
        default:
            writers.compared.push_back({&instruction, writer});
        }
    }
    return writers;
}

struct Readers {
    Notes checks;
    SmallVector<std::pair<Instruction *, Reader>, 8> covered;
};

Readers find_readers(Function &function, const TargetLibraryInfo &library) {
    Readers readers;
    for (Instruction &instruction : instructions(function)) {
        if (!instruction.mayReadFromMemory())
            continue;
        Reader reader = classify_reader(instruction, library, use_proofs);
        if (reader.kind == Reading::Nothing)
            continue;
        if (reader.kind != Reading::Checked) {
            readers.covered.push_back({&instruction, reader});
            continue;
        }
        // It may not be moved before its check.
        if (isa<LoadInst>(instruction))
            instruction.setMetadata(LLVMContext::MD_invariant_load, nullptr);
        readers.checks.emplace_back();
        readers.checks.back().before = readers.checks.back().store = &instruction;
        readers.checks.back().pointer = reader.pointer;
        readers.checks.back().bytes = reader.bytes;
    }
    return readers;
}

// Bytes that a note names before they are stored must not be loaded before that: a page that comes meanwhile would leave
// them out. So where a load in the loop is not checked before it, what the note names has to be here.
void find_presence(Notes &notes, const Readers &readers, const Writers &writers, const Nest &nest) {
    for (Note &note : notes) {
        const Loop *loop = note.left;
        if (!loop)
            continue;
        auto is_inside = [&](const Instruction *one) { return loop->contains(one); };
        for (const Note &check : readers.checks)
            note.needs_presence |= is_inside(check.store) && !(check.left && check.left->contains(loop));
        for (auto &[instruction, reader] : readers.covered)
            note.needs_presence |= is_inside(instruction);
        for (auto &[instruction, writer] : writers.compared)
            note.needs_presence |= is_inside(instruction);
    }
}

// Whether what an access touches is in one page.
bool is_in_one_page(const Instruction &access, uint64_t bytes) {
    if (auto *load = dyn_cast<LoadInst>(&access))
        return load->getAlign().value() >= bytes;
    return isa<AtomicRMWInst>(access) || isa<AtomicCmpXchgInst>(access);
}

struct NotePass : PassInfoMixin<NotePass> {
    static bool isRequired() { return true; }

    PreservedAnalyses run(Function &function, FunctionAnalysisManager &manager) {
        if (function.hasFnAttribute(noted_attribute))
            return PreservedAnalyses::all();
        if (function.hasFnAttribute(Attribute::Naked))
            return PreservedAnalyses::all();
        function.addFnAttr(noted_attribute);
        auto &library = manager.getResult<TargetLibraryAnalysis>(function);
        auto &tree = manager.getResult<DominatorTreeAnalysis>(function);
        auto &loops = manager.getResult<LoopAnalysis>(function);
        auto &emitter = manager.getResult<OptimizationRemarkEmitterAnalysis>(function);
        auto &evolution = manager.getResult<ScalarEvolutionAnalysis>(function);
        auto &assumptions = manager.getResult<AssumptionAnalysis>(function);
        bool changes_loops = false;
        if (use_gathering)
            for (Loop *loop : loops)
                changes_loops |= simplifyLoop(loop, &tree, &loops, &evolution, &assumptions, nullptr, false);
        Writers writers = find_writers(function, library);
        Readers readers;
        if (checks_loads)
            readers = find_readers(function, library);
        if (writers.notes.empty() && writers.compared.empty() && readers.checks.empty() && readers.covered.empty())
            return changes_loops ? PreservedAnalyses::none() : PreservedAnalyses::all();
        Nest nest{loops, tree, evolution, library, emitter};
        if (use_gathering) {
            gather(writers.notes, nest);
            gather(readers.checks, nest);
        }
        find_presence(writers.notes, readers, writers, nest);
        if (use_redundancy) {
            drop_redundant(writers.notes, tree, library, evolution);
            drop_redundant(readers.checks, tree, library, evolution);
        }
        SmallVector<Ahead, 2> ahead;
        if (use_gathering)
            ahead = find_indexed(writers.notes, nest, manager.getResult<AAManager>(function));
        place(writers, readers, ahead, function, nest);
        return PreservedAnalyses::none();
    }

    // Values first: code that splits blocks would take their loops from ScalarEvolution. Checks of loads before notes: what
    // a page that comes leaves out is stored already then.
    static void place(Writers &writers, Readers &readers, SmallVectorImpl<Ahead> &ahead, Function &function, Nest &nest) {
        SmallVector<Expanded, 8> checked, gathered;
        SmallVector<const Note *, 16> plain_checks, plain;
        split_by_loops(readers.checks, nest, checked, plain_checks);
        split_by_loops(writers.notes, nest, gathered, plain);
        for (Ahead &one : ahead)
            expand(one, nest.evolution);
        DomTreeUpdater updater(nest.tree, DomTreeUpdater::UpdateStrategy::Eager);
        Placer placer(function, updater, nest.loops);
        for (const Expanded &check : checked)
            placer.check_run(check.before, check.pointer, check.bytes, check.stride, check.rows);
        for (const Note *check : plain_checks)
            place_check(*check, placer);
        for (const Expanded &note : gathered)
            place_gathered(note, placer);
        DenseMap<const Instruction *, Value *> noted;
        for (const Ahead &one : ahead)
            place_ahead(one, placer, nest, updater, noted);
        for (const Note *note : plain)
            place_plain(*note, placer, noted.lookup(note->store));
        for (auto &[before, reader] : readers.covered)
            placer.cover(before, reader);
        for (auto &[before, writer] : writers.compared)
            placer.compare(before, writer);
    }

    static void split_by_loops(const Notes &notes, Nest &nest, SmallVectorImpl<Expanded> &gathered,
                               SmallVectorImpl<const Note *> &plain) {
        for (const Note &note : notes) {
            if (note.store->mayWriteToMemory())
                remark(nest.emitter, note);
            if (note.start && note.levels)
                gathered.push_back(expand(note, nest.evolution));
            else
                plain.push_back(&note);
        }
    }

    static void place_check(const Note &check, Placer &placer) {
        auto *bytes = dyn_cast<ConstantInt>(check.bytes);
        if (bytes && !bytes->isZero() && bytes->getZExtValue() <= small_bytes)
            placer.check(check.before, check.pointer, bytes->getZExtValue(), is_in_one_page(*check.store, bytes->getZExtValue()));
        else
            placer.check_run(check.before, check.pointer, check.bytes, nullptr, nullptr);
    }

    static void place_gathered(const Expanded &note, Placer &placer) {
        if (checks_loads && note.needs_presence)
            placer.check_run(note.before, note.pointer, note.bytes, note.stride, note.rows);
        if (note.rows)
            placer.place_rows(note.before, note.pointer, note.bytes, note.stride, note.rows);
        else
            placer.place(note.before, note.pointer, note.bytes);
        if (checks_loads)
            placer.open_run(note.before, note.pointer, note.bytes, note.stride, note.rows);
    }

    static void place_plain(const Note &note, Placer &placer, Value *unless) {
        placer.place(note.before, note.pointer, note.bytes, unless);
        if (!checks_loads)
            return;
        auto *bytes = dyn_cast<ConstantInt>(note.bytes);
        if (bytes && !bytes->isZero() && bytes->getZExtValue() <= small_bytes)
            placer.open(note.before, note.pointer, note.bytes);
        else
            placer.open_run(note.before, note.pointer, note.bytes, nullptr, nullptr);
    }
};

// Before any function is noted: a function that stores will call the run time, so nothing may rely on which memory it
// leaves alone.
struct ForgetPass : PassInfoMixin<ForgetPass> {
    static bool isRequired() { return true; }

    PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
        for (Function &function : module) {
            // One that loads calls it too, where loads are checked.
            if (function.isDeclaration() || (checks_loads ? function.doesNotAccessMemory() : function.onlyReadsMemory()))
                continue;
            function.removeFnAttr(Attribute::Memory);
            for (User *user : function.users())
                if (auto *call = dyn_cast<CallBase>(user))
                    call->removeFnAttr(Attribute::Memory);
        }
        return PreservedAnalyses::none();
    }
};

// Marks for other sources, and for who links: each function whose stores are noted, and the object when all are.
struct MarkPass : PassInfoMixin<MarkPass> {
    static bool isRequired() { return true; }

    PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
        if (module.getGlobalVariable(object_mark, true))
            return PreservedAnalyses::all();
        bool are_all_noted = true;
        SmallVector<Function *, 16> noted;
        for (Function &function : module) {
            if (function.isDeclaration() || function.hasAvailableExternallyLinkage())
                continue;
            if (!function.hasFnAttribute(noted_attribute))
                are_all_noted = false;
            else if (!function.hasLocalLinkage())
                noted.push_back(&function);
        }
        auto *byte = Type::getInt8Ty(module.getContext());
        for (Function *function : noted) {
            mark(*function, "noted");
            if (checks_loads)
                mark(*function, "checked");
        }
        if (are_all_noted) {
            auto *mode = ConstantInt::get(byte, checks_loads ? 2 : 1);
            auto *mark = new GlobalVariable(module, byte, true, GlobalValue::InternalLinkage, mode, object_mark);
            // The start object goes through it (bindings/dsm/parmacs_start.c).
            mark->setSection("tutti_rcop");
            appendToUsed(module, {mark});
        }
        return PreservedAnalyses::none();
    }

    static void mark(Function &function, StringRef what) {
        Module &module = *function.getParent();
        auto *byte = Type::getInt8Ty(module.getContext());
        std::string name = ("tutti_rcop_" + what + "." + function.getName()).str();
        auto *mark = cast<GlobalVariable>(module.getOrInsertGlobal(name, byte));
        bool is_weak = function.isWeakForLinker();
        mark->setLinkage(is_weak ? GlobalValue::WeakAnyLinkage : GlobalValue::ExternalLinkage);
        mark->setVisibility(function.getVisibility());
        mark->setInitializer(ConstantInt::get(byte, 1));
        mark->setConstant(true);
    }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "rcop", "1", [](PassBuilder &builder) {
                builder.registerOptimizerEarlyEPCallback(
                    [](ModulePassManager &manager, OptimizationLevel) { manager.addPass(ForgetPass()); });
                builder.registerVectorizerStartEPCallback(
                    [](FunctionPassManager &manager, OptimizationLevel) { manager.addPass(NotePass()); });
                builder.registerOptimizerLastEPCallback(
                    [](ModulePassManager &manager, OptimizationLevel) { manager.addPass(MarkPass()); });
                builder.registerPipelineParsingCallback(
                    [](StringRef name, FunctionPassManager &manager, ArrayRef<PassBuilder::PipelineElement>) {
                        if (name != "rcop")
                            return false;
                        manager.addPass(NotePass());
                        return true;
                    });
            }};
}
