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

Subject attention_of(std::int64_t queries, std::int64_t keys) {
  Subject made;
  std::vector<ValueId> given;
  for (const char* name : {"q", "k", "v"}) {
    const std::int64_t rows = *name == 'q' ? queries : keys;
    given.push_back(made.graph.add_input(name, Type::tensor(DType::F32, Shape{Dim(2), Dim(rows), Dim(32)})));
    made.inputs.push_back(Datum::of(counted({2, rows, 32}, 3)));
  }
  const ValueId k = made.graph.output_of(made.graph.add_node(
      "Transpose", {given[1]}, {"kt"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}, "turned"));
  const ValueId scores = made.graph.output_of(made.graph.add_node("MatMul", {given[0], k}, {"s"}));
  const ValueId weights = made.graph.output_of(made.graph.add_node("Softmax", {scores}, {"p"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {weights, given[2]}, {"y"}))};
  return made;
}

Subject attention() { return attention_of(40, 40); }
Subject few_queries() { return attention_of(2, 150); }

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

// One that few rows have: its weights are read once.
Subject skinny() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(3), Dim(160)}));
  const ValueId w = made.graph.add_constant("w", counted({160, 96}, 5));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {x, w}, {"y"}))};
  made.inputs = {Datum::of(counted({3, 160}, 3))};
  return made;
}

// The same with what is made of its rows before.
Subject normed_rows() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(64), Dim(64)}));
  const ValueId scale = made.graph.add_constant("scale", counted({64}, 7));
  const ValueId n = made.graph.output_of(made.graph.add_node("LayerNormalization", {x, scale}, {"n"}));
  const ValueId w = made.graph.add_constant("w", counted({64, 64}, 5));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {n, w}, {"y"}))};
  made.inputs = {Datum::of(counted({64, 64}, 3))};
  return made;
}

Subject many_keys() {
  Subject made;
  const std::array<Dims, 3> dims{Dims{1, 256, 32}, Dims{1, 32, 512}, Dims{1, 512, 64}};
  std::vector<ValueId> given;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    given.push_back(
        made.graph.add_input(std::string(1, "qkv"[i]), Type::tensor(DType::F32, shape_of(dims[i]))));
    made.inputs.push_back(Datum::of(counted(dims[i], 3)));
  }
  const ValueId products = made.graph.output_of(made.graph.add_node("MatMul", {given[0], given[1]}, {"s"}));
  Tensor eighth = *Tensor::allocate(DType::F32, {});
  eighth.mutable_view<float>()[0] = 0.125F;
  const ValueId scores = made.graph.output_of(made.graph.add_node(
      "Mul", {products, made.graph.add_constant("eighth", std::move(eighth))}, {"scaled"}));
  const ValueId weights = made.graph.output_of(made.graph.add_node("Softmax", {scores}, {"p"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {weights, given[2]}, {"y"}))};
  return made;
}

// Steps in order, each of 256 elements.
Subject steps() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(6), Dim(1), Dim(32)}));
  const ValueId w = made.graph.add_constant("w", counted({1, 64, 32}, 5));
  const ValueId r = made.graph.add_constant("r", counted({1, 64, 16}, 7));
  made.graph.outputs = {made.graph.output_of(
      made.graph.add_node("LSTM", {x, w, r}, {"y"}, {{"hidden_size", std::int64_t{16}}}, "steps"))};
  made.inputs = {Datum::of(counted({6, 1, 32}, 3))};
  return made;
}

// Of several sequences, both ways, of more terms than a thread keeps weights of.
Subject sequences() {
  Subject made;
  const std::int64_t batch = 6, hidden = 64;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(4), Dim(batch), Dim(32)}));
  const ValueId w = made.graph.add_constant("w", counted({2, 3 * hidden, 32}, 5));
  const ValueId r = made.graph.add_constant("r", counted({2, 3 * hidden, hidden}, 7));
  made.graph.outputs = {made.graph.output_of(
      made.graph.add_node("GRU", {x, w, r}, {"y"},
                          {{"hidden_size", hidden}, {"direction", std::string("bidirectional")}}, "steps"))};
  made.inputs = {Datum::of(counted({4, batch, 32}, 3))};
  return made;
}

// Sums so far, of contiguous columns.
Subject columns() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(5), Dim(90)}));
  const std::vector<std::int64_t> along{0};
  const ValueId axis = made.graph.add_constant("axis", Tensor::of_integers(along));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("CumSum", {x, axis}, {"y"}))};
  made.inputs = {Datum::of(counted({5, 90}, 3))};
  return made;
}

