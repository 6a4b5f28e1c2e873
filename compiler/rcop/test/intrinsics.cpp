// Walks all intrinsics of LLVM, and prints what the plugin does about each that may write memory: a line `KIND NAME` for
// each. A call of each is made with arguments about which nothing is known. tests/dsm/rcop.rs reads it.
#include "../writers.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"

#include <cstdio>

using namespace llvm;
using rcop::Kind;

namespace {

const char *name_of(Kind kind) {
    switch (kind) {
    case Kind::Nothing: return "nothing";
    case Kind::Private: return "private";
    case Kind::Noted: return "noted";
    case Kind::ComparedArguments: return "arguments";
    case Kind::Compared: return "compared";
    case Kind::Called: return "called";
    }
    return "?";
}

// Types for the places that an intrinsic leaves open.
SmallVector<Type *, 4> open_types(Intrinsic::ID id, LLVMContext &context) {
    using Descriptor = Intrinsic::IITDescriptor;
    SmallVector<Descriptor, 8> table;
    Intrinsic::getIntrinsicInfoTableEntries(id, table);
    auto *vector = FixedVectorType::get(Type::getInt32Ty(context), 4);
    SmallVector<Type *, 4> types;
    for (const Descriptor &one : table) {
        Type *type = nullptr;
        if (one.Kind == Descriptor::Argument) {
            switch (one.getArgumentKind()) {
            case Descriptor::AK_Any: type = vector; break;
            case Descriptor::AK_AnyInteger: type = Type::getInt64Ty(context); break;
            case Descriptor::AK_AnyFloat: type = Type::getDoubleTy(context); break;
            case Descriptor::AK_AnyVector: type = vector; break;
            case Descriptor::AK_AnyPointer: type = PointerType::getUnqual(context); break;
            case Descriptor::AK_MatchType: break;
            }
            if (type && one.getArgumentNumber() != types.size())
                type = nullptr;
        } else if (one.Kind == Descriptor::VecOfAnyPtrsToElt) {
            type = FixedVectorType::get(PointerType::getUnqual(context), 4);
        }
        if (type)
            types.push_back(type);
    }
    return types;
}

} // namespace

int main() {
    LLVMContext context;
    Module module("intrinsics", context);
    TargetLibraryInfoImpl known(Triple("x86_64-pc-linux-gnu"));
    TargetLibraryInfo library(known);
    unsigned seen = 0;
    for (Intrinsic::ID id = 1; id < Intrinsic::num_intrinsics; id++) {
        seen++;
        if (Intrinsic::getAttributes(context, id).getMemoryEffects().onlyReadsMemory())
            continue;
        auto types = Intrinsic::isOverloaded(id) ? open_types(id, context) : SmallVector<Type *, 4>();
        Function *intrinsic = Intrinsic::getDeclaration(&module, id, types);
        SmallVector<Type *, 8> parameters;
        for (Type *type : intrinsic->getFunctionType()->params())
            parameters.push_back(type->isMetadataTy() || type->isTokenTy() ? Type::getInt8Ty(context) : type);
        auto *type = FunctionType::get(Type::getVoidTy(context), parameters, false);
        auto *caller = Function::Create(type, GlobalValue::ExternalLinkage, "caller", module);
        IRBuilder<> builder(BasicBlock::Create(context, "entry", caller));
        SmallVector<Value *, 8> arguments;
        for (auto [place, wanted] : enumerate(intrinsic->getFunctionType()->params())) {
            if (wanted->isMetadataTy())
                arguments.push_back(MetadataAsValue::get(context, MDNode::get(context, {})));
            else if (wanted->isTokenTy())
                arguments.push_back(ConstantTokenNone::get(context));
            else
                arguments.push_back(caller->getArg(place));
        }
        CallInst *call = builder.CreateCall(intrinsic, arguments);
        builder.CreateRetVoid();
        if (call->mayWriteToMemory())
            std::printf("%s %s%s\n", name_of(rcop::classify(*call, library, true).kind),
                        Intrinsic::getBaseName(id).str().c_str(),
                        call->onlyAccessesInaccessibleMemory() ? " (no memory of the program)" : "");
    }
    std::printf("seen %u\n", seen);
    return 0;
}
