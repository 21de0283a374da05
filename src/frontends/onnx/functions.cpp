#include "frontends/onnx/functions.h"

#include <algorithm>
#include <vector>

namespace xyntra::onnx {

namespace {

std::string title(const Function& function) {
  std::string text = "'";
  if (!function.domain.empty()) text += std::string(function.domain) + ".";
  text += std::string(function.name);
  if (!function.overload.empty()) text += ":" + std::string(function.overload);
  return text + "'";
}

// One function, or the main graph, as the search below sees it.
struct Body {
  std::vector<const Function*> calls;
  std::int64_t size = 0;  // nodes, those of subgraphs and, when done, of the functions it calls included
  std::int64_t depth = 1;
  enum class State : std::uint8_t { New, Open, Done } state = State::New;
  std::size_t next_call = 0;
};

void collect_calls(std::span<const Node> nodes, const FunctionTable& table, Body& body) {
  for (const Node& node : nodes) {
    ++body.size;
    if (const Function* callee = table.find(node)) body.calls.push_back(callee);
    for (const Attribute& attribute : node.attributes) {
      for (const Graph& graph : attribute.graphs)
        collect_calls(graph.nodes, table, body);  // nesting is capped
    }
  }
}

class BodySearch {
 public:
  BodySearch(const FunctionTable& table, const WireLimits& limits) : table_(table), limits_(limits) {}

  // Depth first, without recursion: a body is measured once all it calls are.
  Status measure(const Function* root, std::span<const Node> nodes) {
    open(root, nodes);
    while (!stack_.empty()) {
      Body& body = *stack_.back();
      if (body.next_call == body.calls.size()) {
        XYNTRA_CHECK_OK(close(body));
        continue;
      }
      const Function* callee = body.calls[body.next_call++];
      Body& called = bodies_[callee];
      if (called.state == Body::State::Open) {
        return bad_model("function " + title(*callee) + " calls itself, directly or through others");
      }
      if (called.state == Body::State::New) open(callee, callee->nodes);
    }
    return {};
  }

 private:
  void open(const Function* function, std::span<const Node> nodes) {
    Body& body = bodies_[function];
    if (body.state == Body::State::Done) return;
    body.state = Body::State::Open;
    collect_calls(nodes, table_, body);
    stack_.push_back(&body);
  }

  Status close(Body& body) {
    for (const Function* callee : body.calls) {
      const Body& called = bodies_[callee];
      body.size = std::min(body.size + called.size, limits_.max_nodes + 1);
      body.depth = std::max(body.depth, called.depth + 1);
    }
    if (body.size > limits_.max_nodes) {
      return limit_error("more than " + std::to_string(limits_.max_nodes) +
                         " nodes once functions are inlined");
    }
    if (body.depth > limits_.max_nesting + 1) {
      return limit_error("more than " + std::to_string(limits_.max_nesting) +
                         " levels of functions calling functions");
    }
    body.state = Body::State::Done;
    body.calls = {};
    stack_.pop_back();
    return {};
  }

  const FunctionTable& table_;
  const WireLimits& limits_;
  std::map<const Function*, Body> bodies_;  // nodes of a map stay where they are
  std::vector<Body*> stack_;
};

}  // namespace

Result<FunctionTable> FunctionTable::build(const Model& model, const WireLimits& limits) {
  FunctionTable table;
  for (const Function& function : model.functions) {
    const Key key{canonical_domain(function.domain), function.name, function.overload};
    if (function.name.empty()) return bad_model("a function without a name");
    if (!table.functions_.emplace(key, &function).second) {
      return bad_model("function " + title(function) + " is defined twice");
    }
  }
  BodySearch search(table, limits);
  for (const Function& function : model.functions) XYNTRA_CHECK_OK(search.measure(&function, function.nodes));
  if (model.graph) XYNTRA_CHECK_OK(search.measure(nullptr, model.graph->nodes));
  return table;
}

const Function* FunctionTable::find(const Node& node) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find(Key{canonical_domain(node.domain), node.op_type, node.overload});
  return found == functions_.end() ? nullptr : found->second;
}

}  // namespace xyntra::onnx
