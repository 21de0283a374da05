#include "schedule/layout/layouts.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "schedule/choose.h"
#include "schedule/contraction/part_products.h"
#include "schedule/contraction/tile_form.h"
#include "schedule/convolution/winograd.h"
#include "schedule/cost.h"
#include "schedule/layout/channels_last.h"
#include "schedule/layout/layout_costs.h"
#include "schedule/layout/turned_weights.h"
#include "schedule/schedule_rows.h"
#include "te/compose/compose.h"
#include "te/cost/classify.h"
#include "te/index/index.h"
#include "te/index/layout.h"
#include "te/walk.h"

namespace xyntra {

using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Stage;
using te::VarId;

namespace {

constexpr std::size_t kChannels = 1;  // the axis of channels in N, C, spatial…

bool has_loop(const std::vector<VarId>& loops, VarId loop) {
  return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

bool is_main(const Group& group) { return group.hero == Hero::Contraction || group.hero == Hero::Window; }

std::int64_t knob(const Group& group, std::string_view name) {
  for (const Knob& one : group.schedule.knobs) {
    if (one.name == name) return one.value;
  }
  return 0;
}

// A launch that only copies one value: it takes and gives any layout.
bool is_copy(const Graph& graph, const Group& group) {
  return group.hero == Hero::Movement && group.nodes.size() == 1 &&
         graph.node(group.nodes[0]).op == "Identity";
}

// Its parts are written where they belong, if they lie as it does.
bool puts_together(const Graph& graph, const Group& group) {
  return group.hero == Hero::Movement && group.nodes.size() == 1 && graph.node(group.nodes[0]).op == "Concat";
}

class LayoutChooser {
 public:
  LayoutChooser(const Graph& graph, const std::vector<Group>& groups, const std::vector<Formula>& formulas,
                const Target& target, const SymbolBindings& nominal, LayoutCosts& laid_out_costs)
      : graph_(graph),
        groups_(groups),
        formulas_(formulas),
        target_(target),
        nominal_(nominal),
        laid_out_costs_(laid_out_costs) {}

  LayoutDecision run() {
    if (target_.kind == TargetKind::Cpu) {
      for (const Group& group : groups_) {
        if (group.schedule.kind == ScheduleKind::Tiles)
          tiled_.insert(group.inputs.begin(), group.inputs.end());
      }
      weigh_feature_maps();
    } else {  // tiles are gathered in shared memory: all else may be row-major
      if (target_.core_threads > target_.group_threads)
        layouts_ = layouts_of(turn_weights(graph_, groups_, formulas_, target_));
      if (convolves_by_warps()) weigh_feature_maps();
    }
    for (const auto& [value, layout] : layouts_) decision_.layouts.push_back({value, layout});
    std::ranges::sort(decision_.choices, comes_before);
    return std::move(decision_);
  }

 private:
  using Wish = std::optional<Layout>;  // nothing: row-major, for whatever reason
  using Way = LayoutChoice::Way;

  // Whether a convolution is for units of warps.
  bool convolves_by_warps() const {
    if (!has_units_of_warps(target_)) return false;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (has_convolution(groups_[g]) && warp_products_ns(formulas_[g], target_, nominal_)) return true;
    }
    return false;
  }

  void weigh_feature_maps() {
    for (std::size_t g = 0; g < groups_.size(); ++g) look_at(g);
    for (const Group& group : groups_) {
      if (!is_copy(graph_, group) && !puts_together(graph_, group)) continue;
      const auto convolved = [this](ValueId value) { return convolved_.contains(value); };
      if (group.inputs.empty()) continue;  // of a constant it has none
      if (!std::ranges::any_of(group.inputs, convolved) && !convolved(group.outputs[0])) continue;
      convolved_.insert(group.inputs.begin(), group.inputs.end());
      convolved_.insert(group.outputs[0]);
    }
    for (const auto& [value, wishes] : wishes_) {
      Wish wish = wishes.begin()->second;
      for (const auto& [group, other] : wishes) {
        if (other != wish) wish.reset();
      }
      if (wish && (graph_.value(value).is_constant() || convolved_.count(value)))
        layouts_.emplace(value, *wish);
    }
    weigh_regions();
    weigh_copies();
    unblock_weights();
  }

  // Where no feature map that a weight meets has its channels in blocks, the weight's lie in the order in which sums go over them.
  void unblock_weights() {
    auto is_blocked = [&](std::size_t g) {
      return std::ranges::any_of(groups_[g].inputs, [&](ValueId input) {
        return !graph_.value(input).is_constant() && layouts_.contains(input);
      });
    };
    for (auto& [value, layout] : layouts_) {
      const auto wishes = wishes_.find(value);
      if (!graph_.value(value).is_constant() || wishes == wishes_.end()) continue;
      const bool stays =
          std::ranges::any_of(wishes->second, [&](const auto& wish) { return is_blocked(wish.first); });
      if (stays || wishes->second.size() != 1) continue;
      const std::size_t g = wishes->second.begin()->first;
      const auto position = std::ranges::find(groups_[g].inputs, value) - groups_[g].inputs.begin();
      if (const Wish wish = wish_for(g, te::BufferRole::Input, static_cast<std::size_t>(position), false))
        layout = *wish;
    }
  }

  void look_at(std::size_t g) {
    const Group& group = groups_[g];
    const Formula& formula = formulas_[g];
    if (is_copy(graph_, group)) return;
    if (group.hero == Hero::Window || has_convolution(group)) {
      convolved_.insert(group.inputs.begin(), group.inputs.end());
      convolved_.insert(group.outputs.begin(), group.outputs.end());
    }
    for (std::size_t i = 0; i < group.inputs.size(); ++i)
      wishes_[group.inputs[i]][g] = wish_for(g, te::BufferRole::Input, i);
    for (std::size_t i = 0; i < group.outputs.size(); ++i) {
      wishes_[group.outputs[i]][g] = formula.stages.empty() ? Wish() : wish_for(g, te::BufferRole::Output, i);
    }
  }

  // ---- costs

  // What the strides of a group cost with these layouts; asked again for each of a group's values that may be blocked.
  std::int64_t cost(std::size_t g, const LayoutsByValue& layouts) {
    std::string own;
    for (const auto* values : {&groups_[g].inputs, &groups_[g].outputs}) {
      for (ValueId value : *values) {
        const auto layout = layouts.find(value);
        own += layout == layouts.end() ? ";" : to_string(layout->second);
      }
    }
    const auto [known, fresh] = costs_.try_emplace({g, std::move(own)}, 0);
    if (fresh) known->second = counted_cost(g, layouts);
    return known->second;
  }

  std::int64_t counted_cost(std::size_t g, const LayoutsByValue& layouts) {
    if (formulas_[g].stages.empty()) return 0;
    LayoutCosts::LaidOut& laid_out = laid_out_costs_.of(formulas_[g], groups_[g], layouts);
    const bool row = groups_[g].schedule.kind == ScheduleKind::Row,
               pointwise = groups_[g].schedule.kind == ScheduleKind::Pointwise;
    if (target_.kind != TargetKind::Cpu)
      return laid_out.strided_ns() + warp_products_ns(laid_out.formula(), target_, nominal_).value_or(0);
    const auto counted = row || pointwise ? laid_out.compute_ns() : std::nullopt;  // lanes are known
    if (counted && row) return *counted;
    return counted ? std::max(*counted, laid_out.strided_ns()) : laid_out.strided_ns();
  }

  // ---- regions: groups that blocked feature maps go between

  struct Region {
    std::vector<ValueId> feature_maps;
    std::set<std::size_t> groups;
  };

  std::vector<Region> regions() const {
    std::vector<Region> found;
    for (const auto& [value, layout] : layouts_) {
      if (graph_.value(value).is_constant()) continue;
      Region region{{value}, {}};
      for (const auto& [group, wish] : wishes_.at(value)) region.groups.insert(group);
      std::vector<Region> apart;
      for (Region& other : found) {
        const bool together =
            std::ranges::any_of(other.groups, [&](std::size_t g) { return region.groups.count(g) != 0; });
        if (!together) {
          apart.push_back(std::move(other));
          continue;
        }
        region.feature_maps.insert(region.feature_maps.begin(), other.feature_maps.begin(),
                                   other.feature_maps.end());
        region.groups.merge(other.groups);
      }
      found = std::move(apart);
      found.push_back(std::move(region));
    }
    return found;
  }

  void weigh_regions() {
    for (Region& region : regions()) {
      std::ranges::sort(region.feature_maps);
      const LayoutsByValue blocked = layouts_;
      LayoutsByValue plain = layouts_;
      for (ValueId feature_map : region.feature_maps) plain.erase(feature_map);
      std::int64_t blocked_ns = 0, plain_ns = 0;
      std::set<std::size_t> for_blocks;  // groups that are faster with them
      for (std::size_t g : region.groups) {
        const std::int64_t in_blocks = cost(g, blocked), in_rows = cost(g, plain);
        blocked_ns += in_blocks;
        plain_ns += in_rows;
        if (in_blocks < in_rows) for_blocks.insert(g);
      }
      LayoutChoice choice{
          region.feature_maps.front(),
          {Way::Blocked, blocked_ns},
          {Way::Plain, plain_ns},
          std::string(target_.kind == TargetKind::Cpu ? "channels of " : "channels last, of ") +
              std::to_string(region.feature_maps.size()) +
              (region.feature_maps.size() == 1 ? " feature map" : " feature maps") + " between " +
              std::to_string(region.groups.size()) + " groups"};
      const bool is_even = plain_ns == blocked_ns && target_.kind != TargetKind::Cpu;
      if (plain_ns < blocked_ns || is_even) {
        std::swap(choice.taken, choice.other);
        layouts_ = std::move(plain);
        if (const std::size_t some = block_single(region, blocked, for_blocks, choice.taken.ns); some > 0)
          choice.reason += ", " + std::to_string(some) + " of them blocked";
        for (ValueId feature_map : std::views::reverse(region.feature_maps)) {
          if (!layouts_.contains(feature_map)) choice.value = feature_map;
        }
      }
      for (std::size_t g : region.groups) {
        const bool any = std::ranges::any_of(region.feature_maps, [&](ValueId feature_map) {
          return layouts_.contains(feature_map) && wishes_.at(feature_map).contains(g);
        });
        if (!any) plain_groups_.insert(g);
      }
      decision_.choices.push_back(std::move(choice));
    }
  }

  // Feature maps of a plain region that are blocked all the same, where the groups around one are faster for it together: a Pad writes
  // blocks for a pool as soon as rows. How many, and what the region takes then.
  std::size_t block_single(const Region& region, const LayoutsByValue& blocked,
                           const std::set<std::size_t>& for_blocks, std::int64_t& ns) {
    std::size_t count = 0;
    for (ValueId feature_map : region.feature_maps) {
      const auto& users = wishes_.at(feature_map);
      const bool wanted =
          std::ranges::any_of(users, [&](const auto& user) { return for_blocks.contains(user.first); });
      if (!wanted || count + 1 == region.feature_maps.size()) continue;
      LayoutsByValue with = layouts_;
      with.emplace(feature_map, blocked.at(feature_map));
      std::int64_t gain = 0;
      for (const auto& [g, wish] : users) gain += cost(g, layouts_) - cost(g, with);
      if (gain <= 0) continue;
      layouts_ = std::move(with);
      ns -= gain;
      ++count;
    }
    return count;
  }

  // ---- copies: for a value that some groups want in blocks and others do not

  void weigh_copies() {
    for (const auto& [value, wishes] : wishes_) {
      if (graph_.value(value).is_constant() || layouts_.count(value) || !convolved_.count(value)) continue;
      Wish blocked;
      std::vector<std::size_t> wanting, others;
      bool agreed = true;
      for (const auto& [group, wish] : wishes) {
        const bool wants = wish && plain_groups_.count(group) == 0;
        agreed = agreed && !(wants && blocked && *wish != *blocked);
        if (wants) blocked = wish;
        (wants ? wanting : others).push_back(group);
      }
      if (!agreed || wanting.empty() || others.empty()) continue;
      LayoutsByValue with = layouts_;
      with.emplace(value, *blocked);
      std::int64_t fused = 0;
      for (std::size_t g : wanting) fused += cost(g, layouts_) - cost(g, with);
      if (fused <= 0) continue;
      const Type& type = graph_.value(value).type;
      ChooseOptions sizes;
      sizes.nominal = nominal_;
      const std::int64_t stage =
          target_.relayout_ns(nominal(bytes_of(product(*type.shape), type.dtype), sizes));
      LayoutChoice choice{value,
                          {Way::Fused, fused},
                          {Way::Stage, stage},
                          "blocked channels for " + std::to_string(wanting.size()) + " of " +
                              std::to_string(wishes.size()) + " groups that use it"};
      if (stage >= fused) {
        decision_.choices.push_back(std::move(choice));
        continue;
      }
      std::swap(choice.taken, choice.other);
      const bool writes = std::ranges::any_of(wanting, [&](std::size_t g) {
        return std::ranges::find(groups_[g].outputs, value) != groups_[g].outputs.end();
      });
      std::vector<std::size_t> readers = writes ? others : wanting;
      if (read_by_others(value, readers)) continue;
      decision_.copies.push_back({value, std::move(readers), std::move(choice)});
    }
  }

  // Whether a change of index that some of the groups read the value through is read through by another group, too.
  bool read_by_others(ValueId value, const std::vector<std::size_t>& groups) const {
    std::set<NodeId> readers;
    for (std::size_t g : groups) {
      for (NodeId node : groups_[g].nodes) {
        const auto& inputs = graph_.node(node).inputs;
        if (std::ranges::find(inputs, value) != inputs.end()) readers.insert(node);
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (std::ranges::find(groups, g) != groups.end()) continue;
      if (std::ranges::any_of(groups_[g].nodes, [&](NodeId node) { return readers.count(node) != 0; }))
        return true;
    }
    return false;
  }

  // ---- what groups want

  Wish wish_for(std::size_t g, te::BufferRole role, std::size_t position, bool in_blocks = true) const {
    const Group& group = groups_[g];
    if (group.hero == Hero::Host || !row_of(group.schedule.kind).asks_layouts) return {};
    for (const te::BufferInfo& buffer : formulas_[g].buffers) {
      if (buffer.role != role || buffer.position != static_cast<int>(position)) continue;
      ValueId value = role == te::BufferRole::Input ? group.inputs[position] : group.outputs[position];
      const bool packs = (is_main(group) || group.hero == Hero::Scan) && target_.kind == TargetKind::Cpu;
      if (graph_.value(value).is_constant()) return packs ? packed(g, buffer, in_blocks) : Wish();
      return is_between(value) ? blocked(g, buffer, tiled_.count(value) != 0) : Wish();
    }
    return {};
  }

  bool is_between(ValueId value) const {
    auto in = [value](const std::vector<ValueId>& list) {
      return std::find(list.begin(), list.end(), value) != list.end();
    };
    return !in(graph_.inputs) && !in(graph_.outputs);
  }

  // Every index that a buffer is loaded or stored at.
  std::vector<std::pair<const Stage*, std::vector<Expr>>> accesses(const Formula& formula,
                                                                   te::BufferId buffer) const {
    std::vector<std::pair<const Stage*, std::vector<Expr>>> found;
    auto look_at = [&](const Stage& stage) {
      if (stage.target == buffer) found.emplace_back(&stage, stage.store);
      te::for_each_node(stage, [&](const ExprNode& node) {
        if (te::is_load(node) && node.buffer == buffer) found.emplace_back(&stage, te::index_of(node));
      });
    };
    for (const Stage& stage : formula.stages) {
      if (stage.kind != Stage::Kind::Scan) look_at(stage);
      for (const Stage& inner : stage.stages) look_at(inner);
    }
    return found;
  }

  // A weight: one axis runs along the vector lanes of the result, the others along the sum.
  Wish packed(std::size_t g, const te::BufferInfo& buffer, bool in_blocks) const {
    std::int64_t tile = knob(groups_[g], "tile_columns");
    auto uses = accesses(formulas_[g], buffer.id);
    if (groups_[g].schedule.kind == ScheduleKind::Bf16x3)
      return {};  // weights lie in panels of parts already
    if (groups_[g].schedule.kind == ScheduleKind::Tiles) {
      auto axes = uses.size() == 1 ? paired_axes(formulas_[g], buffer.id) : std::nullopt;
      return axes ? Wish(paired_layout(buffer.shape.size(), *axes, target_, buffer.dtype)) : Wish();
    }
    if (uses.empty() || buffer.shape.size() < 2) return {};
    if (uses.size() == 1 && groups_[g].schedule.kind == ScheduleKind::Winograd &&
        buffer.position == winograd_operand(formulas_[g]))
      return Layout{{0, tile, 0}, {2, 1, 0}, {3, 1, 0}, {1, 1, 0}, {0, 1, tile}};
    Wish wish;
    for (const auto& [stage, index] : uses) {
      const Wish one = packed_for(formulas_[g], *stage, buffer, index, tile, in_blocks);
      if (!one || (wish && *one != *wish)) return {};
      wish = one;
    }
    return wish;
  }

  // As one stage reads it.
  Wish packed_for(const Formula& formula, const Stage& stage, const te::BufferInfo& buffer,
                  const std::vector<Expr>& indices, std::int64_t tile, bool in_blocks) const {
    if (stage.reduction.empty()) return {};
    std::optional<std::size_t> columns;
    bool columns_contiguous = false;
    std::int64_t count = 0;  // of a group, where the convolution has several
    for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
      const Expr& index = indices[d];
      if (const std::int64_t together = columns_along(formula, stage, index); together > 0) {
        // Weights of several directions: the columns are those that are contiguous in the result.
        const bool contiguous = is_along_last(stage, index);
        if (columns && !contiguous) {
          if (!columns_contiguous) return {};
          continue;
        }
        columns_contiguous = contiguous;
        columns = d;
        count = together;
        continue;
      }
      for (VarId loop : te::variables_of(index)) {
        if (!has_loop(stage.reduction, loop)) return {};
      }
    }
    if (!columns) return {};
    const bool grouped = !buffer.shape[*columns].is(count);
    const std::int64_t lanes = target_.vector_bits / std::max(8, bits_of(buffer.dtype));
    // Where nothing comes out even and the weight is large, the last block is filled up. Half a vector is no block where
    // lanes can be masked.
    std::vector<std::int64_t> widths{tile, lanes, lanes / 2};
    if (masks_lanes() && count > lanes / 2) {
      widths.pop_back();
      if (count < 8 * lanes) widths.push_back(count);
    }
    bool even = std::any_of(widths.begin(), widths.end(),
                            [count](std::int64_t width) { return width > 1 && count % width == 0; });
    for (std::int64_t width : widths) {
      // A block holds no columns of two groups.
      if (width < 2 || (count % width != 0 && (grouped || even || count < 4 * width))) continue;
      Layout layout{{*columns, width, 0}};
      // The channels of a feature map come in blocks: one block, then the window, then the next.
      std::int64_t block = in_blocks && *columns == 0 ? block_of(buffer, kChannels) : 0;
      for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
        if (d == *columns) continue;
        layout.push_back(d == kChannels && block > 1 ? LayoutPart{d, block, 0} : LayoutPart{d, 1, 0});
      }
      if (block > 1) layout.push_back({kChannels, 1, block});
      layout.push_back({*columns, 1, width});
      return layout;
    }
    return {};
  }

