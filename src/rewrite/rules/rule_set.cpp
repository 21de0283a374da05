#include "rewrite/rules/rule_set.h"

#include <algorithm>
#include <map>

#include "rewrite/program.h"
#include "rewrite/rules/functions.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

using egraph::Match;
using egraph::PartId;
using egraph::Pattern;
using egraph::PayloadMatch;

Program& program_of(const EGraph& graph) { return static_cast<Program&>(*graph.analysis()); }

// An attribute as a node of this kind holds it; nothing when it cannot.
std::optional<Attribute> as_kind(const Attribute& attribute, const std::string& kind) {
  if (kind == attribute_kind(attribute)) return attribute;
  if (const auto* integer = std::get_if<std::int64_t>(&attribute); integer != nullptr && kind == "float") {
    return static_cast<float>(*integer);
  }
  return std::nullopt;
}

// One rule compiled: its pattern, and what must hold of the attributes of the nodes matched.
class CompiledRule {
 public:
  CompiledRule(const ParsedRule& rule, RuleClasses classes) : rule_(&rule), classes_(classes) {
    part_of(rule.left);
  }

  const Pattern& pattern() const { return pattern_; }
  std::optional<TermId> apply(EGraph& graph, const Match& match) const;

 private:
  struct FormMatch {
    std::uint32_t payload;  // number of the payload variable
    const RuleTerm* term;
  };
  // What the left side bound, at one match.
  struct Bindings {
    Program& program;
    const Match& match;
    const ClassFacts& root;
    std::vector<std::optional<Attribute>> attributes;  // by ParsedRule::attributes
    std::vector<const NodeForm*> rests;                // likewise, for *variables
  };

  PartId part_of(const RuleTerm& term);
  PartId number_part(double number);
  std::optional<std::size_t> variable(const std::string& name) const {
    return position(rule_->variables, name);
  }
  std::optional<std::size_t> attribute(const std::string& name) const {
    return position(rule_->attributes, name);
  }
  static std::optional<std::size_t> position(const std::vector<std::string>& names, const std::string& name) {
    auto found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<std::size_t>(found - names.begin());
  }

  bool bind_form(Bindings& bindings, const RuleTerm& term, const NodeForm& form) const;
  std::optional<Argument> argument(const Bindings& bindings, const AttributeTerm& term,
                                   Attribute& storage) const;
  std::optional<Attribute> attribute_of(const Bindings& bindings, const AttributeTerm& term) const;
  bool guards_hold(const Bindings& bindings) const;
  std::optional<TermId> build(Bindings& bindings, const RuleTerm& term, DType dtype) const;
  std::optional<TermId> build_op(Bindings& bindings, const RuleTerm& term, DType dtype) const;
  std::optional<TermId> build_computed(Bindings& bindings, const RuleTerm& term, DType dtype) const;
  std::optional<NodeForm> form_of(const Bindings& bindings, const RuleTerm& term) const;

  const ParsedRule* rule_;
  RuleClasses classes_;
  Pattern pattern_;
  std::vector<FormMatch> forms_;
};

PartId CompiledRule::number_part(double number) {
  return pattern_.predicate([number](const EGraph& graph, ClassId id) {
    const ClassFacts& facts = program_of(graph).facts(id);
    return facts.splat && about(facts.dtype(), *facts.splat, number);
  });
}

PartId CompiledRule::part_of(const RuleTerm& term) {
  switch (term.kind) {
    case RuleTerm::Kind::Variable: return pattern_.variable(static_cast<std::uint32_t>(*variable(term.name)));
    case RuleTerm::Kind::Number: return number_part(term.number);
    case RuleTerm::Kind::Absent: return pattern_.node(Program::kAbsent, PayloadMatch::any(), {});
    case RuleTerm::Kind::Computed: break;
    case RuleTerm::Kind::Op: {
      std::vector<PartId> children;
      for (const RuleTerm& child : term.children) children.push_back(part_of(child));
      PayloadMatch payload = PayloadMatch::fixed(Program::kDefaults);
      if (!term.attributes.empty() || !term.rest.empty()) {
        payload = PayloadMatch::variable(static_cast<std::uint32_t>(forms_.size()));
        forms_.push_back({payload.value, &term});
      }
      const bool swaps = term.op->has(kCommutative) && children.size() == 2;
      return pattern_.node(Program::head_of(*term.op), payload, children,
                           swaps ? egraph::Order::Either : egraph::Order::Given);
    }
  }
  internal_error("rule '" + rule_->text.name + "': a computed value on the left side");
}

