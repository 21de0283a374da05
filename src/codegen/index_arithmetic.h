// Indices as machines compute them. Those of kernels are sums of 64 bits with divisions that round down; what comes to a machine is
// in its own words, and of 32 bits where these hold it:
//
//   floordiv(i, 4)      to   i / 4              where i is natural: no sign is looked at
//   floordiv(i, n)      to   select(n == 0, 0, …)                             kir/legalize/division.h
//   i * 16 + 3          to   i32(i) * 16 + 3    a position
//
// What is made of an index is made once, so that whoever remembers values by node finds them.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "te/index/index.h"

namespace xyntra::codegen {

class IndexArithmetic {
 public:
  // `algebra` outlives it. `reads_words`: numbers of 32 bits that are read from memory make positions, too.
  explicit IndexArithmetic(const te::IndexAlgebra& algebra, bool reads_words)
      : algebra_(algebra), reads_words_(reads_words) {}

  // Whether an index is shown to be at least 0.
  bool is_natural(const te::Expr& index);

  bool is_of_naturals(const te::ExprNode& division);  // and divides by a positive number

  // What stands in the place of a division of i64; undefined for one that is the machine's own.
  te::Expr division(const te::Expr& expr);
  // Whether a division is of natural numbers by positive ones.
  bool divides_naturals(const te::ExprNode& division) const { return of_naturals_.contains(&division); }

  // Whether it is made of loops, sizes and numbers of 32 bits, so that 32 bits hold it. What was read from memory can be anything,
  // so it is not multiplied.
  bool is_position(const te::Expr& index, bool may_read = true);
  te::Expr narrowed(const te::Expr& position);  // as an i32, with the machine's divisions

 private:
  bool finds_position(const te::ExprNode& node, bool may_read);
  te::Expr narrowed_division(const te::ExprNode& node, const te::Expr& a, const te::Expr& b);
  te::Expr narrowed_anew(const te::Expr& position);

  const te::IndexAlgebra& algebra_;
  const bool reads_words_;
  // What is remembered by node holds the node: many indices are made for one question, and an address that is free again is another's.
  struct Found {
    te::Expr node;
    bool holds = false;
  };
  struct Made {
    te::Expr node, value;
  };
  std::unordered_map<const te::ExprNode*, Found> natural_, position_, position_unread_;
  std::unordered_map<const te::ExprNode*, Made> divisions_, narrowed_;
  std::unordered_set<const te::ExprNode*> by_machine_, of_naturals_;
};

}  // namespace xyntra::codegen
