// Shaders of whole plans: kernels that reach outside their buffers become none, and checks of the driver change nothing.
#include "compiler/compiled/wgsl_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "backends/make_runner.h"
#include "compiler/lower_plan.h"
#include "compiler/pipeline.h"
#include "ir/text.h"
#include "kir/sim/sim.h"
#include "ops/infer.h"
#include "types/float_formats.h"
#include "unit/kir/mutants.cpp"  // the same changes as in the simulator's tests

namespace xyntra {
namespace {

constexpr std::size_t kMutants = 200;

// Pointwise, rows, matmuls, windows, movement, indices from memory; one size that is not known.
constexpr const char* kModels[] = {
    R"(xir 1
graph @main(%x: f32[6, 9], %w: f32[9, 5], %b: f32[5]) -> (%y) {
  %p: f32[6, 5] = MatMul(%x, %w) @product
  %s: f32[6, 5] = Add(%p, %b) @sum
  %y: f32[6, 5] = Softmax(%s) @rows
})",
    R"(xir 1
graph @main(%x: f32[N, 12], %y: f32[12]) -> (%z) {
  %e: f32[N, 12] = Mul(%x, %y)
  %t: f32[12, N] = Transpose(%e) {perm = [1, 0]}
  %z: f32[12, N] = Relu(%t)
})",
    R"(xir 1
graph @main(%x: f32[1, 3, 7, 6], %w: f32[4, 3, 3, 3]) -> (%y) {
  %c: f32[1, 4, 7, 6] = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  %y: f32[1, 4, 7, 6] = Sigmoid(%c)
})",
    R"(xir 1
graph @main(%table: f32[8, 5], %i: i64[4], %x: f32[4, 5]) -> (%y) {
  %rows: f32[4, 5] = Gather(%table, %i)
  %y: f32[4, 5] = Add(%x, %rows)
})",
    R"(xir 1
graph @main(%x: i64[5, 7], %y: i64[5, 7]) -> (%z) {
  const %axes: i64[1] = [1]
  %p: i64[5, 7] = Mul(%x, %y)
  %z: i64[5, 1] = ReduceMax(%p, %axes)
})",
    R"(xir 1
graph @main(%x: f32[2, 4, 9, 8], %w: f32[4, 1, 3, 3], %s: f32[4], %b: f32[4]) -> (%y) {
  %c: f32[2, 4, 4, 3] = Conv(%x, %w) {group = 4, strides = [2, 2]}
  %n: f32[2, 4, 4, 3] = InstanceNormalization(%c, %s, %b)
  %y: f32[2, 4, 3, 2] = MaxPool(%n) {kernel_shape = [2, 2]}
})",
    R"(xir 1
graph @main(%x: f32[3, 16, 24], %w: f32[24, 20], %s: f32[20], %b: f32[20]) -> (%y, %z) {
  %p: f32[3, 16, 20] = MatMul(%x, %w)
  %y: f32[3, 16, 20] = LayerNormalization(%p, %s, %b)
  %z: f32[3, 16, 44] = Concat(%x, %p) {axis = 2}
})",
    // attention: no block of queries or keys is full, the last keys are left out, two heads share keys
    R"(xir 1
graph @main(%q: f32[1, 4, 11, 8], %k: f32[1, 2, N, 8], %v: f32[1, 2, N, 36], %m: f32[11, N]) -> (%y) {
  const %s: i64[5] = [1, 2, 1, -1, 8]
  const %e: i64[5] = [1, 2, 2, 1, 8]
  const %f: i64[4] = [1, 4, -1, 8]
  const %t: i64[5] = [1, 2, 1, -1, 36]
  const %g: i64[5] = [1, 2, 2, 1, 36]
  const %h: i64[4] = [1, 4, -1, 36]
  %k1: f32[1, 2, 1, N, 8] = Reshape(%k, %s)
  %k2: f32[1, 2, 2, N, 8] = Expand(%k1, %e)
  %k3: f32[1, 4, N, 8] = Reshape(%k2, %f)
  %v1: f32[1, 2, 1, N, 36] = Reshape(%v, %t)
  %v2: f32[1, 2, 2, N, 36] = Expand(%v1, %g)
  %v3: f32[1, 4, N, 36] = Reshape(%v2, %h)
  %kt: f32[1, 4, 8, N] = Transpose(%k3) {perm = [0, 1, 3, 2]}
  %p: f32[1, 4, 11, N] = MatMul(%q, %kt)
  %a: f32[1, 4, 11, N] = Add(%p, %m)
  %w: f32[1, 4, 11, N] = Softmax(%a)
  %y: f32[1, 4, 11, 36] = MatMul(%w, %v3)
})",
    R"(xir 1
