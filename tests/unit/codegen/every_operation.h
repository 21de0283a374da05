// Every operation on every dtype, on special and random values, and what the reference evaluator makes of them: what a
// backend's own results are held against, bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "interp/execute.h"
#include "kir/kernel.h"
#include "te/walk.h"

namespace xyntra {
namespace {

using te::Expr;
using te::ExprOp;
using te::VarId;

constexpr std::int64_t kCount = 531;  // no multiple of any vector length

// Bit patterns of a dtype: those where things happen, then random ones.
inline std::vector<std::uint64_t> patterns(DType dtype, unsigned seed) {
  std::vector<std::uint64_t> found;
  const int bits = bits_of(dtype);
  std::mt19937_64 random(seed);
  auto add = [&](std::uint64_t pattern) {
    found.push_back(bits == 64 ? pattern : pattern & ((1ull << bits) - 1));
  };
  if (dtype == DType::Bool) {
    for (std::int64_t i = 0; i < kCount; ++i) found.push_back(random() & 1);
    return found;
  }
  if (dtype == DType::F32) {
    for (float x : {0.0F,   1.0F,         0.5F,          1.5F,       2.5F,     3.0F,    0.3F,    1e-45F,
                    1e-38F, 1e30F,        3.4028234e38F, 8388608.5F, 255.5F,   65504.F, 65520.F, 448.F,
                    464.F,  2147483648.F, 9.3e18F,       1.9e19F,    INFINITY, NAN}) {
      add(std::bit_cast<std::uint32_t>(x));
      add(std::bit_cast<std::uint32_t>(-x));
    }
  } else if (dtype == DType::F64) {
    for (double x : {0.0,
                     1.0,
                     0.5,
                     1.5,
                     2.5,
                     3.0,
                     0.3,
                     5e-324,
                     1e-308,
                     1e300,
                     1.7976931348623157e308,
                     65519.999999999,
                     65520.0,
                     6e-8,
                     2.98e-8,
                     3.4028235677973366e38,
                     9.3e18,
                     1.9e19,
                     1e-46,
                     1.00048828125000001,
                     double(INFINITY),
                     double(NAN)}) {
      add(std::bit_cast<std::uint64_t>(x));
      add(std::bit_cast<std::uint64_t>(-x));
    }
  } else if (dtype == DType::F16 || dtype == DType::BF16) {
    for (std::uint64_t x : {0x0000, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x3e00, 0x7bff, 0x7c00, 0x7e00, 0x7e01,
                            0x3f80, 0x3fc0, 0x7f7f, 0x7f80, 0x7fc0, 0x7fc1, 0x0080}) {
      add(x);
      add(x | 0x8000);
    }
  } else if (bits > 8) {
    for (std::uint64_t x : {0ull, 1ull, 2ull, 3ull, 7ull, 8ull, 31ull, 32ull, 63ull, 64ull, 100ull}) {
      add(x);
      add(-x);
      add((1ull << (bits - 1)) + x);
      add((1ull << (bits - 1)) - x);
    }
  }
  auto is_signalling = [&](std::uint64_t x) {  // what becomes of one is left to the machine
    if (dtype == DType::F32) return (x & 0x7fc00000) == 0x7f800000 && (x & 0x3fffff) != 0;
    if (dtype == DType::F64)
      return (x & 0x7ff8000000000000) == 0x7ff0000000000000 && (x & 0x7ffffffffffff) != 0;
    if (bits == 16) {  // integers too, since they are read as floats by bitcast
      return ((x & 0x7e00) == 0x7c00 && (x & 0x1ff) != 0) || ((x & 0x7fc0) == 0x7f80 && (x & 0x3f) != 0);
    }
    if (dtype == DType::F8E5M2) return (x & 0x7e) == 0x7c && (x & 1) != 0;
    return false;
  };
  while (static_cast<std::int64_t>(found.size()) < kCount) {
    std::uint64_t x = bits <= 8 ? found.size() * 7 + seed : random();
    if (dtype == DType::F32 && random() % 2 == 0) {
      x = std::bit_cast<std::uint32_t>(std::uniform_real_distribution<float>(-300, 300)(random));
    }
    if (dtype == DType::F64 && random() % 2 == 0) {
      x = std::bit_cast<std::uint64_t>(std::uniform_real_distribution<double>(-70000, 70000)(random));
    }
    if (bits > 8 && !is_float(dtype) && random() % 2 == 0) x >>= random() % static_cast<unsigned>(bits);
    if (is_signalling(bits == 64 ? x : x & ((1ull << bits) - 1))) x = 0;
    add(x);
  }
  std::shuffle(found.begin(), found.end(), random);
  return found;
}

inline std::vector<std::byte> bytes_of(DType dtype, const std::vector<std::uint64_t>& elements) {
  const std::size_t bits = static_cast<std::size_t>(bits_of(dtype));
  std::vector<std::byte> bytes((elements.size() * bits + 7) / 8);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const std::size_t at = i * bits + bit;
      if ((elements[i] >> bit & 1) != 0) bytes[at / 8] |= std::byte(1u << at % 8);
    }
  }
  return bytes;
}

