// The CUDA driver: all of libcuda stands behind this header, and the library is opened when first asked for.
//
//   XYNTRA_TRY(auto device, cuda::Device::open(""));
//   cuda::Stream stream(device);
//   XYNTRA_TRY(auto x, stream.allocate(4096));
//   XYNTRA_CHECK_OK(stream.write(x, 0, bytes));
//   XYNTRA_TRY(auto functions, device->load(ptx, {{"phase0", 0}}));
//   XYNTRA_CHECK_OK(stream.launch(functions[0], {.blocks = 16, .threads = 256}, {{x.address()}}));
//   XYNTRA_CHECK_OK(stream.read({{{&x, 0, bytes}}}));      // waits for what was launched before
//
// What one stream is given is done in order. Errors: Device for what the driver reports (PTX it refuses, no memory, a lost device), Limit for what is more
// than the chip has. Some errors of kernels end a context for good (an address outside, a timeout): after one every call says so, with
// Error::fatal; Device::open gives a new context. Devices may be used by several threads, a Stream by one at a time. Without a driver every
// call fails with a Device error that says what to install.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/ceilings.h"
#include "support/limits/limits.h"
#include "support/result.h"

namespace xyntra::cuda {

struct Chip {
  std::string name;  // as the driver calls it
  int major = 0, minor = 0;  // compute capability: 9.0
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t block_shared_bytes = 0;  // of a thread block, at most
  int block_threads = 0;
  int multiprocessor_threads = 0;

  std::string architecture() const { return "sm_" + std::to_string(major) + std::to_string(minor); }
  bool is_supported() const { return major >= 8; }  // from Ampere on
  bool has_warpgroup_units() const { return major == 9; }  // Hopper's own, which later chips lack
};

// The GPUs of this machine, in the driver's order.
Result<std::vector<Chip>> chips();
Result<std::string> driver_version();  // of CUDA: "13.0"
// Why there is none that kernels can run on; empty when there is one.
std::string why_no_chip();

class Device;

// Memory of a device, not initialised; freed with its last copy.
class Buffer {
 public:
  Buffer() = default;
  std::int64_t bytes() const;
  std::uint64_t address() const;
  explicit operator bool() const { return state_ != nullptr; }

 private:
  friend class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

struct BufferRange {
  const Buffer* buffer = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// An entry of a module, which it keeps.
class Function {
 public:
  Function() = default;
  explicit operator bool() const { return handle_ != nullptr; }
  bool operator==(const Function&) const = default;

 private:
  friend class Device;
  friend class Stream;
  std::shared_ptr<void> module_;
  void* handle_ = nullptr;
};

struct Entry {
  std::string name;
  std::int64_t shared_bytes = 0;  // dynamic shared memory that it is launched with
};

// What a thread block takes of a multiprocessor, and how many of them are there at once.
struct Occupancy {
  std::int64_t registers = 0;  // of a thread
  std::int64_t shared_bytes = 0, warps = 0;  // of a thread block
  std::int64_t local_bytes = 0;  // of a thread, in memory: what registers did not hold
  std::int64_t blocks = 0;  // on a multiprocessor
};

// A tensor as copies of boxes are told of it: rows one after another, the outermost dimension first.
struct BoxedTensor {
  std::uint64_t address = 0;
  int element_bytes = 1;
  std::vector<std::int64_t> shape, box;
  bool swizzled = false;  // in shared memory: rows of 128 bytes
};

// The driver's form of it, a parameter of a kernel.
struct alignas(64) TensorMap {
  std::array<std::uint64_t, 16> words = {};
  bool operator==(const TensorMap&) const = default;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  // `which` is a place in chips(), or a part of a name in any case; empty: the first.
  static Result<std::shared_ptr<Device>> open(std::string_view which);
  ~Device();

