// Tile registers (AMX): eight of 16 rows by 64 bytes, named by number. Each tile of a register buffer gets one.
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <array>
#include <set>

#include "codegen/llvm/emitter.h"
#include "kir/intrinsics.h"

namespace xyntra::cpu_code {

using kir::BufferId;
using llvm::Align;
using llvm::Value;

namespace {

constexpr std::int64_t kTiles = 8, kTileRows = 16, kRowBytes = 64;

std::int64_t bytes_of_element(const kir::Buffer& buffer) { return bits_of(buffer.dtype) / 8; }

bool loads_tile(kir::Intrinsic intrinsic) {
  return intrinsic == kir::Intrinsic::TileLoad || intrinsic == kir::Intrinsic::TileLoadRows ||
         intrinsic == kir::Intrinsic::TileLoadRowsL2;
}

bool multiplies_tiles(kir::Intrinsic intrinsic) {
  return intrinsic == kir::Intrinsic::TileMultiplyBf16 || intrinsic == kir::Intrinsic::TileMultiplyI8;
}

}  // namespace

bool KernelEmitter::uses_tiles(const kir::Stmt& statement) {
  bool found = false;
  kir::for_each_statement(statement, [&](const kir::StmtNode& node) {
    if (node.kind != kir::StmtNode::Kind::Call) return;
    for (const kir::PlaceRule& rule : kir::places_of(node.intrinsic)) {
      found = found || rule.box == kir::PlaceBox::Tile;
    }
  });
  return found;
}

// Numbers in the order in which buffers first appear.
Status KernelEmitter::number_tiles() {
  first_tiles_.assign(kernel_.buffers.size(), -1);
  std::int64_t next = 0;
  Status status;
  kir::for_each_statement(kernel_.body, [&](const kir::StmtNode& node) {
    if (node.kind != kir::StmtNode::Kind::Call || !status) return;
    const auto rules = kir::places_of(node.intrinsic);
    for (std::size_t i = 0; i < rules.size() && i < node.operands.size(); ++i) {
      if (rules[i].box != kir::PlaceBox::Tile) continue;
      const BufferId id = node.operands[i].buffer;
      if (first_tiles_[id.index] >= 0) continue;
      const kir::Buffer& buffer = kernel_.buffer(id);
      const std::size_t rank = buffer.shape.size();
      const Dim count = product(buffer.shape);
      const bool fits =
          rank >= 2 && count.is_constant() && buffer.shape[rank - 2].is(kTileRows) &&
          buffer.shape[rank - 1].is(kRowBytes / std::max<std::int64_t>(1, bytes_of_element(buffer)));
      if (!fits) {
        status = unsupported("a tile that is not 16 rows of 64 bytes");
        return;
      }
      first_tiles_[id.index] = next;
      next += count.constant() * bytes_of_element(buffer) / (kTileRows * kRowBytes);
    }
  });
  size_tiles();
  if (status && next > kTiles) return unsupported("more than eight tiles at once");
  if (status && next > 0 && !traits_.tiles) return unsupported("tile registers: the CPU has none");
  return status;
}

// Tiles that are never loaded or stored but in part are made that small, so that the part is moved from and to where it lies.
// All of a kernel must agree: a product has the rows of its left factor, and goes over as many pairs as that has columns
// and the right one rows.
void KernelEmitter::size_tiles() {
  tile_sizes_.assign(kernel_.buffers.size(), {kTileRows, kRowBytes});
  std::vector<std::optional<TileSize>> moved(kernel_.buffers.size());
  std::set<std::uint32_t> loaded;
  bool uniform = true;
  auto look = [&](const kir::Operand& tile, const kir::Operand& memory, const te::Expr& rows,
                  const te::Expr& columns) {
    TileSize size{kTileRows, kRowBytes};
    if (rows.is_constant() && columns.is_constant())
      size = {rows->int_value, columns->int_value * bytes_of_element(kernel_.buffer(memory.buffer))};
    auto& before = moved[tile.buffer.index];
    uniform = uniform && (!before || *before == size);
    before = size;
  };
  kir::for_each_statement(kernel_.body, [&](const kir::StmtNode& node) {
    if (node.kind != kir::StmtNode::Kind::Call) return;
    const auto& o = node.operands;
    if (node.intrinsic == kir::Intrinsic::TileStore) look(o[1], o[0], o[2].value, o[3].value);
    if (!loads_tile(node.intrinsic)) return;
    look(o[0], o[1], o[2].value, o[3].value);
    loaded.insert(o[0].buffer.index);
  });
  kir::for_each_statement(kernel_.body, [&](const kir::StmtNode& node) {
    if (node.kind != kir::StmtNode::Kind::Call || !multiplies_tiles(node.intrinsic)) return;
    const auto &sum = moved[node.operands[0].buffer.index], &left = moved[node.operands[1].buffer.index],
               &right = moved[node.operands[2].buffer.index];
    constexpr std::int64_t kPair = 4;  // bytes; of four int8, too
    uniform = uniform && sum && left && right && loaded.count(node.operands[0].buffer.index) == 0 &&
              left->rows == sum->rows && left->rows > 0 && sum->row_bytes == kRowBytes &&
              right->row_bytes == kRowBytes && left->row_bytes == right->rows * kPair && right->rows > 0;
  });
  if (!uniform) return;
  for (std::size_t b = 0; b < moved.size(); ++b) {
    if (moved[b]) tile_sizes_[b] = *moved[b];
  }
}

Result<Value*> KernelEmitter::tile(const kir::Operand& operand) {
  const kir::Buffer& buffer = kernel_.buffer(operand.buffer);
  std::int64_t number = 0;
  for (std::size_t d = 0; d + 2 < buffer.shape.size(); ++d) {
    auto* index = llvm::dyn_cast<llvm::ConstantInt>(value(operand.index[d]));
    if (index == nullptr) return unsupported("a tile named by a number that is not constant");
    number = number * buffer.shape[d].constant() + index->getSExtValue();
  }
  number += first_tiles_[operand.buffer.index];
  return static_cast<Value*>(b_.getInt8(static_cast<std::uint8_t>(number)));
}

// Which parts of a whole tile are used is settled by what is loaded into it.
void KernelEmitter::configure_tiles() {
  std::array<std::uint8_t, 64> settings{};
  settings[0] = 1;  // palette
  for (std::size_t t = 0; t < kTiles; ++t) {
    TileSize size{kTileRows, kRowBytes};
    std::int64_t nearest = -1;
    for (std::size_t b = 0; b < first_tiles_.size(); ++b) {
      const bool holds = first_tiles_[b] >= 0 && first_tiles_[b] <= static_cast<std::int64_t>(t);
      if (holds && first_tiles_[b] > nearest) nearest = first_tiles_[b], size = tile_sizes_[b];
    }
    settings[16 + 2 * t] = static_cast<std::uint8_t>(size.row_bytes);
    settings[48 + t] = static_cast<std::uint8_t>(size.rows);
  }
  auto* content = llvm::ConstantDataArray::get(context_, settings);
  auto* memory = new llvm::GlobalVariable(module_, content->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, content, "tile_settings");
  memory->setAlignment(Align(64));
  b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {memory});
}

