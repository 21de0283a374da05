// An operand of a sum whose elements take an index computation to find, or arithmetic to make, laid out plainly first.
//
//   sum(c, u) load_or(0, x[c % 4, (p + u - 1) / 2]) * w[c, u]      t[c, i] = load_or(0, x[c % 4, (i - 1) / 2]);  sum(c, u) t[c, p + u] * w[c, u]
//
// Divisions, borders, concatenated parts and prologues would be computed for every product of the sum; here once for each place
// that the sum walks to. A walk is a sum of loops inside an index, such as p + u: the packed operand has one dimension for each.
#pragma once

#include <optional>
#include <vector>

#include "te/formula.h"
#include "types/dim.h"

namespace xyntra {

struct PackedOperand {
  te::Stage stage;  // to come before the sum
  te::Expr part, instead;  // of the sum's body
};

enum class Packed : std::uint8_t {
  Any,
  Windows,  // where a walk mixes a loop of the result with one of the sum
  Strided  // windows over plain places, too, that are apart along the loop in which results are neighbours
};

// Loops along which results are neighbours in memory, the innermost first: the last ones of the store, as far as the operand has
// them.
std::vector<te::VarId> result_neighbours(const te::Formula& formula, const te::Stage& stage,
                                         const te::Expr& part);

// Nothing where `part` of the stage's body reads plain places already, where its places are not those of walks, or where few
// products read each. Adds loops and a buffer to the formula where it is packed.
std::optional<PackedOperand> pack_operand(te::Formula& formula, const te::Stage& stage, const te::Expr& part,
                                          const SymbolBindings& nominal, Packed which);

}  // namespace xyntra
