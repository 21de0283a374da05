#include "schedule/layout/layout_costs.h"

#include <bit>

#include "schedule/cost.h"
#include "schedule/layout/strides.h"

namespace xyntra {
namespace {

// What costs depend on. Copies of a formula share their expressions, which never change: an address stands for all below it.
class Key {
 public:
  Key(const te::Formula& formula, const Group& group, const LayoutsByValue& layouts) {
    for (const te::Variable& variable : formula.variables) size(variable.extent);
    for (const te::BufferInfo& buffer : formula.buffers) {
      number(static_cast<std::uint64_t>(buffer.dtype));
      number(static_cast<std::uint64_t>(buffer.role));
      number(static_cast<std::uint64_t>(buffer.position));
      number(buffer.shape.size());
      for (const Dim& dim : buffer.shape) size(dim);
      if (buffer.role == te::BufferRole::Temporary) continue;
      const auto& values = buffer.role == te::BufferRole::Input ? group.inputs : group.outputs;
      const auto layout = layouts.find(values.at(static_cast<std::size_t>(buffer.position)));
      text += layout == layouts.end() ? ";" : to_string(layout->second);
    }
    for (const te::Stage& stage : formula.stages) this->stage(stage);
    text += name_of(group.schedule.kind);
    number(static_cast<std::uint64_t>(group.schedule.exactness));
    for (const Knob& knob : group.schedule.knobs) {
      text += knob.name;
      number(static_cast<std::uint64_t>(knob.value));
    }
  }

  std::string text;

 private:
  void number(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>(value >> shift & 255);
  }
  void size(const Dim& dim) {
    if (dim.is_constant()) return number(static_cast<std::uint64_t>(dim.constant()));
    text += dim.to_string() + ';';
  }
  void expr(const te::Expr& expr) { number(std::bit_cast<std::uintptr_t>(expr.address())); }
  template <class Id>
  void ids(const std::vector<Id>& list) {
    number(list.size());
    for (Id id : list) number(id.index);
  }

  void stage(const te::Stage& stage) {
    number(static_cast<std::uint64_t>(stage.kind));
    number(static_cast<std::uint64_t>(stage.reducer));
    number(static_cast<std::uint64_t>(stage.combiner));
    number(stage.target.index);
    number(stage.step.index);
    ids(stage.axes);
    ids(stage.reduction);
    number(stage.store.size());
    for (const te::Expr& index : stage.store) expr(index);
    for (const te::Expr* one : {&stage.body, &stage.finish, &stage.guard}) expr(*one);
    number(stage.carried.size());
    for (const te::Carried& carried : stage.carried) {
      number(carried.state.index);
      number(carried.next.index);
    }
    number(stage.stages.size());
    for (const te::Stage& inner : stage.stages) this->stage(inner);
  }
};

}  // namespace

LayoutCosts::LaidOut& LayoutCosts::of(const te::Formula& formula, const Group& group,
                                      const LayoutsByValue& layouts) {
  const auto [place, fresh] = known_.try_emplace(Key(formula, group, layouts).text);
  LaidOut& found = place->second;
  if (!fresh) return found;
  te::Formula laid_out = formula;
  try {
    lay_out(laid_out, group, layouts);
  } catch (...) {
    known_.erase(place);
    throw;
  }
  found.costs_ = this;
  found.given_ = formula;
  found.laid_out_ = std::move(laid_out);
  found.schedule_ = group.schedule;
  return found;
}

std::optional<std::int64_t> LayoutCosts::LaidOut::compute_ns() {
  if (!counted_) compute_ = xyntra::compute_ns(laid_out_, schedule_, costs_->target_, costs_->nominal_);
  counted_ = true;
  return compute_;
}

std::int64_t LayoutCosts::LaidOut::strided_ns() {
  if (!strided_) strided_ = xyntra::strided_ns(laid_out_, schedule_, costs_->target_, costs_->nominal_);
  return *strided_;
}

}  // namespace xyntra
