#include "rewrite/rules/check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "interp/evaluator.h"
#include "ir/text.h"
#include "rewrite/rules/instance.h"
#include "rewrite/rules/rule_set.h"

namespace xyntra {
namespace {

// What kind of values the inputs hold.
enum class Values : std::uint8_t { Ordinary, Special, SpecialAndHuge };

Tensor draw_values(const Type& type, Values values, Random& random) {
  static constexpr std::array kSpecial = {std::numeric_limits<double>::quiet_NaN(),
                                          HUGE_VAL,
                                          -HUGE_VAL,
                                          0.0,
                                          -0.0,
                                          1e-40,
                                          -6e-8,
                                          1e30,
                                          -1e30,
                                          65504.0,
                                          1.0,
                                          -1.0,
                                          0.5,
                                          2.0,
                                          3e38,
                                          -3e38};
  const std::size_t choices = kSpecial.size() - (values == Values::SpecialAndHuge ? 0 : 2);
  auto made = Tensor::allocate(type.dtype, *static_dims(*type.shape));
  if (!made) internal_error("check: " + made.error().message);
  std::normal_distribution<double> normal(0, 1);
  const double scale = random() % 4 == 0 ? 8 : 1;
  for (std::int64_t i = 0; i < made->count(); ++i) {
    if (is_float(type.dtype)) {
      const bool special = values != Values::Ordinary && random() % 3 == 0;
      made->set_element_f64(i, special ? kSpecial.at(random() % choices) : scale * normal(random));
    } else if (is_bool(type.dtype)) {
      made->set_element_i64(i, static_cast<std::int64_t>(random() % 2));
    } else {
      made->set_element_i64(
          i, static_cast<std::int64_t>(random() % 200) - (is_signed_integer(type.dtype) ? 100 : 0));
    }
  }
  return std::move(*made);
}

Result<Tensor> evaluate(const Graph& graph, std::span<const Datum> inputs, bool float64) {
  EvaluatorOptions options;
  options.threads = 1;
  options.float64 = float64;
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, options));
  XYNTRA_TRY(auto outputs, evaluator.run(inputs));
  return outputs.at(0).tensor;
}

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::F64: return 0x1p-52;
    case DType::F16: return 0x1p-10;
    case DType::BF16: return 0x1p-7;
    default: return 0x1p-23;
  }
}

double largest(const Tensor& tensor) {
  double most = 0;
  if (!is_float(tensor.dtype())) return most;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const double value = std::abs(tensor.element_as_f64(i));
    if (std::isfinite(value)) most = std::max(most, value);
  }
  return most;
}

class Comparison {
 public:
  Comparison(const RuleText& rule, const Instance& instance, Values values)
      : class_(class_on(rule, instance.dtype)),
        instance_(instance),
        elementwise_(is_elementwise(instance.left)),
        values_(values == Values::Special && elementwise_ ? Values::SpecialAndHuge : values) {}

  // Empty, or what is wrong.
  std::string run(Random& random) {
    std::vector<Datum> inputs;
    double scale = 0;
    for (ValueId input : instance_.left.inputs) {
      inputs.push_back(Datum::of(draw_values(instance_.left.value(input).type, values_, random)));
      scale = std::max(scale, largest(inputs.back().tensor));
    }
    for (std::size_t v = 0; v < instance_.left.value_count(); ++v) {
      const Value& value = instance_.left.value(ValueId(v));
      if (value.is_constant()) scale = std::max(scale, largest(value.constant));
    }
    const auto left = evaluate(instance_.left, inputs, false),
               right = evaluate(instance_.right, inputs, false);
    if (!left) return "";  // the left side itself fails, for example by an index out of range
    if (!right) return "the right side fails: " + right.error().message;
    if (left->dtype() != right->dtype() || left->dims() != right->dims()) return "the types differ";
    compared_ = left->count();
    if (class_ != RuleClass::Exact && rounds_to_integers(instance_.left))
      return within_a_quantum(*left, *right);
    if (class_ == RuleClass::Exact || !is_float(left->dtype())) return same_bits(*left, *right);
    const auto oracle = evaluate(instance_.left, inputs, true);
    if (!oracle) return "the oracle fails: " + oracle.error().message;
    return close(*left, *right, *oracle, std::max(scale, largest(*oracle)));
  }
  std::int64_t compared() const { return compared_; }

