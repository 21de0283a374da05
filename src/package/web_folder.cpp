#include "package/web_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "codegen/wgsl/emit.h"
#include "compiler/lower_plan.h"
#include "package/web_module.h"
#include "passes/assume.h"
#include "passes/index_bound.h"
#include "support/files/file.h"
#include "support/text/json.h"

namespace xyntra {
namespace {

constexpr int kManifestVersion = 2;
constexpr std::size_t kWeightAlignment = 256;  // what every adapter takes as the beginning of a binding

// A number as itself, anything else as its text.
Json size_json(const Dim& dim) { return dim.is_constant() ? Json(dim.constant()) : Json(dim.to_string()); }

Json sizes_json(const std::vector<Dim>& dims) {
  Json list = Json::array();
  for (const Dim& dim : dims) list.push_back(size_json(dim));
  return list;
}

Json ids_json(const std::vector<ProgramValueId>& ids) {
  Json list = Json::array();
  for (ProgramValueId id : ids) list.push_back(id);
  return list;
}

// What the page is spared: values that no launch and no output speaks of.
std::vector<bool> used_values(const LaunchProgram& program) {
  std::vector<bool> used(program.values.size(), false);
  auto use = [&](ProgramValueId id) {
    for (; id != kNoValue && !used[id]; id = program.values[id].of) used[id] = true;
  };
  for (const ProgramStep& step : program.steps) {
    for (ProgramValueId input : step.inputs) use(input);
    for (ProgramValueId output : step.outputs) use(output);
  }
  for (ProgramValueId input : program.inputs) use(input);
  for (ProgramValueId output : program.outputs) use(output);
  return used;
}

Status runs_in_a_page(const LaunchProgram& program, const std::vector<bool>& used) {
  auto refused = [](const std::string& why) { return failure(ErrorClass::Unsupported, why); };
  for (const ProgramStep& step : program.steps) {
    if (step.kind != ProgramStep::Kind::Host) continue;
    return failure(Error{ErrorClass::Unsupported,
                         "it runs on the host, and a page has only shaders",
                         {},
                         {},
                         {},
                         "sizes that are fixed with --dim NAME=SIZE..SIZE may make it go away",
                         false}
                       .at_node(step.origin, step.op));
  }
  if (!program.extensions.empty())
    return refused("donated inputs are the caller's memory, and a page has none of it");
  for (std::size_t v = 0; v < used.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (!used[v]) continue;
    if (value.kind == ProgramValue::Kind::Datum)
      return refused("'" + value.name + "' is no tensor, and a page has only tensors");
    if (!value.has_shape && value.kind != ProgramValue::Kind::Constant)
      return refused("nothing is known of the shape of '" + value.name + "'");
  }
  return {};
}

// ---- weights

struct PageWeights {
  std::vector<std::span<const std::byte>> parts;
  std::vector<Json> constants;  // by the program's number of the constant; null where it is not used
  std::size_t bytes = 0, count = 0;
};

PageWeights collect_weights(const LaunchProgram& program, const std::vector<bool>& used) {
  static constexpr std::array<std::byte, kWeightAlignment> kZeros{};
  PageWeights weights;
  weights.constants.resize(program.constants.size());
  for (std::size_t v = 0; v < used.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (!used[v] || value.kind != ProgramValue::Kind::Constant) continue;
    if (!weights.constants[value.index].is_null()) continue;
    const auto bytes = program.constants[value.index].bytes();
    weights.constants[value.index] = Json{{"offset", weights.bytes}, {"bytes", bytes.size()}};
    const std::size_t padding = -bytes.size() & (kWeightAlignment - 1);
    weights.parts.push_back(bytes);
    if (padding > 0) weights.parts.push_back(std::span(kZeros).first(padding));
    weights.bytes += bytes.size() + padding;
    ++weights.count;
  }
  return weights;
}

// ---- manifest

Json value_json(const ProgramValue& value) {
  static constexpr std::array kKinds{"input", "output", "constant", "arena", "own", "view"};
  Json json{{"kind", kKinds.at(static_cast<std::size_t>(value.kind))},
            {"name", value.name},
            {"dtype", name_of(value.dtype)},
            {"shape", sizes_json(value.shape)}};
  switch (value.kind) {
    case ProgramValue::Kind::Constant: json["constant"] = value.index; break;
    case ProgramValue::Kind::Arena: json["slot"] = value.index; break;
    case ProgramValue::Kind::View: json["offset"] = size_json(value.offset); [[fallthrough]];
    default:
      if (value.of != kNoValue) json["of"] = value.of;
  }
  return json;
}

Json kernel_json(std::size_t number, const ShaderKernel& kernel) {
  Json json{{"name", "k" + std::to_string(number)}, {"phases", Json::array()}};
  for (const ShaderPhase& phase : kernel.phases) {
    json["phases"].push_back({{"entry", phase.entry},
                              {"items", size_json(phase.items)},
                              {"items_per_group", phase.items_per_group},
                              {"bindings", ids_json(phase.bindings)}});
  }
  json["sizes"] = sizes_json(kernel.sizes);
  json["elements"] = sizes_json(kernel.argument_elements);
  json["bindings"] = Json::array();
  for (const ShaderBinding& binding : kernel.bindings) {
    Json parts = Json::array();
    for (const ShaderBinding::Part& part : binding.parts) {
      Json one{{"argument", part.argument}};
      if (part.bytes >= 0) one.update(Json{{"first", part.first}, {"bytes", part.bytes}, {"at", part.at}});
      parts.push_back(std::move(one));
    }
    json["bindings"].push_back(std::move(parts));
  }
  json["workspace"] = sizes_json(kernel.workspace_bytes);
  json["faults"] = kernel.has_faults;
  return json;
}

Json memory_json(const LaunchProgram& program) {
  Json slots = Json::array(), order = Json::array();
  for (const ArenaRequest& slot : program.slots) {
    slots.push_back({{"bytes", size_json(slot.size)},
                     {"first", slot.first},
                     {"last", slot.last},
                     {"alignment", slot.alignment}});
  }
  for (std::size_t slot : program.order) order.push_back(slot);
  return Json{{"slots", std::move(slots)}, {"order", std::move(order)}};
}

Json steps_json(const LaunchProgram& program) {
  Json steps = Json::array();
  for (const ProgramStep& step : program.steps) {
    if (step.kind != ProgramStep::Kind::Launch) continue;  // a view is where it is
    steps.push_back({{"kernel", step.callee},
                     {"inputs", ids_json(step.inputs)},
                     {"outputs", ids_json(step.outputs)},
                     {"node", step.origin},
                     {"op", step.op}});
  }
  return steps;
}

Json manifest_json(const LaunchProgram& program, const std::vector<bool>& used,
                   const std::vector<ShaderKernel>& shaders, const PageWeights& weights) {
  Json json{{"format", "xyntra-web"},
            {"version", kManifestVersion},
            {"made_by", "xyntra " XYNTRA_VERSION},
            {"inputs", ids_json(program.inputs)},
            {"outputs", ids_json(program.outputs)},
            {"values", Json::array()},
            {"weight_bytes", weights.bytes},
            {"constants", Json::array()},
            {"memory", memory_json(program)},
            {"kernels", Json::array()},
            {"steps", steps_json(program)},
            {"ranges", Json::object()},
            {"assumptions", Json::array()}};
  for (std::size_t v = 0; v < used.size(); ++v)
    json["values"].push_back(used[v] ? value_json(program.values[v]) : Json());
  for (const Json& constant : weights.constants) json["constants"].push_back(constant);
  for (std::size_t k = 0; k < shaders.size(); ++k) json["kernels"].push_back(kernel_json(k, shaders[k]));
  for (const auto& [symbol, range] : program.ranges) {
    Json bounds = Json::array();
    bounds.push_back(range.low);
    bounds.push_back(range.high);
    json["ranges"][symbol] = std::move(bounds);
  }
  for (const ProgramAssumption& assumption : program.assumptions)
    json["assumptions"].push_back(assumption.symbol + " = " + assumption.equals.to_string());
  return json;
}

// ---- files

Status make_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool ours = fs::exists(fs::path(folder) / "manifest.json", error);
  if (!ours && fs::is_directory(folder, error) && !fs::is_empty(folder, error))
    return usage_error("'" + folder + "' holds something else than a compiled model");
  const fs::path shaders = fs::path(folder) / "shaders";
  if (ours) fs::remove_all(shaders, error);
  fs::create_directories(shaders, error);
  if (error) return usage_error("'" + folder + "' cannot be made: " + error.message());
  return {};
}

Result<std::vector<ShaderKernel>> shaders_for_browsers(const LoweredPlan& lowered) {
  std::vector<ShaderKernel> shaders;
  for (std::size_t k = 0; k < lowered.kernels.size(); ++k) {
    auto shader = emit_wgsl(lowered.kernels[k], {});
    if (!shader) {
      const auto user = std::ranges::find_if(lowered.program.steps, [k](const ProgramStep& step) {
        return step.kind == ProgramStep::Kind::Launch && step.callee == k;
      });
      return failure(std::move(shader).error().at_node(user->origin, user->op));
    }
    shaders.push_back(std::move(*shader));
  }
  return shaders;
}

// What made-up inputs stay below where the model takes them for indices.
void add_index_bounds(Json& manifest, const Graph& graph, const SymbolBindings& sizes) {
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const auto bound = index_bound(graph, graph.inputs[i], sizes);
    if (bound && *bound > 0) manifest["index_bounds"][graph.value(graph.inputs[i]).name] = *bound;
  }
}

}  // namespace

