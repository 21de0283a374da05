// Ops that only name the same elements differently, and the two that ask for their number.
#include <algorithm>

#include "ops/operands.h"
#include "ops/rules.h"

namespace xyntra {
namespace {

void keep_elements(InferenceContext& c) {
  if (auto known = c.elements(0)) c.set_elements(0, std::move(*known));
}

Status check_same_count(const OpContext& c, const Shape& from, const Shape& to) {
  Dim before = product(from), after = product(to);
  if (before.is_constant() && after.is_constant() && !(before == after)) {
    return c.fail("cannot view " + to_string(from) + " (" + before.to_string() + " elements) as " +
                  to_string(to) + " (" + after.to_string() + " elements)");
  }
  return {};
}

// The slice of the shape that Shape(start, end) asks for.
std::pair<std::size_t, std::size_t> shape_range(const OpContext& c, std::size_t rank) {
  auto signed_rank = static_cast<std::int64_t>(rank);
  auto clamped = [signed_rank](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + signed_rank : i, 0, signed_rank);
  };
  std::int64_t start = clamped(c.integer("start"));
  std::int64_t end = c.has_attribute("end") ? clamped(c.integer("end")) : signed_rank;
  return {as_size(start), as_size(std::max(start, end))};
}

}  // namespace

namespace rule {

Status shape(InferenceContext& c) {
  if (!c.type(0).shape) {
    c.set_shape(0, {c.unknown_dim(0, 0)});
    return {};
  }
  auto [start, end] = shape_range(c, c.rank(0));
  std::vector<Dim> sizes;
  for (std::size_t i = start; i < end; ++i) sizes.push_back(c.dim(0, i));
  c.set_shape(0, {static_cast<std::int64_t>(sizes.size())});
  c.set_elements(0, std::move(sizes));
  return {};
}

Status size(InferenceContext& c) {
  c.set_shape(0, {});
  if (c.type(0).shape) c.set_elements(0, {product(c.shape(0))});
  return {};
}

// 0 copies the operand's size (unless allowzero), one -1 is what is left over.
Status reshape(InferenceContext& c) {
  auto target = c.elements(1);
  if (!target) {
    if (auto rank = list_length(c, 1)) c.set_shape(0, c.unknown_shape(0, *rank));
    return {};
  }
  const auto& from = c.type(0).shape;
  Shape shape;
  std::optional<std::size_t> inferred;
  for (std::size_t i = 0; i < target->size(); ++i) {
    const Dim& wanted = (*target)[i];
    if (wanted.is(0) && !c.flag("allowzero")) {
      if (from && i >= from->size()) {
        return c.fail("shape[" + std::to_string(i) + "] is 0 but operand 0 has rank " +
                      std::to_string(from->size()));
      }
      shape.push_back(from ? (*from)[i] : c.unknown_dim(0, i));
    } else if (wanted.is(-1)) {
      if (inferred) return c.fail("shape has more than one -1");
      inferred = i;
      shape.push_back(1);
    } else if (wanted.is_constant() && wanted.constant() < 0) {
      return c.fail("shape[" + std::to_string(i) + "] is " + wanted.to_string());
    } else {
      shape.push_back(wanted);
    }
  }
  if (inferred) {
    Dim others = product(shape);
    if (others.is(0)) return c.fail("shape has a -1 beside a 0: the size is not determined");
    shape[*inferred] = from ? floor_div(product(*from), others) : c.unknown_dim(0, *inferred);
  }
  if (from) XYNTRA_CHECK_OK(check_same_count(c, *from, shape));
  c.set_shape(0, std::move(shape));
  keep_elements(c);
  return {};
}

Status flatten(InferenceContext& c) {
  std::size_t axis = c.rank(0);
  if (c.integer("axis") != static_cast<std::int64_t>(axis)) {
    XYNTRA_TRY(axis, c.normalized_axis(c.integer("axis"), c.rank(0)));
  }
  auto middle = c.shape(0).begin() + static_cast<std::ptrdiff_t>(axis);
  c.set_shape(0, {product(Shape(c.shape(0).begin(), middle)), product(Shape(middle, c.shape(0).end()))});
  keep_elements(c);
  return {};
}

Status squeeze(InferenceContext& c) {
  std::vector<std::size_t> axes;
  if (c.has_input(1)) {
    auto given = c.integers_of(1);
    if (!given) {
      if (auto count = list_length(c, 1); count && *count <= c.rank(0)) {
        c.set_shape(0, c.unknown_shape(0, c.rank(0) - *count));
      }
      return {};
    }
    XYNTRA_TRY(axes, c.normalized_axes(*given, c.rank(0)));
  } else {
    if (!is_static(c.shape(0))) return {};  // which sizes are 1 only running tells
    for (std::size_t i = 0; i < c.rank(0); ++i) {
      if (c.dim(0, i).is(1)) axes.push_back(i);
    }
  }
  Shape shape;
  for (std::size_t i = 0; i < c.rank(0); ++i) {
    bool dropped = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!dropped) shape.push_back(c.dim(0, i));
    if (dropped && c.dim(0, i).is_constant() && !c.dim(0, i).is(1)) {
      return c.fail("axis " + std::to_string(i) + " has size " + c.dim(0, i).to_string() + ", not 1");
    }
  }
  c.set_shape(0, std::move(shape));
  keep_elements(c);
  return {};
}

