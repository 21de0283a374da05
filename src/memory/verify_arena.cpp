#include "memory/verify_arena.h"

#include <algorithm>
#include <map>

namespace xyntra {
namespace {

std::string spell_request(std::size_t request) { return "request " + std::to_string(request); }

struct Extent {
  std::int64_t begin = 0, end = 0;  // bytes
};

Result<Extent> extent_of(std::size_t index, const ArenaRequest& request, std::int64_t offset,
                         std::int64_t peak, const SymbolBindings& bindings) {
  XYNTRA_TRY(const std::int64_t size, request.size.evaluate(bindings));
  if (size < 0) return wrong_plan(spell_request(index) + " has a negative size");
  if (request.alignment <= 0 || offset % request.alignment != 0)
    return wrong_plan(spell_request(index) + " is not aligned");
  if (offset < 0 || offset > peak || size > peak - offset)
    return wrong_plan(spell_request(index) + " does not lie inside the arena");
  return Extent{offset, offset + size};
}

// The extents that live at one step, by their beginning. They are disjoint, so only the neighbours of a new one can
// meet it.
class LiveExtents {
 public:
  // The request that already holds a byte of the extent, if any; otherwise the extent is added.
  const std::size_t* add(std::size_t request, Extent extent) {
    const auto after = live_.lower_bound(extent.begin);
    if (after != live_.end() && after->first < extent.end) return &after->second.request;
    if (after != live_.begin()) {
      const auto before = std::prev(after);
      if (before->second.end > extent.begin) return &before->second.request;
    }
    live_.emplace_hint(after, extent.begin, Holder{extent.end, request});
    return nullptr;
  }
  void remove(Extent extent) { live_.erase(extent.begin); }

 private:
  struct Holder {
    std::int64_t end;
    std::size_t request;
  };
  std::map<std::int64_t, Holder> live_;
};

}  // namespace

tl::unexpected<Error> wrong_plan(std::string what) {
  return failure(ErrorClass::Internal, "the memory plan is wrong: " + std::move(what));
}

Status verify_arena(std::span<const ArenaRequest> requests, const ArenaPlacement& placement,
                    const SymbolBindings& bindings) {
  if (placement.offsets.size() != requests.size()) return wrong_plan("it does not place every request");
  struct Event {
    std::size_t step;
    bool ends;  // a request dies after its last step, so births of a step come before deaths
    std::size_t request;
    auto operator<=>(const Event&) const = default;
  };
  std::vector<Extent> extents(requests.size());
  std::vector<Event> events;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    XYNTRA_TRY(extents[i], extent_of(i, requests[i], placement.offsets[i], placement.peak, bindings));
    if (requests[i].first > requests[i].last) return wrong_plan(spell_request(i) + " ends before it begins");
    if (extents[i].begin == extents[i].end) continue;
    events.push_back({requests[i].first, false, i});
    events.push_back({requests[i].last, true, i});
  }
  std::ranges::sort(events);
  LiveExtents live;
  for (const Event& event : events) {
    if (event.ends) {
      live.remove(extents[event.request]);
    } else if (const std::size_t* other = live.add(event.request, extents[event.request])) {
      return wrong_plan(spell_request(*other) + " and " + spell_request(event.request) +
                        " share memory at step " + std::to_string(event.step));
    }
  }
  return {};
}

}  // namespace xyntra
