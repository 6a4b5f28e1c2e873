// The fast path of a note, for an address p and n bytes:
//
//     if (p >> 40 == open.tag) {
//         if (p == open.end) { open.end += n; open.extended++; }
//         else tutti_dsm_note(p, n);
//     }
//
// The fields are those of struct tutti_dsm_open (bindings/dsm/parmacs_start.c, crates/dsm/src/note.rs). The calls are
// opaque to later passes: no store crosses one.
#include "place.h"

#include "indexed.h"

#include "llvm/Analysis/DomTreeUpdater.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace rcop {

namespace {

constexpr unsigned tag_shift = 40;

enum Field { Tag, End, Begin, Extended };

FunctionCallee function_of_runtime(Module &module, StringRef name, ArrayRef<Type *> arguments, Type *result = nullptr) {
    auto *type = FunctionType::get(result ? result : Type::getVoidTy(module.getContext()), arguments, false);
    FunctionCallee callee = module.getOrInsertFunction(name, type);
    if (auto *function = dyn_cast<Function>(callee.getCallee())) {
        function->addFnAttr(Attribute::NoUnwind);
        function->addFnAttr(Attribute::Cold);
    }
    return callee;
}

} // namespace

Placer::Placer(Function &function, DomTreeUpdater &tree, LoopInfo &loops)
    : module(*function.getParent()), tree(tree), loops(loops), wide(Type::getInt64Ty(function.getContext())),
      pointer_type(PointerType::getUnqual(function.getContext())) {
    constexpr const char *name = "tutti_dsm_open";
    open = module.getGlobalVariable(name);
    if (!open)
        open = new GlobalVariable(module, ArrayType::get(wide, 4), false, GlobalValue::ExternalLinkage, nullptr, name,
                                  nullptr, GlobalValue::InitialExecTLSModel);
}

Value *Placer::field(IRBuilderBase &builder, unsigned number) {
    Value *base = builder.CreateThreadLocalAddress(open);
    return builder.CreateConstInBoundsGEP2_64(open->getValueType(), base, 0, number);
}

Value *Placer::is_shared(IRBuilderBase &builder, Value *address) {
    Value *tag = builder.CreateLoad(wide, field(builder, Tag));
    return builder.CreateICmpEQ(builder.CreateLShr(address, tag_shift), tag);
}

Instruction *Placer::split(Value *condition, Instruction *before) {
    return SplitBlockAndInsertIfThen(condition, before->getIterator(), false, nullptr, &tree, &loops);
}

void Placer::place(Instruction *before, Value *pointer, Value *bytes, Value *unless) {
    IRBuilder<> builder(before);
    Value *address = builder.CreatePtrToInt(pointer, wide);
    Value *count = builder.CreateZExtOrTrunc(bytes, wide);
    Value *counts = is_shared(builder, address);
    if (unless)
        counts = builder.CreateAnd(counts, builder.CreateNot(unless));
    Instruction *inside = split(counts, before);
    builder.SetInsertPoint(inside);
    Value *place = field(builder, End);
    Value *extends = builder.CreateICmpEQ(address, builder.CreateLoad(wide, place));
    Instruction *then = nullptr, *otherwise = nullptr;
    SplitBlockAndInsertIfThenElse(extends, inside->getIterator(), &then, &otherwise, nullptr, &tree, &loops);
    builder.SetInsertPoint(then);
    builder.CreateStore(builder.CreateAdd(address, count), place);
    Value *extended = field(builder, Extended);
    builder.CreateStore(builder.CreateAdd(builder.CreateLoad(wide, extended), builder.getInt64(1)), extended);
    builder.SetInsertPoint(otherwise);
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_note", {pointer_type, wide}), {pointer, count});
}

void Placer::place_rows(Instruction *before, Value *pointer, Value *bytes, Value *stride, Value *rows) {
    IRBuilder<> builder(before);
    Instruction *inside = split(is_shared(builder, builder.CreatePtrToInt(pointer, wide)), before);
    builder.SetInsertPoint(inside);
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_note_rows", {pointer_type, wide, wide, wide}),
                       {pointer, bytes, stride, rows});
}

void Placer::begin_ahead(IRBuilderBase &builder, const Ahead &ahead) {
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_ahead_begin", {}));
    for (const Site &site : ahead.sites) {
        Value *base = builder.getInt64(0);
        if (site.index)
            base = builder.CreateAdd(builder.CreatePtrToInt(site.base, wide), builder.getInt64(site.offset * site.bytes));
        builder.CreateCall(function_of_runtime(module, "tutti_dsm_ahead_site", {wide, wide, wide}),
                           {builder.getInt64(site.slot_bytes), base, builder.getInt64(site.bytes)});
    }
    for (const Looked &looked : ahead.looked)
        builder.CreateCall(function_of_runtime(module, "tutti_dsm_ahead_load", {pointer_type, pointer_type, wide}),
                           {looked.first_value, looked.last_value, builder.getInt64(looked.bytes)});
}

void Placer::tell_ahead(IRBuilderBase &builder, unsigned number, Value *slot, Value *index, bool is_unsigned) {
    Value *found = builder.getInt64(0);
    if (index)
        found = is_unsigned ? builder.CreateZExtOrTrunc(index, wide) : builder.CreateSExtOrTrunc(index, wide);
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_ahead_store", {wide, pointer_type, wide}),
                       {builder.getInt64(number), slot, found});
}

Value *Placer::end_ahead(IRBuilderBase &builder) {
    Value *all = builder.CreateCall(function_of_runtime(module, "tutti_dsm_ahead_end", {}, builder.getInt32Ty()));
    return builder.CreateICmpNE(all, builder.getInt32(0));
}

void Placer::compare(Instruction *before, const Writer &writer) {
    IRBuilder<> builder(before);
    Value *condition = nullptr;
    if (writer.kind == Kind::Called) {
        // Sources compiled with the plugin define it for each of their functions.
        std::string name = ("tutti_rcop_noted." + writer.callee->getName()).str();
        auto *mark = cast<GlobalVariable>(module.getOrInsertGlobal(name, builder.getInt8Ty()));
        if (!mark->isDeclaration())
            return;
        mark->setLinkage(GlobalValue::ExternalWeakLinkage);
        condition = builder.CreateIsNull(mark);
    } else if (writer.kind == Kind::ComparedArguments) {
        condition = builder.getFalse();
        auto &call = *cast<CallBase>(before);
        for (unsigned place = 0; place < call.arg_size(); place++) {
            Value *argument = call.getArgOperand(place);
            if (argument->getType()->isPointerTy() && !call.onlyReadsMemory(place) && !is_private(argument))
                condition = builder.CreateOr(condition, is_shared(builder, builder.CreatePtrToInt(argument, wide)));
        }
    }
    if (condition)
        builder.SetInsertPoint(split(condition, before));
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_rearm", {}));
}

} // namespace rcop
