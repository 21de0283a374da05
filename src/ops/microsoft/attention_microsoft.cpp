// com.microsoft's attention family: Attention, MultiHeadAttention, GroupQueryAttention, RotaryEmbedding.
#include <cmath>

#include "ops/contraction/attention_form.h"
#include "ops/operand_shapes.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

Expr scale_of(const OpContext& c, DType type, const Dim& size) {
  if (c.has_attribute("scale") && c.real("scale") != 0) return Expr::floating(type, c.real("scale"));
  return 1.0 / sqrt(cast(type, Expr::size(size)));
}

// Where the bias of a score is: at [b, head, s, t], broadcast over batch and heads.
Index bias_index(const Buffer& bias, const Dim& batch, const Dim& heads, const Expr& head, const Index& i) {
  return {broadcast_index(bias.dim(0), i[0], batch), broadcast_index(bias.dim(1), head, heads), i[3], i[4]};
}

// Where the keys of batch b begin that a mask of rank 1 allows, as well as where they end: only 2B numbers say so.
Expr first_key(const Buffer& mask, const Dim& batch, const Expr& b) {
  Expr at = b + Expr::size(batch), zero = Expr::index(0);
  if (mask.dim(0) == batch) return zero;
  if (mask.dim(0) == batch * Dim(2)) return cast(DType::I64, mask(at));
  Expr start = cast(DType::I64, mask.load_or(Expr::integer(mask.dtype(), 0), {at}));
  return select(equal(Expr::size(mask.dim(0)), Expr::size(batch * Dim(2))), start, zero);
}

// A mask of integers in the forms these ops take: (B) lengths, (2B) ends then starts, (B, T), (B, S, T) and
// (B, 1, M, M). Masked scores get `filter` added.
Expr with_integer_mask(const Buffer& mask, const Dim& batch, const Dim& past, float filter, Expr score,
                       const Index& i) {
  Expr allowed;
  auto at = [&](Expr value) { return cast(DType::I64, std::move(value)); };
  if (mask.rank() == 1) {
    allowed = i[4] < at(mask(i[0]));
    Expr first = first_key(mask, batch, i[0]);
    if (!first.is_integer_constant(0)) allowed = allowed & (i[4] >= first);
  } else if (mask.rank() == 2) {
    allowed = not_equal(at(mask(i[0], i[4])), 0);
  } else if (mask.rank() == 3) {
    allowed = not_equal(at(mask(i[0], i[3], i[4])), 0);
  } else {
    allowed = not_equal(at(mask(i[0], Expr::index(0), i[3] + Expr::size(past), i[4])), 0);
  }
  return select(allowed, score, score + filter);
}

}  // namespace

