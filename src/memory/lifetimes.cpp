#include "memory/lifetimes.h"

#include <algorithm>

namespace xyntra {
namespace {

constexpr std::size_t kNever = SIZE_MAX;

std::string buffer_name(std::size_t buffer) { return "buffer " + std::to_string(buffer); }

// Where the bytes of a buffer are, views followed to the end.
struct Rooted {
  std::size_t root = 0;
  Dim offset;
};

Result<std::vector<Rooted>> follow_views(std::span<const BufferSpec> buffers) {
  std::vector<Rooted> found(buffers.size(), {kNever, {}});
  std::vector<std::size_t> chain;
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer) {
    chain.clear();
    std::size_t at = buffer;
    for (; found[at].root == kNever && buffers[at].view; at = buffers[at].view->parent) {
      if (buffers[at].view->parent >= buffers.size())
        return bad_model(buffer_name(at) + " is a view of nothing");
      if (chain.size() == buffers.size()) return bad_model(buffer_name(at) + " is a view of itself");
      if (buffers[at].role == BufferRole::Input || buffers[at].role == BufferRole::Constant)
        return bad_model(buffer_name(at) + " is the caller's and cannot be a view");
      chain.push_back(at);
    }
    if (found[at].root == kNever) found[at] = {at, 0};
    for (; !chain.empty(); chain.pop_back()) {
      found[chain.back()] = {found[at].root, found[at].offset + buffers[chain.back()].view->offset};
      at = chain.back();
    }
  }
  return found;
}

// Buffers that are one piece of memory: a root, its views, and what was merged with it in place.
struct Family {
  std::size_t first = kNever;  // step of the first write; inputs and constants are there from the start
  std::size_t last = 0;        // step of the last use
  bool used = false;
  std::vector<std::size_t> outputs;
};

class LifetimePlanner {
 public:
  LifetimePlanner(std::span<const BufferSpec> buffers, std::span<const LaunchSpec> launches,
                  std::vector<Rooted> rooted)
      : buffers_(buffers),
        launches_(launches),
        rooted_(std::move(rooted)),
        leader_(buffers.size()),
        families_(buffers.size()) {
    for (std::size_t i = 0; i < leader_.size(); ++i) leader_[i] = i;
  }

  Status collect_uses() {
    for (std::size_t step = 0; step < launches_.size(); ++step) {
      for (std::size_t buffer : launches_[step].reads) XYNTRA_CHECK_OK(use(buffer, step, false));
      for (std::size_t buffer : launches_[step].writes) XYNTRA_CHECK_OK(use(buffer, step, true));
    }
    for (std::size_t buffer = 0; buffer < buffers_.size(); ++buffer) {
      if (buffers_[buffer].role != BufferRole::Output) continue;
      XYNTRA_CHECK_OK(use(buffer, launches_.size(), false));
      families_[rooted_[buffer].root].outputs.push_back(buffer);
    }
    return {};
  }

  Status merge_in_place(BufferLifetimes& result) {
    for (std::size_t step = 0; step < launches_.size(); ++step) {
      const LaunchSpec& launch = launches_[step];
      std::vector<InPlaceVerdict>& verdicts = result.in_place.emplace_back();
      for (const InPlacePair& pair : launch.in_place) {
        if (std::ranges::find(launch.reads, pair.read) == launch.reads.end() ||
            std::ranges::find(launch.writes, pair.write) == launch.writes.end())
          return bad_model("launch " + std::to_string(step) +
                           " offers in place what it does not read and write");
        verdicts.push_back(judge(pair, launch, step));
        if (verdicts.back() == InPlaceVerdict::Taken) merge(leader(pair.read), leader(pair.write));
      }
    }
    return {};
  }

  void place(std::int64_t alignment, BufferLifetimes& result) {
    std::vector<BufferPlace> of_leader(buffers_.size());
    for (std::size_t root = 0; root < buffers_.size(); ++root) {
      if (rooted_[root].root == root && leader_[root] == root)
        of_leader[root] = place_of(root, alignment, result);
    }
    for (std::size_t buffer = 0; buffer < buffers_.size(); ++buffer) {
      result.places.push_back(of_leader[leader(buffer)]);
      result.places.back().offset = rooted_[buffer].offset;
    }
    for (std::size_t step = 0; step < launches_.size(); ++step) {
      std::vector<std::size_t>& scratch = result.scratch.emplace_back();
      for (const Dim& bytes : launches_[step].scratch_bytes) {
        scratch.push_back(result.requests.size());
        result.requests.push_back({bytes, step, step, alignment});
      }
    }
  }

