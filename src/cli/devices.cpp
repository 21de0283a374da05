// xyntra devices: the backends of this version, the targets plans can be made for, and the adapters of this machine.
#include "backends/backend.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "codegen/llvm/emit.h"
#include "compiler/compiled/wgsl_backend.h"
#include "runtime/drivers/cuda.h"
#include "runtime/drivers/webgpu.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "target/target.h"

namespace xyntra {
namespace {

// Of the whole device, in units of a thousand a microsecond: GFLOP/s and GB/s.
std::int64_t f32_gflops(const Target& target) { return target.peak(DType::F32) * target.cores / 1000; }
std::int64_t memory_gigabytes(const Target& target) { return target.memory_bytes_per_us / 1000; }

Json targets_json() {
  Json list = Json::array();
  for (const Target& target : targets()) {
    Json facts;
#define FACT(fact, unit, meaning) facts[#fact] = target.fact;
#include "target/facts.def"
#undef FACT
    list.push_back({{"name", target.name},
                    {"kind", name_of(target.kind)},
                    {"summary", target.summary},
                    {"hash", target.hash()},
                    {"facts", facts}});
  }
  return list;
}

std::string targets_table() {
  using enum Table::Align;
  Table table({Left, Right, Right, Right, Right, Prose});
  table.header({"target", "cores", "f32 GFLOP/s", "GB/s", "launch ns", "what it is"});
  for (const Target& target : targets()) {
    table.row({std::string(target.name), std::to_string(target.cores), std::to_string(f32_gflops(target)),
               std::to_string(memory_gigabytes(target)), std::to_string(target.launch_ns),
               std::string(target.summary)});
  }
  return table.to_string(stdout_width());
}

struct AdapterFeature {
  const char* name;
  bool webgpu::Adapter::* fact;
};
constexpr AdapterFeature kAdapterFeatures[] = {{"f16", &webgpu::Adapter::f16},
                                               {"f64", &webgpu::Adapter::f64},
                                               {"int64", &webgpu::Adapter::int64},
                                               {"subgroups", &webgpu::Adapter::subgroups},
                                               {"timestamps", &webgpu::Adapter::timestamps}};

std::vector<std::string> features_of(const webgpu::Adapter& adapter) {
  std::vector<std::string> names;
  for (const AdapterFeature& feature : kAdapterFeatures) {
    if (adapter.*feature.fact) names.emplace_back(feature.name);
  }
  return names;
}

Readiness readiness_of(const Backend& backend) {
  if (!backend.present()) return {"not in this version", ""};
  return backend.readiness != nullptr ? backend.readiness() : Readiness{};
}

Json webgpu_json() {
  const auto found = webgpu::adapters();
  Json json{{"adapters", Json::array()}};
  if (const std::string why = why_no_adapter(found); !why.empty()) json["why_none"] = why;
  if (const auto version = webgpu::library_version()) json["wgpu_native"] = *version;
  if (!found) return json;
  for (const webgpu::Adapter& adapter : *found) {
    const webgpu::Limits& limits = adapter.limits;
    json["adapters"].push_back({{"name", adapter.name},
                                {"kind", adapter.kind},
                                {"api", adapter.api},
                                {"driver", adapter.driver},
                                {"features", features_of(adapter)},
                                {"subgroup_min", adapter.subgroup_min},
                                {"subgroup_max", adapter.subgroup_max},
                                {"limits",
                                 {{"binding_bytes", limits.binding_bytes},
                                  {"buffer_bytes", limits.buffer_bytes},
                                  {"storage_buffers", limits.storage_buffers},
                                  {"workgroup_invocations", limits.workgroup_invocations},
                                  {"workgroup_bytes", limits.workgroup_bytes},
                                  {"workgroups_per_dimension", limits.workgroups_per_dimension},
                                  {"offset_alignment", limits.offset_alignment}}}});
  }
  return json;
}

Json cuda_json() {
  const auto found = cuda::chips();
  Json json{{"gpus", Json::array()}};
  if (const std::string why = cuda::why_no_chip(); !why.empty()) json["why_none"] = why;
  if (const auto version = cuda::driver_version()) json["driver"] = *version;
  if (!found) return json;
  for (const cuda::Chip& chip : *found) {
    json["gpus"].push_back({{"name", chip.name},
                            {"architecture", chip.architecture()},
                            {"multiprocessors", chip.multiprocessors},
                            {"memory_bytes", chip.memory_bytes},
                            {"block_shared_bytes", chip.block_shared_bytes},
                            {"block_threads", chip.block_threads}});
  }
  return json;
}

// With a blank line before it; nothing where there is no GPU.
std::string cuda_table() {
  const auto found = cuda::chips();
  if (!found || found->empty()) return "";
  using enum Table::Align;
  Table table({Right, Prose, Left, Right, Right, Right, Left});
  table.header({"gpu", "name", "chip", "SMs", "memory", "shared", "driver"});
  int place = 0;
  for (const cuda::Chip& chip : *found) {
    table.row({std::to_string(place++), printable(chip.name), chip.architecture(),
               std::to_string(chip.multiprocessors), human_bytes(chip.memory_bytes),
               human_bytes(chip.block_shared_bytes), "CUDA " + cuda::driver_version().value_or("?")});
  }
  return "\n" + table.to_string(stdout_width());
}

// With a blank line before it; nothing where there is no adapter.
std::string webgpu_table() {
  const auto found = webgpu::adapters();
  if (!found || found->empty()) return "";
  using enum Table::Align;
  Table table({Right, Prose, Left, Prose, Right, Right, Right, Right, Right, Prose});
  table.header(
      {"adapter", "name", "kind", "driver", "buffer", "binding", "bindings", "workgroup", "shared", "has"});
  int place = 0;
  for (const webgpu::Adapter& adapter : *found) {
    const webgpu::Limits& limits = adapter.limits;
    table.row({std::to_string(place++), printable(adapter.name), adapter.kind,
               printable(adapter.api + ", " + adapter.driver), human_bytes(limits.buffer_bytes),
               human_bytes(limits.binding_bytes), std::to_string(limits.storage_buffers),
               std::to_string(limits.workgroup_invocations), human_bytes(limits.workgroup_bytes),
               joined(features_of(adapter), " ")});
  }
  return "\n" + table.to_string(stdout_width());
}

Result<ExitCode> list_devices(Session& session) {
  const int threads = session.threads();
  const std::string memory = human_bytes(session.config->integer("limits.max_memory"));
  if (session.json) {
    Json json{{"threads", threads},           {"memory", session.config->integer("limits.max_memory")},
              {"target", host_target().name}, {"backends", Json::array()},
              {"targets", targets_json()},    {"webgpu", webgpu_json()},
              {"cuda", cuda_json()}};
    for (const Backend& backend : backends()) {
      const Readiness here = readiness_of(backend);
      Json row{{"name", backend.name},
               {"present", backend.present()},
               {"state", here.state},
               {"summary", backend.summary}};
      if (!here.why.empty()) row["why"] = here.why;
      json["backends"].push_back(std::move(row));
    }
    session.out = json.dump(2) + "\n";
    return ExitCode::Done;
  }
  using enum Table::Align;
  Table table({Left, Prose, Prose});
  table.header({"backend", "state", "what it is"});
  std::string reasons;
  for (const Backend& backend : backends()) {
    const Readiness here = readiness_of(backend);
    table.row({std::string(backend.name), here.state, std::string(backend.summary)});
    if (!here.why.empty())
      reasons += wrapped(std::string(backend.name) + ": " + printable(here.why), stdout_width(), 2) + "\n";
  }
  session.out = table.to_string(stdout_width()) + "\n" + reasons + (reasons.empty() ? "" : "\n") +
                targets_table() + webgpu_table() + cuda_table() + "\nhost: " + std::to_string(threads) +
                " threads, " + memory + " for tensors, target " + std::string(host_target().name) + "\n";
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_devices(Flags&, Session&) {
  return [](Session& running) { return list_devices(running); };
}

}  // namespace xyntra
