#include "schedule/convolution/winograd_cost.h"

namespace xyntra {
namespace {

constexpr std::int64_t kPanelVectors = 2;  // across a register tile
constexpr std::int64_t kFewTiles = 64;  // of a picture: all go through the products together
constexpr std::int64_t kEnoughTiles = 14;  // of a work item: a full register tile
// Adding up an element, and keeping it for the products, takes as long as so many multiplications and additions there.
constexpr std::int64_t kElementWork2 = 19, kElementWork4 = 40;

}  // namespace

std::optional<Choice> winograd_tiling(const WinogradPicture& picture, const WinogradTransform& transform,
                                      const Target& target) {
  const std::int64_t lanes = target.vector_bits / 32, columns = kPanelVectors * lanes,
                     output = transform.output, products = transform.input() * transform.input();
  if (picture.channels % lanes != 0 || picture.filters % columns != 0) return std::nullopt;
  const std::int64_t down = (picture.down + output - 1) / output,
                     across = (picture.across + output - 1) / output;
  const bool few = down * across <= kFewTiles;
  const std::int64_t weights = products * picture.channels * picture.filters * 4,
                     room = target.l2_bytes / 8 * 5;
  const bool stay = weights <= target.l2_bytes / 2;  // in the cache, from block to block
  auto scratch_of = [&](std::int64_t tiles) {
    return products * tiles * ((few ? 0 : picture.channels) + columns) * 4;
  };
  // As few tiles as fill a register tile, or as many as there is room for where each block brings the weights anew.
  std::int64_t wide = few ? across : 0, rows = few ? down : 0;
  auto try_block = [&](std::int64_t block_columns, std::int64_t block_rows) {
    const std::int64_t tiles = block_columns * block_rows;
    if (tiles < kEnoughTiles || scratch_of(tiles) > room) return;
    if (wide == 0 || (stay ? tiles < wide * rows : tiles > wide * rows))
      wide = block_columns, rows = block_rows;
  };
  for (std::int64_t some = 1; !few && some <= across; ++some) {
    if (across % some == 0) try_block(some, 1);
  }
  for (std::int64_t some = 1; !few && some <= down; ++some) {
    if (down % some == 0) try_block(across, some);
  }
  if (wide == 0 || scratch_of(wide * rows) > room) return std::nullopt;

  Choice made;
  made.schedule.kind = ScheduleKind::Winograd;
  made.schedule.exactness = Exactness::PrecisionChanging;
  if (!few)
    made.schedule.knobs = {{"block_columns", wide}, {"block_rows", rows}};  // else all tiles are one block
  for (const Knob& knob : {Knob{"output", output}, Knob{"tile_columns", columns},
                           Knob{"tile_rows", (target.vector_registers - kPanelVectors - 1) / kPanelVectors}})
    made.schedule.knobs.push_back(knob);
  made.scratch_bytes = scratch_of(wide * rows);
  const std::int64_t tiles = picture.count * down * across, blocks = few ? 1 : tiles / (wide * rows),
                     work = output == 2 ? kElementWork2 : kElementWork4;
  const std::int64_t flops =
      products * tiles *
      (2 * picture.channels * picture.filters + work * (picture.channels + picture.filters));
  made.predicted_ns = target.estimate_ns(0, flops, DType::F32, 1, ArithmeticUnit::Matrix);
  // There are more weights than a window has: where no cache holds them, products wait.
  if (!stay) made.predicted_ns += target.estimate_ns(weights * blocks, 0, DType::F32, 0);
  return made;
}

}  // namespace xyntra
