// What is computed once in a model is computed once at every level: nodes of formulas, of kernels, instructions and lines of shaders
// grow as a chain of operations does.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "codegen/llvm/emit.h"
#include "codegen/wgsl/emit.h"
#include "compiler/lower_plan.h"
#include "compiler/pipeline.h"
#include "fusion/groups.h"
#include "ops/infer.h"
#include "te/walk.h"

namespace xyntra {
namespace {

// Adds one operation, or a few, behind a value.
using Link = std::function<ValueId(Graph& graph, ValueId value, const std::string& name)>;

struct Chain {
  const char* name;
  bool gathered;  // whether what it begins with is read at places that are data, which needs a guard
  Link link;
};

ValueId node(Graph& graph, const char* op, std::vector<ValueId> inputs, const std::string& name) {
  return graph.output_of(graph.add_node(op, std::move(inputs), {name}, {}));
}

Link one(const char* op) {
  return
      [op](Graph& graph, ValueId value, const std::string& name) { return node(graph, op, {value}, name); };
}

ValueId chosen(Graph& graph, ValueId value, const std::string& name) {
  const ValueId positive = node(graph, "Less", {graph.find("x"), graph.find("limit")}, name + ".less");
  const ValueId negated = node(graph, "Neg", {value}, name + ".neg"),
                size = node(graph, "Abs", {value}, name + ".abs");
  return node(graph, "Where", {positive, negated, size}, name);
}

const std::vector<Chain>& chains() {
  static const std::vector<Chain> all{
      {"Tanh", false, one("Tanh")},
      {"Sigmoid", false, one("Sigmoid")},
      {"Erf", false, one("Erf")},
      {"Gelu", false, one("Gelu")},
      {"Sin", false, one("Sin")},
      {"AddToItself", false,
       [](Graph& graph, ValueId value, const std::string& name) {
         return node(graph, "Add", {value, value}, name);
       }},
      {"ReluAddNeg", false,
       [](Graph& graph, ValueId value, const std::string& name) {
         return node(
             graph, "Add",
             {node(graph, "Relu", {value}, name + ".relu"), node(graph, "Neg", {value}, name + ".neg")},
             name);
       }},
      {"Where", false, chosen},
      {"WhereOfGathered", true, chosen},
  };
  return all;
}

Graph graph_of(const Chain& chain, int depth, std::int64_t size) {
  Graph graph;
  const ValueId x = graph.add_input("x", Type::tensor(DType::F32, Shape{size}));
  graph.add_constant("limit", *Tensor::allocate(DType::F32, {}));
  ValueId value = x;
  if (chain.gathered)
    value =
        node(graph, "Gather", {x, graph.add_input("at", Type::tensor(DType::I64, Shape{size}))}, "gathered");
  for (int i = 0; i < depth; ++i) value = chain.link(graph, value, "v" + std::to_string(i));
  graph.outputs = {value};
  EXPECT_TRUE(infer_types(graph).has_value());
  return graph;
}

struct Counts {
  std::size_t formula = 0, kernel = 0, code = 0;
};

std::size_t formula_nodes(const Graph& graph, const Target& target) {
  auto fusion_nodes = FusionNodes::of(graph);
  EXPECT_TRUE(fusion_nodes.has_value());
  FusionOptions options;
  options.kernel_code_size = kernel_code_size;
  auto grouping = group_nodes(*fusion_nodes, target, options);
  EXPECT_TRUE(grouping.has_value());
  std::size_t nodes = 0;
  for (const te::Formula& formula : grouping->formulas) {
    for (const te::Stage& stage : formula.stages)
      te::for_each_node(stage, [&](const te::ExprNode&) { ++nodes; });
  }
  return nodes;
}

std::vector<kir::Kernel> kernels_of(const Graph& graph, const Target& target) {
  CompileOptions options;
  options.target = &target;
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  auto lowered = lower_plan(*plan, {});
  EXPECT_TRUE(lowered.has_value()) << lowered.error().message;
  return std::move(lowered->kernels);
}

std::size_t kernel_nodes(const std::vector<kir::Kernel>& kernels) {
  std::size_t nodes = 0;
  for (const kir::Kernel& kernel : kernels) {
    kir::for_each_statement(kernel.body, [&](const kir::StmtNode& statement) {
      kir::for_each_expr(statement, [&](const te::Expr& expr) {
        te::for_each_node(expr, [&](const te::ExprNode&) { ++nodes; });
      });
    });
  }
  return nodes;
}

std::size_t instructions(const std::vector<kir::Kernel>& kernels) {
  auto text = kernels_text(kernels, *cpu_target("avx512"), CodeText::Ir);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return static_cast<std::size_t>(std::ranges::count(*text, '\n'));
}

std::size_t shader_lines(const std::vector<kir::Kernel>& kernels) {
  std::size_t lines = 0;
  for (const kir::Kernel& kernel : kernels) {
    auto shader = emit_wgsl(kernel, {});
    EXPECT_TRUE(shader.has_value()) << shader.error().message;
    lines += shader->text.size() / 40;  // long lines count as several
  }
  return lines;
}

Counts on_cpu(const Chain& chain, int depth, std::int64_t size) {
  const Target& target = **find_target("avx512");
  const Graph graph = graph_of(chain, depth, size);
  const auto kernels = kernels_of(graph, target);
  return {formula_nodes(graph, target), kernel_nodes(kernels),
          has_code_generator() ? instructions(kernels) : 0};
}

Counts on_gpu(const Chain& chain, int depth, std::int64_t size) {
  const Target& target = **find_target("webgpu");
  const Graph graph = graph_of(chain, depth, size);
  const auto kernels = kernels_of(graph, target);
  return {formula_nodes(graph, target), kernel_nodes(kernels), shader_lines(kernels)};
}

// Twice the chain is at most about twice of everything. Chains may be cut into several kernels, so there is some slack.
void expect_linear(const Counts& shorter, const Counts& longer) {
  constexpr std::size_t kFew = 100;
  EXPECT_LE(longer.formula, 5 * shorter.formula / 2 + kFew);
  EXPECT_LE(longer.kernel, 5 * shorter.kernel / 2 + kFew);
  EXPECT_LE(longer.code, 5 * shorter.code / 2 + kFew);
}

TEST(LinearCost, OfChainsOnCpus) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    expect_linear(on_cpu(chain, 24, 140), on_cpu(chain, 48, 140));
  }
}

TEST(LinearCost, OfChainsOverWhatOutgrowsTheCaches) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    expect_linear(on_cpu(chain, 12, 1 << 24), on_cpu(chain, 24, 1 << 24));
  }
}

TEST(LinearCost, OfChainsInShaders) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    expect_linear(on_gpu(chain, 12, 140), on_gpu(chain, 24, 140));
    expect_linear(on_gpu(chain, 12, 4096), on_gpu(chain, 24, 4096));
  }
}

}  // namespace
}  // namespace xyntra