  // Whether an index runs along the result's last dimension.
  static bool is_along_last(const Stage& stage, const Expr& index) {
    const Expr& last = stage.store.back();
    return last->op == ExprOp::Var && te::variables_of(index).contains(last->var);
  }

  // How many columns of the result an index runs along: an axis, or an axis within groups (`group * count + axis`), from the first
  // group or a later one on; 0: neither.
  static std::int64_t columns_along(const Formula& formula, const Stage& stage, const Expr& index) {
    std::int64_t count = 0, stride = 1;
    const te::LinearIndex linear = te::IndexAlgebra(formula).linear(index);
    if (!linear.constant.is_constant() || linear.terms.size() > 2) return 0;
    for (const te::LinearIndex::Term& term : linear.terms) {
      const Expr& atom = term.atom;
      if (atom->op != ExprOp::Var || !has_loop(stage.axes, atom->var) || !term.coefficient.is_constant())
        return 0;
      const Dim& extent = formula.variable(atom->var).extent;
      if (!term.coefficient.is(1)) {
        stride = term.coefficient.constant();
      } else if (extent.is_constant()) {
        count = extent.constant();
      }
    }
    if (count == 0 || linear.constant.constant() % count != 0) return 0;
    return linear.terms.size() < 2 || stride == count ? count : 0;
  }

