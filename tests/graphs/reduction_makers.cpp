#include <functional>
#include <numeric>

#include "graphs/makers.h"

namespace xyntra::graphs {
namespace {

constexpr const char* kReductions[] = {"ReduceSum",       "ReduceMax",      "ReduceMean", "ReduceMin",
                                       "ReduceProd",      "ReduceL1",       "ReduceL2",   "ReduceLogSum",
                                       "ReduceLogSumExp", "ReduceSumSquare"};
constexpr std::int64_t kFewFactors = 48;
constexpr const char* kSoftmaxes[] = {"Softmax", "LogSoftmax", "Softmax", "Hardmax"};

bool has_at_most(const GraphMaker& m, ValueId value, std::int64_t elements) {
  const auto sizes = m.sizes(value);
  return sizes &&
         std::accumulate(sizes->begin(), sizes->end(), std::int64_t{1}, std::multiplies<>()) <= elements;
}

void reduce(GraphMaker& m) {
  ValueId x = m.decide.chance(20) ? m.any_of(DType::I64) : m.any_float();
  if (!x.valid()) return;
  Sizes axes;
  for (std::size_t d = 0; d < m.rank(x); ++d) {
    if (m.decide.chance(45)) axes.push_back(static_cast<std::int64_t>(d));
  }
  Attributes attributes{{"keepdims", m.decide.below(2)}};
  std::vector<ValueId> operands{x};
  if (!axes.empty() || m.decide.chance(30)) operands.push_back(m.integers(axes));
  std::string op = m.decide.one_of(kReductions);
  // Products of special values, or of many numbers, depend on their order: 1e30 * 1e30 * 0 is a number or not.
  if (op == "ReduceProd" && (m.has_special_values() || !has_at_most(m, x, kFewFactors))) op = "ReduceMax";
  m.one(op, operands, std::move(attributes));
}

void arg_extreme(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  m.one(m.decide.chance(50) ? "ArgMax" : "ArgMin", {x},
        {{"axis", m.axis_of(x)}, {"keepdims", m.decide.below(2)}, {"select_last_index", m.decide.below(2)}});
}

void cumulative(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  m.one(m.decide.chance(80) ? "CumSum" : "CumProd",
        {x, m.number(DType::I64, static_cast<double>(m.axis_of(x)))},
        {{"exclusive", m.decide.below(2)}, {"reverse", m.decide.below(2)}});
}

void softmax(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  m.one(m.decide.one_of(kSoftmaxes), {x}, {{"axis", m.axis_of(x)}});
}

Shape from_axis(GraphMaker& m, ValueId x, std::int64_t axis) {
  Shape shape = m.shape(x);
  if (axis < 0) axis += static_cast<std::int64_t>(shape.size());
  shape.erase(shape.begin(), shape.begin() + axis);
  return shape;
}

void layer_norm(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  std::int64_t axis = m.axis_of(x);
  Shape shape = from_axis(m, x, axis);
  std::vector<ValueId> operands{x, m.fresh(m.dtype(x), shape)};
  if (m.decide.chance(60)) operands.push_back(m.fresh(m.dtype(x), shape));
  m.add("LayerNormalization", operands, {{"axis", axis}}, m.decide.chance(25) ? 3 : 1);
}

void rms_norm(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  std::int64_t axis = m.axis_of(x);
  m.one("RMSNormalization", {x, m.fresh(m.dtype(x), from_axis(m, x, axis))}, {{"axis", axis}});
}

void channel_norm(GraphMaker& m) {
  ValueId x = m.any_ranked(3, true);
  Shape channels{m.shape(x)[1]};
  auto each = [&] { return m.fresh(m.dtype(x), channels); };
  switch (m.decide.below(4)) {
    case 0: {
      ValueId variance = m.one("Abs", {each()});
      m.one("BatchNormalization", {x, each(), each(), each(), variance});
      break;
    }
    case 1: m.one("InstanceNormalization", {x, each(), each()}); break;
    case 2: {
      std::int64_t count = (*m.sizes(x))[1];
      std::int64_t groups = count % 2 == 0 && count > 0 && m.decide.chance(60) ? 2 : 1;
      m.one("GroupNormalization", {x, each(), each()}, {{"num_groups", groups}});
      break;
    }
    default: m.one("LpNormalization", {x}, {{"axis", m.axis_of(x)}, {"p", m.decide.between(1, 2)}}); break;
  }
}

void top_k(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  std::int64_t axis = m.axis_of(x);
  Sizes sizes = *m.sizes(x);
  std::int64_t size =
      sizes[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(sizes.size()) : axis)];
  m.add("TopK", {x, m.integers({m.decide.between(0, size)})},
        {{"axis", axis}, {"largest", m.decide.below(2)}}, 2);
}

// What is not zero, and something computed from it: sizes that only running tells.
void non_zero(GraphMaker& m) {
  ValueId found = m.one("NonZero", {m.any_ranked(1, false)});
  if (!found.valid()) return;
  ValueId wide = m.one("Cast", {found}, {{"to", std::int64_t{onnx_code_of(DType::F32)}}});
  if (!wide.valid() || m.decide.chance(30)) return;
  ValueId moved = m.one("Transpose", {m.one("Add", {wide, m.number(DType::F32, 1)})});
  if (moved.valid() && m.decide.chance(60))
    m.one("ReduceSum", {moved, m.integers({0})}, {{"keepdims", std::int64_t{0}}});
}

}  // namespace

std::vector<Maker> reduction_makers() {
  return {{"reduce", 14, reduce},
          {"arg extreme", 2, arg_extreme},
          {"cumulative", 2, cumulative},
          {"softmax", 5, softmax},
          {"layer norm", 3, layer_norm},
          {"RMS norm", 2, rms_norm},
          {"channel norm", 3, channel_norm},
          {"top k", 1, top_k},
          {"non zero", 1, non_zero}};
}

}  // namespace xyntra::graphs
