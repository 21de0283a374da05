#include "types/tensor_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace xyntra {
namespace {

Tensor counted(Dims dims) {
  std::int64_t count = 1;
  for (std::int64_t dim : dims) count *= dim;
  std::vector<float> elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(static_cast<float>(i + 1));
  return Tensor::from<float>(DType::F32, std::move(dims), elements);
}

// What layout.h says, element by element.
std::vector<float> expected(const Tensor& tensor, const Layout& layout, const Dims& physical) {
  std::int64_t size = 1;
  for (std::int64_t dim : physical) size *= dim;
  std::vector<float> elements(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    Dims index(tensor.dims().size());
    std::int64_t rest = i;
    for (std::size_t d = index.size(); d-- > 0;) {
      index[d] = rest % tensor.dims()[d];
      rest /= tensor.dims()[d];
    }
    std::int64_t place = 0;
    for (std::size_t d = 0; d < layout.size(); ++d) {
      std::int64_t position = index[layout[d].axis] / layout[d].divisor;
      if (layout[d].modulus != 0) position %= layout[d].modulus;
      place = place * physical[d] + position;
    }
    elements[static_cast<std::size_t>(place)] = tensor.view<float>()[static_cast<std::size_t>(i)];
  }
  return elements;
}

TEST(TensorLayout, PutsEveryElementInItsPlace) {
  const struct {
    Dims dims;
    const char* layout;
  } cases[] = {
      {{6, 64}, "[1/32, 0, 1%32]"},
      {{64, 6}, "[0/32, 1, 0%32]"},
      {{5, 70}, "[1/32, 0, 1%32]"},
      {{70, 5}, "[0/32, 1, 0%32]"},
      {{2, 32, 3, 3}, "[0, 1/16, 2, 3, 1%16]"},
      {{33, 20, 3, 2}, "[0/32, 1/16, 2, 3, 1%16, 0%32]"},
      {{7, 9}, "[1, 0]"},
      {{300, 700}, "[1/32, 0, 1%32]"},
      {{0, 8}, "[1/4, 0, 1%4]"},
  };
  for (const auto& one : cases) {
    auto layout = parse_layout(one.layout);
    ASSERT_TRUE(layout.has_value());
    const Tensor tensor = counted(one.dims);
    auto made = laid_out(tensor, *layout);
    ASSERT_TRUE(made.has_value());
    const auto elements = made->view<float>();
    EXPECT_EQ(std::vector<float>(elements.begin(), elements.end()), expected(tensor, *layout, made->dims()))
        << one.layout;
  }
}

TEST(TensorLayout, PartsOfAPackedTensorAreThoseOfTheWhole) {
  for (const char* text : {"[]", "[1/32, 0, 1%32]", "[0/16, 1/32, 0%16, 1%32]", "[1, 0]"}) {
    const Layout layout = std::string_view(text) == "[]" ? Layout() : *parse_layout(text);
    const Tensor tensor = counted({37, 70}), whole = *laid_out(tensor, layout);
    const PackedTensor packed(tensor, layout);
    EXPECT_EQ(packed.dims(), whole.dims()) << text;
    ASSERT_EQ(packed.bytes(), whole.bytes().size()) << text;
    for (std::size_t size :
         {std::size_t{1}, std::size_t{100}, std::size_t{128}, std::size_t{1000}, packed.bytes()}) {
      std::vector<std::byte> part(size, std::byte{0x5a});  // padding is zero whatever was there
      for (std::size_t begin = 0; begin < packed.bytes(); begin += size) {
        const auto to = std::span(part).first(std::min(size, packed.bytes() - begin));
        packed.copy(begin, to);
        EXPECT_TRUE(std::ranges::equal(to, whole.bytes().subspan(begin, to.size())))
            << text << " at " << begin;
      }
    }
  }
}

TEST(TensorLayout, TakesElementsOfAnyWidthAnywhere) {
  const Layout layout = *parse_layout("[1/4, 0, 1%4]"), transposed = *parse_layout("[1, 0]");
  for (DType dtype : {DType::I8, DType::BF16, DType::F32, DType::F64}) {
    const auto width = static_cast<std::size_t>(bits_of(dtype) / 8);
    std::vector<std::byte> bytes(1 + 3 * 6 * width);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    const auto misaligned = std::span(bytes).subspan(1);
    const Tensor tensor = *Tensor::borrow(dtype, {3, 6}, misaligned, nullptr);
    const Tensor blocked = *laid_out(tensor, layout), columns_first = *laid_out(tensor, transposed);
    EXPECT_EQ(blocked.dims(), (Dims{2, 3, 4}));
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 6; ++j) {
        const std::byte first = misaligned[(i * 6 + j) * width];
        EXPECT_EQ(blocked.bytes()[((j / 4 * 3 + i) * 4 + j % 4) * width], first);
        EXPECT_EQ(columns_first.bytes()[(j * 3 + i) * width], first);
      }
    }
  }
}

}  // namespace
}  // namespace xyntra
