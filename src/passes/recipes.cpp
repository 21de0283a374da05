#include "passes/recipes.h"

#include <map>
#include <set>
#include <tuple>

#include "plan/text.h"

namespace xyntra {
namespace {

// Tensors are shared, not copied, on their way through rewriting: the same place is the same contents.
using Place = std::tuple<const std::byte*, DType, Dims>;

Place place_of(const Tensor& tensor) { return {tensor.bytes().data(), tensor.dtype(), tensor.dims()}; }
bool is_long(const Tensor& tensor) { return tensor.defined() && tensor.count() > kInlineElements; }

class RecipeWriter {
 public:
  RecipeWriter(const Graph& graph, const Graph& model, const FoldLog& folded)
      : graph_(graph), folded_(folded) {
    for (std::size_t i = 0; i < model.value_count(); ++i) {
      const Tensor& constant = model.value(ValueId(i)).constant;
      if (is_long(constant)) given_.insert(place_of(constant));
    }
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.value_count(); ++i) want(graph_.value(ValueId(i)).constant);
    std::vector<bool> used(folded_.size(), false);
    for (std::size_t i = folded_.size(); i-- > 0;) {
      for (const Tensor& result : folded_[i].results)
        used[i] = used[i] || (is_long(result) && wanted_.contains(place_of(result)));
      if (!used[i]) continue;
      for (const Tensor& operand : folded_[i].operands) want(operand);
    }
    name_outputs();
    for (std::size_t i = 0; i < folded_.size(); ++i) {
      if (used[i]) add(folded_[i]);
    }
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value(ValueId(i));
      if (!is_long(value.constant)) continue;
      if (auto made = made_.find(place_of(value.constant)); made != made_.end())
        output(made->second, value.name);
    }
    return std::move(recipes_);
  }

 private:
  void want(const Tensor& tensor) {
    if (is_long(tensor) && !given_.contains(place_of(tensor))) wanted_.insert(place_of(tensor));
  }

  // A result that is a constant of the graph gets its name at once; a second constant of the same place is a copy.
  void name_outputs() {
    recipes_.name = "derived_constants";
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value(ValueId(i));
      if (is_long(value.constant)) names_.try_emplace(place_of(value.constant), value.name);
    }
  }

  std::string fresh_name() {
    std::string name;
    do {
      name = "r" + std::to_string(next_name_++);
    } while (graph_.find(name).valid());
    return name;
  }

  ValueId operand(const Tensor& tensor) {
    if (!tensor.defined()) return {};
    if (auto made = made_.find(place_of(tensor)); is_long(tensor) && made != made_.end()) return made->second;
    const ValueId id = recipes_.add_constant(fresh_name(), tensor);
    if (is_long(tensor)) made_.emplace(place_of(tensor), id), constants_.insert(id);
    return id;
  }

  void add(const FoldedNode& node) {
    std::vector<ValueId> operands;
    for (const Tensor& tensor : node.operands) operands.push_back(operand(tensor));
    std::vector<std::string> names;
    for (const Tensor& result : node.results) {
      if (!result.defined()) {
        names.emplace_back();
        continue;
      }
      auto named = is_long(result) ? names_.find(place_of(result)) : names_.end();
      const bool free = named != names_.end() && !recipes_.find(named->second).valid();
      names.push_back(free ? named->second : fresh_name());
    }
    const NodeId id = recipes_.add_node(node.def->name, std::move(operands), std::move(names),
                                        node.form.attributes, node.form.identity);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = recipes_.node(id).outputs[i];
      if (!result.valid()) continue;
      recipes_.value(result).type = Type::tensor(node.results[i].dtype(), shape_of(node.results[i].dims()));
      if (is_long(node.results[i])) made_.insert_or_assign(place_of(node.results[i]), result);
    }
  }

  void output(ValueId value, const std::string& name) {
    if (constants_.contains(value)) return;  // not made here: the model has it, or the lock holds it
    if (recipes_.value(value).name != name) {
      if (recipes_.find(name).valid()) return;
      const Type type = recipes_.value(value).type;
      const NodeId copy = recipes_.add_node("Identity", {value}, {name});
      value = recipes_.output_of(copy);
      recipes_.value(value).type = type;
    }
    recipes_.outputs.push_back(value);
  }

  const Graph& graph_;
  const FoldLog& folded_;
  std::set<Place> given_, wanted_;
  std::map<Place, std::string> names_;  // of the graph's constants
  std::map<Place, ValueId> made_;
  std::set<ValueId> constants_;  // those of made_ that no node computes
  Graph recipes_;
  std::size_t next_name_ = 0;
};

}  // namespace

Graph recipes_of(const Graph& graph, const Graph& model, const FoldLog& folded) {
  return RecipeWriter(graph, model, folded).run();
}

}  // namespace xyntra
