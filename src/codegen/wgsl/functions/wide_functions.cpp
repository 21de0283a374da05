// 64-bit integers as two words, the lower one first: what vec2u does not do by itself. te/expr.h says what division by
// zero and shifts by too much give.
#include "codegen/wgsl/functions/functions.h"

namespace xyntra::wgsl {
namespace {

constexpr Function kWideFunctions[] = {
    // ---- of signed and unsigned ones alike
    {"widened", "", R"(fn widened(x: i32) -> vec2u { return vec2u(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }
)"},
    {"add_wide", "", R"(fn add_wide(a: vec2u, b: vec2u) -> vec2u {
  let low = a.x + b.x;
  return vec2u(low, a.y + b.y + select(0u, 1u, low < a.x));
}
)"},
    {"sub_wide", "", R"(fn sub_wide(a: vec2u, b: vec2u) -> vec2u {
  return vec2u(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
)"},
    {"neg_wide", "sub_wide", R"(fn neg_wide(a: vec2u) -> vec2u { return sub_wide(vec2u(0u, 0u), a); }
)"},
    {"product_wide", "", R"(fn product_wide(a: u32, b: u32) -> vec2u {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  return vec2u((other << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u));
}
)"},
    {"mul_wide", "product_wide", R"(fn mul_wide(a: vec2u, b: vec2u) -> vec2u {
  let low = product_wide(a.x, b.x);
  return vec2u(low.x, low.y + a.x * b.y + a.y * b.x);
}
)"},
    {"left_wide", "", R"(fn left_wide(a: vec2u, by: u32) -> vec2u {
  if (by == 0u) { return a; }
  if (by >= 32u) { return vec2u(0u, a.x << (by - 32u)); }
  return vec2u(a.x << by, (a.y << by) | (a.x >> (32u - by)));
}
)"},
    {"shl_wide", "left_wide", R"(fn shl_wide(a: vec2u, b: vec2u) -> vec2u {
  if (b.y != 0u || b.x >= 64u) { return vec2u(0u, 0u); }
  return left_wide(a, b.x);
}
)"},
    // ---- unsigned
    {"less_unsigned", "",
     R"(fn less_unsigned(a: vec2u, b: vec2u) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
)"},
    {"shr_unsigned", "", R"(fn shr_unsigned(a: vec2u, b: vec2u) -> vec2u {
  if (b.y != 0u || b.x >= 64u) { return vec2u(0u, 0u); }
  if (b.x == 0u) { return a; }
  if (b.x >= 32u) { return vec2u(a.y >> (b.x - 32u), 0u); }
  return vec2u((a.x >> b.x) | (a.y << (32u - b.x)), a.y >> b.x);
}
)"},
    // Quotient and rest, a bit at a time.
    {"divide_unsigned", "less_unsigned sub_wide", R"(fn divide_unsigned(a: vec2u, b: vec2u) -> vec4u {
  if (b.x == 0u && b.y == 0u) { return vec4u(0u, 0u, 0u, 0u); }
  if (a.y == 0u && b.y == 0u) { return vec4u(a.x / b.x, 0u, a.x % b.x, 0u); }
  var quotient = a;
  var rest = vec2u(0u, 0u);
  for (var bit = 0; bit < 64; bit++) {
    let beyond = rest.y >= 0x80000000u;
    rest = vec2u((rest.x << 1u) | (quotient.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
    quotient = vec2u(quotient.x << 1u, (quotient.y << 1u) | (quotient.x >> 31u));
    if (beyond || !less_unsigned(rest, b)) {
      rest = sub_wide(rest, b);
      quotient.x = quotient.x | 1u;
    }
  }
  return vec4u(quotient, rest);
}
)"},
    {"div_unsigned", "divide_unsigned",
     R"(fn div_unsigned(a: vec2u, b: vec2u) -> vec2u { return divide_unsigned(a, b).xy; }
)"},
    {"rem_unsigned", "divide_unsigned",
     R"(fn rem_unsigned(a: vec2u, b: vec2u) -> vec2u { return divide_unsigned(a, b).zw; }
)"},
    // ---- signed
    {"less_signed", "", R"(fn less_signed(a: vec2u, b: vec2u) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}
)"},
    {"shr_signed", "", R"(fn shr_signed(a: vec2u, b: vec2u) -> vec2u {
  let high = bitcast<i32>(a.y);
  let sign = bitcast<u32>(high >> 31u);
  if (b.y != 0u || b.x >= 64u) { return vec2u(sign, sign); }
  if (b.x == 0u) { return a; }
  if (b.x >= 32u) { return vec2u(bitcast<u32>(high >> (b.x - 32u)), sign); }
  return vec2u((a.x >> b.x) | (a.y << (32u - b.x)), bitcast<u32>(high >> b.x));
}
)"},
    {"negated_if", "neg_wide", R"(fn negated_if(condition: bool, a: vec2u) -> vec2u {
  if (condition) { return neg_wide(a); }
  return a;
}
)"},
    {"abs_signed", "negated_if",
     R"(fn abs_signed(a: vec2u) -> vec2u { return negated_if(a.y >= 0x80000000u, a); }
)"},
    {"div_signed", "abs_signed divide_unsigned", R"(fn div_signed(a: vec2u, b: vec2u) -> vec2u {
  return negated_if((a.y ^ b.y) >= 0x80000000u, divide_unsigned(abs_signed(a), abs_signed(b)).xy);
}
)"},
    {"rem_signed", "abs_signed divide_unsigned", R"(fn rem_signed(a: vec2u, b: vec2u) -> vec2u {
  return negated_if(a.y >= 0x80000000u, divide_unsigned(abs_signed(a), abs_signed(b)).zw);
}
)"},
    {"floordiv_signed", "abs_signed divide_unsigned sub_wide",
     R"(fn floordiv_signed(a: vec2u, b: vec2u) -> vec2u {
  let parts = divide_unsigned(abs_signed(a), abs_signed(b));
  let differ = (a.y ^ b.y) >= 0x80000000u;
  let quotient = negated_if(differ, parts.xy);
  if (differ && (parts.z | parts.w) != 0u) { return sub_wide(quotient, vec2u(1u, 0u)); }
  return quotient;
}
)"},
    {"mod_signed", "rem_signed add_wide", R"(fn mod_signed(a: vec2u, b: vec2u) -> vec2u {
  let rest = rem_signed(a, b);
  if ((rest.x | rest.y) != 0u && (rest.y ^ b.y) >= 0x80000000u) { return add_wide(rest, b); }
  return rest;
}
)"},
    // ---- to and from floats
    {"whole_part", "left_wide", R"(fn whole_part(bits: u32) -> vec2u {
  let exponent = (bits >> 23u) & 0xffu;
  let digits = (bits & 0x7fffffu) | 0x800000u;
  if (exponent < 127u) { return vec2u(0u, 0u); }
  if (exponent < 150u) { return vec2u(digits >> (150u - exponent), 0u); }
  return left_wide(vec2u(digits, 0u), exponent - 150u);
}
)"},
    {"u64_of_f32", "whole_part", R"(fn u64_of_f32(x: f32) -> vec2u {
  let bits = bitcast<u32>(x);
  if (bits > 0x7f800000u) { return vec2u(0u, 0u); }
  if (bits >= 0x5f800000u) { return vec2u(0xffffffffu, 0xffffffffu); }
  return whole_part(bits);
}
)"},
    {"i64_of_f32", "whole_part negated_if", R"(fn i64_of_f32(x: f32) -> vec2u {
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  let negative = bits >= 0x80000000u;
  if (size > 0x7f800000u) { return vec2u(0u, 0u); }
  if (size >= 0x5f000000u) { return select(vec2u(0xffffffffu, 0x7fffffffu), vec2u(0u, 0x80000000u), negative); }
  return negated_if(negative, whole_part(size));
}
)"},
    // To the nearest, ties to even.
    {"f32_of_u64", "left_wide of_bits_f32", R"(fn f32_of_u64(a: vec2u) -> f32 {
  if ((a.x | a.y) == 0u) { return 0.0; }
  let zeros = select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
  let digits = left_wide(a, zeros);
  let odd = (digits.y >> 8u) & 1u;
  let up = (digits.y & 0x80u) != 0u && ((digits.y & 0x7fu) | digits.x | odd) != 0u;
  return of_bits_f32(((189u - zeros) << 23u) + (digits.y >> 8u) + select(0u, 1u, up));
}
)"},
    {"f32_of_i64", "f32_of_u64 abs_signed", R"(fn f32_of_i64(a: vec2u) -> f32 {
  let size = f32_of_u64(abs_signed(a));
  return select(size, -size, a.y >= 0x80000000u);
}
)"},
};

}  // namespace

std::span<const Function> wide_functions() { return kWideFunctions; }

}  // namespace xyntra::wgsl