graph @main(%x: f32[4, 6], %y: f32[6, 4]) -> (%z) {
  const %axis: i64[] = 0
  %a: f32[6, 4] = Transpose(%x) {perm = [1, 0]}
  %b: f32[6, 4] = Sub(%a, %y)
  %c: f32[6, 6] = MatMul(%b, %x)
  %d: f32[6, 6] = CumSum(%c, %axis)
  %z: f32[6, 6] = Tanh(%d)
})",
    R"(xir 1
graph @main(%w: f32[64, 24], %x: f32[24, N, 32], %b: f32[64, 1]) -> (%y) {
  const %shape: i64[2] = [24, -1]
  %m: f32[24, 32*N] = Reshape(%x, %shape)
  %p: f32[64, 32*N] = MatMul(%w, %m)
  %y: f32[64, 32*N] = Add(%p, %b)
})",
    // rows that are looked up, shared out among threads that wait for one another
    R"(xir 1
graph @main(%table: f32[8, 80], %i: i64[6], %x: f32[6, 80], %s: f32[80], %b: f32[80]) -> (%y) {
  %rows: f32[6, 80] = Gather(%table, %i)
  %a: f32[6, 80] = Add(%x, %rows)
  %y: f32[6, 80] = LayerNormalization(%a, %s, %b)
})",
    // f16: rows, a matmul with tiles, a window; every step rounds
    R"(xir 1
graph @main(%x: f16[N, 44], %y: f16[44], %s: f16[44], %b: f16[44]) -> (%z) {
  %a: f16[N, 44] = Add(%x, %y)
  %n: f16[N, 44] = LayerNormalization(%a, %s, %b)
  %g: f16[N, 44] = Gelu(%n)
  %z: f16[N, 44] = Softmax(%g)
})",
    R"(xir 1
graph @main(%x: f16[40, 24], %w: f16[24, 36], %b: f16[36], %r: f16[40, 36]) -> (%z) {
  %p: f16[40, 36] = MatMul(%x, %w)
  %a: f16[40, 36] = Add(%p, %b)
  %m: f16[40, 36] = Relu(%a)
  %z: f16[40, 36] = Sub(%m, %r)
})",
    R"(xir 1
graph @main(%x: f16[1, 3, 7, 6], %w: f16[4, 3, 3, 3], %b: f16[4]) -> (%y) {
  %c: f16[1, 4, 7, 6] = Conv(%x, %w, %b) {pads = [1, 1, 1, 1]}
  %y: f16[1, 4, 7, 6] = Relu(%c)
})",
    // attention of one query: its sums are shared out, for each key along its width, for each result along the keys
    R"(xir 1
graph @main(%q: f32[1, 3, 1, 8], %k: f32[1, 3, N, 8], %v: f32[1, 3, N, 16]) -> (%y) {
  %t: f32[1, 3, 8, N] = Transpose(%k) {perm = [0, 1, 3, 2]}
  %p: f32[1, 3, 1, N] = MatMul(%q, %t)
  %w: f32[1, 3, 1, N] = Softmax(%p)
  %y: f32[1, 3, 1, 16] = MatMul(%w, %v)
})",
    // skinny GEMMs: vectors along the columns, and along the sum; no group is full, no sum comes out even
    R"(xir 1
graph @main(%x: f32[2, 3, 70], %w: f32[2, 70, 36], %b: f32[36]) -> (%y) {
  %p: f32[2, 3, 36] = MatMul(%x, %w)
  %y: f32[2, 3, 36] = Add(%p, %b)
})",
    R"(xir 1
graph @main(%x: f32[1, 132], %w: f32[19, 132]) -> (%y) {
  %t: f32[132, 19] = Transpose(%w) {perm = [1, 0]}
  %p: f32[1, 19] = MatMul(%x, %t)
  %y: f32[1, 19] = Sigmoid(%p)
})",
};

Graph graph_of(const char* text) {
  auto module = parse_xir(text);
  EXPECT_TRUE(module.has_value()) << module.error().message;
  EXPECT_TRUE(infer_types(*module).has_value());
  return std::move(module->graph);
}

Plan plan_of(const Graph& graph, bool fused = true) {
  CompileOptions options;
  options.fusion.enabled = fused;
  options.target = *find_target("webgpu");
  auto plan = make_plan(graph, options);
  EXPECT_TRUE(plan.has_value()) << plan.error().to_string();
  return std::move(*plan);
}