inline std::uint64_t element(DType dtype, std::span<const std::byte> bytes, std::int64_t index) {
  const std::size_t bits = static_cast<std::size_t>(bits_of(dtype));
  std::uint64_t found = 0;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const std::size_t at = static_cast<std::size_t>(index) * bits + bit;
    if ((bytes[at / 8] >> (at % 8) & std::byte(1)) != std::byte(0)) found |= 1ull << bit;
  }
  return found;
}

struct Case {
  std::string name;
  Expr body;  // of the operands x[i]
};

struct Operations {
  std::vector<DType> operands;
  te::Axis axis;
  te::Builder builder{"operations"};
  std::vector<te::Buffer> inputs;
  std::vector<Case> cases;

  explicit Operations(std::vector<DType> dtypes) : operands(std::move(dtypes)) {
    axis = builder.axis(kCount);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(builder.input(static_cast<int>(i), "x" + std::to_string(i), operands[i], {kCount}));
    }
  }
  Expr operand(std::size_t i) const { return inputs[i](axis.expr()); }
  void add(std::string name, Expr body) { cases.push_back({std::move(name), std::move(body)}); }
};

// The cases as a kernel: width 1 is a scalar loop; otherwise vectors with the rest under a mask.
inline kir::Kernel kernel_of(const Operations& operations, std::int64_t width) {
  kir::Kernel kernel{"operations", {}, {}, {}};
  auto fresh = [&kernel](const char* prefix) { return prefix + std::to_string(kernel.buffers.size()); };
  for (DType dtype : operations.operands)
    kir::add_buffer(kernel, {fresh("x"), dtype, {kCount}, kir::Scope::Global, false, {}});
  const bool whole = kCount % width == 0;
  VarId i = kir::add_variable(kernel, "i", (kCount + width - 1) / width);
  VarId l = kir::add_variable(kernel, "l", width);
  Expr at = width == 1 ? Expr::variable(i) : Expr::variable(i) * width + Expr::variable(l);
  std::vector<kir::Stmt> stores;
  for (const Case& one : operations.cases) {
    kir::BufferId out =
        kir::add_buffer(kernel, {fresh("y"), one.body.dtype(), {kCount}, kir::Scope::Global, true, {}});
    stores.push_back(
        kir::Stmt::store(out, {at}, te::substituted(one.body, {{operations.axis.id.index, at}})));
  }
  kir::Stmt body = kir::Stmt::block(std::move(stores));
  if (!whole) body = kir::Stmt::branch(at < Expr::index(kCount), body);
  if (width != 1) body = kir::Stmt::loop(kir::LoopKind::Vector, l, body);
  kernel.body = kir::Stmt::loop(kir::LoopKind::Grid, i, body);
  return kernel;
}

// Operands of the operations, and the reference's results.
struct Reference {
  std::vector<std::vector<std::byte>> operand_bytes;
  std::vector<Tensor> operands, results;
};

inline Reference reference_of(Operations& operations) {
  Reference made;
  for (std::size_t i = 0; i < operations.operands.size(); ++i) {
    const DType dtype = operations.operands[i];
    made.operand_bytes.push_back(bytes_of(dtype, patterns(dtype, static_cast<unsigned>(i))));
    made.operands.push_back(*Tensor::borrow(dtype, {kCount}, made.operand_bytes.back(), nullptr));
  }
  for (std::size_t i = 0; i < operations.cases.size(); ++i) {
    const Expr& body = operations.cases[i].body;
    te::Buffer out =
        operations.builder.output(static_cast<int>(i), "y" + std::to_string(i), body.dtype(), {kCount});
    operations.builder.write(out, {operations.axis}, body);
  }
  auto formula = interp::CompiledFormula::compile(std::move(operations.builder).finish(), {});
  EXPECT_TRUE(formula.has_value()) << formula.error().to_string();
  auto results = formula->run(made.operands, operations.cases.size(), ThreadPool::shared(), nullptr);
  EXPECT_TRUE(results.has_value()) << results.error().to_string();
  made.results = std::move(*results);
  return made;
}

