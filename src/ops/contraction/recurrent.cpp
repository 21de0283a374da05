// RNN, GRU, LSTM: one scan over time, for both directions where they do the same. The matmuls with the input do not wait for the
// state, so they are one contraction before the scan, of all steps, directions and gates; inside stay the matmuls with the state and
// the gates.
#include <functional>

#include "ops/elementwise/activation.h"
#include "ops/elementwise/quantization.h"
#include "ops/operand_shapes.h"
#include "ops/operands.h"

namespace xyntra {
namespace {

struct CellKind {
  std::int64_t gates;
  std::vector<std::string> activations;  // of one direction
};

const CellKind kRnn{1, {"Tanh"}}, kGru{3, {"Sigmoid", "Tanh"}}, kLstm{4, {"Sigmoid", "Tanh", "Tanh"}};

Result<std::size_t> directions_of(const OpContext& c) {
  const std::string& direction = c.text("direction");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction == "bidirectional") return 2;
  return c.fail("direction '" + direction + "' is not known");
}

// com.microsoft.DynamicQuantizeLSTM: W and R are integers and transposed.
bool is_quantized(const OpContext& c) { return !is_float(c.dtype(1)); }
constexpr std::size_t kInputWeights = 1, kStateWeights = 2;
// Operands that scale W or R, and the zero points behind them.
constexpr std::size_t scale_operand(std::size_t weights) { return weights == kInputWeights ? 8 : 10; }
bool is_batch_first(const OpContext& c) { return !is_quantized(c) && c.flag("layout"); }

Status recurrent_rule(InferenceContext& c, const CellKind& kind) {
  XYNTRA_TRY(std::size_t directions, directions_of(c));
  for (std::size_t i : {0, 2}) {
    if (c.rank(i) != 3) {
      return c.fail(operand_label(c, i) + " must have rank 3, not " + std::to_string(c.rank(i)));
    }
  }
  const bool quantized = is_quantized(c);
  const Dim& hidden = c.dim(2, quantized ? 1 : 2);
  if (c.has_attribute("hidden_size") && !may_be_equal(hidden, c.integer("hidden_size"))) {
    return c.fail("hidden_size is " + std::to_string(c.integer("hidden_size")) + ", operand 2 (r) has " +
                  hidden.to_string());
  }
  bool batch_first = is_batch_first(c);
  const Dim &steps = c.dim(0, batch_first ? 1 : 0), &batch = c.dim(0, batch_first ? 0 : 1);
  Dim count = static_cast<std::int64_t>(directions), rows = hidden * kind.gates;
  const Shape state = batch_first ? Shape{batch, count, hidden} : Shape{count, batch, hidden};
  // w, r, both biases concatenated, the lengths, the first states, and the peepholes of three gates.
  std::vector<Shape> expected = {
      {count, rows, c.dim(0, 2)}, {count, rows, hidden}, {count, rows * 2}, {batch}, state, state,
      {count, hidden * 3}};
  if (quantized) {
    std::swap(expected[0][1], expected[0][2]);
    std::swap(expected[1][1], expected[1][2]);
    for (std::size_t i = 8; i < c.input_count(); ++i)
      expected.push_back(c.rank(i) == 1 ? Shape{count} : Shape{count, rows});
  }
  for (std::size_t i = 1; i < c.input_count(); ++i) XYNTRA_CHECK_OK(require_shape(c, i, expected.at(i - 1)));
  for (std::size_t i = 0; i < c.output_count(); ++i) {
    if (i == 0) {
      c.set_shape(i, batch_first ? Shape{batch, steps, count, hidden} : Shape{steps, count, batch, hidden});
    } else {
      c.set_shape(i, state);
    }
  }
  return {};
}

}  // namespace

namespace rule {

Status rnn(InferenceContext& c) { return recurrent_rule(c, kRnn); }
Status gru(InferenceContext& c) { return recurrent_rule(c, kGru); }
Status lstm(InferenceContext& c) { return recurrent_rule(c, kLstm); }

}  // namespace rule

namespace formula {

using te::Axes;
using te::Axis;
using te::Buffer;
using te::Expr;
using te::Index;
using te::Reducer;

namespace {

struct Direction;

// What W or R multiplies. Quantized weights take it as integers within its own range.
struct Factor {
  const Direction& d;
  std::size_t weights;
  Buffer elements;
  DynamicQuantization range = {};

