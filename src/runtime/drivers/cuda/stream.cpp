#include <array>
#include <thread>

#include "runtime/drivers/cuda/state.h"
#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra::cuda {

namespace {
CUfunction function_of(void* handle) { return static_cast<CUfunction>(handle); }
}  // namespace

std::int64_t Buffer::bytes() const { return state_ == nullptr ? 0 : state_->bytes; }
std::uint64_t Buffer::address() const { return state_ == nullptr ? 0 : state_->address; }

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {}

Stream::~Stream() {
  if (stream_ == nullptr || device_->lost()) return;
  const Current current(*device_->state_);
  opened_library().StreamDestroy(static_cast<CUstream>(stream_));
}

Status Stream::ready() {
  Device::State& state = *device_->state_;
  XYNTRA_CHECK_OK(state.usable());
  if (stream_ != nullptr) return {};
  const Current current(state);
  CUstream made = nullptr;
  XYNTRA_CHECK_OK(state.status(opened_library().StreamCreate(&made, kStreamNonBlocking), "making a stream"));
  stream_ = made;
  return {};
}

// ---- memory

std::int64_t Stream::most_bytes() const { return device_->chip().memory_bytes; }

Result<Buffer> Stream::allocate(std::int64_t bytes) {
  XYNTRA_CHECK_OK(ready());
  Device::State& state = *device_->state_;
  const Library& cuda = opened_library();
  const Current current(state);
  CUdeviceptr address = 0;
  const CUresult result = cuda.MemAlloc(&address, static_cast<size_t>(std::max<std::int64_t>(bytes, 1)));
  if (result == kOutOfMemory) {
    size_t free = 0, total = 0;
    cuda.MemGetInfo(&free, &total);
    return failure(ErrorClass::Device, state.chip.name + " has no memory for " + human_bytes(bytes) + "; " +
                                           human_bytes(static_cast<std::int64_t>(free)) + " of " +
                                           human_bytes(static_cast<std::int64_t>(total)) + " are free");
  }
  XYNTRA_CHECK_OK(state.status(result, "taking memory"));
  Buffer made;
  made.state_ = std::make_shared<Buffer::State>(device_->state_, address, bytes);
  return made;
}

Result<Buffer> Stream::borrow(std::uint64_t address, std::int64_t bytes) {
  XYNTRA_CHECK_OK(ready());
  const Current current(*device_->state_);
  unsigned type = 0;
  if (opened_library().PointerGetAttribute(&type, kPointerMemoryType, address) != kSuccess ||
      type != kMemoryDevice)
    return usage_error("a tensor that is said to be in the memory of " + device_->chip().name +
                       " is not there");
  Buffer made;
  made.state_ = std::make_shared<Buffer::State>(device_->state_, address, bytes);
  made.state_->borrowed = true;
  return made;
}

Status Stream::follow(std::uint64_t other) {
  XYNTRA_CHECK_OK(ready());
  return order(reinterpret_cast<void*>(other), stream_);
}

Status Stream::lead(std::uint64_t other) {
  XYNTRA_CHECK_OK(ready());
  return order(stream_, reinterpret_cast<void*>(other));
}

// An event is given back at once: the driver keeps it until the streams are past it.
Status Stream::order(void* first, void* second) {
  constexpr unsigned kWithoutTime = 2;
  Device::State& state = *device_->state_;
  const Library& cuda = opened_library();
  const Current current(state);
  CUevent event = nullptr;
  XYNTRA_CHECK_OK(state.status(cuda.EventCreate(&event, kWithoutTime), "making an event"));
  CUresult result = cuda.EventRecord(event, static_cast<CUstream>(first));
  if (result == kSuccess) result = cuda.StreamWaitEvent(static_cast<CUstream>(second), event, 0);
  cuda.EventDestroy(event);
  return state.status(result, "ordering streams");
}

