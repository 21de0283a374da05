// The WebGPU driver: all of wgpu-native stands behind this header, and its library is opened when first asked for.
//
//   XYNTRA_TRY(auto device, webgpu::Device::open(""));
//   XYNTRA_TRY(auto x, device->allocate(4096));
//   XYNTRA_CHECK_OK(device->write(x, 0, bytes));
//   XYNTRA_TRY(auto twice, device->pipeline({.wgsl = text, .entry = "main", .writable = {true}}));
//   webgpu::Recording recording;
//   XYNTRA_CHECK_OK(recording.dispatch(twice, {{{&x, 0, 4096}}}, {}, 16, 1, 1));
//   XYNTRA_CHECK_OK(device->submit(recording));      // as often as one likes
//   XYNTRA_CHECK_OK(device->read(x, 0, bytes));      // waits for what was submitted before
//
// What WebGPU asks of a dispatch, checked by Recording::dispatch before a driver sees it:
// - one buffer is not bound read-only and writable at once: ranges of one arena are all declared `read_write`;
// - a writable range overlaps no other range of the same dispatch;
// - a range begins at a multiple of Limits::offset_alignment, is a multiple of 4 bytes long, and is no longer than
//   Limits::binding_bytes; at most Limits::storage_buffers ranges.
// Dispatches of one recording, and submissions of one device, see each other's writes in order.
//
// Errors: Limit for what is larger than the adapter's limits, Device for what the driver reports (a shader it refuses, no
// memory, a lost device), Usage for a call that cannot be right. After a lost device every call says so, with
// Error::fatal; Device::open gives a new one. Everything here may be called from several threads, but one Recording by
// one thread at a time. Without wgpu-native every call fails with a Device error that says what to install.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ceilings.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra::webgpu {

struct Limits {
  std::int64_t binding_bytes = 0;  // of one range bound to a shader
  std::int64_t buffer_bytes = 0;
  int storage_buffers = 0;  // bound in one dispatch, sizes not counted
  int workgroup_invocations = 0;
  int workgroup_size[3] = {0, 0, 0};  // in x, y and z; their product is at most workgroup_invocations
  int workgroup_bytes = 0;  // var<workgroup>
  int workgroups_per_dimension = 0;
  int offset_alignment = 0;  // of ranges
  // Iterations of an invocation's loops, all together, after which the driver ends every loop and says nothing; 0: it does not.
  std::int64_t loop_iterations = 0;
};

struct Adapter {
  std::string name;  // as the driver calls it
  std::string api;  // "Vulkan", "Metal", "D3D12"
  std::string kind;  // "discrete", "integrated", "cpu", "other"
  std::string driver;  // its name and version
  Limits limits;
  bool f16 = false;
  bool f64 = false;
  bool int64 = false;
  bool subgroups = false;
  bool timestamps = false;
  int subgroup_min = 0;  // lanes; both 0 when unknown
  int subgroup_max = 0;
};

// The adapters of this machine, best first: discrete, integrated, other, cpu. Empty when there is no driver.
Result<std::vector<Adapter>> adapters();
// The version of the library in use: "29.0.1.1".
Result<std::string> library_version();

// Memory of a device, zero at first; freed with its last copy, once submitted work is done with it.
class Buffer {
 public:
  Buffer() = default;
  std::int64_t bytes() const;  // as asked for
  explicit operator bool() const { return state_ != nullptr; }

 private:
  friend class Device;
  friend class Recording;
  struct State;
  std::shared_ptr<State> state_;
};

struct BufferRange {
  const Buffer* buffer = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// One shader. group(0) binding(i) is `var<storage, read_write>` where writable[i], `var<storage, read>` elsewhere; with
// `bindings`, those of these numbers, in rising order: the text may have more, which the entry does not use. With
// size_bytes, the binding after the last one of all is `var<uniform>`: a struct of i32 members, or an array of vec4<i32>.
struct Shader {
  std::string wgsl;
  std::string entry = "main";
  std::vector<bool> writable;
  std::vector<std::uint32_t> bindings = {};  // empty: 0, 1, ...
  std::uint32_t all_bindings = 0;  // with `bindings`: how many the text has
  std::int64_t size_bytes = 0;  // of the uniform; 0: it has none
  // Without the driver's checks of indices and loops. Only for a kernel that was proved to stay in bounds and to end:
  // another one may read and write anything.
  bool trusted = false;
};

class Pipeline {
 public:
  Pipeline() = default;
  explicit operator bool() const { return state_ != nullptr; }

