#include "kir/intrinsics.h"

#include <algorithm>
#include <array>

#include "te/index.h"

namespace xyntra::kir {
namespace {

using enum PlaceAccess;
using enum PlaceBox;

constexpr std::int64_t kMostStep = 1 << 16;

constexpr PlaceRule barrier() { return {.access = Barrier, .shared = true, .dtype = DType::U64}; }
constexpr PlaceRule tile(PlaceAccess access) { return {.access = access, .box = Tile, .registers = true}; }
constexpr PlaceRule tile(PlaceAccess access, DType dtype) {
  return {.access = access, .box = Tile, .registers = true, .dtype = dtype};
}
constexpr PlaceRule tile_of_bytes() {
  return {.access = Read, .box = Tile, .registers = true, .dtype = DType::I8, .or_dtype = DType::U8};
}
constexpr PlaceRule box(PlaceAccess access, int rows, int columns) {
  return {.access = access, .box = Given, .rows = rows, .columns = columns, .shared = true, .memory = true};
}
constexpr PlaceRule shared_box(PlaceAccess access, int rows, int columns) {
  return {.access = access, .box = Given, .rows = rows, .columns = columns, .shared = true};
}
constexpr PlaceRule memory_box(PlaceAccess access, int rows, int columns) {
  return {
      .access = access, .box = Given, .rows = rows, .columns = columns, .overhangs = true, .memory = true};
}
constexpr PlaceRule run(DType dtype, std::int64_t length, int columns = 0,
                        std::optional<DType> or_dtype = std::nullopt) {
  return {.access = Read,
          .box = Run,
          .columns = columns,
          .length = length,
          .shared = true,
          .memory = true,
          .dtype = dtype,
          .or_dtype = or_dtype};
}
constexpr PlaceRule sums(DType dtype, std::int64_t length) {
  return {.access = Accumulate, .box = Run, .length = length, .registers = true, .dtype = dtype};
}

constexpr std::array kBarrier{barrier()};
constexpr std::array kShuffle{PlaceRule{.access = Write, .registers = true},
                              PlaceRule{.access = Read, .registers = true}};
constexpr std::array kCopyBox{shared_box(Write, 2, 3), memory_box(Read, 2, 3), barrier()};
constexpr std::array kStoreBox{memory_box(Write, 2, 3), shared_box(Read, 2, 3)};
constexpr std::array kPrefetch{PlaceRule{.access = Hint, .shared = true, .memory = true}};
constexpr std::array kTileZero{tile(Write)};
constexpr std::array kTileLoad{tile(Write), box(Read, 2, 3)};
constexpr std::array kTileLoadRows{tile(Write), PlaceRule{.access = Read,
                                                          .box = Rows,
                                                          .rows = 2,
                                                          .columns = 3,
                                                          .dimension = 4,
                                                          .step = 5,
                                                          .shared = true,
                                                          .memory = true}};
constexpr std::array kTileStore{box(Write, 2, 3), tile(Read)};
constexpr std::array kTileMultiply{tile(Accumulate, DType::F32), tile(Read, DType::BF16),
                                   tile(Read, DType::BF16)};
constexpr std::array kTileMultiplyBytes{tile(Accumulate, DType::I32), tile_of_bytes(), tile_of_bytes()};
constexpr PlaceRule split_floats() {
  return {.access = Write, .box = Run, .length = 32, .shared = true, .memory = true, .dtype = DType::BF16};
}
constexpr PlaceRule whole_floats() {
  return {.access = Read, .box = Run, .length = 16, .registers = true, .dtype = DType::F32};
}
constexpr std::array kSplitBf16x3{split_floats(), split_floats(), split_floats(), whole_floats(),
                                  whole_floats()};
constexpr std::array kDot2Bf16{sums(DType::F32, 16), run(DType::BF16, 2, 3), run(DType::BF16, 32)};
constexpr std::array kMmlaBf16{sums(DType::F32, 4), run(DType::BF16, 4, 4), run(DType::BF16, 4, 4),
                               run(DType::BF16, 8)};
constexpr std::array kDot4I8{sums(DType::I32, 16), run(DType::U8, 4, 3), run(DType::I8, 64)};
constexpr std::array kMmlaI8{sums(DType::I32, 4), run(DType::I8, 8, 4, DType::U8),
                             run(DType::I8, 8, 4, DType::U8), run(DType::I8, 16, 0, DType::U8)};
constexpr std::array kWarpgroupMultiply{
    PlaceRule{.access = Accumulate, .box = Row, .registers = true, .dtype = DType::F32},
    shared_box(Read, 3, 5), shared_box(Read, 4, 5)};
constexpr std::array kWarpgroupMultiplyTurned{kWarpgroupMultiply[0], kWarpgroupMultiply[1],
                                              shared_box(Read, 5, 4)};
constexpr PlaceRule chunk(PlaceAccess access, bool shared) {
  return {.access = access,
          .box = Run,
          .length = kChunkElements,
          .aligned = true,
          .shared = shared,
          .memory = !shared,
          .dtype = DType::BF16,
          .or_dtype = DType::F16};
}
constexpr PlaceRule words(PlaceAccess access, std::int64_t length) {
  return {.access = access, .box = Run, .length = length, .registers = true, .dtype = DType::U32};
}
constexpr std::array kAsyncCopy{chunk(Write, true), chunk(Read, false)};
constexpr std::array kLoadFragment{words(Write, 4), chunk(Read, true)};
constexpr std::array kRoundWords{
    words(Write, 4),
    PlaceRule{.access = Read, .box = Run, .length = 8, .registers = true, .dtype = DType::F32}};
constexpr std::array kWarpMultiply{sums(DType::F32, 4), words(Read, 4), words(Read, 2)};

}  // namespace

std::span<const PlaceRule> places_of(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::MbarrierInit:
    case Intrinsic::MbarrierArrive:
    case Intrinsic::MbarrierExpect:
    case Intrinsic::MbarrierWait: return kBarrier;
    case Intrinsic::ShuffleXor: return kShuffle;
    case Intrinsic::AsyncCopyBox: return kCopyBox;
    case Intrinsic::AsyncStoreBox: return kStoreBox;
    case Intrinsic::Prefetch:
    case Intrinsic::PrefetchL2: return kPrefetch;
    case Intrinsic::TileZero: return kTileZero;
    case Intrinsic::TileLoad: return kTileLoad;
    case Intrinsic::TileLoadRows:
    case Intrinsic::TileLoadRowsL2: return kTileLoadRows;
    case Intrinsic::TileStore: return kTileStore;
    case Intrinsic::TileMultiplyBf16: return kTileMultiply;
    case Intrinsic::TileMultiplyI8: return kTileMultiplyBytes;
    case Intrinsic::SplitBf16x3: return kSplitBf16x3;
    case Intrinsic::Dot2Bf16: return kDot2Bf16;
    case Intrinsic::MmlaBf16: return kMmlaBf16;
    case Intrinsic::Dot4I8: return kDot4I8;
    case Intrinsic::MmlaI8: return kMmlaI8;
    case Intrinsic::WarpgroupMultiply: return kWarpgroupMultiply;
    case Intrinsic::WarpgroupMultiplyTurned: return kWarpgroupMultiplyTurned;
    case Intrinsic::AsyncCopy: return kAsyncCopy;
    case Intrinsic::LoadFragment:
    case Intrinsic::LoadFragmentTransposed: return kLoadFragment;
    case Intrinsic::WarpMultiplyBf16:
    case Intrinsic::WarpMultiplyF16: return kWarpMultiply;
    case Intrinsic::RoundWordsBf16:
    case Intrinsic::RoundWordsF16: return kRoundWords;
    case Intrinsic::Barrier:
    case Intrinsic::AsyncFence:
    case Intrinsic::AsyncStoreWait:
    case Intrinsic::AsyncCommit:
    case Intrinsic::AsyncWait:
    case Intrinsic::WarpgroupFence:
    case Intrinsic::WarpgroupCommit:
    case Intrinsic::WarpgroupWait: return {};
  }
  return {};
}

