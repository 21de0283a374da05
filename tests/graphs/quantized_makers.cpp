// Models of 8 bit integers in the three forms in which tools write them.
#include "graphs/makers.h"

namespace xyntra::graphs {
namespace {

constexpr DType kInt8[] = {DType::U8, DType::I8};
constexpr double kScales[] = {0.25, 0.1, 0.0078125, 1.0 / 3, 1};

// How integers of a type stand for numbers: one scale and zero point, or one of each along an axis.
struct Parameters {
  ValueId scale, zero_point;
  Attributes attributes;
};

ValueId zero_point(GraphMaker& m, DType type, const Sizes& sizes) {
  if (sizes.empty())
    return m.number(type, m.decide.chance(40) ? 0 : static_cast<double>(m.decide.between(1, 120)));
  return m.constant(type, sizes);
}

Parameters one(GraphMaker& m, DType type) {
  Parameters made{m.number(DType::F32, m.decide.one_of(kScales)), {}, {}};
  if (type != DType::U8 || !m.decide.chance(20)) made.zero_point = zero_point(m, type, {});
  return made;
}

Parameters along(GraphMaker& m, DType type, std::int64_t axis, std::int64_t count) {
  if (m.decide.chance(30)) return one(m, type);
  Parameters made{{}, {}, {{"axis", axis}}};
  std::vector<float> scales;
  for (std::int64_t i = 0; i < count; ++i) scales.push_back(static_cast<float>(m.decide.one_of(kScales)));
  made.scale =
      m.graph.add_constant(m.graph.unique_name("scales"), Tensor::from<float>(DType::F32, {count}, scales));
  m.graph.value(made.scale).type = Type::tensor(DType::F32, Shape{count});
  if (m.decide.chance(50)) made.zero_point = zero_point(m, type, {count});
  return made;
}

ValueId dequantize(GraphMaker& m, ValueId x, const Parameters& by) {
  std::vector<ValueId> operands{x, by.scale};
  if (by.zero_point.valid()) operands.push_back(by.zero_point);
  return m.one("DequantizeLinear", operands, by.attributes);
}

ValueId quantize(GraphMaker& m, ValueId x, const Parameters& by) {
  std::vector<ValueId> operands{x, by.scale};
  if (by.zero_point.valid()) operands.push_back(by.zero_point);
  return m.one("QuantizeLinear", operands, by.attributes);
}

// Through integers and back, as a tool puts it around an operation.
void round_trip(GraphMaker& m) {
  const Parameters by = one(m, m.decide.one_of(kInt8));
  const ValueId real = dequantize(m, quantize(m, m.any_of(DType::F32), by), by);
  if (!real.valid() || !m.decide.chance(70)) return;
  ValueId moved = real;
  if (m.rank(real) == 4 && m.decide.chance(50)) {
    moved = m.one("MaxPool", {real}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}});
  } else if (m.rank(real) > 1) {
    std::vector<std::int64_t> order;
    for (std::size_t d = 0; d < m.rank(real); ++d) order.insert(order.begin(), static_cast<std::int64_t>(d));
    moved = m.one("Transpose", {real}, {{"perm", order}});
  }
  if (moved.valid()) dequantize(m, quantize(m, moved, m.decide.chance(70) ? by : one(m, DType::U8)), by);
}

std::int64_t some_width(GraphMaker& m) {
  return m.decide.chance(40) ? m.decide.between(16, 66) : m.decide.between(1, 7);
}

// A constant, or now and then an input.
ValueId int8_values(GraphMaker& m, DType type, const Sizes& sizes, bool constant) {
  return constant ? m.constant(type, sizes) : m.input(type, shape_of(sizes));
}

void finish(GraphMaker& m, ValueId y, std::int64_t columns, bool channels_last) {
  if (!y.valid()) return;
  if (m.decide.chance(50)) {
    Sizes sizes = channels_last ? Sizes{columns} : Sizes{columns, 1, 1};
    y = m.one("Add", {y, m.constant(DType::F32, sizes)});
  }
  if (y.valid() && m.decide.chance(40)) y = m.one("Relu", {y});
  if (!y.valid() || !m.decide.chance(60)) return;
  const Parameters by = one(m, m.decide.one_of(kInt8));
  y = quantize(m, y, by);
  if (y.valid() && m.decide.chance(70)) dequantize(m, y, by);
}

// Floats between a quantization and a matmul: MatMul or Gemm of what two integers stand for.
void matmul_of_dequantized(GraphMaker& m) {
  const std::int64_t rows = m.decide.between(1, 20), depth = some_width(m), columns = some_width(m);
  const DType left = m.decide.one_of(kInt8), right = m.decide.one_of(kInt8);
  const bool gemm = m.decide.chance(40), transposed = gemm && m.decide.chance(60);
  const Sizes weights = transposed ? Sizes{columns, depth} : Sizes{depth, columns};
  const ValueId a = dequantize(m, int8_values(m, left, {rows, depth}, false), one(m, left));
  const ValueId b = dequantize(m, int8_values(m, right, weights, !m.decide.chance(20)),
                               along(m, right, transposed ? 0 : 1, columns));
  if (!a.valid() || !b.valid()) return;
  std::vector<ValueId> operands{a, b};
  if (gemm && m.decide.chance(80)) operands.push_back(m.constant(DType::F32, {columns}));
  Attributes attributes;
  if (gemm) attributes["transB"] = std::int64_t{transposed};
  finish(m, m.one(gemm ? "Gemm" : "MatMul", operands, std::move(attributes)), columns, true);
}

