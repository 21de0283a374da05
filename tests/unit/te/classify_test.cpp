#include "te/cost/classify.h"

#include <gtest/gtest.h>

namespace xyntra::te {
namespace {

const Dim kN = Dim::symbol("n");

// One stage over y[i, j], made by `body` from two inputs and the two axes.
class OneStage {
 public:
  OneStage()
      : builder("f"),
        x(builder.input(0, "x", DType::F32, {kN, kN})),
        w(builder.input(1, "w", DType::F32, {kN, kN})),
        ids(builder.input(2, "ids", DType::I64, {kN})),
        y(builder.output(0, "y", DType::F32, {kN, kN})),
        i(builder.axis(kN, "i")),
        j(builder.axis(kN, "j")),
        k(builder.axis(kN, "k")) {}

  WorkShape map(const Expr& body) {
    builder.write(y, {i, j}, body);
    return classify(builder.formula());
  }
  WorkShape reduce(Reducer reducer, const Expr& body) {
    builder.write_reduced(y, {i, j}, reducer, {k}, body);
    return classify(builder.formula());
  }

  Builder builder;
  Buffer x, w, ids, y;
  Axis i, j, k;
};

#define EXPECT_SHAPE(expected, expression)                   \
  do {                                                       \
    OneStage s;                                              \
    EXPECT_EQ(name_of(s.expression), std::string(expected)); \
  } while (false)

TEST(Classify, OneStageByItsFormula) {
  EXPECT_SHAPE("movement", map(s.x(s.j, s.i)));
  EXPECT_SHAPE("movement", map(select(s.i.expr() < 3, s.x(s.i, s.j), s.w(s.i, s.j))));
  EXPECT_SHAPE("pointwise", map(exp(s.x(s.i, s.j))));
  EXPECT_SHAPE("gather", map(s.x(s.ids(s.i), s.j)));
  EXPECT_SHAPE("row reduction", reduce(Reducer::Max, s.x(s.i, s.k)));
  EXPECT_SHAPE("row reduction", reduce(Reducer::Sum, s.x(s.i, s.k) * s.x(s.i, s.k)));
  EXPECT_SHAPE("contraction", reduce(Reducer::Sum, s.x(s.i, s.k) * s.w(s.k, s.j)));
  EXPECT_SHAPE("window", reduce(Reducer::Sum, s.x(s.i, s.j.expr() + s.k) * s.w(s.i, s.k)));
  EXPECT_SHAPE("gather", reduce(Reducer::Sum, s.x(s.i, s.ids(s.k))));
}

// x[g * 4 + m] with m < 4 is one axis seen as two; x[g * 2 + m] overlaps.
TEST(Classify, ASplitAxisIsNoWindow) {
  for (int stride : {4, 2}) {
    Builder builder("f");
    Buffer x = builder.input(0, "x", DType::F32, {kN}), y = builder.output(0, "y", DType::F32, {kN});
    Axis g = builder.axis(kN, "g"), m = builder.axis(4, "m");
    builder.write_reduced(y, {g}, Reducer::Sum, {m}, x(g.expr() * stride + m));
    WorkShape expected = stride == 4 ? WorkShape::RowReduction : WorkShape::Window;
    EXPECT_EQ(classify(builder.formula()), expected) << stride;
  }
}

}  // namespace
}  // namespace xyntra::te
