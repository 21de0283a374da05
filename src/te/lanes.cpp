#include "te/lanes.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "types/float_formats.h"

namespace xyntra::te {
namespace {

// ---- loops over lanes, with uniform operands kept out of the inner loop

template <class R, class T, class F>
void apply(R* __restrict result, const LaneOperand& a, int count, F f) {
  const T* x = static_cast<const T*>(a.lanes);
  if (a.uniform) {
    const R value = f(x[0]);
    for (int i = 0; i < count; ++i) result[i] = value;
    return;
  }
  for (int i = 0; i < count; ++i) result[i] = f(x[i]);
}

template <class R, class T, class F>
void apply(R* __restrict result, const LaneOperand& a, const LaneOperand& b, int count, F f) {
  const T *x = static_cast<const T*>(a.lanes), *y = static_cast<const T*>(b.lanes);
  if (a.uniform && b.uniform) {
    const R value = f(x[0], y[0]);
    for (int i = 0; i < count; ++i) result[i] = value;
  } else if (a.uniform) {
    const T left = x[0];
    for (int i = 0; i < count; ++i) result[i] = f(left, y[i]);
  } else if (b.uniform) {
    const T right = y[0];
    for (int i = 0; i < count; ++i) result[i] = f(x[i], right);
  } else {
    for (int i = 0; i < count; ++i) result[i] = f(x[i], y[i]);
  }
}

// ---- scalar meanings

template <class T>
T float_max(T a, T b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <class T>
T float_min(T a, T b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T float_mod(T a, T b) {  // floored: the divisor's sign
  T remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (remainder == 0) remainder = std::copysign(remainder, b);
  return remainder;
}

using I = std::int64_t;
using U = std::uint64_t;

I wrapping_add(I a, I b) { return static_cast<I>(static_cast<U>(a) + static_cast<U>(b)); }
I wrapping_sub(I a, I b) { return static_cast<I>(static_cast<U>(a) - static_cast<U>(b)); }
I wrapping_mul(I a, I b) { return static_cast<I>(static_cast<U>(a) * static_cast<U>(b)); }
I truncated_div(I a, I b) {
  if (b == 0) return 0;
  return b == -1 ? wrapping_sub(0, a) : a / b;
}
I truncated_rem(I a, I b) { return b == 0 || b == -1 ? 0 : a % b; }
I floored_div(I a, I b) {
  I quotient = truncated_div(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
I floored_mod(I a, I b) {
  I remainder = truncated_rem(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
I as_signed(U value) { return static_cast<I>(value); }
U as_unsigned(I value) { return static_cast<U>(value); }

// Keeps an integer within its dtype by wrapping.
I wrap(DType dtype, I value) {
  int bits = bits_of(dtype);
  if (dtype == DType::Bool) return value != 0 ? 1 : 0;
  if (bits == 64) return value;
  int shift = 64 - bits;
  U moved = as_unsigned(value) << shift;
  return is_signed_integer(dtype) ? as_signed(moved) >> shift : as_signed(moved >> shift);
}

template <class T>
I float_to_integer(DType dtype, T value) {
  if (dtype == DType::Bool) return value != 0 ? 1 : 0;  // only zeros are false: NaN is true
  if (std::isnan(value)) return 0;
  if (dtype == DType::U64) {
    if (value <= 0) return 0;
    if (value >= static_cast<T>(0x1p64)) return -1;
    return as_signed(static_cast<U>(value));
  }
  I low = lowest_integer(dtype), high = as_signed(highest_integer(dtype));
  if (value <= static_cast<T>(low)) return low;
  if (value >= static_cast<T>(high)) return high;
  return static_cast<I>(value);
}

// ---- float arithmetic

template <class T>
bool compute_float_unary(ExprOp op, T* r, const LaneOperand& a, int n) {
  switch (op) {
    case ExprOp::Neg: apply<T, T>(r, a, n, [](T x) { return -x; }); return true;
    case ExprOp::Abs: apply<T, T>(r, a, n, [](T x) { return std::abs(x); }); return true;
    case ExprOp::Floor: apply<T, T>(r, a, n, [](T x) { return std::floor(x); }); return true;
    case ExprOp::Ceil: apply<T, T>(r, a, n, [](T x) { return std::ceil(x); }); return true;
    case ExprOp::Round: apply<T, T>(r, a, n, [](T x) { return std::nearbyint(x); }); return true;
    case ExprOp::Trunc: apply<T, T>(r, a, n, [](T x) { return std::trunc(x); }); return true;
    case ExprOp::Sqrt: apply<T, T>(r, a, n, [](T x) { return std::sqrt(x); }); return true;
    default: return false;
  }
}

// libm serves the float64 oracle alone; everything else uses te's own definitions.
bool compute_oracle(ExprOp op, double* r, const LaneOperand* o, int n) {
  using D = double;
  switch (op) {
    case ExprOp::Exp: apply<D, D>(r, o[0], n, [](D x) { return std::exp(x); }); return true;
    case ExprOp::Exp2: apply<D, D>(r, o[0], n, [](D x) { return std::exp2(x); }); return true;
    case ExprOp::Expm1: apply<D, D>(r, o[0], n, [](D x) { return std::expm1(x); }); return true;
    case ExprOp::Log: apply<D, D>(r, o[0], n, [](D x) { return std::log(x); }); return true;
    case ExprOp::Log1p: apply<D, D>(r, o[0], n, [](D x) { return std::log1p(x); }); return true;
    case ExprOp::Erf: apply<D, D>(r, o[0], n, [](D x) { return std::erf(x); }); return true;
    case ExprOp::NormalCdf:
      apply<D, D>(r, o[0], n, [](D x) { return std::erfc(-x / std::numbers::sqrt2) / 2; });
      return true;
    case ExprOp::Tanh: apply<D, D>(r, o[0], n, [](D x) { return std::tanh(x); }); return true;
    case ExprOp::Sigmoid:
      apply<D, D>(r, o[0], n,
                  [](D x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); });
      return true;
    case ExprOp::Sin: apply<D, D>(r, o[0], n, [](D x) { return std::sin(x); }); return true;
    case ExprOp::Cos: apply<D, D>(r, o[0], n, [](D x) { return std::cos(x); }); return true;
    case ExprOp::Tan: apply<D, D>(r, o[0], n, [](D x) { return std::tan(x); }); return true;
    case ExprOp::Asin: apply<D, D>(r, o[0], n, [](D x) { return std::asin(x); }); return true;
    case ExprOp::Acos: apply<D, D>(r, o[0], n, [](D x) { return std::acos(x); }); return true;
    case ExprOp::Atan: apply<D, D>(r, o[0], n, [](D x) { return std::atan(x); }); return true;
    case ExprOp::Sinh: apply<D, D>(r, o[0], n, [](D x) { return std::sinh(x); }); return true;
    case ExprOp::Cosh: apply<D, D>(r, o[0], n, [](D x) { return std::cosh(x); }); return true;
    case ExprOp::Asinh: apply<D, D>(r, o[0], n, [](D x) { return std::asinh(x); }); return true;
    case ExprOp::Acosh: apply<D, D>(r, o[0], n, [](D x) { return std::acosh(x); }); return true;
    case ExprOp::Atanh: apply<D, D>(r, o[0], n, [](D x) { return std::atanh(x); }); return true;
    case ExprOp::Pow: apply<D, D>(r, o[0], o[1], n, [](D x, D y) { return std::pow(x, y); }); return true;
    default: return false;
  }
}

template <class T>
bool compute_float_binary(ExprOp op, T* r, const LaneOperand& a, const LaneOperand& b, int n) {
  switch (op) {
    case ExprOp::Add: apply<T, T>(r, a, b, n, [](T x, T y) { return x + y; }); return true;
    case ExprOp::Sub: apply<T, T>(r, a, b, n, [](T x, T y) { return x - y; }); return true;
    case ExprOp::Mul: apply<T, T>(r, a, b, n, [](T x, T y) { return x * y; }); return true;
    case ExprOp::Div: apply<T, T>(r, a, b, n, [](T x, T y) { return x / y; }); return true;
    case ExprOp::FloorDiv: apply<T, T>(r, a, b, n, [](T x, T y) { return std::floor(x / y); }); return true;
    case ExprOp::Mod: apply<T, T>(r, a, b, n, [](T x, T y) { return float_mod(x, y); }); return true;
    case ExprOp::Rem: apply<T, T>(r, a, b, n, [](T x, T y) { return std::fmod(x, y); }); return true;
    case ExprOp::Min: apply<T, T>(r, a, b, n, [](T x, T y) { return float_min(x, y); }); return true;
    case ExprOp::Max: apply<T, T>(r, a, b, n, [](T x, T y) { return float_max(x, y); }); return true;
    default: return false;
  }
}

template <class T>
T lane(const LaneOperand& operand, int i) {
  return static_cast<const T*>(operand.lanes)[operand.uniform ? 0 : i];
}

void round_lanes(DType dtype, float* lanes, int n) {
  if (dtype == DType::F32) return;
  for (int i = 0; i < n; ++i) lanes[i] = round_to(dtype, lanes[i]);
}

template <class T>
void compute_float(const LaneOperation& operation, T* r, const LaneOperand* o, int n) {
  ExprOp op = operation.op;
  if (compute_float_unary<T>(op, r, o[0], n) ||
      (o[1].lanes != nullptr && compute_float_binary<T>(op, r, o[0], o[1], n))) {
    return;
  }
  if (op == ExprOp::Fma) {
    for (int i = 0; i < n; ++i) r[i] = std::fma(lane<T>(o[0], i), lane<T>(o[1], i), lane<T>(o[2], i));
    return;
  }
  if constexpr (std::is_same_v<T, double>) {
    if (compute_oracle(op, r, o, n)) return;
  }
  internal_error(std::string("te: '") + spelling_of(op) + "' is not defined on floats");
}

// ---- integer arithmetic

void compute_unsigned(ExprOp op, I* r, const LaneOperand* o, int n) {
  auto binary = [&](auto f) {
    apply<I, I>(r, o[0], o[1], n, [f](I x, I y) { return as_signed(f(as_unsigned(x), as_unsigned(y))); });
  };
  switch (op) {
    case ExprOp::Div:
    case ExprOp::FloorDiv: binary([](U x, U y) { return y == 0 ? 0 : x / y; }); return;
    case ExprOp::Rem:
    case ExprOp::Mod: binary([](U x, U y) { return y == 0 ? 0 : x % y; }); return;
    case ExprOp::Min: binary([](U x, U y) { return x < y ? x : y; }); return;
    case ExprOp::Max: binary([](U x, U y) { return x > y ? x : y; }); return;
    case ExprOp::ShiftRight: binary([](U x, U y) { return y >= 64 ? 0 : x >> y; }); return;
    case ExprOp::Abs: apply<I, I>(r, o[0], n, [](I x) { return x; }); return;
    default: internal_error("te: unsigned operation");
  }
}

bool differs_when_unsigned(ExprOp op) {
  switch (op) {
    case ExprOp::Div:
    case ExprOp::FloorDiv:
    case ExprOp::Rem:
    case ExprOp::Mod:
    case ExprOp::Min:
    case ExprOp::Max:
    case ExprOp::ShiftRight:
    case ExprOp::Abs: return true;
    default: return false;
  }
}

void compute_integer(const LaneOperation& operation, I* r, const LaneOperand* o, int n) {
  DType dtype = operation.dtype;
  int bits = bits_of(dtype);
  ExprOp op = operation.op;
  auto unary = [&](auto f) { apply<I, I>(r, o[0], n, f); };
  auto binary = [&](auto f) { apply<I, I>(r, o[0], o[1], n, f); };
  if (dtype == DType::U64 && differs_when_unsigned(op)) return compute_unsigned(op, r, o, n);
  switch (op) {
    case ExprOp::Neg: unary([](I x) { return wrapping_sub(0, x); }); break;
    case ExprOp::Not:
      if (dtype == DType::Bool) {
        unary([](I x) { return I{x == 0}; });
      } else {
        unary([](I x) { return ~x; });
      }
      break;
    case ExprOp::Abs: unary([](I x) { return x < 0 ? wrapping_sub(0, x) : x; }); break;
    case ExprOp::Floor:
    case ExprOp::Ceil:
    case ExprOp::Round:
    case ExprOp::Trunc: unary([](I x) { return x; }); break;
    case ExprOp::Add: binary(wrapping_add); break;
    case ExprOp::Sub: binary(wrapping_sub); break;
    case ExprOp::Mul: binary(wrapping_mul); break;
    case ExprOp::Div: binary(truncated_div); break;
    case ExprOp::FloorDiv: binary(floored_div); break;
    case ExprOp::Mod: binary(floored_mod); break;
    case ExprOp::Rem: binary(truncated_rem); break;
    case ExprOp::Min: binary([](I x, I y) { return x < y ? x : y; }); break;
    case ExprOp::Max: binary([](I x, I y) { return x > y ? x : y; }); break;
    case ExprOp::And: binary([](I x, I y) { return x & y; }); break;
    case ExprOp::Or: binary([](I x, I y) { return x | y; }); break;
    case ExprOp::Xor: binary([](I x, I y) { return x ^ y; }); break;
    case ExprOp::ShiftLeft:
      binary([bits](I x, I y) { return y < 0 || y >= bits ? 0 : as_signed(as_unsigned(x) << y); });
      break;
    case ExprOp::ShiftRight:
      binary([bits](I x, I y) { return y < 0 || y >= bits ? (x < 0 ? I{-1} : I{0}) : x >> y; });
      break;
    case ExprOp::Fma:
      for (int i = 0; i < n; ++i) {
        r[i] = wrapping_add(wrapping_mul(lane<I>(o[0], i), lane<I>(o[1], i)), lane<I>(o[2], i));
      }
      break;
    default: internal_error(std::string("te: '") + spelling_of(op) + "' is not defined on integers");
  }
  if (bits == 64) return;
  for (int i = 0; i < n; ++i) r[i] = wrap(dtype, r[i]);
}

// ---- comparisons, selection, conversion

template <class T>
void compare(ExprOp op, I* r, const LaneOperand* o, int n) {
  auto with = [&](auto f) { apply<I, T>(r, o[0], o[1], n, [f](T x, T y) { return I{f(x, y)}; }); };
  switch (op) {
    case ExprOp::Less: with([](T x, T y) { return x < y; }); return;
    case ExprOp::LessEqual: with([](T x, T y) { return x <= y; }); return;
    case ExprOp::Greater: with([](T x, T y) { return x > y; }); return;
    case ExprOp::GreaterEqual: with([](T x, T y) { return x >= y; }); return;
    case ExprOp::Equal: with([](T x, T y) { return x == y; }); return;
    case ExprOp::NotEqual: with([](T x, T y) { return x != y; }); return;
    default: internal_error("te: not a comparison");
  }
}

template <class T>
void choose(T* r, const LaneOperand* o, int n) {
  for (int i = 0; i < n; ++i) r[i] = lane<I>(o[0], i) != 0 ? lane<T>(o[1], i) : lane<T>(o[2], i);
}

float to_narrow(const LaneOperation& operation, float value) {
  DType dtype = operation.dtype;
  if (bits_of(dtype) >= 16) return round_to(dtype, value);
  if (dtype == DType::F8E8M0) {
    constexpr ScaleRounding kRoundings[] = {ScaleRounding::Nearest, ScaleRounding::Up, ScaleRounding::Down};
    auto rounding = kRoundings[operation.cast.scale_rounding % 3];
    return small_float_to_f32(dtype, f32_to_f8e8m0(value, operation.cast.saturate, rounding));
  }
  return small_float_to_f32(dtype, f32_to_small_float(dtype, value, operation.cast.saturate));
}

void convert(const LaneOperation& operation, void* result, const LaneOperand& operand, int n) {
  DType to = operation.dtype, from = operation.operand_dtype;
  Lane to_lane = lane_of(to), from_lane = lane_of(from);
  if (to_lane == Lane::I64) {
    I* r = static_cast<I*>(result);
    if (from_lane == Lane::F32)
      apply<I, float>(r, operand, n, [to](float x) { return float_to_integer(to, x); });
    if (from_lane == Lane::F64)
      apply<I, double>(r, operand, n, [to](double x) { return float_to_integer(to, x); });
    if (from_lane == Lane::I64) apply<I, I>(r, operand, n, [to](I x) { return wrap(to, x); });
    return;
  }
  if (to_lane == Lane::F64) {
    double* r = static_cast<double*>(result);
    if (from_lane == Lane::F32)
      apply<double, float>(r, operand, n, [](float x) { return static_cast<double>(x); });
    if (from_lane == Lane::F64) apply<double, double>(r, operand, n, [](double x) { return x; });
    if (from_lane == Lane::I64 && from == DType::U64) {
      apply<double, I>(r, operand, n, [](I x) { return static_cast<double>(as_unsigned(x)); });
    } else if (from_lane == Lane::I64) {
      apply<double, I>(r, operand, n, [](I x) { return static_cast<double>(x); });
    }
    return;
  }
  float* r = static_cast<float*>(result);
  switch (from_lane) {
    case Lane::F32: apply<float, float>(r, operand, n, [](float x) { return x; }); break;
    case Lane::F64:
      if (to == DType::F16 || to == DType::BF16) {
        apply<float, double>(r, operand, n, [to](double x) {
          return to == DType::F16 ? f16_to_f32(f64_to_f16(x)) : bf16_to_f32(f64_to_bf16(x));
        });
        return;
      }
      apply<float, double>(r, operand, n, [](double x) { return static_cast<float>(x); });
      break;
    case Lane::I64:
      if (from == DType::U64) {
        apply<float, I>(r, operand, n, [](I x) { return static_cast<float>(as_unsigned(x)); });
      } else {
        apply<float, I>(r, operand, n, [](I x) { return static_cast<float>(x); });
      }
      break;
  }
  if (to == DType::F32) return;
  for (int i = 0; i < n; ++i) r[i] = to_narrow(operation, r[i]);
}

// One lane as it lies in memory, and back: a bitcast goes through the storage format.
void reinterpret(const LaneOperation& operation, void* result, const LaneOperand& operand, int n) {
  std::size_t lane_bytes = lane_of(operation.operand_dtype) == Lane::F32 ? 4 : 8;
  std::size_t result_bytes = lane_of(operation.dtype) == Lane::F32 ? 4 : 8;
  for (int i = 0; i < n; ++i) {
    std::byte storage[8] = {};
    const std::byte* from = static_cast<const std::byte*>(operand.lanes) +
                            (operand.uniform ? 0 : static_cast<std::size_t>(i) * lane_bytes);
    store_lanes(operation.operand_dtype, storage, 1, from, 1);
    load_lanes(operation.dtype, static_cast<std::byte*>(result) + static_cast<std::size_t>(i) * result_bytes,
               storage, 1, 1);
  }
}

// The common case of math definitions: 32 and 64 bits wide, straight from lane to lane.
bool reinterpret_fast(const LaneOperation& operation, void* result, const LaneOperand& operand, int n) {
  DType to = operation.dtype, from = operation.operand_dtype;
  if (from == DType::F32 && (to == DType::I32 || to == DType::U32)) {
    bool is_signed = to == DType::I32;
    apply<I, float>(static_cast<I*>(result), operand, n, [is_signed](float x) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &x, 4);
      return is_signed ? static_cast<I>(static_cast<std::int32_t>(bits)) : static_cast<I>(bits);
    });
    return true;
  }
  if (to == DType::F32 && (from == DType::I32 || from == DType::U32)) {
    apply<float, I>(static_cast<float*>(result), operand, n, [](I x) {
      auto bits = static_cast<std::uint32_t>(x);
      float value = 0;
      std::memcpy(&value, &bits, 4);
      return value;
    });
    return true;
  }
  return false;
}

template <class T>
T combined(Reducer reducer, DType dtype, T a, T b) {
  switch (reducer) {
    case Reducer::None: return b;
    case Reducer::Sum:
      if constexpr (std::is_same_v<T, I>)
        return wrap(dtype, wrapping_add(a, b));
      else
        return a + b;
    case Reducer::Product:
      if constexpr (std::is_same_v<T, I>)
        return wrap(dtype, wrapping_mul(a, b));
      else
        return a * b;
    case Reducer::Max:
    case Reducer::Largest:
      if constexpr (std::is_same_v<T, I>)
        return dtype == DType::U64 ? (as_unsigned(a) > as_unsigned(b) ? a : b) : (a > b ? a : b);
      else
        return float_max(a, b);
    case Reducer::Min:
      if constexpr (std::is_same_v<T, I>)
        return dtype == DType::U64 ? (as_unsigned(a) < as_unsigned(b) ? a : b) : (a < b ? a : b);
      else
        return float_min(a, b);
  }
  return b;
}

template <class T>
void accumulate_typed(Reducer reducer, DType dtype, T* accumulator, const LaneOperand& value, int n) {
  const T* x = static_cast<const T*>(value.lanes);
  bool plain = dtype == DType::F32 || dtype == DType::F64;
  if (reducer == Reducer::Sum && plain) {
    if (value.uniform) {
      for (int i = 0; i < n; ++i) accumulator[i] += x[0];
    } else {
      for (int i = 0; i < n; ++i) accumulator[i] += x[i];
    }
    return;
  }
  for (int i = 0; i < n; ++i)
    accumulator[i] = combined(reducer, dtype, accumulator[i], x[value.uniform ? 0 : i]);
  if constexpr (std::is_same_v<T, float>) round_lanes(dtype, accumulator, n);
}

template <class T>
void combine_typed(Reducer reducer, DType dtype, T* lanes, int n) {
  while (n > 1) {
    int half = (n + 1) / 2;
    for (int i = 0; i + half < n; ++i) lanes[i] = combined(reducer, dtype, lanes[i], lanes[i + half]);
    if constexpr (std::is_same_v<T, float>) round_lanes(dtype, lanes, half);
    n = half;
  }
}

template <class T>
T identity_of(Reducer reducer, DType dtype) {
  switch (reducer) {
    case Reducer::None:
    case Reducer::Sum: return T{0};
    case Reducer::Product: return T{1};
    case Reducer::Max:
    case Reducer::Largest:
      if constexpr (std::is_same_v<T, I>)
        return dtype == DType::Bool ? 0 : lowest_integer(dtype);
      else
        return -std::numeric_limits<T>::infinity();
    case Reducer::Min:
      if constexpr (std::is_same_v<T, I>)
        return dtype == DType::Bool ? 1 : as_signed(highest_integer(dtype));
      else
        return std::numeric_limits<T>::infinity();
  }
  return T{0};
}

template <class T>
void combine_one(Combiner combiner, DType dtype, T* target, T value) {
  switch (combiner) {
    case Combiner::Replace: *target = value; break;
    case Combiner::Add: *target = combined(Reducer::Sum, dtype, *target, value); break;
    case Combiner::Multiply: *target = combined(Reducer::Product, dtype, *target, value); break;
    case Combiner::Max: *target = combined(Reducer::Max, dtype, *target, value); break;
    case Combiner::Min: *target = combined(Reducer::Min, dtype, *target, value); break;
  }
  if constexpr (std::is_same_v<T, float>) round_lanes(dtype, target, 1);
}

template <class F>
void with_lane_type(DType dtype, F f) {
  switch (lane_of(dtype)) {
    case Lane::F32: f(float{}); return;
    case Lane::F64: f(double{}); return;
    case Lane::I64: f(I{}); return;
  }
}

template <class Memory, class T, class F>
void read(T* lanes, const std::byte* memory, std::int64_t stride, int n, F f) {
  for (int i = 0; i < n; ++i) {
    Memory element;
    std::memcpy(&element, memory + static_cast<std::int64_t>(sizeof(Memory)) * stride * i, sizeof(Memory));
    lanes[i] = f(element);
  }
}

template <class Memory, class T, class F>
void write(std::byte* memory, std::int64_t stride, const T* lanes, int n, F f) {
  for (int i = 0; i < n; ++i) {
    Memory element = f(lanes[i]);
    std::memcpy(memory + static_cast<std::int64_t>(sizeof(Memory)) * stride * i, &element, sizeof(Memory));
  }
}

}  // namespace

bool makes_nan(const LaneOperation& operation) {
  switch (operation.op) {  // these move bits
    case ExprOp::Cast:
    case ExprOp::Bitcast:
    case ExprOp::Select:
    case ExprOp::Neg:
    case ExprOp::Abs: return false;
    default: break;
  }
  ExprKind kind = kind_of(operation.op);
  return is_float(operation.dtype) && (kind == ExprKind::Arithmetic || kind == ExprKind::Math);
}

void compute(const LaneOperation& operation, void* result, const LaneOperand* o, int n) {
  switch (operation.op) {
    case ExprOp::Cast: convert(operation, result, o[0], n); return;
    case ExprOp::Bitcast:
      if (!reinterpret_fast(operation, result, o[0], n)) reinterpret(operation, result, o[0], n);
      return;
    case ExprOp::IsNan:
      with_lane_type(operation.operand_dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (!std::is_same_v<T, I>)
          apply<I, T>(static_cast<I*>(result), o[0], n, [](T x) { return I{std::isnan(x)}; });
      });
      return;
    case ExprOp::IsInf:
      with_lane_type(operation.operand_dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (!std::is_same_v<T, I>)
          apply<I, T>(static_cast<I*>(result), o[0], n, [](T x) { return I{std::isinf(x)}; });
      });
      return;
    case ExprOp::Select:
      with_lane_type(operation.dtype, [&](auto zero) { choose(static_cast<decltype(zero)*>(result), o, n); });
      return;
    default: break;
  }
  if (kind_of(operation.op) == ExprKind::Compare) {
    if (operation.operand_dtype == DType::U64) {
      compare<U>(operation.op, static_cast<I*>(result), o, n);
    } else {
      with_lane_type(operation.operand_dtype, [&](auto zero) {
        compare<decltype(zero)>(operation.op, static_cast<I*>(result), o, n);
      });
    }
    return;
  }
  switch (lane_of(operation.dtype)) {
    case Lane::F32:
      compute_float<float>(operation, static_cast<float*>(result), o, n);
      round_lanes(operation.dtype, static_cast<float*>(result), n);
      return;
    case Lane::F64: compute_float<double>(operation, static_cast<double*>(result), o, n); return;
    case Lane::I64: compute_integer(operation, static_cast<I*>(result), o, n); return;
  }
}

void accumulate(Reducer reducer, DType dtype, void* accumulator, LaneOperand value, int n) {
  with_lane_type(dtype, [&](auto zero) {
    accumulate_typed(reducer, dtype, static_cast<decltype(zero)*>(accumulator), value, n);
  });
}

void accumulate_product(DType dtype, void* accumulator, LaneOperand a, LaneOperand b, int n) {
  if (b.uniform) std::swap(a, b);
  with_lane_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* __restrict sum = static_cast<T*>(accumulator);
    const T *x = static_cast<const T*>(a.lanes), *y = static_cast<const T*>(b.lanes);
    if (a.uniform && b.uniform) {
      const T product = x[0] * y[0];
      for (int i = 0; i < n; ++i) sum[i] += product;
    } else if (a.uniform) {
      const T scale = x[0];
      for (int i = 0; i < n; ++i) sum[i] += scale * y[i];
    } else {
      for (int i = 0; i < n; ++i) sum[i] += x[i] * y[i];
    }
  });
}

