// What a plan says is what its kernels are: every knob that a schedule has changes the kernel when it is turned, and so does every form;
// results stay right.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "compiler/pipeline.h"
#include "schedule/forms.h"
#include "unit/compiler/plan_testing.h"

namespace xyntra {
namespace {

Tensor counted(const Dims& dims, int step) {
  Tensor tensor = *Tensor::allocate(DType::F32, dims);
  int value = 0;
  for (float& element : tensor.mutable_view<float>())
    element = static_cast<float>((value += step) % 17 - 8) / 8.0f;
  return tensor;
}

struct Subject {
  Graph graph;
  std::vector<Datum> inputs;
};

Subject product() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(100), Dim(96)}));
  const ValueId w = made.graph.add_constant("w", counted({96, 192}, 5));
  const ValueId p = made.graph.output_of(made.graph.add_node("MatMul", {x, w}, {"p"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("Relu", {p}, {"y"}))};
  made.inputs = {Datum::of(counted({100, 96}, 3))};
  return made;
}

Subject window() {
  Subject made;
  const ValueId x =
      made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(1), Dim(32), Dim(18), Dim(18)}));
  const ValueId w = made.graph.add_constant("w", counted({64, 32, 3, 3}, 5));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node(
      "Conv", {x, w}, {"y"}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}, "window"))};
  made.inputs = {Datum::of(counted({1, 32, 18, 18}, 3))};
  return made;
}

Subject attention() {
  Subject made;
  const Shape shape{Dim(2), Dim(40), Dim(32)};
  std::vector<ValueId> given;
  for (const char* name : {"q", "k", "v"}) {
    given.push_back(made.graph.add_input(name, Type::tensor(DType::F32, shape)));
    made.inputs.push_back(Datum::of(counted({2, 40, 32}, 3)));
  }
  const ValueId k = made.graph.output_of(made.graph.add_node(
      "Transpose", {given[1]}, {"kt"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}, "turned"));
  const ValueId scores = made.graph.output_of(made.graph.add_node("MatMul", {given[0], k}, {"s"}));
  const ValueId weights = made.graph.output_of(made.graph.add_node("Softmax", {scores}, {"p"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {weights, given[2]}, {"y"}))};
  return made;
}

Subject normed_product() {
  Subject made = product();
  const ValueId x = made.graph.inputs.front();
  const ValueId scale = made.graph.add_constant("scale", counted({96}, 7));
  const ValueId n = made.graph.output_of(made.graph.add_node("LayerNormalization", {x, scale}, {"n"}));
  const ValueId w = made.graph.add_constant("w2", counted({96, 48}, 5));
  const ValueId p = made.graph.output_of(made.graph.add_node("MatMul", {n, w}, {"p2"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("Tanh", {p}, {"y2"}))};
  return made;
}

Subject rows() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(33), Dim(300)}));
  const ValueId p = made.graph.output_of(made.graph.add_node("Softmax", {x}, {"p"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("Neg", {p}, {"y"}))};
  made.inputs = {Datum::of(counted({33, 300}, 3))};
  return made;
}

struct Case {
  const char* name;
  Subject (*subject)();
  const char* target;
  Precision precision;
  double tolerance = 1e-3;  // more where weights are rounded before or after they are divided
};

// As a lock has it: what it says is obeyed or refused.
Result<Plan> planned(Subject& subject, const Case& tested) {
  XYNTRA_CHECK_OK(infer_types(subject.graph));
  CompileOptions options;
  options.target = *find_target(tested.target);
  options.precision = tested.precision;
  XYNTRA_TRY(Plan plan, make_plan(subject.graph, options));
  plan.replayed = true;
  return plan;
}

struct Baseline {
  Subject subject;
  Plan plan;
  std::string kernels;
  std::vector<float> right;
};
Result<Baseline> baseline_of(const Case& tested) {
  Baseline made{tested.subject(), {}, {}, {}};
  XYNTRA_TRY(made.plan, planned(made.subject, tested));
  XYNTRA_TRY(made.kernels, kernels_of(made.plan));
  made.right = evaluated(made.plan, made.subject.inputs);
  return made;
}

