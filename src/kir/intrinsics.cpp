#include "kir/intrinsics.h"

#include <algorithm>
#include <array>

#include "te/index/index.h"

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

constexpr std::array<PlaceRule, 0> kNone{};
constexpr std::array kBarrier{barrier()};
constexpr std::array kShuffle{PlaceRule{.access = Write, .registers = true},
                              PlaceRule{.access = Read, .registers = true}};
constexpr PlaceRule holds(PlaceAccess access, DType dtype) {
  return {.access = access, .registers = true, .dtype = dtype};
}
constexpr std::array kAtomic{PlaceRule{.access = Accumulate, .shared = true, .memory = true},
                             PlaceRule{.access = Read, .registers = true}};
constexpr std::array kVote{holds(Write, DType::Bool), holds(Read, DType::Bool)};
constexpr std::array kBallot{holds(Write, DType::U32), holds(Read, DType::Bool)};
constexpr PlaceRule of_extents(PlaceRule rule, std::size_t extents) {
  rule.extents = extents;
  rule.columns = rule.rows + static_cast<int>(extents) - 1;
  return rule;
}
template <std::size_t Extents>
constexpr std::array kCopyBox{of_extents(shared_box(Write, 2, 3), Extents),
                              of_extents(memory_box(Read, 2, 3), Extents), barrier()};
template <std::size_t Extents>
constexpr std::array kStoreBox{of_extents(memory_box(Write, 2, 3), Extents),
                               of_extents(shared_box(Read, 2, 3), Extents)};
// Elements of another work item of the cluster.
constexpr PlaceRule of_cluster(PlaceAccess access) {
  return {.access = access, .box = Run, .columns = 3, .rank = 2, .length = 16, .shared = true};
}
constexpr PlaceRule of_thread(PlaceAccess access) {
  return {.access = access, .box = Run, .columns = 3, .length = 16, .registers = true};
}
constexpr std::array kClusterLoad{of_thread(Write), of_cluster(Read)};
constexpr std::array kClusterStore{of_cluster(Write), of_thread(Read)};
constexpr std::array kClusterArrive{
    PlaceRule{.access = Barrier, .rank = 1, .shared = true, .dtype = DType::U64}};
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
constexpr PlaceRule own_row(PlaceAccess access, DType dtype, std::optional<DType> or_dtype = std::nullopt) {
  return {.access = access, .box = Row, .registers = true, .dtype = dtype, .or_dtype = or_dtype};
}
constexpr PlaceRule of_halves(PlaceRule rule) {
  rule.dtype = DType::BF16;
  rule.or_dtype = DType::F16;
  return rule;
}
constexpr std::array kWarpgroupMultiply{own_row(Accumulate, DType::F32, DType::I32), shared_box(Read, 3, 5),
                                        shared_box(Read, 4, 5)};
constexpr std::array kWarpgroupMultiplyTurned{
    own_row(Accumulate, DType::F32), of_halves(shared_box(Read, 3, 5)), of_halves(shared_box(Read, 5, 4))};
constexpr std::array kWarpgroupMultiplyRs{kWarpgroupMultiply[0], own_row(Read, DType::U32),
                                          kWarpgroupMultiply[2]};
constexpr std::array kWarpgroupMultiplyRsTurned{kWarpgroupMultiplyTurned[0], own_row(Read, DType::U32),
                                                kWarpgroupMultiplyTurned[2]};
constexpr PlaceRule chunk(PlaceAccess access, bool shared) {
  return {.access = access, .box = Run, .bytes = kChunkBytes, .shared = shared, .memory = !shared};
}
constexpr PlaceRule words(PlaceAccess access, std::int64_t length) {
  return {.access = access, .box = Run, .length = length, .registers = true, .dtype = DType::U32};
}
constexpr std::array kAsyncCopy{chunk(Write, true), chunk(Read, false)};
constexpr std::array kLoadFragment{words(Write, 4), chunk(Read, true)};
constexpr std::array kLoadFragmentTransposed{words(Write, 4), of_halves(chunk(Read, true))};
constexpr std::array kRoundWords{
    words(Write, 4),
    PlaceRule{.access = Read, .box = Run, .length = 8, .registers = true, .dtype = DType::F32}};
