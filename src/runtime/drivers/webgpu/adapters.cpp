// The adapters of this machine, and what each can do.
#include <algorithm>
#include <limits>

#include "runtime/drivers/webgpu/state.h"

namespace xyntra::webgpu {
namespace {

struct FeatureRow {
  std::uint32_t feature;
  bool Adapter::* fact;
};
// What shaders may use where it is there: all of it is asked for.
constexpr FeatureRow kFeatures[] = {
    {WGPUFeatureName_ShaderF16, &Adapter::f16},
    {WGPUNativeFeature_ShaderF64, &Adapter::f64},
    {WGPUNativeFeature_ShaderInt64, &Adapter::int64},
    {WGPUFeatureName_Subgroups, &Adapter::subgroups},
    {WGPUNativeFeature_Subgroup, &Adapter::subgroups},  // wgpu-native's own number of the same
    {WGPUFeatureName_TimestampQuery, &Adapter::timestamps},
};

// Mesa's driver for CPUs counts down from this in every invocation, so that no shader hangs it.
constexpr std::int64_t kLoopIterationsOfLlvmpipe = 65535;

template <class To, class From>
To clamped(From value) {
  return static_cast<To>(
      std::min<std::uint64_t>(value, static_cast<std::uint64_t>(std::numeric_limits<To>::max())));
}

const char* kind_of(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU: return "discrete";
    case WGPUAdapterType_IntegratedGPU: return "integrated";
    case WGPUAdapterType_CPU: return "cpu";
    default: return "other";
  }
}

const char* api_of(WGPUBackendType type) {
  switch (type) {
    case WGPUBackendType_Vulkan: return "Vulkan";
    case WGPUBackendType_Metal: return "Metal";
    case WGPUBackendType_D3D12: return "D3D12";
    default: return "other";
  }
}

Limits limits_of(const WGPULimits& from) {
  Limits to;
  to.binding_bytes = clamped<std::int64_t>(from.maxStorageBufferBindingSize) / 4 * 4;
  to.buffer_bytes = clamped<std::int64_t>(from.maxBufferSize) / 4 * 4;
  to.storage_buffers = clamped<int>(from.maxStorageBuffersPerShaderStage);
  to.workgroup_invocations = clamped<int>(from.maxComputeInvocationsPerWorkgroup);
  to.workgroup_size[0] = clamped<int>(from.maxComputeWorkgroupSizeX);
  to.workgroup_size[1] = clamped<int>(from.maxComputeWorkgroupSizeY);
  to.workgroup_size[2] = clamped<int>(from.maxComputeWorkgroupSizeZ);
  to.workgroup_bytes = clamped<int>(from.maxComputeWorkgroupStorageSize);
  to.workgroups_per_dimension = clamped<int>(from.maxComputeWorkgroupsPerDimension);
  to.offset_alignment = clamped<int>(from.minStorageBufferOffsetAlignment);
  return to;
}

AdapterEntry describe(const Library& wgpu, WGPUAdapter adapter) {
  AdapterEntry entry;
  entry.handle = AdapterHandle(adapter);
  entry.facts.kind = "other";
  WGPUAdapterInfo info = {};
  if (wgpu.AdapterGetInfo(adapter, &info) == WGPUStatus_Success) {
    entry.facts.name = text_of(info.device);
    entry.facts.api = api_of(info.backendType);
    entry.facts.kind = kind_of(info.adapterType);
    entry.facts.driver = text_of(info.vendor) + " " + text_of(info.description);
    entry.facts.subgroup_min = clamped<int>(info.subgroupMinSize);
    entry.facts.subgroup_max = clamped<int>(info.subgroupMaxSize);
    wgpu.AdapterInfoFreeMembers(info);
  }
  wgpu.AdapterGetLimits(adapter, &entry.limits);
  entry.limits.nextInChain = nullptr;
  entry.limits.maxImmediateSize = 0;  // wants a feature that we do not use
  entry.facts.limits = limits_of(entry.limits);
  if (entry.facts.name.starts_with("llvmpipe"))
    entry.facts.limits.loop_iterations = kLoopIterationsOfLlvmpipe;

  WGPUSupportedFeatures supported = {};
  wgpu.AdapterGetFeatures(adapter, &supported);
  const std::span<const WGPUFeatureName> there(supported.features, supported.featureCount);
  for (const FeatureRow& row : kFeatures) {
    const auto feature = static_cast<WGPUFeatureName>(row.feature);
    if (std::find(there.begin(), there.end(), feature) == there.end()) continue;
    entry.facts.*row.fact = true;
    entry.features.push_back(feature);
  }
  wgpu.SupportedFeaturesFreeMembers(supported);
  return entry;
}

}  // namespace

Result<std::vector<AdapterEntry>> adapter_entries() {
  XYNTRA_TRY(const Library* wgpu, library());
  std::vector<WGPUAdapter> found(wgpu->InstanceEnumerateAdapters(wgpu->instance, nullptr, nullptr));
  if (!found.empty()) wgpu->InstanceEnumerateAdapters(wgpu->instance, nullptr, found.data());
  std::vector<AdapterEntry> described, ordered;
  for (WGPUAdapter adapter : found) described.push_back(describe(*wgpu, adapter));
  for (const char* kind : {"discrete", "integrated", "other", "cpu"}) {
    for (AdapterEntry& entry : described) {
      if (entry.facts.kind == kind) ordered.push_back(std::move(entry));
    }
  }
  return ordered;
}

Result<std::vector<Adapter>> adapters() {
  XYNTRA_TRY(const std::vector<AdapterEntry> entries, adapter_entries());
  std::vector<Adapter> list;
  for (const AdapterEntry& entry : entries) list.push_back(entry.facts);
  return list;
}

}  // namespace xyntra::webgpu
