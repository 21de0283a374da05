#include "memory/lifetimes.h"

#include <gtest/gtest.h>

#include "memory/arena.h"
#include "memory/verify_arena.h"
#include "memory/verify_lifetimes.h"

namespace xyntra {
namespace {

constexpr std::size_t kRefusedView = SIZE_MAX;
using enum BufferRole;
using Verdicts = std::vector<InPlaceVerdict>;

const Dim n = Dim::symbol("n");

struct Program {
  std::vector<BufferSpec> buffers;
  std::vector<LaunchSpec> launches;

  std::size_t add(const Dim& bytes, BufferRole role = Intermediate, bool donated = false) {
    buffers.push_back({bytes, role, std::nullopt, donated});
    return buffers.size() - 1;
  }
  std::size_t view(std::size_t parent, const Dim& offset, const Dim& bytes, BufferRole role = Intermediate) {
    buffers.push_back({bytes, role, BufferSpec::View{parent, offset}, false});
    return buffers.size() - 1;
  }
  void launch(std::vector<std::size_t> reads, std::vector<std::size_t> writes, bool in_place = false,
              std::vector<Dim> scratch = {}) {
    LaunchSpec spec{std::move(reads), std::move(writes), {}, std::move(scratch)};
    for (std::size_t read : spec.reads) {
      for (std::size_t write : spec.writes) {
        if (in_place) spec.in_place.push_back({read, write});
      }
    }
    launches.push_back(std::move(spec));
  }

