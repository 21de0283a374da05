#include "memory/verify_lifetimes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "memory/verify_arena.h"

namespace xyntra {
namespace {

std::string spell_buffer(std::size_t buffer) { return "buffer " + std::to_string(buffer); }

// Memory as pieces: [begin, end) was put there by one write, which began at `start`.
class ByteOrigins {
 public:
  struct Piece {
    std::int64_t begin = 0, end = 0;  // relative to what is read
    std::uint64_t write = 0;          // 0: nothing was written here
    std::int64_t position = 0;        // of the first byte, within the write
    bool operator==(const Piece&) const = default;
  };

  void write(std::int64_t begin, std::int64_t end, std::uint64_t write) {
    if (begin >= end) return;
    split(begin);
    split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, write, begin};
  }

  std::vector<Piece> read(std::int64_t begin, std::int64_t end) const {
    std::vector<Piece> found;
    std::int64_t at = begin;
    auto next = pieces_.upper_bound(begin);
    if (next != pieces_.begin()) --next;
    for (; next != pieces_.end() && next->first < end; ++next) {
      const Stored& piece = next->second;
      const std::int64_t from = std::max(begin, next->first), to = std::min(end, piece.end);
      if (from >= to) continue;
      if (at < from) found.push_back({at - begin, from - begin, 0, 0});
      found.push_back({from - begin, to - begin, piece.write, from - piece.start});
      at = to;
    }
    if (at < end) found.push_back({at - begin, end - begin, 0, 0});
    return found;
  }

 private:
  struct Stored {
    std::int64_t end;
    std::uint64_t write;
    std::int64_t start;
  };

  void split(std::int64_t at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    const Stored upper = piece->second;
    piece->second.end = at;
    pieces_[at] = upper;
  }

  std::map<std::int64_t, Stored> pieces_;  // by beginning
};

// A range of one memory: the arena is one, and each buffer of the caller.
struct ByteRange {
  std::pair<BufferStorage, std::size_t> memory;
  std::int64_t begin = 0, end = 0;
  bool meets(const ByteRange& other) const {
    return memory == other.memory && begin < other.end && other.begin < end;
  }
  bool operator==(const ByteRange&) const = default;
};

class Simulation {
 public:
  Simulation(std::span<const BufferSpec> buffers, const BufferLifetimes& lifetimes,
             const ArenaPlacement& placement, const SymbolBindings& bindings)
      : buffers_(buffers), lifetimes_(lifetimes), placement_(placement), bindings_(bindings) {}

  Status locate_buffers() {
    if (lifetimes_.places.size() != buffers_.size()) return wrong_plan("it does not place every buffer");
    if (placement_.offsets.size() != lifetimes_.requests.size())
      return wrong_plan("it does not place every request");
    for (std::size_t buffer = 0; buffer < buffers_.size(); ++buffer) {
      XYNTRA_TRY(const std::int64_t bytes, buffers_[buffer].bytes.evaluate(bindings_));
      if (bytes < 0 || bytes > kMostBytes)
        return failure(ErrorClass::Limit, spell_buffer(buffer) + " would be larger than any memory");
      XYNTRA_TRY(const ByteRange meant, meant_range(buffer, bytes));
      meant_.push_back(meant);
      XYNTRA_TRY(const ByteRange real, real_range(buffer, bytes));
      real_.push_back(real);
      if (buffers_[buffer].role != BufferRole::Input && buffers_[buffer].role != BufferRole::Constant)
        continue;
      if (real.memory.second != buffer || real.memory.first == BufferStorage::Arena || real.begin != 0)
        return wrong_plan(spell_buffer(buffer) + " is the caller's and must stay where it is");
      put(meant, real);
    }
    return {};
  }

