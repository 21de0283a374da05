#include "lower/gpu/contraction/warp_tile.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kir/intrinsics.h"

namespace xyntra {

using kir::LoopKind;
using kir::Scope;
using kir::Stmt;
using te::Expr;
using te::ExprOp;
using te::Substitution;
using te::VarId;

namespace {

constexpr std::int64_t kMostTileThreads = 512;

// Warps have whole fragments of it, pairs of them across; chunks of its operands are shared by all threads or by some alone.
bool is_whole(const WarpTile& tile) {
  auto divides = [](std::int64_t part, std::int64_t whole) { return whole >= part && whole % part == 0; };
  auto is_shared = [&](std::int64_t chunks) {
    return divides(tile.threads(), chunks) || divides(chunks, tile.threads());
  };
  return divides(kFragmentRows * tile.warps_down, tile.rows) &&
         divides(2 * kFragmentColumns * tile.warps_across, tile.columns) &&
         divides(fragment_depth(tile.element_bytes) * tile.warps_deep, tile.depth) &&
         tile.threads() <= kMostTileThreads && tile.early < tile.stages &&
         is_shared(tile.rows * tile.depth * tile.element_bytes / kir::kChunkBytes) &&
         is_shared(tile.columns * tile.depth * tile.element_bytes / kir::kChunkBytes);
}

std::int64_t blocks_of(std::int64_t extent, std::int64_t block) { return (extent + block - 1) / block; }

// Operands lie along the reduction or along their own side, whichever takes more.
std::int64_t shared_bytes_of(const WarpTile& tile) {
  const std::int64_t padding =
      tile.swizzled ? 0 : std::max(kRowPadding, kir::kChunkBytes / tile.element_bytes);
  auto elements = [&](std::int64_t side) { return side * tile.depth + padding * std::max(side, tile.depth); };
  const std::int64_t sums =
      tile.warps_deep == 1 ? 0 : 4 * tile.warps_deep * tile.rows * (tile.columns + kSumPadding);
  return tile.element_bytes * tile.stages * (elements(tile.rows) + elements(tile.columns)) + sums;
}

}  // namespace

namespace {

// Products of so few rows take as long as their launch and their columns' operand do; their tiles were measured apart.
constexpr std::int64_t kFewRows = 64;

double real(std::int64_t count) { return static_cast<double>(count); }

// Blocks of a tile: how many a core has at once, and how often.
struct Blocks {
  std::int64_t together = 1;
  double waves = 1;
};
Blocks blocks_on_cores(const Target& target, const ProductExtents& of, const WarpTile& tile) {
  constexpr std::int64_t kThreadRegisters = 48, kReserved = 1024;
  const std::int64_t cores = std::max<std::int64_t>(1, target.cores), threads = tile.threads();
  const std::int64_t blocks =
      of.batches * tile.splits * blocks_of(of.rows, tile.rows) * blocks_of(of.columns, tile.columns);
  const std::int64_t registers =
      4 * (tile.rows * tile.columns * tile.warps_deep + threads * kThreadRegisters);
  const std::int64_t fit = std::min({target.shared_bytes / (shared_bytes_of(tile) + kReserved),
                                     target.core_threads / threads, target.register_bytes / registers});
  const std::int64_t together =
      std::clamp<std::int64_t>(blocks_of(blocks, cores), 1, std::max<std::int64_t>(1, fit));
  return {together, real(blocks_of(blocks, cores * together))};
}

// Fitted to 800 tiles of 12 products, measured on an H200 in a graph of several launches. As below, but memory is never hidden behind the
// rest; and warps, other than warpgroups, wait for one another in each step, which takes as long as one of them needs to read its
// fragments and multiply them. Of tf32, which is twice as wide, units multiply half as many.
double few_rows_ns(const Target& target, const ProductExtents& of, const WarpTile& tile) {
  constexpr double kLaunch = 1155;  // ns
  constexpr std::int64_t kFewest = 8;
  const auto [together, waves] = blocks_on_cores(target, of, tile);
  const double steps = real(of.depth) / real(tile.depth * tile.splits);
  const double bytes =
      real(tile.element_bytes * together * tile.depth * (std::min(tile.rows, of.rows) + tile.columns));
  const double operands = real(tile.element_bytes * of.batches) * real(of.depth) * real(of.rows + of.columns);
  const double parts = real(tile.splits * of.batches) * real(of.rows) * real(of.columns) * 2 * sizeof(float);
  if (tile.swizzled) {
    constexpr double kBegin = 585, kCopy = 467, kStep = 144, kParts = 560;  // ns
    constexpr double kCoreBytes = 93, kPartBytes = 5170, kMemoryBytes = 13500;  // in a ns
    const double step = std::max({kCopy / real(tile.stages - 2), bytes / kCoreBytes, kStep});
    return kLaunch + waves * (kBegin + steps * step) + operands / kMemoryBytes +
           (tile.splits > 1 ? kParts + parts / kPartBytes : 0);
  }
  constexpr double kBegin = 905, kCopy = 771, kParts = 304, kDeep = 134;  // ns
  constexpr double kCoreBytes = 38, kPartBytes = 3340, kWarps = 2120, kMemoryBytes = 3900;  // in a ns
  constexpr double kBarrier = 132, kRead = 16.1, kMultiply = 2.95;  // ns, of a step, of a fragment
  constexpr double kEarly =
      1000;  // of vectors times weights, which come while the launch before this one ends
  const double down = real(tile.warp_rows() / kFragmentRows),
               across = real(tile.warp_columns() / kFragmentColumns);
  const double fragments = real(tile.depth / fragment_depth(tile.element_bytes)) / real(tile.warps_deep);
  const double step =
      std::max({kCopy / real(tile.stages - 1), bytes / kCoreBytes,
                real(tile.element_bytes * together * tile.depth * tile.rows * tile.columns) / kWarps,
                kBarrier + fragments * (kRead * (down + across / 2) + kMultiply * down * across)});
  return kLaunch + std::max(waves * (kBegin + steps * step), operands / kMemoryBytes) +
         (tile.splits > 1 ? kParts + parts / kPartBytes : 0) + (tile.warps_deep > 1 ? kDeep : 0) -
         (tile.early > 0 && tile.splits == 1 && of.rows <= kFewest ? kEarly : 0);
}

}  // namespace

// Fitted to 695 tiles of 17 products, measured on an H200. A step of the sum takes as long as its
// copies need to come, spread over those on their way, or as all tiles of a core need to be read or multiplied; tiles that do not fit on the
// cores at once wait for others. Nothing is faster than the operands come from memory. Sums in parts are written, read again and launched for.
double estimated_ns(const Target& target, const ProductExtents& of, const WarpTile& tile) {
  constexpr double kLaunch = 2150, kBegin = 580, kCopy = 985, kParts = 310;  // ns
  constexpr double kCoreBytes = 67, kPartBytes = 4400, kWarps = 1350, kWarpgroups = 4480;  // in a ns
  if (of.rows <= kFewRows) return few_rows_ns(target, of, tile);
  const auto [together, waves] = blocks_on_cores(target, of, tile);
  const double steps = real(of.depth) / real(tile.depth * tile.splits);
  const double step_bytes = real(tile.element_bytes * together * tile.depth * (tile.rows + tile.columns)),
               step_operations = real(tile.element_bytes * together * tile.depth * tile.rows * tile.columns);
  const double step = std::max({kCopy / real(tile.stages - (tile.swizzled ? 2 : 1)), step_bytes / kCoreBytes,
                                step_operations / (tile.swizzled ? kWarpgroups : kWarps)});
  const double operands = real(tile.element_bytes * of.batches) * real(of.depth) * real(of.rows + of.columns);
  const double memory = operands * 1e3 / real(target.memory_bytes_per_us);
  const double parts = real(tile.splits * of.batches) * real(of.rows) * real(of.columns) * 2 * sizeof(float);
  return kLaunch + kBegin + std::max(waves * (kBegin + steps * step) - kBegin, memory) +
         (tile.splits > 1 ? kParts + parts / kPartBytes : 0);
}

ProductExtents extents_of(const Lowering& lowering, const ProductSides& sides) {
  ProductExtents of;
  for (VarId axis : sides.batch) of.batches *= lowering.size(lowering.formula().variable(axis).extent);
  of.rows = lowering.size(sides.rows.extent);
  of.columns = lowering.size(sides.columns.extent);
  of.depth = lowering.size(sides.depth.extent);
  return of;
}

bool fits_shared(const Target& target, const WarpTile& tile) {
  return shared_bytes_of(tile) <= target.group_shared_bytes;
}

std::int64_t shared_rows_of_tiles(const ProductSides& sides, std::int64_t tile_rows) {
  std::int64_t shared = 1;
  for (const std::int64_t rows : {2, 4, 8}) {
    if (te::divides(Dim(2 * rows), ceil_div(sides.rows.extent, tile_rows))) shared = rows;
  }
  return shared;
}

void read_tile_knobs(Forms& forms, WarpTile& tile) {
  tile.rows = forms.knob("tile_rows", tile.rows);
  tile.columns = forms.knob("tile_columns", tile.columns);
  tile.stages = forms.knob("stages", tile.stages);
  tile.group_rows = forms.knob("group_rows", tile.group_rows);
  tile.splits = forms.knob("splits", tile.splits);
}

bool is_divided_evenly(const ProductSides& sides, const WarpTile& tile) {
  return te::divides(Dim(tile.group_rows), ceil_div(sides.rows.extent, tile.rows)) &&
         (tile.splits == 1 || te::divides(Dim(tile.splits), ceil_div(sides.depth.extent, tile.depth)));
}

namespace {

// The tiles that a plan is made with: each is the fastest for some sizes.
constexpr std::array kWarpTiles{
    WarpTile{16, 64, 128, 1, 4, 4}, WarpTile{32, 64, 64, 2, 2, 4},   WarpTile{16, 128, 64, 1, 4, 3},
    WarpTile{32, 128, 64, 1, 4, 3}, WarpTile{64, 64, 64, 2, 2, 4},   WarpTile{64, 128, 64, 2, 4, 4},
    WarpTile{128, 64, 64, 2, 2, 3}, WarpTile{128, 128, 64, 2, 2, 3}, WarpTile{128, 256, 64, 2, 4, 3},
    WarpTile{64, 16, 64, 4, 1, 4},  WarpTile{128, 32, 64, 4, 1, 4},
};

// Those for few rows: as many blocks of columns as there are cores, each with the whole reduction, and much of it on its way.
constexpr WarpTile deep_tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t across,
                             std::int64_t deep, std::int64_t stages) {
  return {rows, columns, depth, 1, across, stages, 1, 1, false, deep, stages / 2};
}
constexpr std::array kDeepTiles{
    deep_tile(16, 16, 128, 1, 8, 8),  deep_tile(16, 16, 256, 1, 4, 6), deep_tile(16, 32, 128, 1, 8, 6),
    deep_tile(16, 32, 128, 2, 4, 5),  deep_tile(16, 32, 256, 2, 2, 4), deep_tile(16, 32, 256, 2, 8, 5),
    deep_tile(16, 64, 64, 4, 2, 6),   deep_tile(16, 64, 128, 1, 8, 6), deep_tile(16, 64, 128, 2, 2, 4),
    deep_tile(16, 128, 128, 4, 4, 3), deep_tile(32, 32, 128, 1, 8, 6), deep_tile(32, 64, 64, 1, 4, 4),
    deep_tile(32, 64, 128, 1, 8, 4),  deep_tile(64, 32, 128, 2, 4, 4), deep_tile(64, 64, 128, 2, 4, 4),
};

// Elements on their way take registers that a large tile has for its sums.
constexpr std::array kTilesThroughRegisters{WarpTile{64, 64, 32, 2, 2, 4}};

std::int64_t element_bytes_of(const Lowering& lowering, const ProductSides& sides) {
  return bits_of(narrow_factor(lowering, sides.left).dtype()) / 8;
}

struct EstimatedTile {
  WarpTile tile;
  double ns = 0;
};

// The fastest of these, unless the one that is known is.
EstimatedTile faster_tile(const Lowering& lowering, const ProductSides& sides,
                          std::span<const WarpTile> tiles, EstimatedTile best) {
  constexpr std::int64_t kShallow = 32;
  const ProductExtents of = extents_of(lowering, sides);
  for (WarpTile tile : tiles) {
    tile.element_bytes = element_bytes_of(lowering, sides);
    while (tile.depth > kShallow && (of.depth < tile.depth || !fits_shared(lowering.target(), tile)))
      tile.depth /= 2;
    for (const std::int64_t splits : {1, 2, 4, 8}) {
      tile.splits = splits;
      const Dim steps = ceil_div(sides.depth.extent, tile.depth);
      if (!is_whole(tile) || !fits_shared(lowering.target(), tile) ||
          (splits > 1 && !te::divides(Dim(splits), steps)))
        continue;
      const double ns = estimated_ns(lowering.target(), of, tile);
      if (best.ns != 0 && ns >= best.ns) continue;
      best = {tile, ns};
    }
  }
  best.tile.group_rows = shared_rows_of_tiles(sides, best.tile.rows);
  return best;
}

EstimatedTile fastest_tile(const Lowering& lowering, const ProductSides& sides) {
  EstimatedTile best;
  if (sides.rows.extent.is_constant() && sides.rows.extent.constant() <= kFewRows)
    best = faster_tile(lowering, sides, kDeepTiles, best);
  return faster_tile(lowering, sides, kWarpTiles, best);
}

}  // namespace

