#include "te/walk.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

TEST(Walk, TellsWhatAStageReads) {
  Builder f("f");
  Buffer table = f.input(0, "table", DType::F32, {8}), at = f.input(1, "at", DType::I64, {4}),
         scale = f.input(2, "scale", DType::F32, {4}), unread = f.input(3, "unread", DType::F32, {4}),
         y = f.output(0, "y", DType::F32, {4});
  Axis i = f.axis(4, "i");
  f.write(y, {i}, table(at(i)) * scale(i));
  const Formula formula = std::move(f).finish();
  const Stage& stage = formula.stages.front();
  // Also what an index is looked up in.
  for (const Buffer& buffer : {table, at, scale}) EXPECT_TRUE(reads(stage, buffer.id())) << buffer.id().index;
  EXPECT_FALSE(reads(stage, unread.id()));
  EXPECT_FALSE(reads(stage, y.id()));
  EXPECT_TRUE(reads(stage.body, at.id()));
  EXPECT_TRUE(reads_data(stage.body));
  EXPECT_FALSE(reads_data(stage.store.front()));
  EXPECT_FALSE(reads(stage.finish, table.id()));  // there is none
}

// A tree of 2^200 leaves where sharing is forgotten.
Expr doubled(Expr value) {
  for (int i = 0; i < 200; ++i) value = i % 2 == 0 ? value + value : value * value;
  return value;
}

TEST(Walk, LooksAtWhatIsSharedOnce) {
  Builder f("f");
  Buffer x = f.input(0, "x", DType::F32, {8});
  Axis i = f.axis(8, "i"), j = f.axis(8, "j");
  const Expr a = doubled(x(i)), again = doubled(x(i)), other = doubled(x(j));
  EXPECT_TRUE(same(a, again));
  EXPECT_FALSE(same(a, other));
  std::map<VarId, VarId> loops;
  EXPECT_TRUE(is_renamed(a, other, loops));
  EXPECT_EQ(loops, (std::map<VarId, VarId>{{i.id, j.id}}));
  std::size_t nodes = 0;
  for_each_node(substituted(a, {{i.id.index, Expr::variable(j.id)}}), [&](const ExprNode&) { ++nodes; });
  EXPECT_EQ(nodes, 202U);  // the variable, the load, and a node for each doubling
}

}  // namespace
}  // namespace xyntra::te
