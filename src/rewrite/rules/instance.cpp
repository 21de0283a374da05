#include "rewrite/rules/instance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "egraph/match/rule.h"
#include "egraph/runner.h"
#include "rewrite/normalize/fold.h"
#include "rewrite/rules/rule_set.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

using Integers = std::vector<std::int64_t>;

template <class Item>
const Item& pick(const std::vector<Item>& items, Random& random) {
  return items[random() % items.size()];
}

bool chance(Random& random, unsigned percent) { return random() % 100 < percent; }

// Draws one instance, deciding about each variable where it is first used.
class Drawing {
 public:
  Drawing(const ParsedRule& rule, const Example& example, Random& random)
      : rule_(rule), example_(example), random_(random) {
    static const std::vector<DType> kDTypes = {DType::F32, DType::F32,  DType::F32, DType::F64,
                                               DType::F16, DType::BF16, DType::I32, DType::I64};
    dtype_ = pick(kDTypes, random_);
    const std::size_t rank = random_() % 4;
    for (std::size_t i = 0; i < rank; ++i) base_.push_back(size());
    for (const Guard& guard : rule.guards) {
      if (guard.name == "boolean") booleans_.insert(guard.arguments[0].name);
      if (guard.name == "int8") int8_.insert(guard.arguments[0].name);
      static const std::vector<std::string> kConstant = {"constant",     "bounded",  "number",   "positive",
                                                         "power_of_two", "moderate", "counts",   "all_true",
                                                         "all_false",    "one_axis", "all_zero", "shift"};
      if (std::ranges::find(kConstant, guard.name) == kConstant.end()) continue;
      // The most particular one decides what is drawn.
      if (guard.arguments[0].kind == AttributeTerm::Kind::Variable &&
          (guard.name != "bounded" || !constants_.contains(guard.arguments[0].name)))
        constants_[guard.arguments[0].name] = guard.name;
    }
  }

  std::optional<Instance> draw() {
    const auto left = build(rule_.left, nullptr, {});
    if (!left) return std::nullopt;
    EGraph& graph = program_.graph();
    graph.rebuild();
    const egraph::Rule rule = compile_rule(rule_, {true, true});
    const egraph::Matcher matcher(rule.left);
    egraph::MatchList found(rule.left);
    matcher.search_class(graph, graph.class_of(*left), 64, found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::vector<ClassId> classes(found.classes(i).begin(), found.classes(i).end());
      std::vector<TermId> terms;
      for (ClassId id : classes) terms.push_back(graph.representative(id));
      const egraph::Match match{graph.class_of(*left), classes,        terms,
                                found.payloads(i),     found.nodes(i), found.swapped(i)};
      if (match.root_term() != *left) continue;
      const auto right = rule.compute(graph, match);
      if (!right) continue;
      Instance instance;
      instance.left = graph_of_term(program_, *left, inputs_);
      instance.right = graph_of_term(program_, *right, inputs_);
      instance.dtype = program_.facts(*left).dtype();
      const std::array rules{rule};
      egraph::RunLimits limits;
      limits.iterations = 12;
      limits.nodes = 2000;
      const egraph::RunReport run = egraph::Runner(rules, limits).run(graph);
      instance.endless = run.stop != egraph::StopReason::Saturated;
      return instance;
    }
    return std::nullopt;
  }

 private:
  // Where a variable stands: the parameter it is, and the operands to its left.
  struct Use {
    const OpDef* op;
    std::size_t position;
    std::vector<TermId> before;
  };

  std::int64_t size() { return chance(random_, 4) ? 0 : static_cast<std::int64_t>(1 + random_() % 3); }

  std::int64_t named_size(const std::string& name) {
    if (auto number = parse_i64(name)) return *number;
    auto [found, fresh] = sizes_.try_emplace(name, 0);
    if (fresh) found->second = size();
    return found->second;
  }
  Integers named_sizes(const std::vector<std::string>& names) {
    Integers sizes;
    for (const std::string& name : names) sizes.push_back(named_size(name));
    return sizes;
  }

