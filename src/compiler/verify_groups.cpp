#include "compiler/verify_groups.h"

#include <algorithm>
#include <set>

namespace xyntra {
namespace {

class GroupVerifier {
 public:
  explicit GroupVerifier(const Plan& plan)
      : plan_(plan), graph_(plan.graph), in_memory_(graph_.value_count(), false) {}

  Status run() {
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      in_memory_[i] = graph_.value(ValueId(i)).is_constant();
    }
    for (ValueId input : graph_.inputs) in_memory_[input.index] = true;
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) XYNTRA_CHECK_OK(launch(g));
    for (ValueId output : graph_.outputs) {
      if (!in_memory_[output.index])
        return bad_model("no group writes the output '" + graph_.value(output).name + "'");
    }
    return {};
  }

 private:
  Status fail(std::size_t g, const std::string& what, ValueId value) const {
    return bad_model("group " + std::to_string(g) + " " + what + " '" + graph_.value(value).name + "'");
  }

  Status launch(std::size_t g) {
    const Group& group = plan_.groups[g];
    std::set<ValueId> here;
    if (group.nodes.empty()) return bad_model("group " + std::to_string(g) + " has no nodes");
    for (ValueId input : group.inputs) {
      if (!in_memory_[input.index]) return fail(g, "reads what no group has written:", input);
      here.insert(input);
    }
    for (NodeId id : group.nodes) {
      // An operand that nothing provides may be one whose contents are known, such as a shape; whether that is so is
      // for the formula to say. What is produced later in the same group never is.
      for (ValueId operand : graph_.node(id).inputs) {
        if (operand.valid() && !here.contains(operand) && comes_later(group, id, operand)) {
          return fail(g, "uses before it is computed", operand);
        }
      }
      for (ValueId output : graph_.node(id).outputs) {
        if (output.valid()) here.insert(output);
      }
    }
    for (ValueId output : group.outputs) {
      if (!here.contains(output)) return fail(g, "does not compute what it writes,", output);
      if (in_memory_[output.index]) return fail(g, "writes what is there already,", output);
      in_memory_[output.index] = true;
    }
    return {};
  }

  bool comes_later(const Group& group, NodeId reader, ValueId operand) const {
    const NodeId producer = graph_.value(operand).producer;
    const auto at = std::find(group.nodes.begin(), group.nodes.end(), reader);
    return producer.valid() && std::find(at, group.nodes.end(), producer) != group.nodes.end();
  }

  const Plan& plan_;
  const Graph& graph_;
  std::vector<bool> in_memory_;  // by value
};

}  // namespace

Status verify_groups(const Plan& plan) { return GroupVerifier(plan).run(); }

}  // namespace xyntra
