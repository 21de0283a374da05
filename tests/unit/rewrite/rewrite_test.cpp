#include "rewrite/rewrite.h"

#include "rewriting.h"

namespace xyntra {
namespace {

TEST(Rewrite, RemovesWhatDoesNothing) {
  const auto result = rewritten(R"(
graph @main(%x: f32[2, 3]) -> (%y) {
  const %shape: i64[2] = [2, 3]
  %a: f32[2, 3] = Identity(%x)
  %b: f32[2, 3] = Dropout(%a)
  %c: f32[2, 3] = Reshape(%b, %shape)
  %d: f32[2, 3] = Transpose(%c) {perm = [0, 1]}
  %e: f32[2, 3] = Cast(%d) {to = 1}
  %y: f32[2, 3] = Relu(%e)
}
)");
  EXPECT_EQ(ops_of(result.graph), "Relu");
}

TEST(Rewrite, KeepsInputsAndOutputsByName) {
  const auto result = rewritten(R"(
graph @main(%x: f32[2], %unused: f32[3]) -> (%y, %x, %z, %w) {
  %y: f32[2] = Identity(%x)
  %z: f32[2] = Relu(%x)
  %w: f32[2] = Relu(%x)
}
)");
  ASSERT_EQ(result.graph.inputs.size(), 2u);
  EXPECT_EQ(result.graph.value(result.graph.inputs[1]).name, "unused");
  std::string names;
  for (ValueId output : result.graph.outputs) names += result.graph.value(output).name + " ";
  EXPECT_EQ(names, "y x z w ");
  EXPECT_EQ(ops_of(result.graph), "Relu Identity Identity");
}

TEST(Rewrite, AssignedSlicesArePutTogether) {
  const auto lines = rewritten(R"(
graph @main(%x: f32[5, n], %u: f32[3, n]) -> (%y) {
  const %i: i64[3, 1] = [1, 2, -2]
  %y: f32[5, n] = ScatterND(%x, %i, %u)
}
)");
  EXPECT_EQ(ops_of(lines.graph), "Slice Slice Concat");
  const auto box = rewritten(R"(
graph @main(%x: f32[2, 4], %u: f32[2, 2]) -> (%y) {
  const %i: i64[2, 2, 2] = [0, 2, 0, 3, 1, 2, 1, 3]
  %y: f32[2, 4] = ScatterND(%x, %i, %u)
}
)");
  EXPECT_EQ(ops_of(box.graph), "Slice Concat");
}

TEST(Rewrite, OtherScattersKeepTheirOrder) {
  for (const char* indices : {"[1, 3, 2]", "[1, 1, 2]", "[3, 4, 5]"}) {
    const auto result = rewritten(std::string(R"(
graph @main(%x: f32[6, 2], %u: f32[3, 2]) -> (%y) {
  const %i: i64[3, 1] = )") + indices +
                                  R"(
  %y: f32[6, 2] = ScatterND(%x, %i, %u) {reduction = ")" +
                                  (indices[1] == '3' ? "add" : "none") + R"("}
}
)");
    EXPECT_EQ(ops_of(result.graph), "ScatterND") << indices;
  }
  const auto open = rewritten(R"(
graph @main(%x: f32[n, 2], %u: f32[1, 2]) -> (%y) {
  const %i: i64[1, 1] = [0]
  %y: f32[n, 2] = ScatterND(%x, %i, %u)
}
)");
  EXPECT_EQ(ops_of(open.graph), "ScatterND");
}

TEST(Rewrite, FoldsConstants) {
  const auto result = rewritten(R"(
graph @main(%x: f32[2]) -> (%y) {
  const %a: f32[2] = [1.0, 2.0]
  %b: f32[2] = Add(%a, %a)
  %y: f32[2] = Add(%x, %b)
}
)");
  EXPECT_EQ(ops_of(result.graph), "Add");
  EXPECT_NE(print_xir(result.graph).find("[2.0, 4.0]"), std::string::npos);
}

TEST(Rewrite, FoldsWithinTheSizeCap) {
  RewriteOptions options;
  options.fold_limit = 64;
  const auto result = rewritten(R"(
graph @main(%x: f32[20]) -> (%y) {
  const %a: f32[20] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0]
  %b: f32[20] = Erf(%a)
  %y: f32[20] = Add(%x, %b)
}
)",
                                options);
  EXPECT_EQ(ops_of(result.graph), "Erf Add");
}

