// Donated inputs: results that extend them append rows in place and write nothing else, whatever room there is.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "backends/make_runner.h"
#include "compiler/compiled/wgsl_backend.h"
#include "compiler/lock.h"
#include "ir/text.h"
#include "ops/infer.h"
#include "package/artifact.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

// Two caches that grow alike, grouped queries, and a third that grows by another number of rows.
constexpr std::string_view kDecoder = R"(xir 1
graph @decoder(%q: f32[b, 4, s, 8], %k: f32[b, 2, s, 8], %past_k: f32[b, 2, past, 8], %past_v: f32[b, 2, past, 8],
               %more: i64[m], %ids: i64[n]) -> (%y, %present_k, %present_v, %all) {
  const %shape: i64[4] = [0, 2, -1, 8]
  %new_k: f32[b, 2, s, 8] = Neg(%k)
  %present_k: f32[b, 2, past + s, 8] = Concat(%past_k, %new_k) {axis = 2}
  %present_v: f32[b, 2, past + s, 8] = Concat(%past_v, %k) {axis = 2}
  %folded: f32[b, 2, 2*s, 8] = Reshape(%q, %shape)
  %transposed: f32[b, 2, 8, past + s] = Transpose(%present_k) {perm = [0, 1, 3, 2]}
  %scores: f32[b, 2, 2*s, past + s] = MatMul(%folded, %transposed)
  %weights: f32[b, 2, 2*s, past + s] = Softmax(%scores)
  %y: f32[b, 2, 2*s, 8] = MatMul(%weights, %present_v)
  %all: i64[m + n] = Concat(%more, %ids) {axis = 0}
})";

Module module_of(std::string_view text) {
  auto module = parse_xir(text);
  if (!module) internal_error(module.error().to_string());
  if (Status typed = infer_types(*module); !typed) internal_error(typed.error().to_string());
  return std::move(*module);
}

Tensor drawn(const Dims& dims, std::uint32_t state) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  for (float& value : tensor.mutable_view<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 8) - (1 << 23)) / (1 << 23);
  }
  return tensor;
}

Tensor counted(std::int64_t size) {
  Tensor tensor = *Tensor::allocate(DType::I64, {size});
  std::int64_t next = 10;
  for (std::int64_t& value : tensor.mutable_view<std::int64_t>()) value = next++;
  return tensor;
}

struct Sizes {
  std::int64_t b, s, past, m = 3, n = 2;
};

std::vector<Datum> inputs_of(const Sizes& sizes) {
  const auto [b, s, past, m, n] = sizes;
  return {Datum::of(drawn({b, 4, s, 8}, 1)),
          Datum::of(drawn({b, 2, s, 8}, 2)),
          Datum::of(drawn({b, 2, past, 8}, 3)),
          Datum::of(drawn({b, 2, past, 8}, 4)),
          Datum::of(counted(m)),
          Datum::of(counted(n))};
}

// Memory with room for some rows, which holds what must not be read.
struct Cache {
  Cache(const Tensor& rows, std::size_t axis, std::int64_t room)
      : axis(axis), capacity(rows.dims()[axis] + room) {
    Dims dims = rows.dims();
    dims[axis] = capacity;
    memory = *Tensor::allocate(rows.dtype(), dims);
    if (rows.dtype() == DType::F32) {
      for (float& value : memory.mutable_view<float>()) value = std::numeric_limits<float>::quiet_NaN();
    }
    copy_rows(rows, axis, {rows.bytes(), rows.dims()[axis]}, {memory.mutable_bytes(), capacity});
  }
  DonatedInput donated(std::size_t input) { return {input, axis, capacity, memory.mutable_bytes()}; }
  // The first rows, dense.
  Tensor rows(const Dims& dims) {
    const Tensor like = *Tensor::allocate(memory.dtype(), dims);
    return *dense_copy(donated(0), like, nullptr);
  }

  std::size_t axis;
  std::int64_t capacity;
  Tensor memory;
};

void near(const Tensor& expected, const Tensor& got, const std::string& what) {
  ASSERT_EQ(expected.dims(), got.dims()) << what;
  for (std::int64_t i = 0; i < expected.count(); ++i)
    ASSERT_NEAR(expected.element_as_f64(i), got.element_as_f64(i), 1e-5) << what << ", element " << i;
}

