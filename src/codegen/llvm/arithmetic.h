// te's arithmetic in LLVM's instructions. Values are scalars or vectors of them; an operation works alike on both.
//
// In registers f64 is a double and every other float a float that its dtype can represent; integers have as many bits as
// their dtype, bool has one. In memory elements are as dtypes.def says; `to_storage` and `from_storage` go between.
// Included by the files that talk to LLVM and by nobody else: its headers take seconds to read.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include "kir/legalize/legalize.h"

namespace xyntra::cpu_code {

// What the machine does in one instruction, and must otherwise be written out: nothing may become a library call.
struct MachineTraits {
  bool rounds = false;  // floor, ceil, trunc, nearest even
  bool saturates = false;  // floats beyond an integer's range
  bool fuses = false;  // fma
  bool converts_f16 = false;
  bool tiles = false;  // AMX with bf16
  bool dot2_bf16 = false;  // AVX512_BF16
  bool mmla_bf16 = false;  // BFMMLA
  bool i8_tiles = false;  // AMX with int8
  bool dot4_i8 = false;  // AVX512_VNNI
  bool mmla_i8 = false;  // SMMLA
  bool streams = false;  // non-temporal stores
  bool wide_functions = false;  // AVX-512's scaling by powers of two, and its largest of two numbers
  const llvm::TargetMachine* machine = nullptr;

  kir::TargetOps ops() const {
    return {.scaling = wide_functions ? te::Scaling::ByMachine : te::Scaling::ByArithmetic,
            .fuses = fuses,
            .converts_f16 = converts_f16,
            .rounds = rounds,
            .saturates = saturates};
  }
};

class Arithmetic {
 public:
  Arithmetic(llvm::IRBuilder<>& builder, const MachineTraits& traits) : b_(builder), traits_(traits) {}

  llvm::Type* register_type(DType dtype) const;
  llvm::Type* storage_type(DType dtype) const;  // dtypes of whole bytes
  llvm::Value* constant(const te::ExprNode& node) const;

  // Operands and result have this dtype.
  llvm::Value* arithmetic(te::ExprOp op, DType dtype, llvm::ArrayRef<llvm::Value*> operands);
  llvm::Value* compare(te::ExprOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* is_nan(llvm::Value* x);
  llvm::Value* is_inf(llvm::Value* x);
  llvm::Value* cast(DType from, DType to, llvm::Value* x);
  llvm::Value* bitcast(DType from, DType to, llvm::Value* x);
  llvm::Value* settled(llvm::Value* x);  // every NaN made the one that arithmetic makes

  llvm::Value* to_storage(DType dtype, llvm::Value* x);  // iN, or a float of the same width
  llvm::Value* from_storage(DType dtype, llvm::Value* x);

  // The type of x with other scalars in it.
  static llvm::Type* like(llvm::Value* x, llvm::Type* scalar);
  llvm::Value* number(llvm::Value* like_this, std::int64_t value);
  llvm::Value* real(llvm::Value* like_this, double value);

 private:
  llvm::Value* float_arithmetic(te::ExprOp op, llvm::ArrayRef<llvm::Value*> o);
  llvm::Value* integer_arithmetic(te::ExprOp op, DType dtype, llvm::ArrayRef<llvm::Value*> o);
  llvm::Value* smallest_or_largest(bool largest, llvm::Value* a, llvm::Value* b);
  llvm::Value* in_wide_parts(llvm::ArrayRef<llvm::Value*> operands,
                             llvm::function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)> instruction);
  llvm::Value* settled_by_kind(llvm::Value* x);
  llvm::Value* second_if_equal(bool largest, llvm::Value* a, llvm::Value* b);
  llvm::Value* smallest_or_largest_of_wide(bool largest, llvm::Value* a, llvm::Value* b);
  llvm::Value* by_wide_vectors(llvm::ArrayRef<llvm::Value*> operands,
                               llvm::function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)> instruction);
  llvm::Value* scaled(llvm::Value* x, llvm::Value* exponent);
  llvm::Value* beyond_whole(llvm::Value* x);
  llvm::Value* rounded(te::ExprOp op, llvm::Value* x);
  llvm::Value* fused(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Function* soft_fma(llvm::Type* type);  // of floats, for machines without
  llvm::Value* each_lane(llvm::Function* function, llvm::ArrayRef<llvm::Value*> operands);
  llvm::Function* helper(const std::string& name);

  // convert.cpp
  llvm::Value* rounded_to(DType dtype, llvm::Value* x);
  llvm::Value* upper_half(llvm::Value* pattern);  // i32 to i16
  llvm::Value* bits(llvm::Value* x);  // as the integer of the same width
  llvm::Value* as_float(llvm::Value* x);  // i32 to float, same bits

  llvm::IRBuilder<>& b_;
  MachineTraits traits_;
  llvm::DenseMap<llvm::Value*, llvm::Value*>
      rounded_;  // to bf16, and as it is stored: needs no second rounding
  // The largest or smallest of x and constants: NaN where x is, and otherwise `number`, which takes less to compute.
  struct Limited {
    llvm::Value *x = nullptr, *number = nullptr;
  };
  llvm::DenseMap<llvm::Value*, Limited> limited_;
  llvm::DenseSet<llvm::Value*> one_nan_;  // settled: has no NaN but the one
};

}  // namespace xyntra::cpu_code
