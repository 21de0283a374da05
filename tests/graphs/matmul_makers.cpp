#include "graphs/makers.h"

namespace xyntra::graphs {
namespace {

void matmul(GraphMaker& m) {
  ValueId a = m.any_ranked(1, true);
  Shape shape = m.shape(a);
  Shape other{shape.back(), m.some_size()};
  if (m.decide.chance(15)) {
    other.pop_back();
  } else if (shape.size() > 2 && m.decide.chance(40)) {
    Shape batch(shape.begin(), shape.end() - 2);
    if (m.decide.chance(25)) batch.back() = 1;
    other.insert(other.begin(), batch.begin(), batch.end());
  }
  m.one("MatMul", {a, m.fresh(m.dtype(a), other)});
}

// A matmul of what is there with itself, one side transposed: both operands are shared.
void gram(GraphMaker& m) {
  ValueId a = m.any_ranked(2, true);
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < m.rank(a); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  ValueId transposed = m.one("Transpose", {a}, {{"perm", order}});
  m.one("MatMul", m.decide.chance(50) ? std::vector{a, transposed} : std::vector{transposed, a});
}

void gemm(GraphMaker& m) {
  ValueId a = m.any_ranked(2, true);
  if (m.rank(a) != 2) a = m.one("Flatten", {a});
  if (!a.valid()) return;
  bool transpose_a = m.decide.chance(30), transpose_b = m.decide.chance(50);
  Dim depth = m.shape(a)[transpose_a ? 0 : 1], columns = m.some_size();
  ValueId b = m.fresh(m.dtype(a), transpose_b ? Shape{columns, depth} : Shape{depth, columns});
  std::vector<ValueId> operands{a, b};
  if (m.decide.chance(60))
    operands.push_back(m.fresh(m.dtype(a), m.decide.chance(80) ? Shape{columns} : Shape{}));
  Attributes attributes{{"transA", std::int64_t{transpose_a}}, {"transB", std::int64_t{transpose_b}}};
  if (m.decide.chance(30)) attributes["alpha"] = 0.5f;
  if (m.decide.chance(30)) attributes["beta"] = 1.5f;
  m.one("Gemm", operands, std::move(attributes));
}

void einsum(GraphMaker& m) {
  struct Form {
    const char* equation;
    const char* operands[2];
  };
  constexpr Form kForms[] = {{"ij,jk->ik", {"ij", "jk"}},      {"ij,kj->ki", {"ij", "kj"}},
                             {"bij,bjk->bik", {"bij", "bjk"}}, {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}},
                             {"ij,ij->", {"ij", "ij"}},        {"ij,ij->i", {"ij", "ij"}},
                             {"i,j->ij", {"i", "j"}},          {"bqhd,bkhd->bhqk", {"bqhd", "bkhd"}}};
  const Form& form = m.decide.one_of(kForms);
  std::map<char, Dim> letters;
  auto operand = [&](std::string_view text) {
    Shape shape;
    for (char letter : text) shape.push_back(letters.try_emplace(letter, m.some_size()).first->second);
    return m.fresh(DType::F32, shape);
  };
  ValueId a = operand(form.operands[0]), b = operand(form.operands[1]);
  if (m.decide.chance(40)) a = m.one("Sigmoid", {a});
  m.one("Einsum", {a, b}, {{"equation", std::string(form.equation)}});
}

// x with two spatial axes or one; what is there when it fits.
ValueId image(GraphMaker& m, std::int64_t channels) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    ValueId x = m.any_float();
    if (m.rank(x) == 4 || m.rank(x) == 3) {
      if (m.shape(x)[1] == Dim(channels)) return x;
    }
  }
  Shape shape{m.decide.chance(30) ? Dim::symbol("n") : Dim(m.decide.between(1, 2)), channels};
  for (std::int64_t spatial = m.decide.chance(30) ? 1 : 2; spatial > 0; --spatial) {
    shape.push_back(m.decide.chance(15) ? m.some_size() : Dim(m.decide.between(3, 7)));
  }
  return m.fresh(DType::F32, shape);
}