Status Stream::write(const Buffer& buffer, std::int64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  XYNTRA_CHECK_OK(ready());
  require(offset >= 0 && offset + static_cast<std::int64_t>(bytes.size()) <= buffer.bytes(),
          "a write outside a buffer");
  const Current current(*device_->state_);
  return device_->state_->status(
      opened_library().MemcpyHtoDAsync(buffer.address() + static_cast<std::uint64_t>(offset), bytes.data(),
                                       bytes.size(), static_cast<CUstream>(stream_)),
      "writing memory");
}

Status Stream::clear(const Buffer& buffer) {
  XYNTRA_CHECK_OK(ready());
  const Current current(*device_->state_);
  return device_->state_->status(
      opened_library().MemsetD8Async(buffer.address(), 0, static_cast<size_t>(buffer.bytes()),
                                     static_cast<CUstream>(stream_)),
      "clearing memory");
}

Status Stream::copy(const BufferRange& from, const Buffer& to, std::int64_t to_offset) {
  XYNTRA_CHECK_OK(ready());
  require(from.offset + from.bytes <= from.buffer->bytes() && to_offset + from.bytes <= to.bytes(),
          "a copy outside a buffer");
  const Current current(*device_->state_);
  return device_->state_->status(
      opened_library().MemcpyDtoDAsync(to.address() + static_cast<std::uint64_t>(to_offset),
                                       from.buffer->address() + static_cast<std::uint64_t>(from.offset),
                                       static_cast<size_t>(from.bytes), static_cast<CUstream>(stream_)),
      "copying memory");
}

// ---- work

Status Stream::launch(const Function& function, const Grid& grid, std::span<const std::uint64_t> parameters,
                      std::span<const TensorMap> maps) {
  XYNTRA_CHECK_OK(ready());
  std::vector<void*> pointers;
  for (const std::uint64_t& parameter : parameters)
    pointers.push_back(const_cast<std::uint64_t*>(&parameter));
  for (const TensorMap& map : maps) pointers.push_back(const_cast<std::uint64_t*>(map.words.data()));
  CUlaunchAttribute early;
  early.value.programmatic = 1;
  CUlaunchConfig config;
  config.blocks_x = static_cast<unsigned>(grid.blocks);
  config.threads_x = static_cast<unsigned>(grid.threads);
  config.shared_bytes = static_cast<unsigned>(grid.shared_bytes);
  config.stream = static_cast<CUstream>(stream_);
  config.attributes = &early;
  config.attribute_count = grid.overlaps && device_->state_->overlaps ? 1 : 0;
  const Current current(*device_->state_);
  return device_->state_->status(
      opened_library().LaunchKernelEx(&config, function_of(function.handle_), pointers.data(), nullptr),
      "launching a kernel");
}

Result<Graph> Stream::capture(std::span<const Launch> launches) {
  XYNTRA_CHECK_OK(ready());
  Device::State& state = *device_->state_;
  const Library& cuda = opened_library();
  const Current current(state);
  auto* stream = static_cast<CUstream>(stream_);
  XYNTRA_CHECK_OK(state.status(cuda.StreamBeginCapture(stream, kCaptureOfThread), "capturing launches"));
  Status launched;
  for (const Launch& one : launches) {
    if (launched) launched = launch(one.function, one.grid, one.parameters, one.maps);
  }
  CUgraph graph = nullptr;
  const CUresult ended = cuda.StreamEndCapture(stream, &graph);  // also where a launch failed
  CUgraphExec exec = nullptr;
  const CUresult made = ended == kSuccess && launched ? cuda.GraphInstantiate(&exec, graph, 0) : ended;
  if (graph != nullptr) cuda.GraphDestroy(graph);
  XYNTRA_CHECK_OK(launched);
  XYNTRA_CHECK_OK(state.status(made, "capturing launches"));
  Graph captured;
  captured.exec_ = std::shared_ptr<void>(exec, [on = device_->state_](void* handle) {
    if (on->lost.load()) return;
    const Current here(*on);
    opened_library().GraphExecDestroy(static_cast<CUgraphExec>(handle));
  });
  return captured;
}

