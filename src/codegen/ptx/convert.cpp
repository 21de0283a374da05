// Conversions between dtypes. What the machine does in one instruction is left to it, but for NaNs whose bits are seen.
#include "codegen/ptx/arithmetic.h"

#include <bit>

#include "support/result.h"
#include "types/float_formats.h"

namespace xyntra::ptx {
namespace {

constexpr std::int64_t kFloatNan = 0x7fc00000;

std::string n(std::int64_t value) { return std::to_string(value); }

std::optional<float> float_literal(std::string_view operand) {
  if (!operand.starts_with("0f")) return std::nullopt;
  std::uint32_t bits = 0;
  for (const char digit : operand.substr(2))
    bits = bits * 16 + static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : digit - 'A' + 10);
  return std::bit_cast<float>(bits);
}

// Integer arithmetic on words, written as such.
struct Words {
  Instructions& code;
  std::string band(const std::string& a, std::int64_t b) const { return code.word("and.b32", {a, n(b)}); }
  std::string bor(const std::string& a, const std::string& b) const { return code.word("or.b32", {a, b}); }
  std::string shl(const std::string& a, int b) const { return code.word("shl.b32", {a, n(b)}); }
  std::string shr(const std::string& a, int b) const { return code.word("shr.u32", {a, n(b)}); }
  std::string is(const char* how, const std::string& a, std::int64_t b) const {
    return code.predicate(std::string("setp.") + how, {a, n(b)});
  }
  std::string pick(const std::string& condition, const std::string& a, const std::string& b) const {
    return code.word("selp.b32", {a, b, condition});
  }
};

}  // namespace

// ---- rounding