// The message of a run on zeros, "" when it went well.
std::string simulated(const kir::Kernel& kernel, const SymbolBindings& sizes) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<std::byte>> arguments;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.scope != kir::Scope::Global) continue;
    const std::int64_t bits = *product(buffer.shape).evaluate(sizes) * bits_of(buffer.dtype);
    memory.emplace_back(static_cast<std::size_t>((bits + 7) / 8));
  }
  for (auto& bytes : memory) arguments.emplace_back(bytes);
  auto report = kir::simulate(kernel, arguments, sizes);
  return report ? "" : report.error().message;
}

TEST(WgslBackend, KernelsThatReachOutsideBecomeNoShaders) {
  const SymbolBindings sizes{{"N", 7}};
  std::vector<kir::Mutant> mutants;
  for (const char* model : kModels) {
    std::vector<kir::Kernel> kernels;
    for (bool fused : {true, false}) {
      auto lowered = lower_plan(plan_of(graph_of(model), fused), {});
      ASSERT_TRUE(lowered.has_value()) << lowered.error().to_string();
      kernels.insert(kernels.end(), lowered->kernels.begin(), lowered->kernels.end());
    }
    for (const kir::Kernel& kernel : kernels) {
      EXPECT_EQ("", simulated(kernel, sizes));
      auto shader = emit_wgsl(kernel, {});
      ASSERT_TRUE(shader.has_value()) << shader.error().to_string();
      for (kir::Mutant& mutant : kir::mutants_of(kernel)) mutants.push_back(std::move(mutant));
    }
  }
  std::shuffle(mutants.begin(), mutants.end(), std::mt19937(6));
  std::size_t outside = 0;
  for (const kir::Mutant& mutant : mutants) {
    if (outside == kMutants) break;
    if (simulated(mutant.kernel, sizes).find("is outside of dimension") == std::string::npos) continue;
    ++outside;
    auto shader = emit_wgsl(mutant.kernel, {});
    EXPECT_FALSE(shader.has_value()) << mutant.what << "\n" << kir::to_string(mutant.kernel);
  }
  EXPECT_EQ(kMutants, outside) << "of " << mutants.size();
}

class WgslDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  }
};
// Blocks of a matmul take all the shared memory there is; a norm before it must leave some.
TEST(WgslBackend, GroupsShareNoMoreThanTheyMay) {
  const Graph graph = graph_of(R"(xir 1
graph @main(%x: f32[4096, 1024], %w: f32[1024, 4096], %s: f32[1024], %b: f32[1024], %v: f32[4096, 2048]) -> (%y, %z) {
  %n: f32[4096, 1024] = LayerNormalization(%x, %s, %b)
  %y: f32[4096, 4096] = MatMul(%n, %w)
  %z: f32[4096, 2048] = MatMul(%y, %v)
})");
  const Plan plan = plan_of(graph);
  auto lowered = lower_plan(plan, {});
  ASSERT_TRUE(lowered.has_value()) << lowered.error().to_string();
  std::int64_t most = 0;
  for (const kir::Kernel& kernel : lowered->kernels) {
    std::int64_t bytes = 0;
    for (const kir::Buffer& buffer : kernel.buffers) {
      if (buffer.scope == kir::Scope::Shared)
        bytes += product(buffer.shape).constant() * bits_of(buffer.dtype) / 8;
    }
    EXPECT_LE(bytes, (*find_target("webgpu"))->group_shared_bytes) << kir::to_string(kernel);
    most = std::max(most, bytes);
  }
  EXPECT_GT(most, 8192) << "matmuls have tiles";
}

class WgslRuns : public WgslDevice, public testing::WithParamInterface<const char*> {};

std::vector<Datum> inputs_of(const Graph& graph, std::int64_t size, std::int64_t seed) {
  std::vector<Datum> inputs;
  for (ValueId id : graph.inputs) {
    const Type& type = graph.value(id).type;
    Dims dims;
    for (const Dim& dim : *type.shape) dims.push_back(*dim.evaluate({{"N", size}}));
    Tensor tensor = *Tensor::allocate(type.dtype, dims);
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      if (type.dtype == DType::I64) {
        const std::int64_t value = (i + seed) % 8;
        std::memcpy(tensor.mutable_bytes().data() + i * 8, &value, 8);
        continue;
      }
      if (type.dtype == DType::U8) {
        tensor.mutable_bytes()[static_cast<std::size_t>(i)] = static_cast<std::byte>((i + seed) % 256);
        continue;
      }
      const float value = static_cast<float>((i + seed) % 13) / 4 - 1;
      const std::uint16_t half = f32_to_f16(value);
      if (type.dtype == DType::F16) {
        std::memcpy(tensor.mutable_bytes().data() + i * 2, &half, 2);
      } else {
        std::memcpy(tensor.mutable_bytes().data() + i * 4, &value, 4);
      }
    }
    inputs.push_back(Datum::of(std::move(tensor)));
  }
  return inputs;
}