  Status launch(std::size_t step, const LaunchSpec& launch) {
    for (std::size_t buffer : launch.reads) XYNTRA_CHECK_OK(expect(buffer, "launch " + std::to_string(step)));
    std::vector<ByteRange> taken;
    if (step >= lifetimes_.scratch.size() || lifetimes_.scratch[step].size() != launch.scratch_bytes.size())
      return wrong_plan("launch " + std::to_string(step) + " lacks scratch");
    for (std::size_t i = 0; i < launch.scratch_bytes.size(); ++i) {
      XYNTRA_TRY(const ByteRange scratch,
                 request_range(lifetimes_.scratch[step][i], 0, launch.scratch_bytes[i]));
      XYNTRA_CHECK_OK(take(scratch, kScratch, step, launch, taken));
    }
    for (std::size_t buffer : launch.writes) {
      if (buffer >= buffers_.size()) return wrong_plan("there is no " + spell_buffer(buffer));
      XYNTRA_CHECK_OK(take(real_[buffer], buffer, step, launch, taken));
    }
    for (const ByteRange& range : taken) real_memory_[range.memory].write(range.begin, range.end, ++writes_);
    for (std::size_t buffer : launch.writes) put(meant_[buffer], real_[buffer]);
    return {};
  }

  // The buffer holds what it should.
  Status expect(std::size_t buffer, const std::string& reader) {
    if (buffer >= buffers_.size()) return wrong_plan("there is no " + spell_buffer(buffer));
    const ByteRange &meant = meant_[buffer], &real = real_[buffer];
    const auto wanted = meant_memory_[meant.memory].read(meant.begin, meant.end);
    if (std::ranges::find(wanted, std::uint64_t{0}, &ByteOrigins::Piece::write) != wanted.end())
      return wrong_plan(reader + " reads bytes of " + spell_buffer(buffer) + " that nothing wrote");
    if (wanted != real_memory_[real.memory].read(real.begin, real.end))
      return wrong_plan(reader + " finds something else in " + spell_buffer(buffer));
    return {};
  }

 private:
  static constexpr std::size_t kScratch = SIZE_MAX;
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 56;  // so that no sum of two overflows

  // Where the buffer would be if only views shared memory.
  Result<ByteRange> meant_range(std::size_t buffer, std::int64_t bytes) const {
    std::int64_t offset = 0;
    std::size_t root = buffer;
    for (std::size_t views = 0; buffers_[root].view; ++views) {
      if (views > buffers_.size() || buffers_[root].view->parent >= buffers_.size())
        return wrong_plan(spell_buffer(buffer) + " is a view of nothing");
      XYNTRA_TRY(const std::int64_t step, buffers_[root].view->offset.evaluate(bindings_));
      XYNTRA_TRY(const std::int64_t size, buffers_[root].bytes.evaluate(bindings_));
      root = buffers_[root].view->parent;
      XYNTRA_TRY(const std::int64_t around, buffers_[root].bytes.evaluate(bindings_));
      if (step < 0 || step > around || size > around - step)
        return wrong_plan(spell_buffer(buffer) + " reaches beyond the buffer it is a view of");
      offset += step;
    }
    return ByteRange{{BufferStorage::Unused, root}, offset, offset + bytes};
  }

  Result<ByteRange> real_range(std::size_t buffer, std::int64_t bytes) const {
    const BufferPlace& place = lifetimes_.places[buffer];
    switch (place.storage) {
      case BufferStorage::Arena: return request_range(place.index, place.offset, bytes);
      case BufferStorage::Unused: return ByteRange{{BufferStorage::Unused, buffer}, 0, bytes};
      case BufferStorage::Input: return callers_range(place, BufferRole::Input, buffer, bytes);
      case BufferStorage::Constant: return callers_range(place, BufferRole::Constant, buffer, bytes);
      case BufferStorage::Output: return callers_range(place, BufferRole::Output, buffer, bytes);
    }
    return wrong_plan(spell_buffer(buffer) + " has no place");
  }