TEST(Rewrite, ShapeArithmeticVanishes) {
  const auto result = rewritten(R"(
graph @main(%x: f32[batch, seq, 8]) -> (%y) {
  const %zero: i64[] = [0]
  const %one: i64[] = [1]
  const %first: i64[1] = [0]
  const %heads: i64[2] = [2, 4]
  %shape: i64[3] = Shape(%x)
  %b: i64[] = Gather(%shape, %zero)
  %s: i64[] = Gather(%shape, %one)
  %b1: i64[1] = Unsqueeze(%b, %first)
  %s1: i64[1] = Unsqueeze(%s, %first)
  %to: i64[4] = Concat(%b1, %s1, %heads) {axis = 0}
  %y: f32[batch, seq, 2, 4] = Reshape(%x, %to)
}
)");
  EXPECT_EQ(ops_of(result.graph), "Reshape");
}

TEST(Rewrite, RandomNodesStayApart) {
  const auto result = rewritten(R"(
graph @main(%x: f32[2]) -> (%y) {
  %a: f32[2] = RandomUniformLike(%x) @first
  %b: f32[2] = RandomUniformLike(%x) @second
  %y: f32[2] = Add(%a, %b)
}
)");
  EXPECT_EQ(ops_of(result.graph), "RandomUniformLike RandomUniformLike Add");
  EXPECT_EQ(result.graph.node(NodeId(1)).origin, "second");
}

TEST(Rewrite, CertificateNamesRulesAndNodes) {
  const auto result = rewritten(R"(
graph @main(%x: f32[2]) -> (%y) {
  const %one: f32[] = [1.0]
  %a: f32[2] = Mul(%x, %one) @scale
  %y: f32[2] = Relu(%a) @relu
}
)");
  EXPECT_EQ(ops_of(result.graph), "Relu");
  ASSERT_EQ(result.certificate.size(), 1u);
  EXPECT_EQ(result.certificate[0].rule, "times-one");
  EXPECT_EQ(result.certificate[0].rule_class, RuleClass::Exact);
  EXPECT_EQ(result.certificate[0].origins, std::vector<std::string>{"scale"});
}

TEST(Rewrite, ForbiddenClassesAreNotApplied) {
  const std::string body = R"(
graph @main(%x: f32[2]) -> (%y) {
  const %two: f32[] = [2.0]
  %y: f32[2] = Pow(%x, %two) @first
}
)";
  const auto allowed = rewritten(body);
  EXPECT_EQ(ops_of(allowed.graph), "Mul");
  EXPECT_EQ(allowed.graph.node(NodeId(0)).origin, "first");
  RewriteOptions options;
  options.allow_reassociating = false;
  EXPECT_EQ(ops_of(rewritten(body, options).graph), "Pow");
}

// Constants that stand one after another round, overflow and cancel as the model says.
TEST(Rewrite, RoundingIdiomsAreKept) {
  for (const char* ops : {"Add Sub", "Mul Mul", "Add Add"}) {
    SCOPED_TRACE(ops);
    const std::string text(ops);
    const std::string body =
        "graph @main(%x: f32[2]) -> (%y) {\n  const %a: f32[] = [12582912.0]\n  %c: f32[2] = " +
        text.substr(0, 3) + "(%x, %a)\n  %y: f32[2] = " + text.substr(4) + "(%c, %a)\n}\n";
    const auto result = rewritten(body);
    EXPECT_EQ(result.graph.node_count(), 2U) << ops_of(result.graph);
  }
}