// Shaders against the formulas of the same plan, interpreted.
void expect_what_formulas_say(const Graph& graph, const Plan& plan, const std::vector<Datum>& inputs) {
  std::vector<std::vector<float>> found;
  for (const char* backend : {"wgsl", "fused"}) {
    auto runner = make_runner(graph, plan, backend, {}, ObjectCache::off(), {});
    ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
    auto results = (*runner)->run(inputs);
    ASSERT_TRUE(results.has_value()) << results.error().to_string();
    const auto bytes = (*results)[0].tensor.bytes();
    std::memcpy(found.emplace_back(bytes.size() / 4).data(), bytes.data(), bytes.size());
  }
  for (std::size_t i = 0; i < found[0].size(); ++i) ASSERT_NEAR(found[0][i], found[1][i], 1e-4) << i;
}

TEST_P(WgslRuns, TheSameHoweverShadersAreMade) {
  const Graph graph = graph_of(GetParam());
  const std::vector<Datum> inputs = inputs_of(graph, 7, 0);
  std::vector<std::vector<std::byte>> found;
  for (const ShaderOptions& shaders : {ShaderOptions{false, false}, ShaderOptions{false, true},
                                       ShaderOptions{true, false}, ShaderOptions{true, true}}) {
    auto runner = make_runner(graph, plan_of(graph), "wgsl", {}, ObjectCache::off(), shaders);
    ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
    auto results = (*runner)->run(inputs);
    ASSERT_TRUE(results.has_value()) << results.error().to_string();
    const auto bytes = (*results)[0].tensor.bytes();
    found.emplace_back(bytes.begin(), bytes.end());
    EXPECT_EQ(found.front(), found.back()) << shaders.portable << shaders.checked;
  }
}