Expr is_on_side(Lowering& lowering, const Side& side, const Expr& position, std::int64_t block) {
  const Expr whole = inside(position, side.extent, block);
  if (!whole.defined() || side.axes.size() <= 1) return whole;
  Substitution digits;
  side.bind(lowering.formula(), position, digits);
  const VarId outermost = side.axes.front();
  const Expr digit = te::IndexAlgebra(lowering.kernel().variables).simplified(digits.at(outermost.index));
  return whole & (digit < Expr::size(lowering.formula().variable(outermost).extent));
}

double fastest_warp_tile_ns(const Lowering& lowering, const ProductSides& sides) {
  return fastest_tile(lowering, sides).ns;
}

std::optional<WarpTile> choose_warp_tile(Lowering& lowering, const ProductSides& sides, bool copied) {
  Forms& forms = lowering.forms();
  WarpTile tile;
  tile.element_bytes = element_bytes_of(lowering, sides);
  if (forms.chooses())
    tile = (copied ? fastest_tile(lowering, sides) : faster_tile(lowering, sides, kTilesThroughRegisters, {}))
               .tile;
  read_tile_knobs(forms, tile);
  tile.depth = forms.knob("tile_depth", tile.depth);
  tile.warps_down = forms.knob("warps_down", tile.warps_down);
  tile.warps_across = forms.knob("warps_across", tile.warps_across);
  tile.warps_deep = forms.knob("warps_deep", tile.warps_deep);
  tile.early = forms.knob("early", tile.early);
  if (tile.early > 0 && !copied) return std::nullopt;
  return is_whole(tile) && is_divided_evenly(sides, tile) ? std::optional(tile) : std::nullopt;
}

