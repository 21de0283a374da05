// Pipelines, and recordings of their dispatches.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/drivers/webgpu/state.h"
#include "support/limits/stop_hook.h"
#include "support/text/text.h"

namespace xyntra::webgpu {
namespace {

constexpr std::int64_t kUniformBytes = 1 << 16;
constexpr std::int64_t kSlotBytes = 256;  // the largest alignment of uniforms that an adapter may ask for
constexpr std::int64_t kQueriesOfSet = 4096;

// Where naga saw it: `┌─ wgsl:4:12` or `┌─ :4:12` in the drawing below its message. The line itself is quoted, as its comment may name
// the line of the kernel that it comes from.
Error shader_error(const Shader& shader, const std::vector<std::string>& report) {
  constexpr std::string_view kPrefix = "Shader '' parsing error: ";
  std::string place;
  std::vector<std::string> said;
  for (std::string_view line : report) {
    if (line.find("┌─") != std::string_view::npos) {
      if (place.empty()) place = line.substr(std::min(line.find(':') + 1, line.size()));
      continue;
    }
    if (line.find("│") != std::string_view::npos) continue;
    if (line.starts_with(kPrefix)) line.remove_prefix(kPrefix.size());
    if (line.starts_with("= ")) line.remove_prefix(2);
    if (std::find(said.begin(), said.end(), line) == said.end()) said.emplace_back(line);
  }
  Error error;
  error.error_class = ErrorClass::Device;
  error.message = "WebGPU refuses the shader";
  const std::optional<std::uint64_t> number = parse_u64(place.substr(0, place.find(':')));
  const std::vector<std::string_view> lines = split(shader.wgsl, '\n');
  if (number && *number > 0 && *number <= lines.size()) {
    error.message += " at line " + place + ", '" + std::string(trimmed(lines[*number - 1])) + "'";
  }
  error.message += ": " + joined(said, "; ");
  return error;
}

std::string key_of(const Shader& shader) {
  std::string key =
      shader.entry + (shader.trusted ? " trusted " : " ") + std::to_string(shader.size_bytes) + " ";
  for (const bool writable : shader.writable) key += writable ? 'w' : 'r';
  for (const std::uint32_t number : shader.bindings) key += " " + std::to_string(number);
  return key + "\n" + shader.wgsl;
}

// Of the bindings, that of sizes last.
std::vector<std::uint32_t> numbers_of(const Shader& shader) {
  std::vector<std::uint32_t> numbers = shader.bindings;
  if (numbers.empty()) {
    numbers.resize(shader.writable.size());
    std::iota(numbers.begin(), numbers.end(), 0U);
  }
  numbers.push_back(shader.bindings.empty() ? static_cast<std::uint32_t>(numbers.size())
                                            : shader.all_bindings);
  return numbers;
}

bool overlap(const BufferRange& a, const BufferRange& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

std::string of_binding(std::size_t binding) { return "binding " + std::to_string(binding); }

}  // namespace

Result<Pipeline> Device::pipeline(const Shader& shader) {
  const Watchdog in_driver;  // it compiles
  const Library& wgpu = opened_library();
  XYNTRA_CHECK_OK(state_->usable());
  const Limits& limits = adapter().limits;
  if (std::cmp_greater(shader.writable.size(), limits.storage_buffers)) {
    return limit_error("a shader with " + std::to_string(shader.writable.size()) + " buffers on " +
                       adapter().name + ", where one has at most " + std::to_string(limits.storage_buffers));
  }
  if (shader.size_bytes < 0 || shader.size_bytes > kUniformBytes || shader.size_bytes % 4 != 0) {
    return limit_error("a shader with " + std::to_string(shader.size_bytes) + " bytes of sizes");
  }
  const std::string key = key_of(shader);
  Pipeline result;
  {
    const std::lock_guard lock(state_->mutex);
    if (const auto known = state_->pipelines.find(key); known != state_->pipelines.end()) {
      result.state_ = known->second;
      return result;
    }
  }

  WGPUShaderSourceWGSL source = {};
  source.chain.sType = WGPUSType_ShaderSourceWGSL;
  source.code = view(shader.wgsl);
  WGPUShaderModuleDescriptor described = {};
  described.nextInChain = &source.chain;
  const Reports reports;
  auto checked = [&]() -> Status {
    if (!reports.any()) return {};
    const Status status = reports.status(*state_->loss, "a shader");
    return lost() ? status : failure(shader_error(shader, reports.lines()));
  };
  WGPUDevice device = state_->device.get();
  const ShaderModuleHandle module(
      shader.trusted ? wgpu.DeviceCreateShaderModuleTrusted(device, &described, WGPUShaderRuntimeChecks_None)
                     : wgpu.DeviceCreateShaderModule(device, &described));
  XYNTRA_CHECK_OK(checked());

  std::vector<WGPUBindGroupLayoutEntry> entries(shader.writable.size() + (shader.size_bytes > 0 ? 1 : 0));
  const std::vector<std::uint32_t> numbers = numbers_of(shader);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].binding = numbers[i];
    entries[i].visibility = WGPUShaderStage_Compute;
    entries[i].buffer.type = i == shader.writable.size() ? WGPUBufferBindingType_Uniform
                             : shader.writable[i]        ? WGPUBufferBindingType_Storage
                                                         : WGPUBufferBindingType_ReadOnlyStorage;
  }
  auto state = std::make_shared<Pipeline::State>();
  WGPUBindGroupLayoutDescriptor group = {};
  group.entryCount = entries.size();
  group.entries = entries.data();
  state->layout = BindGroupLayoutHandle(wgpu.DeviceCreateBindGroupLayout(device, &group));
  WGPUBindGroupLayout groups[1] = {state->layout.get()};
  WGPUPipelineLayoutDescriptor all = {};
  all.bindGroupLayoutCount = 1;
  all.bindGroupLayouts = groups;
  const PipelineLayoutHandle layout(wgpu.DeviceCreatePipelineLayout(device, &all));
  WGPUComputePipelineDescriptor descriptor = {};
  descriptor.layout = layout.get();
  descriptor.compute.module = module.get();
  descriptor.compute.entryPoint = view(shader.entry);
  state->handle = ComputePipelineHandle(wgpu.DeviceCreateComputePipeline(device, &descriptor));
  XYNTRA_CHECK_OK(checked());

