#include "fusion/groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/text.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

struct Planned {
  Graph graph;
  Grouping grouping;

  // "contraction: MatMul Add | row reduction: Softmax"
  std::string text() const {
    std::string all;
    for (const Group& group : grouping.groups) {
      all += (all.empty() ? "" : " | ") + std::string(name_of(group.hero)) + ":";
      for (NodeId node : group.nodes) all += " " + graph.node(node).op;
    }
    return all;
  }
  std::string reason(std::string_view from, std::string_view to) const {
    for (const EdgeVerdict& edge : grouping.edges) {
      if (graph.node(edge.from).op == from && graph.node(edge.to).op == to) return edge.reason;
    }
    return "no such edge";
  }
};

Planned planned(const std::string& body, const char* target_name = "avx512") {
  auto module = parse_xir("xir 1\ngraph @main" + body);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().to_string());
  Planned result{std::move(module->graph), {}};
  EXPECT_TRUE(infer_types(result.graph).has_value());
  auto fusion_nodes = FusionNodes::of(result.graph);
  EXPECT_TRUE(fusion_nodes.has_value());
  auto grouping = group_nodes(*fusion_nodes, **find_target(target_name), {});
  EXPECT_TRUE(grouping.has_value());
  result.grouping = std::move(*grouping);
  return result;
}

TEST(GroupsTest, WhatFollowsAMatmulJoinsIt) {
  EXPECT_EQ(planned(R"((%x: f32[128, 64], %w: f32[64, 256], %b: f32[256]) -> (%y) {
    %p = MatMul(%x, %w)
    %q = Add(%p, %b)
    %y = Gelu(%q)
  })")
                .text(),
            "contraction: MatMul Add Gelu");
}

TEST(GroupsTest, ReshapesAndTransposesCostNothing) {
  EXPECT_EQ(planned(R"((%x: f32[2, 128, 64], %w: f32[64, 256]) -> (%y) {
    const %heads: i64[4] = [2, 128, 8, 32]
    %p = MatMul(%x, %w)
    %r = Reshape(%p, %heads)
    %t = Transpose(%r) {perm = [0, 2, 1, 3]}
    %y = Exp(%t)
  })")
                .text(),
            "contraction: MatMul Reshape Transpose Exp");
}

TEST(GroupsTest, AttentionIsFoundHoweverItIsSpelt) {
  Planned plan = planned(
      R"((%q: f32[2, 8, 64, 32], %k: f32[2, 8, 64, 32], %v: f32[2, 8, 64, 32], %mask: bool[64, 64]) -> (%y) {
    const %scale: f32[] = 0.17677669
    const %cap: f32[] = 30.0
    const %low: f32[] = -10000.0
    %kt = Transpose(%k) {perm = [0, 1, 3, 2]}
    %s = MatMul(%q, %kt)
    %scaled = Mul(%s, %scale)
    %small = Div(%scaled, %cap)
    %bent = Tanh(%small)
    %capped = Mul(%bent, %cap)
    %masked = Where(%mask, %capped, %low)
    %p = Softmax(%masked)
    %y = MatMul(%p, %v)
  })");
  EXPECT_EQ(plan.text(), "attention: Transpose MatMul Mul Div Tanh Mul Where Softmax MatMul");
  EXPECT_EQ(plan.grouping.groups[0].schedule.exactness, Exactness::Reassociating) << "online softmax";
}

TEST(GroupsTest, TwoMatmulsInARowAreNoAttention) {
  Planned plan = planned(R"((%x: f32[128, 64], %a: f32[64, 256], %b: f32[256, 64]) -> (%y) {
    %h = MatMul(%x, %a)
    %r = Relu(%h)
    %y = MatMul(%r, %b)
  })");
  EXPECT_EQ(plan.text(), "contraction: MatMul Relu | contraction: MatMul");
  EXPECT_NE(plan.reason("Relu", "MatMul").find("two contractions"), std::string::npos)
      << plan.reason("Relu", "MatMul");
}

TEST(GroupsTest, ANormIsPreparedForTheMatmulThatReadsIt) {
  EXPECT_EQ(planned(R"((%x: f32[128, 64], %g: f32[64], %b: f32[64], %w: f32[64, 256]) -> (%y) {
    %n = LayerNormalization(%x, %g, %b)
    %y = MatMul(%n, %w)
  })")
                .text(),
            "contraction: LayerNormalization MatMul");
}

TEST(GroupsTest, ANormThatIsAlsoAResultIsMadeOnce) {
  Planned plan = planned(R"((%x: f32[128, 64], %g: f32[64], %b: f32[64], %w: f32[64, 256]) -> (%n, %y) {
    %n = LayerNormalization(%x, %g, %b)
    %y = MatMul(%n, %w)
  })");
  EXPECT_EQ(plan.text(), "row reduction: LayerNormalization | contraction: MatMul");
  EXPECT_EQ(plan.reason("LayerNormalization", "MatMul"),
            "a value that its main loop reads is also needed elsewhere");
}