  // Plans, and checks the plan for several sizes.
  BufferLifetimes plan() const {
    BufferLifetimes lifetimes = plan_lifetimes(buffers, launches).value();
    const ArenaPlan arena = plan_arena(lifetimes.requests, {{"n", 64}}).value();
    for (std::int64_t size : {0, 1, 64, 1000}) {
      const SymbolBindings bindings = {{"n", size}};
      const ArenaPlacement placement = assign_offsets(lifetimes.requests, arena.order, bindings).value();
      EXPECT_TRUE(verify_arena(lifetimes.requests, placement, bindings).has_value());
      const Status status = verify_lifetimes(buffers, launches, lifetimes, placement, bindings);
      EXPECT_TRUE(status.has_value()) << status.error().message;
    }
    return lifetimes;
  }
};

TEST(Lifetimes, AChainWrittenInPlaceIsOneRequest) {
  Program program;
  const std::size_t x = program.add(n, Input), a = program.add(n), b = program.add(n),
                    y = program.add(4, Output);
  program.launch({x}, {a}, true);
  program.launch({a}, {b}, true);
  program.launch({b}, {y}, true);
  const BufferLifetimes lifetimes = program.plan();
  ASSERT_EQ(lifetimes.requests.size(), 1u);
  EXPECT_EQ(lifetimes.requests[0].first, 0u);
  EXPECT_EQ(lifetimes.requests[0].last, 2u);
  EXPECT_EQ(lifetimes.places[a].index, lifetimes.places[b].index);
  EXPECT_EQ(lifetimes.places[x].storage, BufferStorage::Input);
  EXPECT_EQ(lifetimes.places[y].storage, BufferStorage::Output);
  EXPECT_EQ(lifetimes.in_place[0], Verdicts{InPlaceVerdict::NotOurs});
  EXPECT_EQ(lifetimes.in_place[1], Verdicts{InPlaceVerdict::Taken});
  EXPECT_EQ(lifetimes.in_place[2], Verdicts{InPlaceVerdict::SizesDiffer});
}

TEST(Lifetimes, NothingIsOverwrittenThatIsNeeded) {
  Program program;
  const std::size_t x = program.add(n, Input), a = program.add(n), b = program.add(n), c = program.add(n),
                    y = program.add(n, Output);
  program.launch({x}, {a});
  program.launch({a}, {b}, true);  // a is read below
  program.launch({a, b}, {c}, true);
  program.launch({c}, {y}, true);
  const BufferLifetimes lifetimes = program.plan();
  EXPECT_EQ(lifetimes.in_place[1], Verdicts{InPlaceVerdict::ReadLater});
  // c takes a's memory; b is then refused, since c is not new any more.
  EXPECT_EQ(lifetimes.in_place[2], (Verdicts{InPlaceVerdict::Taken, InPlaceVerdict::WrittenBefore}));
  EXPECT_EQ(lifetimes.in_place[3], Verdicts{InPlaceVerdict::Taken});
  EXPECT_EQ(lifetimes.places[a].storage, BufferStorage::Output) << "a, c and y are the caller's output";
  EXPECT_EQ(lifetimes.requests.size(), 1u);
}

TEST(Lifetimes, TwoResultsDoNotTakeTheSameMemory) {
  Program program;
  const std::size_t x = program.add(n, Input), a = program.add(n), b = program.add(n), c = program.add(n);
  program.launch({x}, {a});
  program.launch({a}, {b, c}, true);
  const BufferLifetimes lifetimes = program.plan();
  EXPECT_EQ(lifetimes.in_place[1], (Verdicts{InPlaceVerdict::Taken, InPlaceVerdict::ReadTwice}));
  EXPECT_EQ(lifetimes.requests.size(), 2u);
}

TEST(Lifetimes, AnotherNameForTheSameMemoryForbidsInPlace) {
  Program program;
  const std::size_t x = program.add(n, Input), a = program.add(n), whole = program.view(a, 0, n),
                    b = program.add(n), c = program.add(n), again = program.view(b, 0, n);
  program.launch({x}, {a});
  program.launch({a, whole}, {b}, true);
  program.launch({again}, {c}, true);  // a view of all of b is as good as b
  const BufferLifetimes lifetimes = program.plan();
  EXPECT_EQ(lifetimes.in_place[1], (Verdicts{InPlaceVerdict::ReadTwice, InPlaceVerdict::ReadTwice}));
  EXPECT_EQ(lifetimes.in_place[2], Verdicts{InPlaceVerdict::Taken});
}

TEST(Lifetimes, ViewsKeepTheirParentAlive) {
  Program program;
  const std::size_t x = program.add(n * 4, Input), a = program.add(n * 4), middle = program.view(a, n, n * 2),
                    low = program.view(middle, n, n), b = program.add(n), y = program.add(n, Output);
  program.launch({x}, {a});
  program.launch({x}, {b});
  program.launch({b, low}, {y}, true);
  const BufferLifetimes lifetimes = program.plan();
  EXPECT_EQ(lifetimes.places[low].offset, n * 2);
  EXPECT_EQ(lifetimes.places[low].index, lifetimes.places[a].index);
  EXPECT_EQ(lifetimes.requests[lifetimes.places[a].index].last, 2u);
  EXPECT_EQ(lifetimes.in_place[2], (Verdicts{InPlaceVerdict::Taken, InPlaceVerdict::PartOfAnother}));
}

TEST(Lifetimes, PartsOfAConcatenationAreWrittenWhereTheyBelong) {
  Program program;
  const std::size_t x = program.add(n, Input), both = program.add(n * 3), left = program.view(both, 0, n),
                    right = program.view(both, n, n * 2), y = program.add(n * 3, Output);
  program.launch({x}, {left});
  program.launch({x, left}, {right});
  program.launch({both}, {y});
  const BufferLifetimes lifetimes = program.plan();
  ASSERT_EQ(lifetimes.requests.size(), 1u);
  EXPECT_EQ(lifetimes.requests[0].first, 0u);
  EXPECT_EQ(lifetimes.requests[0].last, 2u);
}

TEST(Lifetimes, ADonatedCacheIsUpdatedWhereItIs) {
  Program program;
  const std::size_t cache = program.add(n * 64, Input, true), token = program.add(n, Input),
                    updated = program.add(n * 64, Output), y = program.add(n, Output);
  program.launch({cache, token}, {updated}, true);
  program.launch({updated}, {y});
  const BufferLifetimes lifetimes = program.plan();
  EXPECT_EQ(lifetimes.places[updated].storage, BufferStorage::Input);
  EXPECT_EQ(lifetimes.places[updated].index, cache);
  EXPECT_TRUE(lifetimes.requests.empty());
  program.buffers[cache].donated = false;
  EXPECT_EQ(program.plan().places[updated].storage, BufferStorage::Output);
}

TEST(Lifetimes, OutputsThatShareMemoryStayUntilTheEnd) {
  Program program;
  const std::size_t x = program.add(n * 2, Input), a = program.add(n * 2),
                    half = program.view(a, n, n, Output), y = program.add(n, Output);
  program.launch({x}, {a});
  program.launch({a}, {y});
  const std::size_t same = program.view(x, 0, n * 2, Output);
  const BufferLifetimes lifetimes = program.plan();
  EXPECT_EQ(lifetimes.places[half].storage, BufferStorage::Arena);
  EXPECT_EQ(lifetimes.requests[lifetimes.places[half].index].last, 2u);
  EXPECT_EQ(lifetimes.places[same].storage, BufferStorage::Input) << "an input passed through";
}

TEST(Lifetimes, ScratchLivesForOneLaunch) {
  Program program;
  const std::size_t x = program.add(n, Input), a = program.add(n), y = program.add(n, Output);
  program.launch({x}, {a}, false, {n * 2, Dim(100)});
  program.launch({a}, {y}, false, {n});
  const BufferLifetimes lifetimes = program.plan();
  ASSERT_EQ(lifetimes.scratch[0].size(), 2u);
  EXPECT_EQ(lifetimes.requests[lifetimes.scratch[0][0]].size, n * 2);
  EXPECT_EQ(lifetimes.requests[lifetimes.scratch[1][0]].first, 1u);
  EXPECT_EQ(lifetimes.requests[lifetimes.scratch[1][0]].last, 1u);
}

TEST(Lifetimes, SayWhatIsWrong) {
  const auto message = [](const Program& program) {
    const auto result = plan_lifetimes(program.buffers, program.launches);
    EXPECT_FALSE(result.has_value());
    return result ? "" : result.error().message;
  };
  Program unwritten;
  const std::size_t a = unwritten.add(n), b = unwritten.add(n, Output);
  unwritten.launch({a}, {b});
  EXPECT_EQ(message(unwritten), "buffer 0 is read before anything writes it");
  Program output;
  output.add(n, Output);
  EXPECT_EQ(message(output), "buffer 0 is read before anything writes it");
  Program missing;
  missing.launch({}, {3});
  EXPECT_EQ(message(missing), "launch 0 uses a buffer that is not there");
  Program constant;
  constant.add(n, Constant);
  constant.launch({}, {0});
  EXPECT_EQ(message(constant), "launch 0 writes buffer 0, which is the caller's");
  Program circle;
  circle.view(1, 0, n);
  circle.view(0, 0, n);
  EXPECT_EQ(message(circle), "buffer 0 is a view of itself");
  Program nothing;
  nothing.view(kRefusedView, 0, n);
  EXPECT_EQ(message(nothing), "buffer 0 is a view of nothing");
  Program offer;
  offer.add(n, Input);
  offer.add(n);
  offer.launch({0}, {1});
  offer.launches[0].in_place.push_back({1, 0});
  EXPECT_EQ(message(offer), "launch 0 offers in place what it does not read and write");
}

}  // namespace
}  // namespace xyntra
