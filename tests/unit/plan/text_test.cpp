#include "plan/text.h"

#include <gtest/gtest.h>

namespace xyntra {
namespace {

const std::string kHash(64, 'a');

// Everything that a lock can say.
const std::string kLock = "xlock 4\nmodel \"" + kHash + "\"\ntarget neon \"" + kHash +
                          "\"\nconfiguration \"\"\n" +
                          R"(nominal batch = 128
nominal "odd name" = 7
graph @main(%x: f32[batch, 128], %k: f32[100] = sha256")" +
                          kHash + R"(") -> (%y, %"a b") {
  const %w: f32[128, 2] = sha256")" +
                          kHash + R"("
  const %axes: i64[1] = [0]
  %h: f32[batch, 2] = MatMul(%x, %w) @encoder/matmul
  %y: f32[batch, 2] = Relu(%h)
  %"a b": f32[1, batch, 2], _ = Unsqueeze(%h, %axes)
}
graph @derived_constants() -> (%w) {
  const %u: f32[128, 1] = sha256")" +
                          kHash + R"("
  %w: f32[128, 2] = Concat(%u, %u) {axis = 1}
}
rule "matmul-bias" exact from ("encoder/matmul", "b \"q\"") to "h"
rule "sum-order" reassociating from () to "y"
assume total = [batch + 1]
group contraction {
  nodes (%h, %y)
  inputs (%x, %w)
  outputs (%h, %y)
  schedule contraction reassociating {tile_columns = 8, tile_rows = -4}
  bytes_in [512*batch + 1024]
  bytes_out [16*batch]
  flops [512*batch]
  scratch [0]
  predicted_ns 812
  reason "grown around contraction"
}
group "row reduction" {
  nodes (%"a b")
  inputs (%h)
  outputs (%"a b")
  schedule row "precision-changing" {}
  bytes_in [8*batch]
  bytes_out [8*batch]
  flops [0]
  scratch [floordiv(batch, 2)]
  predicted_ns 0
  reason ""
}
edge %h to %y fused [8*batch] "both are part of one contraction"
edge %h to %"a b" materialised [8*batch] "their groups were complete"
layout %w "[1/2, 0, 1%2]"
choice %h plain 12 not blocked 40 "channels of 1 feature map between 2 groups"
choice %"a b" stage 812 not fused 1430 "many readers"
buffer %x input
buffer %w constant
buffer %h arena 0
buffer %y output of %"a b"
buffer %"a b" view of %h at [0]
slot [8*batch] in 0..1 aligned 64
slot [64] in 1..1 aligned 128
order (1, 0)
end
)";

TEST(LockText, PrintsWhatItRead) {
  auto lock = parse_lock(kLock);
  ASSERT_TRUE(lock) << lock.error().to_string();
  EXPECT_EQ(print_lock(*lock), kLock);
  EXPECT_EQ(lock->plan.groups.size(), 2u);
  EXPECT_EQ(lock->weights.size(), 2u);
  EXPECT_EQ(lock->plan.memory.slots[0].bytes, Dim::symbol("batch") * 8);
}

TEST(LockText, WeightsGoByHashAndShortConstantsByElements) {
  Plan plan;
  plan.target = "neon";
  ValueId x = plan.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(65)}));
  const std::vector<float> ones(65, 1.0f);
  Tensor large = Tensor::from<float>(DType::F32, {65}, ones);
  ValueId w = plan.graph.add_constant("w", large);
  ValueId s = plan.graph.add_constant("s", Tensor::scalar_f32(2.0f));
  NodeId sum = plan.graph.add_node("Add", {x, w}, {"sum"});
  NodeId scaled = plan.graph.add_node("Mul", {plan.graph.output_of(sum), s}, {"scaled"});
  plan.graph.outputs = {plan.graph.output_of(scaled)};
  const std::string text = print_lock(lock_of(plan));
  EXPECT_NE(text.find("const %w: f32[65] = sha256\"" + large.content_hash() + "\"\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("const %s: f32[] = 2.0\n"), std::string::npos) << text;
  auto lock = parse_lock(text);
  ASSERT_TRUE(lock) << lock.error().to_string();
  EXPECT_EQ(print_lock(*lock), text);
  EXPECT_FALSE(lock->plan.graph.value(lock->plan.graph.find("w")).is_constant());
}

TEST(LockText, NumbersGraphsAsReadingDoes) {
  Graph graph;
  ValueId late = graph.add_constant("late", Tensor::scalar_f32(1.0f));
  ValueId early = graph.add_constant("early", Tensor::scalar_f32(2.0f));
  ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{Dim::symbol("n")}));
  NodeId first = graph.add_node("Add", {x, early}, {"a"});
  NodeId second = graph.add_node("Mul", {graph.output_of(first), late}, {"b"});
  graph.outputs = {graph.output_of(second)};
  const Graph ordered = in_text_order(graph);
  auto read = parse_xir("xir 1\n" + print_xir(graph));
  ASSERT_TRUE(read) << read.error().to_string();
  ASSERT_EQ(ordered.value_count(), read->graph.value_count());
  for (std::size_t i = 0; i < ordered.value_count(); ++i)
    EXPECT_EQ(ordered.value(ValueId(i)).name, read->graph.value(ValueId(i)).name);
  EXPECT_EQ(print_xir(ordered), print_xir(graph));
}