std::string Arithmetic::pair_bits(DType dtype, const std::string& low, const std::string& high) {
  return code_.word(dtype == DType::F16 ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32", {high, low});
}

// Two at a time take one instruction, one alone a slow one: the other half is 0.
std::string Arithmetic::half_bits(DType dtype, const std::string& x) {
  return pair_bits(dtype, x, "0f00000000");
}

std::string Arithmetic::narrowed(DType dtype, const std::string& x, Nans nans) {
  switch (dtype) {
    case DType::F32: return x;
    case DType::F16:
      if (nans == Nans::Kept) return from_storage(dtype, to_storage(dtype, x), nans);
      return code_.word("cvt.f32.f16", {code_.make(Size::Half, "cvt.u16.u32", {half_bits(dtype, x)})});
    case DType::BF16:
      if (nans == Nans::Kept) return from_storage(dtype, to_storage(dtype, x), nans);
      return code_.word("cvt.rn.bf16x2.f32", {x, "0f00000000"});  // the upper half of a word is f32 again
    default: internal_error("codegen: a float of fewer than 16 bits");
  }
}

// ---- memory

std::string Arithmetic::to_storage(DType dtype, const std::string& x, Nans nans) {
  const Words w{code_};
  switch (dtype) {
    case DType::Bool: return x == kTrue ? "1" : x == kFalse ? "0" : w.pick(x, "1", "0");
    case DType::F16:
    case DType::BF16: {
      const bool half = dtype == DType::F16;
      if (const auto known = float_literal(x)) return n(half ? f32_to_f16(*known) : f32_to_bf16(*known));
      const std::string code = half_bits(dtype, x);
      if (nans == Nans::Any) return code;
      if (nans == Nans::One || one_nan_.contains(x))
        return w.pick(is_nan(DType::F32, x), n(half ? 0x7e00 : 0x7fc0), code);
      std::string nan;
      if (half) {
        const std::string sign = w.band(w.shr(x, 16), 0x8000), payload = w.band(w.shr(x, 13), 0x3ff);
        nan = w.bor(w.bor(sign, payload), n(0x7e00));
      } else {
        nan = w.bor(w.shr(x, 16), n(0x40));
      }
      return w.pick(is_nan(DType::F32, x), nan, code);
    }
    default: return x;
  }
}

std::string Arithmetic::from_storage(DType dtype, const std::string& code, Nans nans) {
  const Words w{code_};
  switch (dtype) {
    case DType::Bool: return w.is("ne.s32", code, 0);
    case DType::F16: {
      const std::string half = code_.make(Size::Half, "cvt.u16.u32", {code});
      std::string made = code_.word("cvt.f32.f16", {half});
      if (nans == Nans::Any) return made;
      const std::string sign = w.shl(w.band(code, 0x8000), 16), payload = w.shl(w.band(code, 0x3ff), 13);
      return w.pick(is_nan(DType::F32, made), w.bor(w.bor(sign, payload), n(kFloatNan)), made);
    }
    case DType::BF16: return w.shl(code, 16);
    default: return is_integer(dtype) ? normalised(dtype, code) : code;
  }
}

// ---- casts

std::string Arithmetic::float_to_float(DType from, DType to, std::string x, Nans nans) {
  if (to == DType::F64) {
    if (from == DType::F64) return x;
    const std::string made = code_.wide("cvt.f64.f32", {x});
    if (nans == Nans::Any) return made;
    const std::string bits = code_.wide("cvt.u64.u32", {bitcast(DType::F32, DType::I32, x)});
    const std::string sign = code_.wide("shl.b64", {code_.wide("and.b64", {bits, "0x80000000"}), "32"});
    const std::string payload = code_.wide("shl.b64", {code_.wide("and.b64", {bits, "0x7FFFFF"}), "29"});
    const std::string nan =
        code_.wide("or.b64", {code_.wide("or.b64", {sign, payload}), "0x7FF8000000000000"});
    return select(DType::I64, is_nan(DType::F32, x), nan, made);
  }
  if (from == DType::F64) {
    std::string single = code_.word("cvt.rn.f32.f64", {x});
    if (nans == Nans::Kept) {
      const std::string bits = bitcast(DType::F64, DType::I64, x);
      const std::string sign = code_.word(
          "and.b32", {code_.word("cvt.u32.u64", {code_.wide("shr.u64", {bits, "32"})}), "0x80000000"});
      const std::string payload = code_.word(
          "and.b32", {code_.word("cvt.u32.u64", {code_.wide("shr.u64", {bits, "29"})}), "0x7FFFFF"});
      const std::string nan = code_.word("or.b32", {code_.word("or.b32", {sign, payload}), "0x7FC00000"});
      single = select(DType::I32, is_nan(DType::F64, x), nan, single);
    }
    x = single;
  }
  return narrowed(to, x, nans);
}

// Truncates and saturates, and NaN gives 0: the machine does all of it but for NaN where either side has 64 bits.
std::string Arithmetic::float_to_integer(DType from, DType to, const std::string& x) {
  const std::string source = from == DType::F64 ? "f64" : "f32";
  const bool is_signed = is_signed_integer(to);
  if (bits_of(to) == 64) {
    const std::string made = code_.wide((is_signed ? "cvt.rzi.s64." : "cvt.rzi.u64.") + source, {x});
    return select(to, is_nan(from, x), "0", made);
  }
  const bool narrow = bits_of(to) < 32;
  std::string made = code_.word((is_signed || narrow ? "cvt.rzi.s32." : "cvt.rzi.u32.") + source, {x});
  if (from == DType::F64) made = select(to, is_nan(from, x), "0", made);
  if (!narrow) return made;
  made = code_.word("max.s32", {made, n(lowest_integer(to))});
  return code_.word("min.s32", {made, n(static_cast<std::int64_t>(highest_integer(to)))});
}

std::string Arithmetic::integer_to_float(DType from, DType to, const std::string& x) {
  const std::string type =
      std::string(is_signed_integer(from) ? "s" : "u") + (bits_of(from) == 64 ? "64" : "32");
  if (to == DType::F64) return code_.wide("cvt.rn.f64." + type, {x});
  return narrowed(to, code_.word("cvt.rn.f32." + type, {x}), Nans::Any);
}

std::string Arithmetic::cast(DType from, DType to, const std::string& given, Nans nans) {
  const bool is_literal = from != DType::Bool && !is_register(given);
  const std::string x =
      is_literal ? code_.make(size_of(from), "mov." + std::string(suffix_of(from)), {given}) : given;
  if (from == DType::Bool && to != DType::Bool) {
    if (!is_float(to)) return select(to, x, "1", "0");
    if (to == DType::F64) return select(to, x, "0d3FF0000000000000", "0d0000000000000000");
    return narrowed(to, select(DType::F32, x, "0f3F800000", "0f00000000"), Nans::Any);
  }
  if (is_float(from) && is_float(to)) return float_to_float(from, to, x, nans);
  if (is_float(from)) {
    if (to == DType::Bool) return compare(te::ExprOp::NotEqual, from, x, zero(from));  // NaN is true
    return float_to_integer(from, to, x);
  }
  if (is_float(to)) return integer_to_float(from, to, x);
  if (to == DType::Bool) return from == DType::Bool ? x : compare(te::ExprOp::NotEqual, from, x, "0");
  if (bits_of(to) == 64) {
    if (bits_of(from) == 64) return x;
    return code_.wide(is_signed_integer(from) ? "cvt.s64.s32" : "cvt.u64.u32", {x});
  }
  const std::string narrow = bits_of(from) == 64 ? code_.word("cvt.u32.u64", {x}) : x;
  return normalised(to, narrow);
}

// A literal is one of the type that it becomes.
std::string Arithmetic::bitcast(DType from, DType to, const std::string& x) {
  if (is_register(x) || bits_of(from) < 32) {
    std::string code = to_storage(from, x);
    if (is_signed_integer(from) && bits_of(from) < 32)
      code = code_.word("and.b32", {code, n((1 << bits_of(from)) - 1)});
    return from_storage(to, code, Nans::Kept);
  }
  const bool wide = bits_of(to) == 64;
  if (is_float(from) == is_float(to)) return x;
  return code_.make(size_of(to),
                    is_float(from) ? (wide ? "mov.f64" : "mov.f32") : (wide ? "mov.b64" : "mov.b32"), {x});
}

}  // namespace xyntra::ptx
