// Attention, RotaryEmbedding and LinearAttention of ai.onnx.
#include <cmath>

#include "ops/contraction/attention_form.h"
#include "ops/operand_shapes.h"
#include "ops/rules.h"

namespace xyntra {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

// Operands of Attention, 3-D (batch, sequence, heads * size) or 4-D (batch, heads, sequence, size).
struct AttentionOperands {
  bool packed = false;  // 3-D
  Dim query_heads, key_heads, size, value_size, new_keys, past_keys;
};

// The mask broadcasts to [batch, heads, queries, keys], and may end before the last key.
Status check_mask(const OpContext& c, const AttentionOperands& o) {
  if (!c.has_input(3)) return {};
  const Shape& mask = c.shape(3);
  const Shape full{c.dim(0, 0), o.query_heads, c.dim(0, o.packed ? 1 : 2), o.past_keys + o.new_keys};
  bool fits = mask.size() <= full.size();
  for (std::size_t d = 0; fits && d < mask.size(); ++d) {
    const Dim& size = full[full.size() - mask.size() + d];
    const bool shorter = mask[d].is_constant() && size.is_constant() && mask[d].constant() < size.constant();
    fits = mask[d].is(1) || may_be_equal(mask[d], size) || (d + 1 == mask.size() && shorter);
  }
  return fits ? Status()
              : c.fail("operand 3 (attn_mask) is " + to_string(mask) + ", must broadcast to " +
                       to_string(full));
}

Result<AttentionOperands> attention_operands(const OpContext& c) {
  AttentionOperands o;
  for (std::size_t i = 1; i < 3; ++i) {
    if (c.rank(i) != c.rank(0)) return c.fail("Q, K and V must have the same rank");
  }
  if (c.rank(0) != 3 && c.rank(0) != 4) return c.fail("Q, K and V must have rank 3 or 4");
  o.packed = c.rank(0) == 3;
  if (o.packed) {
    if (!c.has_attribute("q_num_heads") || !c.has_attribute("kv_num_heads")) {
      return c.fail("q_num_heads and kv_num_heads are needed for operands of rank 3");
    }
    o.query_heads = c.integer("q_num_heads");
    o.key_heads = c.integer("kv_num_heads");
    if (o.query_heads.constant() <= 0 || o.key_heads.constant() <= 0)
      return c.fail("head counts must be positive");
    const std::pair<const Dim&, const Dim&> packed_sizes[] = {
        {c.dim(0, 2), o.query_heads}, {c.dim(1, 2), o.key_heads}, {c.dim(2, 2), o.key_heads}};
    for (const auto& [width, heads] : packed_sizes) {
      if (!may_be_equal(modulo(width, heads), Dim(0))) {
        return c.fail("a width of " + width.to_string() + " is not a multiple of " + heads.to_string() +
                      " heads");
      }
    }
    o.size = floor_div(c.dim(0, 2), o.query_heads);
    o.value_size = floor_div(c.dim(2, 2), o.key_heads);
    o.new_keys = c.dim(1, 1);
  } else {
    o.query_heads = c.dim(0, 1);
    o.key_heads = c.dim(1, 1);
    o.size = c.dim(0, 3);
    o.value_size = c.dim(2, 3);
    o.new_keys = c.dim(1, 2);
  }
  Dim rest = modulo(o.query_heads, o.key_heads);
  if (rest.is_constant() && !rest.is(0)) {
    return c.fail("the number of query heads must be a multiple of the number of key heads");
  }
  if (c.has_input(4) != c.has_input(5)) return c.fail("past_key and past_value go together");
  for (const char* window : {"left_window_size", "right_window_size"}) {
    if (c.integer(window) < -1) return c.fail(std::string(window) + " must be -1 or no less than 0");
  }
  if (c.has_input(4)) {
    if (c.rank(4) != 4 || c.rank(5) != 4) return c.fail("past_key and past_value must have rank 4");
    o.past_keys = c.dim(4, 2);
  }
  XYNTRA_CHECK_OK(check_mask(c, o));
  return o;
}

// x at (batch, head, position, element), whichever way it is packed.
Expr head_element(const Buffer& x, bool packed, const Dim& size, Expr b, Expr head, Expr position,
                  Expr element) {
  if (packed) return x(b, position, head * Expr::size(size) + element);
  return x(b, head, position, element);
}

// New rows follow the past ones.
Expr with_past(const Expr& position, const Dim& past_length, const std::function<Expr(Expr)>& past,
               const std::function<Expr(Expr)>& fresh) {
  if (past_length.is(0)) return fresh(position);
  Expr length = Expr::size(past_length);
  return select(position < length, past(position), fresh(position - length));
}

}  // namespace

