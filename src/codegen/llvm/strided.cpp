// Lanes a few elements apart: vectors that are loaded whole and shuffled, or shuffled and stored under masks.
#include <algorithm>
#include <bit>

#include <llvm/Analysis/VectorUtils.h>

#include "codegen/llvm/emitter.h"

namespace xyntra::cpu_code {

using kir::BufferId;
using llvm::Align;
using llvm::Type;
using llvm::Value;

namespace {

constexpr std::int64_t kMostApart = 4;

// The vectors that hold the elements of lanes `stride` apart, none of which reaches beyond the last lane's element.
struct Spread {
  int count;
  int stride;

  int begin(int part) const { return std::min(part * count, (count - 1) * (stride - 1)); }
  int part_of(int lane) const { return std::min(lane * stride / count, stride - 1); }
  int place_of(int lane) const { return lane * stride - begin(part_of(lane)); }

  // By place in a part: the lane whose element is there, or `none`.
  std::vector<int> lanes_of(int part, int none) const {
    std::vector<int> found(static_cast<std::size_t>(count), none);
    for (int lane = 0; lane < count; ++lane) {
      if (part_of(lane) == part) found[static_cast<std::size_t>(place_of(lane))] = lane;
    }
    return found;
  }
};

}  // namespace

// That takes less than a gather or a scatter of each element.
bool KernelEmitter::is_near(BufferId buffer, const Place& place) const {
  return !in_registers(buffer) && place.offsets == nullptr && place.stride > 1 &&
         place.stride <= kMostApart && lanes_->count >= 4;
}

// Lanes at known places near one another, such as x[l / 2] or x[l % 4]: one vector that has them all, and a shuffle. Nothing
// where they are not.
Value* KernelEmitter::load_shuffled(BufferId buffer, Type* element, const Place& place) {
  auto* offsets = llvm::dyn_cast_or_null<llvm::Constant>(place.offsets);
  if (offsets == nullptr || in_registers(buffer)) return nullptr;
  std::vector<std::int64_t> at;
  for (unsigned lane = 0; lane < lanes_->count; ++lane) {
    auto* one = llvm::dyn_cast_or_null<llvm::ConstantInt>(offsets->getAggregateElement(lane));
    if (one == nullptr) return nullptr;
    at.push_back(one->getSExtValue());
  }
  const auto [low, high] = std::ranges::minmax(at);
  const std::int64_t width = high - low + 1;
  if (width > lanes_->count) return nullptr;
  // Not one element more than lanes read.
  const auto whole = std::bit_ceil(static_cast<std::uint64_t>(width));
  auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(whole));
  const Align align = Align(element->getScalarSizeInBits() / 8);
  Value* pointer = b_.CreateConstGEP1_64(element, place.pointer, static_cast<std::uint64_t>(low));
  Value* loaded = nullptr;
  if (static_cast<std::uint64_t>(width) == whole) {
    loaded = marked(buffer, b_.CreateAlignedLoad(vector, pointer, align));
  } else {
    if (!costs_->isLegalMaskedLoad(vector, align)) return nullptr;
    std::vector<llvm::Constant*> some;
    for (std::uint64_t i = 0; i < whole; ++i)
      some.push_back(b_.getInt1(i < static_cast<std::uint64_t>(width)));
    loaded = marked(buffer, b_.CreateMaskedLoad(vector, pointer, align, llvm::ConstantVector::get(some),
                                                llvm::Constant::getNullValue(vector)));
  }
  std::vector<int> from;
  for (std::int64_t one : at) from.push_back(static_cast<int>(one - low));
  return b_.CreateShuffleVector(loaded, from);
}

// Which elements of a part belong to a lane, and to one of the mask. What is the same for all lanes, or known, takes no shuffle.
Value* KernelEmitter::mask_of_part(const std::vector<int>& lanes, Value* mask) {
  if (mask == nullptr) {
    auto* bits = llvm::FixedVectorType::get(b_.getInt1Ty(), lanes_->count);
    mask = llvm::Constant::getAllOnesValue(bits);
  }
  if (auto* both = llvm::dyn_cast<llvm::BinaryOperator>(mask);
      both != nullptr && both->getOpcode() == llvm::Instruction::And)
    return b_.CreateAnd(mask_of_part(lanes, both->getOperand(0)), mask_of_part(lanes, both->getOperand(1)));
  if (llvm::getSplatValue(mask) != nullptr && !llvm::isa<llvm::Constant>(mask))
    return b_.CreateAnd(mask, mask_of_part(lanes, nullptr));
  return b_.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), lanes);
}

Value* KernelEmitter::load_apart(BufferId buffer, Type* element, const Place& place, Value* mask) {
  const int count = static_cast<int>(lanes_->count);
  const Spread spread{count, static_cast<int>(place.stride)};
  auto* vector = llvm::FixedVectorType::get(element, lanes_->count);
  const Align align = Align(element->getScalarSizeInBits() / 8);
  Value* found = nullptr;
  for (int part = 0; part < spread.stride; ++part) {
    Value* pointer =
        b_.CreateConstGEP1_64(element, place.pointer, static_cast<std::uint64_t>(spread.begin(part)));
    Value* loaded = nullptr;
    if (mask == nullptr) {
      loaded = marked(buffer, b_.CreateAlignedLoad(vector, pointer, align));
    } else {
      Value* some = mask_of_part(spread.lanes_of(part, count), mask);
      Value* zero = llvm::Constant::getNullValue(vector);
      loaded = marked(buffer, b_.CreateMaskedLoad(vector, pointer, align, some, zero));
    }
    if (part == 0) {
      found = loaded;
      continue;
    }
    std::vector<int> from;
    for (int lane = 0; lane < count; ++lane) {
      const int of = spread.part_of(lane), first = part == 1 ? spread.place_of(lane) : lane;
      from.push_back(of < part ? first : of == part ? count + spread.place_of(lane) : -1);
    }
    found = b_.CreateShuffleVector(found, loaded, from);
  }
  return found;
}

// What lies between is left alone by masks.
void KernelEmitter::store_apart(BufferId buffer, const Place& place, Value* element, Value* mask) {
  const int count = static_cast<int>(lanes_->count);
  const Spread spread{count, static_cast<int>(place.stride)};
  Type* type = element->getType()->getScalarType();
  const Align align = Align(type->getScalarSizeInBits() / 8);
  for (int part = 0; part < spread.stride; ++part) {
    Value* pointer =
        b_.CreateConstGEP1_64(type, place.pointer, static_cast<std::uint64_t>(spread.begin(part)));
    Value* placed = b_.CreateShuffleVector(element, spread.lanes_of(part, -1));
    marked(buffer,
           b_.CreateMaskedStore(placed, pointer, align, mask_of_part(spread.lanes_of(part, count), mask)));
  }
}

}  // namespace xyntra::cpu_code
