// wgpu-native as a table of functions, opened at run time: no program of ours links it. Seen by this folder alone.
#pragma once

#include <wgpu.h>

#include <string>
#include <string_view>
#include <utility>

#include "support/result.h"

namespace xyntra::webgpu {

// Everything that is called, without the prefix wgpu. Left out on purpose, because they end the process:
// InstanceWaitAny, GetInstanceFeatures, HasInstanceFeature, BufferReadMappedRange always, DevicePoll on a lost device
// (InstanceProcessEvents does not). QueueSubmit does where CommandEncoderFinish complained, and on a lost device.
#define XYNTRA_WGPU_FUNCTIONS(F)          \
  F(GetVersion)                           \
  F(CreateInstance)                       \
  F(InstanceEnumerateAdapters)            \
  F(InstanceProcessEvents)                \
  F(AdapterGetFeatures)                   \
  F(AdapterGetInfo)                       \
  F(AdapterGetLimits)                     \
  F(AdapterInfoFreeMembers)               \
  F(AdapterRelease)                       \
  F(AdapterRequestDevice)                 \
  F(BindGroupLayoutRelease)               \
  F(BindGroupRelease)                     \
  F(BufferGetConstMappedRange)            \
  F(BufferMapAsync)                       \
  F(BufferRelease)                        \
  F(BufferUnmap)                          \
  F(CommandBufferRelease)                 \
  F(CommandEncoderBeginComputePass)       \
  F(CommandEncoderCopyBufferToBuffer)     \
  F(CommandEncoderFinish)                 \
  F(CommandEncoderRelease)                \
  F(CommandEncoderResolveQuerySet)        \
  F(ComputePassEncoderDispatchWorkgroups) \
  F(ComputePassEncoderEnd)                \
  F(ComputePassEncoderRelease)            \
  F(ComputePassEncoderSetBindGroup)       \
  F(ComputePassEncoderSetPipeline)        \
  F(ComputePipelineRelease)               \
  F(DeviceCreateBindGroup)                \
  F(DeviceCreateBindGroupLayout)          \
  F(DeviceCreateBuffer)                   \
  F(DeviceCreateCommandEncoder)           \
  F(DeviceCreateComputePipeline)          \
  F(DeviceCreatePipelineLayout)           \
  F(DeviceCreateQuerySet)                 \
  F(DeviceCreateShaderModule)             \
  F(DeviceCreateShaderModuleTrusted)      \
  F(DeviceDestroy)                        \
  F(DeviceGetQueue)                       \
  F(DeviceRelease)                        \
  F(PipelineLayoutRelease)                \
  F(QuerySetRelease)                      \
  F(QueueGetTimestampPeriod)              \
  F(QueueOnSubmittedWorkDone)             \
  F(QueueRelease)                         \
  F(QueueSubmit)                          \
  F(QueueWriteBuffer)                     \
  F(ShaderModuleRelease)                  \
  F(SupportedFeaturesFreeMembers)

struct Library {
#define XYNTRA_WGPU_MEMBER(name) decltype(&::wgpu##name) name = nullptr;
  XYNTRA_WGPU_FUNCTIONS(XYNTRA_WGPU_MEMBER)
#undef XYNTRA_WGPU_MEMBER
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
