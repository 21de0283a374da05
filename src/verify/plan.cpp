#include "verify/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "fusion/execute.h"
#include "fusion/fusion_nodes.h"
#include "ops/infer.h"
#include "rewrite/rules/rule_set.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::size_t kShownNames = 4, kLongestName = 32;

int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::F64: return 52;
    case DType::F32: return 23;
    case DType::F16: return 10;
    case DType::BF16: return 7;
    default: return 2;
  }
}

double ulp(DType dtype, double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  return std::ldexp(1.0, std::ilogb(value) - mantissa_bits(dtype));
}

class PlanVerifier {
 public:
  PlanVerifier(const Graph& model, const Plan& plan, std::span<const Datum> inputs,
               const EvaluatorOptions& options)
      : model_(model), plan_(plan), inputs_(inputs), options_(options) {
    options_.progress = nullptr;
  }

  Result<PlanFinding> run() {
    XYNTRA_CHECK_OK(whole());
    XYNTRA_CHECK_OK(run_to_every_group());
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) XYNTRA_CHECK_OK(group(g));
    certificate();
    XYNTRA_CHECK_OK(replay_certificate());
    return std::move(finding_);
  }

 private:
  Result<std::vector<Datum>> evaluate(const Graph& graph, std::span<const Datum> inputs, bool float64) const {
    EvaluatorOptions options = options_;
    options.float64 = float64;
    XYNTRA_TRY(Evaluator evaluator, Evaluator::create(graph, options));
    return evaluator.run(inputs);
  }

  static PlanError compare(const Datum& fused, const Datum& unfused, const Datum& float64) {
    if (fused.kind == Datum::Kind::Tensor && unfused.kind == Datum::Kind::Tensor)
      return compare_with_unfused(fused.tensor, unfused.tensor, float64.tensor);
    PlanError worst;
    if (fused.kind != unfused.kind || fused.items.size() != unfused.items.size()) {
      worst.problem = "another kind of value";
      return worst;
    }
    for (std::size_t i = 0; i < fused.items.size() && worst.problem.empty(); ++i)
      worst = compare(fused.items[i], unfused.items[i], float64.items.at(i));
    return worst;
  }

  Status whole() {
    XYNTRA_TRY(PlanRunner runner, PlanRunner::create(plan_, options_));
    XYNTRA_TRY(const auto fused, runner.run(inputs_));
    XYNTRA_TRY(const auto unfused, evaluate(model_, inputs_, false));
    XYNTRA_TRY(const auto float64, evaluate(model_, inputs_, true));
    for (std::size_t i = 0; i < fused.size(); ++i) {
      finding_.outputs.push_back(
          {model_.value(model_.outputs[i]).name, compare(fused[i], unfused[i], float64[i]), false});
    }
    return {};
  }

  // What groups read, and operands that their formulas know already, such as shapes.
  Status run_to_every_group() {
    std::vector<ValueId> wanted;
    std::set<ValueId> seen;
    for (const Group& group : plan_.groups) {
      for (ValueId input : group.inputs) {
        if (seen.insert(input).second) wanted.push_back(input);
      }
      for (NodeId id : group.nodes) {
        for (ValueId input : plan_.graph.node(id).inputs) {
          if (input.valid() && seen.insert(input).second) wanted.push_back(input);
        }
      }
    }
    std::erase_if(wanted, [&](ValueId id) { return plan_.graph.value(id).is_constant(); });
    XYNTRA_TRY(auto results, probe(plan_.graph, wanted, false));
    for (std::size_t i = 0; i < wanted.size(); ++i) values_.emplace(wanted[i], std::move(results[i]));
    return {};
  }

  std::string name_of_group(std::size_t g) const {
    const Group& group = plan_.groups[g];
    std::vector<std::string> names;
    for (NodeId id : group.nodes) {
      if (names.size() < kShownNames)
        names.push_back(printable(cut_at_character(label_of(plan_.graph, id), kLongestName)));
    }
    const std::size_t more = group.nodes.size() - names.size();
    return std::string(name_of(group.hero)) + ": " + joined(names, ", ") +
           (more > 0 ? " and " + std::to_string(more) + " more" : "");
  }

  // The group as a plan of its own, its sizes those of this run.
  struct Alone {
    Plan plan;
    std::vector<Datum> inputs;
  };
  Result<Alone> alone(const Group& group) const {
    Alone result;
    Graph& graph = result.plan.graph;
    std::map<ValueId, ValueId> copies;
    const std::set<ValueId> read(group.inputs.begin(), group.inputs.end());
    Group whole;
    whole.hero = group.hero;
    for (NodeId id : group.nodes) {
      const Node& node = plan_.graph.node(id);
      std::vector<ValueId> operands;
      for (ValueId input : node.inputs) {
        if (!input.valid()) {
          operands.push_back({});
          continue;
        }
        auto [copy, fresh] = copies.try_emplace(input);
        if (fresh) copy->second = outside(input, read.contains(input), result);
        operands.push_back(copy->second);
      }
      std::vector<std::string> names;
      for (ValueId output : node.outputs)
        names.push_back(output.valid() ? plan_.graph.value(output).name : "");
      const NodeId made = graph.add_node(node.op, operands, names, node.attributes, node.origin);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].valid()) copies[node.outputs[i]] = graph.node(made).outputs[i];
      }
      whole.nodes.push_back(made);
    }
    for (ValueId output : group.outputs) {
      whole.outputs.push_back(copies.at(output));
      graph.outputs.push_back(copies.at(output));
    }
    XYNTRA_CHECK_OK(infer_types(graph, options_.budget.get()));
    XYNTRA_TRY(const FusionNodes fusion_nodes, FusionNodes::of(graph, options_.budget.get()));
    std::set<ValueId> made_here, listed;
    for (NodeId id : whole.nodes) {
      for (ValueId value : fusion_nodes[id].reads) {
        if (!made_here.contains(value) && listed.insert(value).second) whole.inputs.push_back(value);
      }
      for (ValueId output : graph.node(id).outputs) made_here.insert(output);
    }
    result.plan.groups.push_back(std::move(whole));
    return result;
  }

  ValueId outside(ValueId id, bool is_read, Alone& result) const {
    const Value& value = plan_.graph.value(id);
    if (value.is_constant()) return result.plan.graph.add_constant(value.name, value.constant);
    const Datum& datum = values_.at(id);
    const bool tensor = datum.kind == Datum::Kind::Tensor;
    if (tensor && !is_read) return result.plan.graph.add_constant(value.name, datum.tensor);
    result.inputs.push_back(datum);
    return result.plan.graph.add_input(
        value.name, tensor ? Type::tensor(datum.tensor.dtype(), shape_of(datum.tensor.dims())) : value.type);
  }

  Status group(std::size_t g) {
    PlanFinding::Checked checked{name_of_group(g), {}, plan_.groups[g].hero == Hero::Host};
    if (!checked.skipped) {
      XYNTRA_TRY(const Alone group, alone(plan_.groups[g]));
      XYNTRA_TRY(PlanRunner runner, PlanRunner::create(group.plan, options_));
      XYNTRA_TRY(const auto fused, runner.run(group.inputs));
      XYNTRA_TRY(const auto unfused, evaluate(group.plan.graph, group.inputs, false));
      XYNTRA_TRY(const auto float64, evaluate(group.plan.graph, group.inputs, true));
      for (std::size_t i = 0; i < fused.size(); ++i) {
        PlanError error = compare(fused[i], unfused[i], float64[i]);
        const bool worse = error.fused > checked.error.fused || !error.problem.empty();
        if (worse && checked.error.problem.empty()) checked.error = std::move(error);
      }
    }
    finding_.groups.push_back(std::move(checked));
    return {};
  }

  // Values of a graph on the inputs of this run.
  Result<std::vector<Datum>> probe(const Graph& graph, std::vector<ValueId> wanted, bool float64) const {
    Graph probed = graph;
    probed.outputs = std::move(wanted);
    return evaluate(probed, inputs_, float64);
  }

  // The graph that the rules led to, node by node, beside the model: what a chain of rules ended in must be what the model
  // has under this name. Values that no name ties to the model are covered by those that are made of them.
  Status replay_certificate() {
    std::map<ValueId, std::vector<std::string>> rules;  // by the plan's value
    for (const CertificateLine& line : plan_.certificate) {
      const ValueId ours = plan_.graph.find(line.result), theirs = model_.find(line.result);
      if (!ours.valid() || !theirs.valid()) continue;
      if (plan_.graph.value(ours).is_constant() || model_.value(theirs).is_constant()) continue;
      std::vector<std::string>& chain = rules[ours];
      if (std::ranges::find(chain, line.rule) == chain.end()) chain.push_back(line.rule);
    }
    std::vector<ValueId> ours, theirs;
    for (const auto& [id, chain] : rules) {
      ours.push_back(id);
      theirs.push_back(model_.find(plan_.graph.value(id).name));
    }
    if (ours.empty()) return {};
    XYNTRA_TRY(const auto rewritten, probe(plan_.graph, ours, false));
    XYNTRA_TRY(const auto written, probe(model_, theirs, false));
    XYNTRA_TRY(const auto float64, probe(model_, theirs, true));
    for (std::size_t i = 0; i < ours.size(); ++i) {
      finding_.chains.push_back({plan_.graph.value(ours[i]).name + ": " + joined(rules.at(ours[i]), ", "),
                                 compare(rewritten[i], written[i], float64[i]), false});
    }
    return {};
  }

  void certificate() {
    for (const CertificateLine& line : plan_.certificate) {
      const ParsedRule* rule = RuleSet::built_in().find(line.rule);
      if (rule == nullptr) continue;  // a named pass, or a rule of the user
      // On narrow floats an exact rule may be reassociating, so a line may say more than the table.
      if (static_cast<Exactness>(rule->text.rule_class) > line.exactness)
        finding_.certificate.push_back("the rule '" + printable(line.rule) + "' is said to be " +
                                       name_of(line.exactness) + ", but it is " +
                                       name_of(static_cast<Exactness>(rule->text.rule_class)));
    }
  }

  const Graph& model_;
  const Plan& plan_;
  std::span<const Datum> inputs_;
  EvaluatorOptions options_;
  std::map<ValueId, Datum> values_;
  PlanFinding finding_;
};

}  // namespace