  state->device = state_->id;
  state->adapter = state_->adapter;
  state->writable = shader.writable;
  state->numbers = numbers;
  state->size_bytes = shader.size_bytes;
  const std::lock_guard lock(state_->mutex);
  result.state_ =
      state_->pipelines.emplace(key, std::move(state)).first->second;  // another thread's, if it was first
  return result;
}

Recording::Recording() : state_(std::make_unique<State>()) {}
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
Recording::~Recording() = default;
Recording Recording::timed() {
  Recording recording;
  recording.state_->timed = true;
  return recording;
}
int Recording::dispatches() const { return state_->dispatches; }
bool Recording::empty() const { return state_->steps.empty(); }

Status Recording::dispatch(const Pipeline& pipeline, std::span<const BufferRange> ranges,
                           std::span<const std::byte> sizes, std::int64_t x, std::int64_t y, std::int64_t z) {
  if (!pipeline) return usage_error("dispatch without a pipeline");
  const Pipeline::State& shader = *pipeline.state_;
  const Limits& limits = shader.adapter->limits;
  if (ranges.size() != shader.writable.size() || std::cmp_not_equal(sizes.size(), shader.size_bytes)) {
    return usage_error("dispatch with " + std::to_string(ranges.size()) + " ranges and " +
                       std::to_string(sizes.size()) + " bytes of sizes of a shader that has " +
                       std::to_string(shader.writable.size()) + " and " + std::to_string(shader.size_bytes));
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const BufferRange& range = ranges[i];
    if (range.buffer == nullptr || !*range.buffer) return usage_error(of_binding(i) + " has no buffer");
    if (range.buffer->state_->device != shader.device)
      return usage_error(of_binding(i) + " is of another device");
    const std::int64_t size = round_up(range.buffer->bytes(), 4);
    if (range.offset < 0 || range.bytes <= 0 || range.bytes > size || range.offset > size - range.bytes ||
        range.offset % limits.offset_alignment != 0 || range.bytes % 4 != 0) {
      return usage_error(of_binding(i) + " is " + std::to_string(range.bytes) + " bytes at " +
                         std::to_string(range.offset) + " of a buffer of " +
                         std::to_string(range.buffer->bytes()) + ", where offsets are multiples of " +
                         std::to_string(limits.offset_alignment));
    }
    if (range.bytes > limits.binding_bytes) {
      return limit_error(of_binding(i) + " has " + human_bytes(range.bytes) + " on " + shader.adapter->name +
                         ", where one has at most " + human_bytes(limits.binding_bytes));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (ranges[j].buffer->state_ != range.buffer->state_) continue;
      if (shader.writable[i] != shader.writable[j]) {
        return usage_error(of_binding(j) + " and " + of_binding(i) +
                           " are one buffer, read-only and writable at once");
      }
      if (shader.writable[i] && overlap(ranges[j], range)) {
        return usage_error(of_binding(j) + " and " + of_binding(i) + " are writable and overlap");
      }
    }
  }
  for (const std::int64_t groups : {x, y, z}) {
    if (groups < 0) return usage_error("dispatch of a negative number of workgroups");
    if (groups > limits.workgroups_per_dimension) {
      return limit_error("a dispatch of " + std::to_string(groups) + " workgroups in a dimension on " +
                         shader.adapter->name + ", where one has at most " +
                         std::to_string(limits.workgroups_per_dimension));
    }
  }
  if (x == 0 || y == 0 || z == 0) return {};

  if (state_->device == 0) state_->device = shader.device;
  if (state_->device != shader.device) return usage_error("a recording of two devices");
  State::Step step;
  step.pipeline = pipeline.state_;
  for (const BufferRange& range : ranges)
    step.ranges.push_back({range.buffer->state_, range.offset, range.bytes});
  step.groups[0] = static_cast<std::uint32_t>(x);
  step.groups[1] = static_cast<std::uint32_t>(y);
  step.groups[2] = static_cast<std::uint32_t>(z);
  if (!sizes.empty()) {
    const auto slot =
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(state_->sizes.size()), kSlotBytes));
    step.sizes_offset = static_cast<std::int64_t>(slot);
    state_->sizes.resize(slot + static_cast<std::size_t>(round_up(shader.size_bytes, 16)));
    std::memcpy(state_->sizes.data() + slot, sizes.data(), sizes.size());
  }
  state_->add(std::move(step));
  ++state_->dispatches;
  return {};
}

