// What stands behind the classes of runtime/drivers/webgpu.h. Seen by this folder alone.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "runtime/drivers/webgpu.h"
#include "runtime/drivers/webgpu/library.h"

namespace xyntra::webgpu {

inline std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// Whether a device is lost, and why. It outlives its device: the driver may call back late.
struct Loss {
  std::atomic<bool> lost{false};
  std::atomic<bool> hangs{false};  // lost because it did not answer: to release it would be to wait for it
  std::mutex mutex;
  std::string why;

  void set(const std::string& reason);  // the first reason stays
  Error error();
};

// Collects what wgpu-native reports on this thread while it lives: errors come during the call that causes them, on the
// thread that makes it, so no other thread's are mistaken for ours.
class Reports {
 public:
  Reports();
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  // Fails with the first report: Device, and fatal when the device is lost.
  Status status(Loss& loss, const char* doing) const;
  bool any() const { return any_; }
  std::vector<std::string> lines() const;  // of the first report, without its frame

  static void receive(WGPUDevice const* device, WGPUErrorType type, WGPUStringView message, void*, void*);

 private:
  Reports* outer_;
  bool any_ = false;
  WGPUErrorType type_ = WGPUErrorType_NoError;
  std::string message_;
};

// An adapter of the machine with all that its driver says of it.
struct AdapterEntry {
  AdapterHandle handle;
  Adapter facts;
  WGPULimits limits = {};
  std::vector<WGPUFeatureName> features;  // of those that we ask for
};
Result<std::vector<AdapterEntry>> adapter_entries();

struct Buffer::State {
  std::uint64_t device = 0;  // DeviceState::id
  std::int64_t bytes = 0;  // as asked for; the buffer's size is the next multiple of 4
  BufferHandle handle;
};

struct Pipeline::State {
  std::uint64_t device = 0;
  std::shared_ptr<const Adapter> adapter;
  std::vector<bool> writable;
  std::vector<std::uint32_t> numbers;  // of bindings, that of sizes last
  std::int64_t size_bytes = 0;
  BindGroupLayoutHandle layout;
  ComputePipelineHandle handle;
};

struct Recording::State {
  struct Range {
    std::shared_ptr<Buffer::State> buffer;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    bool operator==(const Range&) const = default;
  };
  struct Step {
    std::shared_ptr<Pipeline::State> pipeline;  // none: a copy from ranges[0] to ranges[1]
    std::vector<Range> ranges;
    std::int64_t sizes_offset = 0;
    std::uint32_t groups[3] = {0, 0, 0};
    BindGroupHandle bind_group;
  };
  bool timed = false;
  std::vector<Step> steps;
  int dispatches = 0;
  std::vector<std::byte> sizes;  // of all steps, one aligned slot each
  std::uint64_t device = 0;  // of all pipelines and buffers; 0 before the first
  // made by the first submission, again when something was added since
  std::size_t prepared = 0;  // steps
  BufferHandle sizes_buffer;
  std::vector<std::byte> sizes_there;  // what that buffer holds
  std::vector<QuerySetHandle> queries;
  Buffer ticks;
  CommandBufferHandle ahead;  // of all steps, for the next submission

  void add(Step step) {
    steps.push_back(std::move(step));
    ahead = {};
  }
};

struct Device::State {
  std::uint64_t id = 0;
  std::shared_ptr<const Adapter> adapter;
  Loss* loss = nullptr;
  DeviceHandle device;
  QueueHandle queue;
  std::atomic<std::chrono::milliseconds> patience{std::chrono::milliseconds(60'000)};
  // Shared by calls that end the process on a destroyed device, held alone by who destroys it.
  std::shared_mutex gate;
  std::atomic<std::int64_t> unsubmitted_bytes{0};  // of writes: they keep staging memory until a submission

  std::mutex mutex;  // of the two below
  std::map<std::string, std::shared_ptr<Pipeline::State>> pipelines;
  struct Staging {
    BufferHandle handle;
    std::int64_t bytes = 0;
  };
  Staging spare;

  ~State();
  Status usable() const;  // fails on a device that is known to be lost
  // Lets callbacks come, and learns of a loss: wgpu-native tells of it when next asked for something.
  Status poll();
  Result<BufferHandle> make_buffer(std::int64_t bytes, WGPUBufferUsage usage);
  Result<CommandBufferHandle> finished(const CommandEncoderHandle& encoder);
  Status submit(const CommandBufferHandle& commands);  // none submits the writes before it
  // Polls until `done` says so, the device is lost, the patience is over or the budget is.
  template <class Done>
  Status poll_until(const Done& done, const Budget* budget);
  Status wait(const Budget* budget);
  Result<Staging> take_staging(std::int64_t bytes);
  Status prepare(Recording::State& recording);
  Result<CommandBufferHandle> encode(Recording::State& recording);
  Status read_batch(std::span<const Device::Read> reads, std::int64_t bytes, const Budget* budget,
                    const std::function<void()>& meanwhile);
};

}  // namespace xyntra::webgpu