// Attributes listed have their value or bind a variable; others have their defaults, unless a rest takes them.
bool CompiledRule::bind_form(Bindings& bindings, const RuleTerm& term, const NodeForm& form) const {
  if (form.outputs.size() != 1) return false;
  std::size_t listed = 0;
  for (const auto& [name, wanted] : term.attributes) {
    const AttributeSpec& spec = *term.op->attribute(name);
    auto found = form.attributes.find(name);
    const Attribute* value = nullptr;
    if (found != form.attributes.end()) {
      value = &found->second;
      ++listed;
    } else if (spec.default_value) {
      value = &*spec.default_value;
    }
    if (value == nullptr) return false;
    if (wanted.kind == AttributeTerm::Kind::Literal) {
      const auto literal = as_kind(wanted.literal, spec.kind);
      if (!literal || !equal_attributes(*literal, *value)) return false;
      continue;
    }
    auto& bound = bindings.attributes[*attribute(wanted.name)];
    if (bound && !equal_attributes(*bound, *value)) return false;
    bound = *value;
  }
  if (term.rest.empty()) return listed == form.attributes.size();
  const NodeForm*& rest = bindings.rests[*attribute("*" + term.rest)];
  if (rest != nullptr && rest != &form) return false;
  rest = &form;
  return true;
}

std::optional<Argument> CompiledRule::argument(const Bindings& bindings, const AttributeTerm& term,
                                               Attribute& storage) const {
  Argument argument;
  if (term.kind == AttributeTerm::Kind::Variable) {
    if (auto number = variable(term.name)) {
      argument.facts = &bindings.program.facts(bindings.match.classes[*number]);
      argument.term = bindings.match.terms[*number];
      return argument;
    }
  }
  auto computed = attribute_of(bindings, term);
  if (!computed) return std::nullopt;
  storage = std::move(*computed);
  argument.attribute = &storage;
  return argument;
}

std::optional<Attribute> CompiledRule::attribute_of(const Bindings& bindings,
                                                    const AttributeTerm& term) const {
  switch (term.kind) {
    case AttributeTerm::Kind::Literal: return term.literal;
    case AttributeTerm::Kind::Variable: {
      auto number = attribute(term.name);
      return number ? bindings.attributes[*number] : std::nullopt;
    }
    case AttributeTerm::Kind::Function: break;
  }
  std::vector<Attribute> storage(term.arguments.size());
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < term.arguments.size(); ++i) {
    auto next = argument(bindings, term.arguments[i], storage[i]);
    if (!next) return std::nullopt;
    arguments.push_back(*next);
  }
  return find_attribute_function(term.name)->compute(arguments);
}

bool CompiledRule::guards_hold(const Bindings& bindings) const {
  for (const Guard& guard : rule_->guards) {
    std::vector<Attribute> storage(guard.arguments.size());
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < guard.arguments.size(); ++i) {
      auto next = argument(bindings, guard.arguments[i], storage[i]);
      if (!next) return false;
      arguments.push_back(*next);
    }
    if (!find_guard(guard.name)->holds(arguments)) return false;
  }
  return true;
}

std::optional<NodeForm> CompiledRule::form_of(const Bindings& bindings, const RuleTerm& term) const {
  NodeForm form;
  if (!term.rest.empty()) form = *bindings.rests[*attribute("*" + term.rest)];
  for (const auto& [name, value] : term.attributes) {
    auto computed = attribute_of(bindings, value);
    if (!computed) return std::nullopt;
    auto held = as_kind(*computed, term.op->attribute(name)->kind);
    if (!held) return std::nullopt;
    form.attributes[name] = std::move(*held);
  }
  return form;
}

// A number takes the dtype of an operand that the signature gives the same type, else the one asked for.
std::optional<TermId> CompiledRule::build_op(Bindings& bindings, const RuleTerm& term, DType dtype) const {
  std::vector<TermId> operands(term.children.size());
  std::map<std::string, DType, std::less<>> types;
  auto parameter = [&](std::size_t i) {
    return term.op->inputs[std::min(i, term.op->inputs.size() - 1)].type;
  };
  for (const bool numbers : {false, true}) {
    for (std::size_t i = 0; i < term.children.size(); ++i) {
      if ((term.children[i].kind == RuleTerm::Kind::Number) != numbers) continue;
      const auto known = types.find(parameter(i));
      auto built = build(bindings, term.children[i], known == types.end() ? dtype : known->second);
      if (!built) return std::nullopt;
      operands[i] = *built;
      const ClassFacts& facts = bindings.program.facts(*built);
      if (facts.is_tensor()) types.try_emplace(parameter(i), facts.dtype());
    }
  }
  auto form = form_of(bindings, term);
  if (!form) return std::nullopt;
  return bindings.program.add_op(*term.op, std::move(*form), operands);
}

