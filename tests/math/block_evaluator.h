// Evaluates a scalar expression for many arguments at once, a block of lanes per operation.
//
// It exists to check math definitions over all floats, so it knows f32, f64, the integers of their widths and
// bool, and takes its arguments from loads: argument i is load(BufferId(i)) with no index.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "te/expr.h"

namespace xyntra::te::testing {

inline Expr argument(int position, DType dtype) {
  return Expr::load(BufferId(static_cast<std::size_t>(position)), dtype, {});
}

class BlockEvaluator {
 public:
  static constexpr std::size_t kLanes = 256;
  template <class T>
  using Lanes = std::array<T, kLanes>;

  explicit BlockEvaluator(const Expr& result) { result_ = add(result); }

  std::size_t operations() const { return operations_; }

  template <class T>
  const Lanes<T>& run(const std::vector<const Lanes<T>*>& arguments) {
    for (Step& step : steps_) {
      if (step.node->op == ExprOp::Load) {
        slots_[step.slot].template lanes<T>() = *arguments.at(step.node->buffer.index);
      } else {
        execute(step);
      }
    }
    return slots_[result_].template lanes<T>();
  }

 private:
  struct Slot {
    alignas(64) std::array<unsigned char, kLanes * 8> bytes;
    template <class T>
    Lanes<T>& lanes() {
      return *reinterpret_cast<Lanes<T>*>(bytes.data());
    }
  };
  struct Step {
    const ExprNode* node;
    std::size_t slot;
    std::array<std::size_t, 3> operands{};
  };

  std::size_t add(const Expr& expr) {
    if (auto known = slot_of_.find(expr.address()); known != slot_of_.end()) return known->second;
    Step step{expr.address(), 0, {}};
    if (expr->op != ExprOp::Load) {
      for (std::size_t i = 0; i < expr->operands.size(); ++i) step.operands.at(i) = add(expr->operands[i]);
    }
    step.slot = slots_.size();
    slots_.emplace_back();
    slot_of_.emplace(expr.address(), step.slot);
    kept_.push_back(expr);
    if (expr->op == ExprOp::Const) {
      fill(step);
    } else {
      steps_.push_back(step);
      if (expr->op != ExprOp::Load) ++operations_;
    }
    return step.slot;
  }

  template <class Visitor>
  static void with_type(DType dtype, Visitor visit) {
    switch (dtype) {
      case DType::F32: return visit(float{});
      case DType::F64: return visit(double{});
      case DType::I32: return visit(std::int32_t{});
      case DType::I64: return visit(std::int64_t{});
      case DType::U32: return visit(std::uint32_t{});
      case DType::U64: return visit(std::uint64_t{});
      case DType::Bool: return visit(std::uint8_t{});
      default: throw std::logic_error("block evaluator: unexpected dtype");
    }
  }

  void fill(const Step& step) {
    with_type(step.node->dtype, [&](auto zero) {
      using T = decltype(zero);
      T value = std::is_floating_point_v<T> ? static_cast<T>(step.node->float_value)
                                            : static_cast<T>(step.node->int_value);
      slots_[step.slot].template lanes<T>().fill(value);
    });
  }

  template <class In, class Out, class Function>
  void unary(const Step& step, Function function) {
    const auto& a = slots_[step.operands[0]].template lanes<In>();
    auto& out = slots_[step.slot].template lanes<Out>();
    for (std::size_t i = 0; i < kLanes; ++i) out[i] = static_cast<Out>(function(a[i]));
  }

  template <class In, class Out, class Function>
  void binary(const Step& step, Function function) {
    const auto& a = slots_[step.operands[0]].template lanes<In>();
    const auto& b = slots_[step.operands[1]].template lanes<In>();
    auto& out = slots_[step.slot].template lanes<Out>();
    for (std::size_t i = 0; i < kLanes; ++i) out[i] = static_cast<Out>(function(a[i], b[i]));
  }

  template <class T>
  void select_lanes(const Step& step) {
    const auto& condition = slots_[step.operands[0]].template lanes<std::uint8_t>();
    const auto& a = slots_[step.operands[1]].template lanes<T>();
    const auto& b = slots_[step.operands[2]].template lanes<T>();
    auto& out = slots_[step.slot].template lanes<T>();
    for (std::size_t i = 0; i < kLanes; ++i) out[i] = condition[i] != 0 ? a[i] : b[i];
  }

  // Truncates and saturates; NaN gives 0.
  template <class To, class From>
  static To converted(From value) {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      if (value != value) return 0;
      if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
      if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    }
    return static_cast<To>(value);
  }