 private:
  friend class Device;
  friend class Recording;
  struct State;
  std::shared_ptr<State> state_;
};

// A list of dispatches and copies, made once and submitted any number of times. It holds what it uses.
class Recording {
 public:
  Recording();
  // Timed: each dispatch is a pass of its own between two timestamps (Adapter::timestamps); see Device::nanoseconds.
  static Recording timed();
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  // One range per binding of the pipeline, `sizes` as many bytes as its size_bytes. x, y, z count workgroups; nothing
  // is recorded where one of them is 0.
  Status dispatch(const Pipeline& pipeline, std::span<const BufferRange> ranges,
                  std::span<const std::byte> sizes, std::int64_t x, std::int64_t y, std::int64_t z);
  // Both offsets and the size are multiples of 4; the buffers differ.
  Status copy(const BufferRange& from, const Buffer& to, std::int64_t to_offset);
  int dispatches() const;
  bool empty() const;  // neither a dispatch nor a copy
  // Takes over what the submission of an earlier recording prepared, where both have the same dispatch at the same place, and what
  // was written ahead where they are the same as a whole.
  void follow(Recording earlier);

 private:
  friend class Device;
  struct State;
  std::unique_ptr<State> state_;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  using Buffer = webgpu::Buffer;
  using BufferRange = webgpu::BufferRange;

  // `which` is a place in adapters(), or a part of a name in any case; empty: the first.
  static Result<std::shared_ptr<Device>> open(std::string_view which);
  ~Device();

  const Adapter& adapter() const;
  std::int64_t most_bytes() const { return adapter().limits.buffer_bytes; }  // of one buffer
  bool lost() const;

  Result<Buffer> allocate(std::int64_t bytes);
  // Offset a multiple of 4; up to three bytes after the last one become zero where `bytes` is no multiple of 4.
  Status write(const Buffer& buffer, std::int64_t offset, std::span<const std::byte> bytes);

  struct Read {
    const Buffer* from = nullptr;
    std::int64_t offset = 0;  // a multiple of 4
    std::span<std::byte> to;
  };
  // Waits for everything submitted before, and for the bytes. Several reads cost one way there and back. `meanwhile` is done
  // while the device works.
  Status read(std::span<const Read> reads, const Budget* budget = nullptr,
              const std::function<void()>& meanwhile = {});
  Status read(const Buffer& buffer, std::int64_t offset, std::span<std::byte> bytes);

  // Equal shaders are compiled once. A refused shader's error quotes the line of `wgsl`.
  Result<Pipeline> pipeline(const Shader& shader);

  // One command buffer and one submission; dispatches between two copies are one pass. Returns at once.
  Status submit(Recording& recording);
  // Writes the command buffer of its next submission, or of that of a recording that follows it and is the same: WebGPU takes
  // each but once, and the host has time for it while the device works.
  void write_ahead(Recording& recording);
  // Until everything submitted so far is done. Patience is how long a device may take before it counts as lost
  // (the watchdog, also of read); a budget's deadline and cancel token end the wait, not the work.
  Status wait(const Budget* budget = nullptr);
  void set_patience(std::chrono::milliseconds patience);
  // Per dispatch of a timed recording, of its last submission, which must be done.
  Result<std::vector<double>> nanoseconds(const Recording& recording);

  // Ends the device as a driver that fails does. For tests of what comes after.
  void lose();

 private:
  struct State;
  explicit Device(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
  friend class Recording;
};

// What it reaches at most; Device errors where it has no timestamps.
Result<Ceilings> measure_ceilings(Device& device);

}  // namespace xyntra::webgpu
