#include "types/string_tensor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "types/npy/npy.h"
#include "types/npy/npy_strings.h"
#include "types/tensor.h"

namespace xyntra {
namespace {

using namespace std::string_literals;

Tensor strings(Dims dims, const std::vector<std::string>& texts) {
  const std::vector<std::string_view> elements(texts.begin(), texts.end());
  return Tensor::of_strings(std::move(dims), elements).value();
}

std::vector<std::byte> block(const std::vector<std::uint64_t>& ends, std::string_view text) {
  std::vector<std::byte> bytes(ends.size() * sizeof(std::uint64_t) + text.size());
  std::memcpy(bytes.data(), ends.data(), ends.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data() + ends.size() * sizeof(std::uint64_t), text.data(), text.size());
  return bytes;
}

TEST(StringTensor, holds_any_text) {
  const Tensor tensor = strings({2, 2}, {"ab", "", "\0x\0"s, "\u4e2d"});
  EXPECT_EQ(tensor.dtype(), DType::String);
  EXPECT_EQ(tensor.string_at(0), "ab");
  EXPECT_EQ(tensor.string_at(1), "");
  EXPECT_EQ(tensor.string_at(2), "\0x\0"s);
  EXPECT_EQ(tensor.string_at(3), "\u4e2d");
  EXPECT_EQ(tensor.bytes().size(), 4 * 8 + 2 + 3 + 3);
  EXPECT_EQ(tensor.copied()->content_hash(), tensor.content_hash());
  EXPECT_EQ(tensor.reshaped({4})->string_at(3), "\u4e2d");
}

TEST(StringTensor, the_hash_tells_where_strings_end) {
  EXPECT_NE(strings({2}, {"ab", "c"}).content_hash(), strings({2}, {"a", "bc"}).content_hash());
  EXPECT_EQ(strings({2}, {"ab", "c"}).content_hash(), strings({2}, {"ab", "c"}).content_hash());
}

TEST(StringTensor, zeros_are_empty_strings) {
  const Tensor tensor = Tensor::allocate(DType::String, {3}).value();
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(tensor.string_at(i), "");
  EXPECT_EQ(tensor.content_hash(), strings({3}, {"", "", ""}).content_hash());
}

TEST(StringTensor, is_charged_with_its_text) {
  const auto budget = std::make_shared<Budget>(1000, std::nullopt, nullptr);
  const std::string text(600, 'x');
  const std::string_view one = text;
  EXPECT_TRUE(Tensor::of_strings({1}, std::span(&one, 1), budget).has_value());
  const std::vector<std::string_view> two{one, one};
  EXPECT_EQ(Tensor::of_strings({2}, two, budget).error().error_class, ErrorClass::Limit);
}

TEST(StringTensor, bytes_that_are_borrowed_are_checked) {
  const auto refused = [](Dims dims, const std::vector<std::byte>& bytes) {
    const auto tensor = Tensor::borrow(DType::String, std::move(dims), bytes, nullptr);
    return tensor ? std::string("taken") : tensor.error().message;
  };
  EXPECT_EQ(refused({2}, block({1, 3}, "abc")), "taken");
  EXPECT_EQ(refused({2}, block({1}, "")), "2 strings take at least 16 bytes, but there are 8");
  EXPECT_EQ(refused({1LL << 40}, block({1}, "a")),
            "1099511627776 strings take at least 8796093022208 bytes, but there are 9");
  EXPECT_EQ(refused({2}, block({1, 4}, "abc")), "a string ends behind the text of all");
  EXPECT_EQ(refused({2}, block({1, UINT64_MAX}, "abc")), "a string ends behind the text of all");
  EXPECT_EQ(refused({2}, block({2, 1}, "a")), "a string ends before it begins");
  EXPECT_EQ(refused({2}, block({1, 2}, "abc")), "these strings take 18 bytes, but there are 19");
  EXPECT_EQ(refused({1}, block({2}, "a\xff")), "a string is not UTF-8");
  EXPECT_EQ(refused({2}, block({1, 2}, "\xc3\xa9")), "a string is not UTF-8");  // one character cut in two
}

TEST(StringTensor, goes_through_npy) {
  const Tensor tensor = strings({2, 2}, {"b", "", "\u00e9\U0001f600", "a\0c"s});
  const std::string file = npy_bytes_of_strings(tensor).value();
  EXPECT_NE(file.find("'<U3'"), std::string::npos);
  const Tensor back = read_npy(std::as_bytes(std::span(file)), nullptr).value();
  EXPECT_EQ(back.content_hash(), tensor.content_hash());
  EXPECT_EQ(npy_bytes_of_strings(strings({1}, {"a\0"s})).error().error_class, ErrorClass::Unsupported);
}

TEST(StringTensor, npy_text_may_be_bytes_or_of_another_order) {
  const auto read = [](const std::string& descr, bool fortran, const Dims& dims,
                       std::string_view data) -> Result<Tensor> {
    std::string file = write_npy_header(descr, dims);
    if (fortran) file.replace(file.find("False"), 5, "True ");
    file += data;
    return read_npy(std::as_bytes(std::span(file)), nullptr);
  };
  EXPECT_EQ(read("|S2", false, {2}, "ab\0\0"s)->string_at(0), "ab");
  EXPECT_EQ(read(">U1", false, {1}, "\0\0\0a"s)->string_at(0), "a");
  EXPECT_EQ(read("|S1", true, {2, 3}, "abcdef")->content_hash(),
            strings({2, 3}, {"a", "c", "e", "b", "d", "f"}).content_hash());
  EXPECT_EQ(read("|S2", false, {2}, "abc").error().error_class, ErrorClass::BadModel);
  EXPECT_EQ(read("|S0", false, {2}, "")->string_at(1), "");
  EXPECT_EQ(read("<U1", false, {1}, "\0\xd8\0\0"s).error().message,
            "a string is not UTF-8");  // half of a surrogate pair
  EXPECT_EQ(read("<U1", false, {1}, "\x41\0\x01\x01"s).error().message,
            "a string is not UTF-8");  // past the last character
  EXPECT_EQ(read("|S4294967295", false, {2}, "").error().error_class, ErrorClass::Unsupported);
}

}  // namespace
}  // namespace xyntra
