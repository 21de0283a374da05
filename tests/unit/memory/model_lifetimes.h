// Lifetimes as networks of well-known shape have them: one launch a step, an output lives until its last reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/offsets.h"

namespace xyntra::testing {

class Launches {
 public:
  // One launch: reads earlier buffers, writes one of `bytes`; returns its number.
  std::size_t launch(const std::vector<std::size_t>& reads, const Dim& bytes) {
    for (std::size_t buffer : reads) requests_[buffer].last = std::max(requests_[buffer].last, step_);
    requests_.push_back({bytes, step_, step_, 64});
    ++step_;
    return requests_.size() - 1;
  }
  const std::vector<ArenaRequest>& requests() const { return requests_; }

 private:
  std::vector<ArenaRequest> requests_;
  std::size_t step_ = 0;
};

// Five launches a layer, as a fused encoder has them.
inline std::vector<ArenaRequest> fused_transformer(int layers, const Dim& tokens, std::int64_t width) {
  Launches model;
  const Dim row = tokens * (width * 4);
  std::size_t x = model.launch({}, row);
  for (int i = 0; i < layers; ++i) {
    const std::size_t qkv = model.launch({x}, row * 3);
    const std::size_t context = model.launch({qkv}, row);
    const std::size_t attended = model.launch({context, x}, row);
    const std::size_t wide = model.launch({attended}, row * 4);
    x = model.launch({wide, attended}, row);
  }
  model.launch({x}, row);
  return model.requests();
}

// One launch an operation; scores grow with the square of the tokens.
inline std::vector<ArenaRequest> unfused_transformer(int layers, const Dim& tokens, std::int64_t width,
                                                     std::int64_t heads) {
  Launches model;
  const Dim row = tokens * (width * 4), scores = tokens * tokens * (heads * 4), statistic = tokens * 4;
  const std::size_t mask = model.launch({}, tokens * tokens * 4);
  std::size_t x = model.launch({}, row);
  const auto norm = [&](std::size_t in) {
    const std::size_t mean = model.launch({in}, statistic), centred = model.launch({in, mean}, row);
    const std::size_t variance = model.launch({centred}, statistic);
    return model.launch({model.launch({centred, variance}, row)}, row);
  };
  for (int i = 0; i < layers; ++i) {
    const std::size_t q = model.launch({x}, row), k = model.launch({x}, row), v = model.launch({x}, row);
    const std::size_t products = model.launch({q, k}, scores),
                      masked = model.launch({products, mask}, scores);
    const std::size_t largest = model.launch({masked}, tokens * (heads * 4));
    const std::size_t exponents = model.launch({masked, largest}, scores);
    const std::size_t sums = model.launch({exponents}, tokens * (heads * 4));
    const std::size_t weights = model.launch({exponents, sums}, scores);
    const std::size_t context = model.launch({weights, v}, row);
    x = norm(model.launch({model.launch({context}, row), x}, row));
    const std::size_t wide = model.launch({model.launch({x}, row * 4)}, row * 4);
    x = norm(model.launch({model.launch({wide}, row), x}, row));
  }
  return model.requests();
}

// Bottlenecks: 1x1, 3x3, 1x1 with the residual, and a projection where the shape changes.
inline std::vector<ArenaRequest> resnet(const Dim& batch) {
  Launches model;
  const auto image = [&](std::int64_t side, std::int64_t channels) {
    return batch * (side * side * channels * 4);
  };
  std::size_t x = model.launch({model.launch({}, image(112, 64))}, image(56, 64));
  const struct {
    std::int64_t side, width, blocks;
  } kStages[] = {{56, 64, 3}, {28, 128, 4}, {14, 256, 6}, {7, 512, 3}};
  for (const auto& stage : kStages) {
    for (std::int64_t block = 0; block < stage.blocks; ++block) {
      const std::int64_t side_before = block == 0 && stage.side < 56 ? stage.side * 2 : stage.side;
      const std::size_t narrow = model.launch({x}, image(side_before, stage.width));
      const std::size_t middle = model.launch({narrow}, image(stage.side, stage.width));
      const std::size_t shortcut = block == 0 ? model.launch({x}, image(stage.side, stage.width * 4)) : x;
      x = model.launch({middle, shortcut}, image(stage.side, stage.width * 4));
    }
  }
  model.launch({x}, batch * 4000);
  return model.requests();
}

// Down, keeping what is needed on the way up.
inline std::vector<ArenaRequest> unet(const Dim& batch, int depth) {
  Launches model;
  const auto level = [&](int i) { return batch * ((std::int64_t{256} * 256 * 32 * 4) >> i); };
  std::vector<std::size_t> kept;
  std::size_t x = model.launch({}, level(0));
  for (int i = 0; i < depth; ++i) {
    x = model.launch({model.launch({x}, level(i))}, level(i));
    kept.push_back(x);
    x = model.launch({x}, floor_div(level(i), Dim(4)));
  }
  for (int i = depth - 1; i >= 0; --i) {
    const std::size_t up = model.launch({x}, level(i)),
                      both = model.launch({up, kept[static_cast<std::size_t>(i)]}, level(i) * 2);
    x = model.launch({model.launch({both}, level(i))}, level(i));
  }
  return model.requests();
}

// Every layer reads all earlier ones of its block.
inline std::vector<ArenaRequest> densenet(const Dim& batch) {
  Launches model;
  std::int64_t side = 56, channels = 64;
  std::size_t x = model.launch({}, batch * (side * side * channels * 4));
  for (int layers : {6, 12, 24, 16}) {
    std::vector<std::size_t> features = {x};
    for (int i = 0; i < layers; ++i) {
      const std::size_t bottleneck = model.launch(features, batch * (side * side * 128 * 4));
      features.push_back(model.launch({bottleneck}, batch * (side * side * 32 * 4)));
      channels += 32;
    }
    channels /= 2;
    const std::size_t narrow = model.launch(features, batch * (side * side * channels * 4));
    side /= 2;
    x = model.launch({narrow}, batch * (side * side * channels * 4));
  }
  return model.requests();
}

// Short lives, a few long ones, sizes over five orders of magnitude.
inline std::vector<ArenaRequest> random_lifetimes(std::size_t count, std::uint32_t seed, int longest = 12) {
  std::mt19937 random(seed);
  const auto below = [&random](std::uint32_t n) { return random() % n; };
  std::vector<ArenaRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = below(static_cast<std::uint32_t>(count));
    const std::size_t length = below(20) == 0 ? below(200) : below(static_cast<std::uint32_t>(longest));
    requests.push_back({Dim(static_cast<std::int64_t>(below(1u << (4 + below(16))))), first, first + length,
                        std::int64_t{1} << (4 + below(5))});
  }
  return requests;
}

}  // namespace xyntra::testing