bool is_hint(Intrinsic intrinsic) {
  return intrinsic == Intrinsic::Prefetch || intrinsic == Intrinsic::PrefetchL2;
}

bool is_asynchronous(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::Barrier:
    case Intrinsic::ShuffleXor:
    case Intrinsic::Prefetch:
    case Intrinsic::PrefetchL2:
    case Intrinsic::TileZero:
    case Intrinsic::TileLoad:
    case Intrinsic::TileLoadRows:
    case Intrinsic::TileLoadRowsL2:
    case Intrinsic::TileStore:
    case Intrinsic::TileMultiplyBf16:
    case Intrinsic::TileMultiplyI8:
    case Intrinsic::SplitBf16x3:
    case Intrinsic::Dot2Bf16:
    case Intrinsic::MmlaBf16:
    case Intrinsic::Dot4I8:
    case Intrinsic::MmlaI8:
    case Intrinsic::LoadFragment:
    case Intrinsic::LoadFragmentTransposed:
    case Intrinsic::WarpMultiplyBf16:
    case Intrinsic::WarpMultiplyF16:
    case Intrinsic::RoundWordsBf16:
    case Intrinsic::RoundWordsF16: return false;
    default: return true;
  }
}

bool is_by_warp(Intrinsic intrinsic) {
  return intrinsic == Intrinsic::LoadFragment || intrinsic == Intrinsic::LoadFragmentTransposed ||
         intrinsic == Intrinsic::WarpMultiplyBf16 || intrinsic == Intrinsic::WarpMultiplyF16;
}