TEST(GroupsTest, AResidualIsWrittenBesideTheNormItFeeds) {
  Planned plan = planned(R"((%x: f32[128, 64], %r: f32[128, 64], %g: f32[64], %b: f32[64]) -> (%s, %n) {
    %s = Add(%x, %r)
    %n = LayerNormalization(%s, %g, %b)
  })");
  EXPECT_EQ(plan.text(), "row reduction: Add LayerNormalization");
  EXPECT_EQ(plan.grouping.groups[0].outputs.size(), 2u);
}

TEST(GroupsTest, NoGroupClosesACircle) {
  // The two ends of the chain could share a loop, but what lies between them is a host operation.
  Planned plan = planned(R"((%x: f32[64]) -> (%y) {
    const %k: i64[1] = [64]
    %a = Exp(%x)
    %s, _ = TopK(%a, %k)
    %y = Add(%a, %s)
  })");
  EXPECT_EQ(plan.text(), "none: Exp | host: TopK | none: Add");
  EXPECT_EQ(plan.reason("Exp", "Add"), "a value goes from one to the other through a third group");
}

TEST(GroupsTest, IndependentCopiesShareALaunch) {
  Planned plan = planned(
      R"((%k: f32[1, 8, 16, 64], %v: f32[1, 8, 16, 64], %a: f32[1, 8, 1, 64], %b: f32[1, 8, 1, 64]) -> (%x, %y) {
    %x = Concat(%k, %a) {axis = 2}
    %y = Concat(%v, %b) {axis = 2}
  })");
  EXPECT_EQ(plan.text(), "movement: Concat Concat");
}

TEST(GroupsTest, TheTargetDecidesToo) {
  const char* body =
      R"((%a: f32[64], %b: f32[64], %c: f32[64], %d: f32[64], %e: f32[64], %f: f32[64], %g: f32[64], %h: f32[64]) -> (%y) {
    %1 = Add(%a, %b)
    %2 = Add(%1, %c)
    %3 = Add(%2, %d)
    %4 = Add(%3, %e)
    %5 = Add(%4, %f)
    %6 = Add(%5, %g)
    %y = Add(%6, %h)
  })";
  EXPECT_EQ(planned(body, "avx512").grouping.groups.size(), 1u);
  EXPECT_EQ(planned(body, "webgpu").grouping.groups.size(), 2u)
      << "nine buffers, and a WebGPU kernel has eight";
}

TEST(GroupsTest, EveryEdgeHasAVerdictWithAReason) {
  Planned plan = planned(R"((%x: f32[128, 64], %w: f32[64, 64]) -> (%y) {
    %t = Transpose(%x)
    %e = Exp(%t)
    %p = MatMul(%x, %w)
    %y = MatMul(%e, %p)
  })");
  EXPECT_EQ(plan.grouping.edges.size(), 3u);
  for (const EdgeVerdict& edge : plan.grouping.edges) EXPECT_FALSE(edge.reason.empty());
}

// ---- relayouts

// A matmul with an operand that lies along neither its columns nor its sum.
std::string transposed_matmul(std::int64_t rows, std::int64_t side) {
  const std::string n = std::to_string(side);
  return "(%a: f32[4, " + std::to_string(rows) + ", " + n + "], %b: f32[" + n + ", " + n +
         ", 4]) -> (%y) { %t = Transpose(%b) {perm = [2, 0, 1]} %y = MatMul(%a, %t) }";
}

TEST(RelayoutTest, AStridedOperandIsCopiedOnceForAMatmul) {
  Planned plan = planned(transposed_matmul(16, 48));
  EXPECT_EQ(plan.text(), "movement: Transpose | contraction: MatMul");
  ASSERT_EQ(plan.grouping.choices.size(), 1u);
  const LayoutChoice& choice = plan.grouping.choices[0];
  EXPECT_EQ(choice.taken.way, LayoutChoice::Way::Stage);
  EXPECT_GT(choice.taken.ns, 0);
  EXPECT_GT(choice.other.ns, choice.taken.ns);
  EXPECT_EQ(plan.reason("Transpose", "MatMul"),
            "a copy once is cheaper than strides in everyone who reads it");
}

TEST(RelayoutTest, ALaunchCostsMoreThanAFewStrides) {
  EXPECT_EQ(planned(transposed_matmul(1, 8)).text(), "contraction: Transpose MatMul");
  // Threads bring an operand once for all rows of a block: it takes many blocks.
  EXPECT_EQ(planned(transposed_matmul(128, 1024), "webgpu").text(), "contraction: Transpose MatMul");
  EXPECT_EQ(planned(transposed_matmul(1024, 1024), "webgpu").text(),
            "movement: Transpose | contraction: MatMul");
}