// What was recorded for one run serves the next: whatever comes from elsewhere or has another size must be recorded anew.
TEST_P(WgslRuns, AgainWithOtherArraysAndSizes) {
  const Graph graph = graph_of(GetParam());
  auto fresh = [&] { return make_runner(graph, plan_of(graph), "wgsl", {}, ObjectCache::off(), {}); };
  auto kept = fresh();
  ASSERT_TRUE(kept.has_value()) << kept.error().to_string();
  std::vector<std::vector<Datum>> alive;  // so that each input has a place of its own
  std::int64_t seed = 0;
  for (std::int64_t size : {7, 7, 7, 300, 7, 300, 300}) {
    alive.push_back(inputs_of(graph, size, ++seed));
    if (seed == 3) alive.back() = alive.front();
    auto again = (*kept)->run(alive.back());
    ASSERT_TRUE(again.has_value()) << again.error().to_string();
    auto other = fresh();
    auto once = (*other)->run(alive.back());
    ASSERT_TRUE(once.has_value()) << once.error().to_string();
    for (std::size_t i = 0; i < once->size(); ++i)
      EXPECT_TRUE(std::ranges::equal((*once)[i].tensor.bytes(), (*again)[i].tensor.bytes())) << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, WgslRuns, testing::ValuesIn(kModels));

TEST(WgslBackend, OneFaultOfManyLaunchesIsFoundAndTheNextRunIsRight) {
  if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  constexpr int kLookups = 100;  // more than there are records for at first
  std::string text =
      "xir 1\ngraph @main(%x0: f32[8], %i: i64[8], %j: i64[8]) -> (%x" + std::to_string(kLookups) + ") {\n";
  for (int n = 0; n < kLookups; ++n) {
    text += "  %x" + std::to_string(n + 1) + ": f32[8] = Gather(%x" + std::to_string(n) +
            (n == 5 ? ", %j) @lookup_five\n" : ", %i)\n");
  }
  const Graph graph = graph_of((text + "}").c_str());
  auto runner = make_runner(graph, plan_of(graph, false), "wgsl", {}, ObjectCache::off(), {});
  ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
  auto inputs = [](std::int64_t bad) {
    std::vector<Datum> made;
    Tensor x = *Tensor::allocate(DType::F32, {8}), i = *Tensor::allocate(DType::I64, {8}),
           j = *Tensor::allocate(DType::I64, {8});
    for (std::int64_t k = 0; k < 8; ++k) {
      const auto value = static_cast<float>(k);
      const std::int64_t other = k == 3 ? bad : k;
      std::memcpy(x.mutable_bytes().data() + k * 4, &value, 4);
      std::memcpy(i.mutable_bytes().data() + k * 8, &k, 8);
      std::memcpy(j.mutable_bytes().data() + k * 8, &other, 8);
    }
    for (Tensor* one : {&x, &i, &j}) made.push_back(Datum::of(std::move(*one)));
    return made;
  };
  for (std::int64_t bad : {3, 8, 3, 3, 9, 9, 3}) {
    const std::vector<Datum> given = inputs(bad);
    auto results = (*runner)->run(given);
    ASSERT_EQ(bad == 3, results.has_value()) << bad << (results ? "" : results.error().to_string());
    if (!results) {
      EXPECT_NE(std::string::npos, results.error().to_string().find("lookup_five"))
          << results.error().to_string();
    } else {
      EXPECT_TRUE(std::ranges::equal(given[0].tensor.bytes(), (*results)[0].tensor.bytes()));
    }
  }
}

// Threads that share a row out go on when an index is outside, since others wait for them: the run is an error, the next is right.
TEST(WgslBackend, RowsThatAreLookedUpAreSharedOut) {
  const Graph graph = graph_of(R"(xir 1
graph @main(%table: f32[8, 64], %i: i64[4], %s: f32[64], %b: f32[64]) -> (%y) {
  %rows: f32[4, 64] = Gather(%table, %i) @lookup
  %y: f32[4, 64] = LayerNormalization(%rows, %s, %b)
})");
  const Plan plan = plan_of(graph);
  auto lowered = lower_plan(plan, {});
  ASSERT_TRUE(lowered.has_value()) << lowered.error().to_string();
  ASSERT_EQ(1U, lowered->kernels.size());
  EXPECT_NE(std::string::npos, kir::to_string(lowered->kernels[0]).find("thread x < 32"));
  if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  std::vector<Datum> inputs = inputs_of(graph, 0, 3);
  expect_what_formulas_say(graph, plan, inputs);
  for (const char* backend : {"wgsl", "sim"}) {
    auto runner = make_runner(graph, plan, backend, {}, ObjectCache::off(), {});
    ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
    for (std::int64_t index : {2, 8, -9, 2}) {
      Tensor picks = *Tensor::allocate(DType::I64, {4});
      for (std::int64_t k = 0; k < 4; ++k)
        std::memcpy(picks.mutable_bytes().data() + k * 8, k == 3 ? &index : &k, 8);
      inputs[1] = Datum::of(std::move(picks));
      auto results = (*runner)->run(inputs);
      EXPECT_EQ(index == 2, results.has_value()) << backend << " " << index;
      if (!results) {
        EXPECT_NE(std::string::npos, results.error().to_string().find("out of range for axis 0"))
            << results.error().to_string();
      }
    }
  }
}

// What an adapter does not bind at once: tensors are cut between rows, which reading and writing looks at; small ones lie together.
TEST(WgslBackend, LargeTensorsAreBoundInPartsAndSmallOnesTogether) {
  if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  struct Case {
    const char* model;
    ShaderOptions options;
    std::size_t most_parts = 0, packs = 0;  // of all shaders
  };
  const ShaderOptions small_bindings{.portable = true, .binding_bytes = 1024},
      few_buffers{.portable = true, .storage_buffers = 5};
  const Case cases[] = {
      // rows of 64 bytes: parts of 16, 16 and 8; read by index, as a factor that is transposed, written element by element
      {R"(xir 1
graph @main(%i: i64[5], %table: f32[40, 16], %x: f32[6, 16]) -> (%rows, %y, %z) {
  %rows: f32[5, 16] = Gather(%table, %i)
  %t: f32[16, 40] = Transpose(%table) {perm = [1, 0]}
  %y: f32[6, 40] = MatMul(%x, %t)
  %z: f32[40, 16] = Neg(%table)
})",
       small_bindings, 3, 0},
      // many rows, whose matmuls are tiled; int8
      {R"(xir 1
graph @main(%x: f32[64, 128], %w: f32[128, 96], %b: u8[40, 64]) -> (%y, %c) {
  %y: f32[64, 96] = MatMul(%x, %w)
  %c: i32[40, 64] = Cast(%b) {to = 6}
})",
       {.portable = true, .binding_bytes = 16384},
       4,
       0},
      {R"(xir 1
graph @main(%x: f32[7, 16], %a: f32[16], %b: f32[16], %c: f32[7, 1], %d: f32[1], %e: u8[16], %f: u8[1]) -> (%y) {
  %g: f32[16] = Cast(%e) {to = 1}
  %h: f32[1] = Cast(%f) {to = 1}
  %1: f32[7, 16] = Mul(%x, %a)
  %2: f32[7, 16] = Add(%1, %b)
  %3: f32[7, 16] = Mul(%2, %c)
  %4: f32[7, 16] = Sub(%3, %d)
  %5: f32[7, 16] = Mul(%4, %g)
  %y: f32[7, 16] = Sub(%5, %h)
})",
       few_buffers, 0, 1},
  };
  for (const Case& one : cases) {
    const Graph graph = graph_of(one.model);
    const Plan plan = plan_of(graph);
    auto lowered = lower_plan(plan, {});
    ASSERT_TRUE(lowered.has_value()) << lowered.error().to_string();
    WgslFeatures features;
    if (one.options.binding_bytes > 0) features.binding_bytes = one.options.binding_bytes;
    if (one.options.storage_buffers > 0) features.storage_buffers = one.options.storage_buffers;
    std::size_t parts = 0, packs = 0;
    for (const kir::Kernel& kernel : lowered->kernels) {
      auto shader = emit_wgsl(kernel, features);
      ASSERT_TRUE(shader.has_value()) << shader.error().to_string();
      std::map<std::uint32_t, std::size_t> of_argument;
      for (const ShaderBinding& binding : shader->bindings) {
        packs += binding.is_pack() ? 1 : 0;
        if (!binding.is_pack() && binding.parts[0].bytes >= 0)
          parts = std::max(parts, ++of_argument[binding.parts[0].argument]);
      }
    }
    EXPECT_EQ(one.most_parts, parts);
    EXPECT_LE(one.packs, packs);
    auto runner = make_runner(graph, plan, "wgsl", {}, ObjectCache::off(), one.options);
    ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
    auto reference = make_runner(graph, "reference", {});
    for (std::uint32_t seed : {1U, 2U}) {  // the second finds buffers that were filled before
      const std::vector<Datum> inputs = inputs_of(graph, 7, seed);
      auto found = (*runner)->run(inputs), wanted = (*reference)->run(inputs);
      ASSERT_TRUE(found.has_value()) << found.error().to_string();
      ASSERT_TRUE(wanted.has_value()) << wanted.error().to_string();
      for (std::size_t i = 0; i < wanted->size(); ++i) {
        const Tensor &a = (*wanted)[i].tensor, &b = (*found)[i].tensor;
        for (std::int64_t k = 0; k < a.count(); ++k)
          ASSERT_NEAR(a.element_as_f64(k), b.element_as_f64(k), 1e-4 * (1 + std::abs(a.element_as_f64(k))))
              << one.model << " output " << i << ", element " << k;
      }
    }
  }
}

