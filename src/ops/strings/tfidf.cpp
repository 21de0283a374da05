// TfIdfVectorizer: how often each n-gram of a pool occurs in a row. Tokens that are strings go by their number in the pool.
#include <algorithm>
#include <cstdint>
#include <map>

#include "ops/host_context.h"

namespace xyntra {
namespace {

// Every n-gram of the pool with the column its count goes to, by length.
struct GramPool {
  std::map<std::vector<std::int64_t>, std::size_t> grams;  // n-gram -> its number in the pool
  std::vector<std::int64_t> columns;  // number -> column
  std::vector<float> weights;  // number -> weight; empty: all 1
  std::map<std::string, std::int64_t, std::less<>> words;  // string -> the token it stands for
};

Result<GramPool> read_pool(const OpContext& c) {
  GramPool pool;
  pool.columns = c.integers("ngram_indexes");
  pool.weights = c.reals("weights");
  std::vector<std::int64_t> tokens = c.integers("pool_int64s"), starts = c.integers("ngram_counts");
  if (is_string(c.dtype(0))) {
    tokens.clear();
    for (const std::string& text : c.texts("pool_strings"))
      tokens.push_back(pool.words.emplace(text, std::ssize(pool.words)).first->second);
  } else if (tokens.empty() && !c.texts("pool_strings").empty()) {
    return c.fail("the pool is of strings, X is of integers");
  }
  for (std::size_t level = 0; level < starts.size(); ++level) {
    std::int64_t begin = starts[level];
    std::int64_t end =
        level + 1 < starts.size() ? starts[level + 1] : static_cast<std::int64_t>(tokens.size());
    auto length = static_cast<std::int64_t>(level) + 1;
    if (begin < 0 || end < begin || end > static_cast<std::int64_t>(tokens.size()) ||
        (end - begin) % length != 0) {
      return c.fail("ngram_counts does not divide the pool into n-grams");
    }
    for (std::int64_t at = begin; at < end; at += length) {
      pool.grams.emplace(std::vector(tokens.begin() + at, tokens.begin() + at + length), pool.grams.size());
    }
  }
  if (pool.grams.size() != pool.columns.size())
    return c.fail("ngram_indexes needs one element for each n-gram of the pool");
  if (!pool.weights.empty() && pool.weights.size() != pool.columns.size()) {
    return c.fail("weights needs one element for each n-gram of the pool");
  }
  for (std::int64_t column : pool.columns) {
    if (column < 0) return c.fail("ngram_indexes must not be negative");
  }
  return pool;
}

// Of X, in its order; -1 where no word of the pool is meant.
std::vector<std::int64_t> tokens_of(const GramPool& pool, const Tensor& x) {
  if (!is_string(x.dtype())) return x.to_integers();
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto known = pool.words.find(x.string_at(i));
    tokens.push_back(known == pool.words.end() ? -1 : known->second);
  }
  return tokens;
}

std::int64_t width_of(const OpContext& c) {
  std::int64_t width = 0;
  for (std::int64_t column : c.integers("ngram_indexes"))
    width = std::max(width, std::min(column, INT64_MAX - 1) + 1);
  return width;
}

}  // namespace

namespace rule {

Status tfidf_vectorizer(InferenceContext& c) {
  if (c.rank(0) != 1 && c.rank(0) != 2) return c.fail("X must have rank 1 or 2");
  if (c.integer("min_gram_length") < 1) return c.fail("min_gram_length must be at least 1");
  Shape shape{width_of(c)};
  if (c.rank(0) == 2) shape.insert(shape.begin(), c.dim(0, 0));
  c.set_shape(0, std::move(shape));
  return {};
}

}  // namespace rule

namespace host {

Status tfidf_vectorizer(HostContext& c) {
  XYNTRA_TRY(GramPool pool, read_pool(c));
  const std::string& mode = c.text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") return c.fail("mode must be TF, IDF or TFIDF");
  const Tensor& x = c.input(0);
  std::int64_t rows = x.rank() == 2 ? x.dims()[0] : 1, length = x.dims().back(), width = width_of(c);
  XYNTRA_TRY(Tensor y, c.allocate(DType::F32, x.rank() == 2 ? Dims{rows, width} : Dims{width}));
  auto counts = y.mutable_view<float>();
  const std::vector<std::int64_t> tokens = tokens_of(pool, x);
  std::int64_t longest = c.integer("max_gram_length");
  std::int64_t most_skipped = std::min(c.integer("max_skip_count"), length);  // more reach no token
  for (std::int64_t row = 0; row < rows; ++row) {
    XYNTRA_CHECK_OK(c.worked(1));
    for (std::int64_t n = c.integer("min_gram_length"); n <= std::min(longest, length); ++n) {
      // A single token has no gaps: skipping would count it again.
      for (std::int64_t step = 1; step - 1 <= (n == 1 ? 0 : most_skipped); ++step) {
        if ((n - 1) > (length - 1) / step) break;
        for (std::int64_t start = 0; start + (n - 1) * step < length; ++start) {
          XYNTRA_CHECK_OK(c.worked(n));
          std::vector<std::int64_t> gram;
          for (std::int64_t i = 0; i < n; ++i)
            gram.push_back(tokens[static_cast<std::size_t>(row * length + start + i * step)]);
          auto found = pool.grams.find(gram);
          if (found == pool.grams.end()) continue;
          counts[static_cast<std::size_t>(row * width + pool.columns[found->second])] += 1;
        }
      }
    }
    for (std::size_t number = 0; mode != "TF" && number < pool.columns.size(); ++number) {
      float& count = counts[static_cast<std::size_t>(row * width + pool.columns[number])];
      float weight = pool.weights.empty() ? 1.0F : pool.weights[number];
      count = mode == "IDF" ? (count > 0 ? weight : 0) : count * weight;
    }
  }
  c.set_result(0, std::move(y));
  return {};
}

}  // namespace host
}  // namespace xyntra
