#include "frontends/pt2/tree_spec.h"

#include "frontends/pt2/json_reader.h"

namespace xyntra::pt2 {
namespace {

struct Tree {
  bool is_leaf = false;
  std::vector<std::string> keys;  // of a dictionary
  std::vector<Tree> children;
};

// The context of a dictionary is a JSON list of its keys within a JSON string; that of other nodes means nothing here.
std::vector<std::string> keys_of(const std::string& context) {
  std::vector<std::string> keys;
  if (!context.starts_with("[")) return keys;
  JsonReader reader(context);
  bool all_texts = true;
  reader.array([&] {
    JsonReader before = reader;
    std::string key = reader.text();
    if (reader.failed()) {
      reader = before;
      reader.skip();
      all_texts = false;
    }
    keys.push_back(std::move(key));
  });
  return reader.failed() || !all_texts ? std::vector<std::string>() : keys;
}

Tree read_tree(JsonReader& reader, int depth) {
  constexpr int kMaxDepth = 64;
  Tree tree;
  std::string context;
  bool no_type = false;
  if (depth > kMaxDepth) reader.fail("a tree of more than 64 levels");
  reader.object([&](std::string_view key) {
    if (key == "type") {
      no_type = reader.null();
      if (!no_type) reader.skip();
    } else if (key == "context" && !reader.null()) {
      context = reader.text();
    } else if (key == "children_spec") {
      reader.array([&] { tree.children.push_back(read_tree(reader, depth + 1)); });
    } else if (key != "context") {
      reader.skip();
    }
  });
  tree.is_leaf = no_type;
  tree.keys = keys_of(context);
  if (tree.keys.size() != tree.children.size()) tree.keys.clear();
  return tree;
}

void collect(const Tree& tree, const std::string& name, const std::string& root,
             std::vector<std::string>& names) {
  if (tree.is_leaf) {
    names.push_back(name.empty() ? root : name);
    return;
  }
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const bool keyed = !tree.keys.empty();
    const std::string part = keyed ? tree.keys[i] : std::to_string(i);
    std::string way = name;
    if (way.empty() && !keyed) way = root;
    collect(tree.children[i], way.empty() ? part : way + "_" + part, root, names);
  }
}

}  // namespace

std::vector<std::string> leaf_names(std::string_view spec, const std::string& root) {
  std::vector<std::string> names;
  JsonReader reader(spec);
  reader.array([&] {  // the version of the form, then the tree
    if (JsonReader number = reader; number.integer() != 0 || !number.failed()) {
      reader.skip();
      return;
    }
    const Tree tree = read_tree(reader, 0);
    if (tree.children.size() == 1 && tree.keys.empty() && tree.children[0].is_leaf)
      names.push_back(root);
    else
      collect(tree, "", root, names);
  });
  return reader.failed() ? std::vector<std::string>() : names;
}

}  // namespace xyntra::pt2
