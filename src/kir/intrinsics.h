// What an intrinsic does with the places it is given: which memory, which elements, reading or writing. One table for the
// verifier, the simulator and the emitters.
#pragma once

#include <optional>
#include <span>

#include "kir/kernel.h"

namespace xyntra::kir {

enum class PlaceAccess : std::uint8_t { Read, Write, Accumulate, Barrier, Hint };

// How many elements of the last two dimensions, from the place on, are touched.
enum class PlaceBox : std::uint8_t {
  Element,  // the one element
  Tile,  // all of the last two dimensions; the place is their first element
  Row,  // all of the last dimension; the place is its first element
  Given,  // extents along the last dimensions are number operands: rows and columns, or more of them
  Rows,  // the same, with rows along a dimension that is named, with a stride, and columns along all that follow it as one
  Run  // elements one after another, along as many of the last dimensions as one as it takes
};

struct PlaceRule {
  PlaceAccess access = PlaceAccess::Read;
  PlaceBox box = PlaceBox::Element;
  int rows = 0, columns = 0;  // Given, Rows: which operands
  std::size_t extents = 2;  // Given: how many; those before the columns are operands one after another
  int rank = 0;  // the operand that says whose shared memory it is, a work item of the cluster; 0: this one's
  int dimension = 0, step = 0;  // Rows: which operands; both are constants
  std::int64_t length =
      0;  // Run: elements, or the most that the constant operand `columns` may say, where that is not 0
  std::int64_t bytes =
      0;  // Run: how long it is, of any elements of 8 to 32 bits; it begins at a multiple of that
  bool overhangs = false;  // parts outside the buffer read as zero, or are not written
  bool registers = false, shared = false,
       memory = false;  // scopes it may lie in; memory: global or workspace
  std::optional<DType> dtype = std::nullopt,
                       or_dtype = std::nullopt;  // that it takes; any where there is none

  bool takes(DType given) const {
    if (bytes != 0 && (bits_of(given) < 8 || bits_of(given) > 32)) return false;
    return !dtype || given == *dtype || (or_dtype && given == *or_dtype);
  }
  // Given: the operand with the extent along a dimension, counted from the last one.
  std::size_t extent_operand(std::size_t from_last) const {
    return from_last + 1 == extents ? static_cast<std::size_t>(rows)
                                    : static_cast<std::size_t>(columns) - from_last;
  }
};

// A box of rows along a dimension: where its numbers are constants that fit the buffer.
struct RowDimension {
  std::size_t dimension = 0;
  std::int64_t step = 1;
};
std::optional<RowDimension> row_dimension(const StmtNode& call, const PlaceRule& rule, std::size_t rank);

// How many elements a run has, where that is a constant that fits; and the first of the dimensions it goes along.
std::optional<std::int64_t> run_length(const StmtNode& call, const PlaceRule& rule, DType dtype);
std::size_t run_dimension(const Shape& shape, std::int64_t length);

// One rule per place operand, in order.
std::span<const PlaceRule> places_of(Intrinsic intrinsic);

// Whose threads do it as one, all of them reaching it.
enum class By : std::uint8_t { Thread, Warp, Warpgroup, Item, Cluster };
By by_whom(Intrinsic intrinsic);
inline constexpr std::int64_t kWarpThreads = 32, kWarpgroupThreads = 128;
inline bool is_by_warp(Intrinsic intrinsic) { return by_whom(intrinsic) == By::Warp; }
inline bool is_by_warpgroup(Intrinsic intrinsic) { return by_whom(intrinsic) == By::Warpgroup; }

// Nothing but a hint: a machine may leave it out.
bool is_hint(Intrinsic intrinsic);

inline bool is_atomic(Intrinsic intrinsic) {
  return intrinsic >= Intrinsic::AtomicAdd && intrinsic <= Intrinsic::AtomicOr;
}
te::ExprOp operation_of_atomic(Intrinsic intrinsic);  // how two values are made one
bool has_barrier_object(Intrinsic intrinsic);

// Boxes of tensors, global to shared or back; to several work items of a cluster, whose numbers are the bits of the last operand.
bool copies_box(Intrinsic intrinsic);
bool stores_box(Intrinsic intrinsic);
bool is_multicast(Intrinsic intrinsic);
// What reaches the shared memory of another work item of the cluster.
bool reaches_cluster(Intrinsic intrinsic);

// Barrier objects, asynchronous copies, matrix units of warpgroups: what needs more than a count of barriers to order.
bool is_asynchronous(Intrinsic intrinsic);

// The dtype of what words of u32 in registers have; F32 is tf32. None where there are no words.
std::optional<DType> element_of(Intrinsic intrinsic);
std::optional<DType> second_element_of(Intrinsic intrinsic);  // of the second factor of a product

// Products of a warpgroup: c, a, b, m, n, k.
bool is_warpgroup_multiply(Intrinsic intrinsic);
bool is_turned(Intrinsic intrinsic);  // the second factor is [k, n]

// What async_copy moves, and a row of a matrix that load_fragment takes: 16 bytes, and so many elements of 16 bits.
inline constexpr std::int64_t kChunkBytes = 16, kChunkElements = 8;
// Whether a place is shown to be at a multiple of so many elements.
bool is_aligned(const Kernel& kernel, const Operand& place, std::int64_t elements);
// Under which async_copy reads; undefined where it always does.
Expr condition_of_copy(const StmtNode& copy);

// Buffers that loads and stores may not touch, since a machine keeps them elsewhere: tiles and barriers.
bool is_opaque_place(const PlaceRule& rule);

}  // namespace xyntra::kir
