#include "support/hash/sha256.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/hash/sha256_blocks.h"
#include "support/hash/sha256_pieces.h"

namespace xyntra {
namespace {

// FIPS 180-4's own examples, and one of many blocks.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(sha256_hex(std::string_view("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(std::string_view("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string_view("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesAddUp) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 37);
  for (std::size_t piece : {1, 3, 63, 64, 65, 200}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece)
      hash.update(std::string_view(text).substr(at, piece));
    EXPECT_EQ(to_hex(hash.finish()), sha256_hex(text)) << piece;
  }
}

TEST(Sha256, TheCpusInstructionsAgree) {
  if (!has_sha256_instructions()) GTEST_SKIP() << "this CPU has none";
  std::vector<std::byte> blocks(kSha256Block * 50);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i * i + (i >> 3));
  Sha256State portable{1, 2, 3, 0xffffffff, 5, 6, 7, 8}, fast = portable;
  compress_portably(portable, blocks);
  compress_by_instructions(fast, std::span(blocks).first(kSha256Block * 7));
  compress_by_instructions(fast, std::span(blocks).subspan(kSha256Block * 7));
  EXPECT_EQ(portable, fast);
}

TEST(Sha256, TwoAtOnceAreAsOneAfterTheOther) {
  std::vector<std::byte> bytes(3 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i + (i >> 5));
  for (std::size_t size_of_a : {0, 1, 63, 64, 1000, 2 << 20}) {
    for (std::size_t size_of_b : {0, 5, 64, 200, 100'000, 3 << 20}) {
      const auto a = std::span(bytes).first(size_of_a), b = std::span(bytes).last(size_of_b);
      Sha256 of_a, of_b, a_alone, b_alone;
      for (Sha256* hash : {&of_a, &a_alone}) hash->update(std::string_view("begun"));
      Sha256::update_two(of_a, a, of_b, b);
      a_alone.update(a);
      b_alone.update(b);
      EXPECT_EQ(of_a.finish(), a_alone.finish()) << size_of_a << " " << size_of_b;
      EXPECT_EQ(of_b.finish(), b_alone.finish()) << size_of_a << " " << size_of_b;
    }
  }
}

// Each digest is that of its piece alone, however many are hashed at once, and whether the last is whole or not.
TEST(Sha256, DigestsOfPieces) {
  std::vector<std::byte> bytes(35 * kHashedPiece + 100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i + (i >> 9));
  for (const std::size_t size :
       {bytes.size(), 32 * kHashedPiece, 17 * kHashedPiece - 1, std::size_t{63}, std::size_t{0}}) {
    const auto part = std::span(bytes).first(size);
    std::string wanted;
    for (std::size_t at = 0; at < size; at += kHashedPiece)
      wanted += sha256_hex(part.subspan(at, std::min(kHashedPiece, size - at)));
    for (const HashLanes lanes :
         {HashLanes::Widest, HashLanes::One, HashLanes::Two, HashLanes::Eight, HashLanes::Sixteen}) {
      if (is_supported(lanes)) {
        EXPECT_EQ(to_hex(sha256_of_pieces(part, lanes)), wanted)
            << size << ", way " << static_cast<int>(lanes);
      }
    }
  }
}

}  // namespace
}  // namespace xyntra
