// Recurrent layers. torch orders the gates of LSTM as input, forget, cell, output, the graph's operator as input, output, forget, cell;
// of GRU as reset, update, new, against update, reset, new.
#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

struct Cell {
  const char* op;
  Integers gates;  // of the operator, as positions among torch's
  const char* activation = nullptr;
};

Cell cell_of(Call& c) {
  const std::string_view detail = c.detail();
  if (detail == "LSTM") return {"LSTM", {0, 3, 1, 2}};
  if (detail == "GRU") return {"GRU", {1, 0, 2}};
  return {"RNN", {0}, detail == "tanh" ? "Tanh" : "Relu"};
}

// [gates * hidden, …] with the gates in the operator's order, and an axis of directions in front.
ValueId ordered(Call& c, ValueId weight, const Integers& gates, std::int64_t hidden) {
  if (gates.size() > 1) {
    std::vector<ValueId> parts;
    for (const std::int64_t gate : gates)
      parts.push_back(c.slice(weight, 0, whole(gate * hidden), whole((gate + 1) * hidden)));
    weight = c.concat(parts, 0);
  }
  return c.unsqueeze(weight, {0});
}

ValueId joined(Call& c, const std::vector<ValueId>& parts, std::size_t axis) {
  return parts.size() == 1 ? parts[0] : c.concat(parts, axis);
}

struct States {
  std::vector<ValueId> hidden, cell;
};

}  // namespace

// Layers one behind the other; every layer reads both directions of the one before.
Item recurrent(Call& c) {
  const Cell cell = cell_of(c);
  const bool is_lstm = std::string_view(cell.op) == "LSTM";
  const std::vector<ValueId> params = c.tensors("params");
  const std::vector<ValueId> initial = is_lstm ? c.tensors("hx") : std::vector<ValueId>{c.tensor("hx")};
  const std::int64_t layers = c.integer("num_layers");
  const bool biased = c.flag("has_biases"), both_ways = c.flag("bidirectional"),
             batch_first = c.flag("batch_first");
  if (c.flag("train") && c.real("dropout") != 0)
    return c.unsupported("a recurrent layer with dropout in training mode");
  const std::size_t directions = both_ways ? 2 : 1, each = biased ? 4 : 2;
  ValueId x = c.tensor("input");
  if (c.failed()) return {};
  const bool unbatched = c.rank(x) == 2;
  if (layers < 1 || params.size() != static_cast<std::size_t>(layers) * directions * each ||
      initial.size() != (is_lstm ? 2U : 1U))
    return c.unsupported(
        "a recurrent layer with projections, or with another number of weights than its layers need");
  std::vector<ValueId> first = initial;
  if (unbatched) {
    x = c.unsqueeze(x, {1});
    for (ValueId& state : first) state = c.unsqueeze(state, {1});
  } else if (batch_first) {
    x = c.swap_axes(x, 0, 1);
  }
  States last;
  for (std::int64_t layer = 0; layer < layers && !c.failed(); ++layer) {
    std::vector<ValueId> w, r, b;
    for (std::size_t direction = 0; direction < directions; ++direction) {
      const auto at = (static_cast<std::size_t>(layer) * directions + direction) * each;
      const std::int64_t hidden = c.known_size(params[at + 1], 1);
      w.push_back(ordered(c, params[at], cell.gates, hidden));
      r.push_back(ordered(c, params[at + 1], cell.gates, hidden));
      if (biased)
        b.push_back(c.concat(
            {ordered(c, params[at + 2], cell.gates, hidden), ordered(c, params[at + 3], cell.gates, hidden)},
            1));
    }
    const auto from = layer * static_cast<std::int64_t>(directions);
    const auto states = [&](ValueId all) {
      return c.slice(all, 0, whole(from), whole(from + static_cast<std::int64_t>(directions)));
    };
    std::vector<ValueId> inputs{
        x,         joined(c, w, 0), joined(c, r, 0), biased ? joined(c, b, 0) : ValueId(),
        ValueId(), states(first[0])};
    if (is_lstm) inputs.push_back(states(first[1]));
    Attributes attributes{
        {"hidden_size", c.known_size(params[static_cast<std::size_t>(layer) * directions * each + 1], 1)},
        {"direction", std::string(both_ways ? "bidirectional" : "forward")}};
    if (std::string_view(cell.op) == "GRU") attributes["linear_before_reset"] = std::int64_t{1};
    if (cell.activation != nullptr)
      attributes["activations"] = std::vector<std::string>(directions, cell.activation);
    const auto made = c.op(is_lstm ? 3 : 2, cell.op, inputs, std::move(attributes));
    // [length, directions, batch, hidden] to [length, batch, directions * hidden]
    const ValueId y = c.swap_axes(made[0], 1, 2);
    x = c.reshape(y, {c.size(y, 0), c.size(y, 1), whole(c.known_size(y, 2) * c.known_size(y, 3))});
    last.hidden.push_back(made[1]);
    if (is_lstm) last.cell.push_back(made[2]);
  }
  if (c.failed()) return {};
  ValueId hidden = joined(c, last.hidden, 0);
  if (unbatched) {
    x = c.squeeze(x, {1});
    hidden = c.squeeze(hidden, {1});
  } else if (batch_first) {
    x = c.swap_axes(x, 0, 1);
  }
  if (!is_lstm) return Item::List{x, hidden};
  ValueId memory = joined(c, last.cell, 0);
  if (unbatched) memory = c.squeeze(memory, {1});
  return Item::List{x, hidden, memory};
}

// One direction of one layer of LSTM, as which torch.compile has layers of it on CPUs. The last result is what a gradient needs.
Item recurrent_direction(Call& c) {
  constexpr std::int64_t kLstm = 2;  // as oneDNN numbers them
  if (c.integer("mode") != kLstm || c.integer("num_layers") != 1 || c.flag("bidirectional") ||
      c.flag("batch_first") || c.flag("train"))
    return c.unsupported("a layer that is no LSTM in one direction, or in training mode");
  const Cell cell = cell_of(c);
  const ValueId x = c.tensor("input"), recurrence = c.tensor("weight1");
  if (c.failed()) return {};
  const std::int64_t hidden = c.known_size(recurrence, 1);
  const auto weight = [&](std::string_view name) { return ordered(c, c.tensor(name), cell.gates, hidden); };
  const ValueId biases =
      c.flag("has_biases") ? c.concat({weight("weight2"), weight("weight3")}, 1) : ValueId();
  const auto made =
      c.op(3, cell.op,
           {x, weight("weight0"), weight("weight1"), biases, ValueId(), c.tensor("hx_"), c.tensor("cx_")},
           {{"hidden_size", hidden}, {"direction", std::string(c.flag("reverse") ? "reverse" : "forward")}});
  if (c.failed()) return {};
  const ValueId nothing = c.op("Expand", {c.whole_value(DType::U8, 0), c.integers_value({0})});
  return Item::List{c.squeeze(made[0], {1}), made[1], made[2], nothing};
}

}  // namespace xyntra::aten