  Result<ByteRange> callers_range(const BufferPlace& place, BufferRole role, std::size_t buffer,
                                  std::int64_t bytes) const {
    if (place.index >= buffers_.size() || buffers_[place.index].role != role)
      return wrong_plan(spell_buffer(buffer) + " lies in memory that is not there");
    XYNTRA_TRY(const std::int64_t room, buffers_[place.index].bytes.evaluate(bindings_));
    XYNTRA_TRY(const std::int64_t offset, place.offset.evaluate(bindings_));
    if (offset < 0 || offset > room || bytes > room - offset)
      return wrong_plan(spell_buffer(buffer) + " reaches beyond the memory it lies in");
    return ByteRange{{place.storage, place.index}, offset, offset + bytes};
  }

  Result<ByteRange> request_range(std::size_t request, const Dim& within, const Dim& bytes) const {
    if (request >= lifetimes_.requests.size())
      return wrong_plan("there is no request " + std::to_string(request));
    XYNTRA_TRY(const std::int64_t room, lifetimes_.requests[request].size.evaluate(bindings_));
    XYNTRA_TRY(const std::int64_t offset, within.evaluate(bindings_));
    XYNTRA_TRY(const std::int64_t size, bytes.evaluate(bindings_));
    const std::int64_t base = placement_.offsets[request];
    if (room > kMostBytes || offset < 0 || size < 0 || offset > room || size > room - offset || base < 0 ||
        base > placement_.peak || room > placement_.peak - base)
      return wrong_plan("request " + std::to_string(request) + " is too small or not inside the arena");
    return ByteRange{{BufferStorage::Arena, 0}, base + offset, base + offset + size};
  }

  // The launch writes this range: it must be writable, and nobody else's during the launch.
  Status take(const ByteRange& range, std::size_t writer, std::size_t step, const LaunchSpec& launch,
              std::vector<ByteRange>& taken) const {
    const std::string what = "launch " + std::to_string(step) +
                             (writer == kScratch ? " has scratch" : " writes " + spell_buffer(writer));
    const auto [storage, index] = range.memory;
    if (storage == BufferStorage::Unused || storage == BufferStorage::Constant ||
        (storage == BufferStorage::Input && !buffers_[index].donated))
      return wrong_plan(what + " where nothing may be written");
    for (const ByteRange& other : taken) {
      if (range.meets(other)) return wrong_plan(what + " over something else it writes");
    }
    taken.push_back(range);
    for (std::size_t read : launch.reads) {
      if (read == writer || !range.meets(real_[read])) continue;
      const bool offered = std::ranges::any_of(launch.in_place, [&](const InPlacePair& pair) {
        return pair.read == read && pair.write == writer;
      });
      if (!offered || real_[read] != range)
        return wrong_plan(what + " over " + spell_buffer(read) + ", which it reads");
    }
    return {};
  }

  void put(const ByteRange& meant, const ByteRange& real) {
    ++writes_;
    meant_memory_[meant.memory].write(meant.begin, meant.end, writes_);
    real_memory_[real.memory].write(real.begin, real.end, writes_);
  }

  std::span<const BufferSpec> buffers_;
  const BufferLifetimes& lifetimes_;
  const ArenaPlacement& placement_;
  const SymbolBindings& bindings_;
  std::vector<ByteRange> meant_, real_;  // by buffer
  std::map<std::pair<BufferStorage, std::size_t>, ByteOrigins> meant_memory_, real_memory_;
  std::uint64_t writes_ = 0;
};

}  // namespace

Status verify_lifetimes(std::span<const BufferSpec> buffers, std::span<const LaunchSpec> launches,
                        const BufferLifetimes& lifetimes, const ArenaPlacement& placement,
                        const SymbolBindings& bindings) {
  Simulation simulation(buffers, lifetimes, placement, bindings);
  XYNTRA_CHECK_OK(simulation.locate_buffers());
  for (std::size_t step = 0; step < launches.size(); ++step) {
    XYNTRA_CHECK_OK(simulation.launch(step, launches[step]));
  }
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) {
    if (buffers[buffer].role == BufferRole::Output) XYNTRA_CHECK_OK(simulation.expect(buffer, "the caller"));
  }
  return {};
}

}  // namespace xyntra
