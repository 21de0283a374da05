// Random programs of launches: what the planner makes must pass the verifier, and what the verifier passes, plans broken
// on purpose among them, must run right on real bytes.
#include "memory/verify_lifetimes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "memory/arena.h"
#include "memory/verify_arena.h"

namespace xyntra {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : random_(seed) {
    for (std::size_t i = 0; i < 3; ++i) {
      ready_.push_back(
          add({size(), i == 0 ? BufferRole::Constant : BufferRole::Input, std::nullopt, i == 2}));
    }
    for (int i = 0; i < 25; ++i) {
      const std::size_t choice = below(10);
      choice < 2 ? make_view() : choice < 3 ? concatenate() : compute();
    }
    for (std::size_t buffer = 3; buffer < buffers.size(); ++buffer) {
      const bool written = std::ranges::find(ready_, buffer) != ready_.end();
      if (written && below(6) == 0) buffers[buffer].role = BufferRole::Output;
    }
  }

  std::size_t below(std::size_t count) { return random_() % count; }

  std::vector<BufferSpec> buffers;
  std::vector<LaunchSpec> launches;

 private:
  std::int64_t size() { return std::int64_t{8} << below(3); }
  std::size_t add(BufferSpec spec) {
    buffers.push_back(std::move(spec));
    return buffers.size() - 1;
  }
  std::size_t any() {  // rather a recent one
    return ready_[below(2) == 0 ? below(ready_.size())
                                : ready_.size() - 1 - below(std::min<std::size_t>(4, ready_.size()))];
  }

  void make_view() {
    const std::size_t parent = any();
    const std::int64_t room = buffers[parent].bytes.constant();
    if (room == 0) return;
    const std::int64_t offset =
        below(2) == 0 ? 0 : static_cast<std::int64_t>(below(static_cast<std::size_t>(room)));
    const std::int64_t bytes =
        below(2) == 0 ? room - offset
                      : static_cast<std::int64_t>(below(static_cast<std::size_t>(room - offset) + 1));
    ready_.push_back(add({bytes, BufferRole::Intermediate, BufferSpec::View{parent, offset}, false}));
  }

  void launch(std::vector<std::size_t> writes) {
    LaunchSpec spec;
    for (std::size_t i = 0; i <= below(3); ++i) {
      const std::size_t read = any();
      if (std::ranges::find(spec.reads, read) == spec.reads.end()) spec.reads.push_back(read);
    }
    spec.writes = std::move(writes);
    for (std::size_t read : spec.reads) {
      for (std::size_t write : spec.writes) {
        if (below(3) != 0) spec.in_place.push_back({read, write});
      }
    }
    if (below(4) == 0) spec.scratch_bytes.push_back(size());
    launches.push_back(std::move(spec));
  }

  void compute() {
    std::vector<std::size_t> writes;
    for (std::size_t i = 0; i <= below(2); ++i) {
      writes.push_back(add({below(2) == 0 ? buffers[any()].bytes : Dim(size()), BufferRole::Intermediate,
                            std::nullopt, false}));
    }
    launch(writes);
    ready_.insert(ready_.end(), writes.begin(), writes.end());
  }

  void concatenate() {
    const std::int64_t part = size();
    const std::size_t parts = 2 + below(2);
    const std::size_t whole =
        add({part * static_cast<std::int64_t>(parts), BufferRole::Intermediate, std::nullopt, false});
    for (std::size_t i = 0; i < parts; ++i) {
      const std::size_t piece = add({part, BufferRole::Intermediate,
                                     BufferSpec::View{whole, part * static_cast<std::int64_t>(i)}, false});
      launch({piece});
      ready_.push_back(piece);
      if (below(2) == 0) compute();
    }
    ready_.push_back(whole);
  }

  std::mt19937 random_;
  std::vector<std::size_t> ready_;  // buffers that hold something
};

