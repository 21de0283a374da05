// Weights on their way into an artifact: each where it was told to be, equal ones once, sums as of the whole.
#include "package/artifact_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/artifact/artifact.h"
#include "support/hash/block_hash.h"

namespace xyntra {
namespace {

Tensor floats(Dims dims, float first) {
  std::int64_t count = 1;
  for (std::int64_t dim : dims) count *= dim;
  std::vector<float> elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(first + static_cast<float>(i));
  return Tensor::from<float>(DType::F32, std::move(dims), elements);
}

struct Written {
  std::vector<std::byte> bytes;
  ArtifactWeights::Sums sums;
};

Written written(const ArtifactWeights& weights) {
  Written made;
  made.bytes.assign(weights.size(), std::byte{0x5a});
  auto sums = weights.write([&](std::uint64_t offset, std::span<const std::byte> part) -> Status {
    std::ranges::copy(part, std::span(made.bytes).subspan(offset).begin());
    return {};
  });
  EXPECT_TRUE(sums.has_value());
  if (sums) made.sums = std::move(*sums);
  return made;
}

TEST(ArtifactWeights, LieWhereTheyWereAdded) {
  const Layout panels = *parse_layout("[1/32, 0, 1%32]");
  const std::vector<Tensor> tensors{floats({3}, 1), floats({500, 1000}, 7), floats({5}, 2),
                                    floats({300, 700}, 3)};
  ArtifactWeights weights;
  std::vector<std::uint64_t> offsets;
  for (const Tensor& tensor : tensors) {
    const Layout layout = tensor.rank() == 2 ? panels : Layout();
    offsets.push_back(weights.add(PackedTensor(tensor, layout)));
  }
  const Written made = written(weights);
  std::vector<bool> covered(made.bytes.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Tensor whole = tensors[t].rank() == 2 ? *laid_out(tensors[t], panels) : tensors[t];
    EXPECT_EQ(0u, offsets[t] % (whole.bytes().size() < 65536 ? kConstantAlignment : kArtifactAlignment));
    ASSERT_LE(offsets[t] + whole.bytes().size(), made.bytes.size());
    EXPECT_TRUE(
        std::ranges::equal(whole.bytes(), std::span(made.bytes).subspan(offsets[t], whole.bytes().size())));
    for (std::size_t i = 0; i < whole.bytes().size(); ++i) covered[offsets[t] + i] = true;
  }
  for (std::size_t i = 0; i < covered.size(); ++i) {
    if (!covered[i]) {
      EXPECT_EQ(std::byte{}, made.bytes[i]) << i;
    }
  }
}

TEST(ArtifactWeights, SumsAreThoseOfTheWhole) {
  ArtifactWeights weights;
  weights.add(PackedTensor(floats({700'001}, 1), {}));
  const Written made = written(weights);
  EXPECT_EQ(crc32(made.bytes), made.sums.checksum);
  ASSERT_EQ(weights.blocks(), made.sums.block_hashes.size());
  for (std::size_t b = 0; b < weights.blocks(); ++b) {
    const std::size_t begin = b * kWeightBlock;
    EXPECT_EQ(
        block_hash(std::span(made.bytes).subspan(begin, std::min(kWeightBlock, made.bytes.size() - begin))),
        made.sums.block_hashes[b]);
  }
}

TEST(ArtifactWeights, OfEqualContentAreThereOnce) {
  const Layout transposed = *parse_layout("[1, 0]");
  ArtifactWeights weights;
  const std::uint64_t first = weights.add(PackedTensor(floats({64, 64}, 1), {}));
  EXPECT_EQ(first, weights.add(PackedTensor(floats({4096}, 1), {})));
  EXPECT_NE(first, weights.add(PackedTensor(floats({64, 64}, 1), transposed)));
  std::vector<float> other(4096);
  for (std::size_t i = 0; i < other.size(); ++i) other[i] = 1 + static_cast<float>(i);
  other[700] = 0;  // where no sample is taken
  EXPECT_NE(first, weights.add(PackedTensor(Tensor::from<float>(DType::F32, {4096}, other), {})));
  EXPECT_EQ(3u, weights.count());
}

TEST(ArtifactWeights, FailWhereAChunkFails) {
  ArtifactWeights weights;
  weights.add(PackedTensor(floats({1'000'000}, 1), {}));
  const auto sums = weights.write([](std::uint64_t offset, std::span<const std::byte>) -> Status {
    if (offset > 0) return limit_error("the disk is full");
    return {};
  });
  ASSERT_FALSE(sums.has_value());
  EXPECT_EQ("the disk is full", sums.error().message);
  EXPECT_TRUE(written(ArtifactWeights()).bytes.empty());
}

}  // namespace
}  // namespace xyntra
