// Attention as torch calls it: scaled_dot_product_attention, and what its backends are called in decomposed graphs.
#include <cmath>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

// Queries, keys or values as [batch, heads, length, size].
ValueId with_heads(Call& c, ValueId x) {
  const std::size_t rank = c.rank(x);
  if (rank == 2) return c.unsqueeze(x, {0, 1});
  if (rank == 3) return c.unsqueeze(x, {1});
  if (rank == 4) return x;
  if (rank < 2) return c.wrong("attention of rank " + std::to_string(rank));
  // All batches in one axis.
  return c.reshape(x, {whole(-1), c.size(x, rank - 3), c.size(x, rank - 2), c.size(x, rank - 1)});
}

ValueId attended(Call& c, ValueId mask) {
  const ValueId q = c.tensor("query"), k = c.tensor("key"), v = c.tensor("value");
  if (c.has("dropout_p") && c.real("dropout_p") != 0) return c.unsupported("attention with dropout");
  const std::size_t rank = c.rank(q);
  if (c.rank(k) != rank || c.rank(v) != rank) return c.unsupported("attention of operands of several ranks");
  const ValueId heads_q = with_heads(c, q), heads_k = with_heads(c, k), heads_v = with_heads(c, v);
  std::vector<ValueId> inputs{heads_q, heads_k, heads_v};
  if (mask.valid()) {
    const std::size_t mask_rank = c.rank(mask);
    if (rank == 3 && mask_rank == 3) mask = c.unsqueeze(mask, {1});
    if (rank > 4 && mask_rank > 3) {
      Sizes sizes = c.shape_numbers(q);
      sizes[rank - 1] = c.size(k, rank - 2);
      mask = with_heads(c, c.expand(mask, sizes));
    }
    inputs.push_back(mask);
  }
  Attributes attributes{{"is_causal", std::int64_t{c.has("is_causal") && c.flag("is_causal")}}};
  if (c.has("scale") && c.given("scale")) attributes["scale"] = static_cast<float>(c.real("scale"));
  if (bits_of(c.dtype_of(q)) < 32) attributes["softmax_precision"] = onnx_code(DType::F32);
  const ValueId y = c.op("Attention", inputs, std::move(attributes));
  if (rank == 4) return y;
  if (rank == 2) return c.squeeze(y, {0, 1});
  if (rank == 3) return c.squeeze(y, {1});
  Sizes sizes = c.shape_numbers(q);
  sizes[rank - 1] = c.size(v, rank - 1);
  return c.reshape(y, sizes);
}

}  // namespace

Item attention(Call& c) { return attended(c, c.tensor("attn_mask")); }

// The results behind the first are what a gradient needs.
Item attention_backend(Call& c) {
  const char* mask = c.has("attn_mask") ? "attn_mask" : "attn_bias";
  return c.only_the_first(attended(c, c.has(mask) ? c.tensor(mask) : ValueId()));
}

}  // namespace xyntra::aten