// Runs the launches twice, on the planned memory and with memory for every buffer, and compares what is read.
bool runs_right(const RandomProgram& program, const BufferLifetimes& lifetimes,
                const ArenaPlacement& placement) {
  using Bytes = std::vector<std::uint64_t>;
  std::map<std::pair<BufferStorage, std::size_t>, Bytes> real;
  std::vector<Bytes> meant;
  for (const BufferSpec& buffer : program.buffers)
    meant.emplace_back(static_cast<std::size_t>(buffer.bytes.constant()));
  struct Cells {
    Bytes* memory;
    std::size_t begin, count;
  };
  const auto bytes_of = [&](std::size_t b) {
    return static_cast<std::size_t>(program.buffers[b].bytes.constant());
  };
  const auto meant_cells = [&](std::size_t b) {
    const std::size_t count = bytes_of(b);
    std::size_t offset = 0;
    for (; program.buffers[b].view; b = program.buffers[b].view->parent)
      offset += static_cast<std::size_t>(program.buffers[b].view->offset.constant());
    return Cells{&meant[b], offset, count};
  };
  const auto arena_cells = [&](std::size_t request, std::size_t offset, std::size_t count) {
    return Cells{&real[{BufferStorage::Arena, 0}],
                 static_cast<std::size_t>(placement.offsets[request]) + offset, count};
  };
  const auto real_cells = [&](std::size_t b) {
    const BufferPlace& place = lifetimes.places[b];
    const auto offset = static_cast<std::size_t>(place.offset.constant());
    if (place.storage == BufferStorage::Arena) return arena_cells(place.index, offset, bytes_of(b));
    return Cells{&real[{place.storage, place.index}], offset, bytes_of(b)};
  };
  std::uint64_t value = 0;
  const auto fill = [&](const Cells& cells, std::uint64_t first) {
    if (cells.memory->size() < cells.begin + cells.count) cells.memory->resize(cells.begin + cells.count);
    for (std::size_t i = 0; i < cells.count; ++i) (*cells.memory)[cells.begin + i] = first + i;
  };
  const auto write = [&](std::size_t b) {
    fill(meant_cells(b), value += 1000);
    fill(real_cells(b), value);
  };
  const auto reads_right = [&](std::size_t b) {
    const Cells wanted = meant_cells(b), found = real_cells(b);
    if (found.memory->size() < found.begin + found.count) return false;
    for (std::size_t i = 0; i < wanted.count; ++i) {
      if ((*wanted.memory)[wanted.begin + i] != (*found.memory)[found.begin + i]) return false;
    }
    return true;
  };
  for (std::size_t b = 0; b < 3; ++b) write(b);
  for (std::size_t step = 0; step < program.launches.size(); ++step) {
    const LaunchSpec& launch = program.launches[step];
    if (!std::ranges::all_of(launch.reads, reads_right)) return false;
    for (std::size_t i = 0; i < launch.scratch_bytes.size(); ++i) {
      fill(arena_cells(lifetimes.scratch[step][i], 0,
                       static_cast<std::size_t>(launch.scratch_bytes[i].constant())),
           value += 1000);
    }
    for (std::size_t b : launch.writes) write(b);
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].role == BufferRole::Output && !reads_right(b)) return false;
  }
  return true;
}

TEST(VerifyLifetimes, WhatIsPlannedPassesAndRuns) {
  std::size_t taken = 0, offered = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    const RandomProgram program(seed);
    const auto lifetimes = plan_lifetimes(program.buffers, program.launches, 8);
    ASSERT_TRUE(lifetimes.has_value()) << seed << ": " << lifetimes.error().message;
    const ArenaPlan arena = plan_arena(lifetimes->requests).value();
    const ArenaPlacement placement = assign_offsets(lifetimes->requests, arena.order, {}).value();
    ASSERT_TRUE(verify_arena(lifetimes->requests, placement, {}).has_value()) << seed;
    const Status status = verify_lifetimes(program.buffers, program.launches, *lifetimes, placement, {});
    ASSERT_TRUE(status.has_value()) << seed << ": " << status.error().message;
    ASSERT_TRUE(runs_right(program, *lifetimes, placement)) << seed;
    for (const auto& verdicts : lifetimes->in_place) {
      offered += verdicts.size();
      taken += static_cast<std::size_t>(std::ranges::count(verdicts, InPlaceVerdict::Taken));
    }
  }
  EXPECT_GT(taken * 20, offered) << "in-place writes happen";
}

