#include "compiler/background_hashing.h"

#include <algorithm>
#include <system_error>

#include "support/current_budget.h"
#include "support/threads.h"

namespace xyntra {

BackgroundHashing::BackgroundHashing(const Graph& model, const Budget* budget) {
  for (std::size_t i = 0; i < model.value_count(); ++i) {
    const Tensor& constant = model.value(ValueId(i)).constant;
    if (constant.defined() && constant.count() > kInlineElements) weights_.push_back(constant);
  }
  std::ranges::stable_sort(weights_, std::greater(),
                           [](const Tensor& tensor) { return tensor.bytes().size(); });
  hashes_.resize(weights_.size());
  if (weights_.empty() || available_threads() == 1) return;
  try {
    thread_ = std::thread([this, budget] {
      const BudgetScope scope(budget);
      try {
        while (hash_next()) {
        }
      } catch (const LimitReached&) {  // whoever waits for this one finds it, too
      }
    });
  } catch (const std::system_error&) {  // no threads to be had
  }
}

BackgroundHashing::~BackgroundHashing() {
  next_ = weights_.size();
  if (thread_.joinable()) thread_.join();
}

bool BackgroundHashing::hash_next() {
  const std::size_t first = next_.fetch_add(2);  // two take little longer than one
  if (first >= weights_.size()) return false;
  if (first + 1 == weights_.size()) {
    hashes_[first] = weights_[first].content_hash();
  } else {
    std::tie(hashes_[first], hashes_[first + 1]) =
        Tensor::content_hashes(weights_[first], weights_[first + 1]);
  }
  return true;
}

HashCache BackgroundHashing::finish() {
  while (hash_next()) {
  }
  if (thread_.joinable()) thread_.join();
  poll_limits();
  HashCache cache;
  for (std::size_t i = 0; i < weights_.size(); ++i) cache.add(weights_[i], hashes_[i]);
  return cache;
}

}  // namespace xyntra