// Nothing where it can.
std::string why_it_cannot_run(const char* backend) {
  const Backend& row = **backend_named(backend);
  return row.readiness == nullptr ? "" : row.readiness().why;
}

class Donated : public testing::TestWithParam<const char*> {
 protected:
  // The model is compiled once for all tests of a backend.
  void SetUp() override {
    if (const std::string why = why_it_cannot_run(GetParam()); !why.empty()) GTEST_SKIP() << why;
    struct Made {
      Module module = module_of(kDecoder);
      std::shared_ptr<RunCounts> counts = std::make_shared<RunCounts>();
      std::unique_ptr<ModelRunner> runner, reference;
    };
    static std::map<std::string, Made> made;
    Made& ready = made[GetParam()];
    if (!ready.runner) {
      EvaluatorOptions options;
      options.threads = 1;
      options.counts = ready.counts;
      auto compiled = make_runner(ready.module.graph, GetParam(), options, {}, ObjectCache::off(),
                                  Precision::F32, {}, {"*"});
      ASSERT_TRUE(compiled.has_value()) << compiled.error().to_string();
      ready.runner = std::move(*compiled);
      ready.reference = std::move(*make_runner(ready.module.graph, "reference", {}));
    }
    runner = ready.runner.get();
    reference = ready.reference.get();
    counts = ready.counts;
    copied_before = counts->copies;
  }
  std::uint64_t copies() const { return counts->copies - copied_before; }

  // Donates caches that have so much room beyond what is needed.
  void check(const Sizes& sizes, std::int64_t room) {
    const std::string what = std::string(GetParam()) + ", past " + std::to_string(sizes.past) + ", new " +
                             std::to_string(sizes.s) + ", room " + std::to_string(room);
    const std::vector<Datum> inputs = inputs_of(sizes);
    const std::vector<Datum> right = *reference->run(inputs);
    Cache keys(inputs[2].tensor, 2, sizes.s + room), values(inputs[3].tensor, 2, sizes.s + room),
        ids(inputs[4].tensor, 0, sizes.n + room);
    std::vector<DonatedInput> donated{keys.donated(2), ids.donated(4), values.donated(3)};
    auto got = runner->run_donating(inputs, donated);
    ASSERT_TRUE(got.has_value()) << what << ": " << got.error().to_string();
    near(right[0].tensor, (*got)[0].tensor, what);
    std::size_t number = 1;
    for (Cache* cache : {&keys, &values, &ids}) {
      const Tensor& expected = right[number].tensor;
      const bool in_place = std::ranges::any_of(donated, [&](const DonatedInput& one) {
        return one.memory.data() == cache->memory.bytes().data() && one.in_place;
      });
      EXPECT_EQ(in_place, room >= 0) << what;
      if (in_place) {
        EXPECT_EQ((*got)[number].tensor.bytes().data(), cache->memory.bytes().data());
        near(expected, cache->rows(expected.dims()), what + " in place");
      } else {
        near(expected, (*got)[number].tensor, what + " copied");
        near(inputs[number + 1].tensor, cache->rows(inputs[number + 1].tensor.dims()), what + " as it was");
      }
      ++number;
    }
  }

  ModelRunner *runner = nullptr, *reference = nullptr;
  std::shared_ptr<RunCounts> counts;
  std::uint64_t copied_before = 0;
};

TEST_P(Donated, ResultsLieBehindTheRowsGivenAway) {
  ASSERT_EQ(runner->extended_inputs().size(), 3u);
  for (std::int64_t past : {0, 1, 17}) {
    for (std::int64_t s : {1, 3}) {
      for (std::int64_t room : {0, 5}) check({2, s, past}, room);
    }
  }
  EXPECT_EQ(copies(), 0u);
}

TEST_P(Donated, WithoutRoomTheyAreCopiedAndCounted) {
  check({2, 2, 5}, -1);
  EXPECT_EQ(copies(), 3u);
  check({1, 2, 5}, 0);
  EXPECT_EQ(copies(), 3u);
}