void expect_near(const std::vector<float>& made, const std::vector<float>& right, double tolerance) {
  ASSERT_EQ(made.size(), right.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    ASSERT_NEAR(made[i], right[i], tolerance * (1 + std::fabs(right[i]))) << "element " << i;
}

class Knobs : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Schedules, Knobs,
                         testing::Values(Case{"ProductAvx512", product, "avx512", Precision::F32},
                                         Case{"ProductAvx2", product, "avx2", Precision::F32},
                                         Case{"ProductNeon", product, "neon", Precision::F32},
                                         Case{"ProductWebGpu", product, "webgpu", Precision::F32},
                                         Case{"ProductH100", product, "h100", Precision::F32},
                                         Case{"ProductBf16H100", product, "h100", Precision::Bf16},
                                         Case{"WindowAvx512", window, "avx512", Precision::F32},
                                         Case{"WindowNeon", window, "neon", Precision::F32},
                                         Case{"WindowWebGpu", window, "webgpu", Precision::F32},
                                         Case{"WinogradAvx512", window, "avx512", Precision::Winograd},
                                         Case{"AttentionAvx512", attention, "avx512", Precision::F32},
                                         Case{"AttentionNeon", attention, "neon", Precision::F32},
                                         Case{"AttentionWebGpu", attention, "webgpu", Precision::F32}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_P(Knobs, EachOneThatIsWrittenIsRead) {
  const auto base = baseline_of(GetParam());
  ASSERT_TRUE(base.has_value()) << base.error().message;
  const auto& [subject, plan, kernels, right] = *base;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    for (std::size_t k = 0; k < plan.groups[g].schedule.knobs.size(); ++k) {
      const Knob& knob = plan.groups[g].schedule.knobs[k];
      if (knob.name == "skip_padding") continue;  // it is there or it is not
      bool changed = false;
      for (const std::int64_t value :
           {knob.value / 2, knob.value * 2, knob.value - 1, knob.value + 1, std::int64_t{1}}) {
        if (changed || value < 1) continue;
        Plan turned = plan;
        turned.groups[g].schedule.knobs[k].value = value;
        const auto others = kernels_of(turned);
        if (!others || *others == kernels) continue;
        changed = true;
        const std::vector<float> made = simulated(turned, subject.inputs);
        ASSERT_EQ(made.size(), right.size());
        for (std::size_t i = 0; i < made.size(); ++i)
          ASSERT_NEAR(made[i], right[i], 1e-3 * (1 + std::fabs(right[i])))
              << knob.name << " = " << value << ", element " << i;
      }
      EXPECT_TRUE(changed) << knob.name << " = " << knob.value << " of '" << plan.groups[g].schedule.name
                           << "' changes nothing";
    }
  }
}

// ---- forms

class OtherForms : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Schedules, OtherForms,
                         testing::Values(Case{"ProductAvx512", product, "avx512", Precision::F32},
                                         Case{"ProductWebGpu", product, "webgpu", Precision::F32},
                                         Case{"ProductH100", product, "h100", Precision::F32},
                                         Case{"ProductBf16H100", product, "h100", Precision::Bf16},
                                         Case{"NormedAvx512", normed_product, "avx512", Precision::F32},
                                         Case{"NormedNeon", normed_product, "neon", Precision::F32},
                                         Case{"NormedWebGpu", normed_product, "webgpu", Precision::F32},
                                         Case{"NormedBf16H100", normed_product, "h100", Precision::Bf16},
                                         Case{"RowsAvx512", rows, "avx512", Precision::F32},
                                         Case{"RowsWebGpu", rows, "webgpu", Precision::F32},
                                         Case{"WindowAvx512", window, "avx512", Precision::F32},
                                         Case{"WindowWebGpu", window, "webgpu", Precision::F32},
                                         Case{"WinogradAvx512", window, "avx512", Precision::Winograd},
                                         Case{"AttentionAvx512", attention, "avx512", Precision::F32},
                                         Case{"AttentionBf16H100", attention, "h100", Precision::Bf16, 2e-2},
                                         Case{"AttentionWebGpu", attention, "webgpu", Precision::F32}),
                         [](const auto& tested) { return std::string(tested.param.name); });

constexpr std::array kPlainLoops{Form::PlainLoops, Form::OwnLoops, Form::GuardedLoops};