Status Recording::copy(const BufferRange& from, const Buffer& to, std::int64_t to_offset) {
  if (from.buffer == nullptr || !*from.buffer || !to) return usage_error("copy without a buffer");
  if (from.buffer->state_ == to.state_) return usage_error("copy within one buffer");
  if (from.buffer->state_->device != to.state_->device) return usage_error("copy between two devices");
  const std::int64_t from_size = round_up(from.buffer->bytes(), 4);
  const std::int64_t to_size = round_up(to.bytes(), 4);
  if (from.offset % 4 != 0 || from.bytes % 4 != 0 || to_offset % 4 != 0 || from.offset < 0 ||
      from.bytes < 0 || to_offset < 0 || from.bytes > from_size || from.offset > from_size - from.bytes ||
      from.bytes > to_size || to_offset > to_size - from.bytes) {
    return usage_error("copy " + std::to_string(from.bytes) + " bytes from " + std::to_string(from.offset) +
                       " of " + std::to_string(from_size) + " to " + std::to_string(to_offset) + " of " +
                       std::to_string(to_size));
  }
  if (from.bytes == 0) return {};
  if (state_->device == 0) state_->device = to.state_->device;
  if (state_->device != to.state_->device) return usage_error("a recording of two devices");
  State::Step step;
  step.ranges.push_back({from.buffer->state_, from.offset, from.bytes});
  step.ranges.push_back({to.state_, to_offset, from.bytes});
  state_->add(std::move(step));
  return {};
}

// A bind group holds the buffer of sizes as well: without that one, none is of use. Its content may differ, as writes
// take their turn after what was submitted.
void Recording::follow(Recording earlier) {
  if (earlier.state_ == nullptr) return;
  State& before = *earlier.state_;
  if (before.device != state_->device || before.sizes_there.size() != state_->sizes.size()) return;
  state_->sizes_buffer = std::move(before.sizes_buffer);
  state_->sizes_there = std::move(before.sizes_there);
  bool same = state_->steps.size() == before.steps.size() && state_->timed == before.timed;
  for (std::size_t i = 0; i < std::min(state_->steps.size(), before.steps.size()); ++i) {
    State::Step &step = state_->steps[i], &old = before.steps[i];
    const bool bound =
        step.pipeline == old.pipeline && step.ranges == old.ranges && step.sizes_offset == old.sizes_offset;
    if (bound) step.bind_group = std::move(old.bind_group);
    same = same && bound && std::ranges::equal(step.groups, old.groups);
  }
  if (same) state_->ahead = std::move(before.ahead);
}