  bool masks_lanes() const { return target_.kind == TargetKind::Cpu && target_.vector_bits >= 512; }

  // How many channels stand together: a vector of them. Where that does not come out even, all of them if lanes can be
  // masked, or else half a vector.
  std::int64_t block_of(const te::BufferInfo& buffer, std::size_t axis) const {
    if (buffer.shape.size() < 3 || !buffer.shape[axis].is_constant()) return 0;
    std::int64_t channels = buffer.shape[axis].constant(), block = target_.channel_block;
    if (block < 2 || channels <= 0) return 0;
    if (channels % block == 0) return block;
    if (masks_lanes() && channels > block / 2 && channels < 8 * block) return channels;
    return block > 8 && channels % (block / 2) == 0 ? block / 2 : 0;
  }

  // A feature map between convolutions: channels in blocks of a vector.
  Wish blocked(std::size_t g, const te::BufferInfo& buffer, bool tiled) const {
    // What tiles read: the sum runs along the channels, and a row of a tile is one pixel.
    const bool narrow = buffer.dtype == DType::BF16 || buffer.dtype == DType::I8 || buffer.dtype == DType::U8;
    if (tiled && narrow && buffer.shape.size() > 3) {
      // Pixels of as many channels as a tile is deep stand one after another: its rows come from one piece of memory.
      const Dim& channels = buffer.shape[kChannels];
      if (channels.is(1)) return {};
      const std::int64_t depth = tile_depth(buffer.dtype);
      const bool whole = channels.is_constant() && channels.constant() % depth == 0;
      Layout innermost{{0, 1, 0}};
      if (whole) innermost.push_back({kChannels, depth, 0});
      for (std::size_t d = 2; d < buffer.shape.size(); ++d) innermost.push_back({d, 1, 0});
      innermost.push_back({kChannels, 1, whole ? depth : 0});
      return product_unit(target_, buffer.dtype) != ProductUnit::None ? Wish(innermost) : Wish();
    }
    const Wish wish = target_.kind == TargetKind::Cpu ? in_blocks(buffer) : channels_last(buffer);
    if (!wish) return {};
    // Pictures are walked by windows, what is computed element by element, pools and copies; products of matrices, attention
    // and scans have rules of their own.
    static constexpr std::array kWalkers{Hero::None, Hero::Movement, Hero::RowReduction, Hero::Window,
                                         Hero::Contraction};
    const bool convolves = has_convolution(groups_[g]);
    if (!convolves && std::ranges::find(kWalkers, groups_[g].hero) == kWalkers.end()) return {};
    for (const auto& [stage, index] : accesses(formulas_[g], buffer.id)) {
      if (!counts_channels(formulas_[g], index[kChannels], wish)) return {};
      if (!convolves && te::classify(formulas_[g], *stage) == te::WorkShape::Contraction) return {};
    }
    return wish;
  }