namespace rule {

namespace {

Status projected_attention(InferenceContext& c, std::size_t past_operand) {
  if (c.rank(0) != 3 || c.rank(1) != 2) return c.fail("input must have rank 3 and weights rank 2");
  if (c.flag("do_rotary")) return c.unsupported("do_rotary is not supported");
  if (c.flag("past_present_share_buffer")) return c.unsupported("past_present_share_buffer is not supported");
  auto sizes = c.integers("qkv_hidden_sizes");
  if (!sizes.empty() && sizes.size() != 3) return c.fail("qkv_hidden_sizes must have three elements");
  Dim hidden = sizes.empty() ? floor_div(c.dim(1, 1), Dim(3)) : Dim(sizes[0]);
  Dim value_hidden = sizes.empty() ? hidden : Dim(sizes[2]);
  c.set_shape(0, {c.dim(0, 0), c.dim(0, 1), value_hidden});
  if (c.output_count() > 1) {
    Dim heads = c.integer("num_heads");
    if (!heads.is_constant() || heads.constant() <= 0) return c.fail("num_heads must be positive");
    Dim past = c.has_input(past_operand) ? c.dim(past_operand, 3) : Dim(0);
    c.set_shape(1, {2, c.dim(0, 0), heads, past + c.dim(0, 1), floor_div(hidden, heads)});
  }
  return {};
}

}  // namespace

Status microsoft_attention(InferenceContext& c) { return projected_attention(c, 4); }
Status quantized_attention(InferenceContext& c) { return projected_attention(c, 8); }

Status multi_head_attention(InferenceContext& c) {
  std::int64_t heads = c.integer("num_heads");
  if (heads <= 0) return c.fail("num_heads must be positive");
  if (c.rank(0) == 5 || (c.has_input(1) && c.rank(1) == 5))
    return c.unsupported("packed QKV is not supported");
  if (c.rank(0) != 3 || !c.has_input(1) || !c.has_input(2)) return c.fail("query, key and value are needed");
  bool cross = c.rank(1) == 4;  // (B, N, L, H): keys of an encoder, as they are
  Dim value_size = cross ? c.dim(2, 3) : floor_div(c.dim(2, 2), Dim(heads));
  Dim size = floor_div(c.dim(0, 2), Dim(heads));
  Dim keys = cross ? c.dim(1, 2) : c.dim(1, 1);
  Dim past = c.has_input(6) ? c.dim(6, 2) : Dim(0);
  c.set_shape(0, {c.dim(0, 0), c.dim(0, 1), value_size * Dim(heads)});
  if (c.output_count() > 1) c.set_shape(1, {c.dim(0, 0), heads, past + keys, size});
  if (c.output_count() > 2) c.set_shape(2, {c.dim(0, 0), heads, past + keys, value_size});
  if (c.output_count() > 3) c.set_shape(3, {c.dim(0, 0), heads, c.dim(0, 1), past + keys});
  return {};
}

Status group_query_attention(InferenceContext& c) {
  std::int64_t heads = c.integer("num_heads"), groups = c.integer("kv_num_heads");
  if (heads <= 0 || groups <= 0 || heads % groups != 0) {
    return c.fail("num_heads must be a positive multiple of kv_num_heads");
  }
  if (c.rank(0) != 3) return c.fail("query must have rank 3");
  bool packed = !c.has_input(1);
  if (packed == c.has_input(2)) return c.fail("key and value must both be given, or neither");
  std::int64_t parts = packed ? heads + 2 * groups : heads;
  XYNTRA_CHECK_OK(require_multiple(c, c.dim(0, 2), parts, "the width of the query"));
  const Dim &batch = c.dim(0, 0), &queries = c.dim(0, 1), size = floor_div(c.dim(0, 2), Dim(parts));
  for (std::size_t i : {1, 2}) XYNTRA_CHECK_OK(require_shape(c, i, {batch, queries, size * Dim(groups)}));
  if (c.has_input(3) != c.has_input(4))
    return c.fail("past_key and past_value must both be given, or neither");
  for (std::size_t i : {3, 4, 10}) {
    if (c.has_input(i) && c.rank(i) != 4) return c.fail(operand_label(c, i) + " must have rank 4");
  }
  for (std::size_t i : {3, 4}) {
    if (c.has_input(i)) XYNTRA_CHECK_OK(require_shape(c, i, {batch, groups, c.dim(3, 2), size}));
  }
  if (c.has_input(7) && c.rank(7) != 2) return c.fail(operand_label(c, 7) + " must have rank 2");
  if (c.has_input(7) && c.dim(7, 1).is_constant() && size.is_constant() &&
      c.dim(7, 1).constant() > size.constant() / 2) {
    return c.fail(operand_label(c, 7) + " rotates " + c.dim(7, 1).to_string() + " pairs, a head has " +
                  size.to_string() + " elements");
  }
  XYNTRA_CHECK_OK(require_shape(c, 9, {batch, queries}));
  XYNTRA_CHECK_OK(require_shape(c, 11, {heads}));
  c.set_shape(0, {batch, queries, size * Dim(heads)});
  auto total = c.elements(6);
  Dim length = total && total->size() == 1 ? (*total)[0] : c.unknown_dim(1, 2);
  if (c.has_input(3)) length = max(length, c.dim(3, 2));
  for (std::size_t i = 1; i < 3 && i < c.output_count(); ++i)
    c.set_shape(i, {c.dim(0, 0), groups, length, size});
  if (c.output_count() > 3) return c.unsupported("the output output_qk is not supported");
  return {};
}

}  // namespace rule

