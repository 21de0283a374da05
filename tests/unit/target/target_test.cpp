#include "target/target.h"

#include <gtest/gtest.h>

#include <set>

namespace xyntra {
namespace {

const Target& named(std::string_view name) { return *find_target(name).value(); }

TEST(Target, TablesAreFoundByName) {
  for (const Target& target : targets()) EXPECT_EQ(&named(target.name), &target);
  auto missing = find_target("avx51");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().error_class, ErrorClass::Usage);
  EXPECT_EQ(missing.error().hint, "did you mean 'avx512'?");
  EXPECT_TRUE(find_target("\x1b[2J").error().to_string().starts_with(
      "usage: there is no target '\\x1b[2J'; there are "));
}

TEST(Target, FactsAreSane) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(std::string(target.name));
    EXPECT_EQ(target.vector_bits % 32, 0);
    EXPECT_EQ(target.buffer_alignment & (target.buffer_alignment - 1), 0);
    EXPECT_GE(target.buffer_alignment * 8, target.vector_bits);
    EXPECT_GE(target.last_level_bytes, target.l1_bytes);
    EXPECT_LE(target.core_bytes_per_us, target.memory_bytes_per_us);
    EXPECT_LE(target.group_threads, target.core_threads);
    EXPECT_LE(target.group_shared_bytes, target.shared_bytes);
    EXPECT_GE(target.storage_buffers, 8);
    EXPECT_GE(target.strided_percent, 100);
    for (DType dtype : all_dtypes()) {
      EXPECT_GT(target.peak(dtype), 0) << name_of(dtype);
      EXPECT_GE(target.peak(dtype, ArithmeticUnit::Matrix), target.peak(dtype)) << name_of(dtype);
      // f32 is multiplied there as tf32 alone, where the precision says so.
      if (const MatrixUnit* unit = target.matrix_unit(dtype); unit != nullptr && dtype != DType::F32) {
        EXPECT_GT(target.peak(dtype, ArithmeticUnit::Matrix), target.peak(dtype)) << name_of(dtype);
        EXPECT_GT(unit->rows * unit->columns * unit->depth, 0);
      }
    }
  }
}

TEST(Target, ADtypeWithoutALineRunsAtTheSpeedOfWhatItIsComputedIn) {
  const Target& avx512 = named("avx512");
  EXPECT_FALSE(avx512.computes(DType::BF16));
  EXPECT_EQ(avx512.peak(DType::BF16, ArithmeticUnit::Matrix), avx512.peak(DType::F32));
  EXPECT_EQ(avx512.peak(DType::U8), avx512.peak(DType::I8));
  EXPECT_EQ(avx512.peak(DType::Bool), avx512.peak(DType::I8));
  const Target& webgpu = named("webgpu");
  EXPECT_EQ(webgpu.peak(DType::F16), webgpu.peak(DType::F32));
  EXPECT_EQ(webgpu.peak(DType::F64), webgpu.peak(DType::F32) / 8);
  EXPECT_EQ(webgpu.peak(DType::U8), webgpu.peak(DType::I32));
}

TEST(Target, TheRooflineIsTheSlowerOfMemoryAndArithmetic) {
  const Target& avx512 = named("avx512");
  EXPECT_EQ(avx512.estimate_ns(38'000, 0, DType::F32, 0), 1000);
  EXPECT_EQ(avx512.estimate_ns(0, 352'000, DType::F32, 0), 1000);
  EXPECT_EQ(avx512.estimate_ns(38'000, 352'000, DType::F32, 3), 1000 + 3 * avx512.launch_ns);
  EXPECT_EQ(avx512.estimate_ns(1, 0, DType::F32, 0), 1) << "rounds up";
  EXPECT_EQ(avx512.estimate_ns(-5, -5, DType::F32, -5), 0);
  EXPECT_EQ(avx512.estimate_ns(INT64_MAX, INT64_MAX, DType::F32, INT64_MAX), INT64_MAX);
  const Target& h100 = named("h100");
  EXPECT_GT(h100.estimate_ns(0, 1'000'000'000, DType::BF16, 0),
            10 * h100.estimate_ns(0, 1'000'000'000, DType::BF16, 0, ArithmeticUnit::Matrix));
}

TEST(Target, AStrideCostsWhatItTakesBeyondAccessInOrder) {
  const Target& avx512 = named("avx512");
  ASSERT_EQ(avx512.strided_percent, 250);
  EXPECT_EQ(avx512.strided_ns(38'000), 1500);
  EXPECT_EQ(avx512.strided_ns(1), 1) << "rounds up";
  EXPECT_EQ(avx512.strided_ns(0), 0);
  EXPECT_EQ(avx512.strided_ns(-1), 0);
  EXPECT_EQ(avx512.relayout_ns(38'000), avx512.launch_ns + 2000 + 1500) << "a launch, both ways, the stride";
  EXPECT_EQ(avx512.relayout_ns(0), avx512.launch_ns);
  EXPECT_GT(avx512.relayout_ns(INT64_MAX), INT64_MAX / 100) << "saturates, does not wrap";
}

TEST(Target, TextAndHashTellTargetsApart) {
  std::set<std::string> hashes;
  for (const Target& target : targets()) hashes.insert(target.hash());
  EXPECT_EQ(hashes.size(), targets().size());
  const std::string text = named("amx").text();
  EXPECT_TRUE(text.starts_with("target amx\nkind cpu\nrequires avx512f ")) << text;
  EXPECT_NE(text.find("\nvector_bits 512\n"), std::string::npos);
  EXPECT_NE(text.find("\npeak bf16 176000 2870000\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("matrix amx_bf16 bf16 16 16 32\nmatrix amx_int8 i8 16 16 64\n")) << text;
}

TEST(Target, TheHostTakesTheFirstTableItCanRun) {
  using Features = std::vector<std::string_view>;
  EXPECT_EQ(target_for(Features{}).name, "generic");
  EXPECT_EQ(target_for(Features{"neon"}).name, "neon");
  EXPECT_EQ(target_for(Features{"i8mm", "bf16", "neon"}).name, "neon_bf16");
  EXPECT_EQ(target_for(Features{"avx2", "fma", "f16c"}).name, "avx2");
  Features avx512 = {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"};
  EXPECT_EQ(target_for(avx512).name, "avx512");
  avx512.push_back("avx512vnni");
  EXPECT_EQ(target_for(avx512).name, "avx512_vnni");
  Features small = avx512;
  small.push_back("l2_1m");
  EXPECT_EQ(target_for(small).name, "avx512_vnni_1m");
  avx512.push_back("avx512bf16");
  EXPECT_EQ(target_for(avx512).name, "avx512_bf16");
  avx512.insert(avx512.end(), {"amx_tile", "amx_bf16", "amx_int8"});
  EXPECT_EQ(target_for(avx512).name, "amx");
  // Of this machine what is slow does not count, but may be asked for.
  Features quick = host_features();
  for (std::string_view slow : slow_host_features()) std::erase(quick, slow);
  EXPECT_EQ(&host_target(), &target_for(quick));
  EXPECT_TRUE(runs_on_host(host_target()));
  EXPECT_TRUE(runs_on_host(target_for(host_features())));
  EXPECT_FALSE(runs_on_host(named("webgpu")));
  EXPECT_EQ(host_target().kind, TargetKind::Cpu);
}

}  // namespace
}  // namespace xyntra