bool is_by_warpgroup(Intrinsic intrinsic) {
  return intrinsic == Intrinsic::WarpgroupFence || intrinsic == Intrinsic::WarpgroupMultiply ||
         intrinsic == Intrinsic::WarpgroupMultiplyTurned || intrinsic == Intrinsic::WarpgroupCommit ||
         intrinsic == Intrinsic::WarpgroupWait;
}

bool is_aligned(const Kernel& kernel, const Operand& place, std::int64_t elements) {
  const Shape& shape = kernel.buffer(place.buffer).shape;
  te::Expr element = te::Expr::index(0);
  for (std::size_t d = 0; d < shape.size(); ++d)
    element = element * te::Expr::size(shape[d]) + place.index[d];
  const te::LinearIndex linear = te::IndexAlgebra(kernel.variables).linear(element);
  return te::divides(Dim(elements), linear.constant) &&
         std::ranges::all_of(linear.terms, [&](const te::LinearIndex::Term& term) {
           return te::divides(Dim(elements), term.coefficient);
         });
}

Expr condition_of_copy(const StmtNode& copy) {
  const Expr& count = copy.operands[2].value;
  return count->op == te::ExprOp::Select ? count->operands[0] : Expr();
}

std::optional<RowDimension> row_dimension(const StmtNode& call, const PlaceRule& rule, std::size_t rank) {
  const te::Expr& dimension = call.operands[static_cast<std::size_t>(rule.dimension)].value;
  const te::Expr& step = call.operands[static_cast<std::size_t>(rule.step)].value;
  if (dimension->op != te::ExprOp::Const || step->op != te::ExprOp::Const) return std::nullopt;
  if (dimension->int_value < 0 || dimension->int_value >= static_cast<std::int64_t>(rank))
    return std::nullopt;
  if (step->int_value < 1 || step->int_value > kMostStep) return std::nullopt;
  return RowDimension{static_cast<std::size_t>(dimension->int_value), step->int_value};
}

std::optional<std::int64_t> run_length(const StmtNode& call, const PlaceRule& rule) {
  if (rule.columns == 0) return rule.length;
  const te::Expr& count = call.operands[static_cast<std::size_t>(rule.columns)].value;
  if (count->op != te::ExprOp::Const || count->int_value < 1 || count->int_value > rule.length)
    return std::nullopt;
  return count->int_value;
}

std::size_t run_dimension(const Shape& shape, std::int64_t length) {
  std::size_t first = shape.size();
  std::int64_t room = 1;
  while (first > 0 && room < length) {
    const Dim& next = shape[--first];
    if (!next.is_constant()) break;
    room *= next.constant();
  }
  return first;
}

bool is_opaque_place(const PlaceRule& rule) {
  return rule.access == Barrier || (rule.registers && rule.box == Tile);
}

}  // namespace xyntra::kir