Result<WebFigures> write_web_folder(const Module& model, const std::string& folder,
                                    const WebOptions& options) {
  SymbolRanges ranges = options.ranges;
  CompileOptions compile = options.compile;
  if (compile.target == nullptr || compile.target->kind != TargetKind::WebGpu) {
    XYNTRA_TRY(compile.target, find_target("webgpu"));
  }
  const SymbolBindings fixed = take_fixed(ranges);
  Graph special;
  if (!fixed.empty()) {
    XYNTRA_TRY(special, with_sizes(model.graph, fixed, compile.budget.get()));
  }
  const Graph& graph = fixed.empty() ? model.graph : special;
  XYNTRA_TRY(const Plan plan, make_plan(graph, compile));
  XYNTRA_TRY(LoweredPlan lowered, lower_plan(plan, {options.threads, compile.budget}));
  LaunchProgram& program = lowered.program;
  program.ranges = std::move(ranges);
  const std::vector<bool> used = used_values(program);
  XYNTRA_CHECK_OK(runs_in_a_page(program, used));
  XYNTRA_TRY(const std::vector<ShaderKernel> shaders, shaders_for_browsers(lowered));
  const PageWeights weights = collect_weights(program, used);
  Json manifest = manifest_json(program, used, shaders, weights);
  add_index_bounds(manifest, graph, compile.fusion.choose.nominal);

  XYNTRA_CHECK_OK(make_folder(folder));
  WebFigures figures{shaders.size(), manifest["steps"].size(), weights.count, weights.bytes, 0};
  for (std::size_t k = 0; k < shaders.size(); ++k) {
    figures.shader_bytes += shaders[k].text.size();
    XYNTRA_CHECK_OK(write_file_atomically(folder + "/shaders/k" + std::to_string(k) + ".wgsl",
                                          std::string_view(shaders[k].text)));
  }
  XYNTRA_CHECK_OK(write_file_atomically(folder + "/weights.bin", std::span(weights.parts)));
  XYNTRA_CHECK_OK(write_file_atomically(folder + "/xyntra.js", web_module()));
  XYNTRA_CHECK_OK(write_file_atomically(folder + "/xyntra.d.ts", web_module_types()));
  XYNTRA_CHECK_OK(
      write_file_atomically(folder + "/manifest.json", std::string_view(manifest.dump(1) + "\n")));
  return figures;
}

}  // namespace xyntra
