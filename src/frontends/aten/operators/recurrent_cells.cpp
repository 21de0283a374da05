// One step of a recurrent network, as arithmetic.
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

ValueId gate_of(Call& c, ValueId x, std::size_t axis, std::int64_t index, std::int64_t width) {
  return c.slice(x, axis, Number::of(index * width), Number::of((index + 1) * width));
}

// x W^T + b
ValueId cell_affine(Call& c, ValueId x, std::string_view weight, std::string_view bias) {
  const ValueId w = c.tensor(weight);
  if (c.failed()) return {};
  const ValueId product = c.op("MatMul", {x, c.swap_axes(w, 0, 1)});
  return c.given(bias) ? c.add(product, c.tensor(bias)) : product;
}

}  // namespace

Item lstm_cell(Call& c) {
  const std::vector<ValueId> states = c.tensors("hx");
  if (states.size() != 2) return c.wrong("an LSTM cell with other than two states");
  const ValueId gates =
      c.add(cell_affine(c, c.tensor("input"), "w_ih", "b_ih"), cell_affine(c, states[0], "w_hh", "b_hh"));
  if (c.failed()) return {};
  const std::size_t axis = c.rank(gates) - 1;
  const std::int64_t hidden = c.known_size(c.tensor("w_hh"), 1);
  const ValueId input = c.op("Sigmoid", {gate_of(c, gates, axis, 0, hidden)});
  const ValueId forget = c.op("Sigmoid", {gate_of(c, gates, axis, 1, hidden)});
  const ValueId cell = c.op("Tanh", {gate_of(c, gates, axis, 2, hidden)});
  const ValueId output = c.op("Sigmoid", {gate_of(c, gates, axis, 3, hidden)});
  const ValueId next = c.add(c.mul(forget, states[1]), c.mul(input, cell));
  return Item::List{c.mul(output, c.op("Tanh", {next})), next};
}

Item gru_cell(Call& c) {
  const ValueId state = c.tensor("hx");
  const ValueId of_input = cell_affine(c, c.tensor("input"), "w_ih", "b_ih"),
                of_state = cell_affine(c, state, "w_hh", "b_hh");
  if (c.failed()) return {};
  const std::size_t axis = c.rank(of_input) - 1;
  const std::int64_t hidden = c.known_size(c.tensor("w_hh"), 1);
  const auto both = [&](std::int64_t gate) {
    return c.add(gate_of(c, of_input, axis, gate, hidden), gate_of(c, of_state, axis, gate, hidden));
  };
  const ValueId reset = c.op("Sigmoid", {both(0)}), update = c.op("Sigmoid", {both(1)});
  const ValueId fresh = c.op("Tanh", {c.add(gate_of(c, of_input, axis, 2, hidden),
                                            c.mul(reset, gate_of(c, of_state, axis, 2, hidden)))});
  // fresh + update * (state - fresh), as torch computes it
  return c.add(c.mul(c.sub(state, fresh), update), fresh);
}

}  // namespace xyntra::aten