namespace rule {

Status attention(InferenceContext& c) {
  XYNTRA_TRY(AttentionOperands o, attention_operands(c));
  Dim total = o.past_keys + o.new_keys;
  Dim batch = c.dim(0, 0), queries = o.packed ? c.dim(0, 1) : c.dim(0, 2);
  if (o.packed) {
    c.set_shape(0, {batch, queries, o.query_heads * o.value_size});
  } else {
    c.set_shape(0, {batch, o.query_heads, queries, o.value_size});
  }
  if (c.output_count() > 1) c.set_shape(1, {batch, o.key_heads, total, o.size});
  if (c.output_count() > 2) c.set_shape(2, {batch, o.key_heads, total, o.value_size});
  if (c.output_count() > 3) c.set_shape(3, {batch, o.query_heads, queries, total});
  return {};
}

}  // namespace rule

namespace formula {

Status attention(FormulaContext& c) {
  XYNTRA_TRY(AttentionOperands o, attention_operands(c));
  Buffer q = c.in(0), k = c.in(1), v = c.in(2);
  AttentionForm form;
  form.batch = q.dim(0);
  form.groups = o.key_heads;
  form.repeats = floor_div(o.query_heads, o.key_heads);
  form.queries = o.packed ? q.dim(1) : q.dim(2);
  form.keys = o.past_keys + o.new_keys;
  form.size = o.size;
  form.value_size = o.value_size;
  form.type = compute_type(q.dtype());
  Expr repeats = Expr::size(form.repeats);
  double scale = c.has_attribute("scale") ? static_cast<double>(c.real("scale")) : 0;
  Expr root = c.has_attribute("scale") ? Expr::floating(form.type, std::sqrt(scale))
                                       : sqrt(1.0 / sqrt(cast(form.type, Expr::size(o.size))));
  form.query = [=, type = form.type](const Index& i) {
    return cast(type, head_element(q, o.packed, o.size, i[0], i[1] * repeats + i[2], i[3], i[4])) * root;
  };
  auto cached = [&c, o](std::size_t past, const Buffer& fresh, const Dim& size) {
    Buffer old = o.past_keys.is(0) || !c.has_input(past) ? Buffer() : c.in(past);
    return [=](const Index& i) {
      return with_past(
          i[2], old.defined() ? o.past_keys : Dim(0), [&](Expr t) { return old(i[0], i[1], t, i[3]); },
          [&](Expr t) { return head_element(fresh, o.packed, size, i[0], i[1], t, i[3]); });
    };
  };
  AttentionForm::Element key = cached(4, k, o.size);
  form.key = [=, type = form.type](const Index& i) { return cast(type, key(i)) * root; };
  form.value = cached(5, v, o.value_size);
  form.cap = softcap_change(c.real("softcap"));

  Buffer mask = c.has_input(3) ? c.in(3) : Buffer();
  Buffer lengths = c.has_input(6) ? c.in(6) : Buffer();
  const bool causal = c.flag("is_causal");
  const std::int64_t left = c.integer("left_window_size"), right = c.integer("right_window_size");
  // A window looks at the place of the query, which is a key where there are as many new ones as queries.
  const bool windows = (left >= 0 || right >= 0) && !(form.queries == o.new_keys);
  const bool masks = mask.defined() && (mask.dtype() == DType::Bool || is_float(mask.dtype()));
  form.may_see_none = windows || masks || lengths.defined();
  const Shape full{form.batch, o.query_heads, form.queries, form.keys};
  form.mask = [=, type = form.type, past = o.past_keys, queries = form.queries](Expr score, const Index& i) {
    Expr never = minus_infinity(type);
    if (mask.defined()) {
      Index at{i[0], i[1] * repeats + i[2], i[3], i[4]};
      Index own;
      for (std::size_t d = 0; d + 1 < mask.rank(); ++d) {
        std::size_t axis = 4 - mask.rank() + d;
        own.push_back(broadcast_index(mask.dim(d), at[axis], full[axis]));
      }
      own.push_back(i[4]);
      bool boolean = mask.dtype() == DType::Bool;
      // A mask shorter than the keys ends in "never"; of integers, in what comes closest.
      Expr outside = boolean                  ? Expr::boolean(false)
                     : is_float(mask.dtype()) ? minus_infinity(mask.dtype())
                                              : Expr::integer(mask.dtype(), lowest_integer(mask.dtype()));
      Expr given = mask.load_or(outside, own);
      score = boolean ? select(given, score, never) : score + cast(type, given);
    }
    const Expr length = lengths.defined() ? cast(DType::I64, lengths(i[0])) : Expr();
    // The key at the place of the query: the new ones end where the keys do.
    const Expr place = i[3] + (length.defined() ? length - Expr::size(queries) : Expr::size(past));
    if (causal) score = select(i[4] > place, never, score);
    if (left >= 0) score = select(i[4] < place - left, never, score);
    if (right >= 0) score = select(i[4] > place + right, never, score);
    if (length.defined()) score = select(i[4] < length, score, never);
    return score;
  };

  AttentionStages stages = attention_scores(c, form);
  attention_output(c, form, stages, c.out(0), [&](const Axes& rows, Expr e) {
    Expr head = rows[1] * repeats + rows[2];
    if (o.packed) return Index{rows[0], rows[3], head * Expr::size(o.value_size) + e};
    return Index{rows[0], head, rows[3], e};
  });
  if (c.wants_output(1)) {
    Axes i = c.axes(c.out_shape(1));
    c.write(c.out(1), i, key(to_index(i)));
  }
  if (c.wants_output(2)) {
    Axes i = c.axes(c.out_shape(2));
    c.write(c.out(2), i, form.value(to_index(i)));
  }
  if (c.wants_output(3)) {
    std::int64_t mode = c.integer("qk_matmul_output_mode");
    if (mode < 0 || mode > 3) return c.fail("qk_matmul_output_mode must be 0 to 3");
    Axes points = concat(stages.rows, {stages.key});
    Index place{points[0], points[1] * repeats + points[2], points[3], points[4]};
    Expr scores = mode == 3   ? stages.probability
                  : mode == 2 ? stages.scores(points)
                              : plain_scores(c, form, mode == 1)(points);
    c.write_at(c.out(3), points, place, scores);
  }
  return {};
}

// Rotates pairs of elements by the angle of the token's position.
Status rotary_embedding(FormulaContext& c) {
  Buffer x = c.in(0), cosine = c.in(1), sine = c.in(2);
  bool packed = x.rank() == 3;
  if (!packed && x.rank() != 4) return c.fail("X must have rank 3 or 4");
  if (packed && c.integer("num_heads") <= 0) return c.fail("num_heads is needed for an X of rank 3");
  Dim heads = packed ? Dim(c.integer("num_heads")) : x.dim(1);
  Dim size = packed ? floor_div(x.dim(2), heads) : x.dim(3);
  Dim length = packed ? x.dim(1) : x.dim(2);
  Dim rotated = c.integer("rotary_embedding_dim") > 0 ? Dim(c.integer("rotary_embedding_dim")) : size;
  Buffer positions = c.has_input(3) ? c.in(3) : Buffer();
  Axes i{c.axis(x.dim(0), "b"), c.axis(heads, "h"), c.axis(length, "s"), c.axis(size, "e")};
  DType type = compute_type(x.dtype());
  auto cached = [&](const Buffer& cache) {
    return [=](Expr pair) {
      if (!positions.defined()) return cast(type, cache(i[0], i[2], pair));
      return cast(type, cache(cast(DType::I64, positions(i[0], i[2])), pair));
    };
  };
  Expr value =
      rotated_element([&](Expr e) { return cast(type, head_element(x, packed, size, i[0], i[1], i[2], e)); },
                      cached(cosine), cached(sine), i[3], rotated, c.flag("interleaved"));
  Index place = packed ? Index{i[0], i[2], i[1] * Expr::size(size) + i[3]} : to_index(i);
  c.write_at(c.out(), i, place, value);
  return {};
}

}  // namespace formula

