#include "fusion/memory_needs.h"

#include <algorithm>
#include <map>
#include <set>

#include "schedule/choose.h"
#include "te/index/digits.h"
#include "te/index/index.h"
#include "te/index/merge.h"

namespace xyntra {

using te::BufferInfo;
using te::Expr;
using te::ExprNode;
using te::ExprOp;
using te::Formula;
using te::Stage;

namespace {

Expr row_major(const std::vector<Expr>& index, const Shape& shape) {
  Expr position = Expr::index(0);
  for (std::size_t d = 0; d < index.size(); ++d) position = position * Expr::size(shape[d]) + index[d];
  return position;
}

// How far behind its source a copied element lies, the same for all of them; nothing when it is no plain copy.
std::optional<Dim> distance(const Formula& formula, const Stage& stage) {
  bool copies = stage.kind == Stage::Kind::MapReduce && stage.reducer == te::Reducer::None &&
                stage.body->op == ExprOp::Load &&
                formula.buffer(stage.body->buffer).role == te::BufferRole::Input;
  if (!copies || formula.buffer(stage.body->buffer).dtype != formula.buffer(stage.target).dtype)
    return std::nullopt;
  te::IndexAlgebra algebra(formula);
  te::LinearIndex to = algebra.linear(row_major(stage.store, formula.buffer(stage.target).shape));
  te::LinearIndex from =
      algebra.linear(row_major(stage.body->operands, formula.buffer(stage.body->buffer).shape));
  if (to.terms.size() != from.terms.size()) return std::nullopt;
  for (const auto& term : to.terms) {
    auto same_term = [&](const te::LinearIndex::Term& other) {
      return te::same(term.atom, other.atom) && term.coefficient == other.coefficient;
    };
    if (term.atom->op != ExprOp::Var || std::none_of(from.terms.begin(), from.terms.end(), same_term))
      return std::nullopt;
  }
  return to.constant - from.constant;
}

class Needs {
 public:
  Needs(const FusionNodes& fusion_nodes, Grouping& grouping, const std::vector<ValueLayout>& layouts,
        const Target& target)
      : fusion_nodes_(fusion_nodes),
        groups_(grouping.groups),
        formulas_(grouping.formulas),
        apart_(target.kind != TargetKind::Cpu),
        vector_bits_(target.vector_bits) {
    for (const ValueLayout& one : layouts) layouts_.emplace(one.value, one.layout);
  }

  MemoryNeeds run() {
    for (const Group& group : groups_) {
      if (group.hero == Hero::Host) continue;  // what comes from the host may be bytes of another value
      for (ValueId output : group.outputs) made_.insert(output);
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      GroupMemory memory;
      memory.reads = group.inputs;
      memory.writes = group.outputs;
      if (group.hero != Hero::Host) {
        const Formula& formula = formulas_[g];
        if (group.hero == Hero::Movement && becomes_view(group, formula)) {
          group.schedule = {ScheduleKind::View, Exactness::Exact, {}};
          group.predicted_ns = 0;
          memory.writes.clear();
        } else if (!apart_) {
          memory.in_place = in_place_pairs(group, formula);
        }
      }
      result_.groups.push_back(std::move(memory));
    }
    return std::move(result_);
  }

 private:
  using Pairs = std::vector<std::pair<ValueId, ValueId>>;

