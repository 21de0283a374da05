// A register tile whose lanes are far apart in memory, while the unrolled rows are contiguous: transposed in registers, then stored by
// whole vectors. A scatter writes one element at a time, and lanes a multiple of 4 KiB apart evict one another from L1.
#include "codegen/llvm/emitter.h"

namespace xyntra::cpu_code {

using kir::LoopKind;
using kir::StmtNode;
using llvm::Align;
using llvm::Value;
using te::ExprOp;

namespace {

constexpr std::int64_t kFewestRows = 4, kMostRows = 32;
constexpr int kQuarter = 4;  // 32-bit elements of 128 bits, within which shuffles are cheapest

const StmtNode& only_statement(const kir::Stmt& body) {
  const StmtNode* node = &*body;
  while (node->kind == StmtNode::Kind::Block && node->body.size() == 1) node = &*node->body.front();
  return *node;
}

// The only store below unrolled loops and one vector loop, which is given too.
struct TileStore {
  const StmtNode* store = nullptr;
  kir::VarId lane;
  std::int64_t lanes = 0;
};
TileStore tile_store(const kir::Kernel& kernel, const StmtNode& loop) {
  const StmtNode* node = &loop;
  while (node->kind == StmtNode::Kind::Loop && node->loop == LoopKind::Unrolled) {
    if (!kernel.variable(node->var).extent.is_constant()) return {};
    node = &only_statement(node->body.front());
  }
  if (node->kind != StmtNode::Kind::Loop || node->loop != LoopKind::Vector) return {};
  const Dim& extent = kernel.variable(node->var).extent;
  const StmtNode& store = only_statement(node->body.front());
  if (store.kind != StmtNode::Kind::Store || !extent.is_constant()) return {};
  return {&store, node->var, extent.constant()};
}

// The constant factor of a loop in an index, where it is in no other term.
std::optional<std::int64_t> factor_of(const te::LinearIndex& flat, kir::VarId loop) {
  std::int64_t factor = 0;
  for (const te::LinearIndex::Term& term : flat.terms) {
    if (term.atom->op == ExprOp::Var && term.atom->var == loop && term.coefficient.is_constant()) {
      factor += term.coefficient.constant();
    } else if (te::variables_of(term.atom).contains(loop)) {
      return std::nullopt;
    }
  }
  return factor;
}

// Of rows of a multiple of four lanes, as many of them as there are lanes: the columns.
std::vector<Value*> transposed(llvm::IRBuilder<>& b, std::vector<Value*> rows) {
  const int lanes = static_cast<int>(rows.size()), quarters = lanes / kQuarter;
  // Each pair's elements interleaved within every quarter: from `first` on, by groups of `width`.
  auto interleaved = [&](Value* one, Value* two, int width, bool high) {
    std::vector<int> from;
    for (int quarter = 0; quarter < quarters; ++quarter) {
      for (int place = 0; place < kQuarter; ++place) {
        const int pair = place / width, start = (high ? kQuarter / 2 : 0) + pair / 2 * width;
        from.push_back((pair % 2 == 0 ? 0 : lanes) + quarter * kQuarter + start + place % width);
      }
    }
    return b.CreateShuffleVector(one, two, from);
  };
  for (std::size_t r = 0; r < rows.size(); r += kQuarter) {
    Value* pairs[] = {interleaved(rows[r], rows[r + 1], 1, false), interleaved(rows[r], rows[r + 1], 1, true),
                      interleaved(rows[r + 2], rows[r + 3], 1, false),
                      interleaved(rows[r + 2], rows[r + 3], 1, true)};
    rows[r] = interleaved(pairs[0], pairs[2], 2, false);
    rows[r + 1] = interleaved(pairs[0], pairs[2], 2, true);
    rows[r + 2] = interleaved(pairs[1], pairs[3], 2, false);
    rows[r + 3] = interleaved(pairs[1], pairs[3], 2, true);
  }
  // Now quarter q of row 4 g + c has column 4 q + c of the rows 4 g .. 4 g + 3: quarters change places with groups.
  for (int distance = 1; distance < quarters; distance *= 2) {
    std::vector<Value*> next(rows.size());
    for (int c = 0; c < kQuarter; ++c) {
      for (int g = 0; g < quarters; g += 2) {
        for (int odd = 0; odd < 2; ++odd) {  // the even quarters of two groups, and the odd ones
          std::vector<int> from;
          for (int q = 0; q < quarters; ++q) {
            const int source = q < quarters / 2 ? 0 : lanes, quarter = 2 * (q % (quarters / 2)) + odd;
            for (int place = 0; place < kQuarter; ++place)
              from.push_back(source + quarter * kQuarter + place);
          }
          const auto at = [](int group, int column) {
            return static_cast<std::size_t>(group * kQuarter + column);
          };
          next[at(g / 2 + odd * (quarters / 2), c)] =
              b.CreateShuffleVector(rows[at(g, c)], rows[at(g + 1, c)], from);
        }
      }
    }
    rows = std::move(next);
  }
  return rows;
}

}  // namespace

bool KernelEmitter::is_transposed_store(const StmtNode& loop) {
  if (lanes_ || mask_ != nullptr || tile_rows_ != nullptr) return false;
  const std::int64_t rows = kernel_.variable(loop.var).extent.constant();
  const auto [store, lane, lanes] = tile_store(kernel_, loop);
  if (store == nullptr || rows < kFewestRows || rows > kMostRows || store->condition.defined()) return false;
  if (lanes != 4 && lanes != 8 && lanes != 16) return false;
  if (in_registers(store->buffer) || is_packed(store->buffer) ||
      element_type(store->buffer)->getScalarSizeInBits() != 32)
    return false;
  bool reads_itself = false;
  te::for_each_node(store->value, [&](const te::ExprNode& node) {
    reads_itself = reads_itself || (te::is_load(node) && node.buffer == store->buffer);
  });
  const te::LinearIndex& flat = analysis_.access(*store).flat;
  const auto along_rows = factor_of(flat, loop.var), along_lanes = factor_of(flat, lane);
  return !reads_itself && along_rows == 1 && along_lanes && std::abs(*along_lanes) >= rows;
}

// Rows are computed as they would be; their stores wait for the last of them.
Status KernelEmitter::transposed_store(const StmtNode& loop) {
  const std::int64_t count = kernel_.variable(loop.var).extent.constant();
  std::vector<TileRow> rows;
  tile_rows_ = &rows;
  Status status;
  for (std::int64_t row = 0; row < count && status; ++row) {
    variables_[loop.var.index] = b_.getInt64(static_cast<std::uint64_t>(row));
    status = statement(loop.body.front());
  }
  tile_rows_ = nullptr;
  XYNTRA_CHECK_OK(std::move(status));
  const std::size_t vectors = rows.size() / static_cast<std::size_t>(count);
  for (std::size_t v = 0; v < vectors; ++v) {
    std::vector<Value*> column;
    for (std::size_t r = 0; r < static_cast<std::size_t>(count); ++r)
      column.push_back(rows[r * vectors + v].element);
    store_columns(tile_store(kernel_, loop).store->buffer, rows[v].place, column);
  }
  return {};
}

// As many rows at a time as a vector has lanes; the last of them may be fewer.
void KernelEmitter::store_columns(kir::BufferId buffer, const Place& first, const std::vector<Value*>& rows) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(rows.front()->getType());
  const std::size_t lanes = vector->getNumElements();
  const Align align = Align(vector->getScalarSizeInBits() / 8);
  for (std::size_t begin = 0; begin < rows.size(); begin += lanes) {
    const std::size_t some = std::min(lanes, rows.size() - begin);
    std::vector<Value*> tile(lanes, llvm::PoisonValue::get(vector));
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(begin), some, tile.begin());
    const std::vector<Value*> columns = transposed(b_, std::move(tile));
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t offset =
          static_cast<std::int64_t>(lane) * first.stride + static_cast<std::int64_t>(begin);
      Value* pointer =
          b_.CreateConstGEP1_64(vector->getElementType(), first.pointer, static_cast<std::uint64_t>(offset));
      if (some == lanes) {
        marked(buffer, b_.CreateAlignedStore(columns[lane], pointer, align));
      } else if (costs_->isLegalMaskedStore(vector, align)) {
        std::vector<llvm::Constant*> on;
        for (std::size_t i = 0; i < lanes; ++i) on.push_back(b_.getInt1(i < some));
        marked(buffer, b_.CreateMaskedStore(columns[lane], pointer, align, llvm::ConstantVector::get(on)));
      } else {
        std::vector<int> kept(some);
        for (std::size_t i = 0; i < some; ++i) kept[i] = static_cast<int>(i);
        marked(buffer, b_.CreateAlignedStore(b_.CreateShuffleVector(columns[lane], kept), pointer, align));
      }
    }
  }
}

}  // namespace xyntra::cpu_code