inline void expect_same(const Operations& operations, const Reference& reference, std::size_t number,
                        std::span<const std::byte> found, const std::string& where) {
  const DType dtype = operations.cases[number].body.dtype();
  std::span<const std::byte> wanted = reference.results[number].bytes();
  int shown = 0;
  for (std::int64_t i = 0; i < kCount && shown < 3; ++i) {
    if (element(dtype, found, i) == element(dtype, wanted, i)) continue;
    ++shown;
    std::string text;
    for (std::size_t o = 0; o < reference.operands.size(); ++o) {
      text += (o == 0 ? "" : ", ") + std::to_string(reference.operands[o].element_as_f64(i));
    }
    ADD_FAILURE() << operations.cases[number].name << "(" << text << ") as " << name_of(dtype) << ": "
                  << std::hex << element(dtype, found, i) << ", not " << element(dtype, wanted, i)
                  << " (operand " << element(operations.operands[0], reference.operand_bytes[0], i) << "), "
                  << where;
  }
}

inline bool defined_on(ExprOp op, DType dtype) {
  const bool of_floats = op == ExprOp::Sqrt;
  const bool of_integers = op == ExprOp::Not || op == ExprOp::And || op == ExprOp::Or || op == ExprOp::Xor ||
                           op == ExprOp::ShiftLeft || op == ExprOp::ShiftRight;
  return is_float(dtype) ? !of_integers : !of_floats;
}

constexpr ExprOp kArithmetic[] = {
    ExprOp::Fma,   ExprOp::Neg,      ExprOp::Not,  ExprOp::Abs,       ExprOp::Floor,     ExprOp::Ceil,
    ExprOp::Round, ExprOp::Trunc,    ExprOp::Sqrt, ExprOp::Add,       ExprOp::Sub,       ExprOp::Mul,
    ExprOp::Div,   ExprOp::FloorDiv, ExprOp::Mod,  ExprOp::Rem,       ExprOp::Min,       ExprOp::Max,
    ExprOp::And,   ExprOp::Or,       ExprOp::Xor,  ExprOp::ShiftLeft, ExprOp::ShiftRight};
constexpr ExprOp kCompare[] = {ExprOp::Less,         ExprOp::LessEqual, ExprOp::Greater,
                               ExprOp::GreaterEqual, ExprOp::Equal,     ExprOp::NotEqual};

inline std::size_t operand_count(ExprOp op) {
  switch (op) {
    case ExprOp::Fma: return 3;
    case ExprOp::Neg:
    case ExprOp::Not:
    case ExprOp::Abs:
    case ExprOp::Floor:
    case ExprOp::Ceil:
    case ExprOp::Round:
    case ExprOp::Trunc:
    case ExprOp::Sqrt: return 1;
    default: return 2;
  }
}

inline Operations arithmetic_on(DType dtype) {
  Operations operations({dtype, dtype, dtype});
  const std::vector<Expr> x = {operations.operand(0), operations.operand(1), operations.operand(2)};
  for (ExprOp op : kArithmetic) {
    if (!defined_on(op, dtype)) continue;
    std::vector<Expr> some(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(operand_count(op)));
    operations.add(te::spelling_of(op), Expr::make(op, std::move(some)));
  }
  for (ExprOp op : kCompare) operations.add(te::spelling_of(op), Expr::make(op, {x[0], x[1]}));
  operations.add("copy", x[0]);
  operations.add("select", te::select(x[0] < x[1], x[1], x[2]));
  if (is_float(dtype)) {
    operations.add("isnan", te::is_nan(x[0]));
    operations.add("isinf", te::is_inf(x[0]));
    operations.add("-(x - y)", -(x[0] - x[1]));
    operations.add("select of sums", te::select(x[0] < x[1], x[1] + x[2], te::abs(x[2] * x[0])));
    if (dtype != DType::F8E8M0) {
      for (double constant : {0.0, -0.0, 1.0, -2.0}) {
        operations.add("max constant", te::max(x[0], Expr::floating(dtype, constant)));
        operations.add("min constant", te::min(Expr::floating(dtype, constant), x[0]));
      }
    }
  } else if (dtype != DType::Bool) {
    for (std::int64_t constant : {1, -1, 0, 3, -2}) {
      for (ExprOp op : {ExprOp::Div, ExprOp::FloorDiv, ExprOp::Rem, ExprOp::Mod, ExprOp::ShiftLeft}) {
        operations.add(std::string("by constant ") + te::spelling_of(op),
                       Expr::make(op, {x[0], te::cast(dtype, Expr::index(constant))}));
      }
    }
  }
  return operations;
}

inline Operations casts_of(DType from) {
  Operations operations({from});
  const Expr x = operations.operand(0);
  for (DType to : all_dtypes()) {
    if (to == from) continue;
    const std::string name = "to " + std::string(name_of(to));
    operations.add(name, te::cast(to, x));
    if (is_float(to) && bits_of(to) <= 8) {
      operations.add(name + " unsaturated", te::cast(to, x, {false, 0}));
      operations.add(name + " down", te::cast(to, x, {true, 2}));
    }
    if (bits_of(to) == bits_of(from)) operations.add("bits of " + name, te::bitcast(to, x));
  }
  return operations;
}

}  // namespace
}  // namespace xyntra
