// How the buffers between groups are laid out. Constants are packed the way the main loop reads them, which costs nothing:
// it is done when the model is compiled. Pictures between convolutions, pools and what is computed element by element
// between them make a region: their channels all lie in blocks, or all plain, whichever the cost model expects to take
// less time (schedule/layout/strides.h); for matrix units of a GPU's warps they come last instead
// (schedule/layout/channels_last.h). Graph inputs and outputs stay as the caller has them; a group that uses one of those, or
// another plain value, beside a blocked one changes the layout on the way, inside its own loops, and pays for the stride.
// Where several would pay for the same value, a copy is made once instead, by a launch of its own.
#pragma once

#include <map>

#include "plan/plan.h"
#include "target/target.h"
#include "te/formula.h"

namespace xyntra {

// A value that some readers should get from a copy, which lies as they want it.
struct LayoutCopy {
  ValueId value;
  std::vector<std::size_t> readers;  // groups
  LayoutChoice choice;  // for the value; for the copy once there is one
};

class LayoutCosts;  // schedule/layout/layout_costs.h

struct LayoutDecision {
  std::vector<ValueLayout> layouts;  // in order of value ids
  std::vector<LayoutChoice> choices;  // likewise
  std::vector<LayoutCopy> copies;  // wanted
};

// formulas[g] is that of groups[g]; empty for a host group.
LayoutDecision choose_layouts(const Graph& graph, const std::vector<Group>& groups,
                              const std::vector<te::Formula>& formulas, const Target& target,
                              const SymbolBindings& nominal, LayoutCosts& costs);

using LayoutsByValue = std::map<ValueId, Layout>;
LayoutsByValue layouts_of(const std::vector<ValueLayout>& layouts);
// The formula of a group over the memory of its operands and results, as they lie there. Windows by Winograd become the
// stages of that, since their weights lie in memory transformed (schedule/convolution/winograd.h); products of parts read weights as these
// (schedule/contraction/part_products.h).
void lay_out(te::Formula& formula, const Group& group, const LayoutsByValue& layouts);

// What a group takes whose values lie so: lanes may run along other loops where they lie in blocks, and strides may be left. The group
// has the time that was predicted for it with all values plain.
std::int64_t laid_out_ns(const te::Formula& formula, const Group& group, const LayoutsByValue& layouts,
                         const Target& target, const SymbolBindings& nominal, LayoutCosts& costs);

}  // namespace xyntra
