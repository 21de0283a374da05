#include <map>

#include "te/compose/compose.h"
#include "te/walk.h"

namespace xyntra::te {
namespace {

class Linker {
 public:
  explicit Linker(std::string name) { whole_.name = std::move(name); }

  void declare(const Wire& wire, WireId id, BufferRole role, int position) {
    buffers_[id] = add({{}, wire.name, wire.dtype, wire.shape, role, position});
  }
  bool declared(WireId id) const { return buffers_.count(id) != 0; }

  void add_part(const Part& part) {
    std::vector<BufferId> buffers;
    for (const BufferInfo& info : part.formula.buffers) {
      if (info.role == BufferRole::Temporary) {
        BufferInfo own = info;
        buffers.push_back(add(std::move(own)));
        continue;
      }
      const auto& wires = info.role == BufferRole::Input ? part.inputs : part.outputs;
      WireId wire = wires.at(static_cast<std::size_t>(info.position));
      buffers.push_back(wire.valid() ? buffers_.at(wire) : BufferId());  // declared, but not read
    }
    std::uint32_t first_variable = static_cast<std::uint32_t>(whole_.variables.size());
    for (const Variable& variable : part.formula.variables) {
      whole_.variables.push_back({"i" + std::to_string(whole_.variables.size()), variable.extent});
    }
    auto moved = [first_variable](VarId id) { return VarId(id.index + first_variable); };
    Rewriter rename([&](const Expr& expr) {
      if (expr->op == ExprOp::Var) return Expr::variable(moved(expr->var));
      if (!is_load(*expr)) return Expr();
      BufferId buffer = buffers[expr->buffer.index];
      if (expr->op == ExprOp::Load) return Expr::load(buffer, expr->dtype, expr->operands);
      return Expr::load_or(expr->operands[0], buffer, index_of(*expr));
    });
    for (Stage stage : part.formula.stages) {
      rename(stage);
      renumber(stage, moved, buffers);
      whole_.stages.push_back(std::move(stage));
    }
  }

  Formula finish() && { return std::move(whole_); }

 private:
  BufferId add(BufferInfo info) {
    info.id = BufferId(whole_.buffers.size());
    whole_.buffers.push_back(std::move(info));
    return whole_.buffers.back().id;
  }

  template <class Moved>
  static void renumber(Stage& stage, const Moved& moved, const std::vector<BufferId>& buffers) {
    if (stage.target.valid()) stage.target = buffers[stage.target.index];
    for (VarId& axis : stage.axes) axis = moved(axis);
    for (VarId& axis : stage.reduction) axis = moved(axis);
    if (stage.step.valid()) stage.step = moved(stage.step);
    for (Carried& carried : stage.carried) {
      carried = {buffers[carried.state.index], buffers[carried.next.index]};
    }
    for (Stage& inner : stage.stages) renumber(inner, moved, buffers);
  }

  Formula whole_;
  std::map<WireId, BufferId> buffers_;
};

}  // namespace

Formula link(std::string name, const std::vector<Wire>& wires, const std::vector<Part>& parts,
             const std::vector<WireId>& inputs, const std::vector<WireId>& outputs) {
  Linker linker(std::move(name));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    linker.declare(wires.at(inputs[i].index), inputs[i], BufferRole::Input, static_cast<int>(i));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    linker.declare(wires.at(outputs[i].index), outputs[i], BufferRole::Output, static_cast<int>(i));
  }
  for (const Part& part : parts) {
    for (WireId wire : part.outputs) {
      if (wire.valid() && !linker.declared(wire))
        linker.declare(wires.at(wire.index), wire, BufferRole::Temporary, -1);
    }
  }
  for (const Part& part : parts) linker.add_part(part);
  return std::move(linker).finish();
}

}  // namespace xyntra::te
