#include "fusion/layout/extensions.h"

#include <algorithm>
#include <set>

#include "fusion/compose.h"
#include "support/text/text.h"
#include "te/compose/compose.h"
#include "te/index/index.h"
#include "te/walk.h"

namespace xyntra {

using te::BufferId;
using te::BufferInfo;
using te::Expr;
using te::ExprOp;
using te::Formula;
using te::Stage;

namespace {

ValueId value_of(const Group& group, const BufferInfo& buffer) {
  const auto& values = buffer.role == te::BufferRole::Input ? group.inputs : group.outputs;
  return values.at(static_cast<std::size_t>(buffer.position));
}

bool counts_along(const Formula& formula, const Expr& index, const Dim& size) {
  if (index->op == ExprOp::Var) return formula.variable(index->var).extent == size;
  return size.is(1) && te::same(index, Expr::index(0));
}

// A stage that copies all of an operand to the same place of a result; the operand's buffer.
std::optional<BufferId> copied_in_place(const Formula& formula, const Stage& stage) {
  if (stage.kind != Stage::Kind::MapReduce || stage.reducer != te::Reducer::None || stage.finish.defined() ||
      stage.body->op != ExprOp::Load)
    return std::nullopt;
  const BufferInfo &from = formula.buffer(stage.body->buffer), &to = formula.buffer(stage.target);
  const std::vector<Expr>& index = stage.body->operands;
  if (from.role != te::BufferRole::Input || to.role != te::BufferRole::Output || from.dtype != to.dtype ||
      !std::equal(index.begin(), index.end(), stage.store.begin(), stage.store.end(), te::same))
    return std::nullopt;
  std::set<te::VarId> seen;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (!counts_along(formula, index[d], from.shape[d])) return std::nullopt;
    if (index[d]->op == ExprOp::Var && !seen.insert(index[d]->var).second) return std::nullopt;
  }
  return from.id;
}

// The only axis along which the sizes differ, the result's being larger whatever the sizes are.
std::optional<std::size_t> grown_axis(const Shape& from, const Shape& to) {
  std::optional<std::size_t> grown;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] == to[d]) continue;
    if (grown || !(to[d] - from[d]).never_negative()) return std::nullopt;
    grown = d;
  }
  return grown;
}

class Finder {
 public:
  Finder(const FusionNodes& fusion_nodes, const std::vector<Group>& groups,
         const std::vector<Formula>& formulas)
      : graph_(fusion_nodes.graph()), groups_(groups), formulas_(formulas) {
    for (ValueId input : graph_.inputs) {
      const Type& type = graph_.value(input).type;
      if (!type.is_tensor() || !type.shape || graph_.value(input).is_constant()) continue;
      inputs_.insert(input);
      for (const Dim& dim : *type.shape) {
        if (dim.is_symbol()) sizes_.emplace(dim.to_string(), 1);
      }
    }
  }

  Extensions run() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].hero == Hero::Host) continue;
      for (const Stage& stage : formulas_[g].stages) look(g, stage);
    }
    return std::move(result_);
  }

 private:
  void look(std::size_t g, const Stage& stage) {
    const Formula& formula = formulas_[g];
    const auto from = copied_in_place(formula, stage);
    if (!from) return;
    const BufferInfo& to = formula.buffer(stage.target);
    const Extension made{value_of(groups_[g], formula.buffer(*from)), value_of(groups_[g], to), 0, g};
    const auto axis = grown_axis(formula.buffer(*from).shape, to.shape);
    if (!axis || !inputs_.contains(made.input) || count(graph_.outputs, made.output) == 0) return;
    std::string reason = why_not(made, *axis, *from, stage);
    if (!reason.empty()) {
      result_.refused[made.input] = std::move(reason);
      return;
    }
    result_.found.push_back({made.input, made.output, *axis, g});
  }

  static std::ptrdiff_t count(const std::vector<ValueId>& values, ValueId value) {
    return std::ranges::count(values, value);
  }

  std::string why_not(const Extension& made, std::size_t axis, BufferId from, const Stage& copy) const {
    const Formula& formula = formulas_[made.group];
    const BufferInfo& to = formula.buffer(copy.target);
    if (bits_of(to.dtype) % 8 != 0) return "its elements are narrower than a byte";
    if (count(graph_.outputs, made.input) != 0 || count(graph_.outputs, made.output) != 1)
      return "it, or the result that extends it, is an output more than once";
    for (const Dim& dim : to.shape) {
      if (!dim.substitute(sizes_).is_constant()) return "the size of the result follows from contents";
    }
    const te::IndexAlgebra algebra(formula);
    for (const Stage& stage : formula.stages) {
      if (&stage == &copy) continue;
      if (te::reads(stage, from)) return "the launch that extends it reads it for something else, too";
      if (stage.target != copy.target) continue;
      if (stage.kind != Stage::Kind::MapReduce ||
          !algebra.within(stage.store[axis], formula.buffer(from).shape[axis], to.shape[axis]))
        return "the result differs from it in more than the appended rows";
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const bool on_host = groups_[g].hero == Hero::Host;
      if (on_host && (count(groups_[g].inputs, made.input) + count(groups_[g].inputs, made.output)) != 0)
        return "an operation on the host reads it, or the result that extends it";
      if (!on_host && g > made.group && count(groups_[g].inputs, made.input) != 0)
        return "it is read after the launch that extends it";
    }
    return "";
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  const std::vector<Formula>& formulas_;
  std::set<ValueId> inputs_;
  SymbolBindings sizes_;  // that inputs tell
  Extensions result_;
};

