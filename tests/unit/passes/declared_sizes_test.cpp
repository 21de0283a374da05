#include "passes/declared_sizes.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace xyntra {
namespace {

Module model() {
  auto module = parse_xir(R"(xir 1
module { symbol batch in 2..8 }
graph @main(%x: f32[batch, seq]) -> (%y) {
  %y: f32[batch, seq] = Relu(%x)
}
)");
  EXPECT_TRUE(module.has_value()) << module.error().message;
  return std::move(*module);
}

std::string message_of(const std::vector<std::string>& texts) {
  const auto declared = declared_sizes(model().graph, texts, "--dim ");
  return declared ? "no error" : declared.error().message;
}

TEST(DeclaredSizes, SizesAndRanges) {
  const std::vector<std::string> texts{"seq=128", "seq=1..512", "batch=4..4"};
  const auto declared = declared_sizes(model().graph, texts, "--dim ");
  ASSERT_TRUE(declared.has_value()) << declared.error().message;
  EXPECT_EQ(declared->sizes, (SymbolBindings{{"seq", 128}}));
  EXPECT_EQ(declared->ranges, (SymbolRanges{{"seq", {1, 512}}, {"batch", {4, 4}}}));
}

TEST(DeclaredSizes, Refuses) {
  EXPECT_EQ(message_of({"seq"}), "--dim seq: expected NAME=SIZE, such as seq=128");
  EXPECT_EQ(message_of({"seq=-1"}), "--dim seq=-1: expected NAME=SIZE, such as seq=128");
  EXPECT_EQ(message_of({"seq=..4"}), "--dim seq=..4: expected NAME=LOW..HIGH, such as seq=1..512");
  EXPECT_EQ(message_of({"seq=4..1"}), "--dim seq=4..1: expected NAME=LOW..HIGH, such as seq=1..512");
  EXPECT_EQ(message_of({"n=1..4"}),
            "--dim n=1..4: the inputs have no size of this name; they have batch, seq");
  EXPECT_EQ(message_of({"seq=1", "seq=1"}), "--dim seq=1: the size was given already");
  EXPECT_EQ(message_of({"seq=1..2", "seq=1..3"}), "--dim seq=1..3: the range was given already");
  EXPECT_EQ(message_of({"seq=9", "seq=1..8"}), "the size 'seq' is 9, outside of its range 1..8");
}

TEST(DeclaredSizes, RangesStayWithinThoseOfTheModel) {
  DeclaredSizes declared{{{"seq", 5}}, {{"batch", {1, 4}}, {"seq", {5, 5}}}};
  auto module = with_declared(model(), declared, nullptr);
  ASSERT_TRUE(module.has_value()) << module.error().message;
  EXPECT_EQ(module->symbols, (SymbolRanges{{"batch", {2, 4}}}));
  const Graph& graph = module->graph;
  EXPECT_EQ(graph.value(graph.inputs[0]).type.to_string(), "f32[batch, 5]");
  EXPECT_TRUE(declared.sizes.empty());

  DeclaredSizes beyond{{}, {{"batch", {9, 12}}}};
  Module narrow = model();
  const Status done = declare_ranges(narrow, beyond);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().message, "the size 'batch' cannot be in 9..12: its range is 2..8");
}

}  // namespace
}  // namespace xyntra