  // The common shape, or one that broadcasts to it.
  Dims shape() {
    Dims dims = base_;
    if (chance(random_, 50)) return dims;
    if (!dims.empty())
      dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(random_() % (dims.size() + 1)));
    for (std::int64_t& size : dims) {
      if (chance(random_, 30)) size = 1;
    }
    return dims;
  }

  DType dtype_for(const Use& use) {
    if (use.op == nullptr) return dtype_;
    const std::string& type = use.op->inputs[std::min(use.position, use.op->inputs.size() - 1)].type;
    if (auto fixed = dtype_named(type)) return *fixed;
    for (std::size_t i = 0; i < use.before.size(); ++i) {
      const bool same = use.op->inputs[std::min(i, use.op->inputs.size() - 1)].type == type;
      if (same && program_.facts(use.before[i]).is_tensor()) return program_.facts(use.before[i]).dtype();
    }
    for (const auto& [variable, allowed] : use.op->variables) {
      const auto allows = [&](DType dtype) { return (allowed >> static_cast<int>(dtype) & 1) != 0; };
      if (variable != type || allows(dtype_)) continue;
      for (DType other : {DType::F32, DType::I64}) {
        if (allows(other)) return other;
      }
      return chance(random_, 50) ? DType::I8 : DType::U8;
    }
    return dtype_;
  }

  double number_for(const std::string& name) {
    if (auto found = example_.numbers.find(name); found != example_.numbers.end()) return found->second;
    static const std::vector<double> kNumbers = {0.5, 2, 3, 1e-3, 0.1, 7, 1.5, 64, 8, 0.25};
    const double number = pick(kNumbers, random_);
    const auto guard = constants_.find(name);
    const bool is_signed = guard == constants_.end() || guard->second != "positive";
    return is_signed && chance(random_, 30) ? -number : number;
  }

  // Lists of integers mean something to the op that takes them.
  Integers integers_for(const std::string& name, const Use& use) {
    if (auto found = example_.contents.find(name); found != example_.contents.end())
      return named_sizes(found->second);
    Dims first;
    if (!use.before.empty() && program_.facts(use.before[0]).shaped()) {
      first = static_dims(program_.facts(use.before[0]).shape()).value_or(Dims());
    }
    const std::string& role = use.op->inputs[std::min(use.position, use.op->inputs.size() - 1)].name;
    if (role == "shape") return use.op->name == "Expand" ? grown(first) : regrouped(first);
    Integers axes;
    for (std::size_t i = 0; i < first.size(); ++i) {
      if (chance(random_, 50)) axes.push_back(static_cast<std::int64_t>(i));
    }
    if (axes.empty() && !first.empty()) axes.push_back(static_cast<std::int64_t>(first.size()) - 1);
    return axes;
  }
  Integers grown(Integers sizes) {
    for (std::int64_t& size : sizes) {
      if (size == 1 && chance(random_, 50)) size = this->size();
    }
    if (chance(random_, 40)) sizes.insert(sizes.begin(), size());
    return sizes;
  }
  // The same number of elements under another shape.
  Integers regrouped(Integers sizes) {
    if (sizes.size() > 1 && chance(random_, 60)) {
      const std::size_t at = random_() % (sizes.size() - 1);
      sizes[at] *= sizes[at + 1];
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    if (chance(random_, 50))
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(random_() % (sizes.size() + 1)), 1);
    return sizes;
  }

  Tensor random_constant(DType dtype, const Dims& dims) {
    Tensor tensor = splat(dtype, dims, 0);
    std::normal_distribution<double> normal(0, 1);
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      if (is_float(dtype)) {
        tensor.set_element_f64(i, normal(random_));
      } else {
        tensor.set_element_i64(i, is_bool(dtype) ? static_cast<std::int64_t>(random_() % 2)
                                                 : static_cast<std::int64_t>(random_() % 7) - 3);
      }
    }
    return tensor;
  }

  // As large and as small as the guard lets through, and zeros.
  Tensor bounded_constant(DType dtype, const Dims& dims) {
    Tensor tensor = splat(dtype, dims, 0);
    const Magnitude bounds = bounds_of(dtype).value_or(Magnitude());
    const int low = std::ilogb(bounds.low > 0 ? bounds.low : 0x1p-10), high = std::ilogb(bounds.high) - 1;
    const int from = chance(random_, 40) ? high : low, to = chance(random_, 40) ? low : high;
    std::uniform_int_distribution<int> exponent(std::min(from, to), std::max(from, to));
    std::uniform_real_distribution<double> fraction(1, 2);
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      const double size = chance(random_, 10) ? 0 : std::ldexp(fraction(random_), exponent(random_));
      tensor.set_element_f64(i, chance(random_, 50) ? -size : size);
    }
    return tensor;
  }

  TermId make_variable(const std::string& name, const Use& use) {
    DType dtype = booleans_.contains(name) ? DType::Bool : dtype_for(use);
    if (int8_.contains(name) && bits_of(dtype) != 8) dtype = chance(random_, 50) ? DType::I8 : DType::U8;
    const bool listed = example_.contents.contains(name);
    const bool integer_list =
        use.op != nullptr && is_integer(dtype) && (dtype != DType::I32 || listed) &&
        (dtype_named(use.op->inputs[std::min(use.position, use.op->inputs.size() - 1)].type) || listed);
    const auto given = example_.shapes.find(name);
    if (integer_list) {
      const Tensor list = Tensor::of_integers(integers_for(name, use));
      const bool shaped = listed && given != example_.shapes.end();
      return program_.add_constant(shaped ? list.reshaped(named_sizes(given->second)).value() : list);
    }
    const Dims dims = given == example_.shapes.end() ? shape() : named_sizes(given->second);
    const auto guard = constants_.find(name);
    if (guard != constants_.end() && (guard->second == "all_true" || guard->second == "all_false")) {
      Tensor tensor = splat(dtype, dims, 0);
      for (std::int64_t i = 0; i < tensor.count(); ++i)
        tensor.set_element_i64(i, guard->second == "all_true" ? 1 : 0);
      return program_.add_constant(std::move(tensor));
    }
    const bool tensor = guard != constants_.end() && (guard->second == "constant" ||
                                                      guard->second == "bounded" || guard->second == "shift");
    if (example_.numbers.contains(name) || (guard != constants_.end() && !tensor)) {
      const bool plain = chance(random_, 50) && given == example_.shapes.end();
      return program_.add_constant(splat(dtype, plain ? Dims() : dims, number_for(name)));
    }
    if (tensor && guard->second == "bounded" && is_float(dtype) && chance(random_, 50))
      return program_.add_constant(bounded_constant(dtype, dims));
    if (tensor) return program_.add_constant(random_constant(dtype, dims));
    ValueFacts facts;
    facts.type = Type::tensor(dtype, shape_of(dims));
    inputs_.push_back(facts.type);
    return program_.add_input(inputs_.size() - 1, std::move(facts));
  }

  std::optional<Attribute> draw_attribute(const AttributeSpec& spec, const std::string& name,
                                          const Use& use) {
    if (auto found = example_.contents.find(name); found != example_.contents.end())
      return named_sizes(found->second);
    const ClassFacts* first = use.before.empty() ? nullptr : &program_.facts(use.before[0]);
    const auto rank = first != nullptr && first->shaped() ? static_cast<std::int64_t>(first->rank()) : 0;
    if (auto found = example_.numbers.find(name); found != example_.numbers.end()) {
      if (spec.kind == "int") return static_cast<std::int64_t>(found->second);
      return static_cast<float>(found->second);
    }
    if (spec.name == "equation") {
      static const std::vector<std::string> kEquations = {"bij,bjk->bik", "bij,bkj->bik",  "bij,bjk->bki",
                                                          "bjk,kcb->jc",  "abc,dce->abde", "bic,bdi->bcd"};
      return pick(kEquations, random_);
    }
    if (spec.name == "perm") {
      Integers order(static_cast<std::size_t>(rank));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random_);
      return order;
    }
    if (spec.name == "axis")
      return rank == 0 ? 0 : static_cast<std::int64_t>(random_() % static_cast<std::size_t>(rank));
    if (spec.name == "pads")
      return Integers(rank > 2 ? 2 * static_cast<std::size_t>(rank - 2) : 0,
                      static_cast<std::int64_t>(random_() % 2));
    if (spec.name == "keepdims") return static_cast<std::int64_t>(random_() % 2);
    if (spec.name == "to") {
      static const std::vector<DType> kTargets = {DType::F32, DType::F64, DType::F16, DType::BF16,
                                                  DType::I32, DType::I64, DType::I8,  DType::Bool};
      return std::int64_t{onnx_code_of(pick(kTargets, random_))};
    }
    if (spec.name == "epsilon") return pick(std::vector<float>{1e-5F, 1e-3F, 1e-12F}, random_);
    if (spec.kind == "float") return pick(std::vector<float>{1, 0.5F, 2, -1.5F, 0.125F}, random_);
    if (spec.kind == "int") return spec.default_value;
    return std::nullopt;
  }

  // Strides and pads of convolutions and the like.
  void draw_rest(const OpDef& op, const std::vector<TermId>& operands, Attributes& attributes) {
    if (operands.empty() || !program_.facts(operands[0]).shaped()) return;
    const std::size_t rank = program_.facts(operands[0]).rank(), spatial = rank > 2 ? rank - 2 : 0;
    auto set = [&](const char* name, std::size_t count, std::int64_t low, std::int64_t choices) {
      if (op.attribute(name) == nullptr || attributes.contains(name)) return;
      Integers values;
      for (std::size_t i = 0; i < count; ++i)
        values.push_back(low + static_cast<std::int64_t>(random_() % static_cast<std::size_t>(choices)));
      attributes[name] = std::move(values);
    };
    if (op.attribute("num_groups") != nullptr) attributes["num_groups"] = std::int64_t{2};
    set("strides", spatial, 1, 2);
    set("dilations", spatial, 1, 2);
    set("pads", 2 * spatial, 0, 2);
  }

  std::optional<TermId> build(const RuleTerm& term, const OpDef* op, const std::vector<TermId>& before) {
    const Use use{op, before.size(), before};
    switch (term.kind) {
      case RuleTerm::Kind::Absent: return program_.absent();
      case RuleTerm::Kind::Number: {
        Dims dims;
        if (chance(random_, 30)) dims = Dims(base_.size(), 1);
        return program_.add_constant(splat(dtype_for(use), dims, term.number));
      }
      case RuleTerm::Kind::Variable: {
        auto [found, fresh] = variables_.try_emplace(term.name);
        if (fresh) found->second = make_variable(term.name, use);
        return found->second;
      }
      case RuleTerm::Kind::Computed: return std::nullopt;
      case RuleTerm::Kind::Op: break;
    }
    std::vector<TermId> operands;
    for (const RuleTerm& child : term.children) {
      auto built = build(child, term.op, operands);
      if (!built) return std::nullopt;
      operands.push_back(*built);
    }
    NodeForm form;
    const Use own{term.op, operands.size(), operands};
    for (const auto& [name, value] : term.attributes) {
      const AttributeSpec& spec = *term.op->attribute(name);
      if (value.kind == AttributeTerm::Kind::Literal) {
        form.attributes[name] = value.literal;
        const auto* integer = std::get_if<std::int64_t>(&value.literal);
        if (spec.kind == "float" && integer != nullptr) form.attributes[name] = static_cast<float>(*integer);
        continue;
      }
      auto [found, fresh] = attributes_.try_emplace(value.name);
      if (fresh) {
        auto drawn = draw_attribute(spec, value.name, own);
        if (!drawn) return std::nullopt;
        found->second = std::move(*drawn);
      }
      form.attributes[name] = found->second;
    }
    if (!term.rest.empty()) draw_rest(*term.op, operands, form.attributes);
    return program_.add_op(*term.op, std::move(form), operands);
  }

  const ParsedRule& rule_;
  const Example& example_;
  Random& random_;
  Program program_;
  DType dtype_ = DType::F32;
  Dims base_;
  std::vector<Type> inputs_;
  std::map<std::string, std::string> constants_;  // variable -> the guard that wants it constant
  std::set<std::string> booleans_, int8_;
  std::map<std::string, std::int64_t> sizes_;
  std::map<std::string, TermId> variables_;
  std::map<std::string, Attribute> attributes_;
};

}  // namespace

