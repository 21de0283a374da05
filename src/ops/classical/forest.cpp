#include "ops/classical/forest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

namespace xyntra {
namespace {

constexpr std::size_t kMostNodes = Forest::kLeaf - 1;

// Attributes came as floats first; as tensors of doubles since version 3.
std::vector<double> numbers(const OpContext& c, const std::string& name) {
  const std::string as_tensor = name + "_as_tensor";
  std::vector<double> values;
  if (c.has_attribute(as_tensor)) {
    const Tensor& tensor = c.tensor(as_tensor);
    for (std::int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.element_as_f64(i));
    return values;
  }
  const std::vector<float> reals = c.reals(name);
  return {reals.begin(), reals.end()};
}

std::vector<double> tensor_numbers(const OpContext& c, const std::string& name) {
  std::vector<double> values;
  if (!c.has_attribute(name)) return values;
  const Tensor& tensor = c.tensor(name);
  for (std::int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.element_as_f64(i));
  return values;
}

template <class T>
Status require_size(const OpContext& c, const std::string& name, const std::vector<T>& list, std::size_t size,
                    bool may_be_absent = false) {
  if (list.size() == size || (may_be_absent && list.empty())) return {};
  return c.fail(name + " has " + std::to_string(list.size()) + " elements, not " + std::to_string(size));
}

// A node by its tree and its number in it.
struct Place {
  std::int64_t tree;
  std::int64_t node;
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  std::size_t operator()(const Place& place) const {
    return std::hash<std::int64_t>()(place.tree * 0x9E3779B97F4A7C15 ^ place.node);
  }
};
using Places = std::unordered_map<Place, std::size_t, PlaceHash>;

constexpr std::array<std::pair<std::string_view, Forest::Mode>, 6> kModes = {{
    {"BRANCH_LEQ", Forest::Mode::LessEqual},
    {"BRANCH_LT", Forest::Mode::Less},
    {"BRANCH_GTE", Forest::Mode::GreaterEqual},
    {"BRANCH_GT", Forest::Mode::Greater},
    {"BRANCH_EQ", Forest::Mode::Equal},
    {"BRANCH_NEQ", Forest::Mode::NotEqual},
}};

Status set_feature(const OpContext& c, Forest& forest, Forest::Node& node, std::int64_t feature) {
  if (feature < 0 || feature > INT32_MAX) return c.fail("a node looks at feature " + std::to_string(feature));
  node.feature = static_cast<std::int32_t>(feature);
  forest.widest_feature = std::max(forest.widest_feature, feature);
  return {};
}

// Evaluating ends only if no node leads back to itself.
Status check_acyclic(const OpContext& c, const Forest& forest) {
  enum Color : std::uint8_t { White, Grey, Black };
  std::vector<Color> colors(forest.nodes.size(), White);
  std::vector<std::uint32_t> stack;
  for (const std::uint32_t root : forest.roots) {
    if ((root & Forest::kLeaf) == 0) stack.push_back(root);
    while (!stack.empty()) {
      const std::uint32_t at = stack.back();
      if (colors[at] != White) {
        colors[at] = Black;
        stack.pop_back();
        continue;
      }
      colors[at] = Grey;
      for (const std::uint32_t next : {forest.nodes[at].if_true, forest.nodes[at].if_false}) {
        if ((next & Forest::kLeaf) != 0 || colors[next] == Black) continue;
        if (colors[next] == Grey) return c.fail("a node of a tree leads back to itself");
        stack.push_back(next);
      }
    }
  }
  return {};
}

bool is_member(const Forest& forest, const Forest::Node& node, double value) {
  const std::vector<double>& set = forest.members[static_cast<std::size_t>(node.split)];
  return std::binary_search(set.begin(), set.end(), value);
}

bool goes_true(const Forest& forest, const Forest::Node& node, double value) {
  switch (node.mode) {
    case Forest::Mode::LessEqual: return value <= node.split;
    case Forest::Mode::Less: return value < node.split;
    case Forest::Mode::GreaterEqual: return value >= node.split;
    case Forest::Mode::Greater: return value > node.split;
    case Forest::Mode::Equal: return value == node.split;
    case Forest::Mode::NotEqual: return value != node.split;
    case Forest::Mode::Member: return !std::isnan(value) && is_member(forest, node, value);
  }
  internal_error("forest: unknown mode");
}

template <class T>
std::uint32_t descend(const Forest& forest, std::uint32_t at, std::span<const T> row) {
  while ((at & Forest::kLeaf) == 0) {
    const Forest::Node& node = forest.nodes[at];
    const auto value = static_cast<double>(row[static_cast<std::size_t>(node.feature)]);
    const bool yes = goes_true(forest, node, value) || (node.missing_is_true && std::isnan(value));
    at = yes ? node.if_true : node.if_false;
  }
  return at & ~Forest::kLeaf;
}

// The attributes of one list of nodes, equally long.
struct NodeLists {
  std::vector<std::int64_t> trees, ids, features, if_true, if_false, missing;
  std::vector<std::string> modes;
  std::vector<double> splits;
  Places places;  // a node's position in the lists
  std::vector<std::uint32_t> successors;  // by position: what leads there has to name
};

Result<NodeLists> read_lists(const OpContext& c) {
  NodeLists lists;
  lists.trees = c.integers("nodes_treeids");
  lists.ids = c.integers("nodes_nodeids");
  lists.features = c.integers("nodes_featureids");
  lists.if_true = c.integers("nodes_truenodeids");
  lists.if_false = c.integers("nodes_falsenodeids");
  lists.missing = c.integers("nodes_missing_value_tracks_true");
  lists.modes = c.texts("nodes_modes");
  lists.splits = numbers(c, "nodes_values");
  const std::size_t count = lists.trees.size();
  if (count > kMostNodes) return c.unsupported("more than 2^31 nodes of trees");
  XYNTRA_CHECK_OK(require_size(c, "nodes_nodeids", lists.ids, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_featureids", lists.features, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_truenodeids", lists.if_true, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_falsenodeids", lists.if_false, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_missing_value_tracks_true", lists.missing, count, true));
  XYNTRA_CHECK_OK(require_size(c, "nodes_modes", lists.modes, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_values", lists.splits, count));
  return lists;
}

// Numbers nodes and leaves, in the order of the lists, and takes each tree's first node for its root.
Status number_places(const OpContext& c, NodeLists& lists, Forest& forest) {
  std::unordered_map<std::int64_t, bool> seen;
  std::uint32_t nodes = 0, leaves = 0;
  for (std::size_t i = 0; i < lists.trees.size(); ++i) {
    const bool leaf = lists.modes[i] == "LEAF";
    lists.successors.push_back(leaf ? leaves++ | Forest::kLeaf : nodes++);
    if (!lists.places.emplace(Place{lists.trees[i], lists.ids[i]}, i).second) {
      return c.fail("tree " + std::to_string(lists.trees[i]) + " has node " + std::to_string(lists.ids[i]) +
                    " twice");
    }
    if (seen.emplace(lists.trees[i], true).second) forest.roots.push_back(lists.successors.back());
  }
  forest.leaves.resize(leaves);
  return {};
}

Status make_nodes(const OpContext& c, const NodeLists& lists, Forest& forest) {
  for (std::size_t i = 0; i < lists.trees.size(); ++i) {
    if ((lists.successors[i] & Forest::kLeaf) != 0) continue;
    const auto* mode = std::find_if(kModes.begin(), kModes.end(),
                                    [&](const auto& row) { return row.first == lists.modes[i]; });
    if (mode == kModes.end()) return c.fail("nodes_modes has an unknown mode");
    Forest::Node node;
    node.mode = mode->second;
    node.split = lists.splits[i];
    node.missing_is_true = !lists.missing.empty() && lists.missing[i] != 0;
    XYNTRA_CHECK_OK(set_feature(c, forest, node, lists.features[i]));
    const auto if_true = lists.places.find({lists.trees[i], lists.if_true[i]});
    const auto if_false = lists.places.find({lists.trees[i], lists.if_false[i]});
    if (if_true == lists.places.end() || if_false == lists.places.end()) {
      return c.fail("a node of tree " + std::to_string(lists.trees[i]) +
                    " leads to a node that it does not have");
    }
    node.if_true = lists.successors[if_true->second];
    node.if_false = lists.successors[if_false->second];
    forest.nodes.push_back(node);
  }
  return {};
}

// Weights stand in any order in the file; leaves have theirs contiguous, in the file's order.
Status make_leaves(const OpContext& c, const std::string& kind, const NodeLists& lists, Forest& forest) {
  const std::vector<std::int64_t> trees = c.integers(kind + "_treeids"), ids = c.integers(kind + "_nodeids"),
                                  targets = c.integers(kind + "_ids");
  const std::vector<double> values = numbers(c, kind + "_weights");
  XYNTRA_CHECK_OK(require_size(c, kind + "_nodeids", ids, trees.size()));
  XYNTRA_CHECK_OK(require_size(c, kind + "_ids", targets, trees.size()));
  XYNTRA_CHECK_OK(require_size(c, kind + "_weights", values, trees.size()));
  if (trees.size() > kMostNodes) return c.unsupported("more than 2^31 weights of trees");
  std::vector<std::pair<std::uint32_t, std::uint32_t>> order;  // leaf, position in the lists
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const auto place = lists.places.find({trees[i], ids[i]});
    if (place == lists.places.end()) return c.fail(kind + "_nodeids names a node that there is not");
    if (targets[i] < 0) return c.fail(kind + "_ids must not be negative");
    const std::uint32_t successor = lists.successors[place->second];
    if ((successor & Forest::kLeaf) != 0)
      order.emplace_back(successor & ~Forest::kLeaf, static_cast<std::uint32_t>(i));
  }
  std::sort(order.begin(), order.end());
  for (const auto& [leaf, i] : order) {
    const auto end = static_cast<std::uint32_t>(forest.weights.size());
    if (forest.leaves[leaf].end == 0) forest.leaves[leaf].begin = end;
    forest.weights.push_back({targets[i], values[i]});
    forest.leaves[leaf].end = end + 1;
  }
  return {};
}

}  // namespace

Result<Forest> read_node_lists(const OpContext& c, const std::string& weights) {
  Forest forest;
  XYNTRA_TRY(NodeLists lists, read_lists(c));
  XYNTRA_CHECK_OK(number_places(c, lists, forest));
  XYNTRA_CHECK_OK(make_nodes(c, lists, forest));
  XYNTRA_CHECK_OK(make_leaves(c, weights, lists, forest));
  XYNTRA_CHECK_OK(check_acyclic(c, forest));
  forest.base_values = numbers(c, "base_values");
  return forest;
}

Result<Forest> read_ensemble(const OpContext& c) {
  Forest forest;
  const std::vector<std::int64_t> features = c.integers("nodes_featureids"),
                                  if_true = c.integers("nodes_truenodeids"),
                                  if_false = c.integers("nodes_falsenodeids"),
                                  true_leaves = c.integers("nodes_trueleafs"),
                                  false_leaves = c.integers("nodes_falseleafs"),
                                  missing = c.integers("nodes_missing_value_tracks_true"),
                                  roots = c.integers("tree_roots"), targets = c.integers("leaf_targetids");
  const std::vector<double> splits = tensor_numbers(c, "nodes_splits"),
                            modes = tensor_numbers(c, "nodes_modes"),
                            values = tensor_numbers(c, "leaf_weights"),
                            members = tensor_numbers(c, "membership_values");
  const std::size_t count = features.size();
  if (count > kMostNodes || values.size() > kMostNodes) return c.unsupported("more than 2^31 nodes of trees");
  XYNTRA_CHECK_OK(require_size(c, "nodes_truenodeids", if_true, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_falsenodeids", if_false, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_trueleafs", true_leaves, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_falseleafs", false_leaves, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_missing_value_tracks_true", missing, count, true));
  XYNTRA_CHECK_OK(require_size(c, "nodes_splits", splits, count));
  XYNTRA_CHECK_OK(require_size(c, "nodes_modes", modes, count));
  XYNTRA_CHECK_OK(require_size(c, "leaf_targetids", targets, values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (targets[i] < 0) return c.fail("leaf_targetids must not be negative");
    forest.weights.push_back({targets[i], values[i]});
    forest.leaves.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i + 1)});
  }
  std::size_t next_member = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Forest::Node node;
    if (modes[i] > static_cast<double>(Forest::Mode::Member))
      return c.fail("nodes_modes has an unknown mode");
    node.mode = static_cast<Forest::Mode>(modes[i]);
    node.split = splits[i];
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    XYNTRA_CHECK_OK(set_feature(c, forest, node, features[i]));
    const auto successor = [&](std::int64_t id, bool leaf) -> Result<std::uint32_t> {
      const std::size_t limit = leaf ? values.size() : count;
      if (id < 0 || static_cast<std::size_t>(id) >= limit)
        return c.fail("a node leads to one that there is not");
      return static_cast<std::uint32_t>(id) | (leaf ? Forest::kLeaf : 0);
    };
    XYNTRA_TRY(node.if_true, successor(if_true[i], true_leaves[i] != 0));
    XYNTRA_TRY(node.if_false, successor(if_false[i], false_leaves[i] != 0));
    if (node.mode == Forest::Mode::Member) {  // its set ends with a NaN; sets stand in the order of nodes
      std::vector<double> set;
      while (next_member < members.size() && !std::isnan(members[next_member]))
        set.push_back(members[next_member++]);
      if (next_member++ >= members.size()) return c.fail("membership_values has too few sets");
      std::sort(set.begin(), set.end());
      node.split = static_cast<double>(forest.members.size());
      forest.members.push_back(std::move(set));
    }
    forest.nodes.push_back(node);
  }
  for (const std::int64_t root : roots) {
    if (root < 0 || static_cast<std::size_t>(root) >= count)
      return c.fail("tree_roots names a node that there is not");
    forest.roots.push_back(static_cast<std::uint32_t>(root));
  }
  XYNTRA_CHECK_OK(check_acyclic(c, forest));
  return forest;
}

std::uint32_t leaf_of(const Forest& forest, std::uint32_t root, std::span<const float> row) {
  return descend(forest, root, row);
}
std::uint32_t leaf_of(const Forest& forest, std::uint32_t root, std::span<const double> row) {
  return descend(forest, root, row);
}

}  // namespace xyntra
