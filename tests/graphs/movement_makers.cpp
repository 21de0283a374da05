#include <algorithm>
#include <numeric>

#include "graphs/makers.h"

namespace xyntra::graphs {
namespace {

std::int64_t product_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Another shape of the same number of elements: factors of it, ones strewn in.
Sizes factored(Decisions& decide, std::int64_t count) {
  Sizes sizes;
  while (count > 1 && sizes.size() < 5) {
    Sizes divisors;
    for (std::int64_t d = 2; d <= count; ++d) {
      if (count % d == 0) divisors.push_back(d);
    }
    std::int64_t part = sizes.size() == 4 ? count : decide.one_of(divisors);
    sizes.push_back(part);
    count /= part;
  }
  if (count == 0) sizes.push_back(0);
  if (sizes.size() < 5 && decide.chance(25))
    sizes.insert(sizes.begin() + decide.below(static_cast<std::int64_t>(sizes.size()) + 1), 1);
  return sizes;
}

void reshape(GraphMaker& m) {
  ValueId x = m.any();
  const std::int64_t count = product_of(*m.sizes(x));
  Sizes sizes = factored(m.decide, count);
  Attributes attributes;
  if (count == 0) attributes["allowzero"] = std::int64_t{1};
  if (count > 0 && !sizes.empty() && m.decide.chance(30)) {
    sizes[static_cast<std::size_t>(m.decide.below(static_cast<std::int64_t>(sizes.size())))] = -1;
  }
  m.one("Reshape", {x, m.integers(sizes)}, std::move(attributes));
}

// Merges two neighbouring axes or splits one, whatever their sizes: what exported models do to symbolic shapes.
void reshape_by_shape(GraphMaker& m) {
  ValueId x = m.any_ranked(2, false);
  auto rank = static_cast<std::int64_t>(m.rank(x));
  std::int64_t at = m.decide.below(rank - 1);
  std::vector<ValueId> parts;
  ValueId shape = m.one("Shape", {x});
  if (!shape.valid()) return;
  auto piece = [&](std::int64_t from, std::int64_t to) {
    return m.one("Slice", {shape, m.integers({from}), m.integers({to})});
  };
  if (at > 0) parts.push_back(piece(0, at));
  parts.push_back(m.integers({-1}));
  if (at + 2 < rank) parts.push_back(piece(at + 2, rank));
  for (ValueId part : parts) {
    if (!part.valid()) return;
  }
  ValueId merged = m.one("Concat", parts, {{"axis", std::int64_t{0}}});
  // Sizes stand for themselves, also where they are 0.
  const Attributes plain{{"allowzero", std::int64_t{1}}};
  ValueId y = merged.valid() ? m.one("Reshape", {x, merged}, plain) : ValueId();
  if (y.valid() && m.decide.chance(50)) m.one("Reshape", {m.one("Relu", {y}), shape}, plain);
}

void flatten(GraphMaker& m) {
  ValueId x = m.any();
  m.one("Flatten", {x}, {{"axis", m.decide.between(0, static_cast<std::int64_t>(m.rank(x)))}});
}

void unsqueeze(GraphMaker& m) {
  ValueId x = m.any();
  m.one("Unsqueeze", {x, m.integers({m.decide.between(0, static_cast<std::int64_t>(m.rank(x)))})});
}

void squeeze(GraphMaker& m) {
  ValueId x = m.any();
  Sizes sizes = *m.sizes(x), axes;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) axes.push_back(static_cast<std::int64_t>(d));
  }
  if (!axes.empty()) m.one("Squeeze", {x, m.integers({m.decide.one_of(axes)})});
}

void transpose(GraphMaker& m) {
  ValueId x = m.any_ranked(2, false);
  std::vector<std::int64_t> order(m.rank(x));
  std::iota(order.begin(), order.end(), 0);
  if (m.decide.chance(30)) {
    std::swap(order[order.size() - 1], order[order.size() - 2]);
  } else {
    m.decide.shuffle(order);
  }
  m.one("Transpose", {x}, {{"perm", order}});
}

void slice(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  Sizes sizes = *m.sizes(x), starts, ends, axes, steps;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (!m.decide.chance(50) && (d + 1 < sizes.size() || !axes.empty())) continue;
    axes.push_back(static_cast<std::int64_t>(d));
    std::int64_t step = m.decide.chance(40) ? m.decide.between(1, 3) : 1;
    std::int64_t from = m.decide.between(0, sizes[d]), to = m.decide.between(0, sizes[d] + 1);
    if (from > to) std::swap(from, to);
    if (m.decide.chance(20)) step = -step, std::swap(from, to);
    if (m.decide.chance(25)) from -= sizes[d];
    if (m.decide.chance(15)) to = step < 0 ? std::int64_t{INT64_MIN} : std::int64_t{INT64_MAX};
    starts.push_back(from), ends.push_back(to), steps.push_back(step);
  }
  m.one("Slice", {x, m.integers(starts), m.integers(ends), m.integers(axes), m.integers(steps)});
}