TEST(Rewrite, NarrowFloatsKeepTheirRoundings) {
  const auto result = rewritten(R"(
graph @main(%x: f16[2]) -> (%y) {
  const %a: f16[] = [3.0]
  const %b: f16[] = [0.1]
  %c: f16[2] = Mul(%x, %a)
  %y: f16[2] = Mul(%c, %b)
}
)");
  EXPECT_EQ(ops_of(result.graph), "Mul Mul");
}

TEST(Rewrite, SubgraphsAreRewrittenToo) {
  const auto result = rewritten(R"(
graph @main(%c: bool[], %x: f32[2]) -> (%y) {
  %y: f32[2] = If(%c, %x) {
    then_branch = graph @then(%t: f32[2]) -> (%u) { %i: f32[2] = Identity(%t)  %u: f32[2] = Relu(%i) },
    else_branch = graph @else(%t: f32[2]) -> (%u) { %u: f32[2] = Neg(%t) }
  }
}
)");
  const auto& branch =
      std::get<std::shared_ptr<const Graph>>(result.graph.node(NodeId(0)).attributes.at("then_branch"));
  EXPECT_EQ(ops_of(*branch), "Relu");
}

TEST(Rewrite, KnownBranchesAreInlined) {
  const auto result = rewritten(R"(
graph @main(%x: f32[2]) -> (%y) {
  const %c: bool[] = [true]
  %y: f32[2] = If(%c, %x) {
    then_branch = graph @then(%t: f32[2]) -> (%u) { %u: f32[2] = Relu(%t) },
    else_branch = graph @else(%t: f32[2]) -> (%u) { %u: f32[2] = Neg(%t) }
  }
}
)");
  EXPECT_EQ(ops_of(result.graph), "Relu");
}

TEST(Rewrite, MatmulsOfOneOperandAreMerged) {
  const std::string body = R"(
graph @main(%x: f32[n, 2]) -> (%q, %s) {
  const %a: f32[2, 1] = [1.0, 2.0]
  const %b: f32[2, 2] = [3.0, 4.0, 5.0, 6.0]
  const %p: f32[1] = [7.0]
  const %r: f32[2] = [8.0, 9.0]
  %y: f32[n, 1] = MatMul(%x, %a) @query
  %q: f32[n, 1] = Add(%y, %p) @query_bias
  %z: f32[n, 2] = MatMul(%x, %b) @key
  %k: f32[n, 2] = Add(%r, %z) @key_bias
  %s: f32[n, 2] = Relu(%k) @relu
}
)";
  const auto result = rewritten(body);
  EXPECT_EQ(ops_of(result.graph), "MatMul Add Split Relu");
  const std::string text = print_xir(result.graph);
  EXPECT_NE(text.find("[1.0, 3.0, 4.0, 2.0, 5.0, 6.0]"), std::string::npos) << text;
  EXPECT_NE(text.find("[7.0, 8.0, 9.0]"), std::string::npos) << text;
  ASSERT_EQ(result.certificate.size(), 1u);
  EXPECT_EQ(result.certificate[0].rule, "merge-matmuls");
  EXPECT_EQ(result.certificate[0].origins,
            (std::vector<std::string>{"query", "query_bias", "key", "key_bias"}));
  EXPECT_EQ(result.certificate[0].result, "q, k");
  RewriteOptions options;
  options.allow_reassociating = false;
  EXPECT_EQ(ops_of(rewritten(body, options).graph), "MatMul Add MatMul Add Relu");
}

TEST(Rewrite, UsersMayAddRules) {
  RewriteOptions options;
  options.user_rules.push_back(
      {.name = "mine", .left = "Relu(Neg(x))", .right = "Neg(x)", .place = "fusion.toml"});
  const std::string body = R"(
graph @main(%x: f32[2]) -> (%y) {
  %a: f32[2] = Neg(%x)
  %y: f32[2] = Relu(%a)
}
)";
  EXPECT_EQ(ops_of(rewritten(body, options).graph), "Neg");
  options.user_rules[0].name = "times-one";
  const auto refused = rewrite(graph_of(body), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "rule \"times-one\" (fusion.toml): there is one of this name already (algebra.def)");
}

}  // namespace
}  // namespace xyntra