  Expr times(const Expr& element, const Expr& from, const Expr& k) const;
  Expr scaled(const Expr& sum, const Expr& from) const;
};
Factor factor(const Direction& d, const Buffer& elements, std::size_t weights);

// What the directions of one scan work with; the cells below say what happens in a step.
struct Direction {
  FormulaContext& c;
  std::int64_t first;  // which of W, R, B's leading axis the first of them is
  bool batch_first;
  DType type;
  Dim hidden;
  std::vector<Activation> activations;
  Axis d, b, j;  // direction, batch and hidden unit
  Buffer input_part = {};  // [t, b, direction, gate, j]: x * W and the biases
  Expr position = {};  // the time that this step reads and writes
  Expr valid = {};  // whether the sequence is that long

  Expr which() const { return first == 0 ? d.expr() : d + first; }
  Axes each() const { return {d, b, j}; }
  Expr clipped(Expr x) const {
    if (!c.has_attribute("clip")) return x;
    double limit = c.real("clip");
    return max(min(std::move(x), limit), -limit);
  }
  Expr activated(std::size_t which_one, Expr x) const {
    return activations[which_one](clipped(std::move(x)));
  }
  Expr row(std::int64_t gate, const Expr& unit) const { return Expr::size(hidden) * gate + unit; }
  Expr bias(std::int64_t gate, std::int64_t gates, bool of_state) const {
    if (!c.has_input(3)) return Expr::number(type, 0);
    return cast(type, c.in(3)(which(), row(gate + (of_state ? gates : 0), j)));
  }
  // W or R between row `from` of all gates and element k of what it multiplies.
  Expr weight(std::size_t operand, const Expr& from, const Expr& k) const {
    Buffer w = c.in(operand);
    return is_quantized(c) ? w(which(), k, from) : w(which(), from, k);
  }
  Expr parameter(std::size_t operand, const Expr& from) const {
    Buffer one = c.in(operand);
    return one.rank() == 1 ? one(which()) : one(which(), from);
  }
  Expr input(std::int64_t gate) const { return input_part(position, b, which(), Expr::index(gate), j); }

