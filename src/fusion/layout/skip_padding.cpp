#include "fusion/layout/skip_padding.h"

#include <algorithm>
#include <cstring>

#include "schedule/convolution/window_border.h"
#include "te/walk.h"

namespace xyntra {
namespace {

// Where all bits of the exponent are set, there is no number.
bool is_finite(const Tensor& tensor) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  if (tensor.dtype() != DType::F32) return false;
  const std::span<const std::byte> bytes = tensor.bytes();
  std::uint32_t beyond = 0;
  for (std::size_t at = 0; at + sizeof(std::uint32_t) <= bytes.size(); at += sizeof(std::uint32_t)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &bytes[at], sizeof bits);
    beyond |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return beyond == 0;
}

// The load that an element in the padding is zero of, and what it is multiplied with.
struct Product {
  te::Expr element, weight;
};

std::optional<Product> product_of(const te::Formula& formula) {
  for (const te::Stage& stage : formula.stages) {
    if (stage.kind != te::Stage::Kind::MapReduce || stage.reducer != te::Reducer::Sum) continue;
    if (stage.body->op != te::ExprOp::Mul) continue;
    for (std::size_t side = 0; side < 2; ++side) {
      const te::Expr &element = stage.body->operands[side], &weight = stage.body->operands[1 - side];
      if (element->op == te::ExprOp::LoadOr && weight->op == te::ExprOp::Load)
        return Product{element, weight};
    }
  }
  return std::nullopt;
}

}  // namespace

bool may_skip_padding(const Graph& graph, const Group& group, const te::Formula& formula,
                      const Target& target) {
  if (group.hero != Hero::Window || group.schedule.kind != ScheduleKind::Window ||
      target.kind != TargetKind::Cpu)
    return false;
  const auto product = product_of(formula);
  if (!product || formula.buffer(product->weight->buffer).role != te::BufferRole::Input) return false;
  const auto position = static_cast<std::size_t>(formula.buffer(product->weight->buffer).position);
  const Value& weights = graph.value(group.inputs.at(position));
  return weights.is_constant() && is_finite(weights.constant);
}

void add_padding_knob(Schedule& schedule) {
  schedule.knobs.push_back({std::string(kSkipPadding), 1});
  std::ranges::sort(schedule.knobs, {}, &Knob::name);
}

void skip_paddings(const Graph& graph, Grouping& grouping, const Target& target) {
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    Group& group = grouping.groups[g];
    if (may_skip_padding(graph, group, grouping.formulas[g], target)) add_padding_knob(group.schedule);
  }
}

}  // namespace xyntra
