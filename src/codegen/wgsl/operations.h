// Scalar arithmetic as WGSL text. What the language lacks or defines otherwise is a function that is written out once,
// before the kernel, when something calls it. Integers of 64 bits are a vec2u, the lower word first, where the adapter has
// none: wide_integers.cpp.
#pragma once

#include <set>
#include <span>
#include <string>

#include "codegen/wgsl/emit.h"

namespace xyntra::wgsl {

struct WordRow;  // words.h

class Operations {
 public:
  explicit Operations(const WgslFeatures& features) : features_(features) {}

  Status supports(DType dtype) const;  // whether values of it can be computed with and stored
  // Of a value in a register: narrow floats are f32, but for f16 where the adapter has it.
  std::string type(DType dtype) const;
  std::string vector_type(DType dtype) const { return "vec4<" + type(dtype) + ">"; }
  std::string storage_type(DType dtype, bool written) const;  // of an element of a storage buffer's array
  // Whether several elements lie in one word of a storage buffer.
  bool is_packed(DType dtype) const { return bits_of(dtype) < 32 && !is_half(dtype); }
  // Whether values of it are the language's own f16.
  bool is_half(DType dtype) const { return dtype == DType::F16 && features_.float16; }

  std::string constant(const te::ExprNode& node);
  std::string whole(DType dtype, std::int64_t value) const;
  std::string arithmetic(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  // By a number of bits that is less than the width.
  std::string shifted(te::ExprOp op, DType dtype, const std::string& value, std::int64_t bits);
  std::string compare(te::ExprOp op, DType dtype, const std::string& a, const std::string& b);
  std::string cast(DType from, DType to, const std::string& value);
  std::string bitcast(DType from, DType to, const std::string& value);
  std::string is_nan(DType dtype, const std::string& value);
  std::string is_inf(DType dtype, const std::string& value);
  // Four values at once, of f32 or f16.
  bool has_vectors(DType dtype) const {
    return dtype == DType::F32 || (is_half(dtype) && features_.float16_rounds);
  }
  std::string vector_arithmetic(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  // Whether it is a sum or difference of f16 that the adapter rounds as te does. Compilers of shaders may take two such
  // operations for one, and leave the rounding between them out: only one that stands alone is done in f16.
  bool adds_halves(te::ExprOp op, DType dtype) const {
    return is_half(dtype) && features_.float16_adds && (op == te::ExprOp::Add || op == te::ExprOp::Sub);
  }
  std::string sum_of_halves(te::ExprOp op, std::span<const std::string> operands) {
    return floating(op, DType::F16, operands);
  }
  std::string vector_cast(DType to, const std::string& value) const {
    return vector_type(to) + "(" + value + ")";
  }
  std::string rounded_vector(const std::string& value);  // four f32 to f16
  std::string settled_vector(DType dtype, const std::string& value);
  // An f32 brought down to a positive number, or up to a negative one; NaN stays.
  std::string bounded(const std::string& number, const te::ExprNode& bound);
  // An f32 with 0 in place of a negative number; -0 and NaN stay.
  std::string without_negatives(const std::string& number);
  std::string plus_zero(DType dtype, const std::string& x);  // drivers would take it for x
  std::string kept(DType dtype, const std::string& value);  // as it was rounded, where can_keep
  bool can_keep(DType dtype) const;
  std::string kept_vector(const std::string& value);
  std::string settled(DType dtype, const std::string& value);  // its NaN is the one NaN
  // Of an i64 given as a word: whether it lies outside 0 … bound - 1, where the bound is an i32.
  std::string is_outside(const std::string& index, const std::string& bound) const;

  // Elements narrower than a word: from the bits of a word, and back.
  std::string decoded(DType dtype, const std::string& word, const std::string& shift);
  std::string encoded(DType dtype, const std::string& value);

  std::string functions() const;  // those that were asked for, with what they call

 private:
  std::string from_code(DType dtype, const std::string& code);
  std::string written(const WordRow* row, const std::string& type, std::span<const std::string> operands);
  std::string call(const std::string& function, std::span<const std::string> operands);
  std::string integer(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  std::string boolean(te::ExprOp op, std::span<const std::string> operands);
  std::string floating(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  std::string rounded(DType dtype, const std::string& value);
  std::string half(const std::string& single);  // an f32 rounded to f16
  std::string half_arithmetic(te::ExprOp op, std::span<const std::string> operands);
  std::string wrapped(DType dtype, const std::string& value) const;

  // ---- 64-bit integers of two words
  bool is_wide(DType dtype) const { return !features_.int64 && (dtype == DType::I64 || dtype == DType::U64); }
  std::string wide(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  std::string compare_wide(te::ExprOp op, DType dtype, const std::string& a, const std::string& b);
  std::string cast_wide(DType from, DType to, const std::string& value);

  WgslFeatures features_;
  std::set<std::string> called_;
};

}  // namespace xyntra::wgsl
