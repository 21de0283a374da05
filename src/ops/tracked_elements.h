#pragma once

#include <cstdint>

namespace xyntra {

// Contents of operands are followed through shape rules, and looked at by definitions, up to this many elements.
constexpr std::int64_t kMaxTrackedElements = 4096;

}  // namespace xyntra