void KernelEmitter::leave() {
  if (streams_) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  if (tiles_configured_) b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
}

// Part of a tile goes through memory of our own, row by row: elsewhere nothing beyond the part may be touched.
Status KernelEmitter::move_tile(const kir::Operand& tile_operand, const kir::Operand& memory,
                                const te::Expr& rows_given, const te::Expr& columns_given, TileMove how,
                                std::optional<kir::RowDimension> along) {
  XYNTRA_TRY(Value * number, tile(tile_operand));
  const kir::Buffer& buffer = kernel_.buffer(memory.buffer);
  const std::int64_t width = bytes_of_element(buffer);
  if (width < 1) return unsupported("tiles of elements that share a byte");
  const Place at = place(memory.buffer, analysis_.access(memory));
  require(at.is_uniform(), "codegen: a tile in lanes");
  auto n = [&](std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); };
  Value* rows = value(rows_given);
  Value* row_bytes = b_.CreateMul(value(columns_given), n(width));
  Dim from_row_to_row = buffer.shape.back();
  if (along) {
    from_row_to_row = along->step;
    for (std::size_t d = along->dimension + 1; d < buffer.shape.size(); ++d)
      from_row_to_row = from_row_to_row * buffer.shape[d];
  }
  Value* stride = b_.CreateMul(size(from_row_to_row), n(width));
  const bool load = how != TileMove::Store;
  const auto near = load ? llvm::Intrinsic::x86_tileloadd64 : llvm::Intrinsic::x86_tilestored64;
  const auto access = how == TileMove::LoadL2 ? llvm::Intrinsic::x86_tileloaddt164 : near;
  auto whole_at = [&](Value* pointer, Value* step, llvm::Intrinsic::ID by) {
    b_.CreateIntrinsic(by, {}, {number, pointer, step});
  };
  const TileSize& all = tile_sizes_[tile_operand.buffer.index];
  Value* is_whole =
      b_.CreateAnd(b_.CreateICmpEQ(rows, n(all.rows)), b_.CreateICmpEQ(row_bytes, n(all.row_bytes)));
  if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(is_whole); known != nullptr && known->isOne()) {
    whole_at(at.pointer, stride, access);
    return {};
  }
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(context_, name, function_); };
  auto *whole = block("whole"), *part = block("part"), *after = block("after");
  b_.CreateCondBr(is_whole, whole, part);
  b_.SetInsertPoint(whole);
  whole_at(at.pointer, stride, access);
  b_.CreateBr(after);

  b_.SetInsertPoint(part);
  auto* row_type = llvm::FixedVectorType::get(b_.getInt8Ty(), kRowBytes);
  if (tile_staging_ == nullptr) {
    auto* memory_of_tile = entry_.CreateAlloca(llvm::ArrayType::get(row_type, kTileRows));
    memory_of_tile->setAlignment(Align(64));
    tile_staging_ = memory_of_tile;
  }
  Value* zero = llvm::Constant::getNullValue(row_type);
  if (load) {
    for (std::int64_t row = 0; row < kTileRows; ++row) {
      b_.CreateAlignedStore(
          zero, b_.CreateConstGEP1_64(row_type, tile_staging_, static_cast<std::uint64_t>(row)), Align(64));
    }
  } else {
    whole_at(tile_staging_, n(kRowBytes), near);
  }
  llvm::SmallVector<llvm::Constant*, 64> ids;
  for (std::int64_t i = 0; i < kRowBytes; ++i) ids.push_back(b_.getInt8(static_cast<std::uint8_t>(i)));
  Value* bound = b_.CreateVectorSplat(kRowBytes, b_.CreateTrunc(row_bytes, b_.getInt8Ty()));
  Value* mask = b_.CreateICmpULT(llvm::ConstantVector::get(ids), bound);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto *body = block("row"), *done = block("rows");
  b_.CreateCondBr(b_.CreateICmpSGT(rows, n(0)), body, done);
  b_.SetInsertPoint(body);
  llvm::PHINode* row = b_.CreatePHI(b_.getInt64Ty(), 2);
  row->addIncoming(n(0), before);
  Value* outside = b_.CreateGEP(b_.getInt8Ty(), at.pointer, b_.CreateMul(row, stride));
  Value* inside = b_.CreateGEP(row_type, tile_staging_, row);
  if (load) {
    b_.CreateAlignedStore(b_.CreateMaskedLoad(row_type, outside, Align(1), mask, zero), inside, Align(64));
  } else {
    b_.CreateMaskedStore(b_.CreateAlignedLoad(row_type, inside, Align(64)), outside, Align(1), mask);
  }
  Value* next = b_.CreateAdd(row, n(1));
  row->addIncoming(next, body);
  b_.CreateCondBr(b_.CreateICmpSLT(next, rows), body, done);
  b_.SetInsertPoint(done);
  if (load) whole_at(tile_staging_, n(kRowBytes), near);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return {};
}

