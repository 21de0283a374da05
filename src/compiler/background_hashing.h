// SHA-256 of a model's weights, computed by a thread of its own while something else is done: planning takes one core and does not
// look at them.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "ir/graph.h"
#include "plan/text.h"
#include "support/limits.h"

namespace xyntra {

class BackgroundHashing {
 public:
  // Both must outlive it. Where there is one core, or no thread is to be had, all is done by finish().
  BackgroundHashing(const Graph& model, const Budget* budget);
  ~BackgroundHashing();  // what is not begun is left out
  BackgroundHashing(const BackgroundHashing&) = delete;
  BackgroundHashing& operator=(const BackgroundHashing&) = delete;

  HashCache finish();  // takes its share of what is left; throws LimitReached as poll_limits() does

 private:
  bool hash_next();  // false where there is nothing left

  std::vector<Tensor> weights_;  // the longest first
  std::vector<std::string> hashes_;
  std::atomic<std::size_t> next_{0};
  std::thread thread_;
};

}  // namespace xyntra
