#include "api/memory_in_use.h"

#include <cstdint>

namespace xyntra {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.data());
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.data());
  return !a.empty() && !b.empty() && begin_a < begin_b + b.size() && begin_b < begin_a + a.size();
}

namespace {

bool clash(const MemoryInUse::Piece& a, const MemoryInUse::Piece& b) {
  return (a.donated || b.donated) && overlap(a.bytes, b.bytes);
}

tl::unexpected<Error> refuse(const MemoryInUse::Piece& a, const MemoryInUse::Piece& b, const char* who) {
  const MemoryInUse::Piece &given = a.donated ? a : b, &other = a.donated ? b : a;
  return usage_error("the memory of input '" + std::string(given.name) + "' is donated, but input '" +
                     std::string(other.name) + "' of " + who + " uses it, too");
}

}  // namespace

Result<MemoryInUse::Loan> MemoryInUse::use(std::vector<Piece> pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (clash(pieces[i], pieces[j])) return refuse(pieces[i], pieces[j], "the same run");
    }
  }
  const std::lock_guard lock(mutex_);
  for (const std::vector<Piece>& run : runs_) {
    for (const Piece& other : run) {
      for (const Piece& piece : pieces) {
        if (clash(piece, other)) return refuse(piece, other, "a run at the same time");
      }
    }
  }
  runs_.push_front(std::move(pieces));
  return Loan(*this, runs_.begin());
}

}  // namespace xyntra