// Between convolutions whose channels lie in blocks: its windows are padded strip by strip.
Subject depthwise() {
  Subject made;
  const std::int64_t channels = 32;
  const Attributes padded{{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}};
  Attributes by_channel = padded;
  by_channel.emplace("group", channels);
  const ValueId x =
      made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(1), Dim(8), Dim(20), Dim(20)}));
  const ValueId w = made.graph.add_constant("w", counted({channels, 8, 3, 3}, 5));
  const ValueId d = made.graph.add_constant("d", counted({channels, 1, 3, 3}, 7));
  const ValueId u = made.graph.add_constant("u", counted({16, channels, 1, 1}, 3));
  auto made_by = [&](const char* op, const std::vector<ValueId>& inputs, const char* name,
                     const Attributes& attributes) {
    return made.graph.output_of(made.graph.add_node(op, inputs, {name}, attributes, name));
  };
  const ValueId a = made_by("Relu", {made_by("Conv", {x, w}, "c", padded)}, "a", {});
  const ValueId b = made_by("Relu", {made_by("Conv", {a, d}, "e", by_channel)}, "b", {});
  made.graph.outputs = {made_by("Conv", {b, u}, "y", {})};
  made.inputs = {Datum::of(counted({1, 8, 20, 20}, 3))};
  return made;
}

// Of many results and a short sum.
Subject wide_product() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(768), Dim(16)}));
  const ValueId w = made.graph.add_constant("w", counted({16, 768}, 5));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {x, w}, {"y"}))};
  made.inputs = {Datum::of(counted({768, 16}, 3))};
  return made;
}

Subject wide_normed_product() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(768), Dim(16)}));
  const ValueId scale = made.graph.add_constant("scale", counted({16}, 7));
  const ValueId n = made.graph.output_of(made.graph.add_node("LayerNormalization", {x, scale}, {"n"}));
  const ValueId w = made.graph.add_constant("w", counted({16, 768}, 5));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {n, w}, {"y"}))};
  made.inputs = {Datum::of(counted({768, 16}, 3))};
  return made;
}

Subject deep_product() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(64), Dim(512)}));
  const ValueId w = made.graph.add_constant("w", counted({512, 64}, 5));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {x, w}, {"y"}))};
  made.inputs = {Datum::of(counted({64, 512}, 3))};
  return made;
}

// Both operands of the second product are bf16 in memory, with --precision bf16.
Subject two_products_of(std::int64_t rows, std::int64_t columns) {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(rows), Dim(64)}));
  const ValueId w = made.graph.add_constant("w", counted({64, columns}, 5));
  const ValueId v = made.graph.add_constant("v", counted({columns, columns}, 7));
  const ValueId p = made.graph.output_of(made.graph.add_node("MatMul", {x, w}, {"p"}));
  const ValueId q = made.graph.output_of(made.graph.add_node("Relu", {p}, {"q"}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("MatMul", {q, v}, {"y"}))};
  made.inputs = {Datum::of(counted({rows, 64}, 3))};
  return made;
}
Subject two_products() { return two_products_of(256, 256); }
Subject two_thin_products() { return two_products_of(16, 128); }

Subject even_rows() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(64), Dim(64)}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("Softmax", {x}, {"y"}))};
  made.inputs = {Datum::of(counted({64, 64}, 3))};
  return made;
}

// Neighbours in memory, of elements that lie apart.
Subject neighbouring_rows() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(2), Dim(24), Dim(512)}));
  made.graph.outputs = {made.graph.output_of(
      made.graph.add_node("Softmax", {x}, {"y"}, {{"axis", std::int64_t{1}}}, "middle"))};
  made.inputs = {Datum::of(counted({2, 24, 512}, 3))};
  return made;
}

// Rows one after another, each of ten copies of a warp.
Subject long_rows() {
  Subject made;
  const ValueId x = made.graph.add_input("x", Type::tensor(DType::F32, Shape{Dim(8), Dim(1280)}));
  made.graph.outputs = {made.graph.output_of(made.graph.add_node("Softmax", {x}, {"y"}))};
  made.inputs = {Datum::of(counted({8, 1280}, 3))};
  return made;
}

struct Case {
  const char* name;
  Subject (*subject)();
  const char* target;
  Precision precision;
  double tolerance = 1e-3;  // more where weights are rounded before or after they are divided
  std::vector<Form> barred = {};  // that another one may be chosen
  std::string form = {};  // of the last group, instead of what is chosen
};

// As a lock has it: what it says is obeyed or refused.
Result<Plan> planned(Subject& subject, const Case& tested) {
  XYNTRA_CHECK_OK(infer_types(subject.graph));
  CompileOptions options;
  options.target = *find_target(tested.target);
  options.precision = tested.precision;
  options.barred_forms = tested.barred;
  XYNTRA_TRY(Plan plan, make_plan(subject.graph, options));
  plan.replayed = true;
  if (!tested.form.empty()) {
    plan.groups.back().schedule.forms = {tested.form};
    plan.kernels = nullptr;
  }
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
      EXPECT_TRUE(changed) << knob.name << " = " << knob.value << " of '"
                           << name_of(plan.groups[g].schedule.kind) << "' changes nothing";
    }
  }
}

