#include "graphs/makers.h"

namespace xyntra::graphs {
namespace {

std::vector<std::int64_t> last_two_swapped(std::size_t rank) {
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

ValueId softmax_by_hand(GraphMaker& m, ValueId x) {
  if (!x.valid()) return {};
  ValueId axes = m.integers({-1}), shifted = x;
  if (m.decide.chance(70)) shifted = m.one("Sub", {x, m.one("ReduceMax", {x, axes})});
  ValueId powers = m.one("Exp", {shifted});
  return m.one("Div", {powers, m.one("ReduceSum", {powers, axes})});
}

ValueId normalised(GraphMaker& m, ValueId x) {
  if (!x.valid()) return {};
  if (m.decide.chance(50)) return softmax_by_hand(m, x);
  return m.one("Softmax", {x}, {{"axis", std::int64_t{-1}}});
}

// Scores, scale, mask, softmax, weighted sum, heads split from a projection or given.
void attention(GraphMaker& m) {
  Dim batch = m.decide.chance(40) ? Dim::symbol("n") : Dim(m.decide.between(1, 2));
  Dim queries = m.decide.chance(40) ? Dim::symbol("m") : Dim(m.decide.between(1, 5));
  Dim keys = m.decide.chance(60) ? queries : m.some_size();
  std::int64_t heads = m.decide.between(1, 3), depth = m.decide.between(1, 4);
  auto projected = [&](const Dim& length) {
    ValueId x = m.fresh(DType::F32, {batch, length, heads * depth});
    if (m.decide.chance(40)) x = m.one("MatMul", {x, m.constant(DType::F32, {heads * depth, heads * depth})});
    if (!x.valid()) return x;
    ValueId split = m.one("Reshape", {x, m.integers({0, 0, heads, depth})});
    return m.one("Transpose", {split}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  };
  ValueId q = projected(queries), k = projected(keys), v = projected(keys);
  if (m.decide.chance(30)) k = q;
  ValueId transposed = m.one("Transpose", {k}, {{"perm", last_two_swapped(4)}});
  ValueId scores = m.one("MatMul", {q, transposed});
  if (!scores.valid()) return;
  if (m.decide.chance(70))
    scores = m.one(m.decide.chance(50) ? "Mul" : "Div", {scores, m.number(DType::F32, 1.75)});
  if (m.decide.chance(20)) scores = m.one("Mul", {m.one("Tanh", {scores}), m.number(DType::F32, 3)});
  if (m.decide.chance(40)) {
    ValueId allowed = m.fresh(DType::Bool, {queries, k == q ? queries : keys});
    scores = m.one("Where", {allowed, scores, m.number(DType::F32, -1e9)});
  } else if (m.decide.chance(40)) {
    scores = m.one("Add", {scores, m.fresh(DType::F32, {batch, 1, 1, k == q ? queries : keys})});
  }
  ValueId weights = normalised(m, scores);
  if (weights.valid() && m.decide.chance(20)) {
    auto dropped = m.add("Dropout", {weights}, {{"seed", std::int64_t{3}}});
    if (!dropped.empty()) weights = dropped[0];
  }
  ValueId mixed = m.one("MatMul", {weights, v});
  if (!mixed.valid() || m.decide.chance(30)) return;
  ValueId back = m.one("Transpose", {mixed}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  m.one("Reshape", {back, m.integers({0, 0, heads * depth})});
}

void softmax_spelt_out(GraphMaker& m) { softmax_by_hand(m, m.any_ranked(1, true)); }

void layer_norm_by_hand(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  DType dtype = m.dtype(x);
  ValueId axes = m.integers({-1});
  ValueId centred = m.one("Sub", {x, m.one("ReduceMean", {x, axes})});
  if (!centred.valid()) return;
  ValueId squared =
      m.decide.chance(50) ? m.one("Pow", {centred, m.number(dtype, 2)}) : m.one("Mul", {centred, centred});
  ValueId variance = m.one("ReduceMean", {squared, axes});
  ValueId deviation = m.one("Sqrt", {m.one("Add", {variance, m.number(dtype, 1e-5)})});
  ValueId y = m.one("Div", {centred, deviation});
  if (y.valid()) y = m.one("Mul", {y, m.fresh(dtype, {m.shape(x).back()})});
  if (y.valid()) m.one("Add", {y, m.fresh(dtype, {m.shape(x).back()})});
}

void rms_norm_by_hand(GraphMaker& m) {
  ValueId x = m.any_ranked(1, true);
  DType own = m.dtype(x);
  auto to = [&](ValueId value, DType dtype) {
    return m.one("Cast", {value}, {{"to", std::int64_t{onnx_code_of(dtype)}}});
  };
  ValueId wide = own == DType::F32 ? x : to(x, DType::F32);
  if (!wide.valid()) return;
  ValueId mean = m.one("ReduceMean", {m.one("Mul", {wide, wide}), m.integers({-1})});
  ValueId deviation = m.one("Sqrt", {m.one("Add", {mean, m.number(DType::F32, 1e-6)})});
  ValueId y = m.decide.chance(50) ? m.one("Div", {wide, deviation})
                                  : m.one("Mul", {wide, m.one("Reciprocal", {deviation})});
  if (y.valid() && own != DType::F32) y = to(y, own);
  if (y.valid()) m.one("Mul", {y, m.fresh(own, {m.shape(x).back()})});
}

void gelu_by_hand(GraphMaker& m) {
  ValueId x = m.any_float();
  DType dtype = m.dtype(x);
  if (m.decide.chance(50)) {
    ValueId e = m.one("Erf", {m.one("Div", {x, m.number(dtype, 1.41421356)})});
    m.one("Mul", {m.one("Mul", {x, m.one("Add", {e, m.number(dtype, 1)})}), m.number(dtype, 0.5)});
    return;
  }
  ValueId cube = m.one("Pow", {x, m.number(dtype, 3)});
  ValueId inner = m.one("Add", {x, m.one("Mul", {cube, m.number(dtype, 0.044715)})});
  ValueId t = m.one("Tanh", {m.one("Mul", {inner, m.number(dtype, 0.79788456)})});
  m.one("Mul", {m.one("Mul", {x, m.number(dtype, 0.5)}), m.one("Add", {t, m.number(dtype, 1)})});
}

void gated(GraphMaker& m) {  // silu(x W) * (x V)
  ValueId x = m.any_ranked(1, true);
  Dim width = m.some_size();
  auto projected = [&] { return m.one("MatMul", {x, m.fresh(m.dtype(x), {m.shape(x).back(), width})}); };
  ValueId gate = projected(), up = projected();
  if (gate.valid()) m.one("Mul", {m.one("Mul", {gate, m.one("Sigmoid", {gate})}), up});
}

void residual(GraphMaker& m) {  // x + f(x)
  ValueId x = m.any_ranked(1, true);
  ValueId y = m.one("MatMul", {x, m.fresh(m.dtype(x), {m.shape(x).back(), m.shape(x).back()})});
  if (y.valid() && m.decide.chance(60)) y = m.one("Add", {y, m.fresh(m.dtype(x), {m.shape(x).back()})});
  if (y.valid() && m.decide.chance(50)) y = m.one("Relu", {y});
  if (y.valid()) m.one("Add", {x, y});
}

void convolution_block(GraphMaker& m) {  // convolution, batch norm, activation, shortcut
  std::int64_t channels = m.decide.between(1, 4);
  Dim batch = m.decide.chance(50) ? Dim::symbol("n") : Dim(1);
  ValueId x = m.fresh(DType::F32, {batch, channels, m.decide.between(2, 6), m.decide.between(2, 6)});
  ValueId y = m.one("Conv", {x, m.constant(DType::F32, {channels, channels, 3, 3})},
                    {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  auto each = [&] { return m.constant(DType::F32, {channels}); };
  if (m.decide.chance(70))
    y = m.one("BatchNormalization", {y, each(), each(), each(), m.one("Abs", {each()})});
  if (m.decide.chance(60)) y = m.one("Add", {y, x});
  y = m.one("Relu", {y});
  if (y.valid() && m.decide.chance(30)) m.one("Flatten", {m.one("GlobalAveragePool", {y})});
}

void rotary(GraphMaker& m) {  // x cos + rotate_half(x) sin
  std::int64_t half = m.decide.between(1, 3);
  Dim length = m.decide.chance(50) ? Dim::symbol("m") : Dim(m.decide.between(1, 4));
  ValueId x = m.fresh(DType::F32, {m.decide.between(1, 2), 2, length, half * 2});
  ValueId cosine = m.fresh(DType::F32, {length, half * 2}), sine = m.fresh(DType::F32, {length, half * 2});
  auto part = [&](std::int64_t from, std::int64_t to) {
    return m.one("Slice", {x, m.integers({from}), m.integers({to}), m.integers({-1})});
  };
  ValueId transposed =
      m.one("Concat", {m.one("Neg", {part(half, INT64_MAX)}), part(0, half)}, {{"axis", std::int64_t{-1}}});
  m.one("Add", {m.one("Mul", {x, cosine}), m.one("Mul", {transposed, sine})});
}

void split_projection(GraphMaker& m) {  // one matmul, cut into three, recombined
  ValueId x = m.any_ranked(1, true);
  std::int64_t width = m.decide.between(1, 4);
  ValueId y = m.one("MatMul", {x, m.fresh(m.dtype(x), {m.shape(x).back(), width * 3})});
  if (!y.valid()) return;
  auto parts = m.add("Split", {y}, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{3}}}, 3);
  if (parts.size() == 3) m.one("Add", {m.one("Mul", {parts[0], m.one("Tanh", {parts[1]})}), parts[2]});
}

}  // namespace

std::vector<Maker> motif_makers() {
  return {{"attention", 5, attention},
          {"softmax by hand", 3, softmax_spelt_out},
          {"layer norm by hand", 3, layer_norm_by_hand},
          {"RMS norm by hand", 3, rms_norm_by_hand},
          {"GELU by hand", 3, gelu_by_hand},
          {"gated", 2, gated},
          {"residual", 3, residual},
          {"convolution block", 3, convolution_block},
          {"rotary", 2, rotary},
          {"split projection", 2, split_projection}};
}

}  // namespace xyntra::graphs