Status KernelEmitter::multiply_tiles(const std::vector<kir::Operand>& o, llvm::Intrinsic::ID by) {
  XYNTRA_TRY(Value * sum, tile(o[0]));
  XYNTRA_TRY(Value * left, tile(o[1]));
  XYNTRA_TRY(Value * right, tile(o[2]));
  b_.CreateIntrinsic(by, {}, {sum, left, right});
  return {};
}

Status KernelEmitter::tile_call(const kir::StmtNode& node) {
  if (lanes_) return unsupported("tiles inside a vector loop");
  const auto& o = node.operands;
  switch (node.intrinsic) {
    case kir::Intrinsic::TileZero: {
      XYNTRA_TRY(Value * number, tile(o[0]));
      b_.CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {number});
      return {};
    }
    case kir::Intrinsic::TileLoad: return move_tile(o[0], o[1], o[2].value, o[3].value, TileMove::Load, {});
    case kir::Intrinsic::TileLoadRows:
    case kir::Intrinsic::TileLoadRowsL2: {
      const auto along = kir::row_dimension(node, kir::places_of(node.intrinsic)[1],
                                            kernel_.buffer(o[1].buffer).shape.size());
      require(along.has_value(), "codegen: a tile without a dimension of rows");
      const bool l2 = node.intrinsic == kir::Intrinsic::TileLoadRowsL2;
      return move_tile(o[0], o[1], o[2].value, o[3].value, l2 ? TileMove::LoadL2 : TileMove::Load, along);
    }
    case kir::Intrinsic::TileStore: return move_tile(o[1], o[0], o[2].value, o[3].value, TileMove::Store, {});
    case kir::Intrinsic::TileMultiplyBf16: return multiply_tiles(o, llvm::Intrinsic::x86_tdpbf16ps);
    case kir::Intrinsic::TileMultiplyI8: {
      if (!traits_.i8_tiles) return unsupported("tile_multiply_i8: the CPU has no AMX-INT8");
      auto is_signed = [&](std::size_t i) { return kernel_.buffer(o[i].buffer).dtype == DType::I8; };
      constexpr std::array<llvm::Intrinsic::ID, 4> kBySigns{
          llvm::Intrinsic::x86_tdpbuud, llvm::Intrinsic::x86_tdpbusd, llvm::Intrinsic::x86_tdpbsud,
          llvm::Intrinsic::x86_tdpbssd};
      return multiply_tiles(o, kBySigns.at((is_signed(1) ? 2 : 0) + (is_signed(2) ? 1 : 0)));
    }
    default: return unsupported(std::string("'") + kir::spelling_of(node.intrinsic) + "' on a CPU");
  }
}

}  // namespace xyntra::cpu_code
