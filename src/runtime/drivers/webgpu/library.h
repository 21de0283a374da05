// wgpu-native as a table of functions, opened at run time: no program of ours links it. Seen by this folder alone.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "runtime/drivers/webgpu/api.h"
#include "support/result.h"

namespace xyntra::webgpu {

struct Library {  // wgpuName is the member Name
#define FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
#include "runtime/drivers/webgpu/api.def"
  WGPUInstance instance = nullptr;
};

// Opened by the first call and kept until the process ends: drivers have threads of their own. Its failure is an answer
// for good too.
Result<const Library*> library();
// The same where something of it exists already.
const Library& opened_library();

inline WGPUStringView view(std::string_view text) { return {text.data(), text.size()}; }
std::string text_of(WGPUStringView view);

// Owns one reference to an object of wgpu-native.
template <class T, auto Release>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_ != nullptr) (opened_library().*Release)(value_);
  }
  T get() const { return value_; }
  void forget() { value_ = nullptr; }  // keeps it for good: releasing it would wait for a device that hangs

 private:
  T value_ = nullptr;
};

using AdapterHandle = Handle<WGPUAdapter, &Library::AdapterRelease>;
using DeviceHandle = Handle<WGPUDevice, &Library::DeviceRelease>;
using QueueHandle = Handle<WGPUQueue, &Library::QueueRelease>;
using BufferHandle = Handle<WGPUBuffer, &Library::BufferRelease>;
using ShaderModuleHandle = Handle<WGPUShaderModule, &Library::ShaderModuleRelease>;
using BindGroupHandle = Handle<WGPUBindGroup, &Library::BindGroupRelease>;
using BindGroupLayoutHandle = Handle<WGPUBindGroupLayout, &Library::BindGroupLayoutRelease>;
using PipelineLayoutHandle = Handle<WGPUPipelineLayout, &Library::PipelineLayoutRelease>;
using ComputePipelineHandle = Handle<WGPUComputePipeline, &Library::ComputePipelineRelease>;
using CommandEncoderHandle = Handle<WGPUCommandEncoder, &Library::CommandEncoderRelease>;
using CommandBufferHandle = Handle<WGPUCommandBuffer, &Library::CommandBufferRelease>;
using ComputePassHandle = Handle<WGPUComputePassEncoder, &Library::ComputePassEncoderRelease>;
using QuerySetHandle = Handle<WGPUQuerySet, &Library::QuerySetRelease>;

}  // namespace xyntra::webgpu
