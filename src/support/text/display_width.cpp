#include <algorithm>
#include <array>

#include "support/text/text.h"
#include "support/text/utf8.h"

namespace xyntra {
namespace {

struct WidthRange {
  char32_t first, last;
  int columns;
};

// The blocks that matter, from Unicode's East Asian Width and general categories; ordered.
constexpr auto kWidths = std::to_array<WidthRange>({
    {0x00300, 0x0036f, 0}, {0x00483, 0x00489, 0}, {0x00591, 0x005bd, 0}, {0x00610, 0x0061a, 0},
    {0x0064b, 0x0065f, 0}, {0x01100, 0x0115f, 2}, {0x01ab0, 0x01aff, 0}, {0x01dc0, 0x01dff, 0},
    {0x0200b, 0x0200f, 0}, {0x020d0, 0x020ff, 0}, {0x0231a, 0x0231b, 2}, {0x02e80, 0x0303e, 2},
    {0x03041, 0x033ff, 2}, {0x03400, 0x04dbf, 2}, {0x04e00, 0x09fff, 2}, {0x0a000, 0x0a4cf, 2},
    {0x0ac00, 0x0d7a3, 2}, {0x0f900, 0x0faff, 2}, {0x0fe00, 0x0fe0f, 0}, {0x0fe20, 0x0fe2f, 0},
    {0x0fe30, 0x0fe6f, 2}, {0x0ff00, 0x0ff60, 2}, {0x0ffe0, 0x0ffe6, 2}, {0x1f300, 0x1f64f, 2},
    {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}, {0xe0100, 0xe01ef, 0},
});

std::size_t columns_of(char32_t code_point) {
  const auto after = std::ranges::upper_bound(kWidths, code_point, {}, &WidthRange::first);
  if (after == kWidths.begin()) return 1;
  const WidthRange& range = *std::prev(after);
  return code_point <= range.last ? static_cast<std::size_t>(range.columns) : 1;
}

}  // namespace

std::size_t display_width(std::string_view utf8) {
  std::size_t width = 0;
  while (!utf8.empty()) {
    const auto character = first_character(utf8);
    width += character ? columns_of(character->code_point) : 1;
    utf8.remove_prefix(character ? character->size : 1);
  }
  return width;
}

}  // namespace xyntra
