// Recurrent networks: layers become the operators of ONNX, whose gates stand in another order; cells become arithmetic.
#include <algorithm>
#include <utility>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

// Blocks of rows in the order that the operator wants: of LSTM torch has input, forget, cell, output; ONNX input, output, forget, cell. Of
// GRU torch has reset, update, new; ONNX update, reset, new.
struct Cell {
  std::string_view detail;
  const char* op;
  std::vector<std::size_t> gates;
};
const std::vector<Cell>& cells() {
  static const std::vector<Cell> kCells = {
      {"LSTM", "LSTM", {0, 3, 1, 2}}, {"GRU", "GRU", {1, 0, 2}}, {"Tanh", "RNN", {0}}, {"Relu", "RNN", {0}}};
  return kCells;
}

ValueId block(Call& c, ValueId x, std::size_t axis, std::int64_t index, std::int64_t width) {
  return c.slice(x, axis, Number::of(index * width), Number::of((index + 1) * width));
}

ValueId reordered(Call& c, ValueId x, const Cell& cell, std::int64_t hidden) {
  if (cell.gates.size() == 1) return x;
  std::vector<ValueId> parts;
  for (const std::size_t gate : cell.gates)
    parts.push_back(block(c, x, 0, static_cast<std::int64_t>(gate), hidden));
  return c.concat(parts, 0);
}

ValueId stacked(Call& c, std::vector<ValueId> parts) {
  for (ValueId& part : parts) part = c.unsqueeze(part, {0});
  return parts.size() == 1 ? parts[0] : c.concat(parts, 0);
}

}  // namespace

Item recurrent(Call& c) {
  const auto cell = std::ranges::find(cells(), std::string_view(c.detail()), &Cell::detail);
  require(cell != cells().end(), "aten.def names a recurrent cell that is none");
  const bool lstm = cell->detail == "LSTM", biased = c.flag("has_biases"),
             batch_first = c.flag("batch_first");
  const std::int64_t layers = c.integer("num_layers"), directions = c.flag("bidirectional") ? 2 : 1;
  const std::vector<ValueId> params = c.tensors("params");
  if (c.flag("train") && c.real("dropout") != 0) return c.unsupported("dropout between layers, in training");
  if (c.failed() || layers < 1 || std::cmp_not_equal(params.size(), layers * directions * (biased ? 4 : 2)))
    return c.unsupported(
        "a recurrent network with projections, or with another number of weights than its layers have");
  ValueId x = c.tensor("input");
  if (c.failed() || c.rank(x) != 3)
    return c.unsupported("a recurrent network over an input that has no batch");
  if (batch_first) x = c.swap_axes(x, 0, 1);
  std::vector<ValueId> states = lstm ? c.tensors("hx") : std::vector{c.tensor("hx")};
  if (c.failed() || states.size() != (lstm ? 2U : 1U))
    return c.wrong("a recurrent network with other states than it has");
  std::vector<std::vector<ValueId>> last(states.size());
  std::size_t next = 0;
  for (std::int64_t layer = 0; layer < layers && !c.failed(); ++layer) {
    std::vector<ValueId> w, r, b;
    std::int64_t hidden = 0;
    for (std::int64_t direction = 0; direction < directions && !c.failed(); ++direction) {
      const ValueId w_ih = params[next++], w_hh = params[next++];
      hidden = c.known_size(w_hh, 1);
      if (c.known_size(w_hh, 0) != hidden * static_cast<std::int64_t>(cell->gates.size()))
        return c.unsupported("a recurrent network with projections");
      w.push_back(reordered(c, w_ih, *cell, hidden));
      r.push_back(reordered(c, w_hh, *cell, hidden));
      if (!biased) continue;
      const ValueId b_ih = params[next++], b_hh = params[next++];
      b.push_back(c.concat({reordered(c, b_ih, *cell, hidden), reordered(c, b_hh, *cell, hidden)}, 0));
    }
    std::vector<ValueId> inputs{x, stacked(c, w), stacked(c, r), biased ? stacked(c, b) : ValueId(),
                                ValueId()};
    for (const ValueId state : states) inputs.push_back(block(c, state, 0, layer, directions));
    Attributes attributes{{"hidden_size", hidden}};
    if (directions == 2) attributes["direction"] = std::string("bidirectional");
    if (cell->detail == "GRU") attributes["linear_before_reset"] = std::int64_t{1};
    if (std::string_view(cell->op) == "RNN")
      attributes["activations"] =
          std::vector<std::string>(static_cast<std::size_t>(directions), std::string(cell->detail));
    const std::vector<ValueId> made =
        c.op(1 + states.size(), cell->op, std::move(inputs), std::move(attributes));
    if (c.failed()) break;
    // [steps, directions, batch, hidden] → [steps, batch, directions * hidden]
    const ValueId steps = c.transpose(made[0], {0, 2, 1, 3});
    x = c.reshape(steps, {c.size(steps, 0), c.size(steps, 1), Number::of(directions * hidden)});
    for (std::size_t i = 0; i < states.size(); ++i) last[i].push_back(made[1 + i]);
  }
  if (c.failed()) return {};
  if (batch_first) x = c.swap_axes(x, 0, 1);
  Item::List results{x};
  for (const std::vector<ValueId>& parts : last)
    results.emplace_back(parts.size() == 1 ? parts[0] : c.concat(parts, 0));
  return results;
}

namespace {

// x W^T + b
ValueId affine(Call& c, ValueId x, std::string_view weight, std::string_view bias) {
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
      c.add(affine(c, c.tensor("input"), "w_ih", "b_ih"), affine(c, states[0], "w_hh", "b_hh"));
  if (c.failed()) return {};
  const std::size_t axis = c.rank(gates) - 1;
  const std::int64_t hidden = c.known_size(c.tensor("w_hh"), 1);
  const ValueId input = c.op("Sigmoid", {block(c, gates, axis, 0, hidden)});
  const ValueId forget = c.op("Sigmoid", {block(c, gates, axis, 1, hidden)});
  const ValueId cell = c.op("Tanh", {block(c, gates, axis, 2, hidden)});
  const ValueId output = c.op("Sigmoid", {block(c, gates, axis, 3, hidden)});
  const ValueId next = c.add(c.mul(forget, states[1]), c.mul(input, cell));
  return Item::List{c.mul(output, c.op("Tanh", {next})), next};
}

Item gru_cell(Call& c) {
  const ValueId state = c.tensor("hx");
  const ValueId of_input = affine(c, c.tensor("input"), "w_ih", "b_ih"),
                of_state = affine(c, state, "w_hh", "b_hh");
  if (c.failed()) return {};
  const std::size_t axis = c.rank(of_input) - 1;
  const std::int64_t hidden = c.known_size(c.tensor("w_hh"), 1);
  const auto both = [&](std::int64_t gate) {
    return c.add(block(c, of_input, axis, gate, hidden), block(c, of_state, axis, gate, hidden));
  };
  const ValueId reset = c.op("Sigmoid", {both(0)}), update = c.op("Sigmoid", {both(1)});
  const ValueId fresh =
      c.op("Tanh",
           {c.add(block(c, of_input, axis, 2, hidden), c.mul(reset, block(c, of_state, axis, 2, hidden)))});
  // fresh + update * (state - fresh), as torch computes it
  return c.add(c.mul(c.sub(state, fresh), update), fresh);
}

}  // namespace xyntra::aten