WarpOperand::WarpOperand(Lowering& lowering, Expr factor, const Side& side, const Side& depth)
    : lowering_(lowering), factor_(std::move(factor)), side_(side), depth_(depth) {
  const bool deep = lies_along(lowering_, factor_, depth_.axes.back());
  // Nothing transposes bytes on their way to fragments: they come together along the sum, one by one where they do not lie so.
  along_depth_ = deep || is_byte(factor_.dtype()) || side_.axes.empty() ||
                 !lies_along(lowering_, factor_, side_.axes.back());
  copied_ = comes_in_chunks(lowering_, factor_, along_depth_ ? depth_.axes.back() : side_.axes.back());
}

void WarpOperand::place(const char* name, const WarpTile& tile, std::int64_t width, Expr first,
                        Expr first_step, VarId thread, const Substitution& bound) {
  tile_ = tile;
  width_ = width;
  first_ = std::move(first);
  first_step_ = std::move(first_step);
  thread_ = thread;
  bound_ = bound;
  // Fragments that are read word by word lie across rows.
  const std::int64_t padding = tile.swizzled ? 0 : along_depth_ ? chunk_elements() : kRowPadding;
  shared_ =
      lowering_.scratch(std::string(name) + "t", factor_.dtype(),
                        {tile.stages, lines(), chunks_in_line() * chunk_elements() + padding}, Scope::Shared);
  if (tile.swizzled) lowering_.kernel().buffers[shared_.index].swizzle = kir::Swizzle::Bytes128;
  if (!copied_) {
    registers_ = lowering_.scratch(std::string(name) + "v", factor_.dtype(),
                                   {lines() / lines_at_once() * chunk_elements()}, Scope::Register);
  }
}