TEST_P(Donated, InputsThatAreOnlyLentStayAsTheyAre) {
  for (std::int64_t past : {0, 6}) {
    const std::vector<Datum> inputs = inputs_of({2, 2, past});
    const std::vector<Datum> right = *reference->run(inputs);
    auto got = runner->run(inputs);
    ASSERT_TRUE(got.has_value()) << got.error().to_string();
    for (std::size_t i = 0; i < right.size(); ++i) near(right[i].tensor, (*got)[i].tensor, "lent");
    Tensor memory = *Tensor::allocate(DType::F32, right[1].tensor.dims());
    std::vector<std::span<std::byte>> into(right.size());
    into[1] = memory.mutable_bytes();
    ASSERT_TRUE(runner->run_into(inputs, into).has_value());
    near(right[1].tensor, memory, "into memory of the caller's");
  }
  EXPECT_EQ(copies(), 12u);
}

TEST_P(Donated, OneOfTwoThatGrowAlikeIsNotEnough) {
  const std::vector<Datum> inputs = inputs_of({1, 1, 4});
  Cache keys(inputs[2].tensor, 2, 9), values(inputs[3].tensor, 2, 5);
  std::vector<DonatedInput> donated{keys.donated(2)};
  ASSERT_TRUE(runner->run_donating(inputs, donated).has_value());
  EXPECT_FALSE(donated[0].in_place);
  donated = {keys.donated(2), values.donated(3)};
  auto got = runner->run_donating(inputs, donated);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().message,
            "inputs that grow alike need the same capacity: 'past_v' has 9, 'past_k' has 13");
}

TEST_P(Donated, MemoryOfAnotherSizeIsRefused) {
  const std::vector<Datum> inputs = inputs_of({1, 1, 4});
  Cache keys(inputs[2].tensor, 2, 9), values(inputs[3].tensor, 2, 9);
  auto refused = [&](auto spoil) {
    std::vector<DonatedInput> donated{keys.donated(2), values.donated(3)};
    spoil(donated);
    auto got = runner->run_donating(inputs, donated);
    return got.has_value() ? "" : got.error().message;
  };
  EXPECT_EQ(refused([](auto& d) { d[0].memory = d[0].memory.first(64); }),
            "input 'past_k' is donated with 64 bytes; 13 rows take 832");
  EXPECT_EQ(refused([](auto& d) { d[1].capacity = 3; }), "input 'past_v' has 4 rows in memory for 3");
  EXPECT_EQ(refused([](auto& d) { d[1].input = 2; }), "input 'past_k' is donated twice, or is no tensor");
  EXPECT_EQ(refused([](auto&) {}), "");
}

// What is said to be unchanged is not looked at where a device has a copy of it, and nowhere else.
TEST_P(Donated, ADeviceKeepsWhatIsUnchanged) {
  const std::vector<Datum> inputs = inputs_of({1, 1, 4});
  const std::vector<Datum> right = *reference->run(inputs);
  Cache keys(inputs[2].tensor, 2, 9), values(inputs[3].tensor, 2, 9);
  auto y = [&](ModelRunner& by, bool unchanged) {
    std::vector<DonatedInput> donated{keys.donated(2), values.donated(3)};
    for (DonatedInput& one : donated) one.unchanged = unchanged;
    auto got = by.run_donating(inputs, donated);
    EXPECT_TRUE(got.has_value() && donated[0].in_place && donated[1].in_place);
    return (*got)[0].tensor.element_as_f64(0);
  };
  const double expected = right[0].tensor.element_as_f64(0);
  EXPECT_NEAR(y(*runner, false), expected, 1e-5);
  const Tensor kept = *Tensor::allocate(DType::F32, values.memory.dims());
  std::ranges::copy(values.memory.bytes(), const_cast<std::byte*>(kept.bytes().data()));
  auto spoil = [&] {
    for (float& value : values.memory.mutable_view<float>()) value = 1e6F;
  };
  auto restore = [&] { std::ranges::copy(kept.bytes(), values.memory.mutable_bytes().begin()); };
  const bool device = find_backend(GetParam())->has_devices;
  spoil();
  EXPECT_EQ(std::abs(y(*runner, true) - expected) < 1e-5, device);
  spoil();
  EXPECT_GT(y(*runner, false), 1e3);
  restore();
  EXPECT_NEAR(y(*runner, false), expected, 1e-5);
  // Another context writes to the memory: what the first one has of it is old.
  const std::unique_ptr<ModelRunner> other = runner->another();
  EXPECT_NEAR(y(*other, true), expected, 1e-5);
  spoil();
  EXPECT_GT(y(*runner, true), 1e3);
}