struct Convolution {
  std::int64_t groups, channels, filters;
  Sizes x, w;
  Attributes attributes;
};

Convolution some_convolution(GraphMaker& m) {
  Convolution made;
  made.groups = m.decide.chance(25) ? 2 : 1;
  made.channels = made.groups * (m.decide.chance(30) ? 16 : m.decide.between(1, 3));
  made.filters = made.groups * (m.decide.chance(30) ? 16 : m.decide.between(1, 3));
  made.x = {1, made.channels, m.decide.between(3, 6), m.decide.between(3, 6)};
  const std::int64_t side = m.decide.between(1, 3);
  made.w = {made.filters, made.channels / made.groups, side, side};
  made.attributes["group"] = made.groups;
  if (m.decide.chance(50)) made.attributes["pads"] = std::vector<std::int64_t>{1, 0, 1, 1};
  if (m.decide.chance(30)) made.attributes["strides"] = std::vector<std::int64_t>{2, 2};
  return made;
}

void convolution_of_dequantized(GraphMaker& m) {
  const Convolution convolution = some_convolution(m);
  const DType left = m.decide.one_of(kInt8), right = m.decide.one_of(kInt8);
  const ValueId x = dequantize(m, int8_values(m, left, convolution.x, false), one(m, left));
  const ValueId w = dequantize(m, int8_values(m, right, convolution.w, !m.decide.chance(20)),
                               along(m, right, 0, convolution.filters));
  if (!x.valid() || !w.valid()) return;
  std::vector<ValueId> operands{x, w};
  if (m.decide.chance(60)) operands.push_back(m.constant(DType::F32, {convolution.filters}));
  finish(m, m.one("Conv", operands, convolution.attributes), convolution.filters, false);
}

// Integers all the way: QLinearMatMul, QLinearConv.
void quantized_operation(GraphMaker& m) {
  const DType left = m.decide.one_of(kInt8), right = m.decide.one_of(kInt8);
  const bool window = m.decide.chance(50);
  const Convolution convolution = some_convolution(m);
  const std::int64_t depth = some_width(m), columns = some_width(m),
                     filters = window ? convolution.filters : columns;
  const Sizes a = window ? convolution.x : Sizes{m.decide.between(1, 20), depth};
  const Sizes b = window ? convolution.w : Sizes{depth, columns};
  auto parameters = [&](DType type, const Sizes& sizes) {
    Parameters made;
    made.scale =
        sizes.empty() ? m.number(DType::F32, m.decide.one_of(kScales)) : along(m, type, 0, sizes[0]).scale;
    made.zero_point = zero_point(m, type, *m.sizes(made.scale));
    return made;
  };
  const Parameters of_a = parameters(left, {}), of_b = parameters(right, {filters}),
                   of_y = parameters(left, {});
  std::vector<ValueId> operands{int8_values(m, left, a, false),
                                of_a.scale,
                                of_a.zero_point,
                                int8_values(m, right, b, !m.decide.chance(20)),
                                of_b.scale,
                                of_b.zero_point,
                                of_y.scale,
                                of_y.zero_point};
  if (window && m.decide.chance(60)) operands.push_back(m.constant(DType::I32, {filters}));
  m.one(window ? "QLinearConv" : "QLinearMatMul", operands, window ? convolution.attributes : Attributes());
}

// The range is found when the model runs.
void dynamic_matmul(GraphMaker& m) {
  const ValueId x = m.any_of(DType::F32);
  if (m.rank(x) < 2 || !m.shape(x).back().is_constant() || m.shape(x).back().is(0)) return;
  const std::int64_t columns = some_width(m);
  const std::vector<ValueId> q = m.add("DynamicQuantizeLinear", {x}, {}, 3);
  if (q.size() != 3) return;
  const DType type = m.decide.one_of(kInt8);
  std::vector<ValueId> operands{q[0], m.constant(type, {m.shape(x).back().constant(), columns}), q[2]};
  if (m.decide.chance(50))
    operands.push_back(zero_point(m, type, m.decide.chance(50) ? Sizes{columns} : Sizes{}));
  const ValueId sum = m.one("MatMulInteger", operands);
  if (!sum.valid()) return;
  const ValueId real = m.one("Cast", {sum}, {{"to", std::int64_t{1}}});
  const ValueId scale = m.one("Mul", {q[1], along(m, type, 0, columns).scale});
  finish(m, m.one("Mul", {real, scale}), columns, true);
}

}  // namespace

std::vector<Maker> quantized_makers() {
  return {{"round trip", 2, round_trip},
          {"matmul of dequantized", 3, matmul_of_dequantized},
          {"convolution of dequantized", 2, convolution_of_dequantized},
          {"quantized operation", 2, quantized_operation},
          {"dynamic matmul", 2, dynamic_matmul}};
}

}  // namespace xyntra::graphs
