// Any text is read as a lock or refused; what was read prints as text that is read as the same again, and passes or
// fails its checks without harm.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compiler/lock.h"
#include "plan/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xyntra;
  auto lock = parse_lock(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!lock) return 0;
  const std::string text = print_lock(*lock);
  auto again = parse_lock(text);
  if (!again || print_lock(*again) != text) std::abort();
  // A model that this lock could be of: its own graph, and no weights.
  if (lock->weights.empty() && lock->derived_weights.empty()) {
    Module model;
    model.graph = lock->plan.graph;
    lock->plan.model_hash = content_hash(model);
    if (auto target = find_target("neon")) {
      lock->plan.target = "neon";
      lock->plan.target_hash = (*target)->hash();
    }
    LockOptions options;
    options.threads = 1;
    options.budget =
        std::make_shared<Budget>(std::int64_t{1} << 28, Budget::Clock::now() + std::chrono::seconds(5),
                                 std::make_shared<CancelToken>());
    (void)load_lock(print_lock(*lock), model, options);
  }
  return 0;
}