  const Chip& chip() const;
  bool lost() const;
  // Compiled by the driver for its chip. A refused text is a Device error with the driver's log.
  Result<std::vector<Function>> load(const std::string& ptx, std::span<const Entry> entries);
  // The machine code that the driver makes of a text, to be kept and loaded again; empty where it gives none.
  std::vector<std::byte> assemble(const std::string& ptx);
  Result<std::vector<Function>> load(std::span<const std::byte> code, std::span<const Entry> entries);
  // Unsupported where there is no such map: rows that do not begin at multiples of 16 bytes, an empty tensor.
  Result<TensorMap> tensor_map(const BoxedTensor& tensor) const;
  Occupancy occupancy(const Function& function, std::int64_t threads, std::int64_t shared_bytes) const;

  struct State;

 private:
  friend class Stream;
  Status runs(const std::string& ptx) const;  // whether the chip has what the text says it needs
  Result<std::vector<Function>> load_image(const void* image, const char* refused,
                                           std::span<const Entry> entries);
  explicit Device(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

struct Grid {
  std::int64_t blocks = 1, threads = 1, shared_bytes = 0;
  bool overlaps = false;  // the kernel itself waits for what was launched before
  bool operator==(const Grid&) const = default;
};

struct Launch {
  Function function;
  Grid grid;
  std::vector<std::uint64_t> parameters;
  std::vector<TensorMap> maps = {};  // parameters after the others
  bool operator==(const Launch&) const = default;
};

// Launches one after another as the driver replays them, for less than it takes to launch each.
class Graph {
 public:
  Graph() = default;
  explicit operator bool() const { return exec_ != nullptr; }

 private:
  friend class Stream;
  std::shared_ptr<void> exec_;
};

class Stream {
 public:
  using Buffer = cuda::Buffer;
  using BufferRange = cuda::BufferRange;

  explicit Stream(std::shared_ptr<Device> device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::int64_t most_bytes() const;  // of one buffer
  Result<Buffer> allocate(std::int64_t bytes);
  // Memory of somebody else's on this device, which stays his. Usage error where the address is none of it.
  Result<Buffer> borrow(std::uint64_t address, std::int64_t bytes);
  // What this stream is given from now on begins after what the other one holds; the other way round.
  Status follow(std::uint64_t other);
  Status lead(std::uint64_t other);
  Status write(const Buffer& buffer, std::int64_t offset, std::span<const std::byte> bytes);
  Status clear(const Buffer& buffer);  // to zero
  Status copy(const BufferRange& from, const Buffer& to, std::int64_t to_offset);
  Status launch(const Function& function, const Grid& grid, std::span<const std::uint64_t> parameters,
                std::span<const TensorMap> maps = {});
  Result<Graph> capture(std::span<const Launch> launches);  // nothing is run
  Status launch(const Graph& graph);

  // `count` rows of `bytes` each, which begin `distance` bytes apart, here and there.
  struct Read {
    const Buffer* from = nullptr;
    std::int64_t offset = 0;
    std::byte* to = nullptr;
    std::int64_t bytes = 0, distance = 0, count = 1;
  };
  // Waits for everything before, and for the bytes.
  Status read(std::span<const Read> reads, const Budget* budget = nullptr);
  // Until everything so far is done. A budget's deadline and cancel token end the wait, not the work; a device that takes longer than its patience
  // counts as lost.
  Status wait(const Budget* budget = nullptr);
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }

  // A point in time, and what passed between two of them once both are reached.
  class Moment {
   public:
    Moment() = default;

   private:
    friend class Stream;
    std::shared_ptr<void> event_;
  };
  Result<Moment> moment();
  Result<double> nanoseconds(const Moment& begin, const Moment& end) const;

 private:
  Status ready();
  Status order(void* first, void* second);

  std::shared_ptr<Device> device_;
  void* stream_ = nullptr;  // made at first use
  std::chrono::milliseconds patience_{60'000};
};

// What it reaches at most.
Result<Ceilings> measure_ceilings(const std::shared_ptr<Device>& device);

}  // namespace xyntra::cuda