  // A copy of consecutive bytes is a view of its source; a concatenation of such parts is where they are written.
  bool becomes_view(const Group& group, const Formula& formula) {
    if (group.outputs.size() != 1) return false;
    ValueId output = group.outputs[0];
    int bits = bits_of(fusion_nodes_.graph().value(output).type.dtype);
    if (bits % 8 != 0) return false;
    std::vector<ValueView> views;
    std::set<ValueId> sources;
    for (const Stage& stage : formula.stages) {
      auto behind = distance(formula, stage);
      if (!behind) return false;
      ValueId source = group.inputs.at(static_cast<std::size_t>(formula.buffer(stage.body->buffer).position));
      if (!sources.insert(source).second || !lie_alike(source, output, *behind)) return false;
      Dim offset = *behind * (bits / 8);
      if (apart_ && (formula.stages.size() > 1 || !offset.is(0))) return false;
      if (formula.stages.size() == 1) {
        // The source stays what it is, and the output is part of it.
        Dim beyond = product(formula.buffer(stage.body->buffer).shape) + *behind - trip_count(formula, stage);
        if (fusion_nodes_.is_output(output) || views_.count(output) || beyond.range({}).low < 0) return false;
        views.push_back({output, source, Dim(0) - offset});
      } else {
        // The part must be whole, ours to place, and placed nowhere else.
        bool whole = product(formula.buffer(stage.body->buffer).shape) == trip_count(formula, stage);
        if (!whole || !made_.count(source) || views_.count(source) || fusion_nodes_.is_output(source))
          return false;
        views.push_back({source, output, offset});
      }
    }
    for (const ValueView& view : views) {
      views_.insert(view.value);
      result_.views.push_back(view);
    }
    return true;
  }

  // Whether one value's bytes may be a piece of the other's: both row-major, or both in whole blocks of the dimension that the pieces
  // lie along, which is the outermost.
  bool lie_alike(ValueId part, ValueId whole, const Dim& behind) const {
    const Layout layout = layout_of(whole);
    if (layout_of(part) != layout) return false;
    if (layout.empty()) return true;
    const Shape &of_part = *fusion_nodes_.graph().value(part).type.shape,
                &of_whole = *fusion_nodes_.graph().value(whole).type.shape;
    if (of_part.size() != of_whole.size() || layout.size() != of_whole.size() + 1) return false;
    const std::size_t along = layout.back().axis;
    const std::int64_t block = layout.back().modulus;
    Layout in_blocks;
    for (std::size_t d = 0; d < of_whole.size(); ++d)
      in_blocks.push_back(d == along ? LayoutPart{d, block, 0} : LayoutPart{d, 1, 0});
    in_blocks.push_back({along, 1, block});
    const bool outermost =
        std::all_of(of_whole.begin(), of_whole.begin() + static_cast<std::ptrdiff_t>(along),
                    [](const Dim& size) { return size.is(1); });
    const bool whole_blocks = block > 0 && of_part[along].is_constant() && of_whole[along].is_constant() &&
                              of_part[along].constant() % block == 0 &&
                              of_whole[along].constant() % block == 0;
    if (layout != in_blocks || !outermost || !whole_blocks) return false;
    Dim piece = block;  // elements
    for (std::size_t d = along + 1; d < of_whole.size(); ++d) piece = piece * of_whole[d];
    return floor_div(behind, piece) * piece == behind;
  }

  static Dim trip_count(const Formula& formula, const Stage& stage) {
    Dim product = 1;
    for (te::VarId axis : stage.axes) product = product * formula.variable(axis).extent;
    return product;
  }

  // An operand of the same size that is read only where, and when, the result of that element is stored.
  Pairs in_place_pairs(const Group& group, const Formula& formula) const {
    Pairs pairs;
    for (const BufferInfo& target : formula.buffers) {
      if (target.role != te::BufferRole::Output) continue;
      for (const BufferInfo& source : formula.buffers) {
        bool fits = source.role == te::BufferRole::Input && bits_of(source.dtype) == bits_of(target.dtype) &&
                    source.shape == target.shape;
        if (!fits || !read_where_stored(formula, source, target)) continue;
        ValueId read = group.inputs.at(static_cast<std::size_t>(source.position));
        ValueId written = group.outputs.at(static_cast<std::size_t>(target.position));
        if (layout_of(read) == layout_of(written)) pairs.emplace_back(read, written);
      }
    }
    return pairs.empty() || has_ragged_rows(formula) ? Pairs() : pairs;
  }