Result<Example> parse_example(const std::string& text) {
  Example example;
  auto list = [](std::string_view inner) {
    std::vector<std::string> items;
    for (std::string_view item : split(inner, ',')) {
      if (!trimmed(item).empty()) items.emplace_back(trimmed(item));
    }
    return items;
  };
  for (std::string_view piece : split(text, ' ')) {
    if (piece.empty()) continue;
    const std::size_t equals = piece.find('='), bracket = piece.find('[');
    if (bracket != piece.npos && !piece.ends_with(']'))
      return usage_error("example: '" + std::string(piece) + "' has no ]");
    if (equals == piece.npos && bracket != piece.npos) {
      example.shapes[std::string(piece.substr(0, bracket))] =
          list(piece.substr(bracket + 1, piece.size() - bracket - 2));
    } else if (equals != piece.npos && bracket == equals + 1) {
      example.contents[std::string(piece.substr(0, equals))] =
          list(piece.substr(bracket + 1, piece.size() - bracket - 2));
    } else if (equals != piece.npos && parse_f64(piece.substr(equals + 1))) {
      example.numbers[std::string(piece.substr(0, equals))] = *parse_f64(piece.substr(equals + 1));
    } else {
      return usage_error("example: '" + std::string(piece) + "' is neither x[n] nor x=[1] nor x=1");
    }
  }
  return example;
}