// Names that no size of the model has.
class FreshSymbols {
 public:
  explicit FreshSymbols(const Graph& graph) {
    std::vector<std::string> symbols;
    for (std::size_t v = 0; v < graph.value_count(); ++v) {
      const Type& type = graph.value(ValueId(v)).type;
      if (!type.is_tensor() || !type.shape) continue;
      for (const Dim& dim : *type.shape) dim.collect_symbols(symbols);
    }
    taken_.insert(symbols.begin(), symbols.end());
  }

  std::string next() {
    std::string name = "room";
    for (int number = 2; !taken_.insert(name).second; ++number) name = "room_" + std::to_string(number);
    return name;
  }

 private:
  std::set<std::string> taken_;
};

// Of the figures of a group that copies: so many bytes are neither read nor written.
void leave_out_bytes(Group& group, const Dim& bytes, DType dtype, const Target& target,
                     const ChooseOptions& options) {
  group.bytes_in = group.bytes_in - bytes;
  group.bytes_out = group.bytes_out - bytes;
  if (group.hero != Hero::Movement) return;
  group.predicted_ns = target.estimate_ns(nominal(group.bytes_in + group.bytes_out, options), 0, dtype, 1);
}

Status know_all(const FusionNodes& fusion_nodes, const Extensions& extensions,
                const std::vector<std::string>& names) {
  const Graph& graph = fusion_nodes.graph();
  for (const std::string& name : names) {
    if (name == "*") continue;
    const auto input =
        std::ranges::find_if(graph.inputs, [&](ValueId value) { return graph.value(value).name == name; });
    if (input == graph.inputs.end()) return usage_error("donate: the model has no input '" + name + "'");
    if (std::ranges::find(extensions.found, *input, &Extension::input) != extensions.found.end()) continue;
    const auto refused = extensions.refused.find(*input);
    return usage_error("donate: input '" + name + "' cannot be extended in place: " +
                       (refused == extensions.refused.end()
                            ? "no result of the model is this input with rows appended"
                            : refused->second));
  }
  return {};
}

}  // namespace

Extensions find_extensions(const FusionNodes& fusion_nodes, const std::vector<Group>& groups,
                           const std::vector<Formula>& formulas) {
  return Finder(fusion_nodes, groups, formulas).run();
}

Result<std::vector<ValueLayout>> leave_room(const FusionNodes& fusion_nodes, Grouping& grouping,
                                            const std::vector<std::string>& names, const Target& target,
                                            const ChooseOptions& options, SymbolBindings& nominal) {
  std::vector<ValueLayout> layouts;
  if (names.empty()) return layouts;
  const Graph& graph = fusion_nodes.graph();
  const Extensions extensions = find_extensions(fusion_nodes, grouping.groups, grouping.formulas);
  XYNTRA_CHECK_OK(know_all(fusion_nodes, extensions, names));
  const bool all = std::ranges::find(names, "*") != names.end();
  FreshSymbols fresh(graph);
  // KV caches that grow alike have the same room, so that their layers keep sharing kernels.
  std::vector<std::pair<Dim, std::string>> rooms;
  for (const Extension& one : extensions.found) {
    const Value &input = graph.value(one.input), &output = graph.value(one.output);
    if (!all && std::ranges::find(names, input.name) == names.end()) continue;
    const Dim& rows = (*output.type.shape)[one.axis];
    auto room = std::ranges::find(rooms, rows, &std::pair<Dim, std::string>::first);
    if (room == rooms.end()) {
      room = rooms.insert(rooms.end(), {rows, fresh.next()});
      nominal.emplace(room->second, 0);
    }
    const Dim left = Dim::symbol(room->second);
    const std::size_t rank = output.type.shape->size();
    layouts.push_back({one.input, with_room(rank, one.axis, rows - (*input.type.shape)[one.axis] + left)});
    layouts.push_back({one.output, with_room(rank, one.axis, left)});
    leave_out_bytes(grouping.groups[one.group], bytes_of(product(*input.type.shape), input.type.dtype),
                    input.type.dtype, target, options);
  }
  std::ranges::sort(layouts, {}, &ValueLayout::value);
  return layouts;
}

