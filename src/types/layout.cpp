#include "types/layout.h"

#include <algorithm>
#include <charconv>

namespace xyntra {

std::string to_string(const Layout& layout) {
  std::string text = "[";
  for (const LayoutPart& part : layout) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(part.axis);
    if (part.divisor != 1) text += "/" + std::to_string(part.divisor);
    if (part.modulus != 0) text += "%" + std::to_string(part.modulus);
    if (!part.room.is(0)) text += "+(" + part.room.to_string() + ")";
  }
  return text + "]";
}

Result<Layout> parse_layout(std::string_view text) {
  auto fail = [text] {
    return bad_model("'" + std::string(text.substr(0, 64)) + "' is no layout such as [0, 1/16, 2, 1%16]");
  };
  std::string_view rest = text;
  auto take = [&rest](char c) {
    bool found = !rest.empty() && rest.front() == c;
    if (found) rest.remove_prefix(1);
    return found;
  };
  auto number = [&rest](std::int64_t& value) {
    auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (problem != std::errc() || value < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return true;
  };
  auto room = [&rest, &take](Dim& value) {  // (expression)
    if (!take('(')) return false;
    std::size_t depth = 1, length = 0;
    for (; length < rest.size() && depth > 0; ++length) {
      if (rest[length] == '(') ++depth;
      if (rest[length] == ')') --depth;
    }
    if (depth > 0) return false;
    auto parsed = Dim::parse(rest.substr(0, length - 1));
    rest.remove_prefix(length);
    if (!parsed || parsed->is(0)) return false;
    value = std::move(*parsed);
    return true;
  };
  if (!take('[')) return fail();
  Layout layout;
  while (!take(']')) {
    if (!layout.empty() && !(take(',') && take(' '))) return fail();
    LayoutPart part;
    std::int64_t axis = 0;
    if (!number(axis) || axis > 64 || layout.size() > 64) return fail();
    part.axis = static_cast<std::size_t>(axis);
    if (take('/') && (!number(part.divisor) || part.divisor < 2)) return fail();
    if (take('%') && (!number(part.modulus) || part.modulus < 2)) return fail();
    if (take('+') && !room(part.room)) return fail();
    layout.push_back(std::move(part));
  }
  if (!rest.empty()) return fail();
  return layout;
}

// The parts of an axis, innermost first, must be i % m1, i / m1 % m2, …, i / m.
Status check_layout(const Layout& layout, const Shape& shape, bool padded) {
  if (layout.empty()) return {};
  for (const LayoutPart& part : layout) {
    if (part.axis >= shape.size())
      return bad_model("the layout " + to_string(layout) + " has more axes than its buffer");
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<LayoutPart> parts;
    for (const LayoutPart& part : layout) {
      if (part.axis == axis) parts.push_back(part);
    }
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.divisor < b.divisor; });
    Dim covered = 1;
    bool right = !parts.empty();
    for (std::size_t i = 0; right && i < parts.size(); ++i) {
      bool last = i + 1 == parts.size();
      right = covered == Dim(parts[i].divisor) && (parts[i].modulus == 0) == last &&
              (parts[i].room.is(0) || (parts.size() == 1 && parts[i].room.never_negative()));
      covered = covered * (last ? ceil_div(shape[axis], parts[i].divisor) : Dim(parts[i].modulus));
    }
    bool fits = covered == shape[axis] || (padded && shape[axis].is_constant());
    if (!right || !fits) {
      return bad_model("the layout " + to_string(layout) + " does not hold a buffer of shape " +
                       to_string(shape));
    }
  }
  return {};
}

Shape physical_shape(const Layout& layout, const Shape& shape) {
  if (layout.empty()) return shape;
  Shape physical;
  for (const LayoutPart& part : layout) {
    physical.push_back(part.modulus != 0 ? Dim(part.modulus)
                                         : ceil_div(shape[part.axis], part.divisor) + part.room);
  }
  return physical;
}

Layout with_room(std::size_t rank, std::size_t axis, Dim room) {
  Layout layout;
  for (std::size_t d = 0; d < rank; ++d) layout.push_back({d, 1, 0, Dim(0)});
  layout[axis].room = std::move(room);
  return layout;
}

bool leaves_room(const Layout& layout) {
  return std::ranges::any_of(layout, [](const LayoutPart& part) { return !part.room.is(0); });
}

}  // namespace xyntra