std::optional<Instance> draw_instance(const ParsedRule& rule, const Example& example, Random& random) {
  return Drawing(rule, example, random).draw();
}

Graph graph_of_term(const Program& program, TermId root, const std::vector<Type>& inputs) {
  const EGraph& terms = program.graph();
  Graph graph;
  std::vector<ValueId> arguments;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    arguments.push_back(graph.add_input("x" + std::to_string(i), inputs[i]));
  std::map<TermId, ValueId> placed;
  auto place = [&](auto&& self, TermId term) -> ValueId {
    if (auto found = placed.find(term); found != placed.end()) return found->second;
    ValueId value;
    const std::string name = "t" + std::to_string(term.index);
    if (terms.head(term) == Program::kInput) {
      value = arguments.at(terms.payload(term));
    } else if (terms.head(term) == Program::kConstant) {
      value = graph.add_constant(name, program.tensor(terms.payload(term)));
    } else if (const OpDef* def = Program::op_of(terms.head(term)); def != nullptr) {
      std::vector<ValueId> operands;
      for (TermId child : terms.children(term)) operands.push_back(self(self, child));
      value = graph.output_of(
          graph.add_node(def->name, operands, {name}, program.form(terms.payload(term)).attributes));
      graph.value(value).type = program.facts(term).type();
    }
    return placed[term] = value;
  };
  ValueId output = place(place, root);
  if (!graph.value(output).producer.valid()) {
    const Type type = graph.value(output).type;
    output = graph.output_of(graph.add_node("Identity", {output}, {"result"}));
    graph.value(output).type = type;
  }
  graph.outputs = {output};
  return graph;
}

}  // namespace xyntra
