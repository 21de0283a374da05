#include "schedule/layout/turned_weights.h"

#include <algorithm>
#include <optional>

#include "kir/intrinsics.h"
#include "schedule/contraction/product_sides.h"
#include "schedule/layout/channels_last.h"
#include "te/index/index.h"

namespace xyntra {

using te::Expr;
using te::ExprOp;
using te::Stage;
using te::VarId;

namespace {

// Of bytes, which nothing transposes: chunks along the sum.
std::optional<Layout> along_channels(std::size_t rank, std::size_t result, std::size_t channels) {
  Layout layout{{result, 1, 0, Dim(0)}};
  for (std::size_t d = 0; d < rank; ++d) {
    if (d != result && d != channels) layout.push_back({d, 1, 0, Dim(0)});
  }
  layout.push_back({channels, 1, 0, Dim(0)});
  for (std::size_t d = 0; d < rank; ++d) {
    if (layout[d].axis != d) return layout;
  }
  return {};  // it lies so
}

// Of a buffer that one stage reads once: one dimension along the result, the others along the sum.
std::optional<Layout> layout_for(const te::Formula& formula, const te::BufferInfo& buffer, bool by_warps,
                                 bool windows) {
  const Stage* reader = nullptr;
  std::vector<Expr> index;
  int reads = 0;
  for (const Stage& stage : formula.stages) {
    te::for_each_node(stage, [&](const te::ExprNode& node) {
      if (!te::is_load(node) || node.buffer != buffer.id) return;
      reader = &stage;
      index = te::index_of(node);
      ++reads;
    });
  }
  if (reads != 1 || reader->reducer != te::Reducer::Sum || reader->body->op != ExprOp::Mul) return {};
  std::optional<std::size_t> result, channels;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (buffer.shape[d].is(1)) continue;
    if (!buffer.shape[d].is_constant()) return {};
    const std::set<VarId> loops = te::variables_of(index[d]);
    const bool sums = std::ranges::any_of(loops, [&](VarId loop) {
      return std::ranges::find(reader->reduction, loop) != reader->reduction.end();
    });
    if (!sums) {  // a loop, or one within groups
      if (result) return {};
      result = d;
    } else if (index[d]->op != ExprOp::Var) {
      return {};
    } else if (!channels || buffer.shape[d].constant() > buffer.shape[*channels].constant()) {
      channels = d;
    }
  }
  if (!result || !channels) return {};
  const bool bytes = is_byte(buffer.dtype) && reader->body.dtype() == DType::I32;
  if (bytes && by_warps && buffer.shape[*channels].constant() % kir::kChunkBytes == 0)
    return along_channels(index.size(), *result, *channels);
  if (index.size() < 3) return {};
  const bool in_chunks =
      by_warps && bits_of(buffer.dtype) == 16 && buffer.shape[*result].constant() % kir::kChunkElements == 0;
  if (buffer.shape[*channels].constant() % kChannelsOfTile != 0 && !in_chunks) return {};
  // What is no window is read as it lies where channels come in chunks themselves.
  if (!windows && (!in_chunks || buffer.shape[*channels].constant() % kir::kChunkElements == 0)) return {};
  Layout layout;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (d != *result && d != *channels) layout.push_back({d, 1, 0, Dim(0)});
  }
  layout.push_back({*channels, 1, 0, Dim(0)});
  layout.push_back({*result, 1, 0, Dim(0)});
  return layout;
}

}  // namespace

std::vector<ValueLayout> turn_weights(const Graph& graph, const std::vector<Group>& groups,
                                      const std::vector<te::Formula>& formulas, const Target& target) {
  const bool by_warps = has_units_of_warps(target);
  std::map<ValueId, std::optional<Layout>> wishes;  // nothing: someone wants it as it is
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].inputs.size(); ++i) {
      const ValueId value = groups[g].inputs[i];
      if (!graph.value(value).is_constant()) continue;
      std::optional<Layout> wish;
      for (const te::BufferInfo& buffer : formulas[g].buffers) {
        const bool own = buffer.role == te::BufferRole::Input && std::cmp_equal(buffer.position, i);
        const Hero hero = groups[g].hero;
        if (own && (hero == Hero::Window || hero == Hero::Contraction))
          wish = layout_for(formulas[g], buffer, by_warps, hero == Hero::Window);
      }
      auto [known, fresh] = wishes.try_emplace(value, wish);
      if (!fresh && known->second != wish) known->second.reset();
    }
  }
  std::vector<ValueLayout> layouts;
  for (const auto& [value, wish] : wishes) {
    if (wish) layouts.push_back({value, *wish});
  }
  return layouts;
}

}  // namespace xyntra