TEST(RelayoutTest, AnOperandAlongTheSumIsReadWhereItIs) {
  Planned plan = planned(R"((%a: f32[256, 256], %b: f32[256, 256]) -> (%y) {
    %t = Transpose(%b) {perm = [1, 0]}
    %y = MatMul(%a, %t)
  })");
  EXPECT_EQ(plan.text(), "contraction: Transpose MatMul");
  EXPECT_TRUE(plan.grouping.choices.empty()) << "there was nothing to weigh";
}

// Sums of a transposed value along its rows, each after a matmul that keeps the groups apart.
TEST(RelayoutTest, ManyReadersShareACopyAndOneReadsThrough) {
  auto readers = [](int count) {
    std::string graph = "(%x: f32[512, 512]", outputs, nodes = "%t = Transpose(%x) {perm = [1, 0]} ";
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      graph += ", %w" + n + ": f32[512, 512], %v" + n + ": f32[512, 512]";
      outputs += (i > 0 ? ", %y" : "%y") + n;
      nodes += "%p" + n + " = MatMul(%w" + n + ", %v" + n + ") %y" + n + " = Add(%p" + n + ", %t) ";
    }
    return graph + ") -> (" + outputs + ") { " + nodes + "}";
  };
  EXPECT_EQ(planned(readers(1)).text(), "contraction: MatMul | none: Transpose Add");
  EXPECT_EQ(
      planned(readers(3)).text(),
      "movement: Transpose | contraction: MatMul Add | contraction: MatMul Add | contraction: MatMul Add");
}

TEST(GroupsTest, AMatmulKeepsItsLoopBesideARangeThatIsFoundFirst) {
  Planned plan = planned(R"((%x: f32[128, 64], %w: i8[64, 256], %s: f32[256]) -> (%y) {
    %q: u8[128, 64], %scale: f32[], %zero: u8[] = DynamicQuantizeLinear(%x)
    %p: i32[128, 256] = MatMulInteger(%q, %w, %zero)
    %r: f32[128, 256] = Cast(%p) {to = 1}
    %both: f32[256] = Mul(%scale, %s)
    %y: f32[128, 256] = Mul(%r, %both)
  })");
  EXPECT_EQ(plan.text(), "row reduction: DynamicQuantizeLinear Mul | contraction: MatMulInteger Cast Mul");
  EXPECT_EQ(plan.grouping.groups[1].schedule.kind, ScheduleKind::Contraction);
}

// Scales and zero points differ from layer to layer; kernels do not.
TEST(GroupsTest, ScalesAreOperandsAndOtherNumbersAreNot) {
  Planned plan = planned(R"((%x: u8[128, 64]) -> (%y) {
    const %s: f32[] = 0.3
    const %z: u8[] = 0
    const %half: f32[] = 0.5
    %r: f32[128, 64] = DequantizeLinear(%x, %s, %z)
    %y: f32[128, 64] = Mul(%r, %half)
  })");
  ASSERT_EQ(plan.grouping.groups.size(), 1u);
  std::string inputs;
  for (ValueId input : plan.grouping.groups[0].inputs) inputs += plan.graph.value(input).name + " ";
  EXPECT_EQ(inputs, "x s ");
}

// Constant bytes that two read as numbers are widened by both; others are widened once.
TEST(GroupsTest, BytesAreWidenedByWhoeverReadsThem) {
  auto shared = [](const std::string& table) {
    return planned("(%x: f32[8, 4], %i: i64[8]" + table + R"(
    %w = DequantizeLinear(%q, %s)
    %y = MatMul(%x, %w)
    %z = Gather(%w, %i)
  })")
        .text();
  };
  EXPECT_EQ(shared(") -> (%y, %z) {\n const %q: i8[4, 2] = [1, 2, 3, 4, 5, 6, 7, 8]\n const %s: f32[] = 0.5"),
            "contraction: DequantizeLinear MatMul | none: DequantizeLinear Gather");
  EXPECT_EQ(shared(", %q: i8[4, 2]) -> (%y, %z) {\n const %s: f32[] = 0.5"),
            "none: DequantizeLinear Gather | contraction: MatMul");
}

// Rows that are looked up are looked up once, before the matmul that multiplies them.
TEST(GroupsTest, AMatmulOfRowsThatAreLookedUpIsAContraction) {
  EXPECT_EQ(planned(R"((%i: i64[64], %t: f32[1000, 64], %w: f32[64, 256]) -> (%y) {
    %x = Gather(%t, %i)
    %y = MatMul(%x, %w)
  })")
                .text(),
            "contraction: Gather MatMul");
}

}  // namespace
}  // namespace xyntra
