// Scans that compute element by element, such as a cumulative sum, on CPUs: what a step leaves for the next stays in registers.
//
//   grid b < B/64 { vector l < 64 { s[l] = 0 }  for t < T { vector l < 64 { s[l] = s[l] + x[t, b*64 + l];  y[t, b*64 + l] = s[l] } } }
//
// Lanes are contiguous sequences; where none are contiguous a work item takes one.
#pragma once

#include <span>

#include "lower/lowering.h"

namespace xyntra {

// The phases of the scan at the front of these stages, with those before and after it that go with it: `taken` of them. None where it is
// of another kind.
std::vector<kir::Stmt> lower_sequence_lanes(Lowering& lowering, std::span<const te::Stage> stages,
                                            std::size_t& taken);

}  // namespace xyntra
