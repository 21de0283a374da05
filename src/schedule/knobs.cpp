#include "schedule/knobs.h"

#include <algorithm>

namespace xyntra {
namespace {

// Of a vector of the elements that the first sum of products adds up.
std::int64_t lanes_of(const te::Formula& formula, const Target& target) {
  const auto sum = std::ranges::find_if(formula.stages, [](const te::Stage& stage) {
    return stage.kind == te::Stage::Kind::MapReduce && stage.reducer == te::Reducer::Sum;
  });
  const int bits = sum == formula.stages.end() ? 32 : std::max(8, bits_of(sum->body.dtype()));
  return std::max<std::int64_t>(1, target.vector_bits / bits);
}

}  // namespace

std::string text_of(const LegalValues& values) {
  if (values.least == values.most) return std::to_string(values.least);
  std::string text = "from " + std::to_string(values.least) + " to " + std::to_string(values.most);
  return values.step == 1 ? text : text + " in steps of " + std::to_string(values.step);
}

LegalValues legal_values(std::string_view knob, const te::Formula& formula, const Target& target) {
  constexpr std::int64_t kMostVectors = 4;  // across a register tile
  constexpr std::int64_t kMostBlock = 4096;  // tiles of a Winograd block, along a side
  const std::int64_t lanes = lanes_of(formula, target);
  if (knob == "tile_columns") return {lanes, kMostVectors * lanes, lanes};
  if (knob == "tile_rows") return {1, std::max<std::int64_t>(1, target.vector_registers)};
  if (knob == "output") return {2, 4, 2};
  if (knob == "block_rows" || knob == "block_columns") return {1, kMostBlock};
  return {1, 1};  // there or not
}

}  // namespace xyntra
