// Attributes in canonical form, each distinct set held once and named by an id, so that two nodes have the same
// attributes exactly when their ids are equal.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/op.h"
#include "support/ids.h"

namespace xyntra {

using AttributesId = Id<struct AttributesTag>;

// What a default says is left out. `outputs` has one flag per output of the node: whether somebody asks for it.
struct NodeForm {
  Attributes attributes;
  std::vector<bool> outputs{true};
  // Of ops that depend on a seed: the model's own name of the node is part of what they compute.
  std::string identity;
};

class AttributeTable {
 public:
  // Attributes that equal the definition's default are dropped.
  AttributesId intern(const OpDef* def, NodeForm form);
  const NodeForm& at(AttributesId id) const { return forms_[id.index]; }

 private:
  std::deque<NodeForm> forms_;  // stays in place as it grows
  std::unordered_map<std::string, AttributesId> ids_;
};

bool equal_attributes(const Attribute& a, const Attribute& b);  // graphs by address
std::string to_text(const Attribute& attribute);  // for messages and rules

}  // namespace xyntra