// ---- LinearAttention: a recurrence over a matrix state per head

namespace rule {

Status linear_attention(InferenceContext& c) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (c.rank(i) != 3) return c.fail("query, key and value must have rank 3");
  }
  std::int64_t query_heads = c.integer("q_num_heads"), heads = c.integer("kv_num_heads");
  if (heads <= 0 || query_heads <= 0 || query_heads % heads != 0) {
    return c.fail("q_num_heads must be a positive multiple of kv_num_heads");
  }
  Dim value_size = floor_div(c.dim(2, 2), Dim(heads));
  c.set_shape(0, {c.dim(0, 0), c.dim(0, 1), value_size * Dim(query_heads)});
  if (c.output_count() > 1) {
    c.set_shape(1, {c.dim(0, 0), heads, floor_div(c.dim(0, 2), Dim(query_heads)), value_size});
    if (c.has_input(3)) {
      c.set_dtype(1, c.dtype(3));
    } else {
      c.set_dtype(1, c.dtype(0));
    }
  }
  return {};
}

}  // namespace rule

namespace formula {

//   linear        S' = S + k ⊗ v                      gated        S' = exp(g) S + k ⊗ v
//   delta         S' = S + β k ⊗ (v - Sᵀ k)           gated_delta  S' = D + β k ⊗ (v - Dᵀ k), D = exp(g) S
//   o = scale * qᵀ S'
Status linear_attention(FormulaContext& c) {
  Buffer q = c.in(0), k = c.in(1), v = c.in(2);
  Dim heads = c.integer("kv_num_heads"), repeats = floor_div(Dim(c.integer("q_num_heads")), heads);
  Dim size = floor_div(k.dim(2), heads), value_size = floor_div(v.dim(2), heads);
  const std::string& update = c.text("update_rule");
  bool gated = update == "gated" || update == "gated_delta",
       delta = update == "delta" || update == "gated_delta";
  if (!gated && !delta && update != "linear") return c.fail("unknown update_rule '" + update + "'");
  if (gated && !c.has_input(4)) return c.fail("update_rule '" + update + "' needs decay");
  if (delta && !c.has_input(5)) return c.fail("update_rule '" + update + "' needs beta");
  DType type = compute_type(q.dtype());
  Axis b = c.axis(q.dim(0), "b"), h = c.axis(heads, "h"), d = c.axis(size, "d"), e = c.axis(value_size, "e");
  Axis inner = c.axis(size, "k"), r = c.axis(repeats, "r");
  Axes state_axes{b, h, d, e};
  Expr initial = c.has_input(3) ? cast(type, c.in(3)(state_axes)) : Expr::floating(type, 0);
  Buffer state = c.carry("state", type, state_axes, initial);
  Axis t = c.begin_scan(q.dim(1), {state});
  auto at = [&](const Buffer& x, const Dim& width, const Expr& head, const Expr& element) {
    return cast(type, x(b, t, head * Expr::size(width) + element));
  };
  Buffer decayed = state;
  if (gated) {
    Buffer g = c.in(4);
    // One for each head, or one for each row of its state: where the width is open, each run tells.
    const Dim width = floor_div(g.dim(2), heads);
    const bool per_head = g.dim(2) == heads && !(size == Dim(1)), per_row = g.dim(2) == heads * size;
    Expr gate = per_head  ? cast(type, g(b, t, h))
                : per_row ? at(g, size, h, d)
                          : at(g, width, h, min(d, Expr::size(width - 1)));
    decayed = c.map("decayed", state_axes, exp(gate) * state(state_axes));
  }
  Expr fresh = at(v, value_size, h, e);
  if (delta) {
    Buffer beta = c.in(5);
    Expr rate = cast(type, beta(b, t, broadcast_index(beta.dim(2), h, heads)));
    Buffer error =
        c.reduce("error", {b, h, e}, Reducer::Sum, {inner}, decayed(b, h, inner, e) * at(k, size, h, inner),
                 [&](Expr recalled) { return rate * (fresh - recalled); });
    fresh = error(b, h, e);
  }
  c.next(state, state_axes, decayed(state_axes) + at(k, size, h, d) * fresh);
  Expr scale =
      c.real("scale") != 0 ? Expr::floating(type, c.real("scale")) : 1.0 / sqrt(cast(type, Expr::size(size)));
  Expr head = h * Expr::size(repeats) + r;
  c.write_reduced_at(c.out(0), {b, h, r, e}, {b, t, head * Expr::size(value_size) + e}, Reducer::Sum, {inner},
                     at(q, size, head, inner) * c.next_of(state)(b, h, inner, e),
                     [&](Expr o) { return scale * o; });
  c.end_scan();
  if (c.wants_output(1)) c.write(c.out(1), state_axes, state(state_axes));
  return {};
}

}  // namespace formula
}  // namespace xyntra
