// Runs a kernel as a shader on whatever adapter is there.
#pragma once

#include <gtest/gtest.h>

#include "codegen/wgsl/adapter/probe.h"
#include "runtime/drivers/webgpu.h"

namespace xyntra {
namespace {

inline std::shared_ptr<webgpu::Device> device() {
  static const auto opened = webgpu::Device::open("");
  return opened ? *opened : nullptr;
}

// What the kernel makes of these operands: one result per buffer that it writes. Sizes are known, and there is one phase.
inline std::vector<std::vector<std::byte>> run_shader(const kir::Kernel& kernel, const WgslFeatures& features,
                                                      std::span<const std::vector<std::byte>> operands) {
  auto shader = emit_wgsl(kernel, features);
  EXPECT_TRUE(shader.has_value()) << shader.error().to_string();
  if (!shader) return {};
  EXPECT_EQ(1U, shader->phases.size());
  webgpu::Shader asked;
  asked.wgsl = shader->text;
  asked.entry = shader->phases[0].entry;
  std::vector<webgpu::Buffer> buffers;
  std::vector<std::vector<std::byte>> results;
  std::vector<std::size_t> written;
  std::size_t given = 0;
  for (const kir::Buffer& buffer : kernel.buffers) {
    if (buffer.scope != kir::Scope::Global) continue;
    const std::int64_t elements = product(buffer.shape).constant();
    const auto bytes = static_cast<std::size_t>((elements * bits_of(buffer.dtype) + 7) / 8);
    buffers.push_back(*device()->allocate(static_cast<std::int64_t>((bytes + 3) / 4 * 4)));
    if (buffer.written) {
      written.push_back(buffers.size() - 1);
      results.emplace_back(bytes);
    } else {
      EXPECT_TRUE(device()->write(buffers.back(), 0, operands[given++]));
    }
  }
  asked.bindings = shader->phases[0].bindings;  // of what it looks at
  asked.writable.assign(asked.bindings.size(), true);
  auto pipeline = device()->pipeline(asked);
  EXPECT_TRUE(pipeline.has_value()) << pipeline.error().to_string() << shader->text;
  if (!pipeline) return {};
  std::vector<webgpu::BufferRange> ranges;
  for (const std::uint32_t binding : asked.bindings) {
    const webgpu::Buffer& buffer = buffers.at(shader->bindings.at(binding).parts.at(0).argument);
    ranges.push_back({&buffer, 0, buffer.bytes()});
  }
  webgpu::Recording recording;
  const ShaderPhase& phase = shader->phases[0];
  const std::int64_t groups = (phase.items.constant() + phase.items_per_group - 1) / phase.items_per_group;
  EXPECT_TRUE(recording.dispatch(*pipeline, ranges, {}, groups, 1, 1));
  EXPECT_TRUE(device()->submit(recording));
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_TRUE(device()->read(buffers[written[i]], 0, results[i]));
  return results;
}

}  // namespace
}  // namespace xyntra
