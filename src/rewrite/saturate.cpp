#include "rewrite/saturate.h"

#include <algorithm>
#include <set>

#include "egraph/explain.h"
#include "egraph/runner.h"
#include "rewrite/cost.h"
#include "rewrite/program.h"

namespace xyntra {
namespace {

using egraph::ENode;

// The terms of a draft, and where they came from.
class Terms {
 public:
  Terms(const Draft& draft, std::span<const DraftValue> outputs) : draft_(draft) {
    of_value_.resize(draft.value_count());
    for (std::size_t i = 0; i < draft.inputs().size(); ++i) {
      const DraftValue input = draft.inputs()[i];
      of_value_[input.index] = program_.add_input(i, draft.facts(input));
    }
    for (DraftNode node : draft.live_nodes(outputs)) add_node(node);
    std::vector<TermId> terms;
    for (DraftValue output : outputs) terms.push_back(term_of(output));
    root_ = program_.add_outputs(terms);
    program_.graph().rebuild();
  }

  Program& program() { return program_; }
  TermId root() const { return root_; }
  // The node and value of the draft that a term was made for, if it was.
  const Draft::NodeEntry* node_of(TermId term) const {
    const bool original = term.index < made_for_.size() && made_for_[term.index].valid();
    return original ? &draft_.node(made_for_[term.index]) : nullptr;
  }
  bool is_original(TermId term) const { return term.index <= root_.index; }
  std::string name_of(TermId term) const { return term.index < names_.size() ? names_[term.index] : ""; }

 private:
  TermId term_of(DraftValue value) {
    if (!value.valid()) return program_.absent();
    TermId& term = of_value_[value.index];
    if (!term.valid()) {
      term = program_.add_constant(draft_.constant(value));
      note(term, {}, draft_.value(value).name);
    }
    return term;
  }

  void add_node(DraftNode id) {
    const Draft::NodeEntry& node = draft_.node(id);
    std::vector<TermId> operands;
    for (DraftValue input : node.inputs) operands.push_back(term_of(input));
    std::vector<ValueFacts> facts;
    for (DraftValue output : node.outputs) {
      facts.push_back(output.valid() ? draft_.facts(output) : ValueFacts{{}, {}, {}, false});
    }
    const auto made = program_.add_op(*node.def, draft_.form(id), operands, std::move(facts));
    require(made.has_value(), "rewrite: a node of the model is not well typed");
    const bool single = node.outputs.size() == 1;
    note(*made, id, single ? draft_.value(node.outputs[0]).name : "");
    if (single) of_value_[node.outputs[0].index] = *made;
    for (std::size_t i = 0; i < node.outputs.size() && !single; ++i) {
      if (!node.outputs[i].valid()) continue;
      const TermId part = program_.add_projection(*made, i);
      of_value_[node.outputs[i].index] = part;
      note(part, {}, draft_.value(node.outputs[i]).name);
    }
  }

  void note(TermId term, DraftNode node, std::string name) {
    if (made_for_.size() <= term.index) {
      made_for_.resize(term.index + 1);
      names_.resize(term.index + 1);
    }
    if (node.valid()) made_for_[term.index] = node;
    if (!name.empty()) names_[term.index] = std::move(name);
  }

  const Draft& draft_;
  Program program_;
  TermId root_;
  std::vector<TermId> of_value_;
  std::vector<DraftNode> made_for_;  // by term
  std::vector<std::string> names_;   // by term
};

// Which of the model's nodes each chosen node stands for: those between the value it computes and the next ones
// that are computed too. A node
// that computes what the model never did stands for the same ones as its first user.
class Origins {
 public:
  Origins(Terms& terms, const egraph::Extraction& chosen) : terms_(terms), graph_(terms.program().graph()) {
    of_class_.resize(graph_.class_limit());
    used_.resize(graph_.class_limit(), false);
    const auto& order = chosen.order();
    for (ClassId id : order) used_[id.index] = true;
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const ENode& node = chosen.choice(*id);
      if (Program::op_of(node.head) != nullptr) collect(*id);
      for (ClassId child : node.children) {
        std::vector<std::string>& inherited = of_class_[child.index];
        if (inherited.empty()) inherited = of_class_[id->index];
      }
    }
  }
  const std::vector<std::string>& of(ClassId id) const { return of_class_[id.index]; }