void expand(GraphMaker& m) {
  ValueId x = m.any();
  Sizes sizes = *m.sizes(x);
  for (std::int64_t& size : sizes) {
    if (size == 1 && m.decide.chance(60)) size = m.decide.between(0, 4);
  }
  if (sizes.size() < 5 && m.decide.chance(60)) sizes.insert(sizes.begin(), m.decide.between(1, 3));
  m.one("Expand", {x, m.integers(sizes)});
}

void tile(GraphMaker& m) {
  ValueId x = m.any();
  Sizes repeats(m.rank(x));
  for (std::int64_t& repeat : repeats) repeat = m.decide.between(1, 3) - m.decide.below(20) / 19;
  m.one("Tile", {x, m.integers(repeats)});
}

void pad(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  constexpr const char* kModes[] = {"constant", "constant", "reflect", "edge", "wrap"};
  std::string mode = m.decide.one_of(kModes);
  Sizes sizes = *m.sizes(x), pads(sizes.size() * 2);
  for (std::size_t i = 0; i < pads.size(); ++i) {
    std::int64_t size = sizes[i % sizes.size()];
    if (mode == "constant") {
      pads[i] = m.decide.chance(50) ? m.decide.between(-1, 2) : 0;
    } else if (size > 2) {
      pads[i] = m.decide.between(0, size - 1);
    }
  }
  std::vector<ValueId> operands{x, m.integers(pads)};
  if (mode == "constant" && m.decide.chance(50)) operands.push_back(m.number(m.dtype(x), 1.5));
  m.one("Pad", operands, {{"mode", mode}});
}

void concat(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  std::vector<ValueId> operands{x};
  std::int64_t axis = m.axis_of(x);
  std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(m.rank(x)) : axis);
  for (std::int64_t i = m.decide.between(1, 3); i > 0; --i) {
    Shape shape = m.shape(x);
    shape[at] = m.decide.between(0, 3);
    ValueId other;
    for (int attempt = 0; attempt < 5 && !other.valid(); ++attempt) {
      ValueId candidate = m.any();
      if (m.dtype(candidate) == m.dtype(x) && m.sizes(candidate) == m.sizes(x)) other = candidate;
    }
    operands.push_back(other.valid() ? other : m.fresh(m.dtype(x), shape));
  }
  m.decide.shuffle(operands);
  m.one("Concat", operands, {{"axis", axis}});
}

void split(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  std::int64_t axis = m.axis_of(x);
  Sizes sizes = *m.sizes(x);
  std::int64_t size =
      sizes[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(sizes.size()) : axis)];
  if (m.decide.chance(50)) {
    auto parts = m.decide.between(2, 3);
    m.add("Split", {x}, {{"axis", axis}, {"num_outputs", parts}}, static_cast<std::size_t>(parts));
    return;
  }
  std::int64_t first = m.decide.between(0, size);
  m.add("Split", {x, m.integers({first, size - first})}, {{"axis", axis}}, 2);
}

// Indices in range: constants, or values of the graph brought into range.
ValueId indices_below(GraphMaker& m, std::int64_t size, const Shape& shape) {
  if (size == 0) return {};
  if (m.decide.chance(50) || !is_static(shape)) {
    Sizes sizes;
    for (const Dim& dim : shape) sizes.push_back(*dim.evaluate(m.bindings));
    Tensor values = std::move(*Tensor::allocate(DType::I64, sizes));
    for (std::int64_t i = 0; i < values.count(); ++i)
      values.set_element_i64(i, m.decide.between(-size, size - 1));
    ValueId id = m.graph.add_constant(m.graph.unique_name("indices"), values);
    m.graph.value(id).type = Type::tensor(DType::I64, shape_of(sizes));
    return id;
  }
  ValueId some = m.fresh(DType::I64, shape);
  ValueId limit = m.number(DType::I64, static_cast<double>(size));
  return m.one("Mod", {m.one("Abs", {some}), limit});
}

void gather(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  std::int64_t axis = m.axis_of(x);
  Sizes sizes = *m.sizes(x);
  std::int64_t size =
      sizes[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(sizes.size()) : axis)];
  Shape shape(static_cast<std::size_t>(m.decide.below(3)));
  for (Dim& dim : shape) dim = m.decide.between(1, 4);
  ValueId indices = indices_below(m, size, shape);
  if (indices.valid()) m.one("Gather", {x, indices}, {{"axis", axis}});
}