// Lists of forms near one: another in some place, and what follows all loops, which every stage has.
std::set<std::vector<std::string>> near(const std::vector<std::string>& forms) {
  constexpr std::size_t kMostStages = 6;
  std::set<std::vector<std::string>> found;
  for (std::size_t place = 0; place <= forms.size(); ++place) {
    for (const Form form : all_forms()) {
      std::vector<std::string> other(forms.begin(), forms.begin() + static_cast<std::ptrdiff_t>(place));
      other.emplace_back(name_of(form));
      for (std::size_t more = 0; more <= kMostStages; ++more) {
        found.insert(other);
        other.emplace_back(name_of(Form::Loops));
      }
    }
  }
  return found;
}

TEST_P(OtherForms, AreRefusedOrRight) {
  const auto base = baseline_of(GetParam());
  ASSERT_TRUE(base.has_value()) << base.error().message;
  const auto& [subject, plan, kernels, right] = *base;
  std::set<std::string> seen{kernels};
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const std::vector<std::string>& forms = plan.groups[g].schedule.forms;
    ASSERT_FALSE(forms.empty());
    for (const std::vector<std::string>& other : near(forms)) {
      if (other == forms) continue;
      Plan turned = plan;
      turned.groups[g].schedule.forms = other;
      const auto others = kernels_of(turned);
      if (!others) {
        EXPECT_EQ(others.error().error_class, ErrorClass::BadModel) << others.error().message;
        EXPECT_NE(others.error().message.find("as the plan says"), std::string::npos)
            << others.error().message;
        continue;
      }
      SCOPED_TRACE(text_of(other) + " for " + text_of(forms));
      // Loops without masks, or of no merged axes, are those with them where there is nothing to mask or merge.
      const bool plain =
          std::ranges::any_of(kPlainLoops, [&](Form form) { return other[0] == name_of(form); });
      EXPECT_TRUE(plain || seen.insert(*others).second) << "another form, and the kernels stay";
      const std::vector<float> made = simulated(turned, subject.inputs);
      expect_near(made, right, GetParam().tolerance);
    }
  }
  EXPECT_GT(seen.size(), 1U) << "loops are a form that every kernel can have";
}

// Every knob of every form that a kernel has, at every legal value.
TEST_P(OtherForms, KnobsAreRefusedOrRight) {
  const auto base = baseline_of(GetParam());
  ASSERT_TRUE(base.has_value()) << base.error().message;
  const auto& [subject, plan, kernels, right] = *base;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    for (std::size_t f = 0; f < plan.groups[g].schedule.forms.size(); ++f) {
      const NamedForm named = *parse_form(plan.groups[g].schedule.forms[f]);
      for (std::size_t k = 0; k < named.knobs.size(); ++k) {
        std::size_t obeyed = 0;
        for (const std::int64_t value : find_knob(named.form, named.knobs[k].name)->legal) {
          if (value == named.knobs[k].value) continue;
          NamedForm other = named;
          other.knobs[k].value = value;
          SCOPED_TRACE(text_of(other));
          Plan turned = plan;
          turned.groups[g].schedule.forms[f] = text_of(other);
          const auto others = kernels_of(turned);
          if (!others) {
            EXPECT_NE(others.error().message.find("as the plan says"), std::string::npos)
                << others.error().message;
            continue;
          }
          ++obeyed;
          EXPECT_NE(*others, kernels) << "another value, and the kernels stay";
          expect_near(simulated(turned, subject.inputs), right, GetParam().tolerance);
        }
        // Threads of a row that wait for one another have no other row beside it, and of one tile there is no part.
        constexpr std::array<std::string_view, 3> kMayBeAlone{"rows", "group_rows", "splits"};
        EXPECT_TRUE(obeyed > 0 || std::ranges::find(kMayBeAlone, named.knobs[k].name) != kMayBeAlone.end())
            << named.knobs[k].name << " of " << text_of(named) << " has one value alone";
      }
    }
  }
}

// A plan that is carried out from its text has the kernels that it had when it was made.
TEST_P(OtherForms, WhatWasChosenIsObeyed) {
  Subject subject = GetParam().subject();
  auto plan = planned(subject, GetParam());
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto chosen = kernels_of(*plan);
  plan->kernels = nullptr;
  const auto obeyed = kernels_of(*plan);
  ASSERT_TRUE(chosen && obeyed);
  EXPECT_EQ(*chosen, *obeyed);
}

}  // namespace
}  // namespace xyntra
