#include "egraph/hash_index.h"

#include <utility>

namespace xyntra::egraph {

void HashIndex::grow() {
  std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.value == kNone) continue;
    std::size_t at = slot.hash & mask();
    while (slots_[at].value != kNone) at = (at + 1) & mask();
    slots_[at] = slot;
  }
}

void HashIndex::insert(std::uint64_t hash, std::uint32_t value) {
  if ((size_ + 1) * 4 > slots_.size() * 3) grow();
  std::size_t at = hash & mask();
  while (slots_[at].value != kNone) at = (at + 1) & mask();
  slots_[at] = {hash, tag_of(hash), value};
  ++size_;
}

bool HashIndex::erase(std::uint64_t hash, std::uint32_t value) {
  if (slots_.empty()) return false;
  std::size_t at = hash & mask();
  while (slots_[at].value != value) {
    if (slots_[at].value == kNone) return false;
    at = (at + 1) & mask();
  }
  // Close the gap: move back every later entry of the run that may stand here.
  for (std::size_t next = (at + 1) & mask(); slots_[next].value != kNone; next = (next + 1) & mask()) {
    const std::size_t home = slots_[next].hash & mask();
    if (((next - home) & mask()) < ((next - at) & mask())) continue;
    slots_[at] = slots_[next];
    at = next;
  }
  slots_[at] = Slot{};
  --size_;
  return true;
}

}  // namespace xyntra::egraph
