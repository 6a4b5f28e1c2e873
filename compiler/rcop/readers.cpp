#include "readers.h"

#include "writers.h"

#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace rcop {

namespace {

Reader of_kind(Reading kind) { return {kind, nullptr, nullptr, nullptr}; }

Reader checked(Value *pointer, Value *bytes, bool proves) {
    if (proves && is_private(pointer))
        return of_kind(Reading::Nothing);
    auto *wide = Type::getInt64Ty(pointer->getContext());
    if (auto *constant = dyn_cast<ConstantInt>(bytes))
        bytes = ConstantInt::get(wide, constant->getZExtValue());
    return {Reading::Checked, pointer, bytes, nullptr};
}

// A load of a type's size; where that is known at run time alone, pages that are not here fault.
Reader checked_type(Value *pointer, Type *type, const DataLayout &layout, bool proves) {
    TypeSize size = layout.getTypeStoreSize(type);
    if (size.isScalable())
        return of_kind(proves && is_private(pointer) ? Reading::Nothing : Reading::Covered);
    return checked(pointer, ConstantInt::get(Type::getInt64Ty(type->getContext()), size.getFixedValue()), proves);
}

bool has_shared_argument(const CallBase &call, bool proves) {
    for (const Value *argument : call.args()) {
        Type *type = argument->getType();
        if (type->isPtrOrPtrVectorTy() && (type->isVectorTy() || !proves || !is_private(argument)))
            return true;
    }
    return false;
}

Reader classify_call(CallBase &call, const TargetLibraryInfo &library, bool proves) {
    if (auto *transfer = dyn_cast<AnyMemTransferInst>(&call))
        return checked(transfer->getRawSource(), transfer->getLength(), proves);
    if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call)) {
        if (isa<AnyMemIntrinsic>(call) || is_marker(*intrinsic) || call.onlyAccessesInaccessibleMemory())
            return of_kind(Reading::Nothing);
        return of_kind(has_shared_argument(call, proves) ? Reading::Covered : Reading::Nothing);
    }
    Function *callee = call.getCalledFunction();
    if (call.isInlineAsm() || !callee)
        return of_kind(Reading::Covered);
    // Its own body has checks, and the run time's functions read nothing for the program.
    if (is_ours(callee->getName()) || (!callee->isDeclaration() && !callee->isInterposable()))
        return of_kind(Reading::Nothing);
    LibFunc known;
    if (library.getLibFunc(call, known) && library.has(known))
        return of_kind(has_shared_argument(call, proves) ? Reading::CoveredArguments : Reading::Nothing);
    return {Reading::Called, nullptr, nullptr, callee};
}

} // namespace

Reader classify_reader(Instruction &instruction, const TargetLibraryInfo &library, bool proves) {
    const DataLayout &layout = instruction.getModule()->getDataLayout();
    if (auto *load = dyn_cast<LoadInst>(&instruction))
        return checked_type(load->getPointerOperand(), load->getType(), layout, proves);
    if (auto *atomic = dyn_cast<AtomicRMWInst>(&instruction))
        return checked_type(atomic->getPointerOperand(), atomic->getType(), layout, proves);
    if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
        return checked_type(exchange->getPointerOperand(), exchange->getCompareOperand()->getType(), layout, proves);
    // Their orders count, not their memory. What variable arguments are read from is the stack's.
    if (isa<StoreInst>(instruction) || isa<FenceInst>(instruction) || isa<VAArgInst>(instruction))
        return of_kind(Reading::Nothing);
    if (auto *call = dyn_cast<CallBase>(&instruction))
        return classify_call(*call, library, proves);
    return of_kind(Reading::Covered);
}

} // namespace rcop