Result<std::vector<Extension>> extensions_with_room(const FusionNodes& fusion_nodes,
                                                    const std::vector<Group>& groups,
                                                    const std::vector<Formula>& formulas,
                                                    const std::vector<ValueLayout>& layouts) {
  std::vector<Extension> made;
  std::map<ValueId, const Layout*> roomy;
  for (const ValueLayout& one : layouts) {
    if (leaves_room(one.layout)) roomy.emplace(one.value, &one.layout);
  }
  if (roomy.empty()) return made;
  const Graph& graph = fusion_nodes.graph();
  for (const Extension& one : find_extensions(fusion_nodes, groups, formulas).found) {
    const auto input = roomy.find(one.input), output = roomy.find(one.output);
    if (input == roomy.end() || output == roomy.end()) continue;
    const Shape &from = *graph.value(one.input).type.shape, &to = *graph.value(one.output).type.shape;
    const Dim room = output->second->at(one.axis).room;
    if (*output->second != with_room(to.size(), one.axis, room) || !room.is_symbol() ||
        *input->second != with_room(from.size(), one.axis, to[one.axis] - from[one.axis] + room))
      continue;
    made.push_back(one);
    roomy.erase(one.input);
    roomy.erase(one.output);
  }
  if (roomy.empty()) return made;
  return bad_model("the value %" + printable(graph.value(roomy.begin()->first).name) +
                   " has room for rows that nothing puts there");
}

Extended extended_by_nodes(const FusionNodes& fusion_nodes, const std::vector<std::string>& names) {
  Extended extended;
  if (names.empty()) return extended;
  const Graph& graph = fusion_nodes.graph();
  std::vector<Group> groups;
  std::vector<Formula> formulas;
  auto add = [&](NodeId node, Hero hero) {
    Group& group = groups.emplace_back();
    group.hero = hero;
    group.nodes = {node};
    group.inputs = fusion_nodes[node].reads;
    std::ranges::copy_if(graph.node(node).outputs, std::back_inserter(group.outputs), &ValueId::valid);
    formulas.push_back(hero == Hero::Host ? Formula()
                                          : compose(fusion_nodes, group.nodes, group.inputs, group.outputs));
  };
  for (ValueId input : graph.inputs) {
    const bool named = std::ranges::find(names, graph.value(input).name) != names.end() ||
                       std::ranges::find(names, "*") != names.end();
    const std::vector<NodeId>& readers = fusion_nodes.readers(input);
    if (named && readers.size() == 1 && !fusion_nodes[readers.front()].is_host())
      add(readers.front(), Hero::Movement);
  }
  for (NodeId node : fusion_nodes.order()) {
    if (fusion_nodes[node].live && fusion_nodes[node].is_host()) add(node, Hero::Host);
  }
  for (const Extension& one : find_extensions(fusion_nodes, groups, formulas).found)
    extended.emplace(one.input, one.output);
  return extended;
}

void leave_out_copies(Formula& formula, const std::vector<ValueId>& inputs,
                      const std::vector<ValueId>& outputs, const Extended& extended) {
  const auto left = std::erase_if(formula.stages, [&](const Stage& stage) {
    const auto from = copied_in_place(formula, stage);
    if (!from) return false;
    const auto input = extended.find(inputs.at(static_cast<std::size_t>(formula.buffer(*from).position)));
    const auto to = static_cast<std::size_t>(formula.buffer(stage.target).position);
    return input != extended.end() && input->second == outputs.at(to);
  });
  if (left > 0) te::drop_unused(formula, true);  // a device binds the memory once
}

void leave_out_copies(Formula& formula, const Group& group, const MemoryPlan& memory) {
  Extended extended;
  for (const BufferAssignment& assignment : memory.assignments) {
    if (assignment.kind == BufferAssignment::Kind::Input && assignment.of.valid())
      extended.emplace(assignment.of, assignment.value);
  }
  leave_out_copies(formula, group.inputs, group.outputs, extended);
}

}  // namespace xyntra