Attributes window_attributes(GraphMaker& m, std::size_t spatial, bool dilated) {
  Attributes attributes;
  auto list = [&](std::int64_t low, std::int64_t high, std::size_t count) {
    std::vector<std::int64_t> values(count);
    for (std::int64_t& value : values) value = m.decide.between(low, high);
    return values;
  };
  if (m.decide.chance(40)) attributes["strides"] = list(1, 2, spatial);
  if (dilated && m.decide.chance(20)) attributes["dilations"] = list(1, 2, spatial);
  if (m.decide.chance(50)) {
    attributes["pads"] = list(0, 1, spatial * 2);
  } else if (m.decide.chance(30)) {
    attributes["auto_pad"] = std::string(m.decide.chance(50) ? "SAME_UPPER" : "SAME_LOWER");
  }
  return attributes;
}

void convolution(GraphMaker& m) {
  std::int64_t groups = m.decide.chance(35) ? 2 : 1, channels = groups * m.decide.between(1, 3);
  if (m.decide.chance(15)) groups = channels;
  ValueId x = image(m, channels);
  std::size_t spatial = m.rank(x) - 2;
  Shape filter{groups * m.decide.between(1, 3), channels / groups};
  for (std::size_t i = 0; i < spatial; ++i) filter.push_back(m.decide.between(1, 3));
  std::vector<ValueId> operands{x, m.fresh(m.dtype(x), filter)};
  if (m.decide.chance(60)) operands.push_back(m.fresh(m.dtype(x), {filter[0]}));
  Attributes attributes = window_attributes(m, spatial, true);
  attributes["group"] = groups;
  m.one("Conv", operands, std::move(attributes));
}

void transposed_convolution(GraphMaker& m) {
  std::int64_t channels = m.decide.between(1, 3);
  ValueId x = image(m, channels);
  std::size_t spatial = m.rank(x) - 2;
  Shape filter{channels, m.decide.between(1, 3)};
  for (std::size_t i = 0; i < spatial; ++i) filter.push_back(m.decide.between(1, 3));
  std::vector<ValueId> operands{x, m.fresh(m.dtype(x), filter)};
  if (m.decide.chance(50)) operands.push_back(m.fresh(m.dtype(x), {filter[1]}));
  Attributes attributes = window_attributes(m, spatial, true);
  attributes.erase("auto_pad");
  m.one("ConvTranspose", operands, std::move(attributes));
}

void pool(GraphMaker& m) {
  ValueId x = image(m, m.decide.between(1, 3));
  std::size_t spatial = m.rank(x) - 2;
  std::vector<std::int64_t> kernel(spatial);
  for (std::int64_t& size : kernel) size = m.decide.between(2, 3);
  constexpr const char* kOps[] = {"MaxPool", "AveragePool", "LpPool"};
  std::string op = m.decide.one_of(kOps);
  Attributes attributes = window_attributes(m, spatial, false);
  attributes["kernel_shape"] = kernel;
  if (m.decide.chance(20)) attributes["ceil_mode"] = std::int64_t{1};
  if (op == "AveragePool") attributes["count_include_pad"] = m.decide.below(2);
  m.add(op, {x}, std::move(attributes), op == "MaxPool" && m.decide.chance(25) ? 2 : 1);
}

void global_pool(GraphMaker& m) {
  ValueId x = m.any_ranked(3, true);
  m.one(m.decide.chance(50) ? "GlobalAveragePool" : "GlobalMaxPool", {x});
}

void resize(GraphMaker& m) {
  ValueId x = image(m, m.decide.between(1, 3));
  std::vector<float> scales(m.rank(x), 1.0f);
  for (std::size_t d = 2; d < scales.size(); ++d) scales[d] = m.decide.chance(30) ? 1.5f : 2.0f;
  ValueId factors = m.graph.add_constant(
      m.graph.unique_name("scales"),
      Tensor::from<float>(DType::F32, {static_cast<std::int64_t>(scales.size())}, scales));
  m.graph.value(factors).type = Type::tensor(DType::F32, Shape{static_cast<std::int64_t>(scales.size())});
  m.add("Resize", {x, {}, factors}, {{"mode", std::string(m.decide.chance(50) ? "linear" : "nearest")}});
}

}  // namespace

std::vector<Maker> matmul_makers() {
  return {{"matmul", 10, matmul},
          {"gram", 2, gram},
          {"gemm", 5, gemm},
          {"einsum", 3, einsum},
          {"convolution", 5, convolution},
          {"transposed convolution", 2, transposed_convolution},
          {"pool", 3, pool},
          {"global pool", 2, global_pool},
          {"resize", 1, resize}};
}

}  // namespace xyntra::graphs