 private:
  std::size_t leader(std::size_t buffer) const {
    std::size_t at = rooted_[buffer].root;
    while (leader_[at] != at) at = leader_[at];
    return at;
  }

  bool callers(std::size_t root) const {
    return buffers_[root].role == BufferRole::Input || buffers_[root].role == BufferRole::Constant;
  }

  bool covers_root(std::size_t buffer) const {
    return rooted_[buffer].offset.is(0) && buffers_[buffer].bytes == buffers_[rooted_[buffer].root].bytes;
  }

  Status use(std::size_t buffer, std::size_t step, bool writes) {
    if (buffer >= buffers_.size())
      return bad_model("launch " + std::to_string(step) + " uses a buffer that is not there");
    const std::size_t root = rooted_[buffer].root;
    Family& family = families_[root];
    if (writes && callers(root) && !buffers_[root].donated)
      return bad_model("launch " + std::to_string(step) + " writes " + buffer_name(buffer) +
                       ", which is the caller's");
    if (!writes && !callers(root) && family.first == kNever)
      return bad_model(buffer_name(buffer) + " is read before anything writes it");
    if (writes && family.first == kNever) family.first = step;
    family.last = step;
    family.used = true;
    return {};
  }

  InPlaceVerdict judge(const InPlacePair& pair, const LaunchSpec& launch, std::size_t step) const {
    const std::size_t over = leader(pair.read), written = leader(pair.write);
    if (!covers_root(pair.read) || !covers_root(pair.write)) return InPlaceVerdict::PartOfAnother;
    if (callers(over) && !buffers_[over].donated) return InPlaceVerdict::NotOurs;
    if (buffers_[over].bytes != buffers_[written].bytes) return InPlaceVerdict::SizesDiffer;
    const auto same_memory = [&](std::size_t buffer) {
      return buffer != pair.read && leader(buffer) == over;
    };
    if (over == written || std::ranges::any_of(launch.writes, same_memory) ||
        std::ranges::any_of(launch.reads, same_memory))
      return InPlaceVerdict::ReadTwice;
    if (callers(written) || families_[written].first != step) return InPlaceVerdict::WrittenBefore;
    return families_[over].last > step ? InPlaceVerdict::ReadLater : InPlaceVerdict::Taken;
  }

  void merge(std::size_t over, std::size_t written) {
    leader_[written] = over;
    Family &kept = families_[over], &gone = families_[written];
    kept.last = std::max(kept.last, gone.last);
    kept.outputs.insert(kept.outputs.end(), gone.outputs.begin(), gone.outputs.end());
  }

  BufferPlace place_of(std::size_t root, std::int64_t alignment, BufferLifetimes& result) const {
    const Family& family = families_[root];
    if (buffers_[root].role == BufferRole::Input) return {BufferStorage::Input, root, 0};
    if (buffers_[root].role == BufferRole::Constant) return {BufferStorage::Constant, root, 0};
    if (!family.used) return {};
    if (family.outputs.size() == 1 && covers_root(family.outputs.front()))
      return {BufferStorage::Output, family.outputs.front(), 0};
    result.requests.push_back({buffers_[root].bytes, family.first, family.last, alignment});
    return {BufferStorage::Arena, result.requests.size() - 1, 0};
  }

  std::span<const BufferSpec> buffers_;
  std::span<const LaunchSpec> launches_;
  std::vector<Rooted> rooted_;
  std::vector<std::size_t> leader_;  // by root: the root whose memory it takes, itself at first
  std::vector<Family> families_;     // by leader
};

}  // namespace

std::string_view reason_of(InPlaceVerdict verdict) {
  switch (verdict) {
    case InPlaceVerdict::Taken: return "written in place";
    case InPlaceVerdict::SizesDiffer: return "the sizes differ";
    case InPlaceVerdict::ReadLater: return "what would be overwritten is needed later";
    case InPlaceVerdict::WrittenBefore: return "the result holds something already";
    case InPlaceVerdict::ReadTwice: return "the launch uses the same memory by another name";
    case InPlaceVerdict::PartOfAnother: return "it is a part of a larger buffer";
    case InPlaceVerdict::NotOurs: return "the memory is the caller's";
  }
  return "?";
}

Result<BufferLifetimes> plan_lifetimes(std::span<const BufferSpec> buffers,
                                       std::span<const LaunchSpec> launches, std::int64_t alignment) {
  XYNTRA_TRY(auto rooted, follow_views(buffers));
  LifetimePlanner planner(buffers, launches, std::move(rooted));
  XYNTRA_CHECK_OK(planner.collect_uses());
  BufferLifetimes result;
  XYNTRA_CHECK_OK(planner.merge_in_place(result));
  planner.place(alignment, result);
  return result;
}

}  // namespace xyntra