  // Blocks are of one loop, or of a part that consists of whole ones; contiguous channels may be those of a group, too.
  bool counts_channels(const Formula& formula, const Expr& index, const Wish& wish) const {
    if (target_.kind == TargetKind::Cpu) {
      if (index->op == ExprOp::Var) return true;
      const te::LinearIndex linear = te::IndexAlgebra(formula).linear(index);
      if (linear.terms.size() != 1 || !linear.terms.front().coefficient.is(1)) return false;
      const Expr& channel = linear.terms.front().atom;
      const std::int64_t block = wish->back().modulus;
      if (channel->op != ExprOp::Var || block < 1 || !linear.constant.is_constant()) return false;
      const Dim& channels = formula.variable(channel->var).extent;
      return linear.constant.constant() % block == 0 && channels.is_constant() &&
             channels.constant() % block == 0;
    }
    return std::ranges::all_of(
        te::IndexAlgebra(formula).linear(index).terms,
        [](const te::LinearIndex::Term& term) { return term.atom->op == ExprOp::Var; });
  }

  Wish in_blocks(const te::BufferInfo& buffer) const {
    const std::int64_t block = block_of(buffer, kChannels);
    if (block < 2) return {};
    Layout layout{{0, 1, 0}, {kChannels, block, 0}};
    for (std::size_t d = 2; d < buffer.shape.size(); ++d) layout.push_back({d, 1, 0});
    layout.push_back({kChannels, 1, block});
    return layout;
  }

