#include "codegen/wgsl/functions/functions.h"

#include <array>
#include <vector>

#include "support/result.h"

namespace xyntra::wgsl {
namespace {

constexpr Function kFunctions[] = {
    // ---- integers: te/expr.h says what division by zero and shifts by too much give; Vulkan leaves the remainder of
    // negative numbers open, but not their quotient
    {"div_i", "", R"(fn div_$T(a: $T, b: $T) -> $T {
  if (b == $T(0)) { return $T(0); }
  if (b == $T(-1)) { return $T(0) - a; }
  return a / b;
}
)"},
    {"rem_i", "", R"(fn rem_$T(a: $T, b: $T) -> $T {
  if (b == $T(0) || b == $T(-1)) { return $T(0); }
  return a - a / b * b;
}
)"},
    {"floordiv_i", "", R"(fn floordiv_$T(a: $T, b: $T) -> $T {
  if (b == $T(0)) { return $T(0); }
  if (b == $T(-1)) { return $T(0) - a; }
  let q = a / b;
  let r = a - q * b;
  return q - select($T(0), $T(1), r != $T(0) && (r < $T(0)) != (b < $T(0)));
}
)"},
    {"mod_i", "", R"(fn mod_$T(a: $T, b: $T) -> $T {
  if (b == $T(0) || b == $T(-1)) { return $T(0); }
  let r = a - a / b * b;
  return r + select($T(0), b, r != $T(0) && (r < $T(0)) != (b < $T(0)));
}
)"},
    {"div_u", "", R"(fn div_$T(a: $T, b: $T) -> $T {
  if (b == $T(0)) { return $T(0); }
  return a / b;
}
)"},
    {"rem_u", "", R"(fn rem_$T(a: $T, b: $T) -> $T {
  if (b == $T(0)) { return $T(0); }
  return a % b;
}
)"},
    {"shl_", "", R"(fn shl_$T(a: $T, b: $T, width: u32) -> $T {
  if (b < $T(0) || b >= $T(width)) { return $T(0); }
  return a << u32(b);
}
)"},
    {"shr_i", "", R"(fn shr_$T(a: $T, b: $T, width: u32) -> $T {
  if (b < $T(0) || b >= $T(width)) { return select($T(0), $T(-1), a < $T(0)); }
  return a >> u32(b);
}
)"},
    {"shr_u", "", R"(fn shr_$T(a: $T, b: $T, width: u32) -> $T {
  if (b >= $T(width)) { return $T(0); }
  return a >> u32(b);
}
)"},
    {"widened_i32", "",
     R"(fn widened_i32(x: i32) -> i64 { return i64(x & 0x7fffffff) - select(0li, 2147483648li, x < 0); }
)"},
    {"widened_u32", "",
     R"(fn widened_u32(x: u32) -> i64 { return i64(x & 0x7fffffffu) + select(0li, 2147483648li, x > 0x7fffffffu); }
)"},
    // ---- floats. Compilers may take a NaN for impossible, so bits are looked at. No branches: threads of a group would
    // wait for one another at each.
    {"of_bits_f32", "", R"(fn of_bits_f32(bits: u32) -> f32 { return bitcast<f32>(bits); }
)"},
    {"is_nan_f32", "",
     R"(fn is_nan_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
)"},
    {"is_inf_f32", "",
     R"(fn is_inf_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }
)"},
    // A quotient may be off by 2.5 ulp, and by anything where the divisor is above 2^126, whose reciprocal is subnormal. What remains
    // of the dividend brings it to the nearest float; where nothing finite remains, the quotient is right as it is. That is asked
    // of the quotient, too: where the divisor is a constant, NVIDIA's compiler takes what was corrected for finite. Compilers join
    // what is divided by a constant with a sum after it, without rounding in between, unless a bit may change there: that of a NaN
    // which nobody has.
    {"div_f32", "", R"(fn div_f32(a: f32, b: f32) -> f32 {
  let never = u32(bitcast<u32>(a) == 0x7fa5a5a5u || bitcast<u32>(b) == 0x7fa5a5a5u);
  let scale = select(1.0f, 0.25f, abs(b) > 0x1p+126f);
  let dividend = a * scale;
  let divisor = b * scale;
  let quotient = bitcast<f32>(bitcast<u32>(dividend / divisor) | never);
  let nearest = fma(fma(-quotient, divisor, dividend), 1.0f / divisor, quotient);
  let finite = max(bitcast<u32>(quotient) & 0x7f800000u, bitcast<u32>(nearest) & 0x7f800000u) != 0x7f800000u;
  return bitcast<f32>(bitcast<u32>(select(quotient, nearest, finite && quotient != 0.0f)) | never);
}
)"},
    // What is added and taken away again is rounded in between. Drivers forget that, unless a bit may change there: that of a NaN
    // which nobody has.
    {"kept_f32", "", R"(fn kept_f32(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  return bitcast<f32>(bits | u32(bits == 0x7fa5a5a4u));
}
)"},
    {"kept_f64", "", R"(fn kept_f64(x: f64) -> f64 {
  let bits = bitcast<u64>(x);
  return bitcast<f64>(bits | select(0lu, 1lu, bits == 0x7ff5a5a5a5a5a5a4lu));
}
)"},
    {"kept_vector", "", R"(fn kept_vector(x: vec4<f32>) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(x);
  return bitcast<vec4<f32>>(bits | vec4<u32>(bits == vec4<u32>(0x7fa5a5a4u)));
}
)"},
    // x + 0, which is a zero without a sign where x is any zero: drivers take it for x, and a - b == 0 for a == b.
    {"plus_zero_f32", "", R"(fn plus_zero_f32(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  return bitcast<f32>(select(bits, 0u, bits == 0x80000000u));
}
)"},
    {"plus_zero_f64", "", R"(fn plus_zero_f64(x: f64) -> f64 {
  let bits = bitcast<u64>(x);
  return bitcast<f64>(select(bits, 0lu, bits == 0x8000000000000000lu));
}
)"},
    {"is_nan_f64", "", R"(fn is_nan_f64(x: f64) -> bool {
  return (bitcast<u64>(x) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu;
}
)"},
    {"is_inf_f64", "", R"(fn is_inf_f64(x: f64) -> bool {
  return (bitcast<u64>(x) & 0x7ffffffffffffffflu) == 0x7ff0000000000000lu;
}
)"},
    {"is_nan_f16", "is_nan_f32", R"(fn is_nan_f16(x: f16) -> bool { return is_nan_f32(f32(x)); }
)"},
    {"is_inf_f16", "is_inf_f32", R"(fn is_inf_f16(x: f16) -> bool { return is_inf_f32(f32(x)); }
)"},
    {"nan_f16", "nan_f32", R"(fn nan_f16() -> f16 { return f16(nan_f32()); }
)"},
    {"nan_f32", "of_bits_f32", R"(fn nan_f32() -> f32 { return of_bits_f32(0x7fc00000u); }
)"},
    {"nan_f64", "nan_f32", R"(fn nan_f64() -> f64 { return f64(nan_f32()); }
)"},
    {"settled_", "is_nan_$T nan_$T",
     R"(fn settled_$T(x: $T) -> $T { return select(x, nan_$T(), is_nan_$T(x)); }
)"},
    {"is_nan_vector", "", R"(fn is_nan_vector(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
)"},
    {"settled_vector", "is_nan_vector nan_f32", R"(fn settled_vector(x: vec4<f32>) -> vec4<f32> {
  return select(x, vec4<f32>(nan_f32()), is_nan_vector(x));
}
)"},
    // Of two zeros the one that has the sign is the lesser. Its bits are taken, since drivers may drop the sum with a zero.
    {"min_vector", "is_nan_vector nan_f32", R"(fn min_vector(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let zeros = (a == vec4<f32>(0.0)) & (b == vec4<f32>(0.0));
  let zero = bitcast<vec4<f32>>(bitcast<vec4<u32>>(a) | bitcast<vec4<u32>>(b));
  let least = select(select(b, a, a < b), zero, zeros);
  return select(least, vec4<f32>(nan_f32()), is_nan_vector(a) | is_nan_vector(b));
}
)"},
    {"max_vector", "is_nan_vector nan_f32", R"(fn max_vector(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let zeros = (a == vec4<f32>(0.0)) & (b == vec4<f32>(0.0));
  let zero = bitcast<vec4<f32>>(bitcast<vec4<u32>>(a) & bitcast<vec4<u32>>(b));
  let most = select(select(b, a, a > b), zero, zeros);
  return select(most, vec4<f32>(nan_f32()), is_nan_vector(a) | is_nan_vector(b));
}
)"},
    {"min_f32", "is_nan_f32 nan_f32", R"(fn min_f32(a: f32, b: f32) -> f32 {
  let zero = bitcast<f32>(bitcast<u32>(a) | bitcast<u32>(b));
  let smaller = select(select(b, a, a < b), zero, (a == 0.0f) & (b == 0.0f));
  return select(smaller, nan_f32(), is_nan_f32(a) | is_nan_f32(b));
}
)"},
    {"max_f32", "is_nan_f32 nan_f32", R"(fn max_f32(a: f32, b: f32) -> f32 {
  let zero = bitcast<f32>(bitcast<u32>(a) & bitcast<u32>(b));
  let larger = select(select(b, a, a > b), zero, (a == 0.0f) & (b == 0.0f));
  return select(larger, nan_f32(), is_nan_f32(a) | is_nan_f32(b));
}
)"},
    {"min_f64", "is_nan_f64 nan_f64", R"(fn min_f64(a: f64, b: f64) -> f64 {
  let zero = bitcast<f64>(bitcast<u64>(a) | bitcast<u64>(b));
  let smaller = select(select(b, a, a < b), zero, (a == f64(0)) & (b == f64(0)));
  return select(smaller, nan_f64(), is_nan_f64(a) | is_nan_f64(b));
}
)"},
    {"max_f64", "is_nan_f64 nan_f64", R"(fn max_f64(a: f64, b: f64) -> f64 {
  let zero = bitcast<f64>(bitcast<u64>(a) & bitcast<u64>(b));
  let larger = select(select(b, a, a > b), zero, (a == f64(0)) & (b == f64(0)));
  return select(larger, nan_f64(), is_nan_f64(a) | is_nan_f64(b));
}
)"},
    // ---- narrow floats: f32 values that a narrower type can hold
    {"round_f16", "of_bits_f32", R"(fn round_f16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  if (size >= 0x7f800000u) { return x; }
  if (size < 0x38800000u) { return of_bits_f32(bitcast<u32>(round(abs(x) * 16777216.0) * 5.9604644775390625e-8) | (bits & 0x80000000u)); }
  let near = (size + 0xfffu + ((size >> 13u) & 1u)) & 0xffffe000u;
  return of_bits_f32(select(near, 0x7f800000u, near >= 0x47800000u) | (bits & 0x80000000u));
}
)"},
    {"round_f16_vector", "round_f16", R"(fn round_f16_vector(x: vec4<f32>) -> vec4<f32> {
  return vec4<f32>(round_f16(x.x), round_f16(x.y), round_f16(x.z), round_f16(x.w));
}
)"},
    {"round_bf16", "of_bits_f32", R"(fn round_bf16(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) { return x; }
  return of_bits_f32((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}
)"},
    {"bits_of_f16", "", R"(fn bits_of_f16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  let sign = (bits >> 16u) & 0x8000u;
  if (size > 0x7f800000u) { return sign | 0x7e00u | ((size >> 13u) & 0x1ffu); }
  if (size == 0x7f800000u) { return sign | 0x7c00u; }
  if (size < 0x38800000u) { return sign | u32(abs(x) * 16777216.0); }
  return sign | ((size - 0x38000000u) >> 13u);
}
)"},
    {"f16_of_bits", "of_bits_f32", R"(fn f16_of_bits(bits: u32) -> f32 {
  let size = bits & 0x7fffu;
  let sign = (bits & 0x8000u) << 16u;
  if (size >= 0x7c00u) { return of_bits_f32(sign | 0x7f800000u | ((size & 0x3ffu) << 13u)); }
  if (size < 0x400u) { return of_bits_f32(sign | bitcast<u32>(f32(size) * 5.9604644775390625e-8)); }
  return of_bits_f32(sign | ((size << 13u) + 0x38000000u));
}
)"},
};

