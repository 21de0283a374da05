#include "graphs/check.h"
#include "codegen/llvm/emit.h"
#include "compiler/compiled/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "backends/make_runner.h"
#include "compiler/lower_plan.h"
#include "compiler/pipeline.h"
#include "fusion/execute.h"
#include "graphs/accuracy.h"
#include "interp/evaluator.h"
#include "schedule/convolution/winograd.h"
#include "schedule/knobs.h"
#include "support/text/text.h"
#include "target/target.h"

namespace xyntra::graphs {
namespace {

constexpr const char* kTargets[] = {"avx512", "neon", "webgpu", "h100", "amx"};

// Where a rounding error becomes another answer: what follows from these says nothing about errors.
constexpr std::string_view kJumps[] = {"Sign",
                                       "Ceil",
                                       "Floor",
                                       "Round",
                                       "Equal",
                                       "Less",
                                       "Greater",
                                       "LessOrEqual",
                                       "GreaterOrEqual",
                                       "Mod",
                                       "ArgMax",
                                       "ArgMin",
                                       "Hardmax",
                                       "TopK",
                                       "NonZero",
                                       "Cast",
                                       "IsNaN",
                                       "IsInf",
                                       "ThresholdedRelu",
                                       "Shrink",
                                       "MaxPool",
                                       "QuantizeLinear",
                                       "DynamicQuantizeLinear"};

EvaluatorOptions on_one_thread(bool in_order) {
  EvaluatorOptions options;
  options.threads = 1;
  options.in_order = in_order;
  return options;
}

Result<std::vector<Datum>> run_unfused(const Subject& subject, const EvaluatorOptions& options) {
  XYNTRA_TRY(Evaluator evaluator, Evaluator::create(subject.graph, options));
  return evaluator.run(subject.inputs);
}

// Which outputs follow from floats that are known before it runs: folding sums them as is fastest, not in order.
std::vector<bool> outputs_that_fold(const Graph& graph) {
  std::vector<bool> known(graph.value_count(), false), folds(graph.value_count(), false);
  for (std::size_t v = 0; v < known.size(); ++v) known[v] = graph.value(ValueId(v)).is_constant();
  const std::vector<NodeId> order = *graph.topological_order();
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    bool all = true, any = false;
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      all = all && known[input.index];
      any = any || folds[input.index];
    }
    for (ValueId output : node.outputs) {
      if (!output.valid()) continue;
      known[output.index] = all || node.op == "Shape" || node.op == "Size";  // sizes are often known
      folds[output.index] = any || (known[output.index] && is_float(graph.value(output).type.dtype));
    }
  }
  std::vector<bool> result;
  for (ValueId output : graph.outputs) result.push_back(folds[output.index]);
  return result;
}

// Which outputs follow from an operation that jumps, fed by floats.
std::vector<bool> outputs_that_jump(const Graph& graph) {
  std::vector<bool> jumps(graph.value_count(), false);
  const std::vector<NodeId> order = *graph.topological_order();
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    bool any = false;
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      bool itself = std::ranges::find(kJumps, node.op) != std::end(kJumps);
      any = any || jumps[input.index] || (itself && is_float(graph.value(input).type.dtype));
    }
    for (ValueId output : node.outputs) {
      if (output.valid()) jumps[output.index] = any;
    }
  }
  std::vector<bool> result;
  for (ValueId output : graph.outputs) result.push_back(jumps[output.index]);
  return result;
}

// One move alone may leave an element where it is by chance, however ill-conditioned it is.
constexpr std::uint64_t kMoves = 4;

// The scales and sizes of Resize say what it does; they are no data.
std::set<ValueId> settings_of(const Graph& graph) {
  std::set<ValueId> settings;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (node.op == "Resize") settings.insert(node.inputs.begin() + 1, node.inputs.end());
  }
  return settings;
}