  bool has_convolution(const Group& group) const {
    return std::any_of(group.nodes.begin(), group.nodes.end(), [this](NodeId node) {
      return graph_.node(node).op.find("Conv") != std::string::npos;
    });
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  const std::vector<Formula>& formulas_;
  const Target& target_;
  const SymbolBindings& nominal_;
  std::map<ValueId, std::map<std::size_t, Wish>> wishes_;  // of the groups that touch a value
  LayoutsByValue layouts_;
  std::set<std::size_t> plain_groups_;  // of regions that are plain
  LayoutDecision decision_;
  LayoutCosts& laid_out_costs_;
  std::map<std::pair<std::size_t, std::string>, std::int64_t> costs_;  // by group and its layouts
  std::set<ValueId> tiled_;  // read by tiles
  std::set<ValueId> convolved_;  // touched by a convolution: only those gain by blocks
};

}  // namespace

LayoutDecision choose_layouts(const Graph& graph, const std::vector<Group>& groups,
                              const std::vector<Formula>& formulas, const Target& target,
                              const SymbolBindings& nominal, LayoutCosts& costs) {
  return LayoutChooser(graph, groups, formulas, target, nominal, costs).run();
}

LayoutsByValue layouts_of(const std::vector<ValueLayout>& chosen) {
  LayoutsByValue layouts;
  for (const ValueLayout& one : chosen) layouts.emplace(one.value, one.layout);
  return layouts;
}

void lay_out(te::Formula& formula, const Group& group, const LayoutsByValue& layouts) {
  bool any = false;
  const ScheduleRow& row = row_of(group.schedule.kind);
  if (row.stages) {
    auto made = row.stages(formula, group.schedule);
    require(made.has_value(), "a group's formula is not one that its schedule takes");
    formula = std::move(*made);
  }
  for (std::size_t b = 0; b < formula.buffers.size(); ++b) {
    const te::BufferInfo& buffer = formula.buffers[b];
    if (buffer.role == te::BufferRole::Temporary) continue;
    const auto& values = buffer.role == te::BufferRole::Input ? group.inputs : group.outputs;
    auto layout = layouts.find(values.at(static_cast<std::size_t>(buffer.position)));
    if (layout == layouts.end()) continue;
    te::lay_out(formula, buffer.id, layout->second);
    any = true;
  }
  if (any && !row.stages) te::fuse(formula);  // its stages are what the schedule is about
}

std::int64_t laid_out_ns(const Formula& formula, const Group& group, const LayoutsByValue& layouts,
                         const Target& target, const SymbolBindings& nominal_sizes, LayoutCosts& costs) {
  const auto in_blocks = [&](ValueId value) { return layouts.contains(value); };
  const bool blocked =
      std::ranges::any_of(group.inputs, in_blocks) || std::ranges::any_of(group.outputs, in_blocks);
  LayoutCosts::LaidOut& laid_out = costs.of(formula, group, layouts);
  std::int64_t ns = group.predicted_ns;
  if (blocked && group.hero != Hero::Attention) {
    if (const auto compute = laid_out.compute_ns()) {
      ChooseOptions sizes;
      sizes.nominal = nominal_sizes;
      std::int64_t bytes = 0;
      for (const te::BufferInfo& buffer : laid_out.formula().buffers) {
        if (buffer.role != te::BufferRole::Temporary)
          bytes += std::clamp<std::int64_t>(nominal(bytes_of(buffer), sizes), 0, INT64_MAX >> 16);
      }
      ns = std::min(ns, launched_ns(target, bytes, *compute));
    }
  }
  return ns + laid_out.strided_ns();
}

}  // namespace xyntra
