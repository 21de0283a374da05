// SHA-256 of a model's weights, computed while something else is done: planning takes one core and does not look at them.
#pragma once

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/text.h"

namespace xyntra {

class BackgroundHashing {
 public:
  explicit BackgroundHashing(const Graph& model);  // which must outlive it
  ~BackgroundHashing();  // what is not begun is left out
  BackgroundHashing(const BackgroundHashing&) = delete;
  BackgroundHashing& operator=(const BackgroundHashing&) = delete;

  HashCache finish();  // takes its share of what is left; throws LimitReached as poll_limits() does

 private:
  void hash_all();  // that nobody has begun

  std::vector<Tensor> weights_;  // the longest first
  std::vector<std::string> hashes_;
  std::atomic<std::size_t> next_{0};
  std::future<void> beside_;
};

}  // namespace xyntra
