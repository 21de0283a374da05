#include "report/explain/patterns.h"

#include <algorithm>
#include <map>

#include "support/text/text.h"

namespace xyntra {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

class PatternChecker {
 public:
  explicit PatternChecker(const Plan& plan) : plan_(plan) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      for (NodeId node : plan.groups[g].nodes) groups_.emplace(node, g);
    }
    for (const EdgeVerdict& edge : plan.edges) readers_[edge.from].push_back(&edge);
  }

  void check(const UserPattern& pattern, std::vector<std::string>& broken) {
    for (const auto& [node, group] : groups_) {
      if (!pattern.ops.empty() && matches(node, pattern.ops[0])) follow(pattern, 1, node, nullptr, broken);
    }
  }

 private:
  bool matches(NodeId id, const std::string& wanted) const {
    const Node& node = plan_.graph.node(id);
    if (wanted == "bias") {
      return node.op == "Add" && std::any_of(node.inputs.begin(), node.inputs.end(), [this](ValueId input) {
               return input.valid() && plan_.graph.value(input).is_constant();
             });
    }
    return lower_case(node.op) == wanted || (wanted == "matmul" && node.op == "Gemm");
  }

  // From the node that matched the part before `next`; `cut` is the first edge that goes through memory.
  void follow(const UserPattern& pattern, std::size_t next, NodeId node, const EdgeVerdict* cut,
              std::vector<std::string>& broken) const {
    while (next < pattern.ops.size() && pattern.ops[next] == "dropout") ++next;
    if (next == pattern.ops.size()) {
      if (cut != nullptr) broken.push_back(sentence(pattern, *cut));
      return;
    }
    auto readers = readers_.find(node);
    if (readers == readers_.end()) return;
    for (const EdgeVerdict* edge : readers->second) {
      if (!matches(edge->to, pattern.ops[next])) continue;
      bool cuts = cut == nullptr && edge->verdict == Verdict::Materialised;
      follow(pattern, next + 1, edge->to, cuts ? edge : cut, broken);
    }
  }

  std::string sentence(const UserPattern& pattern, const EdgeVerdict& cut) const {
    return "pattern '" + printable(pattern.name) + "': " + label(cut.from) + " and " + label(cut.to) +
           " are not one kernel: " + printable(cut.reason);
  }
  std::string label(NodeId id) const {
    const Node& node = plan_.graph.node(id);
    return node.op + (node.origin.empty() ? "" : " '" + printable(node.origin) + "'");
  }

  const Plan& plan_;
  std::map<NodeId, std::size_t> groups_;
  std::map<NodeId, std::vector<const EdgeVerdict*>> readers_;
};

}  // namespace

std::vector<std::string> broken_patterns(const std::vector<UserPattern>& patterns, const Plan& plan) {
  std::vector<std::string> broken;
  PatternChecker checker(plan);
  for (const UserPattern& pattern : patterns) checker.check(pattern, broken);
  return broken;
}

}  // namespace xyntra