// What operations make is multiplied by 1 and an ulp, or by 1 less one: they round, too.
void move_results(Graph& graph, Decisions& decide) {
  std::map<ValueId, ValueId> moved;
  const std::vector<NodeId> nodes = graph.node_ids();
  for (NodeId id : nodes) {
    const std::vector<ValueId> outputs = graph.node(id).outputs;
    for (ValueId output : outputs) {
      if (!output.valid()) continue;
      const Type type = graph.value(output).type;
      if (!type.is_tensor() || !is_float(type.dtype) || bits_of(type.dtype) < 16) continue;
      Tensor factor = std::move(*Tensor::allocate(type.dtype, {}));
      const double step = ulp(type.dtype, 1);
      factor.set_element_f64(0, decide.chance(50) ? 1 + step : 1 - step);
      const ValueId by = graph.add_constant(graph.unique_name("step"), std::move(factor));
      graph.value(by).type = Type::tensor(type.dtype, Shape{});
      const NodeId step_node = graph.add_node("Mul", {output, by}, {graph.unique_name("moved")});
      moved[output] = graph.output_of(step_node);
      graph.value(moved[output]).type = type;
    }
  }
  const auto replace = [&](ValueId& value) {
    if (auto found = moved.find(value); found != moved.end()) value = found->second;
  };
  for (NodeId id : nodes) std::ranges::for_each(graph.node(id).inputs, replace);
  std::ranges::for_each(graph.outputs, replace);
}

// Every float one ulp up or down; another seed, another way.
Subject moved_by_an_ulp(const Subject& subject, std::uint64_t seed) {
  Subject moved = subject;
  Decisions decide(seed);
  auto move = [&](const Tensor& tensor) {
    if (!is_float(tensor.dtype())) return tensor;
    Tensor copy = std::move(*Tensor::allocate(tensor.dtype(), tensor.dims()));
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      double value = tensor.element_as_f64(i), step = ulp(tensor.dtype(), value);
      copy.set_element_f64(i, std::isfinite(value) ? value + (decide.chance(50) ? step : -step) : value);
    }
    return copy;
  };
  for (Datum& input : moved.inputs) input = Datum::of(move(input.tensor));
  const std::set<ValueId> settings = settings_of(moved.graph);
  for (std::size_t v = 0; v < moved.graph.value_count(); ++v) {
    Value& value = moved.graph.value(ValueId(v));
    if (value.is_constant() && value.constant.count() > 1 && !settings.contains(ValueId(v)))
      value.constant = move(value.constant);
  }
  move_results(moved.graph, decide);
  return moved;
}

bool is_subnormal(double value) { return std::abs(value) < std::numeric_limits<float>::min(); }

