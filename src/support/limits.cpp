#include "support/limits.h"

#include "support/text.h"

namespace xyntra {

Status Budget::charge(std::int64_t bytes) {
  require(bytes >= 0, "Budget::charge: negative size");
  std::int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > max_bytes_ - used) {
      return limit_error(human_bytes(bytes) + " more memory needed, but " + human_bytes(used) +
                         " of at most " + human_bytes(max_bytes_) + " are in use");
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));

  std::int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < used + bytes && !peak_.compare_exchange_weak(peak, used + bytes, std::memory_order_relaxed)) {
  }
  return {};
}

void Budget::release(std::int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

Status Budget::check_time() const {
  if (token_ && token_->cancelled()) return limit_error("cancelled");
  if (deadline_ && Clock::now() >= *deadline_) return limit_error("out of time");
  return {};
}

bool Budget::stopped() const {
  return (token_ && token_->cancelled()) || (deadline_ && Clock::now() >= *deadline_);
}

Status Charge::grow(std::int64_t bytes) {
  if (!budget_) return {};
  XYNTRA_CHECK_OK(budget_->charge(bytes));
  bytes_ += bytes;
  return {};
}

}  // namespace xyntra