// Nobody wrote, and yet a device has not seen all: rows that were not in use when it was given the memory.
TEST_P(Donated, RowsComeIntoUseLater) {
  std::vector<Datum> inputs = inputs_of({1, 1, 10});
  Cache keys(inputs[2].tensor, 2, 6), values(inputs[3].tensor, 2, 6);
  bool unchanged = false;
  for (std::int64_t past : {5, 6, 10, 3, 11, 0, 9}) {
    inputs[2] = Datum::of(keys.rows({1, 2, past, 8}));
    inputs[3] = Datum::of(values.rows({1, 2, past, 8}));
    const std::vector<Datum> right = *reference->run(inputs);
    std::vector<DonatedInput> donated{keys.donated(2), values.donated(3)};
    for (DonatedInput& one : donated) one.unchanged = unchanged;
    unchanged = true;
    auto got = runner->run_donating(inputs, donated);
    const std::string what = std::string(GetParam()) + ", past " + std::to_string(past);
    ASSERT_TRUE(got.has_value()) << what << ": " << got.error().to_string();
    near(right[0].tensor, (*got)[0].tensor, what);
    near(right[1].tensor, keys.rows({1, 2, past + 1, 8}), what + ", keys");
    near(right[2].tensor, values.rows({1, 2, past + 1, 8}), what + ", values");
  }
}