  // Short rows that end inside a vector. As a store under a mask counts as wide as its vector, a load of the next row would wait for it.
  bool has_ragged_rows(const Formula& formula) const {
    constexpr std::int64_t kFewVectors = 4;
    Formula merged = formula;
    te::merge_axes(merged);
    te::join_loops(merged, std::max<std::int64_t>(1, vector_bits_ / 32));
    return std::ranges::any_of(merged.stages, [&](const Stage& stage) {
      if (stage.axes.size() < 2 || merged.buffer(stage.target).role != te::BufferRole::Output) return false;
      const std::int64_t lanes =
          std::max<std::int64_t>(1, vector_bits_ / bits_of(merged.buffer(stage.target).dtype));
      const Dim& row = merged.variable(stage.axes.back()).extent;
      return row.is_constant() && row.constant() > 1 && row.constant() % lanes != 0 &&
             row.constant() < kFewVectors * lanes;
    });
  }

  static bool read_where_stored(const Formula& formula, const BufferInfo& source, const BufferInfo& target) {
    std::size_t writers = 0;
    bool aligned = true, read = false;
    for (const Stage& stage : formula.stages) {
      if (stage.kind != Stage::Kind::MapReduce) return false;
      bool stores = stage.target == target.id;
      writers += stores;
      auto look = [&](const Expr& expr, bool at_the_end) {
        if (!expr.defined()) return;
        te::for_each_node(expr, [&](const ExprNode& node) {
          if (!te::is_load(node) || node.buffer != source.id) return;
          read = true;
          std::vector<Expr> index = te::index_of(node);
          aligned = aligned && stores && at_the_end &&
                    std::equal(index.begin(), index.end(), stage.store.begin(), stage.store.end(), te::same);
        });
      };
      look(stage.body, stage.reducer == te::Reducer::None);
      look(stage.finish, true);
    }
    return writers == 1 && aligned && read;
  }

  Layout layout_of(ValueId value) const {
    auto found = layouts_.find(value);
    return found == layouts_.end() ? Layout() : found->second;
  }

  const FusionNodes& fusion_nodes_;
  std::vector<Group>& groups_;
  const std::vector<Formula>& formulas_;
  const bool apart_;  // what a launch reads and writes begins at addresses of its own and does not overlap
  const std::int64_t vector_bits_;
  MemoryNeeds result_;
  std::map<ValueId, Layout> layouts_;
  std::set<ValueId> made_;  // by a group
  std::set<ValueId> views_;  // placed already
};

}  // namespace

MemoryNeeds memory_needs(const FusionNodes& fusion_nodes, Grouping& grouping,
                         const std::vector<ValueLayout>& layouts, const std::vector<Extension>& extensions,
                         const SymbolBindings& nominal, const Target& target) {
  MemoryNeeds needs = Needs(fusion_nodes, grouping, layouts, target).run();
  for (const Extension& one : extensions) {
    needs.donated.push_back(one.input);
    needs.groups[one.group].in_place.emplace_back(one.input, one.output);
  }
  for (const ValueLayout& one : layouts) {
    if (!leaves_room(one.layout)) continue;
    const Type& type = fusion_nodes.graph().value(one.value).type;
    needs.bytes.emplace(one.value, bytes_of(product(physical_shape(one.layout, *type.shape)), type.dtype));
    for (const LayoutPart& part : one.layout) {
      if (part.room.is_symbol()) needs.nominal.emplace(part.room.to_string(), 0);
    }
  }
  needs.alignment = target.buffer_alignment;
  // Sizes that inputs tell are known when the program starts; the others are not.
  for (ValueId input : fusion_nodes.graph().inputs) {
    const Type& type = fusion_nodes.graph().value(input).type;
    if (!type.is_tensor() || !type.shape) continue;
    for (const Dim& dim : *type.shape) {
      if (!dim.is_symbol()) continue;
      auto given = nominal.find(dim.to_string());
      needs.nominal.emplace(dim.to_string(), given == nominal.end() ? kNominalSize : given->second);
    }
  }
  return needs;
}

}  // namespace xyntra