Status unsqueeze(InferenceContext& c) {
  auto given = c.integers_of(1);
  if (!given) {
    if (auto count = list_length(c, 1)) c.set_shape(0, c.unknown_shape(0, c.rank(0) + *count));
    return {};
  }
  std::size_t rank = c.rank(0) + given->size();
  XYNTRA_TRY(auto axes, c.normalized_axes(*given, rank));
  Shape shape;
  std::size_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    bool added = std::find(axes.begin(), axes.end(), i) != axes.end();
    shape.push_back(added ? Dim(1) : c.dim(0, next++));
  }
  c.set_shape(0, std::move(shape));
  keep_elements(c);
  return {};
}

}  // namespace rule

namespace formula {

using te::Axes;
using te::Buffer;
using te::Expr;
using te::Index;

namespace {

// One axis that lies inside one dimension on either side. Shapes [6, 4] and [2, 12] refine to 2, 3, 4.
struct Atom {
  Dim extent;
  std::size_t from, to;  // the dimension it is part of
};

// Axes of which both shapes' dimensions are products, innermost first; nullopt when there are none, as for
// [4, 3] and [3, 4], whose boundaries interleave.
std::optional<std::vector<Atom>> common_refinement(const Shape& from, const Shape& to) {
  std::vector<Atom> atoms;
  std::size_t i = from.size(), j = to.size();
  Dim left_from = 1, left_to = 1;
  while (true) {
    while (left_from.is(1) && i > 0) left_from = from[--i];
    while (left_to.is(1) && j > 0) left_to = to[--j];
    if (left_from.is(1) && left_to.is(1)) return atoms;
    if (left_from.is(0) || left_to.is(0) || left_from.is(1) || left_to.is(1)) return std::nullopt;
    if (left_from == left_to) {
      atoms.push_back({left_from, i, j});
      left_from = left_to = 1;
    } else if (Dim rest = floor_div(left_from, left_to); rest * left_to == left_from) {
      atoms.push_back({left_to, i, j});
      left_from = rest, left_to = 1;
    } else if (Dim other = floor_div(left_to, left_from); other * left_from == left_to) {
      atoms.push_back({left_from, i, j});
      left_to = other, left_from = 1;
    } else {
      return std::nullopt;
    }
  }
}

}  // namespace

// The same elements in row-major order: over the common refinement where there is one, else through the
// linear position.
Status view(FormulaContext& c) {
  Buffer x = c.in(0), y = c.out();
  if (auto atoms = common_refinement(x.shape(), y.shape())) {
    std::reverse(atoms->begin(), atoms->end());
    Axes axes;
    Index from(x.rank(), Expr::index(0)), to(y.rank(), Expr::index(0));
    for (const Atom& atom : *atoms) {
      axes.push_back(c.axis(atom.extent));
      Expr extent = Expr::size(atom.extent);
      from[atom.from] = from[atom.from] * extent + axes.back();
      to[atom.to] = to[atom.to] * extent + axes.back();
    }
    c.write_at(y, axes, to, x(from));
    return {};
  }
  Axes i = c.axes(y.shape());
  Expr rest = row_major(to_index(i), y.shape());
  Index from(x.rank(), Expr::index(0));
  for (std::size_t d = x.rank(); d-- > 0;) {
    Expr extent = Expr::size(x.dim(d));
    from[d] = d == 0 ? rest : mod(rest, extent);
    rest = floor_div(rest, extent);
  }
  c.write(y, i, x(from));
  return {};
}

Status shape(FormulaContext& c) {
  auto [start, end] = shape_range(c, c.rank(0));
  std::vector<Expr> sizes;
  for (std::size_t i = start; i < end; ++i) sizes.push_back(Expr::size(c.dim(0, i)));
  if (sizes.empty()) sizes.push_back(Expr::index(0));
  Axes i = c.axes(c.out_shape());
  c.write(c.out(), i, chosen(i[0], sizes));
  return {};
}

Status size(FormulaContext& c) {
  c.write(c.out(), {}, Expr::size(product(c.shape(0))));
  return {};
}

}  // namespace formula
}  // namespace xyntra