void gather_elements(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  std::int64_t axis = m.axis_of(x);
  Sizes sizes = *m.sizes(x);
  std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(sizes.size()) : axis);
  Shape shape = m.shape(x);
  shape[at] = m.decide.between(1, 3);
  ValueId indices = indices_below(m, sizes[at], shape);
  if (indices.valid()) m.one("GatherElements", {x, indices}, {{"axis", axis}});
}

void scatter_nd(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  Sizes sizes = *m.sizes(x);
  std::int64_t points = m.decide.between(1, 4);
  ValueId indices = indices_below(m, sizes[0], {points, 1});
  if (!indices.valid()) return;
  Shape shape = m.shape(x);
  shape[0] = points;
  constexpr const char* kReductions[] = {"none", "add", "mul", "max", "min"};
  std::string reduction = is_bool(m.dtype(x)) ? "none" : m.decide.one_of(kReductions);
  m.one("ScatterND", {x, indices, m.fresh(m.dtype(x), shape)}, {{"reduction", reduction}});
}

void scatter_elements(GraphMaker& m) {
  ValueId x = m.any_ranked(1, false);
  std::int64_t axis = m.axis_of(x);
  Sizes sizes = *m.sizes(x);
  std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(sizes.size()) : axis);
  Shape shape = m.shape(x);
  shape[at] = m.decide.between(1, 2);
  ValueId indices = indices_below(m, sizes[at], shape);
  std::string reduction = is_bool(m.dtype(x)) || m.decide.chance(50) ? "none" : "add";
  if (indices.valid())
    m.one("ScatterElements", {x, indices, m.fresh(m.dtype(x), shape)},
          {{"axis", axis}, {"reduction", reduction}});
}

void triangle(GraphMaker& m) {
  m.one("Trilu", {m.any_ranked(2, false), m.number(DType::I64, static_cast<double>(m.decide.between(-2, 2)))},
        {{"upper", m.decide.below(2)}});
}

void depth_to_space(GraphMaker& m) {
  ValueId x = m.fresh(DType::F32, {m.decide.between(1, 2), 4 * m.decide.between(1, 2), m.some_size(),
                                   m.decide.between(1, 4)});
  m.one("DepthToSpace", {x},
        {{"blocksize", std::int64_t{2}}, {"mode", std::string(m.decide.chance(50) ? "CRD" : "DCR")}});
}

void space_to_depth(GraphMaker& m) {
  ValueId x = m.fresh(DType::F32,
                      {1, m.decide.between(1, 3), 2 * m.decide.between(1, 3), 2 * m.decide.between(1, 3)});
  m.one("SpaceToDepth", {x}, {{"blocksize", std::int64_t{2}}});
}

void constant_of_shape(GraphMaker& m) {
  ValueId x = m.any();
  ValueId shape = m.one("Shape", {x});
  if (!shape.valid()) return;
  Tensor value = std::move(*Tensor::allocate(DType::F32, {1}));
  value.set_element_f64(0, 0.5);
  ValueId filled = m.one("ConstantOfShape", {shape}, {{"value", value}});
  if (filled.valid() && m.dtype(x) == DType::F32) m.one("Mul", {x, filled});
}

void range(GraphMaker& m) {
  ValueId count = m.number(DType::I64, static_cast<double>(m.decide.between(0, 7)));
  ValueId positions = m.one("Range", {m.number(DType::I64, 0), count, m.number(DType::I64, 1)});
  if (positions.valid() && m.decide.chance(50))
    m.one("Cast", {positions}, {{"to", std::int64_t{onnx_code_of(DType::F32)}}});
}

void one_hot(GraphMaker& m) {
  ValueId x = m.any_of(DType::I64);
  if (!x.valid() || m.rank(x) > 4) return;
  m.one("OneHot",
        {x, m.number(DType::I64, static_cast<double>(m.decide.between(1, 5))), m.constant(DType::F32, {2})});
}

}  // namespace

std::vector<Maker> movement_makers() {
  return {{"reshape", 8, reshape},
          {"reshape by shape", 3, reshape_by_shape},
          {"flatten", 2, flatten},
          {"unsqueeze", 3, unsqueeze},
          {"squeeze", 3, squeeze},
          {"transpose", 8, transpose},
          {"slice", 6, slice},
          {"expand", 4, expand},
          {"tile", 2, tile},
          {"pad", 4, pad},
          {"concat", 6, concat},
          {"split", 5, split},
          {"gather", 4, gather},
          {"gather elements", 2, gather_elements},
          {"scatter ND", 2, scatter_nd},
          {"scatter elements", 2, scatter_elements},
          {"triangle", 2, triangle},
          {"depth to space", 1, depth_to_space},
          {"space to depth", 1, space_to_depth},
          {"constant of shape", 2, constant_of_shape},
          {"range", 1, range},
          {"one hot", 1, one_hot}};
}

}  // namespace xyntra::graphs