namespace formula {

namespace {

// Where Attention and QAttention have the operands they share; SIZE_MAX where one has none.
struct ProjectedOperands {
  std::size_t mask, past, bias;
};

// Attention over Q, K and V that are concatenated in `projected` (batch, sequence, Q | K | V).
Status projected_attention(FormulaContext& c, const Buffer& projected, ProjectedOperands operands) {
  auto sizes = c.integers("qkv_hidden_sizes");
  Dim heads = c.integer("num_heads");
  Dim hidden = sizes.empty() ? floor_div(projected.dim(2), Dim(3)) : Dim(sizes[0]);
  Dim value_hidden = sizes.empty() ? hidden : Dim(sizes[2]);
  DType type = projected.dtype();
  AttentionForm form;
  form.batch = projected.dim(0);
  form.groups = heads;
  form.repeats = 1;
  form.queries = projected.dim(1);
  form.size = floor_div(hidden, heads);
  form.value_size = floor_div(value_hidden, heads);
  form.type = type;
  auto operand = [&c](std::size_t i) { return c.has_input(i) ? c.in(i) : Buffer(); };
  Buffer past = operand(operands.past);
  Dim past_length = past.defined() ? past.dim(3) : Dim(0);
  form.keys = past_length + projected.dim(1);
  Expr scale = scale_of(c, type, form.size), size = Expr::size(form.size),
       value_size = Expr::size(form.value_size);
  form.query = [=](const Index& p) { return projected(p[0], p[3], p[1] * size + p[4]) * scale; };
  auto cached = [=](std::int64_t which, Expr offset, Expr width) {
    return [=](const Index& p) {
      auto fresh = [&](Expr t) { return projected(p[0], t, offset + p[1] * width + p[3]); };
      if (!past.defined()) return fresh(p[2]);
      Expr length = Expr::size(past_length);
      return select(p[2] < length, cast(type, past(Expr::index(which), p[0], p[1], p[2], p[3])),
                    fresh(p[2] - length));
    };
  };
  form.key = cached(0, Expr::size(hidden), size);
  form.value = cached(1, Expr::size(hidden * Dim(2)), value_size);
  Buffer mask = operand(operands.mask), bias = operand(operands.bias);
  bool causal = c.flag("unidirectional");
  float filter = c.real("mask_filter_value");
  form.mask = [=, batch = form.batch](Expr score, const Index& p) {
    if (bias.defined()) score = score + cast(type, bias(bias_index(bias, batch, heads, p[1], p)));
    if (mask.defined()) score = with_integer_mask(mask, batch, past_length, filter, std::move(score), p);
    if (causal) score = select(p[4] > p[3] + Expr::size(past_length), score + filter, score);
    return score;
  };
  AttentionStages stages = attention_scores(c, form);
  attention_output(c, form, stages, c.out(0), [&](const Axes& rows, Expr e) {
    return Index{rows[0], rows[3], rows[1] * value_size + e};
  });
  if (c.wants_output(1)) {
    Axes p = c.axes(Shape{form.batch, form.groups, form.keys, form.size});
    for (std::int64_t which : {0, 1}) {
      Expr element = which == 0 ? form.key(to_index(p)) : form.value(to_index(p));
      c.write_at(c.out(1), p, inserted(to_index(p), 0, Expr::index(which)), element);
    }
  }
  return {};
}

}  // namespace

// Q, K and V are projections of one input: x · w + b.
Status microsoft_attention(FormulaContext& c) {
  Buffer x = c.in(0), w = c.in(1);
  DType type = compute_type(x.dtype());
  Axis b = c.axis(x.dim(0), "b"), s = c.axis(x.dim(1), "s"), n = c.axis(w.dim(1), "n"),
       i = c.axis(x.dim(2), "i");
  Buffer projected =
      c.reduce("qkv", {b, s, n}, Reducer::Sum, {i}, cast(type, x(b, s, i)) * cast(type, w(i, n)),
               [&](Expr sum) { return c.has_input(2) ? sum + cast(type, c.in(2)(n)) : sum; });
  return projected_attention(c, projected, {3, 4, 5});
}

// The same over quantized x and w: the matmul is one of integers, scaled and biased in float.
Status quantized_attention(FormulaContext& c) {
  Buffer x = c.in(0), w = c.in(1), bias = c.in(2), x_scale = c.in(3), w_scale = c.in(4);
  DType type = compute_type(bias.dtype());
  Axis b = c.axis(x.dim(0), "b"), s = c.axis(x.dim(1), "s"), n = c.axis(w.dim(1), "n"),
       i = c.axis(x.dim(2), "i");
  auto only = [](const Buffer& one) { return one.rank() == 0 ? one() : one(Expr::index(0)); };
  auto per_column = [&](const Buffer& one) {
    return one.rank() == 0 ? one() : one(broadcast_index(one.dim(0), n, n.extent));
  };
  Expr left = cast(DType::I32, x(b, s, i)), right = cast(DType::I32, w(i, n));
  if (c.has_input(6)) left = left - cast(DType::I32, only(c.in(6)));
  if (c.has_input(7)) right = right - cast(DType::I32, per_column(c.in(7)));
  Buffer projected = c.reduce("qkv", {b, s, n}, Reducer::Sum, {i}, left * right, [&](Expr sum) {
    Expr scale = cast(type, only(x_scale)) * cast(type, per_column(w_scale));
    return cast(type, sum) * scale + cast(type, bias(n));
  });
  return projected_attention(c, projected, {5, 8, SIZE_MAX});
}

Status multi_head_attention(FormulaContext& c) {
  Buffer q = c.in(0), k = c.in(1), v = c.in(2);
  Dim heads = c.integer("num_heads");
  bool cross = k.rank() == 4;
  AttentionForm form;
  form.batch = q.dim(0);
  form.groups = heads;
  form.repeats = 1;
  form.queries = q.dim(1);
  form.size = floor_div(q.dim(2), heads);
  form.value_size = cross ? v.dim(3) : floor_div(v.dim(2), heads);
  form.type = compute_type(q.dtype());
  DType type = form.type;
  Buffer bias = c.has_input(3) ? c.in(3) : Buffer();
  Buffer past_key = c.has_input(6) ? c.in(6) : Buffer(), past_value = c.has_input(7) ? c.in(7) : Buffer();
  Dim past = past_key.defined() ? past_key.dim(2) : Dim(0);
  form.keys = past + (cross ? k.dim(2) : k.dim(1));
  Expr scale = scale_of(c, type, form.size), size = Expr::size(form.size),
       value_size = Expr::size(form.value_size);
  Expr hidden = Expr::size(q.dim(2));
  auto biased = [=](Expr value, Expr place) {
    return bias.defined() ? cast(type, value) + cast(type, bias(place)) : cast(type, value);
  };
  form.query = [=](const Index& p) {
    Expr place = p[1] * size + p[4];
    return biased(q(p[0], p[3], place), place) * scale;
  };
  auto cached = [=](const Buffer& fresh, const Buffer& old, Expr offset, Expr width) {
    return [=](const Index& p) {
      Expr place = p[1] * width + p[3];
      auto read = [&](Expr t) {
        if (cross) return cast(type, fresh(p[0], p[1], t, p[3]));
        return biased(fresh(p[0], t, place), offset + place);
      };
      if (!old.defined()) return read(p[2]);
      Expr length = Expr::size(past);
      return select(p[2] < length, cast(type, old(p[0], p[1], p[2], p[3])), read(p[2] - length));
    };
  };
  form.key = cached(k, past_key, hidden, size);
  form.value = cached(v, past_value, hidden * 2, value_size);
  Buffer mask = c.has_input(4) ? c.in(4) : Buffer(), score_bias = c.has_input(5) ? c.in(5) : Buffer();
  bool causal = c.flag("unidirectional");
  float filter = c.real("mask_filter_value");
  form.mask = [=, batch = form.batch](Expr score, const Index& p) {
    if (score_bias.defined())
      score = score + cast(type, score_bias(bias_index(score_bias, batch, heads, p[1], p)));
    if (mask.defined()) score = with_integer_mask(mask, batch, past, filter, std::move(score), p);
    if (causal) score = select(p[4] > p[3] + Expr::size(past), score + filter, score);
    return score;
  };
  AttentionStages stages = attention_scores(c, form);
  attention_output(c, form, stages, c.out(0), [&](const Axes& rows, Expr e) {
    return Index{rows[0], rows[3], rows[1] * value_size + e};
  });
  for (std::size_t o = 1; o < 3; ++o) {
    if (!c.wants_output(o)) continue;
    Axes p = c.axes(c.out_shape(o));
    c.write(c.out(o), p, o == 1 ? form.key(to_index(p)) : form.value(to_index(p)));
  }
  if (c.wants_output(3)) {
    Axes points = concat(stages.rows, {stages.key});
    c.write_at(c.out(3), points, {points[0], points[1], points[3], points[4]},
               plain_scores(c, form, false)(points));
  }
  return {};
}

namespace {

// How many keys the cache has after this call: as many as its result, where that is wanted. Else at least those that are
// valid; the ones behind them are masked.
Dim cache_length(const FormulaContext& c) {
  for (std::size_t output : {1, 2}) {
    if (c.wants_output(output)) return c.out_shape(output)[2];
  }
  return (c.has_input(3) ? c.dim(3, 2) : Dim(0)) + c.dim(0, 1);
}

}  // namespace

// Causal attention over a cache. seqlens_k[b] + 1 keys are valid for batch b after this call; the new ones are the
// last `queries` of them. Rotation is applied to queries and to new keys.
Status group_query_attention(FormulaContext& c) {
  Buffer q = c.in(0), lengths = c.in(5);
  bool packed = !c.has_input(1);
  Dim heads = c.integer("num_heads"), groups = c.integer("kv_num_heads");
  AttentionForm form;
  form.batch = q.dim(0);
  form.groups = groups;
  form.repeats = floor_div(heads, groups);
  form.queries = q.dim(1);
  form.size = form.value_size = floor_div(q.dim(2), packed ? heads + groups * Dim(2) : heads);
  form.type = compute_type(q.dtype());
  form.keys = cache_length(c);
  DType type = form.type;
  Expr size = Expr::size(form.size), repeats = Expr::size(form.repeats), queries = Expr::size(form.queries);
  Buffer key_input = packed ? q : c.in(1), value_input = packed ? q : c.in(2);
  Expr key_offset = packed ? Expr::size(heads) * size : Expr::index(0);
  Expr value_offset = packed ? Expr::size(heads + groups) * size : Expr::index(0);
  Buffer past_key = c.has_input(3) ? c.in(3) : Buffer(), past_value = c.has_input(4) ? c.in(4) : Buffer();
  auto valid_keys = [=](const Expr& b) {
    return cast(DType::I64, lengths.rank() == 2 ? lengths(b, Expr::index(0)) : lengths(b)) + 1;
  };
  // A first prompt may be padded: then all its tokens start at zero.
  auto past_length = [=](const Expr& b) { return max(valid_keys(b) - queries, Expr::index(0)); };

  bool rotate = c.flag("do_rotary"), interleaved = c.flag("rotary_interleaved");
  if (rotate && (!c.has_input(7) || !c.has_input(8)))
    return c.fail("do_rotary needs cos_cache and sin_cache");
  Buffer cosine = rotate ? c.in(7) : Buffer(), sine = rotate ? c.in(8) : Buffer();
  Buffer positions = c.has_input(9) ? c.in(9) : Buffer();
  auto rotated = [=, dim = rotate ? cosine.dim(1) * Dim(2) : Dim(0)](
                     const std::function<Expr(Expr)>& at, const Expr& b, const Expr& s, const Expr& element) {
    if (!rotate) return at(element);
    Expr position = positions.defined() ? cast(DType::I64, positions(b, s)) : past_length(b) + s;
    auto cached = [&](const Buffer& cache) {
      return [=](Expr pair) { return cast(type, cache(position, pair)); };
    };
    return rotated_element(at, cached(cosine), cached(sine), element, dim, interleaved);
  };

  // New keys and values are laid into the cache behind the past ones, once, so that rotation is done once.
  Axis b = c.axis(form.batch, "b"), g = c.axis(groups, "g"), t = c.axis(form.keys, "t"),
       e = c.axis(form.size, "e");
  auto cache = [&](const char* name, const Buffer& fresh, const Expr& offset, const Buffer& old,
                   bool rotates) {
    Expr past = past_length(b), step = t - past;
    auto read = [&](Expr element) { return cast(type, fresh(b, step, offset + g * size + element)); };
    Expr added = rotates ? rotated(read, b, step, e) : read(e);
    Expr zero = Expr::floating(type, 0);
    Expr kept = old.defined() ? cast(type, old.load_or(Expr::floating(old.dtype(), 0), {b, g, t, e})) : zero;
    Expr behind = old.defined() ? kept : zero;
    return c.map(name, {b, g, t, e}, select(t < past, kept, select(step < queries, added, behind)));
  };
  Buffer keys = cache("keys", key_input, key_offset, past_key, true);
  Buffer values = cache("values", value_input, value_offset, past_value, false);
  Expr scale = scale_of(c, type, form.size);
  form.query = [=](const Index& p) {
    auto read = [&](Expr element) {
      return cast(type, q(p[0], p[3], (p[1] * repeats + p[2]) * size + element));
    };
    return rotated(read, p[0], p[3], p[4]) * scale;
  };
  form.key = [=](const Index& p) { return keys(p); };
  form.value = [=](const Index& p) { return values(p); };
  form.cap = softcap_change(c.real("softcap"));
  Buffer bias = c.has_input(10) ? c.in(10) : Buffer();
  std::int64_t window = c.integer("local_window_size");
  form.mask = [=, batch = form.batch](Expr score, const Index& p) {
    Expr position = past_length(p[0]) + p[3], never = minus_infinity(type);
    if (bias.defined()) {  // may end before the last key of the cache
      Index at = bias_index(bias, batch, heads, p[1] * repeats + p[2], p);
      score = score + cast(type, bias.load_or(Expr::floating(bias.dtype(), 0), at));
    }
    score = select(p[4] > position, never, score);
    if (window > 0) score = select(p[4] + window <= position, never, score);
    return score;
  };
  Buffer sinks = c.has_input(11) ? c.in(11) : Buffer();
  if (sinks.defined()) {
    form.sink = [=](const Index& p) { return cast(type, sinks(p[1] * repeats + p[2])); };
  } else if (c.integer("smooth_softmax") == 1) {
    form.sink = [=](const Index&) { return Expr::floating(type, 0); };
  }
  AttentionStages stages = attention_scores(c, form);
  attention_output(c, form, stages, c.out(0), [&](const Axes& rows, Expr element) {
    return Index{rows[0], rows[3], (rows[1] * repeats + rows[2]) * size + element};
  });
  if (c.wants_output(1)) c.write(c.out(1), {b, g, t, e}, keys(b, g, t, e));
  if (c.wants_output(2)) c.write(c.out(2), {b, g, t, e}, values(b, g, t, e));
  return {};
}

Status microsoft_rotary_embedding(FormulaContext& c) {
  Buffer x = c.in(0), positions = c.in(1), cosine = c.in(2), sine = c.in(3);
  bool packed = x.rank() == 3;
  if (!packed && x.rank() != 4) return c.fail("input must have rank 3 or 4");
  Dim rotated = cosine.dim(1) * Dim(2);
  Dim heads = !packed                      ? x.dim(1)
              : c.integer("num_heads") > 0 ? Dim(c.integer("num_heads"))
                                           : floor_div(x.dim(2), rotated);
  Dim size = packed ? floor_div(x.dim(2), heads) : x.dim(3);
  Dim length = packed ? x.dim(1) : x.dim(2);
  DType type = compute_type(x.dtype());
  Axes i{c.axis(x.dim(0), "b"), c.axis(heads, "h"), c.axis(length, "s"), c.axis(size, "e")};
  // One position for the whole sequence's start, or one per token.
  Expr position = positions.rank() == 2 ? cast(DType::I64, positions(i[0], i[2]))
                                        : cast(DType::I64, positions(Expr::index(0))) + i[2];
  auto read = [&](Expr e) {
    if (packed) return cast(type, x(i[0], i[2], i[1] * Expr::size(size) + e));
    return cast(type, x(i[0], i[1], i[2], e));
  };
  auto cached = [&](const Buffer& cache) {
    return [=](Expr pair) { return cast(type, cache(position, pair)); };
  };
  Expr value = rotated_element(read, cached(cosine), cached(sine), i[3], rotated, c.flag("interleaved"));
  Expr scaled = c.real("scale") == 1.0F ? value : value * c.real("scale");
  c.write_at(c.out(), i, packed ? Index{i[0], i[2], i[1] * Expr::size(size) + i[3]} : to_index(i), scaled);
  return {};
}

}  // namespace formula
}  // namespace xyntra
