#include "compiler/pipeline.h"

#include <algorithm>

#include "compiler/steps.h"
#include "plan/check.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

template <Precision kPrecision>
bool asks_for(const CompileOptions& options) {
  return options.precision == kPrecision;
}
bool rewrites(const CompileOptions& options) { return options.rewrite.enabled; }

bool rounds_products(const CompileOptions& options) {
  return asks_for<Precision::Bf16>(options) || asks_for<Precision::F16>(options);
}

// Such convolutions are flattened for the step precision, which rounds what they multiply.
bool flattens_windows(const CompileOptions& options) {
  return asks_for<Precision::Bf16>(options) && is_on(options, "precision") &&
         options.fusion.choose.allow_reassociating;
}
bool makes_integer_products(const CompileOptions& options) { return is_on(options, "rewrite"); }

Status verify_graph(const Plan& plan) { return verify(plan.graph); }

constexpr PipelineStep kSteps[] = {
    // ---- the graph
    {"assume", "comparing sizes",
     "sizes that must be equal for the model to make sense are taken for one, and written down",
     "every size stays open, and what broadcasts is found out by each index", assume_step, verify_graph},
    {"rewrite", "rewriting",
     "the cheapest graph found that computes the same, by rule tables over an e-graph",
     "constants are folded and dead nodes dropped, nothing else", rewrite_step, verify_graph, rewrites,
     only_fold},
    {"constants", "separating constants",
     "a large constant that is read in two ways becomes two, so that each can be laid out as its readers "
     "like",
     "one layout serves all readers of a constant", constants_step, verify_graph},
    {"parts", "joining parts",
     "concatenations read what lies together already: all parts of a split, a shorter concatenation",
     "they read each part", parts_step, verify_graph},
    {"integers", "rewriting quantized products",
     "products of quantized matrices in the form that units for bytes take: zero points leave the sum",
     "quantized products are computed as they are written", integers_step, verify_graph,
     makes_integer_products},
    {"windows", "flattening windows",
     "convolutions of few channels as convolutions of one, along whose lines tiles of bf16 sum, with "
     "--precision bf16",
     "such convolutions run in f32", windows_step, verify_graph, flattens_windows},
    {"precision", "rounding products",
     "factors of f32 products are rounded to bf16 or f16, where --precision asks for it", "they stay f32",
     precision_step, verify_graph, rounds_products},
    {"order", "numbering values", "nodes and values in the order in which the graph's text names them",
     "they keep the order in which they were made", order_step, verify_graph},
    {"derived", "deriving constants",
     "how the constants that rewriting computed are made from the model's, so that a lock holds neither",
     "a lock cannot hold weights that were folded", derived_step, verify_graph},
    {"sizes", "choosing sizes", "sizes for open dimensions that nobody gave, to compute costs with",
     "costs take each of them for 128", sizes_step, verify_graph},

    // ---- groups: from here on again, where a step below says so
    {"fuse", "fusing", "groups around heroes, one launch each, with a schedule and a verdict for every edge",
     "a group for each node", fuse_step, check_plan,
     [](const CompileOptions& options) { return options.fusion.enabled; }, fuse_step},
    {"winograd", "choosing Winograd",
     "3x3 convolutions with fewer multiplications, where --precision winograd asks for it",
     "they multiply as they are written", winograd_step, check_plan, asks_for<Precision::Winograd>},
    {"bf16x3", "splitting floats",
     "f32 products as three bf16 products each, where --precision bf16x3 asks for it",
     "they are computed in f32", bf16x3_step, check_plan, asks_for<Precision::Bf16x3>},
    {"tf32", "choosing tf32",
     "f32 GEMMs of operands rounded to tf32 for matrix units, where --precision tf32 asks for it",
     "they are computed in f32", tf32_step, check_plan, asks_for<Precision::Tf32>},
    {"paddings", "leaving out padding",
     "windows leave out their products with padding, where all weights are finite",
     "zeros are multiplied, too", paddings_step, check_plan},

    // ---- layouts and memory
    {"layout", "choosing layouts",
     "which values are not row-major: prepacked weights, blocked channels; and which are better copied",
     "every value is row-major, weights are read as the model has them", layout_step, check_plan, nullptr,
     row_major},
    {"losses", "looking for slow groups",
     "groups that layouts made slower than their parts are kept apart, and groups are made again",
     "they stay groups", losses_step, check_plan},
    {"copies", "copying values",
     "a copy where that costs less than strides, as a launch of its own; groups are made again around it",
     "whoever reads such a value strides", copies_step, check_plan},
    {"times", "predicting times", "how long each group will take, with its values laid out",
     "what fusion expected of row-major values", times_step, check_plan},
    {"room", "making room", "donated inputs, and results that extend them, have room for rows to come",
     "no input is extended in place", room_step, check_plan},
    {"memory", "planning memory", "where every value lives: views, results written over operands, one arena",
     "every value has memory of its own during the whole run", memory_step, check_plan, nullptr,
     memory_for_each},

    // ---- kernels
    {"forms", "choosing forms",
     "which form each phase of a kernel has: the first of its schedule's that works",
     "forms are chosen when kernels are made, and the plan does not say which", forms_step, check_plan},
    {"operands", "copying operands",
     "operands of GPU products that no tile takes as they lie are copied first; groups are made again",
     "such products are plain loops", operands_step, check_plan,
     [](const CompileOptions& options) { return is_on(options, "forms"); }},
};

}  // namespace

bool PipelineStep::is_on(const CompileOptions& options) const {
  return !options.left_out.contains(name) && (is_wanted == nullptr || is_wanted(options));
}

std::span<const PipelineStep> pipeline_steps() { return kSteps; }

const PipelineStep& grouping_step() { return **find_step("fuse"); }

bool is_on(const CompileOptions& options, std::string_view step) {
  return (*find_step(step))->is_on(options);
}

Result<const PipelineStep*> find_step(std::string_view name) {
  std::vector<std::string> names;
  for (const PipelineStep& step : kSteps) {
    if (name == step.name) return &step;
    names.emplace_back(step.name);
  }
  return failure(unknown_name("step", name, names));
}

}  // namespace xyntra