void combine_lanes(Reducer reducer, DType dtype, void* accumulator, int n) {
  with_lane_type(
      dtype, [&](auto zero) { combine_typed(reducer, dtype, static_cast<decltype(zero)*>(accumulator), n); });
}

void fill_identity(Reducer reducer, DType dtype, void* accumulator, int n) {
  with_lane_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T value = identity_of<T>(reducer, dtype);
    for (int i = 0; i < n; ++i) static_cast<T*>(accumulator)[i] = value;
  });
}

void settle_nans(DType dtype, void* lanes, int n) {
  with_lane_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, I>) {
      T* x = static_cast<T*>(lanes);
      for (int i = 0; i < n; ++i) x[i] = std::isnan(x[i]) ? std::numeric_limits<T>::quiet_NaN() : x[i];
    }
  });
}

void combine_scalar(Combiner combiner, DType dtype, void* target, const void* value) {
  with_lane_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    combine_one(combiner, dtype, static_cast<T*>(target), *static_cast<const T*>(value));
  });
  if (combiner != Combiner::Replace) settle_nans(dtype, target, 1);
}

int storage_bytes(DType dtype) { return bits_of(dtype) < 8 ? 1 : bits_of(dtype) / 8; }

void load_lanes(DType dtype, void* lanes, const std::byte* memory, std::int64_t stride, int n) {
  auto* f = static_cast<float*>(lanes);
  auto* i = static_cast<I*>(lanes);
  auto plain = [](auto x) { return static_cast<I>(x); };
  switch (dtype) {
    case DType::F64:
      read<double>(static_cast<double*>(lanes), memory, stride, n, [](double x) { return x; });
      return;
    case DType::F32: read<float>(f, memory, stride, n, [](float x) { return x; }); return;
    case DType::F16: read<std::uint16_t>(f, memory, stride, n, f16_to_f32); return;
    case DType::BF16: read<std::uint16_t>(f, memory, stride, n, bf16_to_f32); return;
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0:
    case DType::F4E2M1:
      read<std::uint8_t>(f, memory, stride, n,
                         [dtype](std::uint8_t x) { return small_float_to_f32(dtype, x); });
      return;
    case DType::I64: read<I>(i, memory, stride, n, plain); return;
    case DType::I32: read<std::int32_t>(i, memory, stride, n, plain); return;
    case DType::I16: read<std::int16_t>(i, memory, stride, n, plain); return;
    case DType::I8:
    case DType::I4:
    case DType::I2: read<std::int8_t>(i, memory, stride, n, plain); return;
    case DType::U64: read<U>(i, memory, stride, n, plain); return;
    case DType::U32: read<std::uint32_t>(i, memory, stride, n, plain); return;
    case DType::U16: read<std::uint16_t>(i, memory, stride, n, plain); return;
    case DType::U8:
    case DType::U4:
    case DType::U2: read<std::uint8_t>(i, memory, stride, n, plain); return;
    case DType::Bool:
      read<std::uint8_t>(i, memory, stride, n, [](std::uint8_t x) { return I{x != 0}; });
      return;
    case DType::String: internal_error("load_lanes: strings have no lanes");
  }
}

