// The simulator: right results, and every rule that a kernel can break.
#include "unit/kir/sim/sim_testing.h"

#include <cmath>

namespace xyntra::kir {
namespace {

TEST(KirSim, RunsLoopsVectorsAndTails) {
  Kernel kernel = parsed(R"(
kernel scale(x: f32[N], y: f32[N] global out) {
  grid i < floordiv(N + 7, 8) {
    prefetch(x[i * 8 + 4096])
    vector l < 8 {
      if i * 8 + l < N { y[i * 8 + l] = x[i * 8 + l] * 2 + 1 }
    }
  }
}
)");
  ASSERT_TRUE(verify(kernel));
  for (std::size_t n : {0, 1, 7, 8, 9, 5000}) {
    Arguments arguments;
    arguments.add(counting(n)).add(std::vector<float>(n));
    ASSERT_EQ(run(kernel, arguments, {{"N", static_cast<std::int64_t>(n)}}), "");
    auto y = arguments.get<float>(1);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[i], static_cast<float>(i) * 2 + 1);
  }
}

TEST(KirSim, PhasesShareWorkspaceAndRowsReduce) {
  Kernel kernel = parsed(R"(
kernel softmax(x: f32[N, 32], y: f32[N, 32] global out) {
  workspace sums: f32[N]
  register part: f32[8]
  grid i < N {
    vector l < 8 { part[l] = 0 }
    for j < 4 {
      vector l < 8 { part[l] = part[l] + exp(x[i, j * 8 + l]) }
    }
    sums[i] = 0
    unrolled u < 8 { sums[i] = sums[i] + part[u] }
  }
  grid i < N {
    for j < 32 { y[i, j] = exp(x[i, j]) / sums[i] }
  }
}
)");
  ASSERT_TRUE(verify(kernel));
  constexpr std::size_t kRows = 70;
  std::vector<float> x(kRows * 32);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  Arguments arguments;
  arguments.add(x).add(std::vector<float>(x.size()));
  ASSERT_EQ(run(kernel, arguments, {{"N", kRows}}), "");
  auto y = arguments.get<float>(1);
  for (std::size_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 32; ++j) sum += std::exp(x[i * 32 + j]);
    for (std::size_t j = 0; j < 32; ++j) ASSERT_NEAR(y[i * 32 + j], std::exp(x[i * 32 + j]) / sum, 1e-6);
  }
}

TEST(KirSim, NarrowTypesRoundAndPack) {
  Kernel kernel = parsed(R"(
kernel narrow(x: u4[6], h: f16[6], y: i4[6] global out, z: bf16[6] global out) {
  for i < 6 {
    y[i] = i4(i64(x[i]) * 3)
    z[i] = bf16(f32(h[i]) * 1.001)
  }
}
)");
  Arguments arguments;
  arguments.add(std::vector<std::uint8_t>{0x21, 0x43, 0x65})
      .add(std::vector<std::uint16_t>{0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x7e00})
      .add(std::vector<std::uint8_t>(3))
      .add(std::vector<std::uint16_t>(6));
  ASSERT_EQ(run(kernel, arguments), "");
  EXPECT_EQ(arguments.get<std::uint8_t>(2), (std::vector<std::uint8_t>{0x63, 0xc9, 0x2f}));
  EXPECT_EQ(arguments.get<std::uint16_t>(3),
            (std::vector<std::uint16_t>{0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x7fc0}));
}

TEST(KirSim, LoadsInABranchNotTakenAreNotDone) {
  Kernel kernel = parsed(R"(
kernel shift(x: f32[N], y: f32[N] global out) {
  grid i < N {
    y[i] = select(i > 0, select(x[i - 1] > 2, x[i - 1], -x[i - 1]), load_or(x[i - 7], 5))
  }
}
)");
  ASSERT_TRUE(verify(kernel));
  Arguments arguments;
  arguments.add(counting(5)).add(std::vector<float>(5));
  ASSERT_EQ(run(kernel, arguments, {{"N", 5}}), "");
  EXPECT_EQ(arguments.get<float>(1), (std::vector<float>{5, -0.0F, -1, -2, 3}));
}