  // state * R of every gate from `from_gate` on: [d, b, gate, j].
  Buffer state_part(const std::string& name, const Buffer& state, std::int64_t from_gate,
                    std::int64_t count) const {
    Factor left = factor(*this, state, kStateWeights);
    Axis gate = c.axis(count, "gate"), k = c.axis(hidden, "k");
    Expr from = Expr::size(hidden) * (gate + from_gate) + j;
    return c.reduce(name, {d, b, gate, j}, Reducer::Sum, {k}, left.times(left.elements(d, b, k), from, k),
                    [&](const Expr& sum) { return left.scaled(sum, from); });
  }
  Buffer carried(const std::string& name, std::size_t initial_operand) const {
    Expr zero = Expr::number(type, 0);
    if (!c.has_input(initial_operand)) return c.carry(name, type, each(), zero);
    Buffer initial = c.in(initial_operand);
    Expr value = batch_first ? initial(b, which(), j) : initial(which(), b, j);
    return c.carry(name, type, each(), cast(type, value));
  }
  void write_final(std::size_t output, const Buffer& state) const {
    if (!c.wants_output(output)) return;
    Index store = batch_first ? Index{b, which(), j} : Index{which(), b, j};
    c.write_at(c.out(output), each(), store, state(each()));
  }
};

Expr Factor::times(const Expr& element, const Expr& from, const Expr& k) const {
  Expr weight = d.weight(weights, from, k);
  if (!range.scale.defined()) return cast(d.type, element) * cast(d.type, weight);
  return offset_removed(element, range.zero_point()) *
         offset_removed(weight, d.parameter(scale_operand(weights) + 1, from));
}

Expr Factor::scaled(const Expr& sum, const Expr& from) const {
  if (!range.scale.defined()) return sum;
  return cast(d.type, sum) * (range.scale() * d.parameter(scale_operand(weights), from));
}

Factor factor(const Direction& d, const Buffer& elements, std::size_t weights) {
  if (!is_quantized(d.c)) return {d, weights, elements};
  DynamicQuantization range = dynamic_quantization(d.c, elements);
  Axes i = d.c.axes(elements.shape());
  Expr rounded = quantized(DType::U8, elements(i) / range.scale(), range.zero_point());
  return {d, weights, d.c.map("quantized", i, rounded), range};
}

// Reading order of a step: forward, or from the sequence's own end. Past its end every step keeps its place, so
// that each time of the result is written once.
void begin_step(Direction& d, const Axis& t, const Dim& steps) {
  Expr length = Expr::size(steps);
  d.valid = Expr::boolean(true);
  if (d.c.has_input(4)) {
    length = as_index(d.c.in(4)(d.b));
    d.valid = t < length;
  }
  const std::string& direction = d.c.text("direction");
  Expr backward = direction == "reverse" ? d.valid : equal(d.which(), 1);
  if (direction == "bidirectional" && d.c.has_input(4)) backward = backward & d.valid;
  d.position = direction == "forward" ? t.expr() : select(backward, length - 1 - t, t);
}

void write_step(const Direction& d, const Expr& h) {
  if (!d.c.wants_output(0)) return;
  Index store =
      d.batch_first ? Index{d.b, d.position, d.which(), d.j} : Index{d.position, d.which(), d.b, d.j};
  d.c.write_at(d.c.out(0), d.each(), store, select(d.valid, h, Expr::number(d.type, 0)));
}

Result<std::vector<Activation>> activations_of(FormulaContext& c, const CellKind& kind,
                                               std::size_t directions) {
  std::vector<std::string> names = c.texts("activations");
  std::vector<float> alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  while (names.size() < kind.activations.size() * directions && !c.has_attribute("activations")) {
    names.insert(names.end(), kind.activations.begin(), kind.activations.end());
  }
  if (names.size() < kind.activations.size() * directions) {
    return c.fail("activations has " + std::to_string(names.size()) + " entries, " +
                  std::to_string(kind.activations.size() * directions) + " are needed");
  }
  std::vector<Activation> found;
  std::size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : names) {
    auto activation = activation_named(name);
    if (!activation) return c.fail("activation '" + name + "' is not known");
    if (activation->parameters > 0 && next_alpha < alphas.size()) activation->alpha = alphas[next_alpha++];
    if (activation->parameters > 1 && next_beta < betas.size()) activation->beta = betas[next_beta++];
    found.push_back(*activation);
  }
  return found;
}

// Which biases of the state can be added before the scan: all, except GRU's that the reset gate multiplies.
using StateBias = bool (*)(const FormulaContext& c, std::int64_t gate);

Buffer multiply_input(Direction& all, const Dim& steps, std::int64_t gates, StateBias state_bias) {
  FormulaContext& c = all.c;
  const Factor x = factor(all, c.in(0), kInputWeights);
  const Buffer made = c.temporary("xw", all.type, {steps, all.b.extent, all.d.extent, gates, all.hidden});
  // Gates next to one another that have the same biases are one contraction; all steps read the weights of one before those of the next.
  for (std::int64_t first = 0, last = 0; first < gates; first = last) {
    while (last < gates && state_bias(c, last) == state_bias(c, first)) ++last;
    Axis t = c.axis(steps, "t"), gate = c.axis(last - first, "gate"), k = c.axis(c.dim(0, 2), "k");
    Expr element = all.batch_first ? x.elements(all.b, t, k) : x.elements(t, all.b, k);
    Expr number = first == 0 ? gate.expr() : gate + first;
    Expr from = Expr::size(all.hidden) * number + all.j;
    auto bias = [&](std::int64_t of) {
      return cast(all.type, c.in(3)(all.which(), of == 0 ? from : from + Expr::size(all.hidden) * of));
    };
    c.write_reduced_at(made, {all.d, gate, t, all.b, all.j}, {t, all.b, all.d, number, all.j}, Reducer::Sum,
                       {k}, x.times(element, from, k), [&](Expr sum) {
                         sum = x.scaled(sum, from);
                         if (!c.has_input(3)) return sum;
                         sum = sum + bias(0);
                         return state_bias(c, first) ? sum + bias(gates) : sum;
                       });
  }
  return made;
}

using Cell = void (*)(Direction& d, const std::function<Axis(const std::vector<Buffer>&)>& begin);

Status recurrent(FormulaContext& c, const CellKind& kind, StateBias state_bias, Cell cell) {
  XYNTRA_TRY(std::size_t directions, directions_of(c));
  XYNTRA_TRY(auto activations, activations_of(c, kind, directions));
  const bool batch_first = is_batch_first(c);
  const Dim steps = c.dim(0, batch_first ? 1 : 0), batch = c.dim(0, batch_first ? 0 : 1),
            hidden = c.dim(2, is_quantized(c) ? 1 : 2);
  const std::size_t of_each = kind.activations.size();
  auto some = [&](std::int64_t first, std::size_t count) {
    auto from = activations.begin() + first * static_cast<std::ptrdiff_t>(of_each);
    return Direction{c,
                     first,
                     batch_first,
                     compute_type(c.dtype(0)),
                     hidden,
                     {from, from + static_cast<std::ptrdiff_t>(of_each)},
                     c.axis(static_cast<std::int64_t>(count), "d"),
                     c.axis(batch, "b"),
                     c.axis(hidden, "j")};
  };
  Direction all = some(0, directions);
  const Buffer input_part = multiply_input(all, steps, kind.gates, state_bias);
  // States that are quantized have a range for each direction.
  const bool alike = std::equal(all.activations.begin(), all.activations.end(),
                                activations.end() - static_cast<std::ptrdiff_t>(of_each));
  const std::size_t together = alike && !is_quantized(c) ? directions : 1;
  for (std::size_t first = 0; first < directions; first += together) {
    Direction d = some(static_cast<std::int64_t>(first), together);
    d.input_part = input_part;
    cell(d, [&](const std::vector<Buffer>& states) {
      Axis t = c.begin_scan(steps, states);
      begin_step(d, t, steps);
      return t;
    });
  }
  return {};
}

bool always(const FormulaContext&, std::int64_t) { return true; }

// The state's new value; sequences that have ended keep the old one.
void advance(const Direction& d, const Buffer& state, const Expr& value) {
  d.c.next(state, d.each(), select(d.valid, value, state(d.each())));
}

}  // namespace

