// What a device has of the host's memory: a buffer for each piece of it, and which bytes of it are known to be the same, or
// newer than the host's. One for each run context.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "runtime/drivers/cuda.h"
#include "runtime/drivers/gathered_rows.h"
#include "runtime/kernel_driver.h"

namespace xyntra {

// Which run was the last to write memory that was donated. Contexts of a model share it: what one of them has on the device is
// old when another has been given the memory since. Of more memory than kMost they forget: it is brought once more.
class LastWriters {
 public:
  static constexpr std::size_t kMost = 4096;

  std::uint64_t write(const std::byte* memory);
  bool is_last(const std::byte* memory, std::uint64_t run) const;
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::uint64_t> runs_;
  std::uint64_t next_ = 1;
};

// In whole steps, or in words where that would be more than a device allows.
std::int64_t rounded_within(std::int64_t bytes, std::int64_t step, std::int64_t most);

// On a WebGPU device, or on the stream of a CUDA one.
template <DeviceMemory Device>
class DeviceCopiesOf {
 public:
  using Buffer = typename Device::Buffer;
  using BufferRange = typename Device::BufferRange;
  using Rows = RowsOf<Buffer>;
  using Submit = std::function<Status()>;  // what was recorded so far
  using Outgrown = std::function<void()>;  // a buffer is replaced by a larger one: let go of it

  DeviceCopiesOf(std::shared_ptr<Device> device, std::shared_ptr<LastWriters> writers, Submit submit,
                 Outgrown outgrown)
      : device_(std::move(device)),
        writers_(std::move(writers)),
        submit_(std::move(submit)),
        outgrown_(std::move(outgrown)) {}

  void begin(std::span<const KernelDriver::Memory> unchanged);
  // Where the argument of a launch is on the device; what it reads, or leaves as it is, is brought there first.
  Result<BufferRange> range_of(const KernelArgument& argument, bool is_read);
  // The launch is recorded.
  void use(const KernelArgument& argument, bool is_written);
  void submitted();  // and nothing waits any more
  void forget(std::span<const std::byte> memory);
  // What must be read to have these places as the device has them; they count as read.
  std::vector<Rows> newer_in(std::span<const std::span<std::byte>> places);

 private:
  // A copy of a piece of the host's memory.
  struct Piece {
    Buffer buffer;
    bool constant = false;
    bool used = false;  // in this run
    bool kept = false;  // holds what this run was told is unchanged
    bool pending = false;  // by a launch that is not submitted yet
    int use = 0;  // pieces of the last run in which it was used, before it
  };
  // Memory that the device has, by its place in the host's: of each of `count` stretches of `distance` bytes the first `valid`.
  // What is there in part is so in whole words.
  struct Known {
    std::byte* end = nullptr;
    Piece* piece = nullptr;
    std::int64_t offset = 0;  // in the piece
    std::int64_t valid = 0, distance = 0, count = 1;
    bool newer = false;  // than the host's
    KernelArgument::Rows rows = {};  // count > 0: only these are newer
    std::uint64_t writer = 0;  // of memory that was donated
  };

  Buffer left_by_another(std::int64_t bytes);
  std::map<std::byte*, Known>::iterator known_of(const KernelArgument& argument, const Piece& piece);
  Known nothing_of(const KernelArgument& argument, Piece& piece) const;
  Status bring(const KernelArgument& argument, Piece& piece, bool is_read);
  void know_written(const KernelArgument& argument, Piece& piece);

  std::shared_ptr<Device> device_;
  std::shared_ptr<LastWriters> writers_;
  Submit submit_;
  Outgrown outgrown_;
  std::map<std::byte*, Piece> pieces_;  // by the host's address
  std::map<std::byte*, Known> known_;  // by the first byte; they do not overlap
  int uses_ = 0;
};

}  // namespace xyntra