// That all threads together copy, a chunk each; all lines are some times as many.
std::int64_t WarpOperand::lines_at_once() const {
  std::int64_t at_once = std::min(lines(), tile_.threads() / chunks_in_line());
  while (lines() % at_once != 0) --at_once;
  return at_once;
}

// Neighbouring threads have neighbouring chunks of a line.
template <class What>
Stmt WarpOperand::for_chunks(const Expr& step, What what) {
  const std::int64_t in_line = chunks_in_line(), at_once = lines_at_once();
  const VarId pass = lowering_.loop("p", lines() / at_once);
  const Expr thread = Expr::variable(thread_);
  Chunk chunk;
  chunk.line = Expr::variable(pass) * Expr::index(at_once) + te::floor_div(thread, Expr::index(in_line));
  chunk.column = te::mod(thread, Expr::index(in_line)) * Expr::index(chunk_elements());
  chunk.position = first_ + (along_depth_ ? chunk.line : chunk.column);
  const Expr whole = first_step_.defined() ? first_step_ + step : step;
  chunk.at = whole * Expr::index(tile_.depth) + (along_depth_ ? chunk.column : chunk.line);
  Stmt body = what(chunk, Expr::variable(pass));
  if (body.defined() && at_once * in_line < tile_.threads())
    body = Stmt::branch(thread < Expr::index(at_once * in_line), body);
  return body.defined() ? Stmt::loop(LoopKind::Unrolled, pass, body) : Stmt();
}

