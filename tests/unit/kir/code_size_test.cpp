#include "kir/code_size.h"

#include "unit/kir/cases.h"

namespace xyntra::kir {
namespace {

std::int64_t size_of(const std::string& body) {
  return code_size(
      parsed("kernel k(x: f32[4, 64], y: f32[4, 64] global out) {\n  register r: f32[8]\n" + body + "}\n"));
}

TEST(KirCodeSize, CountsOperationsWithFunctionsByTheirDefinitions) {
  const std::int64_t load = size_of("grid a < 4 { y[a, 0] = x[a, 0] }");
  EXPECT_EQ(size_of("grid a < 4 { y[a, 0] = x[a, 0] * 2 + 1 }"), load + 2);
  const std::int64_t cosine = size_of("grid a < 4 { y[a, 0] = cos(x[a, 0]) }") - load;
  EXPECT_GT(cosine, 50);
  EXPECT_EQ(size_of("grid a < 4 { y[a, 0] = cos(cos(x[a, 0])) }"), load + 2 * cosine);
}

TEST(KirCodeSize, LoopsAreWrittenOutWhereTheyAreUnrolled) {
  const std::int64_t once = size_of("grid a < 4 { for i < 7 { y[a, 0] = cos(x[a, 0]) } }");
  EXPECT_EQ(size_of("grid a < 4 { unrolled i < 7 { y[a, 0] = cos(x[a, 0]) } }"), 7 * once);
  EXPECT_EQ(size_of("grid a < 4 { unrolled i < 7 { unrolled j < 2 { y[a, 0] = cos(x[a, 0]) } } }"),
            14 * once);
}

TEST(KirCodeSize, FunctionsOfVectorsAreWrittenLaneByLane) {
  const std::int64_t sum = size_of("grid a < 4 { vector l < 1 { y[a, l] = x[a, l] + 1 } }");
  EXPECT_EQ(size_of("grid a < 4 { vector l < 4 { y[a, l] = x[a, l] + 1 } }"), sum);
  const std::int64_t function = size_of("grid a < 4 { vector l < 1 { y[a, l] = tanh(x[a, l]) } }");
  EXPECT_EQ(size_of("grid a < 4 { vector l < 4 { y[a, l] = tanh(x[a, l]) } }"), 4 * function);
}

TEST(KirCodeSize, RegistersHaveNoAddresses) {
  auto indexes = [](const std::string& inside) {
    const Kernel kernel = parsed(
        "kernel k(x: f32[4, 64], y: f32[4, 64] global out) {\n  register r: f32[8]\n  grid a < 4 { for i < 8 "
        "{\n" +
        inside + "\n} }\n}\n");
    const Stmt loop = kernel.body->kind == StmtNode::Kind::Block ? kernel.body->body.front() : kernel.body;
    const Stmt inner = loop->body.front();
    return indexes_registers(kernel, inner->body.front(), inner->var);
  };
  EXPECT_TRUE(indexes("r[i] = 1"));
  EXPECT_TRUE(indexes("y[a, i] = r[7 - i]"));
  EXPECT_FALSE(indexes("r[0] = x[a, i]"));
  EXPECT_FALSE(indexes("y[a, i] = r[0]"));
}

}  // namespace
}  // namespace xyntra::kir