// ---- forms

const std::vector<Case>& cases_of_forms() {
  static const std::vector<Case> all{
      {"ProductAvx512", product, "avx512", Precision::F32},
      {"ProductWebGpu", product, "webgpu", Precision::F32},
      {"ProductSoftware", product, "webgpu_software", Precision::F32},
      {"ProductH100", product, "h100", Precision::F32},
      {"ProductBf16H100", product, "h100", Precision::Bf16},
      {"ProductBf16Amx", product, "amx", Precision::Bf16},
      {"ProductBf16Avx512", product, "avx512_bf16", Precision::Bf16},
      {"ProductBf16Neon", product, "neon_bf16", Precision::Bf16},
      {"WideWebGpu", wide_product, "webgpu", Precision::F32},
      {"WideNormedWebGpu", wide_normed_product, "webgpu", Precision::F32},
      {"DeepBf16H100", deep_product, "h100", Precision::Bf16},
      {"WarpgroupsH100",
       two_products,
       "h100",
       Precision::Bf16,
       1e-2,
       {},
       "warpgroup_tiles(group_rows=1,groups_across=1,groups_down=2,splits=1,stages=3,tile_columns=128,tile_"
       "rows=128)"},
      {"WarpsH100", two_thin_products, "h100", Precision::Bf16, 1e-2, {Form::WarpgroupTiles}},
      {"SkinnyWebGpu", skinny, "webgpu", Precision::F32},
      {"LongSumsWebGpu", skinny, "webgpu", Precision::F32, 1e-3, {Form::SkinnyGemm, Form::GroupTiles}},
      {"StepsWebGpu", steps, "webgpu", Precision::F32, 1e-3, {Form::BatchRecurrence}},
      {"SequencesWebGpu", sequences, "webgpu", Precision::F32},
      {"SequencesH100", sequences, "h100", Precision::F32},
      {"ColumnsAvx512", columns, "avx512", Precision::F32},
      {"ColumnsNeon", columns, "neon", Precision::F32},
      {"SequencesAvx512", sequences, "avx512", Precision::F32},
      {"SequencesNeon", sequences, "neon", Precision::F32},
      {"NormedAvx512", normed_product, "avx512", Precision::F32},
      {"NormedNeon", normed_product, "neon", Precision::F32},
      {"NormedWebGpu", normed_product, "webgpu", Precision::F32},
      {"NormedBf16H100", normed_product, "h100", Precision::Bf16},
      {"NormedRowsWebGpu", normed_rows, "webgpu", Precision::F32},
      {"NormedRowsH100", normed_rows, "h100", Precision::F32, 1e-3, {Form::RowsThenTiles}},
      {"RowsAvx512", rows, "avx512", Precision::F32},
      {"RowsWebGpu", rows, "webgpu", Precision::F32},
      {"NeighbouringRowsAvx512", neighbouring_rows, "avx512", Precision::F32},
      {"NeighbouringRowsNeon", neighbouring_rows, "neon", Precision::F32},
      {"EvenRowsH100", even_rows, "h100", Precision::F32},
      {"LongRowsH100",
       long_rows,
       "h100",
       Precision::F32,
       1e-3,
       {},
       "group_rows(consecutive_rows=2,row_threads=32,rows=1,stages=13)"},
      {"RowsH100", rows, "h100", Precision::F32},
      {"WindowAvx512", window, "avx512", Precision::F32},
      {"WindowWebGpu", window, "webgpu", Precision::F32},
      {"DepthwiseAvx512", depthwise, "avx512", Precision::F32},
      {"WinogradAvx512", window, "avx512", Precision::Winograd},
      {"AttentionAvx512", attention, "avx512", Precision::F32},
      {"AttentionBf16H100", attention, "h100", Precision::Bf16, 2e-2},
      {"AttentionWebGpu", attention, "webgpu", Precision::F32},
      {"FewQueriesH100", few_queries, "h100", Precision::F32},
      {"ManyKeysAvx512", many_keys, "avx512", Precision::F32},
      {"ManyKeysAmx", many_keys, "amx", Precision::F32},
      {"ManyKeysNeon", many_keys, "neon", Precision::F32}};
  return all;
}
class OtherForms : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Schedules, OtherForms, testing::ValuesIn(cases_of_forms()),
                         [](const auto& tested) { return std::string(tested.param.name); });

constexpr std::array kPlainLoops{Form::PlainLoops, Form::OwnLoops, Form::GuardedLoops};

