#include "rewrite/normalize/assigned_slices.h"

#include <array>

namespace xyntra {
namespace {

// Where the box begins along an axis of x, and how long it is.
struct Interval {
  std::int64_t begin = 0, length = 0, size = 0;  // size: of x

  bool is_all() const { return begin == 0 && length == size; }
  std::int64_t end() const { return begin + length; }
};

// Index [i0, i1, …] names the place [begin0 + i0, begin1 + i1, …].
std::optional<std::vector<Interval>> box_of(std::span<const std::int64_t> indices, const Dims& counted,
                                            const Shape& shape) {
  const std::size_t coordinates = counted.size() - 1;
  if (counted.back() != static_cast<std::int64_t>(coordinates) || indices.empty() ||
      coordinates > shape.size())
    return std::nullopt;
  std::vector<Interval> box(coordinates);
  for (std::size_t c = 0; c < coordinates; ++c) {
    if (!shape[c].is_constant()) return std::nullopt;
    const std::int64_t size = shape[c].constant();
    box[c] = {indices[c] < 0 ? indices[c] + size : indices[c], counted[c], size};
    if (box[c].begin < 0 || box[c].end() > size) return std::nullopt;
  }
  std::vector<std::int64_t> at(coordinates, 0);
  for (std::size_t i = 0; i < indices.size(); i += coordinates) {
    for (std::size_t c = 0; c < coordinates; ++c) {
      const std::int64_t named = indices[i + c] < 0 ? indices[i + c] + box[c].size : indices[i + c];
      if (named != box[c].begin + at[c]) return std::nullopt;
    }
    for (std::size_t c = coordinates; c-- > 0;) {
      if (++at[c] < counted[c]) break;
      at[c] = 0;
    }
  }
  return box;
}

std::optional<TermId> slice(Program& program, TermId x, std::size_t axis, std::int64_t begin,
                            std::int64_t end) {
  const auto list = [&](std::int64_t number) {
    return program.add_constant(Tensor::of_integers(std::array{number}));
  };
  return program.add_op(*find_op("Slice"), {},
                        std::array{x, list(begin), list(end), list(static_cast<std::int64_t>(axis))});
}

std::optional<TermId> assigned(Program& program, TermId x, std::span<const Interval> box, std::size_t axis,
                               TermId updates) {
  while (axis < box.size() && box[axis].is_all()) ++axis;
  if (axis == box.size()) return updates;
  const Interval& here = box[axis];
  std::vector<TermId> pieces;
  auto add = [&](std::optional<TermId> piece) {
    if (piece) pieces.push_back(*piece);
    return piece.has_value();
  };
  if (here.begin > 0 && !add(slice(program, x, axis, 0, here.begin))) return std::nullopt;
  const auto inside = slice(program, x, axis, here.begin, here.end());
  if (!inside || !add(assigned(program, *inside, box, axis + 1, updates))) return std::nullopt;
  if (here.end() < here.size && !add(slice(program, x, axis, here.end(), here.size))) return std::nullopt;
  NodeForm form;
  form.attributes["axis"] = static_cast<std::int64_t>(axis);
  return program.add_op(*find_op("Concat"), std::move(form), pieces);
}

}  // namespace

std::optional<TermId> with_box_assigned(Program& program, TermId x, std::span<const std::int64_t> indices,
                                        const Shape& index_shape, TermId updates) {
  const ClassFacts& facts = program.facts(x);
  const auto counted = static_dims(index_shape);
  if (!facts.shaped() || !counted || counted->size() < 2) return std::nullopt;
  const auto box = box_of(indices, *counted, facts.shape());
  return box ? assigned(program, x, *box, 0, updates) : std::nullopt;
}

}  // namespace xyntra