void store_lanes(DType dtype, std::byte* memory, std::int64_t stride, const void* lanes, int n) {
  const auto* f = static_cast<const float*>(lanes);
  const auto* i = static_cast<const I*>(lanes);
  switch (dtype) {
    case DType::F64:
      write<double>(memory, stride, static_cast<const double*>(lanes), n, [](double x) { return x; });
      return;
    case DType::F32: write<float>(memory, stride, f, n, [](float x) { return x; }); return;
    case DType::F16: write<std::uint16_t>(memory, stride, f, n, f32_to_f16); return;
    case DType::BF16: write<std::uint16_t>(memory, stride, f, n, f32_to_bf16); return;
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0:
    case DType::F4E2M1:
      write<std::uint8_t>(memory, stride, f, n,
                          [dtype](float x) { return f32_to_small_float(dtype, x, false); });
      return;
    case DType::I64: write<I>(memory, stride, i, n, [](I x) { return x; }); return;
    case DType::I32:
      write<std::int32_t>(memory, stride, i, n, [](I x) { return static_cast<std::int32_t>(x); });
      return;
    case DType::I16:
      write<std::int16_t>(memory, stride, i, n, [](I x) { return static_cast<std::int16_t>(x); });
      return;
    case DType::I8:
    case DType::I4:
    case DType::I2:
      write<std::int8_t>(memory, stride, i, n, [](I x) { return static_cast<std::int8_t>(x); });
      return;
    case DType::U64: write<U>(memory, stride, i, n, [](I x) { return as_unsigned(x); }); return;
    case DType::U32:
      write<std::uint32_t>(memory, stride, i, n, [](I x) { return static_cast<std::uint32_t>(x); });
      return;
    case DType::U16:
      write<std::uint16_t>(memory, stride, i, n, [](I x) { return static_cast<std::uint16_t>(x); });
      return;
    case DType::U8:
    case DType::U4:
    case DType::U2:
      write<std::uint8_t>(memory, stride, i, n, [](I x) { return static_cast<std::uint8_t>(x); });
      return;
    case DType::Bool:
      write<std::uint8_t>(memory, stride, i, n, [](I x) { return static_cast<std::uint8_t>(x != 0); });
      return;
    case DType::String: internal_error("store_lanes: strings have no lanes");
  }
}

}  // namespace xyntra::te
