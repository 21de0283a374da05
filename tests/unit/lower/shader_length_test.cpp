// Groups of shaders: no kernel is longer than a driver compiles soon, counted in the kernel itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "fusion/groups.h"
#include "ir/text.h"
#include "kir/code_size.h"
#include "lower/lower.h"
#include "ops/infer.h"

namespace xyntra {
namespace {

Grouping grouped(const std::string& body, const char* target_name) {
  auto module = parse_xir("xir 1\ngraph @main" + body);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().to_string());
  EXPECT_TRUE(infer_types(module->graph).has_value());
  auto fusion_nodes = FusionNodes::of(module->graph);
  EXPECT_TRUE(fusion_nodes.has_value());
  FusionOptions options;
  options.kernel_code_size = kernel_code_size;
  auto grouping = group_nodes(*fusion_nodes, **find_target(target_name), options);
  EXPECT_TRUE(grouping.has_value());
  return std::move(*grouping);
}

// A chain of functions behind a GEMM, or behind nothing.
std::string chain_of(const char* op, int count, bool behind_a_matmul) {
  std::string body = "(%x: f32[1024, 256], %w: f32[256, 1024]) -> (%v" + std::to_string(count) + ") {\n";
  body += behind_a_matmul ? "  %v0 = MatMul(%x, %w)\n" : "  %v0 = Neg(%x)\n";
  for (int i = 0; i < count; ++i)
    body += "  %v" + std::to_string(i + 1) + " = " + op + "(%v" + std::to_string(i) + ")\n";
  return body + "}";
}

TEST(GroupsTest, KernelsOfShadersAreNoLongerThanADriverCompilesSoon) {
  const std::int64_t most = FusionOptions().max_code;
  for (const char* target : {"webgpu", "webgpu_software"}) {
    for (const char* op : {"Cos", "Atanh", "Mish", "Acosh"}) {
      for (bool behind : {false, true}) {
        const Grouping made = grouped(chain_of(op, 60, behind), target);
        EXPECT_GT(made.groups.size(), 1U) << target << " " << op << behind;
        for (std::size_t g = 0; g < made.groups.size(); ++g) {
          auto kernel = lower(made.formulas[g], made.groups[g].schedule, **find_target(target), {}, "k");
          ASSERT_TRUE(kernel.has_value());
          EXPECT_LE(kir::code_size(kernel->kernel), most) << target << " " << op << behind << " group " << g;
        }
      }
    }
  }
  const Grouping made = grouped(chain_of("Cos", 60, true), "webgpu");
  EXPECT_TRUE(std::ranges::any_of(made.edges, [](const EdgeVerdict& edge) {
    return edge.reason == "the kernel would be too long for a driver's compiler";
  }));
}

TEST(GroupsTest, AFewFunctionsStayInOneShader) {
  EXPECT_EQ(grouped(chain_of("Mish", 1, true), "webgpu").groups.size(), 1U);
  EXPECT_EQ(grouped(chain_of("Gelu", 20, false), "webgpu").groups.size(), 1U);
}

}  // namespace
}  // namespace xyntra