 private:
  static std::string at(std::int64_t i, double left, double right) {
    return "element " + std::to_string(i) + " is " + std::to_string(left) + " on the left, " +
           std::to_string(right) + " on the right";
  }
  static bool is_elementwise(const Graph& graph) {
    const auto nodes = graph.node_ids();
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](NodeId id) { return find_op(graph.node(id).op)->has(kElementwise); });
  }
  // The same real number, rounded in another order before it is rounded to an integer.
  static bool rounds_to_integers(const Graph& graph) {
    const NodeId last = graph.value(graph.outputs[0]).producer;
    return last.valid() && graph.node(last).op == "QuantizeLinear";
  }
  static std::string within_a_quantum(const Tensor& left, const Tensor& right) {
    for (std::int64_t i = 0; i < left.count(); ++i) {
      const std::int64_t a = left.element_as_i64(i), b = right.element_as_i64(i);
      if (std::abs(a - b) > 1) return at(i, static_cast<double>(a), static_cast<double>(b));
    }
    return "";
  }
  static std::string same_bits(const Tensor& left, const Tensor& right) {
    for (std::int64_t i = 0; i < left.count(); ++i) {
      const double a = left.element_as_f64(i), b = right.element_as_f64(i);
      if (std::isnan(a) && std::isnan(b)) continue;
      if (a != b || std::signbit(a) != std::signbit(b)) return at(i, a, b);
      if (is_integer(left.dtype()) && left.element_as_i64(i) != right.element_as_i64(i)) return at(i, a, b);
    }
    return "";
  }
  std::string close(const Tensor& left, const Tensor& right, const Tensor& oracle, double scale) const {
    double worst_left = 0;
    for (std::int64_t i = 0; i < left.count(); ++i) {
      const double error = std::abs(left.element_as_f64(i) - oracle.element_as_f64(i));
      if (std::isfinite(error)) worst_left = std::max(worst_left, error);
    }
    const double allowed = class_ == RuleClass::PrecisionChanging
                               ? 0.05 * (scale + 1)
                               : 2 * worst_left + 4 * unit_of(left.dtype()) * std::max(scale, 0x1p-120);
    for (std::int64_t i = 0; i < left.count(); ++i) {
      const double a = left.element_as_f64(i), b = right.element_as_f64(i), o = oracle.element_as_f64(i);
      if (class_ == RuleClass::PrecisionChanging && values_ != Values::Ordinary) continue;
      // Where the left side overflowed into NaN, a rule that changes precision may do better.
      if (class_ == RuleClass::PrecisionChanging && std::isnan(a)) continue;
      if (std::isnan(a) != std::isnan(b)) return at(i, a, b);
      // What overflows on one side only is a rounding of a sum; element by element it is another result.
      const bool strict = elementwise_ && class_ != RuleClass::PrecisionChanging;
      if (strict && std::isinf(a) != std::isinf(b)) return at(i, a, b);
      // The reciprocals of 0 and -0 are different infinities.
      const bool signed_alone = (std::isinf(a) && std::isinf(b)) || (a == 0 && b == 0);
      if (strict && signed_alone && std::signbit(a) != std::signbit(b)) return at(i, a, b);
      if (std::isnan(a) || !std::isfinite(a) || !std::isfinite(b) || !std::isfinite(o)) continue;
      if (values_ == Values::Ordinary && std::abs(b - o) > allowed) return at(i, a, b);
    }
    return "";
  }

  RuleClass class_;
  const Instance& instance_;
  bool elementwise_;
  Values values_;
  std::int64_t compared_ = 0;
};

}  // namespace

RuleCheck check_rule(const ParsedRule& rule, const CheckOptions& options) {
  RuleCheck result;
  auto example = parse_example(rule.text.example);
  if (!example) {
    result.failure = example.error().message;
    return result;
  }
  Random random(options.seed);
  for (int attempt = 0; attempt < options.attempts && result.instances < options.instances; ++attempt) {
    const auto instance = draw_instance(rule, *example, random);
    if (!instance) continue;
    ++result.instances;
    if (instance->endless) {
      result.failure = "it applies to its own result without end\n" + print_xir(instance->left);
      return result;
    }
    for (const Values values : {Values::Ordinary, Values::Special, Values::Special}) {
      Comparison comparison(rule.text, *instance, values);
      const std::string wrong = comparison.run(random);
      result.comparisons += comparison.compared();
      if (wrong.empty()) continue;
      result.failure = wrong + "\n" + print_xir(instance->left) + print_xir(instance->right);
      return result;
    }
  }
  if (result.instances == 0) result.failure = "it never fires";
  return result;
}

}  // namespace xyntra