  void execute(const Step& step) {
    DType in = step.node->operands.back().dtype();
    with_type(in, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (std::is_floating_point_v<T>) {
        if (execute_float<T>(step)) return;
      } else {
        if (execute_integer<T>(step)) return;
      }
      execute_any<T>(step);
    });
  }

  template <class T>
  void execute_any(const Step& step) {
    using Bool = std::uint8_t;
    switch (step.node->op) {
      case ExprOp::Select: return select_lanes<T>(step);
      case ExprOp::Less: return binary<T, Bool>(step, [](T a, T b) { return a < b; });
      case ExprOp::LessEqual: return binary<T, Bool>(step, [](T a, T b) { return a <= b; });
      case ExprOp::Greater: return binary<T, Bool>(step, [](T a, T b) { return a > b; });
      case ExprOp::GreaterEqual: return binary<T, Bool>(step, [](T a, T b) { return a >= b; });
      case ExprOp::Equal: return binary<T, Bool>(step, [](T a, T b) { return a == b; });
      case ExprOp::NotEqual: return binary<T, Bool>(step, [](T a, T b) { return a != b; });
      case ExprOp::Bitcast: slots_[step.slot].bytes = slots_[step.operands[0]].bytes; return;
      case ExprOp::Cast:
        return with_type(step.node->dtype, [&](auto zero) {
          using To = decltype(zero);
          unary<T, To>(step, [](T a) { return converted<To>(a); });
        });
      default: throw std::logic_error(std::string("block evaluator: no ") + spelling_of(step.node->op));
    }
  }

  template <class T>
  bool execute_float(const Step& step) {
    switch (step.node->op) {
      case ExprOp::Add: binary<T, T>(step, [](T a, T b) { return a + b; }); return true;
      case ExprOp::Sub: binary<T, T>(step, [](T a, T b) { return a - b; }); return true;
      case ExprOp::Mul: binary<T, T>(step, [](T a, T b) { return a * b; }); return true;
      case ExprOp::Div: binary<T, T>(step, [](T a, T b) { return a / b; }); return true;
      case ExprOp::Min: binary<T, T>(step, [](T a, T b) { return a != a || a < b ? a : b; }); return true;
      case ExprOp::Max: binary<T, T>(step, [](T a, T b) { return a != a || a > b ? a : b; }); return true;
      case ExprOp::Neg: unary<T, T>(step, [](T a) { return -a; }); return true;
      case ExprOp::Abs: unary<T, T>(step, [](T a) { return std::fabs(a); }); return true;
      case ExprOp::Sqrt: unary<T, T>(step, [](T a) { return std::sqrt(a); }); return true;
      case ExprOp::Floor: unary<T, T>(step, [](T a) { return std::floor(a); }); return true;
      case ExprOp::Round: unary<T, T>(step, [](T a) { return std::nearbyint(a); }); return true;
      case ExprOp::IsNan: unary<T, std::uint8_t>(step, [](T a) { return a != a; }); return true;
      case ExprOp::Fma: {
        const auto& a = slots_[step.operands[0]].template lanes<T>();
        const auto& b = slots_[step.operands[1]].template lanes<T>();
        const auto& c = slots_[step.operands[2]].template lanes<T>();
        auto& out = slots_[step.slot].template lanes<T>();
        for (std::size_t i = 0; i < kLanes; ++i) out[i] = std::fma(a[i], b[i], c[i]);
        return true;
      }
      default: return false;
    }
  }

  template <class T>
  bool execute_integer(const Step& step) {
    using U = std::conditional_t<sizeof(T) == 1, std::uint8_t, std::make_unsigned_t<T>>;
    auto u = [](T a) { return static_cast<U>(a); };
    constexpr U kWidth = sizeof(T) * 8;
    switch (step.node->op) {
      case ExprOp::Add:
        binary<T, T>(step, [=](T a, T b) { return static_cast<T>(u(a) + u(b)); });
        return true;
      case ExprOp::Sub:
        binary<T, T>(step, [=](T a, T b) { return static_cast<T>(u(a) - u(b)); });
        return true;
      case ExprOp::Mul:
        binary<T, T>(step, [=](T a, T b) { return static_cast<T>(u(a) * u(b)); });
        return true;
      case ExprOp::And: binary<T, T>(step, [](T a, T b) { return a & b; }); return true;
      case ExprOp::Or: binary<T, T>(step, [](T a, T b) { return a | b; }); return true;
      case ExprOp::Xor: binary<T, T>(step, [](T a, T b) { return a ^ b; }); return true;
      case ExprOp::Min: binary<T, T>(step, [](T a, T b) { return a < b ? a : b; }); return true;
      case ExprOp::Max: binary<T, T>(step, [](T a, T b) { return a > b ? a : b; }); return true;
      case ExprOp::Neg: unary<T, T>(step, [=](T a) { return static_cast<T>(U{0} - u(a)); }); return true;
      case ExprOp::Not:
        if (step.node->dtype == DType::Bool) {
          unary<T, T>(step, [](T a) { return a == 0; });
        } else {
          unary<T, T>(step, [](T a) { return static_cast<T>(~a); });
        }
        return true;
      case ExprOp::ShiftLeft:
        binary<T, T>(step, [=](T a, T b) { return u(b) < kWidth ? static_cast<T>(u(a) << u(b)) : T{0}; });
        return true;
      case ExprOp::ShiftRight:
        binary<T, T>(step, [=](T a, T b) { return static_cast<T>(u(b) < kWidth ? a >> b : a < 0 ? -1 : 0); });
        return true;
      default: return false;
    }
  }

  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<Expr> kept_;
  std::unordered_map<const ExprNode*, std::size_t> slot_of_;
  std::size_t result_ = 0;
  std::size_t operations_ = 0;
};

}  // namespace xyntra::te::testing
