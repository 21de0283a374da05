#include "support/text/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/hash/sha256.h"

namespace xyntra {
namespace {

TEST(Text, PrintableLeavesTextAndEscapesTheRest) {
  EXPECT_EQ(printable("größe 张量 \\ \"q\""), "größe 张量 \\ \"q\"");
  EXPECT_EQ(printable("a\tb\r\n\x1b\x7f"), "a\\tb\\r\\n\\x1b\\x7f");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80\xf5"), "\\xc0\\xaf\\xed\\xa0\\x80\\xf5");
  EXPECT_EQ(printable("\xc2\x9b \xe2\x80\xae \xef\xbb\xbf"), "\\u{009b} \\u{202e} \\u{feff}");
  EXPECT_EQ(printable("\xe3\x85\xa4 \xe1\x85\x9f"), "\\u{3164} \\u{115f}");  // letters without width
  EXPECT_EQ(printable("\xe5\xbc"), "\\xe5\\xbc");  // cut character
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Text, QuotedRoundTripsAnyBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t i = random() % 20; i > 0; --i) text += static_cast<char>(random());
    if (round % 3 == 0) text += "\xe2\x80\xae\xf3\xa0\x80\x81\"\\'";
    const std::string in_quotes = quote(text);
    ASSERT_TRUE(is_utf8(in_quotes));
    ASSERT_EQ(unquote(in_quotes).value(), text);
  }
  EXPECT_EQ(quote("a\"b\\"), "\"a\\\"b\\\\\"");
}

TEST(Text, UnquotedSaysWhatIsWrong) {
  EXPECT_EQ(unquote("abc").error().message, "a quoted string begins and ends with '\"'");
  EXPECT_EQ(unquote("\"abc").error().message, "the closing quote is missing");
  EXPECT_EQ(unquote("\"a\\\"").error().message, "the closing quote is missing");
  EXPECT_EQ(unquote("\"a\"b\"").error().message, "characters after the closing quote, at offset 3");
  for (const char* bad :
       {"\"\\q\"", "\"\\x1\"", "\"\\xg0\"", "\"\\u{}\"", "\"\\u{110000}\"", "\"\\u{d800}\"", "\"\\u12\""}) {
    EXPECT_EQ(unquote(bad).error().message, "unknown escape at offset 1") << bad;
  }
}

TEST(Text, CutsBetweenCharacters) {
  EXPECT_EQ(cut_at_character("aé", 2), "a");
  EXPECT_EQ(cut_at_character("aé", 3), "aé");
  EXPECT_EQ(cut_at_character("张", 2), "");
  EXPECT_EQ(cut_at_character("\x80\x80\x80\x80\x80\x80", 5), "\x80\x80\x80\x80\x80");
}

TEST(Text, Pieces) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(trimmed(" \t a b\n"), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  const std::vector<std::string> words = {"max_memory", "timeout", "nodes"};
  EXPECT_EQ(joined(words, ", "), "max_memory, timeout, nodes");
  EXPECT_EQ(nearest_word("max_memmory", words), "max_memory");
  EXPECT_EQ(nearest_word("node", words), "nodes");
  EXPECT_EQ(nearest_word("zebra", words), std::nullopt);
}

TEST(Text, FloatsRoundTrip) {
  EXPECT_EQ(format_float(1.0f), "1.0");
  EXPECT_EQ(format_float(0.1f), "0.1");
  EXPECT_EQ(format_float(0.1), "0.1");
  EXPECT_EQ(format_float(-0.0), "-0.0");
  EXPECT_EQ(format_float(1e30f), "1e+30");
  EXPECT_EQ(format_float(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(format_float(-std::numeric_limits<float>::quiet_NaN()), "nan");
  EXPECT_TRUE(std::isnan(parse_f32("nan").value()));
  EXPECT_EQ(parse_f64("-inf"), -std::numeric_limits<double>::infinity());
  std::mt19937_64 random(2);
  for (int round = 0; round < 20000; ++round) {
    const auto wide = std::bit_cast<double>(random());
    const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(wide)) {
      ASSERT_EQ(parse_f64(format_float(wide)), wide);
    }
    if (!std::isnan(narrow)) {
      ASSERT_EQ(parse_f32(format_float(narrow)), narrow);
    }
  }
}

TEST(Text, NumbersAreParsedStrictly) {
  EXPECT_EQ(parse_f64("1"), 1.0);
  EXPECT_EQ(parse_f64(".5"), 0.5);
  for (const char* bad : {"", " 1", "1 ", "+1", "1x", "0x10", "--1", "1e999", "infinity", "NAN", "nan(1)",
                          "-nan", "-", "1,5"}) {
    EXPECT_EQ(parse_f64(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(parse_i64("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parse_i64("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_u64("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_u64("-1"), std::nullopt);
  EXPECT_EQ(parse_i64("1.0"), std::nullopt);
}

TEST(Text, Sizes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1048575), "1 MiB");
  EXPECT_EQ(human_bytes(INT64_MAX), "8 EiB");
  EXPECT_EQ(human_bytes(-2048), "-2 KiB");
  EXPECT_EQ(parse_bytes("4096").value(), 4096);
  EXPECT_EQ(parse_bytes("4GB").value(), 4'000'000'000);
  EXPECT_EQ(parse_bytes(" 1.5 GiB ").value(), 1'610'612'736);
  EXPECT_EQ(parse_bytes("2k").value(), 2048);
  EXPECT_EQ(parse_bytes("9223372036854775807").value(), INT64_MAX);
  EXPECT_EQ(parse_bytes("99999999TB").error().error_class, ErrorClass::Limit);
  for (const char* bad : {"", "GB", "-1", "1 XB", "1..5MB", "4 G B", "0x10"}) {
    EXPECT_EQ(parse_bytes(bad).error().error_class, ErrorClass::Usage) << bad;
  }
}

TEST(Text, Base64) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(base64_encode(bytes("")), "");
  EXPECT_EQ(base64_encode(bytes("f")), "Zg==");
  EXPECT_EQ(base64_encode(bytes("fo")), "Zm8=");
  EXPECT_EQ(base64_encode(bytes("foobar")), "Zm9vYmFy");
  std::mt19937 random(3);
  for (std::size_t size = 0; size < 100; ++size) {
    std::vector<std::byte> data(size);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    ASSERT_EQ(base64_decode(base64_encode(data)), data);
  }
  for (const char* bad : {"Z", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z===", "====", "Zg= ", "Zm 8"}) {
    EXPECT_EQ(base64_decode(bad), std::nullopt) << bad;
  }
}

TEST(Text, WidthOnATerminal) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("é"), 1u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);  // combining accent
  EXPECT_EQ(display_width("张量"), 4u);
  EXPECT_EQ(display_width("🙂"), 2u);
  EXPECT_EQ(display_width("\xff"), 1u);
}

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameDigest) {
  const std::string text(300, 'x');
  for (std::size_t cut = 0; cut <= text.size(); cut += 7) {
    Sha256 hash;
    hash.update(std::string_view(text).substr(0, cut));
    hash.update(std::string_view(text).substr(cut));
    ASSERT_EQ(to_hex(hash.finish()), sha256_hex(text));
  }
}

}  // namespace
}  // namespace xyntra
