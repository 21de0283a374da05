// te's arithmetic in PTX's instructions.
//
// In registers f64 is a double and every other float a float that its dtype can represent; integers of less than 32 bits are words that
// hold their value, sign included; bool is a predicate. In memory elements are as dtypes.def says; `to_storage` and `from_storage` go between, with
// the element's bits in a word or a long.
#pragma once

#include <set>
#include <span>

#include "codegen/ptx/instructions.h"
#include "te/expr.h"

namespace xyntra::ptx {

// Whether the bits of a NaN matter: they are stored, or looked at. The machine's conversions make one NaN of all.
enum class Nans : std::uint8_t {
  Any,  // whatever the machine makes of them
  One,  // the one that arithmetic makes
  Kept,
};

inline Size size_of(DType dtype) {
  if (dtype == DType::Bool) return Size::Predicate;
  return bits_of(dtype) == 64 ? Size::Long : Size::Word;
}
std::string_view suffix_of(DType dtype);  // of instructions that move it: "f32", "b64", "pred"

class Arithmetic {
 public:
  explicit Arithmetic(Instructions& code) : code_(code) {}

  static std::string constant(const te::ExprNode& node);
  static std::string zero(DType dtype);

  // Operands and result have this dtype.
  std::string arithmetic(te::ExprOp op, DType dtype, std::span<const std::string> operands, Nans nans);
  std::string compare(te::ExprOp op, DType dtype, const std::string& a, const std::string& b);
  std::string is_nan(DType dtype, const std::string& x);
  std::string is_inf(DType dtype, const std::string& x);
  std::string cast(DType from, DType to, const std::string& x, Nans nans);
  std::string bitcast(DType from, DType to, const std::string& x);
  std::string settled(DType dtype, const std::string& x);  // every NaN made the one that arithmetic makes
  std::string select(DType dtype, const std::string& condition, const std::string& a, const std::string& b);
  // Of numbers that are known to be natural.
  std::string quotient(const std::string& a, const std::string& b);
  std::string rest(const std::string& a, const std::string& b);

  std::string to_storage(DType dtype, const std::string& x, Nans nans = Nans::Kept);
  std::string pair_bits(DType dtype, const std::string& low,
                        const std::string& high);  // f32 to a word of two
  std::string from_storage(DType dtype, const std::string& code, Nans nans);

  void begin_function() { one_nan_.clear(); }

 private:
  std::string float_arithmetic(te::ExprOp op, DType dtype, std::span<const std::string> o, Nans nans);
  std::string integer_arithmetic(te::ExprOp op, DType dtype, std::span<const std::string> o);
  std::string bool_arithmetic(te::ExprOp op, std::span<const std::string> o);
  std::string shifted(te::ExprOp op, DType dtype, const std::string& x, const std::string& places);
  std::string smallest_or_largest(bool largest, DType dtype, const std::string& a, const std::string& b);
  std::string normalised(DType dtype, const std::string& x);  // a word of which the lower bits are the number

  // convert.cpp
  std::string narrowed(DType dtype, const std::string& x, Nans nans);
  std::string float_to_float(DType from, DType to, std::string x, Nans nans);
  std::string float_to_integer(DType from, DType to, const std::string& x);
  std::string integer_to_float(DType from, DType to, const std::string& x);
  std::string half_bits(DType dtype, const std::string& x);  // f32 to a code of 16 bits

  Instructions& code_;
  std::set<std::string> one_nan_;  // registers that hold no NaN but the one
};

}  // namespace xyntra::ptx