// The tree of a sum is the plan's: threads that exchange their sums add the same pairs as those that share them in memory.
TEST(WgslBackend, SumsHaveTheSameBitsWithAndWithoutSubgroups) {
  constexpr const char* kRows[] = {
      "xir 1\ngraph @main(%x: f32[3, 512]) -> (%y) {\n  %y: f32[3, 512] = Softmax(%x)\n}",
      "xir 1\ngraph @main(%x: f32[3, 100], %s: f32[100], %b: f32[100]) -> (%y) {\n"
      "  %y: f32[3, 100] = LayerNormalization(%x, %s, %b)\n}",
      "xir 1\ngraph @main(%x: f32[2, 3000]) -> (%y) {\n  const %a: i64[1] = [1]\n"
      "  %y: f32[2, 1] = ReduceSum(%x, %a)\n}",
  };
  for (const char* text : kRows) {
    const Graph graph = graph_of(text);
    const Plan plan = plan_of(graph);
    const std::vector<Datum> inputs = inputs_of(graph, 0, 5);
    std::vector<std::byte> wanted;
    std::int64_t barriers = 0;
    for (std::int64_t lanes : {0, 8, 16, 32}) {
      LowerOptions options;
      options.subgroup_lanes = lanes;
      auto lowered = lower_plan(plan, options);
      ASSERT_TRUE(lowered.has_value()) << lowered.error().to_string();
      ASSERT_EQ(1U, lowered->kernels.size());
      const kir::Kernel& kernel = lowered->kernels[0];
      const bool exchanges = kir::to_string(kernel).find("shuffle_xor") != std::string::npos;
      if (lanes == 0 || lanes == 32) {
        EXPECT_EQ(lanes == 32, exchanges) << kir::to_string(kernel);
      }
      std::vector<std::vector<std::byte>> memory;
      std::vector<std::span<std::byte>> arguments;
      for (const Datum& input : inputs)
        memory.emplace_back(input.tensor.bytes().begin(), input.tensor.bytes().end());
      for (const kir::Buffer& buffer : kernel.buffers) {
        if (buffer.scope == kir::Scope::Global && buffer.written)
          memory.emplace_back(static_cast<std::size_t>(product(buffer.shape).constant() * 4));
      }
      for (auto& bytes : memory) arguments.emplace_back(bytes);
      auto report = kir::simulate(kernel, arguments, {});
      ASSERT_TRUE(report.has_value()) << report.error().to_string();
      if (lanes == 0) {
        wanted = memory.back();
        barriers = report->barriers;
      }
      EXPECT_EQ(wanted, memory.back()) << text << lanes;
      if (lanes == 32) {
        EXPECT_LT(report->barriers, barriers) << text;
      }
    }
  }
}