constexpr std::array kRoundTf32{words(Write, 4), words(Read, 4)};
constexpr std::array kWarpMultiply{sums(DType::F32, 4), words(Read, 4), words(Read, 2)};
constexpr std::array kWarpMultiplyBytes{sums(DType::I32, 4), words(Read, 4), words(Read, 2)};

enum class IntrinsicKind : std::uint8_t { Plain, Hint, Asynchronous };

struct Columns {
  std::span<const PlaceRule> places;
  By by;
  IntrinsicKind kind;
  std::optional<DType> element;
};

const Columns& columns_of(Intrinsic intrinsic) {
  using enum DType;
  constexpr std::nullopt_t none = std::nullopt;
  static constexpr auto kColumns = std::to_array<Columns>({
#define INTRINSIC(enumerator, spelling, signature, places, by, kind, element) \
  {places, By::by, IntrinsicKind::kind, element},
#include "kir/intrinsics.def"
#undef INTRINSIC
  });
  return kColumns[static_cast<std::size_t>(intrinsic)];
}

}  // namespace

std::span<const PlaceRule> places_of(Intrinsic intrinsic) { return columns_of(intrinsic).places; }
By by_whom(Intrinsic intrinsic) { return columns_of(intrinsic).by; }
bool is_hint(Intrinsic intrinsic) { return columns_of(intrinsic).kind == IntrinsicKind::Hint; }
bool is_asynchronous(Intrinsic intrinsic) {
  return columns_of(intrinsic).kind == IntrinsicKind::Asynchronous;
}
std::optional<DType> element_of(Intrinsic intrinsic) { return columns_of(intrinsic).element; }
std::optional<DType> second_element_of(Intrinsic intrinsic) {
  if (intrinsic == Intrinsic::WarpMultiplyU8I8) return DType::I8;
  return intrinsic == Intrinsic::WarpMultiplyI8U8 ? DType::U8 : element_of(intrinsic);
}

te::ExprOp operation_of_atomic(Intrinsic intrinsic) {
  switch (intrinsic) {
    case Intrinsic::AtomicAdd: return te::ExprOp::Add;
    case Intrinsic::AtomicMin: return te::ExprOp::Min;
    case Intrinsic::AtomicMax: return te::ExprOp::Max;
    case Intrinsic::AtomicAnd: return te::ExprOp::And;
    case Intrinsic::AtomicOr: return te::ExprOp::Or;
    default: internal_error("kir: no atomic update");
  }
}

bool has_barrier_object(Intrinsic intrinsic) {
  return std::ranges::any_of(places_of(intrinsic),
                             [](const PlaceRule& rule) { return rule.access == Barrier; });
}

bool copies_box(Intrinsic intrinsic) {
  const auto places = places_of(intrinsic);
  return places.size() > 1 && places[1].overhangs;
}
bool stores_box(Intrinsic intrinsic) {
  const auto places = places_of(intrinsic);
  return !places.empty() && places[0].overhangs;
}
bool is_multicast(Intrinsic intrinsic) {
  return copies_box(intrinsic) && std::string_view(signature_of(intrinsic)).ends_with('c');
}
bool reaches_cluster(Intrinsic intrinsic) {
  return is_multicast(intrinsic) ||
         std::ranges::any_of(places_of(intrinsic), [](const PlaceRule& rule) { return rule.rank != 0; });
}

bool is_warpgroup_multiply(Intrinsic intrinsic) {
  return is_by_warpgroup(intrinsic) && !places_of(intrinsic).empty();
}

bool is_turned(Intrinsic intrinsic) {
  constexpr std::size_t kRight = 2;
  const auto places = places_of(intrinsic);
  return is_warpgroup_multiply(intrinsic) && places[kRight].rows > places[kRight].columns;
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

std::optional<std::int64_t> run_length(const StmtNode& call, const PlaceRule& rule, DType dtype) {
  if (rule.bytes != 0) return rule.bytes * 8 / bits_of(dtype);
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
