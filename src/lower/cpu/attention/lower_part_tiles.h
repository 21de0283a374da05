// Attention's products of f32 on tiles for bf16 (float_parts.h), for one block of queries and one of keys. A block of tiles is
// 32 rows by 32 columns; while the unit multiplies the parts of one, the vector units make weights of the one before.
#pragma once

#include "lower/cpu/attention/prepare_key_blocks.h"
#include "lower/lowering.h"

namespace xyntra {

class PartTiles {
 public:
  // For blocks of at most so many queries.
  PartTiles(Lowering& lowering, const KeyBlocks& blocks, std::int64_t queries);

  // Phases that make parts of keys and values.
  std::vector<kir::Stmt> pack();

  // Which queries: their number is a multiple of 32.
  struct Queries {
    te::Expr first;
    std::int64_t count = 0;
  };
  // Parts of the queries, from where they lie as f32.
  kir::Stmt split_queries(const te::Substitution& bound, const Queries& queries);
  // Scores as the stage has them; weights as parts, and their sums.
  kir::Stmt scores(const te::Substitution& bound, const Queries& queries);
  kir::Stmt weights(const te::Substitution& bound, const Queries& queries);
  // Parts of weights that lie in the place of the scores.
  kir::Stmt split_weights(const te::Substitution& bound, const Queries& queries);
  // The results with those of the block added.
  kir::Stmt weighted(const te::Substitution& bound, const Queries& queries);

 private:
  // What is done with a row of a block of tiles.
  using Row = std::function<kir::Stmt(const te::Expr& block, const te::Expr& row)>;
  struct Product {
    kir::BufferId left;  // parts of rows
    const PartPanels* right;
    std::int64_t steps = 0, across = 0;  // along the sum; blocks of columns
    Queries queries;
    te::Substitution bound;

    te::Expr down(const te::Expr& block) const { return floor_div(block, te::Expr::index(across)); }
    te::Expr along(const te::Expr& block) const { return mod(block, te::Expr::index(across)); }
  };
  Product of_scores(const te::Substitution& bound, const Queries& queries) const;

  kir::Stmt over_blocks(const Product& product, const Row& row);
  kir::Stmt multiply(const Product& product, const te::Expr& block, const Row& row);
  Row finished(const Product& product, const te::Stage& stage, te::VarId column);
  te::Expr sum(const te::Expr& block, const te::Expr& row, const te::Expr& column) const;
  te::Substitution at_row(const Product& product, const te::Expr& block, const te::Expr& row) const;

  kir::Stmt pack(const PartPanels& panels);
  kir::Stmt split(const te::Expr& factor, te::VarId along, kir::BufferId target, std::int64_t steps,
                  const te::Substitution& bound, const Queries& queries);
  kir::Stmt keep(std::int64_t side, const te::Expr& lane, Lowering::Body value);
  kir::Stmt store_parts(kir::BufferId target, std::vector<te::Expr> place, const te::Expr& row);

  Lowering& lowering_;
  const KeyBlocks& blocks_;
  kir::BufferId sum_, left_, right_;  // tile registers
  kir::BufferId sums_;  // of two blocks of tiles, in memory
  kir::BufferId pair_;  // what is being split
  kir::BufferId queries_, weights_;  // parts
};

}  // namespace xyntra
