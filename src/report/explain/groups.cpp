#include "report/explain/groups.h"

#include "fusion/compose.h"
#include "report/figures.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

std::string label_of_group(const Plan& plan, std::size_t g) {
  std::vector<std::string> ops;
  for (NodeId node : plan.groups[g].nodes) ops.push_back(plan.graph.node(node).op);
  return "group " + std::to_string(g) + ", " + name_of(plan.groups[g].hero) + ": " +
         compressed(ops, kOpsInLabel);
}

// Which of the model's values the buffers of a formula are.
std::string buffers_text(const Plan& plan, const Group& group, const te::Formula& formula) {
  std::string text;
  for (const te::BufferInfo& buffer : formula.buffers) {
    if (buffer.role == te::BufferRole::Temporary) continue;
    const auto& values = buffer.role == te::BufferRole::Input ? group.inputs : group.outputs;
    text += "//   " + buffer.name + " is " +
            quote(plan.graph.value(values.at(static_cast<std::size_t>(buffer.position))).name) + "\n";
  }
  return text;
}

}  // namespace

Result<std::string> groups_as_formulas(const Plan& plan) {
  XYNTRA_TRY(FusionNodes fusion_nodes, FusionNodes::of(plan.graph));
  std::string text;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    text += "// " + printable(label_of_group(plan, g)) + "\n";
    if (group.hero == Hero::Host) {
      text += "  runs on the host: " + printable(group.reason) + "\n";
      continue;
    }
    const te::Formula formula = compose(fusion_nodes, group.nodes, group.inputs, group.outputs);
    text += buffers_text(plan, group, formula) + te::to_string(formula);
  }
  return text;
}

std::vector<NodeCluster> clusters_of(const Plan& plan, bool kernels_only) {
  std::vector<NodeCluster> clusters;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    if (kernels_only && plan.groups[g].hero == Hero::Host) continue;
    clusters.push_back({label_of_group(plan, g), plan.groups[g].nodes, plan.groups[g].outputs});
  }
  return clusters;
}

std::vector<std::string> group_comments(const Plan& plan) {
  std::vector<std::string> comments(plan.graph.node_count());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    for (NodeId node : plan.groups[g].nodes) {
      std::string& comment = comments[node.index];
      if (comment.starts_with("group ")) comment.insert(5, "s");
      comment += (comment.empty() ? "group " : ", ") + std::to_string(g);
    }
  }
  return comments;
}

}  // namespace xyntra
