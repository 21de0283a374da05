// A graph on its way to becoming another: nodes are hash-consed as they are added (equal nodes are one node), nodes
// whose operands are all constant are evaluated, and only what an output needs is written out in the end.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/op.h"
#include "rewrite/attributes.h"
#include "rewrite/normalize/fold.h"
#include "support/limits/limits.h"

namespace xyntra {

using DraftNode = Id<struct DraftNodeTag>;
using DraftValue = Id<struct DraftValueTag>;

// How much evaluating constants may cost.
struct FoldLimits {
  std::int64_t bytes = 64 << 20;  // of one result
  std::int64_t growing = kLargestWidened;  // of one result that is larger than what it is made of
  std::int64_t rearranged = 1 << 20;  // of one that only moves elements, which a kernel does for nothing
  std::int64_t rearranged_filters = 16 << 20;  // of one with more than two dimensions
  bool dequantized = true;  // off: rules are to see the integers
};

class Draft {
 public:
  struct NodeEntry {
    const OpDef* def = nullptr;
    AttributesId form;
    std::vector<DraftValue> inputs;  // invalid: not given
    std::vector<DraftValue> outputs;  // invalid: nobody asks for it
    std::vector<std::string> origins;  // the model's own names of the nodes this one stands for
  };
  struct ValueEntry {
    ValueFacts facts;
    std::string name;  // the model's own name where there is one
    DraftNode producer;
  };
  // A node to be added.
  struct Addition {
    const OpDef* def = nullptr;
    std::vector<DraftValue> inputs;
    NodeForm form;
    std::vector<std::string> origins;
    std::vector<std::string> names;  // of its outputs, where there are any
    std::vector<ValueFacts> facts;  // of its outputs; empty: they are inferred
  };

  // What is folded is added to `log` where there is one.
  explicit Draft(FoldLimits limits = {}, const Budget* budget = nullptr, FoldLog* log = nullptr)
      : limits_(limits), budget_(budget), log_(log) {}
  // Notes how a constant came to be that was made by other means than folding a node.
  void record(FoldedNode made) {
    if (log_ != nullptr) log_->push_back(std::move(made));
  }

  DraftValue add_input(std::string name, Type type);
  // The same contents are one constant.
  DraftValue add_constant(Tensor tensor, std::string name = {});
  // Its outputs. An equal node that is there already is returned instead; a node of constants becomes constants.
  Result<std::vector<DraftValue>> add(Addition addition);
  Result<DraftValue> add_one(const char* op, std::vector<DraftValue> inputs, Attributes attributes,
                             std::vector<std::string> origins);

  const NodeEntry& node(DraftNode id) const { return nodes_[id.index]; }
  const ValueEntry& value(DraftValue id) const { return values_[id.index]; }
  const NodeForm& form(DraftNode id) const { return forms_.at(node(id).form); }
  const ValueFacts& facts(DraftValue id) const { return value(id).facts; }
  const Tensor& constant(DraftValue id) const { return facts(id).constant; }
  std::size_t node_count() const { return nodes_.size(); }
  std::size_t value_count() const { return values_.size(); }
  std::span<const DraftValue> inputs() const { return inputs_; }

  // Producers before consumers, only what `outputs` need.
  std::vector<DraftNode> live_nodes(std::span<const DraftValue> outputs) const;
  // The graph that computes `outputs`, with the inputs, output names and name of `original`.
  Graph finish(const Graph& original, std::span<const DraftValue> outputs) const;

 private:
  DraftValue add_value(ValueEntry entry);
  Result<bool> fold(Addition& addition, std::vector<DraftValue>& results);
  bool worth_folding(const Addition& addition) const;

  FoldLimits limits_;
  const Budget* budget_ = nullptr;
  FoldLog* log_ = nullptr;
  AttributeTable forms_;
  std::vector<NodeEntry> nodes_;
  std::vector<ValueEntry> values_;
  std::vector<DraftValue> inputs_;
  std::unordered_map<std::string, DraftNode> by_structure_;
  std::unordered_map<std::string, DraftValue> by_content_;
};

// Joins the names of the nodes that one node stands for; many are cut short.
std::string joined_origin(std::span<const std::string> origins);
void append_origins(std::vector<std::string>& origins, std::span<const std::string> more);  // each name once

}  // namespace xyntra
