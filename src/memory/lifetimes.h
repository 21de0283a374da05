// From a list of launches to the arena's requests: which buffers are memory of their own, and from when to when.
//
// A view (a reshape, a slice, one part of a split) is bytes of another buffer, its parent; so is a part of a
// concatenation that is written where it belongs. A view has no memory: using it uses the buffer at its root. A launch
// may offer to write one buffer over another that it reads; the offer is taken when nobody needs what is overwritten:
//
//   t0: x -> a        a and b are one request that lives from t0 to t2;
//   t1: a -> b        inputs, constants and outputs are the caller's memory
//   t2: b -> y        and ask for nothing
#pragma once

#include <optional>
#include <string_view>

#include "runtime/offsets.h"

namespace xyntra {

enum class BufferRole : std::uint8_t { Input, Constant, Intermediate, Output };

struct BufferSpec {
  Dim bytes;
  BufferRole role = BufferRole::Intermediate;
  struct View {
    std::size_t parent = 0;
    Dim offset;  // bytes
  };
  std::optional<View> view;
  bool donated = false;  // an input whose memory may be overwritten, such as a cache
};

// The launch may write `write` over `read`: it reads nothing of `read` after it has written over it.
struct InPlacePair {
  std::size_t read = 0, write = 0;
};

struct LaunchSpec {
  std::vector<std::size_t> reads, writes;  // buffers
  std::vector<InPlacePair> in_place;
  std::vector<Dim> scratch_bytes;
};

enum class InPlaceVerdict : std::uint8_t {
  Taken,
  SizesDiffer,
  ReadLater,  // something uses the read buffer, or memory it shares, after this launch
  WrittenBefore,  // the written buffer holds something already
  ReadTwice,  // the launch uses the same memory by another name too
  PartOfAnother,  // one of the two is a proper part of a larger buffer
  NotOurs,  // a constant, or an input that is not donated
};
std::string_view reason_of(InPlaceVerdict verdict);

enum class BufferStorage : std::uint8_t { Unused, Arena, Input, Constant, Output };

struct BufferPlace {
  BufferStorage storage = BufferStorage::Unused;
  std::size_t index = 0;  // the request in the arena; otherwise the buffer of that role whose memory it is
  Dim offset;  // bytes, within that request or buffer
};

struct BufferLifetimes {
  std::vector<ArenaRequest> requests;
  std::vector<BufferPlace> places;  // by buffer
  std::vector<std::vector<std::size_t>> scratch;  // by launch: the requests of its scratch
  std::vector<std::vector<InPlaceVerdict>> in_place;  // by launch, in the order of its pairs
};

// Steps are the launches; an output that shares memory with another output, or is a part of something larger, stays
// in the arena until the step after the last launch. BadModel error when buffers or launches make no sense: numbers out
// of range, views in a circle, something read that nothing wrote, a write to the caller's memory.
Result<BufferLifetimes> plan_lifetimes(std::span<const BufferSpec> buffers,
                                       std::span<const LaunchSpec> launches, std::int64_t alignment = 64);

}  // namespace xyntra
