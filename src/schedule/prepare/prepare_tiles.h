// What tiles multiply, made ready for them: a formula becomes another one with more stages, whose products read rows and
// panels of pairs from where they lie.
//
//   rows      sum(k) f32(bf16(norm(x[m, k]))) * …     r[m, k] = bf16(norm(x[m, k])); sum(k) f32(r[m, k]) * …
//   panels    sum(k) … * f32(b[k, n])                 p[n/16, k/32, k/2%16, n%16*2 + k%2] = b[k, n]; sum(k) … * f32(p[…])
#pragma once

#include "schedule/contraction/tile_rows.h"

namespace xyntra {

// The form of the stage's products, where tiles of the target can make them.
std::optional<TileForm> form_for_tiles(const te::Formula& formula, const te::Stage& stage,
                                       const Target& target, const SymbolBindings& nominal);

// The formula with the factors of its first such stage made ready. Nothing when no stage takes tiles.
std::optional<te::Formula> prepare_tiles(const te::Formula& formula, const Target& target,
                                         const SymbolBindings& nominal);

// The same for attention, both of whose products must take tiles. Sizes need not be constant: rows are as long as whole
// tiles and panels come in twos, zero beyond what there is. What depends on inputs alone is made first.
std::optional<te::Formula> prepare_attention_tiles(const te::Formula& formula, const Target& target,
                                                   const SymbolBindings& nominal);

}  // namespace xyntra
