// Scalar arithmetic as WGSL text. What the language lacks or defines otherwise is a function that is written out once,
// before the kernel, when something calls it. Integers of 64 bits are a vec2u, the lower word first, where the adapter has
// none: wide_integers.cpp.
#pragma once

#include <set>
#include <span>
#include <string>

#include "codegen/wgsl/emit.h"

namespace xyntra::wgsl {

class Operations {
 public:
  explicit Operations(const WgslFeatures& features) : features_(features) {}

  Status supports(DType dtype) const;  // whether values of it can be computed with and stored
  std::string type(DType dtype) const;  // of a value in a register: narrow floats are f32
  std::string storage_type(DType dtype, bool written) const;  // of an element of a storage buffer's array
  // Whether several elements lie in one word of a storage buffer.
  bool is_packed(DType dtype) const {
    return bits_of(dtype) < 32 && !(dtype == DType::F16 && features_.float16);
  }

  std::string constant(const te::ExprNode& node);
  std::string whole(DType dtype, std::int64_t value) const;
  std::string arithmetic(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  // By a number of bits that is less than the width.
  std::string shifted(te::ExprOp op, DType dtype, const std::string& value, std::int64_t bits);
  std::string compare(te::ExprOp op, DType dtype, const std::string& a, const std::string& b);
  std::string cast(DType from, DType to, te::CastMode mode, const std::string& value);
  std::string bitcast(DType from, DType to, const std::string& value);
  std::string is_nan(DType dtype, const std::string& value);
  std::string is_inf(DType dtype, const std::string& value);
  std::string vector_arithmetic(te::ExprOp op, std::span<const std::string> operands);  // of four f32
  std::string settled_vector(const std::string& value) {
    return call("settled_vector", std::span(&value, 1));
  }
  std::string settled(DType dtype, const std::string& value);  // its NaN is the one NaN
  // Of an i64 given as a word: whether it lies outside 0 … bound - 1, where the bound is an i32.
  std::string is_outside(const std::string& index, const std::string& bound) const;

  // Elements narrower than a word: from the bits of a word, and back.
  std::string decoded(DType dtype, const std::string& word, const std::string& shift);
  // Values of the dtype are stored as they are: an infinity stays one.
  std::string encoded(DType dtype, const std::string& value) {
    return encoded(dtype, {.saturate = false}, value);
  }

  std::string functions() const;  // those that were asked for, with what they call

 private:
  std::string encoded(DType dtype, te::CastMode mode, const std::string& value);
  std::string from_code(DType dtype, const std::string& code);
  std::string call(const std::string& function, std::span<const std::string> operands);
  std::string integer(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  std::string boolean(te::ExprOp op, std::span<const std::string> operands);
  std::string floating(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  std::string rounded(DType dtype, te::CastMode mode, const std::string& value);
  std::string wrapped(DType dtype, const std::string& value) const;

  // ---- 64-bit integers of two words
  bool is_wide(DType dtype) const { return !features_.int64 && (dtype == DType::I64 || dtype == DType::U64); }
  std::string wide(te::ExprOp op, DType dtype, std::span<const std::string> operands);
  std::string compare_wide(te::ExprOp op, DType dtype, const std::string& a, const std::string& b);
  std::string cast_wide(DType from, DType to, te::CastMode mode, const std::string& value);

  WgslFeatures features_;
  std::set<std::string> called_;
};

}  // namespace xyntra::wgsl