// A step is shared out among the threads of a group, which changes no sum.
// Sums in their order, whichever threads make them.
TEST(WgslBackend, ScansInGroupsGiveTheBitsOfTheReference) {
  const Graph graph = graph_of(R"(xir 1
graph @main(%x: f32[3, 2, 20], %w: f32[1, 160, 20], %r: f32[1, 160, 40], %b: f32[1, 320], %h: f32[1, 2, 40], %c: f32[1, 2, 40]) -> (%y, %hn, %cn) {
  %y: f32[3, 1, 2, 40], %hn: f32[1, 2, 40], %cn: f32[1, 2, 40] = LSTM(%x, %w, %r, %b, _, %h, %c) {hidden_size = 40}
})");
  CompileOptions options;
  options.target = *find_target("webgpu");
  options.fusion.choose.allow_reassociating = false;
  auto made = make_plan(graph, options);
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  const Plan plan = std::move(*made);
  auto lowered = lower_plan(plan, {});
  ASSERT_TRUE(lowered.has_value()) << lowered.error().to_string();
  EXPECT_NE(std::string::npos, kir::to_string(lowered->kernels.at(0)).find("thread x"));
  auto shader = emit_wgsl(lowered->kernels.at(0), {});
  ASSERT_TRUE(shader.has_value()) << shader.error().to_string();
  EXPECT_EQ(1U, shader->workspace_bytes.size()) << "browsers bind few buffers to a shader";
  const std::vector<Datum> inputs = inputs_of(graph, 7, 0);
  auto simulated = make_runner(graph, plan, "sim", {}), reference = make_runner(graph, "reference", {});
  ASSERT_TRUE(simulated.has_value() && reference.has_value());
  auto found = (*simulated)->run(inputs), wanted = (*reference)->run(inputs);
  ASSERT_TRUE(found.has_value()) << found.error().to_string();
  ASSERT_TRUE(wanted.has_value()) << wanted.error().to_string();
  for (std::size_t i = 0; i < wanted->size(); ++i)
    EXPECT_TRUE(std::ranges::equal((*wanted)[i].tensor.bytes(), (*found)[i].tensor.bytes())) << i;
}

// Some drivers end loops of many iterations and go on with wrong numbers.
TEST_F(WgslDevice, LoopsThatADriverWouldEndAreErrors) {
  const Graph graph = graph_of(R"(xir 1
graph @main(%x: f32[70000]) -> (%z) {
  const %axis: i64[] = 0
  %z: f32[70000] = CumSum(%x, %axis)
})");
  auto runner = make_runner(graph, plan_of(graph), "wgsl", {});
  ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
  auto results = (*runner)->run(inputs_of(graph, 7, 0));
  const std::int64_t most = (*shared_device(""))->adapter().limits.loop_iterations;
  EXPECT_EQ(most == 0 || most > 70000, results.has_value());
  if (!results) {
    EXPECT_EQ(ErrorClass::Limit, results.error().error_class) << results.error().to_string();
  }
}

// Offsets of the window outermost, then channels, then results; the sums are those of the reference all the same.
TEST(WgslBackend, WeightsOfWindowsAreTurned) {
  std::string text = R"(xir 1
graph @main(%x: f32[1, 32, 9, 9]) -> (%y) {
  const %w: f32[16, 32, 3, 3] = [)";
  for (int i = 0; i < 16 * 32 * 9; ++i) text += (i > 0 ? ", " : "") + std::to_string((i * 7 % 11 - 5) / 8.0);
  text += R"(]
  %c: f32[1, 16, 9, 9] = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  %y: f32[1, 16, 9, 9] = Relu(%c)
})";
  const Graph graph = graph_of(text.c_str());
  const Plan plan = plan_of(graph);
  ASSERT_EQ(1U, plan.layouts.size());
  EXPECT_EQ("[2, 3, 1, 0]", to_string(plan.layouts[0].layout));
  if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  const std::vector<Datum> inputs = inputs_of(graph, 0, 1);
  expect_what_formulas_say(graph, plan, inputs);
}