// Whatever part of the text is missing, the answer is an error or a lock that prints itself.
TEST(LockText, EveryPrefixIsRefused) {
  for (std::size_t length = 0; length + 1 < kLock.size(); ++length) {
    auto lock = parse_lock(std::string_view(kLock).substr(0, length));
    EXPECT_FALSE(lock) << length;
  }
}

TEST(LockText, SingleCharactersChangedNeverBreakTheReader) {
  for (std::size_t at = 0; at < kLock.size(); ++at) {
    for (char c : {'\0', '"', '%', '(', '9', '-', '\n', '\xff'}) {
      std::string text = kLock;
      text[at] = c;
      auto lock = parse_lock(text);
      if (!lock) continue;
      const std::string printed = print_lock(*lock);
      auto again = parse_lock(printed);
      ASSERT_TRUE(again) << printed << again.error().to_string();
      EXPECT_EQ(print_lock(*again), printed);
    }
  }
}

std::string error_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  auto lock = parse_lock(text);
  return lock ? "" : lock.error().message;
}

TEST(LockText, ErrorsSayWhere) {
  EXPECT_EQ(error_of(kLock, "xlock 4", "xlock 5"), "line 1, column 7: expected version 4, found '5'");
  EXPECT_EQ(
      error_of(kLock, "xlock 4", "xlock 2"),
      "line 1, column 7: the lock is of version 2, whose forms lack knobs; make it again with xyntra lock");
  EXPECT_EQ(
      error_of(kLock, "xlock 4", "xlock 1"),
      "line 1, column 7: the lock is of version 1, which names no forms; make it again with xyntra lock");
  EXPECT_EQ(error_of(kLock, "nodes (%h", "nodes (%q"), "line 22, column 10: the graph has no value %q");
  EXPECT_EQ(error_of(kLock, "nodes (%h", "nodes (%x"), "line 22, column 10: no node computes %x");
  EXPECT_EQ(error_of(kLock, "tile_rows", "b"),
            "line 25, column 57: knobs are sorted by name, each given once");
  EXPECT_EQ(error_of(kLock, "group contraction", "group fusion"),
            "line 21, column 7: expected what the group is built around: none, movement, row reduction, "
            "contraction, "
            "attention, window, scan, scatter, host; found 'fusion'");
  EXPECT_EQ(error_of(kLock, "predicted_ns 812", "predicted_ns -1"),
            "line 30, column 16: a time cannot be negative");
  EXPECT_EQ(error_of(kLock, "arena 0", "arena 99999999999"),
            "line 52, column 17: the number of a slot is too large");
  EXPECT_EQ(error_of(kLock, "flops [512*batch]", "flops [1, 2]"),
            "line 28, column 9: there is one size in these brackets");
}

}  // namespace
}  // namespace xyntra
