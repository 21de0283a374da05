// What a window by Winograd (schedule/convolution/winograd.h) would cost, and how many tiles its work items had best take.
#pragma once

#include <optional>

#include "schedule/convolution/winograd.h"

namespace xyntra {

struct WinogradPicture {
  std::int64_t count, down, across, channels, filters;  // sizes of the results, and channels read
};

// Schedule, scratch memory and time, the rest is the window's; nothing where sizes do not come out even.
std::optional<Choice> winograd_tiling(const WinogradPicture& picture, const WinogradTransform& transform,
                                      const Target& target);

}  // namespace xyntra