// Shaders' compilers may take infinities and NaN for impossible, x - x is 0 whatever x is, and devices may take subnormal numbers for zero.
// So there are none of them in what is fed.
Subject with_normal_numbers(Subject subject) {
  auto normal = [](const Tensor& tensor) {
    if (!is_float(tensor.dtype())) return tensor;
    Tensor copy = std::move(*Tensor::allocate(tensor.dtype(), tensor.dims()));
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const double value = tensor.element_as_f64(i);
      copy.set_element_f64(i, !std::isfinite(value) ? 1 : is_subnormal(value) ? 0 : value);
    }
    return copy;
  };
  for (Datum& input : subject.inputs) input = Datum::of(normal(input.tensor));
  for (std::size_t v = 0; v < subject.graph.value_count(); ++v) {
    Value& value = subject.graph.value(ValueId(v));
    if (value.is_constant()) value.constant = normal(value.constant);
  }
  return subject;
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
  Checker(const Subject& subject, Effort effort) : subject_(subject), effort_(std::move(effort)) {}

  Outcome run() {
    auto expected = run_unfused(subject_, on_one_thread(true));
    if (!expected) {
      outcome_.refused = true;
      if (expected.error().error_class == ErrorClass::Internal)
        fail(Outcome::Kind::Broken, "reference", expected.error().message);
      return outcome_;
    }
    expected_ = std::move(*expected);
    if (!effort_.backend.empty()) {
      compare_backend();
      return outcome_;
    }
    const std::size_t turn = effort_.turn % std::size(kTargets);
    for (std::size_t t = 0; t < std::size(kTargets); ++t) {
      if (outcome_.failure.empty() && (effort_.all_targets || t == turn))
        compare_bits(kTargets[t], true, false);
    }
    const char* target = kTargets[turn];
    if (outcome_.failure.empty()) compare_bits(target, false, false);
    if (outcome_.failure.empty()) compare_bits(target, true, true);
    if (outcome_.failure.empty()) compare_rewritten(target);
    // Compiling takes longer than all of the above: every fourth graph, or all of them where every target is asked for.
    if (outcome_.failure.empty() && (effort_.all_targets || effort_.turn % 4 == 0)) compare_machine_code();
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

  std::optional<std::vector<Datum>> results_of(const Plan& plan, const std::string& what, bool in_order,
                                               const std::vector<Datum>& inputs) {
    auto runner = PlanRunner::create(plan, on_one_thread(in_order));
    // Inputs that break what the plan took for granted are run unfused by whoever runs it.
    const bool unfused = runner && !plan.assumptions.empty() && !runner->takes(inputs);
    auto results = unfused  ? run_unfused(subject_, on_one_thread(in_order))
                   : runner ? runner->run(inputs)
                            : failure(runner.error());
    if (results) return std::move(*results);
    // A size that is only known when it runs is taken to be the one it meets; a plan may refuse inputs that differ.
    if (results.error().error_class == ErrorClass::Usage) {
      outcome_.refused = true;
      return std::nullopt;
    }
    fail(Outcome::Kind::DoesNotRun, what, results.error().to_string());
    return std::nullopt;
  }

  std::string name_of_output(std::size_t i) const {
    return "output %" + subject_.graph.value(subject_.graph.outputs[i]).name + " ";
  }

  // Constants become inputs: folding sums them as is fastest, not in order.
  static Subject without_constants(Subject subject) {
    const std::set<ValueId> settings = settings_of(subject.graph);
    for (std::size_t v = 0; v < subject.graph.value_count(); ++v) {
      Value& value = subject.graph.value(ValueId(v));
      if (!value.is_constant() || value.constant.count() == 1 || !is_float(value.constant.dtype())) continue;
      if (settings.contains(ValueId(v))) continue;
      subject.inputs.push_back(Datum::of(std::exchange(value.constant, Tensor())));
      subject.graph.inputs.push_back(ValueId(v));
    }
    return subject;
  }

  void compare_bits(const char* target, bool fused, bool rewritten) {
    const std::string what = std::string(rewritten ? "rewritten by exact rules and " : "") +
                             (fused ? "fused for " : "one group for each node, ") + target;
    CompileOptions options;
    options.target = *find_target(target);
    options.fusion.enabled = fused;
    options.rewrite.enabled = rewritten;
    options.rewrite.allow_reassociating = false;
    options.rewrite.fold_limit = 0;
    const Subject subject = rewritten ? without_constants(subject_) : subject_;
    auto plan = make_plan(subject.graph, options);
    if (!plan) return fail(Outcome::Kind::NoPlan, what, plan.error().to_string());
    if (!rewritten && !seen_.insert(shape_of_plan(*plan)).second) return;
    outcome_.nodes = std::max(outcome_.nodes, plan->graph.node_count());
    if (fused && !rewritten) outcome_.groups = plan->groups.size();
    auto actual = results_of(*plan, what, true, subject.inputs);
    const std::vector<bool> folds = outputs_that_fold(subject.graph);
    for (std::size_t i = 0; actual && i < expected_.size(); ++i) {
      if (rewritten && folds[i]) continue;
      auto difference = difference_in_bits((*actual)[i].tensor, expected_[i].tensor);
      if (difference) return fail(Outcome::Kind::Differs, what, name_of_output(i) + *difference);
    }
  }

  // The kernels of this CPU: right, and the same bits for any number of threads.
  void compare_machine_code() {
    if (!has_code_generator()) return;
    const std::string what = "machine code";
    CompileOptions options;
    options.target = &host_target();
    auto plan = make_plan(subject_.graph, options);
    if (!plan) return fail(Outcome::Kind::NoPlan, what, plan.error().to_string());
    auto model = compile_for_cpu(*plan, {});
    if (!model) return fail(Outcome::Kind::DoesNotRun, what, model.error().to_string());
    std::optional<std::vector<Datum>> first;
    for (int threads : {1, 2, 4}) {
      RunContext context(model->program, model->host, {threads, nullptr, nullptr});
      if (!plan->assumptions.empty() && !context.takes(subject_.inputs)) return;
      auto results = context.run(subject_.inputs);
      if (!results && results.error().error_class == ErrorClass::Usage) return;
      if (!results) return fail(Outcome::Kind::DoesNotRun, what, results.error().to_string());
      if (!first) {
        first = std::move(*results);
        compare_with_oracle(what, first);
        if (!outcome_.failure.empty()) return;
        continue;
      }
      for (std::size_t i = 0; i < first->size(); ++i) {
        auto difference = difference_in_bits((*results)[i].tensor, (*first)[i].tensor);
        if (difference)
          return fail(Outcome::Kind::Differs, what + " on several threads", name_of_output(i) + *difference);
      }
    }
  }

  // Where the reference overflows, a shader may give anything, and where its result is subnormal, any such number.
  std::vector<Datum> with_what_shaders_leave_open(std::vector<Datum> results) const {
    for (std::size_t k = 0; k < results.size(); ++k) {
      const Tensor &actual = results[k].tensor, &expected = expected_[k].tensor;
      if (!is_float(actual.dtype()) || actual.dims() != expected.dims()) continue;
      Tensor merged = std::move(*Tensor::allocate(actual.dtype(), actual.dims()));
      for (std::int64_t i = 0; i < actual.count(); ++i) {
        const double value = expected.element_as_f64(i), given = actual.element_as_f64(i);
        const bool open = !std::isfinite(value) || (is_subnormal(value) && is_subnormal(given));
        merged.set_element_f64(i, open ? value : given);
      }
      results[k] = Datum::of(std::move(merged));
    }
    return results;
  }

  // Whether anything on the way to the outputs is subnormal: a device that takes it for zero may give anything after it.
  bool meets_subnormals() const {
    Subject all = subject_;
    for (std::size_t n = 0; n < all.graph.node_count(); ++n) {
      for (ValueId value : all.graph.node(NodeId(n)).outputs) {
        const bool known = std::ranges::find(all.graph.outputs, value) != all.graph.outputs.end();
        if (value.valid() && !known) all.graph.outputs.push_back(value);
      }
    }
    const auto values = run_unfused(all, on_one_thread(true));
    return !values || std::ranges::any_of(*values, [](const Datum& datum) {
      const Tensor& tensor = datum.tensor;
      for (std::int64_t i = 0; is_float(tensor.dtype()) && i < tensor.count(); ++i) {
        if (const double value = tensor.element_as_f64(i); value != 0 && is_subnormal(value)) return true;
      }
      return false;
    });
  }

  // Knobs at other legal values, and the forms that take them.
  static void turn_knobs(Plan& plan, const Target& target, std::span<const Form> barred, Decisions& decide) {
    for (Group& group : plan.groups) {
      for (Knob& knob : group.schedule.knobs) {
        if (!decide.chance(50) || group.schedule.kind == ScheduleKind::Winograd) continue;
        const LegalValues legal = legal_values(knob.name, {}, target);
        knob.value = legal.least + legal.step * decide.below((legal.most - legal.least) / legal.step + 1);
      }
    }
    auto fusion_nodes = FusionNodes::of(plan.graph);
    if (!fusion_nodes || !choose_forms(plan, *fusion_nodes, target, barred)) return;
    plan.kernels = nullptr;  // from the plan alone
    for (Group& group : plan.groups) {
      for (std::string& form : group.schedule.forms) turn_knobs_of(plan, form, decide);
    }
  }

  static std::string forms_of(const Plan& plan) {
    std::vector<std::string> groups;
    for (const Group& group : plan.groups) {
      if (!group.schedule.forms.empty()) groups.push_back(joined(group.schedule.forms, " "));
    }
    return joined(groups, ", ");
  }

  // Each on its own: what a kernel cannot be made with stays as it was.
  static void turn_knobs_of(Plan& plan, std::string& form, Decisions& decide) {
    const auto named = parse_form(form);
    if (!named) return;
    for (std::size_t k = 0; k < named->knobs.size(); ++k) {
      const FormKnob* knob = find_knob(named->form, named->knobs[k].name);
      if (knob == nullptr || !decide.chance(50)) continue;
      const std::string before = form;
      NamedForm turned = *parse_form(form);
      turned.knobs[k].value =
          knob->legal[static_cast<std::size_t>(decide.below(static_cast<std::int64_t>(knob->legal.size())))];
      form = text_of(turned);
      plan.replayed = true;  // none chosen in its place
      if (!lower_plan(plan, {})) form = before;
      plan.replayed = false;
    }
  }

  // What a device gives, fused as it is by default.
  void compare_backend() {
    std::string what = effort_.backend;
    CompileOptions options;
    const auto backend = backend_named(effort_.backend);
    if (!backend) return fail(Outcome::Kind::NoPlan, what, backend.error().to_string());
    auto target = (*backend)->target();
    if (!target) return fail(Outcome::Kind::NoPlan, what, target.error().to_string());
    options.target = *target;
    Decisions decide(effort_.turn);
    if (effort_.random_plans) {
      if (!(*backend)->target_kind)
        options.target = *find_target(kTargets[effort_.turn % std::size(kTargets)]);
      for (const Form form : all_forms()) {
        if (may_be_barred(form) && decide.chance(40)) options.barred_forms.push_back(form);
      }
    }
    auto plan = make_plan(subject_.graph, options);
    if (!plan) return fail(Outcome::Kind::NoPlan, what, plan.error().to_string());
    if (effort_.random_plans) {
      turn_knobs(*plan, *options.target, options.barred_forms, decide);
      what += " (" + std::string(options.target->name) + "; " + forms_of(*plan) + ")";
    }
    outcome_.nodes = plan->graph.node_count();
    outcome_.groups = plan->groups.size();
    auto runner = make_runner(subject_.graph, *plan, effort_.backend, on_one_thread(false));
    auto results = runner ? (*runner)->run(subject_.inputs) : failure(runner.error());
    if (results) {
      compare_with_oracle(what, with_what_shaders_leave_open(std::move(*results)));
      if (outcome_.failure.empty() || !meets_subnormals()) return;
      outcome_ = {};
      outcome_.refused = true;
      return;
    }
    const ErrorClass error = results.error().error_class;
    outcome_.refused = error == ErrorClass::Unsupported || error == ErrorClass::Usage;
    if (!outcome_.refused) fail(Outcome::Kind::DoesNotRun, what, results.error().to_string());
  }

  void compare_rewritten(const char* target) {
    const std::string what = std::string("rewritten and fused for ") + target;
    CompileOptions options;
    options.target = *find_target(target);
    auto plan = make_plan(subject_.graph, options);
    if (!plan) return fail(Outcome::Kind::NoPlan, what, plan.error().to_string());
    compare_with_oracle(what, results_of(*plan, what, false, subject_.inputs));
  }

  void compare_with_oracle(const std::string& what, const std::optional<std::vector<Datum>>& actual) {
    auto reference = run_unfused(subject_, on_one_thread(false));
    EvaluatorOptions float64 = on_one_thread(false);
    float64.float64 = true;
    auto oracle = run_unfused(subject_, float64);
    if (!actual || !reference || !oracle) return;
    std::vector<bool> jumps = outputs_that_jump(subject_.graph);
    std::vector<std::vector<Datum>> moved;
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (jumps[i]) continue;
      Measured measured{(*reference)[i].tensor, (*oracle)[i].tensor, {}};
      auto difference = too_far((*actual)[i].tensor, measured);
      if (!difference) continue;
      for (std::uint64_t seed = moved.size(); seed < kMoves; ++seed) {
        auto results = run_unfused(moved_by_an_ulp(subject_, 5 + seed), float64);
        moved.push_back(results ? std::move(*results) : *oracle);
      }
      for (const std::vector<Datum>& results : moved) measured.moved.push_back(results[i].tensor);
      difference = too_far((*actual)[i].tensor, measured);
      if (difference) return fail(Outcome::Kind::TooFar, what, name_of_output(i) + *difference);
    }
  }

  const Subject subject_;
  Effort effort_;
  std::vector<Datum> expected_;
  std::set<std::string> seen_;
  Outcome outcome_;
};

}  // namespace

Outcome check(const Subject& subject, Effort effort) {
  Outcome outcome;
  try {
    const Backend* backend = find_backend(effort.backend);
    const bool on_shaders = backend != nullptr && backend->runs_shaders;
    return Checker(on_shaders ? with_normal_numbers(subject) : subject, std::move(effort)).run();
  } catch (const InternalError& error) {
    outcome.failure = "internal error: " + error.message();
  } catch (const std::exception& error) {
    outcome.failure = std::string("exception: ") + error.what();
  }
  outcome.kind = Outcome::Kind::Broken;
  return outcome;
}

}  // namespace xyntra::graphs
