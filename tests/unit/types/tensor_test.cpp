#include "types/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace xyntra {
namespace {

std::shared_ptr<Budget> budget_of(std::int64_t bytes) {
  return std::make_shared<Budget>(bytes, std::nullopt, nullptr);
}

TEST(TensorSizes, AreChecked) {
  EXPECT_EQ(element_count(Dims{}).value(), 1);
  EXPECT_EQ(element_count(Dims{2, 0, 5}).value(), 0);
  EXPECT_EQ(element_count(Dims{std::int64_t{1} << 48}).value(), std::int64_t{1} << 48);
  EXPECT_EQ(element_count(Dims{(std::int64_t{1} << 42) + 1, std::int64_t{1} << 22}).error().error_class,
            ErrorClass::Limit);
  EXPECT_EQ(element_count(Dims{INT64_MAX, INT64_MAX}).error().error_class, ErrorClass::Limit);
  EXPECT_EQ(element_count(Dims{INT64_MAX, 0, INT64_MAX}).error().error_class, ErrorClass::Limit);
  EXPECT_EQ(element_count(Dims{0, -1}).error().message, "negative dimension in [0,-1]");
  EXPECT_EQ(byte_size(DType::I4, Dims{3}).value(), 2);
  EXPECT_EQ(byte_size(DType::U2, Dims{5}).value(), 2);
  EXPECT_EQ(byte_size(DType::F64, Dims{2, 3}).value(), 48);
}

TEST(Tensor, AllocateIsZeroedAlignedAndCharged) {
  constexpr std::int64_t kOverhead = 256;  // so that many small tensors count, too
  const auto budget = budget_of(1000);
  {
    Tensor tensor = Tensor::allocate(DType::F32, {4, 5}, budget).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64, 0u);
    for (float value : tensor.view<float>()) EXPECT_EQ(value, 0.0f);
    EXPECT_EQ(budget->used_bytes(), 80 + kOverhead);
    const Tensor copy = tensor;
    tensor = Tensor();
    EXPECT_EQ(budget->used_bytes(), 80 + kOverhead);  // the copy keeps the bytes
    EXPECT_EQ(Tensor::allocate(DType::F32, {231}, budget).error().error_class, ErrorClass::Limit);
    EXPECT_EQ(budget->used_bytes(), 80 + kOverhead);
  }
  EXPECT_EQ(budget->used_bytes(), 0);
  EXPECT_EQ(budget->peak_bytes(), 80 + kOverhead);
}

TEST(Tensor, HugeAllocationIsRefusedByTheBudget) {
  const auto refused =
      Tensor::allocate(DType::F32, {std::int64_t{1} << 40}, budget_of(std::int64_t{1} << 32));
  EXPECT_EQ(refused.error().to_string(),
            "limit: 4 TiB more memory needed, but 0 B of at most 4 GiB are in use");
}

TEST(Tensor, LargeAllocationIsLazy) {
  // 8 GiB of address space; touched at both ends only.
  Tensor tensor = Tensor::allocate(DType::U8, {std::int64_t{1} << 33}).value();
  tensor.mutable_bytes().back() = std::byte{1};
  EXPECT_EQ(tensor.element_as_i64(0), 0);
  EXPECT_EQ(tensor.element_as_i64((std::int64_t{1} << 33) - 1), 1);
}

TEST(Tensor, BorrowChecksTheSizeAndKeepsTheOwner) {
  auto owner = std::make_shared<std::array<std::byte, 9>>();
  const std::span<const std::byte> bytes(*owner);
  EXPECT_EQ(Tensor::borrow(DType::F32, {3}, bytes, owner).error().message,
            "f32[3] takes 12 bytes, but there are 9");
  Tensor tensor = Tensor::borrow(DType::U8, {9}, bytes, owner).value();
  std::weak_ptr<std::array<std::byte, 9>> watched = owner;
  owner.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_THROW(tensor.mutable_bytes(), InternalError);
  tensor = Tensor();
  EXPECT_TRUE(watched.expired());
}

TEST(Tensor, MisalignedBytesAreReadAndCopiedWhenAligned) {
  alignas(8) static std::array<std::byte, 16> storage{};
  storage[5] = std::byte{7};
  const Tensor tensor =
      Tensor::borrow(DType::I64, {1}, std::span<const std::byte>(storage).subspan(5, 8), nullptr).value();
  EXPECT_EQ(tensor.element_as_i64(0), 7);
  EXPECT_THROW(tensor.view<std::int64_t>(), InternalError);
  EXPECT_EQ(tensor.aligned().view<std::int64_t>()[0], 7);
  EXPECT_EQ(tensor.aligned().content_hash(), tensor.content_hash());
  const Tensor already = Tensor::scalar_i64(3);
  EXPECT_EQ(already.aligned().bytes().data(), already.bytes().data());
}