// What does not change between submissions: the buffer of sizes, the bind groups, the queries.
Status Device::State::prepare(Recording::State& recording) {
  const Library& wgpu = opened_library();
  recording.prepared = 0;
  if (recording.sizes_there.size() != recording.sizes.size()) {
    for (Recording::State::Step& step : recording.steps) step.bind_group = {};
    XYNTRA_TRY(recording.sizes_buffer, make_buffer(static_cast<std::int64_t>(recording.sizes.size()),
                                                   WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst));
  }
  if (recording.sizes_there != recording.sizes) {
    wgpu.QueueWriteBuffer(queue.get(), recording.sizes_buffer.get(), 0, recording.sizes.data(),
                          recording.sizes.size());
    recording.sizes_there = recording.sizes;
  }
  const Reports reports;
  for (Recording::State::Step& step : recording.steps) {
    if (step.pipeline == nullptr || step.bind_group.get() != nullptr) continue;
    std::vector<WGPUBindGroupEntry> entries;
    for (const Recording::State::Range& range : step.ranges) {
      WGPUBindGroupEntry& entry = entries.emplace_back();
      entry.binding = step.pipeline->numbers[entries.size() - 1];
      entry.buffer = range.buffer->handle.get();
      entry.offset = static_cast<std::uint64_t>(range.offset);
      entry.size = static_cast<std::uint64_t>(range.bytes);
    }
    if (step.pipeline->size_bytes > 0) {
      WGPUBindGroupEntry& entry = entries.emplace_back();
      entry.binding = step.pipeline->numbers[entries.size() - 1];
      entry.buffer = recording.sizes_buffer.get();
      entry.offset = static_cast<std::uint64_t>(step.sizes_offset);
      entry.size = static_cast<std::uint64_t>(round_up(step.pipeline->size_bytes, 16));
    }
    WGPUBindGroupDescriptor descriptor = {};
    descriptor.layout = step.pipeline->layout.get();
    descriptor.entryCount = entries.size();
    descriptor.entries = entries.data();
    step.bind_group = BindGroupHandle(wgpu.DeviceCreateBindGroup(device.get(), &descriptor));
  }
  XYNTRA_CHECK_OK(reports.status(*loss, "the buffers of a dispatch"));
  if (recording.timed) {
    recording.queries.clear();
    for (std::int64_t left = std::int64_t{2} * recording.dispatches; left > 0; left -= kQueriesOfSet) {
      WGPUQuerySetDescriptor descriptor = {};
      descriptor.type = WGPUQueryType_Timestamp;
      descriptor.count = static_cast<std::uint32_t>(std::min(left, kQueriesOfSet));
      recording.queries.emplace_back(wgpu.DeviceCreateQuerySet(device.get(), &descriptor));
    }
    XYNTRA_CHECK_OK(reports.status(*loss, "timestamps"));
    auto ticks = std::make_shared<Buffer::State>();
    ticks->device = id;
    ticks->bytes = std::int64_t{16} * recording.dispatches;
    XYNTRA_TRY(ticks->handle,
               make_buffer(ticks->bytes, WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc));
    recording.ticks.state_ = std::move(ticks);
  }
  recording.prepared = recording.steps.size();
  return {};
}