// ---- faults; the arguments are x and y of 64 floats

std::string fault(const std::string& body, const std::string& declarations = "") {
  Kernel kernel = parsed("kernel k(x: f32[64], y: f32[64] global out) {\n" + declarations + body + "}\n");
  Arguments arguments;
  arguments.add(counting(64)).add(std::vector<float>(64));
  return run(kernel, arguments);
}

TEST(KirSim, ReportsAccessesOutside) {
  EXPECT_EQ(fault("grid i < 8 {\nfor j < 9 {\ny[i * 8 + j] = x[i * 8 + j]\n}\n}\n"),
            "kernel k, line 4: index 64 is outside of dimension 0 of 'x', which has size 64 (i = 7, j = 8)");
  EXPECT_EQ(fault("grid i < 64 {\nif x[i] > 62 {\ny[i - 64] = 1\n}\n}\n"),
            "kernel k, line 4: index -1 is outside of dimension 0 of 'y', which has size 64 (i = 63)");
}

TEST(KirSim, ReportsFailedChecksAsTheModelsFault) {
  Kernel kernel =
      parsed("kernel k(x: i64[4], y: f32[4] global out) {\ngrid i < 4 {\ncheck y.0 : x[i]\n}\n}\n");
  Arguments arguments;
  arguments.add(std::vector<std::int64_t>{0, 3, 4, 1}).add(std::vector<float>(4));
  auto report = simulate(kernel, arguments.spans());
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().error_class, ErrorClass::BadModel);
  EXPECT_EQ(report.error().message,
            "kernel k, line 3: index 4 is out of range for axis 0 of 'y', which has size 4 (i = 2)");
}

TEST(KirSim, ReportsReadsOfWhatNobodyWrote) {
  EXPECT_EQ(fault("grid i < 64 {\ny[i] = r[0]\n}\n", "register r: f32[1]\n"),
            "kernel k, line 4: reads r[0], which nobody wrote (i = 0)");
  EXPECT_EQ(fault("grid i < 64 {\nif i < 63 {\nw[i] = x[i]\n}\n}\ngrid i < 64 {\ny[i] = w[i]\n}\n",
                  "workspace w: f32[64]\n"),
            "kernel k, line 9: reads w[63], which nobody wrote (i = 63)");
  EXPECT_EQ(fault("grid i < 64 {\ny[i] = y[i] + 1\n}\n"),
            "kernel k, line 3: reads y[0], which nobody wrote (i = 0)");
  // Shared memory does not outlive its work item.
  EXPECT_NE(fault("grid i < 2 {\nif i == 0 {\ns[0] = 1\n} else {\ny[0] = s[0]\n}\n}\n", "shared s: f32[1]\n"),
            "");
}

TEST(KirSim, OutputsThatHoldValuesMayBeRead) {
  Kernel kernel = parsed("kernel k(y: f32[4] global out) {\ngrid i < 4 {\ny[i] = y[i] + 1\n}\n}\n");
  Arguments arguments;
  arguments.add(counting(4));
  SimOptions options;
  options.defined_outputs = {0};
  EXPECT_EQ(run(kernel, arguments, {}, options), "");
  EXPECT_EQ(arguments.get<float>(0), counting(4, 1));
}

TEST(KirSim, ReportsRacesOfWorkItems) {
  EXPECT_EQ(fault("grid i < 64 {\ny[floordiv(i, 2)] = 1\n}\n"),
            "kernel k, line 3: writes y[0], which work item 0 wrote in the same phase: a race (i = 1)");
  EXPECT_EQ(fault("grid i < 64 {\ny[i] = 1\n}\ngrid i < 63 {\ny[i] = y[i + 1]\n}\n").substr(0, 26),
            "kernel k, line 6: writes y");
  // One phase after another is no race.
  EXPECT_EQ(fault("grid i < 64 {\ny[i] = x[i]\n}\ngrid i < 64 {\ny[63 - i] = x[i]\n}\n"), "");
  // Two elements in one byte.
  Kernel kernel = parsed("kernel k(y: u4[4] global out) {\ngrid i < 4 {\ny[i] = 1\n}\n}\n");
  Arguments arguments;
  arguments.add(std::vector<std::uint8_t>(2));
  EXPECT_NE(run(kernel, arguments), "");
}