 private:
  void collect(ClassId id) {
    const TermId original = graph_.representative(id);
    if (terms_.node_of(original) == nullptr) return;
    std::vector<std::string> found;
    std::set<TermId> seen;
    std::vector<TermId> open{original};
    while (!open.empty() && seen.size() < kMostNodes) {
      const TermId term = open.back();
      open.pop_back();
      if (!seen.insert(term).second) continue;
      const Draft::NodeEntry* made = terms_.node_of(term);
      if (made != nullptr) append_origins(found, made->origins);
      for (TermId child : graph_.children(term)) {
        const bool walks = terms_.node_of(child) != nullptr || graph_.head(child) == Program::kProjection;
        if (walks && !used_[graph_.class_of(child).index]) open.push_back(child);
      }
    }
    of_class_[id.index] = std::move(found);
  }

  static constexpr std::size_t kMostNodes = 64;
  Terms& terms_;
  const EGraph& graph_;
  std::vector<std::vector<std::string>> of_class_;
  std::vector<bool> used_;  // by class: computed by a node of its own
};

// Adds what was chosen to the new draft.
class Lowering {
 public:
  Lowering(Terms& terms, const egraph::Extraction& chosen, Normalizer& to, Draft& into)
      : terms_(terms), chosen_(chosen), origins_(terms, chosen), to_(to), into_(into) {
    values_.resize(terms.program().graph().class_limit());
  }

  Result<std::vector<DraftValue>> run() {
    std::vector<DraftValue> outputs;
    for (ClassId id : model_order()) {
      XYNTRA_CHECK_OK(lower(id));
      if (chosen_.choice(id).head == Program::kOutputs) outputs = values_[id.index];
    }
    return outputs;
  }

 private:
  // Operands first, otherwise as the model has them; what the model does not have comes when it is needed.
  std::vector<ClassId> model_order() const {
    const EGraph& graph = terms_.program().graph();
    const auto& order = chosen_.order();
    std::vector<std::size_t> place(graph.class_limit(), SIZE_MAX), waiting(graph.class_limit(), 0);
    std::vector<std::vector<ClassId>> users(graph.class_limit());
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const TermId oldest = graph.representative(*id);
      if (terms_.is_original(oldest)) place[id->index] = oldest.index;
      for (ClassId child : chosen_.choice(*id).children) {
        const ClassId operand = graph.find(child);
        place[operand.index] = std::min(place[operand.index], place[id->index]);
        users[operand.index].push_back(*id);
        ++waiting[id->index];
      }
    }
    std::set<std::pair<std::size_t, ClassId>> ready;
    for (ClassId id : order) {
      if (waiting[id.index] == 0) ready.insert({place[id.index], id});
    }
    std::vector<ClassId> sorted;
    while (!ready.empty()) {
      const ClassId id = ready.begin()->second;
      ready.erase(ready.begin());
      sorted.push_back(id);
      for (ClassId user : users[id.index]) {
        if (--waiting[user.index] == 0) ready.insert({place[user.index], user});
      }
    }
    return sorted;
  }

  Status lower(ClassId id) {
    const ENode& node = chosen_.choice(id);
    Program& program = terms_.program();
    std::vector<DraftValue>& made = values_[id.index];
    auto first = [&](ClassId child) { return values_[program.graph().find(child).index].at(0); };
    switch (node.head) {
      case Program::kInput: made = {into_.inputs()[node.payload]}; return {};
      case Program::kConstant:
        made = {into_.add_constant(program.tensor(node.payload), terms_.name_of(node.term))};
        return {};
      case Program::kAbsent: made = {DraftValue()}; return {};
      case Program::kProjection:
        made = {values_[program.graph().find(node.children[0]).index].at(node.payload)};
        return {};
      case Program::kOutputs:
        for (ClassId child : node.children) made.push_back(first(child));
        return {};
      default: break;
    }
    Draft::Addition addition;
    addition.def = Program::op_of(node.head);
    addition.form = program.form(node.payload);
    addition.origins = origins_.of(id);
    if (addition.def->has(kRandom)) addition.origins = {addition.form.identity};
    addition.facts = program.facts(id).outputs;
    for (ClassId child : node.children) addition.inputs.push_back(first(child));
    const TermId original = program.graph().representative(id);
    if (addition.facts.size() == 1) addition.names = {terms_.name_of(original)};
    XYNTRA_TRY(made, to_.add(std::move(addition)));
    return {};
  }