Result<CommandBufferHandle> Device::State::encode(Recording::State& recording) {
  const Library& wgpu = opened_library();
  const Reports reports;
  const CommandEncoderHandle encoder(wgpu.DeviceCreateCommandEncoder(device.get(), nullptr));
  ComputePassHandle pass;
  const Pipeline::State* current = nullptr;
  auto end_pass = [&] {
    if (pass.get() != nullptr) wgpu.ComputePassEncoderEnd(pass.get());
    pass = ComputePassHandle();
    current = nullptr;
  };
  std::int64_t dispatch = 0;
  for (const Recording::State::Step& step : recording.steps) {
    if (step.pipeline == nullptr) {
      end_pass();
      const Recording::State::Range& from = step.ranges[0];
      const Recording::State::Range& to = step.ranges[1];
      wgpu.CommandEncoderCopyBufferToBuffer(encoder.get(), from.buffer->handle.get(),
                                            static_cast<std::uint64_t>(from.offset), to.buffer->handle.get(),
                                            static_cast<std::uint64_t>(to.offset),
                                            static_cast<std::uint64_t>(from.bytes));
      continue;
    }
    if (recording.timed) end_pass();
    if (pass.get() == nullptr) {
      WGPUPassTimestampWrites times = {};
      WGPUComputePassDescriptor descriptor = {};
      if (recording.timed) {
        times.querySet = recording.queries[static_cast<std::size_t>(2 * dispatch / kQueriesOfSet)].get();
        times.beginningOfPassWriteIndex = static_cast<std::uint32_t>(2 * dispatch % kQueriesOfSet);
        times.endOfPassWriteIndex = times.beginningOfPassWriteIndex + 1;
        descriptor.timestampWrites = &times;
      }
      pass = ComputePassHandle(wgpu.CommandEncoderBeginComputePass(encoder.get(), &descriptor));
    }
    if (step.pipeline.get() != current)
      wgpu.ComputePassEncoderSetPipeline(pass.get(), step.pipeline->handle.get());
    current = step.pipeline.get();
    wgpu.ComputePassEncoderSetBindGroup(pass.get(), 0, step.bind_group.get(), 0, nullptr);
    wgpu.ComputePassEncoderDispatchWorkgroups(pass.get(), step.groups[0], step.groups[1], step.groups[2]);
    ++dispatch;
  }
  end_pass();
  std::int64_t resolved = 0;
  for (const QuerySetHandle& set : recording.queries) {
    const std::int64_t count = std::min(2 * dispatch - resolved, kQueriesOfSet);
    wgpu.CommandEncoderResolveQuerySet(encoder.get(), set.get(), 0, static_cast<std::uint32_t>(count),
                                       recording.ticks.state_->handle.get(),
                                       static_cast<std::uint64_t>(8 * resolved));
    resolved += count;
  }
  XYNTRA_CHECK_OK(reports.status(*loss, "commands"));
  return finished(encoder);
}

Status Device::submit(Recording& recorded) {
  Recording::State& recording = *recorded.state_;
  XYNTRA_CHECK_OK(state_->usable());
  if (recording.steps.empty()) return {};
  if (recording.device != state_->id) return usage_error("submit a recording of another device");
  if (recording.timed && !adapter().timestamps) {
    return failure(ErrorClass::Device, "the adapter " + adapter().name + " has no timestamps");
  }
  if (recording.prepared != recording.steps.size()) XYNTRA_CHECK_OK(state_->prepare(recording));
  CommandBufferHandle commands = std::exchange(recording.ahead, {});
  if (commands.get() == nullptr) {
    XYNTRA_TRY(commands, state_->encode(recording));
  }
  return state_->submit(commands);
}

void Device::write_ahead(Recording& recorded) {
  Recording::State& recording = *recorded.state_;
  if (recording.timed || recording.prepared != recording.steps.size() || recording.ahead.get() != nullptr)
    return;
  if (!state_->usable()) return;
  if (auto commands = state_->encode(recording))
    recording.ahead = std::move(*commands);  // an error comes again
}

Result<std::vector<double>> Device::nanoseconds(const Recording& recorded) {
  const Recording::State& recording = *recorded.state_;
  if (!recording.timed || !recording.ticks)
    return usage_error("times of a recording that was not timed or submitted");
  std::vector<std::uint64_t> ticks(static_cast<std::size_t>(recording.ticks.bytes()) / sizeof(std::uint64_t));
  XYNTRA_CHECK_OK(read(recording.ticks, 0, std::as_writable_bytes(std::span(ticks))));
  const double period = opened_library().QueueGetTimestampPeriod(state_->queue.get());
  std::vector<double> times;
  for (std::size_t i = 0; i + 1 < ticks.size(); i += 2) {
    times.push_back(static_cast<double>(ticks[i + 1] - ticks[i]) * period);
  }
  return times;
}

}  // namespace xyntra::webgpu
