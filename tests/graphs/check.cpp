#include "graphs/check.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/pipeline.h"
#include "fusion/execute.h"
#include "interp/evaluator.h"
#include "target/target.h"

namespace xyntra::graphs {
namespace {

constexpr const char* kTargets[] = {"avx512", "neon", "webgpu", "h100"};

EvaluatorOptions on_one_thread() {
  EvaluatorOptions options;
  options.threads = 1;
  options.in_order = true;
  return options;
}

bool same_element(const Tensor& a, const Tensor& b, std::int64_t i) {
  if (!is_float(a.dtype())) return a.element_as_i64(i) == b.element_as_i64(i);
  double x = a.element_as_f64(i), y = b.element_as_f64(i);
  if (x != x || y != y) return x != x && y != y;
  return x == y && std::signbit(x) == std::signbit(y);
}

std::string place_in(const Tensor& tensor, std::int64_t element) {
  std::string text;
  for (std::size_t d = tensor.dims().size(); d-- > 0;) {
    text = std::to_string(element % tensor.dims()[d]) + (text.empty() ? "" : ", ") + text;
    element /= tensor.dims()[d];
  }
  return "[" + text + "]";
}

// Nothing when the bits are the same; any NaN is as good as another.
std::optional<std::string> difference_in_bits(const Tensor& actual, const Tensor& expected) {
  if (actual.dtype() != expected.dtype() || actual.dims() != expected.dims()) return "another dtype or shape";
  if (std::ranges::equal(actual.bytes(), expected.bytes())) return std::nullopt;
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    if (same_element(actual, expected, i)) continue;
    return "at " + place_in(actual, i) + " " + std::to_string(actual.element_as_f64(i)) + ", expected " +
           std::to_string(expected.element_as_f64(i));
  }
  return std::nullopt;
}

class Checker {
 public:
  explicit Checker(const Subject& subject) : subject_(subject) {}

  Outcome run() {
    auto evaluator = Evaluator::create(subject_.graph, on_one_thread());
    auto expected = evaluator ? evaluator->run(subject_.inputs) : failure(evaluator.error());
    if (!expected) {
      outcome_.refused = true;
      if (expected.error().error_class == ErrorClass::Internal)
        fail(Outcome::Kind::Broken, "reference", expected.error().message);
      return outcome_;
    }
    expected_ = std::move(*expected);
    for (const char* target : kTargets) {
      compare(target, true);
      if (!outcome_.failure.empty()) return outcome_;
    }
    compare("avx512", false);
    return outcome_;
  }

 private:
  void fail(Outcome::Kind kind, const std::string& what, const std::string& how) {
    outcome_.kind = kind;
    outcome_.failure = what + ": " + how;
  }

  // Plans that group the same nodes compute the same formulas.
  static std::string shape_of_plan(const Plan& plan) {
    std::string text;
    for (const Group& group : plan.groups) {
      text += '|';
      for (NodeId node : group.nodes) text += std::to_string(node.index) + ",";
      for (ValueId value : group.outputs) text += "v" + std::to_string(value.index);
    }
    return text;
  }

  void compare(const char* target, bool fused) {
    const std::string what = std::string(fused ? "fused for " : "one group for each node, ") + target;
    CompileOptions options;
    options.target = *find_target(target);
    options.fusion.enabled = fused;
    options.rewrite.enabled = false;
    options.rewrite.fold_limit = 0;  // folding sums as is fastest, not in order
    auto plan = make_plan(subject_.graph, options);
    if (!plan) return fail(Outcome::Kind::NoPlan, what, plan.error().to_string());
    if (!seen_.insert(shape_of_plan(*plan)).second) return;
    outcome_.nodes = std::max(outcome_.nodes, plan->graph.node_count());
    if (fused) outcome_.groups = plan->groups.size();
    auto runner = PlanRunner::create(*plan, on_one_thread());
    if (!runner) return fail(Outcome::Kind::DoesNotRun, what, runner.error().to_string());
    auto actual = runner->run(subject_.inputs);
    if (!actual) return fail(Outcome::Kind::DoesNotRun, what, actual.error().to_string());
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      auto difference = difference_in_bits((*actual)[i].tensor, expected_[i].tensor);
      if (!difference) continue;
      return fail(Outcome::Kind::Differs, what,
                  "output %" + subject_.graph.value(subject_.graph.outputs[i]).name + " " + *difference);
    }
  }

  const Subject& subject_;
  std::vector<Datum> expected_;
  std::set<std::string> seen_;
  Outcome outcome_;
};

}  // namespace

Outcome check(const Subject& subject) {
  try {
    return Checker(subject).run();
  } catch (const InternalError& error) {
    Outcome outcome;
    outcome.kind = Outcome::Kind::Broken;
    outcome.failure = "internal error: " + error.message();
    return outcome;
  }
}

}  // namespace xyntra::graphs