// A form by itself, or with its knobs: all at the least legal value, at one in the middle, at the largest.
std::vector<std::string> with_some_knobs(Form form) {
  std::set<std::string> found;
  for (const std::size_t half : {0U, 1U, 2U}) {
    NamedForm named{form, {}};
    for (const FormKnob& knob : all_form_knobs()) {
      if (knob.form == form)
        named.knobs.push_back({knob.name, knob.legal[(knob.legal.size() - 1) * half / 2]});
    }
    found.insert(text_of(named));
  }
  return {found.begin(), found.end()};
}

// Lists of forms near one: another in some place, and what follows all loops, which every stage has.
std::set<std::vector<std::string>> near(const std::vector<std::string>& forms) {
  constexpr std::size_t kMostStages = 6;
  std::set<std::vector<std::string>> found;
  for (std::size_t place = 0; place <= forms.size(); ++place) {
    for (const Form form : all_forms()) {
      for (const std::string& text : with_some_knobs(form)) {
        std::vector<std::string> other(forms.begin(), forms.begin() + static_cast<std::ptrdiff_t>(place));
        other.push_back(text);
        for (std::size_t more = 0; more <= kMostStages; ++more) {
          found.insert(other);
          other.emplace_back(name_of(Form::Loops));
        }
      }
    }
  }
  return found;
}

std::string find_knobs_of(const std::vector<std::string>& forms) {
  for (const std::string& form : forms) {
    if (form.find('(') != std::string::npos) return form;
  }
  return "";
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
      // So are knobs that come to the same for few rows.
      const bool knobs = without_knobs(other) == without_knobs(forms) || !find_knobs_of(other).empty();
      EXPECT_TRUE(plain || seen.insert(*others).second || knobs) << "another form, and the kernels stay";
      const std::vector<float> made = simulated(turned, subject.inputs);
      expect_near(made, right, GetParam().tolerance);
    }
  }
  EXPECT_GT(seen.size(), 1U) << "loops are a form that every kernel can have";
}

// A form of a plan with another value of one of its knobs.
Plan turned_knob(const Plan& plan, std::size_t group, std::size_t form, std::size_t knob,
                 std::int64_t value) {
  Plan turned = plan;
  std::string& text = turned.groups[group].schedule.forms[form];
  NamedForm named = *parse_form(text);
  named.knobs[knob].value = value;
  text = text_of(named);
  return turned;
}

template <class What>
void for_each_knob(const Plan& plan, What what) {
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    for (std::size_t f = 0; f < plan.groups[g].schedule.forms.size(); ++f) {
      const NamedForm named = *parse_form(plan.groups[g].schedule.forms[f]);
      for (std::size_t k = 0; k < named.knobs.size(); ++k)
        what(*find_knob(named.form, named.knobs[k].name), named.knobs[k].value,
             [&plan, g, f, k](std::int64_t value) { return turned_knob(plan, g, f, k, value); });
    }
  }
}

// Every knob of every form that a kernel has, at every legal value.
TEST_P(OtherForms, KnobsAreRefusedOrRight) {
  const auto base = baseline_of(GetParam());
  ASSERT_TRUE(base.has_value()) << base.error().message;
  for_each_knob(base->plan, [&](const FormKnob& knob, std::int64_t chosen, const auto& turned) {
    for (const std::int64_t value : knob.legal) {
      if (value == chosen) continue;
      SCOPED_TRACE(std::string(name_of(knob.form)) + ": " + knob.name + " = " + std::to_string(value));
      const Plan plan = turned(value);
      const auto others = kernels_of(plan);
      if (!others) {
        EXPECT_NE(others.error().message.find("as the plan says"), std::string::npos)
            << others.error().message;
        continue;
      }
      if (*others == base->kernels) continue;  // as it may be where there is little to cut
      expect_near(simulated(plan, base->subject.inputs), base->right, GetParam().tolerance);
    }
  });
}

// None is there that no lowering reads: each changes a kernel of some case.
TEST(FormKnobs, EachOneIsRead) {
  std::set<std::string> unread;
  auto text = [](const FormKnob& knob) { return std::string(name_of(knob.form)) + "." + knob.name; };
  for (const FormKnob& knob : all_form_knobs()) unread.insert(text(knob));
  for (const Case& tested : cases_of_forms()) {
    const auto base = baseline_of(tested);
    ASSERT_TRUE(base.has_value()) << tested.name << ": " << base.error().message;
    for_each_knob(base->plan, [&](const FormKnob& knob, std::int64_t chosen, const auto& turned) {
      for (const std::int64_t value : knob.legal) {
        if (value == chosen || !unread.contains(text(knob))) continue;
        const auto others = kernels_of(turned(value));
        if (others && *others != base->kernels) unread.erase(text(knob));
      }
    });
  }
  std::string all;
  for (const std::string& one : unread) all += " " + one;
  EXPECT_EQ(all, "");
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
