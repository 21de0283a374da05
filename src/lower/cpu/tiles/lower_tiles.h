// Products of bf16 factors, or of bytes, on a unit that multiplies whole tiles (AMX).
//
//   y[m, n] = finish(sum(k) f32(a[m, k]) * f32(b[k, n]))         a, b: bf16; sums in f32; or bytes and i32
//
// A tile register holds 16 rows of 64 bytes: 16 × 32 factors (16 × 64 bytes) or 16 × 16 sums. One step multiplies 32 rows of a by
// 32 columns of b along 32 (64) of k: two tiles of a, two of b, four of sums, which is all there are. b lies in panels of 16 columns whose
// rows are pairs along k, as the unit wants them (paired_layout); what lies otherwise is packed by a stage before. One work
// item takes a panel of 32 columns through a group of blocks of 32 rows. Sums stay in the tiles for all of k, window
// included; they leave once, and become results while the next block is multiplied, some rows between two steps: the tile unit
// and the vector units work at the same time, and registers for tiles are too few for the processor to find that by
// itself. Tiles that are read again only after the L1 cache has been filled anew take no place in it. Rows that fill no
// tile are multiplied together with some that were done before, and only the new ones are finished.
#pragma once

#include "lower/lowering.h"
#include "plan/plan.h"
#include "schedule/contraction/tile_form.h"

namespace xyntra {

// Tile registers, which several stages of a kernel share: there are eight.
struct TileRegisters {
  kir::BufferId sum = {}, left = {}, right = {};
};

// Where factors are parts of f32 (schedule/contraction/float_parts.h): the loops over those of a and of b. A step takes the six largest of
// their products.
struct PartLoops {
  te::VarId left = {}, right = {};
  TileRegisters* registers = nullptr;  // made by the first stage
};

// Phases of a stage that was made ready.
std::vector<kir::Stmt> lower_tiles(Lowering& lowering, const te::Stage& stage, const PartLoops& parts = {});

}  // namespace xyntra
