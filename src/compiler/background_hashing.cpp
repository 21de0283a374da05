#include "compiler/background_hashing.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "support/limits/background.h"

namespace xyntra {
namespace {

// Of weights that are worth a thread: once a process has one, every shared pointer counts atomically, and planning has millions.
constexpr std::size_t kWorthAThread = 64 << 20;

}  // namespace

BackgroundHashing::BackgroundHashing(const Graph& model) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < model.value_count(); ++i) {
    const Tensor& constant = model.value(ValueId(i)).constant;
    if (!constant.defined() || constant.count() <= kInlineElements) continue;
    weights_.push_back(constant);
    bytes += constant.bytes().size();
  }
  std::ranges::stable_sort(weights_, std::greater(),
                           [](const Tensor& tensor) { return tensor.bytes().size(); });
  hashes_.resize(weights_.size());
  if (bytes >= kWorthAThread) beside_ = in_background([this] { hash_all(); });
}

BackgroundHashing::~BackgroundHashing() { next_ = weights_.size(); }

void BackgroundHashing::hash_all() {
  while (true) {
    const std::size_t first = next_.fetch_add(2);  // two take little longer than one
    if (first >= weights_.size()) return;
    if (first + 1 == weights_.size()) {
      hashes_[first] = weights_[first].content_hash();
    } else {
      std::tie(hashes_[first], hashes_[first + 1]) =
          Tensor::content_hashes(weights_[first], weights_[first + 1]);
    }
  }
}

HashCache BackgroundHashing::finish() {
  if (!beside_.valid()) beside_ = in_background([this] { hash_all(); });
  hash_all();
  beside_.get();
  HashCache cache;
  for (std::size_t i = 0; i < weights_.size(); ++i) cache.add(weights_[i], std::move(hashes_[i]));
  return cache;
}

}  // namespace xyntra