bool PlanFinding::agrees() const {
  const auto fine = [](const Checked& checked) { return checked.error.problem.empty(); };
  return certificate.empty() && std::ranges::all_of(groups, fine) && std::ranges::all_of(chains, fine) &&
         std::ranges::all_of(outputs, fine);
}

PlanError compare_with_unfused(const Tensor& fused, const Tensor& unfused, const Tensor& float64) {
  PlanError error;
  if (fused.dtype() != unfused.dtype() || fused.dims() != unfused.dims() ||
      float64.dims() != unfused.dims()) {
    error.problem = "another dtype or shape";
    return error;
  }
  if (is_string(fused.dtype())) {
    if (!std::ranges::equal(fused.bytes(), unfused.bytes())) error.problem = "a string differs";
    return error;
  }
  double largest = 0;
  for (std::int64_t i = 0; i < fused.count(); ++i) {
    if (!is_float(fused.dtype())) {
      if (fused.element_as_i64(i) != unfused.element_as_i64(i)) error.problem = "an integer differs";
      continue;
    }
    const double x = fused.element_as_f64(i), y = unfused.element_as_f64(i),
                 exact = float64.element_as_f64(i);
    if (std::isnan(x) != std::isnan(y)) error.problem = "NaN stands elsewhere";
    if (x == y || std::isnan(x) || std::isnan(y)) {
      if (std::isfinite(exact) && std::isfinite(y)) {
        error.unfused = std::max(error.unfused, std::abs(y - exact));
        error.fused = std::max(error.fused, std::abs(x - exact));
        largest = std::max(largest, std::abs(exact));
      }
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(exact)) {
      error.problem = "an infinity stands elsewhere";
      continue;
    }
    error.fused = std::max(error.fused, std::abs(x - exact));
    error.unfused = std::max(error.unfused, std::abs(y - exact));
    largest = std::max(largest, std::abs(exact));
  }
  error.allowed = 2 * error.unfused + 4 * ulp(fused.dtype(), largest);
  if (error.problem.empty() && error.fused > error.allowed) error.problem = "the error is too large";
  return error;
}

Result<PlanFinding> verify_plan(const Graph& model, const Plan& plan, std::span<const Datum> inputs,
                                const EvaluatorOptions& options) {
  try {
    return PlanVerifier(model, plan, inputs, options).run();
  } catch (const InternalError& error) {
    return failure(ErrorClass::Internal, error.message());
  }
}

}  // namespace xyntra