// A multiple of 8 on a side whose last loop is one of chunks: counted in these, so that it is seen to be one.
void WarpOperand::bind_chunk(const Side& side, const Expr& position, Substitution& bound) {
  const te::Formula& formula = lowering_.formula();
  if (side.axes.size() <= 1) return side.bind(formula, position, bound);
  std::vector<Dim> extents;
  for (VarId axis : side.axes) extents.push_back(formula.variable(axis).extent);
  extents.back() = floor_div(extents.back(), Dim(chunk_elements()));
  const te::IndexAlgebra algebra(lowering_.kernel().variables);
  const Expr chunk = algebra.simplified(te::floor_div(position, Expr::index(chunk_elements())));
  std::vector<Expr> index = index_at(chunk, extents);
  index.back() = times(index.back(), chunk_elements());
  for (std::size_t i = 0; i < index.size(); ++i) bound[side.axes[i].index] = algebra.simplified(index[i]);
}

std::optional<Lowering::Body> WarpOperand::element(const Expr& position, const Expr& at) {
  Substitution bound = bound_;
  if (copied_ && !along_depth_) {
    bind_chunk(side_, position, bound);
  } else {
    side_.bind(lowering_.formula(), position, bound);
  }
  if (copied_ && along_depth_) {
    bind_chunk(depth_, at, bound);
  } else {
    depth_.bind(lowering_.formula(), at, bound);
  }
  Lowering::Body value = lowering_.body(factor_, bound);
  if (!value.checks.empty()) return std::nullopt;
  return value;
}

// Of the element and so many that follow it in its line.
Expr WarpOperand::is_inside(const Expr& position, const Expr& at, std::int64_t further) const {
  const Expr more = Expr::index(further);
  return along_depth_ ? conjunction_of(is_on_side(lowering_, side_, position, width_),
                                       inside(at + more, depth_.extent, tile_.depth))
                      : conjunction_of(inside(position + more, side_.extent, width_),
                                       is_on_side(lowering_, depth_, at, tile_.depth));
}