// Weights that are more than the exponents cannot be corrected by a factor; here their squares, and some left out.
TEST(WgslBackend, WhatIsNoSoftmaxIsNotTakenForOne) {
  if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  for (const char* second : {"%e", "%m"}) {
    const std::string text = std::string(R"(xir 1
graph @main(%q: f32[2, 64, 16], %k: f32[2, 16, 96], %v: f32[2, 96, 32], %m: f32[2, 64, 96]) -> (%y) {
  const %ax: i64[1] = [2]
  %p: f32[2, 64, 96] = MatMul(%q, %k)
  %x: f32[2, 64, 1] = ReduceMax(%p, %ax)
  %d: f32[2, 64, 96] = Sub(%p, %x)
  %e: f32[2, 64, 96] = Exp(%d)
  %s: f32[2, 64, 1] = ReduceSum(%e, %ax)
  %n: f32[2, 64, 96] = Mul(%e, )") +
                             second + R"()
  %w: f32[2, 64, 96] = Div(%n, %s)
  %y: f32[2, 64, 32] = MatMul(%w, %v)
})";
    const Graph graph = graph_of(text.c_str());
    const Plan plan = plan_of(graph);
    const std::vector<Datum> inputs = inputs_of(graph, 0, 3);
    SCOPED_TRACE(second);
    expect_what_formulas_say(graph, plan, inputs);
  }
}

// A caller may give one array twice, or one inside another: each input is what it is now, in every run.
TEST(WgslBackend, InputsMayOverlap) {
  if (auto device = shared_device(""); !device) GTEST_SKIP() << device.error().message;
  const Graph graph = graph_of(R"(xir 1
graph @main(%x: f32[8, 64], %y: f32[4, 64], %i: i64[4]) -> (%z) {
  %a: f32[4, 64] = Gather(%x, %i)
  %b: f32[4, 64] = Gather(%y, %i)
  %z: f32[4, 64] = Add(%a, %b)
})");
  auto runner = make_runner(graph, plan_of(graph), "wgsl", {}, ObjectCache::off(), {});
  ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
  Tensor all = *Tensor::allocate(DType::F32, {8, 64}), indices = *Tensor::allocate(DType::I64, {4});
  for (std::int64_t k = 0; k < 4; ++k) std::memcpy(indices.mutable_bytes().data() + k * 8, &k, 8);
  for (std::size_t first : {0, 2, 4, 4, 0}) {  // of the rows that are the second input
    for (float factor : {1.0F, 2.0F}) {
      for (std::int64_t k = 0; k < 8 * 64; ++k) {
        const float value = static_cast<float>(k / 64) * factor;
        std::memcpy(all.mutable_bytes().data() + k * 4, &value, 4);
      }
      const auto part = all.mutable_bytes().subspan(first * 64 * 4, 4 * 64 * 4);
      auto inner = Tensor::borrow(DType::F32, {4, 64}, part, nullptr);
      auto outer = Tensor::borrow(DType::F32, {8, 64}, all.mutable_bytes(), nullptr);
      ASSERT_TRUE(inner.has_value() && outer.has_value());
      const std::vector<Datum> inputs = {Datum::of(*outer), Datum::of(*inner), Datum::of(indices)};
      auto results = (*runner)->run(inputs);
      ASSERT_TRUE(results.has_value()) << results.error().to_string();
      for (std::size_t k = 0; k < 4; ++k) {
        float found = 0;
        std::memcpy(&found, (*results)[0].tensor.bytes().data() + k * 64 * 4, 4);
        EXPECT_EQ(found, static_cast<float>(2 * k + first) * factor) << first << ", row " << k;
      }
    }
  }
}

TEST(WgslBackend, EverythingThatBrowsersLackIsListed) {
  const Graph graph = graph_of(R"(xir 1
graph @main(%x: f64[4], %large: f32[9000, 8000]) -> (%a, %c) {
  %a: f64[4] = Neg(%x) @double
  %c: f32[9000, 8000] = Exp(%large) @large
})");
  auto lacking = wgsl_lacks(plan_of(graph), {}, {.portable = true});
  ASSERT_TRUE(lacking.has_value()) << lacking.error().to_string();
  using Lacking = std::map<std::string, std::vector<std::string>>;
  EXPECT_EQ((Lacking{{"f64 in a shader: the adapter has no 64-bit floats", {"double"}},
                     {"a tensor of 274.7 MiB in one buffer, every browser has at most 256 MiB", {"large"}}}),
            *lacking);
}

}  // namespace
}  // namespace xyntra