TEST(Tensor, PackedElementsStandLowBitsFirst) {
  Tensor nibbles = Tensor::allocate(DType::I4, {3}).value();
  nibbles.set_element_i64(0, 1);
  nibbles.set_element_i64(1, -2);
  nibbles.set_element_i64(2, 7);
  EXPECT_EQ(nibbles.bytes()[0], std::byte{0xe1});
  EXPECT_EQ(nibbles.bytes()[1], std::byte{0x07});
  EXPECT_EQ(nibbles.to_integers(), (std::vector<std::int64_t>{1, -2, 7}));

  Tensor crumbs = Tensor::allocate(DType::I2, {5}).value();
  for (std::int64_t i = 0; i < 5; ++i) crumbs.set_element_i64(i, i - 2);
  EXPECT_EQ(crumbs.bytes()[0], std::byte{0b01001110});
  EXPECT_EQ(crumbs.to_integers(), (std::vector<std::int64_t>{-2, -1, 0, 1, -2}));

  Tensor halves = Tensor::allocate(DType::F4E2M1, {2}).value();
  halves.set_element_f64(0, 0.5);
  halves.set_element_f64(1, -6);
  EXPECT_EQ(halves.bytes()[0], std::byte{0xf1});
  EXPECT_EQ(halves.element_as_f64(1), -6.0);
}

TEST(Tensor, EveryDtypeHoldsOneAndReadsItBack) {
  for (DType dtype : all_dtypes()) {
    Tensor tensor = Tensor::allocate(dtype, {7}).value();
    for (std::int64_t i = 0; i < 7; ++i) tensor.set_element_f64(i, 1);
    for (std::int64_t i = 0; i < 7; ++i) {
      EXPECT_EQ(tensor.element_as_f64(i), 1.0) << name_of(dtype);
      EXPECT_EQ(tensor.element_as_i64(i), 1) << name_of(dtype);
    }
  }
}

TEST(Tensor, ConversionsAreDefinedAtTheEdges) {
  Tensor bytes = Tensor::allocate(DType::I8, {1}).value();
  bytes.set_element_f64(0, 300.7);
  EXPECT_EQ(bytes.element_as_i64(0), 127);
  bytes.set_element_f64(0, -300);
  EXPECT_EQ(bytes.element_as_i64(0), -128);
  bytes.set_element_f64(0, -1.9);
  EXPECT_EQ(bytes.element_as_i64(0), -1);
  bytes.set_element_f64(0, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(bytes.element_as_i64(0), 0);
  bytes.set_element_i64(0, 200);
  EXPECT_EQ(bytes.element_as_i64(0), -56);

  Tensor wide = Tensor::allocate(DType::U64, {1}).value();
  wide.set_element_f64(0, 1e30);
  EXPECT_EQ(wide.view<std::uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(wide.element_as_f64(0), 0x1p64);
  Tensor signed_wide = Tensor::allocate(DType::I64, {1}).value();
  signed_wide.set_element_f64(0, -1e30);
  EXPECT_EQ(signed_wide.element_as_i64(0), INT64_MIN);
  signed_wide.set_element_f64(0, 0x1p63);
  EXPECT_EQ(signed_wide.element_as_i64(0), INT64_MAX);

  Tensor real = Tensor::allocate(DType::F32, {1}).value();
  real.set_element_f64(0, std::numeric_limits<double>::infinity());
  EXPECT_EQ(real.element_as_i64(0), INT64_MAX);
  Tensor flag = Tensor::allocate(DType::Bool, {1}).value();
  flag.set_element_f64(0, 0.5);
  EXPECT_EQ(flag.element_as_i64(0), 1);
  EXPECT_THROW(flag.element_as_f64(1), InternalError);
  EXPECT_THROW(flag.set_element_f64(-1, 0), InternalError);
}

TEST(Tensor, ReshapedSharesTheBytes) {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::from<float>(DType::F32, {2, 3}, values);
  const Tensor flat = tensor.reshaped({6}).value();
  EXPECT_EQ(flat.bytes().data(), tensor.bytes().data());
  EXPECT_EQ(tensor.reshaped({4}).error().message, "[2,3] cannot be reshaped to [4]");
}

TEST(Tensor, ContentHashSeesDtypeDimsAndBytesOnly) {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::from<float>(DType::F32, {2, 3}, values);
  EXPECT_EQ(tensor.content_hash(), Tensor::from<float>(DType::F32, {2, 3}, values).content_hash());
  EXPECT_NE(tensor.content_hash(), tensor.reshaped({3, 2}).value().content_hash());
  EXPECT_EQ(Tensor::scalar_i64(1).content_hash(), Tensor::scalar_i64(1).content_hash());

  Tensor odd = Tensor::allocate(DType::U4, {1}).value();
  const std::string before = odd.content_hash();
  odd.mutable_bytes()[0] = std::byte{0xf0};  // only the padding
  EXPECT_EQ(odd.content_hash(), before);
}

TEST(Datum, SaysWhatItHolds) {
  EXPECT_EQ(Datum{}.kind, Datum::Kind::Absent);
  EXPECT_EQ(Datum::of(Tensor::scalar_f32(1)).kind, Datum::Kind::Tensor);
  EXPECT_EQ(Datum::sequence({Datum::of(Tensor::scalar_f32(1))}).items.size(), 1u);
  EXPECT_THROW(Datum::optional({Datum{}, Datum{}}), InternalError);
}

}  // namespace
}  // namespace xyntra