// h' = f(x W + h R + bias)
Status rnn(FormulaContext& c) {
  return recurrent(c, kRnn, always, [](Direction& d, const auto& begin) {
    Buffer h = d.carried("h", 5);
    begin({h});
    Buffer hr = d.state_part("hr", h, 0, 1);
    Expr value = d.activated(0, d.input(0) + hr(d.d, d.b, Expr::index(0), d.j));
    Buffer fresh = d.c.map("fresh", d.each(), value);
    write_step(d, fresh(d.each()));
    advance(d, h, fresh(d.each()));
    d.c.end_scan();
    d.write_final(1, h);
  });
}

// z, r = f(…); n = g(x W + (r h) R) or, with linear_before_reset, g(x W + r (h R)); h' = (1 - z) n + z h
Status gru(FormulaContext& c) {
  auto bias_early = [](const FormulaContext& context, std::int64_t gate) {
    return gate < 2 || !context.flag("linear_before_reset");
  };
  return recurrent(c, kGru, bias_early, [](Direction& d, const auto& begin) {
    Buffer h = d.carried("h", 5);
    begin({h});
    bool linear = d.c.flag("linear_before_reset");
    const Axes bj = d.each();
    Buffer hr = d.state_part("hr", h, 0, linear ? 3 : 2);
    auto from_state = [&](std::int64_t gate) { return hr(d.d, d.b, Expr::index(gate), d.j); };
    Buffer z = d.c.map("z", bj, d.activated(0, d.input(0) + from_state(0)));
    Buffer r = d.c.map("r", bj, d.activated(0, d.input(1) + from_state(1)));
    Expr candidate;
    if (linear) {
      candidate = r(bj) * (from_state(2) + d.bias(2, 3, true));
    } else {
      Buffer reset = d.c.map("reset", bj, r(bj) * h(bj));
      candidate = d.state_part("rhr", reset, 2, 1)(d.d, d.b, Expr::index(0), d.j);
    }
    Expr n = d.activated(1, d.input(2) + candidate), one = Expr::number(d.type, 1);
    Buffer fresh = d.c.map("fresh", bj, (one - z(bj)) * n + z(bj) * h(bj));
    write_step(d, fresh(bj));
    advance(d, h, fresh(bj));
    d.c.end_scan();
    d.write_final(1, h);
  });
}

// i, f = f(… + P c); n = g(…); c' = f c + i n; o = f(… + P c'); h' = o h(c'). Gates lie in the order i, o, f, n.
Status lstm(FormulaContext& c) {
  return recurrent(c, kLstm, always, [](Direction& d, const auto& begin) {
    Buffer h = d.carried("h", 5), state = d.carried("c", 6);
    begin({h, state});
    const Axes bj = d.each();
    Buffer hr = d.state_part("hr", h, 0, 4);
    // The sum that a gate sees; its peephole (numbered i, o, f) looks at the cell.
    auto gate = [&](std::int64_t number, const Buffer& cell) {
      Expr sum = d.input(number) + hr(d.d, d.b, Expr::index(number), d.j);
      if (number == 3 || !d.c.has_input(7)) return sum;
      return sum + cast(d.type, d.c.in(7)(d.which(), d.row(number, d.j))) * cell(bj);
    };
    Expr one = Expr::number(d.type, 1);
    Buffer i = d.c.map("i", bj, d.activated(0, gate(0, state)));
    Expr forget = d.c.flag("input_forget") ? one - i(bj) : d.activated(0, gate(2, state));
    Buffer cell = d.c.map("cell", bj, forget * state(bj) + i(bj) * d.activated(1, gate(3, state)));
    Buffer fresh = d.c.map("fresh", bj, d.activated(0, gate(1, cell)) * d.activations[2](cell(bj)));
    write_step(d, fresh(bj));
    advance(d, state, cell(bj));
    advance(d, h, fresh(bj));
    d.c.end_scan();
    d.write_final(1, h);
    d.write_final(2, state);
  });
}

}  // namespace formula
}  // namespace xyntra
