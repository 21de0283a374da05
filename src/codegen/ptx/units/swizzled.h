// Shared memory that matrix units of warpgroups read.
#pragma once

#include "kir/kernel.h"

namespace xyntra::ptx {

inline constexpr std::int64_t kSwizzledBytes = 128, kSwizzledRows = 8;  // of a row, of a block
inline constexpr std::int64_t kUnitDepth = 16;

// Elements of a swizzled buffer do not lie where their index says: only copies in chunks and matrix units find them, in buffers of
// whole blocks.
Status check_swizzled(const kir::Kernel& kernel);

// Whether the sizes are ones that the unit has: 64 rows, columns in eights up to 256, a depth in sixteens.
Status check_unit(const kir::StmtNode& call);

}  // namespace xyntra::ptx
