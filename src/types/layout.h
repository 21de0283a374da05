// Layout: where the elements of a buffer lie. Formulas speak of logical indices; a layout maps them to physical ones.
//
//   row-major            []                        x[n, c, h, w]
//   blocked channels     [0, 1/16, 2, 3, 1%16]     x[n, c floordiv 16, h, w, c mod 16]
//   packed columns       [1/32, 0, 1%32]           b[j floordiv 32, k, j mod 32]
//   room for more rows   [0, 1+(room), 2]          cache[b, t, d] in memory for `room` more rows of each b
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "types/dim.h"

namespace xyntra {

// One physical dimension: part of a logical one.
struct LayoutPart {
  std::size_t axis = 0;
  std::int64_t divisor = 1;  // index floordiv divisor
  std::int64_t modulus = 0;  // then mod modulus; 0: all of it
  Dim room = {};  // places behind the end of a whole axis; what they hold does not matter
  bool operator==(const LayoutPart&) const = default;
};

using Layout = std::vector<LayoutPart>;  // outermost first; empty: row-major

std::string to_string(const Layout& layout);  // "[0, 1/16, 2, 3, 1%16]"
Result<Layout> parse_layout(std::string_view text);

// BadModel error unless every element of the shape has a place of its own and, but where `padded` allows it, no place is
// left over. Places left over, at the end of an axis whose blocks do not come out even, hold zeros.
Status check_layout(const Layout& layout, const Shape& shape, bool padded = false);
Shape physical_shape(const Layout& layout, const Shape& shape);

// Row-major, but for axes with room.
Layout with_room(std::size_t rank, std::size_t axis, Dim room);
bool leaves_room(const Layout& layout);

}  // namespace xyntra