  Terms& terms_;
  const egraph::Extraction& chosen_;
  Origins origins_;
  Normalizer& to_;
  Draft& into_;
  std::vector<std::vector<DraftValue>> values_;  // by class
};

// The rules behind the choice, with the names of what they touched.
class Certificate {
 public:
  Certificate(Terms& terms, std::span<const egraph::Rule> rules) : terms_(terms), rules_(rules) {}

  Result<std::vector<RuleUse>> of(const egraph::Extraction& chosen) {
    EGraph& graph = terms_.program().graph();
    const TermId result = chosen.term(graph, graph.class_of(terms_.root()));
    XYNTRA_TRY(const egraph::Proof proof, egraph::explain(graph, rules_, terms_.root(), result));
    std::vector<RuleUse> uses;
    for (const egraph::RuleUse& step : egraph::rule_uses(graph, proof)) {
      RuleUse use;
      use.rule = std::string(step.rule);
      const auto rule = std::ranges::find(rules_, use.rule, &egraph::Rule::name);
      const std::uint32_t height = rule == rules_.end() ? 0 : rule->left.height();
      if (rule != rules_.end()) use.rule_class = static_cast<RuleClass>(rule->tag);
      touched(step.forward ? step.before : step.after, height, use.origins);
      use.result = terms_.name_of(graph.representative(graph.class_of(step.before)));
      uses.push_back(std::move(use));
    }
    return uses;
  }

 private:
  void touched(TermId term, std::uint32_t levels, std::vector<std::string>& origins) const {
    const Draft::NodeEntry* node = terms_.node_of(term);
    if (node != nullptr) append_origins(origins, node->origins);
    if (levels == 0) return;
    for (TermId child : terms_.program().graph().children(term)) touched(child, levels - 1, origins);
  }

  Terms& terms_;
  std::span<const egraph::Rule> rules_;
};

}  // namespace

Result<Saturation> saturate(const Draft& from, std::span<const DraftValue> outputs,
                            std::span<const egraph::Rule> rules, const RewriteOptions& options,
                            Normalizer& to, Draft& into, RewriteReport& report) {
  const RewriteLimits& limits = options.limits;
  const Budget* budget = options.budget;
  Terms terms(from, outputs);
  EGraph& graph = terms.program().graph();
  egraph::RunLimits counted;
  counted.iterations = static_cast<std::size_t>(limits.iterations);
  counted.nodes = std::min(static_cast<std::size_t>(limits.nodes),
                           1000 + graph.node_count() * static_cast<std::size_t>(limits.nodes_per_node));
  counted.matches_per_rule = static_cast<std::size_t>(limits.matches_per_rule);
  egraph::Runner runner(rules, counted);
  if (budget != nullptr) runner.cancelled = [budget] { return budget->stopped(); };
  const egraph::RunReport run = runner.run(graph);
  if (budget != nullptr) XYNTRA_CHECK_OK(budget->check_time());
  report.iterations = run.iterations.size();
  report.egraph_nodes = graph.node_count();
  report.egraph_classes = graph.class_count();
  report.stop = egraph::name_of(run.stop);

  const ClassId root = graph.class_of(terms.root());
  XYNTRA_TRY(const egraph::Extraction chosen,
             egraph::extract(graph, cost_model(terms.program(), options.integer_units), std::array{root}));
  Saturation result;
  XYNTRA_TRY(result.outputs, Lowering(terms, chosen, to, into).run());
  XYNTRA_TRY(result.uses, Certificate(terms, rules).of(chosen));
  return result;
}

}  // namespace xyntra
