#include "support/limits/limits.h"

#include "support/limits/interrupt.h"
#include "support/limits/stop_hook.h"
#include "support/text/text.h"

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

std::string Budget::while_phase() const {
  const char* phase = this->phase();
  return phase == nullptr ? "" : std::string(" while ") + phase;
}

Status Budget::check_time() const {
  const auto found = [this]() -> Status {
    if ((token_ && token_->cancelled()) || is_interrupted()) return limit_error("cancelled" + while_phase());
    if (!deadline_ && most_of_process_ == INT64_MAX) return {};
    const Clock::time_point now = Clock::now();
    if (deadline_ && now >= *deadline_) return limit_error("out of time" + while_phase());
    if (!outgrown(now)) return {};
    return limit_error(human_bytes(outgrown_to_) + " of memory are in use, of at most " +
                       human_bytes(max_bytes_) + while_phase());
  };
  Status status = found();
  if (!status) detail::noticed_stop(this, status.error());
  return status;
}

bool Budget::stopped() const {
  if ((token_ && token_->cancelled()) || is_interrupted()) return true;
  if (!deadline_ && most_of_process_ == INT64_MAX) return false;
  const Clock::time_point now = Clock::now();
  return (deadline_ && now >= *deadline_) || outgrown(now);
}

void Budget::watch_process(std::int64_t margin_bytes) {
  const std::int64_t base = process_memory() + margin_bytes;
  most_of_process_ = max_bytes_ > INT64_MAX - base ? INT64_MAX : max_bytes_ + base;
}

bool Budget::outgrown(Clock::time_point now) const {
  constexpr std::int64_t kBetweenLooks = 10'000'000;  // ns: asking the system takes some microseconds
  if (most_of_process_ == INT64_MAX) return false;
  if (outgrown_to_.load(std::memory_order_relaxed) != 0) return true;
  const std::int64_t clock = now.time_since_epoch() / std::chrono::nanoseconds(1);
  std::int64_t next = next_look_.load(std::memory_order_relaxed);
  if (clock < next) return false;
  if (!next_look_.compare_exchange_strong(next, clock + kBetweenLooks, std::memory_order_relaxed))
    return false;  // another thread looks
  const std::int64_t bytes = process_memory();
  if (bytes <= most_of_process_) return false;
  outgrown_to_.store(bytes, std::memory_order_relaxed);
  return true;
}

Status Charge::grow(std::int64_t bytes) {
  if (!budget_) return {};
  XYNTRA_CHECK_OK(budget_->charge(bytes));
  bytes_ += bytes;
  return {};
}

}  // namespace xyntra