TEST(KirSim, ReportsRacesOfThreads) {
  const std::string shared = "shared s: f32[64]\n";
  auto reversed = [&](const std::string& between) {
    return fault("grid i < 1 {\nthread t < 64 {\ns[t] = x[t]\n" + between + "y[t] = s[63 - t]\n}\n}\n",
                 shared);
  };
  EXPECT_EQ(reversed("barrier()\n"), "");
  EXPECT_EQ(
      reversed(""),
      "kernel k, line 6: reads s[63], which thread 63 wrote with no barrier between: a race (i = 0, t = 0)");
  EXPECT_EQ(
      fault("grid i < 1 {\nthread t < 64 {\ns[t] = x[t]\nbarrier()\ny[t] = s[63 - t]\ns[t] = 1\n}\n}\n",
            shared),
      "kernel k, line 8: writes s[0], which thread 63 read with no barrier between: a race (i = 0, t = 0)");
  EXPECT_NE(fault("grid i < 1 {\nthread t < 64 {\ns[0] = x[t]\n}\n}\n", shared), "");
  EXPECT_NE(fault("grid i < 1 {\nthread t < 64 {\ny[floordiv(t, 2)] = x[t]\n}\n}\n"), "");
}

TEST(KirSim, ReportsBarriersThatSomeThreadsMiss) {
  EXPECT_EQ(fault("grid i < 2 {\nthread t < 32 {\nif t < 5 {\nbarrier()\n}\ny[i * 32 + t] = 1\n}\n}\n"),
            "kernel k, line 5: only 5 of 32 threads reach this barrier (i = 0, t = 0)");
  // Whole work items may differ.
  EXPECT_EQ(fault("grid i < 2 {\nthread t < 32 {\nif i == 1 {\nbarrier()\n}\ny[i * 32 + t] = 1\n}\n}\n"), "");
}

TEST(KirSim, ReportsLanesThatStoreToOneElement) {
  EXPECT_EQ(fault("grid i < 8 {\nvector l < 8 {\ny[i] = x[l]\n}\n}\n"),
            "kernel k, line 4: writes y[0], as does another lane of the vector (i = 0, l = 1)");
}

TEST(KirSim, BarrierObjectsOrderThreads) {
  // Thread 0 makes, thread 1 uses; `full` and `empty` hand the one element to and fro.
  auto ring = [](const std::string& before_make, const std::string& before_use,
                 const std::string& after_use) {
    return fault(
        "grid i < 1 {\nthread t < 2 {\n"
        "if t == 0 {\nmbarrier_init(bar[0], 1)\nmbarrier_init(bar[1], 1)\n}\nbarrier()\n"
        "if t == 0 {\nfor j < 8 {\n" +
            before_make +
            "s[0] = x[j]\nmbarrier_arrive(bar[0])\n}\n"
            "} else {\nfor j < 8 {\n" +
            before_use + "y[j] = s[0]\n" + after_use + "}\n}\n}\n}\n",
        "shared s: f32[1]\nshared bar: u64[2]\n");
  };
  const std::string empty = "mbarrier_wait(bar[1], 1 - mod(j, 2))\n",
                    full = "mbarrier_wait(bar[0], mod(j, 2))\n";
  const std::string used = "mbarrier_arrive(bar[1])\n";
  EXPECT_EQ(ring(empty, full, used), "");
  EXPECT_NE(ring("", full, used), "");
  EXPECT_NE(ring(empty, "", used), "");
  EXPECT_EQ(ring(empty, full, "").substr(0, 47), "kernel k, line 13: no thread can go on: thread ");
  EXPECT_NE(ring("mbarrier_wait(bar[1], mod(j, 2))\n", full, used), "");
}

}  // namespace
}  // namespace xyntra::kir