std::array<std::span<const Function>, 2> tables() { return {kFunctions, wide_functions()}; }

// "floordiv_i32" is an instance of "floordiv_i", "settled_f32" of "settled_".
struct Instance {
  const Function* function = nullptr;
  std::string type;
};

Instance find(const std::string& name) {
  for (std::span<const Function> table : tables()) {
    for (const Function& function : table) {
      if (name == function.name) return {&function, ""};
    }
  }
  const std::string type = name.substr(name.rfind('_') + 1);
  for (const Function& function : kFunctions) {
    const std::string stem(function.name.substr(0, function.name.rfind('_') + 1));
    const std::string_view kind = function.name.substr(function.name.rfind('_') + 1);
    const bool fits = kind.empty() || (kind.size() == 1 && type.starts_with(kind));
    if (fits && name == stem + type) return {&function, type};
  }
  internal_error("wgsl: no function is called " + name);
}

std::string instance_text(std::string_view text, const std::string& type) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == 'T') {
      made += type;
      ++i;
    } else {
      made += text[i];
    }
  }
  return made;
}

void collect(const std::string& name, std::set<std::string>& names) {
  if (!names.insert(name).second) return;
  const Instance instance = find(name);
  std::string calls = instance_text(instance.function->calls, instance.type);
  for (std::size_t at = 0; at < calls.size();) {
    const std::size_t end = std::min(calls.find(' ', at), calls.size());
    collect(calls.substr(at, end - at), names);
    at = end + 1;
  }
}

}  // namespace

std::string functions_text(const std::set<std::string>& names) {
  std::set<std::string> all;
  for (const std::string& name : names) collect(name, all);
  std::string text;
  for (std::span<const Function> table : tables()) {
    for (const Function& function : table) {
      for (const std::string& name : all) {
        const Instance instance = find(name);
        if (instance.function == &function) text += instance_text(function.text, instance.type);
      }
    }
  }
  return text;
}

}  // namespace xyntra::wgsl
