#include "te/narrow.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

struct Rounded {
  Formula formula;
  BufferId between;
};

// t[i] = f32(bf16(x[i])); y[i] = t[i] + t[i] * 2
Rounded rounded(DType wide, DType narrow) {
  Builder builder("rounded");
  Buffer x = builder.input(0, "x", wide, {8}), y = builder.output(0, "y", wide, {8});
  Buffer t = builder.temporary("t", wide, {8});
  Axes written = builder.axes({8}), read = builder.axes({8});
  builder.write(t, written, cast(wide, cast(narrow, x(written))));
  builder.write(y, read, t(read) + t(read) * Expr::number(wide, 2));
  return {std::move(builder).finish(), t.id()};
}

TEST(NarrowTemporaries, WhatWasRoundedIsKeptSo) {
  for (const DType narrow : {DType::BF16, DType::F16}) {
    Rounded made = rounded(DType::F32, narrow);
    narrow_temporaries(made.formula);
    ASSERT_TRUE(verify(made.formula));
    EXPECT_EQ(made.formula.buffer(made.between).dtype, narrow);
    EXPECT_EQ(made.formula.stages[0].body.dtype(), narrow);
    EXPECT_EQ(made.formula.stages[1].body.dtype(), DType::F32);
  }
}

TEST(NarrowTemporaries, IntegersAndWiderOnesStay) {
  for (const DType narrow : {DType::F32, DType::I8}) {
    Rounded made = rounded(DType::F64, narrow);
    narrow_temporaries(made.formula);
    EXPECT_EQ(made.formula.buffer(made.between).dtype, DType::F64);
  }
}

}  // namespace
}  // namespace xyntra::te
