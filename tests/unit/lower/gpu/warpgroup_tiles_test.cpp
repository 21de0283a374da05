// Matrix products on the matrix units of warpgroups: both layouts of the second operand, tails on all sides, batches, epilogues, parts.
#include "unit/lower/gpu/product_testing.h"

namespace xyntra {
namespace {

std::string form(int rows, int columns, int groups_down, int groups_across, int stages, int splits = 1,
                 int group_rows = 1) {
  auto knob = [](const char* name, int value) { return name + ("=" + std::to_string(value)); };
  return "warpgroup_tiles(" + knob("group_rows", group_rows) + "," + knob("groups_across", groups_across) +
         "," + knob("groups_down", groups_down) + "," + knob("splits", splits) + "," +
         knob("stages", stages) + "," + knob("tile_columns", columns) + "," + knob("tile_rows", rows) + ")";
}

void expect_tiles(const Product& product, const std::string& one) {
  SCOPED_TRACE(one);
  expect_right(product, kernel_of(product, "h100", {one}), "warpgroup_tiles(");
}

TEST(WarpgroupTiles, BothLayoutsOfTheSecondOperand) {
  for (const bool turn_right : {false, true}) {
    for (const DType dtype : {DType::BF16, DType::F16}) {
      const Product product{128, 192, 256, false, turn_right, 1, dtype};
      expect_tiles(product, form(64, 64, 1, 1, 4));
      expect_tiles(product, form(128, 128, 2, 1, 3));
      expect_tiles(product, form(128, 256, 2, 1, 4));
      expect_tiles(product, form(256, 128, 2, 1, 4));
      expect_tiles(product, form(128, 256, 1, 2, 4));
    }
  }
}

TEST(WarpgroupTiles, TailsOnAllSides) {
  for (const bool turn_right : {false, true}) {
    for (const auto& [rows, columns, depth] : {std::tuple{33, 40, 8}, {200, 136, 24}, {65, 72, 200}}) {
      const Product product{rows, columns, depth, false, turn_right, 2, DType::BF16, true};
      expect_tiles(product, form(64, 64, 1, 1, 3));
      expect_tiles(product, form(128, 128, 2, 1, 4));
    }
  }
}

TEST(WarpgroupTiles, PartsOfTheReductionAndGroupsOfRows) {
  const Product deep{72, 168, 512, false, true, 2, DType::BF16, true}, high{512, 64, 64};
  expect_tiles(deep, form(64, 64, 1, 1, 5, 4));
  expect_tiles(deep, form(64, 128, 1, 1, 4, 8));
  expect_tiles(high, form(64, 64, 1, 1, 4, 1, 4));
}

// Where there are enough tiles, and not where an operand lies the wrong way round or the target has no such units.
TEST(WarpgroupTiles, ForLargeProducts) {
  const Product large{4096, 4096, 4096}, turned{4096, 4096, 4096, true};
  EXPECT_TRUE(kernel_of(large, "h100").forms[0].starts_with("warpgroup_tiles("));
  EXPECT_TRUE(kernel_of(turned, "h100").forms[0].starts_with("warp_tiles("));
  EXPECT_TRUE(kernel_of(large, "ampere").forms[0].starts_with("warp_tiles("));
}

}  // namespace
}  // namespace xyntra