std::optional<TermId> CompiledRule::build_computed(Bindings& bindings, const RuleTerm& term,
                                                   DType dtype) const {
  std::vector<Argument> arguments;
  std::vector<Attribute> storage(term.children.size());
  for (std::size_t i = 0; i < term.children.size(); ++i) {
    const RuleTerm& child = term.children[i];
    Argument next;
    if (child.kind == RuleTerm::Kind::Number) {
      storage[i] = static_cast<float>(child.number);
      next.attribute = &storage[i];
    } else if (child.kind == RuleTerm::Kind::Variable && !variable(child.name)) {
      const auto number = attribute(child.name);
      if (!number || !bindings.attributes[*number]) return std::nullopt;
      next.attribute = &*bindings.attributes[*number];
    } else {
      auto built = build(bindings, child, dtype);
      if (!built) return std::nullopt;
      next.term = *built;
      next.facts = &bindings.program.facts(*built);
    }
    arguments.push_back(next);
  }
  return find_value_function(term.name)->compute(bindings.program, bindings.root, arguments);
}

std::optional<TermId> CompiledRule::build(Bindings& bindings, const RuleTerm& term, DType dtype) const {
  switch (term.kind) {
    case RuleTerm::Kind::Variable: return bindings.match.terms[*variable(term.name)];
    case RuleTerm::Kind::Number: return bindings.program.add_number(dtype, term.number);
    case RuleTerm::Kind::Absent: return bindings.program.absent();
    case RuleTerm::Kind::Op: return build_op(bindings, term, dtype);
    case RuleTerm::Kind::Computed: return build_computed(bindings, term, dtype);
  }
  return std::nullopt;
}

std::optional<TermId> CompiledRule::apply(EGraph& graph, const Match& match) const {
  Program& program = program_of(graph);
  const ClassFacts& root = program.facts(match.root);
  if (root.constant && !root.stays_bytes) return std::nullopt;  // it will be folded, however it is written
  // A node that is equal to its own operand does nothing, and could be taken in again without end.
  for (TermId term : match.nodes) {
    for (TermId child : graph.children(term)) {
      if (graph.equal(term, child)) return std::nullopt;
    }
  }
  if (!root.is_tensor() || !classes_.allow(class_on(rule_->text, root.dtype()))) return std::nullopt;
  Bindings bindings{program, match, root, {}, {}};
  bindings.attributes.resize(rule_->attributes.size());
  bindings.rests.resize(rule_->attributes.size());
  for (const FormMatch& form : forms_) {
    if (!bind_form(bindings, *form.term, program.form(match.payloads[form.payload]))) return std::nullopt;
  }
  if (!guards_hold(bindings)) return std::nullopt;
  auto right = build(bindings, rule_->right, root.dtype());
  if (!right || !(program.facts(*right).outputs[0].type == root.type())) return std::nullopt;
  return right;
}

}  // namespace

bool RuleClasses::allow(RuleClass rule_class) const {
  switch (rule_class) {
    case RuleClass::Exact: return true;
    case RuleClass::Reassociating: return reassociating;
    case RuleClass::PrecisionChanging: return precision_changing;
  }
  return false;
}

RuleClass class_on(const RuleText& rule, DType dtype) {
  const bool narrow = is_float(dtype) && bits_of(dtype) < 32;
  const bool rounds_more = rule.rule_class == RuleClass::Reassociating && narrow && !rule.also_narrow;
  return rounds_more ? RuleClass::PrecisionChanging : rule.rule_class;
}

egraph::Rule compile_rule(const ParsedRule& rule, RuleClasses classes) {
  auto compiled = std::make_shared<CompiledRule>(rule, classes);
  egraph::Rule made;
  made.name = rule.text.name;
  made.left = compiled->pattern();
  made.compute = [compiled](EGraph& graph, const Match& match) { return compiled->apply(graph, match); };
  made.tag = static_cast<int>(rule.text.rule_class);
  return made;
}

Result<RuleSet> RuleSet::parse(std::span<const RuleText> texts) {
  std::vector<ParsedRule> rules;
  std::map<std::string, std::string> places;
  for (const RuleText& text : texts) {
    XYNTRA_TRY(ParsedRule rule, parse_rule(text));
    auto [found, fresh] = places.try_emplace(text.name, text.place);
    if (!fresh) {
      return usage_error("rule " + quote(text.name) + " (" + text.place +
                         "): there is one of this name already (" + found->second + ")");
    }
    rules.push_back(std::move(rule));
  }
  RuleSet set;
  set.rules_ = std::make_shared<const std::vector<ParsedRule>>(std::move(rules));
  return set;
}

const RuleSet& RuleSet::built_in() {
  static const RuleSet kRules = [] {
    auto parsed = parse(built_in_rules());
    if (!parsed) internal_error(parsed.error().message);
    return std::move(*parsed);
  }();
  return kRules;
}

const ParsedRule* RuleSet::find(std::string_view name) const {
  for (const ParsedRule& rule : *rules_) {
    if (rule.text.name == name) return &rule;
  }
  return nullptr;
}

std::vector<egraph::Rule> RuleSet::compile(RuleClasses classes) const {
  std::vector<egraph::Rule> compiled;
  for (const ParsedRule& rule : *rules_) {
    if (classes.allow(rule.text.rule_class)) compiled.push_back(compile_rule(rule, classes));
  }
  return compiled;
}

}  // namespace xyntra