TEST(VerifyLifetimes, WhatPassesRunsRightHoweverItWasBroken) {
  int refused = 0, wrong = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    RandomProgram program(seed);
    const BufferLifetimes good = plan_lifetimes(program.buffers, program.launches, 8).value();
    if (good.requests.empty()) continue;
    for (int mutation = 0; mutation < 40; ++mutation) {
      BufferLifetimes broken = good;
      const std::size_t i = program.below(broken.requests.size()), j = program.below(broken.requests.size());
      const std::size_t a = program.below(program.buffers.size()), b = program.below(program.buffers.size());
      ArenaRequest& request = broken.requests[i];
      switch (mutation % 8) {  // before the arena is planned
        case 0: request.last -= std::min(request.last - request.first, 1 + program.below(4)); break;
        case 1: request.first += std::min(request.last - request.first, 1 + program.below(4)); break;
        case 2: request.size = floor_div(request.size, Dim(2)); break;
        default: break;
      }
      const ArenaPlan arena = plan_arena(broken.requests).value();
      ArenaPlacement placement = assign_offsets(broken.requests, arena.order, {}).value();
      switch (mutation % 8) {  // after
        case 3: placement.offsets[i] = placement.offsets[j]; break;
        case 4: placement.offsets[i] += program.below(2) == 0 ? 8 : -8; break;
        case 5: broken.places[a] = broken.places[b]; break;
        case 6:
          broken.places[a].offset = broken.places[a].offset + Dim(program.below(2) == 0 ? 1 : -1);
          break;
        case 7: {
          const std::size_t step = program.below(program.launches.size());
          if (!broken.scratch[step].empty()) broken.scratch[step][0] = j;
          for (const InPlacePair& pair : program.launches[step].in_place)
            broken.places[pair.write] = broken.places[pair.read];
          break;
        }
        default: break;
      }
      const bool passed =
          verify_lifetimes(program.buffers, program.launches, broken, placement, {}).has_value();
      refused += passed ? 0 : 1;
      if (!passed) continue;
      EXPECT_TRUE(runs_right(program, broken, placement)) << "seed " << seed << ", mutation " << mutation;
      wrong += runs_right(program, broken, placement) ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(refused, 1500);
}

TEST(VerifyLifetimes, NamesWhatIsWrong) {
  const std::vector<BufferSpec> buffers = {{8, BufferRole::Input, std::nullopt, false},
                                           {8, BufferRole::Intermediate, std::nullopt, false},
                                           {8, BufferRole::Intermediate, std::nullopt, false},
                                           {8, BufferRole::Output, std::nullopt, false}};
  std::vector<LaunchSpec> launches = {{{0}, {1}, {}, {}}, {{0, 1}, {2}, {}, {}}, {{1, 2}, {3}, {}, {8}}};
  const BufferLifetimes good = plan_lifetimes(buffers, launches, 8).value();
  ASSERT_EQ(good.requests.size(), 3u);
  const auto message = [&](const BufferLifetimes& lifetimes, const ArenaPlacement& placement) {
    const Status status = verify_lifetimes(buffers, launches, lifetimes, placement, {});
    return status ? "right" : status.error().message.substr(std::string("the memory plan is wrong: ").size());
  };
  EXPECT_EQ(message(good, {{0, 8, 16}, 24}), "right");
  EXPECT_EQ(message(good, {{0, 0, 16}, 24}), "launch 1 writes buffer 2 over buffer 1, which it reads");
  EXPECT_EQ(message(good, {{0, 8, 8}, 24}), "launch 2 has scratch over buffer 2, which it reads");
  EXPECT_EQ(message(good, {{0, 8, 16}, 23}), "request 2 is too small or not inside the arena");
  EXPECT_EQ(message(good, {{0, 8}, 24}), "it does not place every request");
  BufferLifetimes broken = good;
  broken.places[1] = good.places[0];
  EXPECT_EQ(message(broken, {{0, 8, 16}, 24}), "launch 0 writes buffer 1 where nothing may be written");
  broken = good;
  broken.places[3] = good.places[2];
  EXPECT_EQ(message(broken, {{0, 8, 16}, 24}), "launch 2 writes buffer 3 over buffer 2, which it reads");
  broken = good;
  broken.places[0] = good.places[3];
  EXPECT_EQ(message(broken, {{0, 8, 16}, 24}), "buffer 0 is the caller's and must stay where it is");
  launches.insert(launches.begin() + 2, {{0}, {3}, {}, {}});
  broken = plan_lifetimes(buffers, launches, 8).value();
  broken.places[3] = broken.places[1];
  EXPECT_EQ(message(broken, {{0, 8, 16}, 24}), "launch 3 finds something else in buffer 1");
}

TEST(VerifyLifetimes, ACacheIsNotReadOnceItIsExtended) {
  std::vector<BufferSpec> buffers{{64, BufferRole::Input, std::nullopt, true},
                                  {64, BufferRole::Output, std::nullopt, false},
                                  {8, BufferRole::Output, std::nullopt, false}};
  std::vector<LaunchSpec> launches{{{0}, {1}, {{0, 1}}, {}}, {{0}, {2}, {}, {}}};
  auto lifetimes = plan_lifetimes(buffers, launches);
  ASSERT_TRUE(lifetimes.has_value());
  EXPECT_EQ(lifetimes->in_place[0][0], InPlaceVerdict::ReadLater);
  lifetimes->places[1] = {BufferStorage::Input, 0, 0};
  const ArenaPlacement placement = *assign_offsets(lifetimes->requests, {}, {});
  const Status found = verify_lifetimes(buffers, launches, *lifetimes, placement, {});
  ASSERT_FALSE(found.has_value());
  EXPECT_NE(found.error().message.find("launch 1 finds something else in buffer 0"), std::string::npos);
  launches[1].reads = {1};
  EXPECT_TRUE(verify_lifetimes(buffers, launches, *lifetimes, placement, {}).has_value());
}

}  // namespace
}  // namespace xyntra
