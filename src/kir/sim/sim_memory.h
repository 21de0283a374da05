// Memory of the simulator, and who touched which element of it when.
//
// Threads of a work item have clocks. What one did is seen by another when a chain of barriers leads from the one to the
// other; two touches of an element, one of them a write, neither seen by the other, race. With plain barriers alone a
// count of barriers is all the clock there is; with barrier objects and asynchronous copies each thread has a clock per
// thread and per asynchronous agent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "kir/kernel.h"

namespace xyntra::kir::sim {

inline constexpr std::uint32_t kNobody = UINT32_MAX, kMany = UINT32_MAX - 1;

// Something a thread or an asynchronous agent did, at its own count of time.
struct Epoch {
  std::uint32_t agent = kNobody;
  std::uint32_t clock = 0;
};

// How much of each agent's doing is seen. `fenced` is what asynchronous copies and matrix units see too.
struct Clocks {
  std::vector<std::uint32_t> seen, fenced;
  void join(const Clocks& other);
};

class Order {
 public:
  // Agents beyond the threads are asynchronous; the last ones are copies of threads, one each, which write as threads do: matrix units
  // see them after a fence of the thread that has waited for them. `objects`: there are barrier objects, so a clock per agent is kept.
  Order(std::size_t threads, std::size_t agents, std::size_t copies, bool objects);

  bool has_objects() const { return objects_; }
  Epoch now(std::size_t thread) const;
  bool seen(std::size_t by, Epoch epoch) const;
  bool fenced(std::size_t by, Epoch epoch) const;
  void barrier(std::size_t first, std::size_t count);  // of threads from the first on
  // Whether one of those threads has been heard of.
  bool has_seen_any(std::size_t by, std::size_t first, std::size_t count) const;
  void release(std::size_t thread, Clocks& into);
  void acquire(std::size_t thread, const Clocks& from) { rows_[thread].join(from); }
  void acquire(std::size_t thread, Epoch epoch);
  void fence(std::size_t thread);
  const Clocks& clocks(std::size_t thread) const { return rows_[thread]; }

 private:
  void tick(std::size_t thread) { ++rows_[thread].seen[thread]; }
  std::size_t threads_, first_copy_, copies_;
  bool objects_;
  std::uint32_t barriers_ = 1;
  std::vector<Clocks> rows_;
};

// Who touches: the epoch that is written down, and the thread whose view counts.
struct Toucher {
  Epoch epoch;
  std::uint32_t thread = 0;
  std::uint32_t item = 0;
  std::uint32_t owner = 0;  // a number of its own for each run of a work item
  const Order* order = nullptr;
  bool asynchronous = false;  // plain writes must have been fenced
  std::uint8_t atomic = 0;  // which atomic update writes; 0: none. Those of one kind do not race
};

struct Conflict {
  enum class Kind : std::uint8_t { None, Undefined, Item, Thread, Unfenced, Lanes };
  Kind kind = Kind::None;
  std::uint32_t other = 0;
  bool other_wrote = false;
};

// The elements of one buffer, for all work items that run at the same time.
class Storage {
 public:
  Storage(const Buffer& buffer, std::int64_t elements);

  DType dtype() const { return dtype_; }
  std::int64_t elements() const { return elements_; }
  std::size_t element_bytes() const { return element_bytes_; }
  std::byte* data() { return bytes_.data(); }

  void give(std::span<const std::byte> packed);  // an argument's contents
  void take(std::span<std::byte> packed) const;
  void define_all() { std::fill(defined_.begin(), defined_.end(), std::uint8_t{1}); }

  // Ready for `copies` work items or threads, with nothing defined.
  void restart(std::int64_t copies);
  // What is looked for from here on: races of work items, of threads.
  void watch(std::uint32_t phase, bool items, bool threads);

  Conflict read(std::int64_t place, const Toucher& toucher);
  Conflict write(std::int64_t place, const Toucher& toucher);
  bool tracks_reads() const { return watch_items_ || watch_threads_ || tracks_defined_; }
  bool watches() const { return watch_items_ || watch_threads_; }
  bool all_defined(std::span<const std::int64_t> places) const;  // negative ones do not count
  void define(std::span<const std::int64_t> places);
  bool is_defined(std::int64_t place) const { return defined_[static_cast<std::size_t>(place)] != 0; }

  // Whether the element was already stamped: two lanes of one vector store to it.
  bool stamp(std::int64_t place, std::uint32_t stamp);

 private:
  struct ItemTouch {
    std::uint32_t phase = 0, writer = kNobody, reader = kNobody;
    std::uint8_t atomic = 0;  // all that writers have done since the phase began
  };
  struct ThreadTouch {
    std::uint32_t owner = 0;
    Epoch write, read;
    std::int32_t readers = -1;  // which list, when several have read
    std::int32_t writers = -1;  // the same of atomic updates before the last one
    std::uint8_t atomic = 0;  // what the last write was
  };
  std::size_t touch_index(std::int64_t place) const { return static_cast<std::size_t>(place / per_touch_); }
  Conflict touch_item(ItemTouch& touch, const Toucher& toucher, bool writes);
  Conflict read_thread(ThreadTouch& touch, const Toucher& toucher);
  Conflict write_thread(ThreadTouch& touch, const Toucher& toucher);
  Epoch unseen_writer(const ThreadTouch& touch, const Toucher& toucher) const;

  DType dtype_;
  std::int64_t elements_;  // of one copy
  std::size_t element_bytes_;
  std::int64_t per_touch_ = 1;  // elements that share a byte are touched together
  bool local_, tracks_defined_;
  bool watch_items_ = false, watch_threads_ = false;
  std::uint32_t phase_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<std::uint8_t> defined_;
  std::vector<ItemTouch> item_touches_;
  std::vector<ThreadTouch> thread_touches_;
  std::vector<std::vector<Epoch>> reader_lists_;
  std::vector<std::uint32_t> stamps_;
};

}  // namespace xyntra::kir::sim