Status Stream::launch(const Graph& graph) {
  XYNTRA_CHECK_OK(ready());
  const Current current(*device_->state_);
  return device_->state_->status(opened_library().GraphLaunch(static_cast<CUgraphExec>(graph.exec_.get()),
                                                              static_cast<CUstream>(stream_)),
                                 "launching a graph");
}

// Sleeps a small part of the time waited so far, so that long work is noticed late by a percent or two, short work at once.
Status Stream::wait(const Budget* budget) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::milliseconds(2);
  constexpr auto kLongestSleep = std::chrono::milliseconds(1);
  XYNTRA_CHECK_OK(ready());
  Device::State& state = *device_->state_;
  const Current current(state);
  const Clock::time_point begin = Clock::now();
  for (int polls = 0;; ++polls) {
    const CUresult result = opened_library().StreamQuery(static_cast<CUstream>(stream_));
    if (result != kNotReady) return state.status(result, "running kernels");
    const Clock::duration waited = Clock::now() - begin;
    if (polls % 64 == 63) XYNTRA_CHECK_OK(budget != nullptr ? budget->check_time() : check_limits());
    if (waited > patience_) {
      state.lose("it did not answer for " + std::to_string(patience_.count()) + " ms");
      return state.usable();
    }
    if (waited > kSpin) std::this_thread::sleep_for(std::min<Clock::duration>(waited / 64, kLongestSleep));
  }
}

Status Stream::read(std::span<const Read> reads, const Budget* budget) {
  XYNTRA_CHECK_OK(wait(budget));
  Device::State& state = *device_->state_;
  const Library& cuda = opened_library();
  const Current current(state);
  auto* stream = static_cast<CUstream>(stream_);
  for (const Read& one : reads) {
    if (one.bytes <= 0 || one.count <= 0) continue;
    const CUdeviceptr from = one.from->address() + static_cast<std::uint64_t>(one.offset);
    CUresult result = kSuccess;
    if (one.count == 1) {
      result = cuda.MemcpyDtoHAsync(one.to, from, static_cast<size_t>(one.bytes), stream);
    } else {
      CUmemcpy2D rows;
      rows.source_device = from;
      rows.source_pitch = rows.to_pitch = static_cast<size_t>(one.distance);
      rows.to_host = one.to;
      rows.width = static_cast<size_t>(one.bytes);
      rows.height = static_cast<size_t>(one.count);
      result = cuda.Memcpy2DAsync(&rows, stream);
    }
    XYNTRA_CHECK_OK(state.status(result, "reading memory"));
  }
  return state.status(cuda.StreamSynchronize(stream), "reading memory");
}

// ---- time

Result<Stream::Moment> Stream::moment() {
  XYNTRA_CHECK_OK(ready());
  Device::State& state = *device_->state_;
  const Current current(state);
  CUevent event = nullptr;
  XYNTRA_CHECK_OK(state.status(opened_library().EventCreate(&event, 0), "making an event"));
  Moment made;
  made.event_ = std::shared_ptr<void>(event, [on = device_->state_](void* handle) {
    if (on->lost.load()) return;
    const Current here(*on);
    opened_library().EventDestroy(static_cast<CUevent>(handle));
  });
  XYNTRA_CHECK_OK(state.status(opened_library().EventRecord(event, static_cast<CUstream>(stream_)),
                               "recording an event"));
  return made;
}

Result<double> Stream::nanoseconds(const Moment& begin, const Moment& end) const {
  const Current current(*device_->state_);
  float milliseconds = 0;
  XYNTRA_CHECK_OK(device_->state_->status(
      opened_library().EventElapsedTime(&milliseconds, static_cast<CUevent>(begin.event_.get()),
                                        static_cast<CUevent>(end.event_.get())),
      "reading events"));
  return static_cast<double>(milliseconds) * 1e6;
}

}  // namespace xyntra::cuda