Stmt WarpOperand::issue(const Expr& step) {
  const Expr slot = te::mod(step, Expr::index(tile_.stages));
  return for_chunks(step, [&](const Chunk& chunk, const Expr& pass) -> Stmt {
    if (copied_) {
      const auto element_there = element(chunk.position, chunk.at);
      if (!element_there) return {};
      Expr from = element_there->value, here = is_inside(chunk.position, chunk.at, chunk_elements() - 1);
      if (from->op == ExprOp::Select) {  // zero outside of a feature map
        here = conjunction_of(here, from->operands[0]);
        from = Expr(from->operands[1]);
      }
      if (from->op != ExprOp::Load) return {};
      const Expr all = Expr::index(chunk_elements());
      return Stmt::call(kir::Intrinsic::AsyncCopy,
                        {{shared_, {slot, chunk.line, chunk.column}, {}},
                         {from->buffer, te::index_of(*from), {}},
                         {{}, {}, here.defined() ? te::select(here, all, Expr::index(0)) : all}});
    }
    const VarId lane = lowering_.loop("v", chunk_elements());
    const Expr further = Expr::variable(lane);
    const Expr position = along_depth_ ? chunk.position : chunk.position + further;
    const Expr at = along_depth_ ? chunk.at + further : chunk.at;
    const auto value = element(position, at);
    if (!value) return {};
    Stmt store = Stmt::store(registers_, {pass * Expr::index(chunk_elements()) + further},
                             zero_outside(is_inside(position, at, 0), value->value));
    return Stmt::loop(LoopKind::Vector, lane, store);
  });
}

Stmt WarpOperand::lay_down(const Expr& step) {
  if (copied_) return Stmt::block({});
  const Expr slot = te::mod(step, Expr::index(tile_.stages));
  return for_chunks(step, [&](const Chunk& chunk, const Expr& pass) {
    const VarId lane = lowering_.loop("v", chunk_elements());
    const Expr further = Expr::variable(lane);
    const Expr held =
        Expr::load(registers_, factor_.dtype(), {pass * Expr::index(chunk_elements()) + further});
    return Stmt::loop(LoopKind::Vector, lane,
                      Stmt::store(shared_, {slot, chunk.line, chunk.column + further}, held));
  });
}

kir::Operand WarpOperand::at(const Expr& slot, const Expr& across, const Expr& deep) const {
  return {shared_,
          along_depth_ ? std::vector<Expr>{slot, across, deep} : std::vector<Expr>{slot, deep, across},
          {}};
}

Stmt WarpOperand::load(const kir::Operand& to, const Expr& slot, const Expr& across, const Expr& deep,
                       const Expr& lane, bool pairs_deep, bool turned) const {
  const bool as_it_lies = along_depth_ != turned, words = bits_of(factor_.dtype()) == 32;
  if (words && !as_it_lies) return load_words(to, slot, across, deep, lane, pairs_deep);
  const Expr eight = Expr::index(8), row = te::mod(lane, eight);
  const Expr second = te::mod(te::floor_div(lane, eight), Expr::index(2)),
             fourth = te::floor_div(lane, Expr::index(16));
  const Expr further_across = times(pairs_deep ? fourth : second, 8),
             further_deep = times(pairs_deep ? second : fourth, chunk_elements());
  const Expr nothing = Expr::index(0);
  kir::Operand from = at(slot, across + further_across + (along_depth_ ? row : nothing),
                         deep + further_deep + (along_depth_ ? nothing : row));
  Stmt load = Stmt::call(as_it_lies ? kir::Intrinsic::LoadFragment : kir::Intrinsic::LoadFragmentTransposed,
                         {to, std::move(from)});
  return words ? Stmt::block({load, Stmt::call(kir::Intrinsic::RoundWordsTf32, {to, to})}) : load;
}

// Matrices of words are not transposed on their way: each thread reads its own words.
Stmt WarpOperand::load_words(const kir::Operand& to, const Expr& slot, const Expr& across, const Expr& deep,
                             const Expr& lane, bool pairs_deep) const {
  const Expr line = te::floor_div(lane, Expr::index(4)), pair = te::mod(lane, Expr::index(4));
  std::vector<Stmt> all;
  for (std::int64_t word = 0; word < 4; ++word) {
    const std::int64_t low = word % 2, high = word / 2;
    const kir::Operand from = at(slot, across + line + Expr::index(8 * (pairs_deep ? high : low)),
                                 deep + pair + Expr::index(4 * (pairs_deep ? low : high)));
    std::vector<Expr> index = to.index;
    index.back() = index.back() + Expr::index(word);
    all.push_back(Stmt::store(to.buffer, std::move(index),
                              te::bitcast(DType::U32, Expr::load(from.buffer, factor_.dtype(), from.index))));
  }
  all.push_back(Stmt::call(kir::Intrinsic::RoundWordsTf32, {to, to}));
  return Stmt::block(std::move(all));
}

}  // namespace xyntra
