#include "writers.h"

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace rcop {

bool is_ours(StringRef name) { return name.starts_with("tutti_dsm_"); }

namespace {

Writer of_kind(Kind kind) { return {kind, nullptr, nullptr, nullptr}; }

Writer noted(Value *pointer, Value *bytes, bool proves) {
    if (proves && is_private(pointer))
        return of_kind(Kind::Private);
    auto *wide = Type::getInt64Ty(pointer->getContext());
    if (auto *constant = dyn_cast<ConstantInt>(bytes))
        bytes = ConstantInt::get(wide, constant->getZExtValue());
    return {Kind::Noted, pointer, bytes, nullptr};
}

// A store of a type's size; of a size that is known at run time alone, pages are compared.
Writer noted_type(Value *pointer, Type *type, const DataLayout &layout, bool proves) {
    TypeSize size = layout.getTypeStoreSize(type);
    if (size.isScalable())
        return of_kind(proves && is_private(pointer) ? Kind::Private : Kind::Compared);
    return noted(pointer, ConstantInt::get(Type::getInt64Ty(type->getContext()), size.getFixedValue()), proves);
}

} // namespace

bool is_marker(const IntrinsicInst &call) {
    switch (call.getIntrinsicID()) {
    case Intrinsic::lifetime_start:
    case Intrinsic::lifetime_end:
    case Intrinsic::invariant_start:
    case Intrinsic::invariant_end:
    case Intrinsic::assume:
    case Intrinsic::sideeffect:
    case Intrinsic::pseudoprobe:
    case Intrinsic::donothing:
    case Intrinsic::experimental_noalias_scope_decl:
    case Intrinsic::dbg_declare:
    case Intrinsic::dbg_value:
    case Intrinsic::dbg_label:
    case Intrinsic::dbg_assign:
    case Intrinsic::prefetch:
    case Intrinsic::stacksave:
    case Intrinsic::stackrestore:
    case Intrinsic::vaend:
    case Intrinsic::trap:
    case Intrinsic::debugtrap:
    case Intrinsic::ubsantrap:
    case Intrinsic::is_constant:
    case Intrinsic::allow_runtime_check:
    case Intrinsic::allow_ubsan_check:
        return true;
    default:
        return false;
    }
}

namespace {

bool has_shared_argument(const CallBase &call, bool proves) {
    for (unsigned place = 0; place < call.arg_size(); place++) {
        Type *type = call.getArgOperand(place)->getType();
        if (!type->isPtrOrPtrVectorTy() || call.onlyReadsMemory(place))
            continue;
        if (type->isVectorTy() || !proves || !is_private(call.getArgOperand(place)))
            return true;
    }
    return false;
}

Writer classify_intrinsic(IntrinsicInst &call, bool proves) {
    if (is_marker(call))
        return of_kind(Kind::Nothing);
    // memset, memcpy, memmove, in line or not, and by elements.
    if (auto *memory = dyn_cast<AnyMemIntrinsic>(&call))
        return noted(memory->getRawDest(), memory->getLength(), proves);
    if (call.onlyAccessesInaccessibleMemory())
        return of_kind(Kind::Nothing);
    // Masked stores, what a processor has: some bytes behind a pointer, and not known which. Scatters, and what has its
    // address elsewhere or says nothing of its memory: anything.
    bool is_bounded = call.onlyAccessesArgMemory() || call.onlyAccessesInaccessibleMemOrArgMem() ||
                      call.getIntrinsicID() == Intrinsic::vastart || call.getIntrinsicID() == Intrinsic::vacopy;
    bool has_pointer = false, has_pointers = false;
    for (const Value *argument : call.args()) {
        has_pointer |= argument->getType()->isPointerTy();
        has_pointers |= argument->getType()->isVectorTy() && argument->getType()->isPtrOrPtrVectorTy();
    }
    if (!is_bounded || !has_pointer || has_pointers)
        return of_kind(Kind::Compared);
    return of_kind(has_shared_argument(call, proves) ? Kind::ComparedArguments : Kind::Private);
}

Writer classify_call(CallBase &call, const TargetLibraryInfo &library, bool proves) {
    if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call))
        return classify_intrinsic(*intrinsic, proves);
    if (call.isInlineAsm())
        return of_kind(Kind::Compared);
    Function *callee = call.getCalledFunction();
    if (!callee)
        return of_kind(Kind::Compared);
    if (is_ours(callee->getName()))
        return of_kind(Kind::Nothing);
    // Its own body has notes.
    if (!callee->isDeclaration() && !callee->isInterposable())
        return of_kind(Kind::Nothing);
    LibFunc known;
    if (library.getLibFunc(call, known) && library.has(known))
        return of_kind(has_shared_argument(call, proves) ? Kind::ComparedArguments : Kind::Private);
    return {Kind::Called, nullptr, nullptr, callee};
}

} // namespace

bool is_private(const Value *pointer) {
    SmallVector<const Value *, 4> objects;
    getUnderlyingObjects(pointer, objects);
    for (const Value *object : objects) {
        if (isa<AllocaInst>(object) || isa<GlobalValue>(object) || isa<UndefValue>(object))
            continue;
        if (auto *argument = dyn_cast<Argument>(object); argument && argument->hasByValAttr())
            continue;
        if (auto *call = dyn_cast<CallBase>(object); call && isNoAliasCall(call)) {
            const Function *callee = call->getCalledFunction();
            if (callee && !is_ours(callee->getName()) && callee->isDeclaration())
                continue;
        }
        return false;
    }
    return !objects.empty();
}

Writer classify(Instruction &instruction, const TargetLibraryInfo &library, bool proves) {
    const DataLayout &layout = instruction.getModule()->getDataLayout();
    if (auto *store = dyn_cast<StoreInst>(&instruction))
        return noted_type(store->getPointerOperand(), store->getValueOperand()->getType(), layout, proves);
    if (auto *atomic = dyn_cast<AtomicRMWInst>(&instruction))
        return noted_type(atomic->getPointerOperand(), atomic->getValOperand()->getType(), layout, proves);
    // It stores or not: a note would be too much.
    if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
        return of_kind(proves && is_private(exchange->getPointerOperand()) ? Kind::Private : Kind::Compared);
    // Their orders count, not their memory: a volatile or atomic load, a fence.
    if (isa<LoadInst>(instruction) || isa<FenceInst>(instruction))
        return of_kind(Kind::Nothing);
    if (isa<VAArgInst>(instruction))
        return of_kind(Kind::Nothing);
    if (auto *call = dyn_cast<CallBase>(&instruction))
        return classify_call(*call, library, proves);
    return of_kind(Kind::Compared);
}

bool is_border(const Instruction &instruction, const TargetLibraryInfo &library) {
    if (!isGuaranteedToTransferExecutionToSuccessor(&instruction))
        return true;
    auto *call = dyn_cast<CallBase>(&instruction);
    if (!call || isa<IntrinsicInst>(call))
        return false;
    if (call->isInlineAsm())
        return call->mayWriteToMemory();
    if (call->hasFnAttr(Attribute::ReturnsTwice))
        return true;
    if (call->onlyReadsMemory() || call->onlyAccessesArgMemory())
        return false;
    // Functions of the C library without pointers call nothing of the program's.
    for (const Value *argument : call->args())
        if (argument->getType()->isPtrOrPtrVectorTy())
            return true;
    LibFunc known;
    const Function *callee = call->getCalledFunction();
    return !callee || !callee->isDeclaration() || !library.getLibFunc(*call, known);
}

} // namespace rcop
