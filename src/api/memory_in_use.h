// Which memory of callers' the runs of a model work on at this moment, so that memory donated to one of them is not
// read or written by another.
#pragma once

#include <list>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "support/result.h"

namespace xyntra {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b);

class MemoryInUse {
 public:
  struct Piece {
    std::string_view name;  // of the input
    std::span<const std::byte> bytes;
    bool donated = false;
  };

  // For the time of a run.
  class Loan {
   public:
    Loan(MemoryInUse& owner, std::list<std::vector<Piece>>::iterator pieces)
        : owner_(&owner), pieces_(pieces) {}
    Loan(Loan&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), pieces_(other.pieces_) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (owner_ == nullptr) return;
      const std::lock_guard lock(owner_->mutex_);
      owner_->runs_.erase(pieces_);
    }

   private:
    MemoryInUse* owner_;
    std::list<std::vector<Piece>>::iterator pieces_;
  };

  // Usage error where a donated range overlaps another one, of this run or of one under way.
  Result<Loan> use(std::vector<Piece> pieces);

 private:
  std::mutex mutex_;
  std::list<std::vector<Piece>> runs_;
};

}  // namespace xyntra
