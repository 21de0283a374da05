// Copies of boxes by tensor maps (TMA): what a map says of the memory is a record for the driver, which encodes it when the address and the
// sizes are known.
#include <algorithm>

#include "codegen/ptx/emitter.h"
#include "codegen/ptx/units/swizzled.h"
#include "kir/intrinsics.h"

namespace xyntra::ptx {

using kir::Scope;

namespace {

constexpr std::size_t kMostRank = 5;
constexpr std::int64_t kMostExtent = 256, kGrain = 16;  // of a box along a dimension; bytes of its rows

std::string named(const kir::Buffer& buffer) { return "'" + buffer.name + "'"; }

// Extents along the last dimensions, outermost first; nothing where they are not constants that a map has room for.
std::vector<std::int64_t> extents_of(const kir::StmtNode& call, const kir::PlaceRule& rule) {
  std::vector<std::int64_t> extents;
  for (std::size_t from_last = rule.extents; from_last-- > 0;) {
    const te::Expr& extent = call.operands[rule.extent_operand(from_last)].value;
    if (extent->op != te::ExprOp::Const || extent->int_value < 1 || extent->int_value > kMostExtent)
      return {};
    extents.push_back(extent->int_value);
  }
  return extents;
}

// Whether the elements of a box lie one after another.
bool is_dense(const Shape& shape, const std::vector<std::int64_t>& extents) {
  bool whole = true;  // of the dimensions further in
  for (std::size_t from_last = 0; from_last < extents.size(); ++from_last) {
    const std::int64_t extent = extents[extents.size() - 1 - from_last];
    if (!whole && extent != 1) return false;
    whole = whole && shape[shape.size() - 1 - from_last].is(extent);
  }
  return true;
}

// A map counts the distance from row to row in bytes, all along the shape.
Status check_strides(const kir::Buffer& buffer) {
  Dim bytes = std::max(8, bits_of(buffer.dtype)) / 8;
  for (std::size_t d = buffer.shape.size(); d-- > 1;) {
    bytes = bytes * buffer.shape[d];
    if (!bytes.is_constant() || bytes.constant() % kGrain == 0) continue;
    return unsupported("copies of boxes of " + named(buffer) + ", whose rows of " + bytes.to_string() +
                       " bytes do not begin at multiples of 16");
  }
  return {};
}

}  // namespace

// The number of the map for boxes that go between the two places.
Result<std::size_t> KernelEmitter::tensor_map(const kir::StmtNode& node, const kir::Operand& global,
                                              const kir::Operand& shared) {
  const kir::Buffer &memory = kernel_.buffer(global.buffer), &block = kernel_.buffer(shared.buffer);
  const auto rules = kir::places_of(node.intrinsic);
  const std::vector<std::int64_t> extents = extents_of(node, rules[0]);
  const std::int64_t bytes = bits_of(memory.dtype) / 8;
  const bool swizzled = block.swizzle != kir::Swizzle::None;
  if (bytes == 0 || memory.dtype != block.dtype || homes_[shared.buffer.index] != Home::Shared)
    return unsupported("copies of boxes of " + named(memory) + " to " + named(block));
  if (memory.shape.size() > kMostRank)
    return unsupported("copies of boxes of " + named(memory) + ", whose rank is more than 5");
  if (extents.empty()) return unsupported("copies of boxes whose extents are not constants from 1 to 256");
  const std::int64_t row = extents.back() * bytes;
  if (row % kGrain != 0)
    return unsupported("copies of boxes with rows of " + std::to_string(row) +
                       " bytes, which is no multiple of 16");
  if (!is_dense(block.shape, extents))
    return unsupported("copies of boxes whose elements do not lie one after another in " + named(block));
  if (swizzled && row != kSwizzledBytes)
    return unsupported("copies of boxes that are not as wide as the swizzled rows of " + named(block));
  const std::int64_t alignment = swizzled ? kSwizzleAlignment : kBoxAlignment;
  if (!kir::is_aligned(kernel_, shared, alignment / bytes))
    return unsupported("copies of boxes that do not begin at multiples of " + std::to_string(alignment) +
                       " bytes in " + named(block));
  XYNTRA_CHECK_OK(check_strides(memory));

  PtxTensorMap map{0, static_cast<int>(bytes), memory.shape, {}, swizzled};
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
    const Scope scope = kernel_.buffers[i].scope;
    const bool before = scope == memory.scope ? i < global.buffer.index : scope == Scope::Global;
    if (before && (scope == Scope::Global || scope == Scope::Workspace)) ++map.address;
  }
  map.box.assign(memory.shape.size() - extents.size(), 1);
  map.box.insert(map.box.end(), extents.begin(), extents.end());
  const auto known = std::ranges::find(made_.maps, map);
  const auto number = static_cast<std::size_t>(known - made_.maps.begin());
  if (known == made_.maps.end()) made_.maps.push_back(std::move(map));
  return number;
}

// "[%d3, {%r1, %r2}]": the map, and where the box begins, the innermost dimension first.
std::string KernelEmitter::place_in_map(std::size_t number, const kir::Operand& global) {
  std::string& address = map_addresses_[number];
  if (address.empty()) {
    const std::string given = code_.fixed(Size::Long);
    address = code_.fixed(Size::Long);
    prologue_ += "  mov.b64 " + given + ", map" + std::to_string(number) + ";\n  cvta.param.u64 " + address +
                 ", " + given + ";\n";
  }
  std::string first;
  for (std::size_t d = global.index.size(); d-- > 0;)
    first += (first.empty() ? "" : ", ") + word_of(global.index[d]);
  return "[" + address + ", {" + first + "}]";
}

Status KernelEmitter::copy_box(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  const kir::Operand& barrier = node.operands[2 + kir::places_of(node.intrinsic)[0].extents];
  XYNTRA_TRY(const std::size_t map, tensor_map(node, from, to));
  const bool multicast = kir::is_multicast(node.intrinsic);
  const std::string target = place(to.buffer, analysis_.access(to).flat), source = place_in_map(map, from),
                    object = place(barrier.buffer, analysis_.access(barrier).flat);
  std::string blocks;
  if (multicast)
    blocks =
        ", " + code_.make(Size::Half, "mov.b16", {std::to_string(node.operands.back().value->int_value)});
  code_.line("cp.async.bulk.tensor." + std::to_string(from.index.size()) +
             "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" +
             (multicast ? ".multicast::cluster " : " ") + target + ", " + source + ", " + object + blocks);
  return {};
}

// A group of its own, so that it can be waited for.
Status KernelEmitter::store_box(const kir::StmtNode& node) {
  begin_statement(node);
  const kir::Operand &to = node.operands[0], &from = node.operands[1];
  XYNTRA_TRY(const std::size_t map, tensor_map(node, to, from));
  const std::string source = place(from.buffer, analysis_.access(from).flat);
  code_.line("cp.async.bulk.tensor." + std::to_string(to.index.size()) +
             "d.global.shared::cta.tile.bulk_group " + place_in_map(map, to) + ", " + source);
  code_.line("cp.async.bulk.commit_group");
  return {};
}

}  // namespace xyntra::ptx