// Rows of two bytes: new ones share words with others, which stay as they are.
TEST_P(Donated, RowsThatShareWordsWithOthers) {
  const Module module = module_of(R"(xir 1
graph @halves(%new: f16[2, s, 1], %past: f16[2, t, 1]) -> (%y, %present) {
  %present: f16[2, t + s, 1] = Concat(%past, %new) {axis = 1}
  %y: f16[2, t + s, 1] = Neg(%present)
})");
  auto made = make_runner(module.graph, GetParam(), {}, {}, ObjectCache::off(), Precision::F32, {}, {"*"});
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  const std::int64_t steps[][2] = {{2, 2}, {4, 1}, {5, 1}, {6, 3}, {3, 1}, {11, 2}};  // rows in use, new ones
  for (std::int64_t capacity : {16, 15}) {
    Tensor memory = *Tensor::allocate(DType::F16, {2, capacity, 1});
    std::uint16_t next = 0x3c00;
    for (std::uint16_t& value : memory.mutable_view<std::uint16_t>()) value = next++;
    bool unchanged = false;
    for (const auto& [past, s] : steps) {
      std::vector<std::uint16_t> after(memory.view<std::uint16_t>().begin(),
                                       memory.view<std::uint16_t>().end());
      std::vector<Datum> inputs{Datum::of(*Tensor::allocate(DType::F16, {2, s, 1})),
                                Datum::of(*Tensor::allocate(DType::F16, {2, past, 1}))};
      auto rows = inputs[0].tensor.mutable_view<std::uint16_t>();
      for (std::int64_t i = 0; i < 2 * s; ++i) {
        rows[static_cast<std::size_t>(i)] = next;
        after[static_cast<std::size_t>(i / s * capacity + past + i % s)] = next++;
      }
      std::vector<DonatedInput> donated{{1, 1, capacity, memory.mutable_bytes(), unchanged}};
      unchanged = true;
      auto got = (*made)->run_donating(inputs, donated);
      ASSERT_TRUE(got.has_value()) << got.error().to_string();
      EXPECT_TRUE(donated[0].in_place);
      const std::string what = std::string(GetParam()) + ", " + std::to_string(past) + " and " +
                               std::to_string(s) + " rows of " + std::to_string(capacity);
      EXPECT_TRUE(std::ranges::equal(memory.view<std::uint16_t>(), after)) << what;
      const auto y = (*got)[0].tensor.view<std::uint16_t>();
      for (std::int64_t i = 0; i < 2 * (past + s); ++i) {
        const std::int64_t from = i / (past + s) * capacity + i % (past + s);
        EXPECT_EQ(y[static_cast<std::size_t>(i)], after[static_cast<std::size_t>(from)] ^ 0x8000) << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Donated, testing::Values("cpu", "sim", "wgsl"));

// Queries, keys and values of one matmul: on GPUs it stores new keys and values where the KV caches are, besides what others read.
TEST(DonatedPlans, AMatmulStoresWhatItMakesForCaches) {
  const Module module = module_of(R"(xir 1
graph @layer(%x: f32[b, s, 24], %w: f32[24, 96], %past_k: f32[b, 4, past, 8], %past_v: f32[b, 4, past, 8])
    -> (%q, %present_k, %present_v) {
  const %heads: i64[4] = [0, 0, 4, 8]
  %qkv: f32[b, s, 96] = MatMul(%x, %w)
  %q: f32[b, s, 32], %kf: f32[b, s, 32], %vf: f32[b, s, 32] = Split(%qkv) {axis = 2, num_outputs = 3}
  %kh: f32[b, s, 4, 8] = Reshape(%kf, %heads)
  %vh: f32[b, s, 4, 8] = Reshape(%vf, %heads)
  %k: f32[b, 4, s, 8] = Transpose(%kh) {perm = [0, 2, 1, 3]}
  %v: f32[b, 4, s, 8] = Transpose(%vh) {perm = [0, 2, 1, 3]}
  %present_k: f32[b, 4, past + s, 8] = Concat(%past_k, %k) {axis = 2}
  %present_v: f32[b, 4, past + s, 8] = Concat(%past_v, %v) {axis = 2}
})");
  const auto reference = *make_runner(module.graph, "reference", {});
  for (const char* target : {"webgpu", "webgpu_software"}) {
    CompileOptions options;
    options.target = *find_target(target);
    options.donated = {"*"};
    auto plan = make_plan(module.graph, options);
    ASSERT_TRUE(plan.has_value()) << plan.error().to_string();
    EXPECT_EQ(std::ranges::count(plan->groups, Hero::Movement, &Group::hero), 1) << "queries for the caller";
    EXPECT_EQ(plan->groups.size(), 2u);
    for (const char* backend : {"sim", "wgsl"}) {
      if (!why_it_cannot_run(backend).empty()) continue;
      auto runner = make_runner(module.graph, backend, {}, options, ObjectCache::off(), {});
      ASSERT_TRUE(runner.has_value()) << runner.error().to_string();
      for (const auto& [b, s, past] : {std::array<std::int64_t, 3>{2, 1, 5}, {1, 40, 3}, {3, 2, 0}}) {
        const std::vector<Datum> inputs{Datum::of(drawn({b, s, 24}, 1)), Datum::of(drawn({24, 96}, 2)),
                                        Datum::of(drawn({b, 4, past, 8}, 3)),
                                        Datum::of(drawn({b, 4, past, 8}, 4))};
        const std::vector<Datum> right = *reference->run(inputs);
        Cache keys(inputs[2].tensor, 2, s + 2), values(inputs[3].tensor, 2, s + 2);
        std::vector<DonatedInput> donated{keys.donated(2), values.donated(3)};
        auto got = (*runner)->run_donating(inputs, donated);
        ASSERT_TRUE(got.has_value()) << target << backend << ": " << got.error().to_string();
        EXPECT_TRUE(donated[0].in_place && donated[1].in_place);
        near(right[0].tensor, (*got)[0].tensor, std::string(target) + " " + backend);
        near(right[1].tensor, keys.rows(right[1].tensor.dims()), std::string(target) + " keys");
        near(right[2].tensor, values.rows(right[2].tensor.dims()), std::string(target) + " values");
      }
    }
  }
}

TEST(DonatedPlans, AnArtifactKnowsItsExtensions) {
  const Module module = module_of(R"(xir 1
graph @grow(%new: f32[2, s, 4], %past: f32[2, t, 4]) -> (%present) {
  %present: f32[2, t + s, 4] = Concat(%past, %new) {axis = 1}
})");
  const auto path = std::filesystem::temp_directory_path() / "xyntra_donated_test.xyn";
  ArtifactOptions options;
  options.compile.target = &host_target();
  options.compile.donated = {"*"};
  auto written = write_artifact(module, path.string(), options);
  ASSERT_TRUE(written.has_value()) << written.error().to_string();
  auto loaded = load_artifact(path.string(), 1);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().to_string();
  auto runner = make_runner(*loaded, {});
  ASSERT_EQ(runner->extended_inputs().size(), 1u);
  const std::vector<Datum> inputs{Datum::of(drawn({2, 1, 4}, 1)), Datum::of(drawn({2, 3, 4}, 2))};
  Cache past(inputs[1].tensor, 1, 9);
  std::vector<DonatedInput> donated{past.donated(1)};
  ASSERT_TRUE(runner->run_donating(inputs, donated).has_value());
  EXPECT_TRUE(donated[0].in_place);
  near(inputs[1].tensor, past.rows({2, 3, 4}), "rows that were there");
  std::filesystem::remove(path);
}

TEST(DonatedPlans, ALockIsReplayedAndWhatHasRoomForNothingIsRefused) {
  const Module module = module_of(kDecoder);
  CompileOptions options;
  options.target = &host_target();
  options.donated = {"past_k", "past_v"};
  auto made = make_lock(module, options);
  ASSERT_TRUE(made.has_value()) << made.error().to_string();
  auto loaded = load_lock(made->text, module, {});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().to_string();
  auto spoilt = [&](const std::string& from, const std::string& to) {
    std::string text = made->text;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    auto plan = load_lock(text, module, {});
    return plan.has_value() ? "" : plan.error().message;
  };
  // less room than the result takes
  EXPECT_NE(spoilt("[0, 1, 2+(room + s), 3]", "[0, 1, 2+(room), 3]"), "");
  EXPECT_NE(spoilt("[0, 1, 2+(room), 3]", "[0, 1, 2+(past), 3]"), "");
  EXPECT_NE(spoilt("layout %past_k \"[0, 1, 2+(room + s), 3]\"\n", ""), "");
}

std::string refusal(std::string_view body, const char* name = "past") {
  const Module module = module_of("xir 1\ngraph @main" + std::string(body));
  CompileOptions options;
  options.target = &host_target();
  options.donated = {name};
  auto plan = make_plan(module.graph, options);
  return plan.has_value() ? "" : plan.error().message;
}

TEST(DonatedPlans, WhatCannotBeExtendedInPlaceIsRefusedWithTheReason) {
  EXPECT_EQ(refusal("(%x: f32[s, 4], %past: f32[t, 4]) -> (%y) {\n %y = Concat(%past, %x) {axis = 0}\n}"),
            "");
  EXPECT_EQ(refusal("(%x: f32[s, 4]) -> (%y) {\n %y = Relu(%x)\n}"), "donate: the model has no input 'past'");
  const std::string begin = "donate: input 'past' cannot be extended in place: ";
  EXPECT_EQ(refusal("(%x: f32[s, 4], %past: f32[t, 4]) -> (%y) {\n %y = Concat(%x, %past) {axis = 0}\n}"),
            begin + "no result of the model is this input with rows appended");
  EXPECT_EQ(refusal("(%x: f32[s, 4], %past: f32[t, 4]) -> (%z) {\n %y = Concat(%past, %x) {axis = 0}\n %z = "
                    "Relu(%y)\n}"),
            begin + "no result of the model is this input with rows appended");
  EXPECT_EQ(
      refusal("(%x: f32[s, 4], %past: f32[t, 4]) -> (%y, %past) {\n %y = Concat(%past, %x) {axis = 0}\n}"),
      begin + "it, or the result that extends it, is an output more than once");
  EXPECT_EQ(refusal("(%x: f32[s, 4], %past: f32[t, 4]) -> (%y, %z) {\n %y = Concat(%past, %x) {axis = 0}\n"
                    " %z = NonZero(%y)\n}"),
            begin + "an operation on the host reads it, or the result that extends it");
  EXPECT_EQ(refusal("(%past: f32[t, 4]) -> (%y) {\n %n = Neg(%past)\n %y = Concat(%past, %n) {axis = 0}\n}"),
            begin + "the launch that extends it reads it for something else, too");
}

}  // namespace
}  // namespace xyntra
