// Results that are an input with rows appended, as a KV cache grows from token to token:
//
//   present[b, h, t, d]        = past[b, h, t, d]      for t < T
//   present[b, h, T + s, d]    = new[b, h, s, d]       for s < S
//
// A caller who donates the input's memory, with room for what is to come, gets the result in the same memory: the first
// of these stages is left out. Rows of one head lie `room` places further apart than they are many, so both are laid out
// with room along that axis, [0, 1, 2+(S + room), 3] and [0, 1, 2+(room), 3], which is the same memory; `room` is a
// size that is bound when the program runs. No row of the input is ever written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fusion/groups.h"

namespace xyntra {

struct Extension {
  ValueId input, output;
  std::size_t axis = 0;
  std::size_t group = 0;  // that makes the output
};

struct Extensions {
  std::vector<Extension> found;  // in the order of groups
  std::map<ValueId, std::string> refused;  // inputs that some result extends, but not in place, and why
};
Extensions find_extensions(const FusionNodes& fusion_nodes, const std::vector<Group>& groups,
                           const std::vector<te::Formula>& formulas);

// Which inputs a caller may donate: names, or "*" for all that a result extends. Lays out the values of those and
// leaves copies out of their groups' figures. Usage error for a name that no result extends in place.
Result<std::vector<ValueLayout>> leave_room(const FusionNodes& fusion_nodes, Grouping& grouping,
                                            const std::vector<std::string>& names, const Target& target,
                                            const ChooseOptions& options, SymbolBindings& nominal);

// The extensions among values with room; BadModel error where something else has it, or other room than both share.
Result<std::vector<Extension>> extensions_with_room(const FusionNodes& fusion_nodes,
                                                    const std::vector<Group>& groups,
                                                    const std::vector<te::Formula>& formulas,
                                                    const std::vector<ValueLayout>& layouts);

// Inputs of these names that a result extends in place as long as who makes it reads them for nothing else, by input.
using Extended = std::map<ValueId, ValueId>;
Extended extended_by_nodes(const FusionNodes& fusion_nodes, const std::vector<std::string>& names);

// Leaves out the stages of a group's formula that copy an operand to where it lies already, and such operands.
void leave_out_copies(te::Formula& formula, const Group& group, const MemoryPlan& memory);
void leave_out_copies(te::Formula& formula, const std::vector<ValueId>& inputs,
                      const std::vector<ValueId>& outputs, const Extended& extended);

}  // namespace xyntra
