// The fast path of a note, for an address p and n bytes:
//
//     if (p >> 40 == open.tag) {
//         if (p == open.end) { open.end += n; open.extended++; }
//         else tutti_dsm_note(p, n);
//     }
//
// Where loads are checked, of a load and behind the note of a store:
//
//     if (p >> 40 == open.tag && open.states[p >> 12] & absent)    tutti_dsm_load(p, n);
//     if (p >> 40 == open.tag && !(open.states[p >> 12] & opened)) tutti_dsm_store(p, n);
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

constexpr unsigned page_shift = 12;

enum Field { Tag, End, Begin, Extended, States, Fields };
// Bits of a page's state (crates/dsm/src/states.rs).
enum State { Absent = 1, Opened = 2 };

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
    open_range = module.getGlobalVariable(name);
    if (!open_range)
        open_range = new GlobalVariable(module, ArrayType::get(wide, Fields), false, GlobalValue::ExternalLinkage, nullptr, name,
                                  nullptr, GlobalValue::InitialExecTLSModel);
}

Value *Placer::field(IRBuilderBase &builder, unsigned number) {
    Value *base = builder.CreateThreadLocalAddress(open_range);
    return builder.CreateConstInBoundsGEP2_64(open_range->getValueType(), base, 0, number);
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

Value *Placer::state(IRBuilderBase &builder, Value *address) {
    Value *states = builder.CreateLoad(wide, field(builder, States));
    Value *place = builder.CreateAdd(states, builder.CreateLShr(address, page_shift));
    return builder.CreateLoad(builder.getInt8Ty(), builder.CreateIntToPtr(place, pointer_type));
}

void Placer::check(Instruction *before, Value *pointer, uint64_t bytes, bool is_one_page) {
    IRBuilder<> builder(before);
    Value *address = builder.CreatePtrToInt(pointer, wide);
    builder.SetInsertPoint(split(is_shared(builder, address), before));
    Value *found = state(builder, address);
    if (!is_one_page)
        found = builder.CreateOr(found, state(builder, builder.CreateAdd(address, builder.getInt64(bytes - 1))));
    Value *is_absent = builder.CreateICmpNE(builder.CreateAnd(found, Absent), builder.getInt8(0));
    builder.SetInsertPoint(split(is_absent, &*builder.GetInsertPoint()));
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_load", {pointer_type, wide}),
                       {pointer, builder.getInt64(bytes)});
}

void Placer::call_run(StringRef name, Instruction *before, Value *pointer, Value *bytes, Value *stride, Value *rows) {
    IRBuilder<> builder(before);
    builder.SetInsertPoint(split(is_shared(builder, builder.CreatePtrToInt(pointer, wide)), before));
    Value *count = builder.CreateZExtOrTrunc(bytes, wide);
    if (!rows) {
        builder.CreateCall(function_of_runtime(module, name, {pointer_type, wide}), {pointer, count});
        return;
    }
    builder.CreateCall(function_of_runtime(module, (name + "_rows").str(), {pointer_type, wide, wide, wide}),
                       {pointer, count, stride, rows});
}

void Placer::check_run(Instruction *before, Value *pointer, Value *bytes, Value *stride, Value *rows) {
    call_run("tutti_dsm_load", before, pointer, bytes, stride, rows);
}

void Placer::open_run(Instruction *before, Value *pointer, Value *bytes, Value *stride, Value *rows) {
    call_run("tutti_dsm_store", before, pointer, bytes, stride, rows);
}

void Placer::open(Instruction *before, Value *pointer, Value *bytes) {
    IRBuilder<> builder(before);
    Value *address = builder.CreatePtrToInt(pointer, wide);
    builder.SetInsertPoint(split(is_shared(builder, address), before));
    Value *is_closed = builder.CreateICmpEQ(builder.CreateAnd(state(builder, address), Opened), builder.getInt8(0));
    builder.SetInsertPoint(split(is_closed, &*builder.GetInsertPoint()));
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_store", {pointer_type, wide}),
                       {pointer, builder.CreateZExtOrTrunc(bytes, wide)});
}

Value *Placer::lacks(IRBuilderBase &builder, StringRef what, const Function &callee) {
    // Sources compiled with the plugin define it for each of their functions.
    std::string name = ("tutti_rcop_" + what + "." + callee.getName()).str();
    auto *mark = cast<GlobalVariable>(module.getOrInsertGlobal(name, builder.getInt8Ty()));
    if (!mark->isDeclaration())
        return builder.getFalse();
    mark->setLinkage(GlobalValue::ExternalWeakLinkage);
    return builder.CreateIsNull(mark);
}

Value *Placer::has_shared_argument(IRBuilderBase &builder, CallBase &call, bool is_written) {
    Value *condition = builder.getFalse();
    for (unsigned place = 0; place < call.arg_size(); place++) {
        Value *argument = call.getArgOperand(place);
        if (argument->getType()->isPointerTy() && !(is_written && call.onlyReadsMemory(place)) && !is_private(argument))
            condition = builder.CreateOr(condition, is_shared(builder, builder.CreatePtrToInt(argument, wide)));
    }
    return condition;
}

void Placer::cover(Instruction *before, const Reader &reader) {
    IRBuilder<> builder(before);
    Value *condition = builder.getTrue();
    if (reader.kind == Reading::Called)
        condition = lacks(builder, "checked", *reader.callee);
    else if (reader.kind == Reading::CoveredArguments)
        condition = has_shared_argument(builder, *cast<CallBase>(before), false);
    builder.SetInsertPoint(split(condition, before));
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_cover", {}));
}

void Placer::compare(Instruction *before, const Writer &writer) {
    IRBuilder<> builder(before);
    Value *condition = builder.getTrue();
    if (writer.kind == Kind::Called)
        condition = lacks(builder, "noted", *writer.callee);
    else if (writer.kind == Kind::ComparedArguments)
        condition = has_shared_argument(builder, *cast<CallBase>(before), true);
    builder.SetInsertPoint(split(condition, before));
    builder.CreateCall(function_of_runtime(module, "tutti_dsm_rearm", {}));
}

} // namespace rcop
