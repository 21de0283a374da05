#include <algorithm>

#include "te/formula.h"

namespace xyntra::te {

Index to_index(const Axes& axes) {
  Index index;
  for (const Axis& axis : axes) index.push_back(axis);
  return index;
}

Axes concat(const Axes& a, const Axes& b) {
  Axes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Axes without(Axes axes, std::size_t position) {
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(position));
  return axes;
}

Index replaced(Index index, std::size_t position, Expr with) {
  index.at(position) = std::move(with);
  return index;
}

Index inserted(Index index, std::size_t position, Expr with) {
  index.insert(index.begin() + static_cast<std::ptrdiff_t>(position), std::move(with));
  return index;
}

Index removed(Index index, std::size_t position) {
  index.erase(index.begin() + static_cast<std::ptrdiff_t>(position));
  return index;
}

namespace {

std::vector<VarId> ids_of(const Axes& axes) {
  std::vector<VarId> ids;
  for (const Axis& axis : axes) ids.push_back(axis.id);
  return ids;
}

Shape extents_of(const Axes& axes) {
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis.extent);
  return shape;
}

}  // namespace

Buffer Builder::add_buffer(BufferInfo info) {
  info.id = BufferId(formula_.buffers.size());
  formula_.buffers.push_back(info);
  return Buffer(std::move(info));
}

void Builder::add_stage(Stage stage) {
  auto& stages = in_scan_ ? scan_.stages : formula_.stages;
  stages.push_back(std::move(stage));
}

Buffer Builder::input(int position, std::string name, DType dtype, Shape shape) {
  return add_buffer({{}, std::move(name), dtype, std::move(shape), BufferRole::Input, position});
}

Buffer Builder::output(int position, std::string name, DType dtype, Shape shape) {
  return add_buffer({{}, std::move(name), dtype, std::move(shape), BufferRole::Output, position});
}

Buffer Builder::temporary(std::string name, DType dtype, Shape shape) {
  return add_buffer({{}, std::move(name), dtype, std::move(shape), BufferRole::Temporary, -1});
}

Axis Builder::axis(Dim extent, std::string name) {
  VarId id(formula_.variables.size());
  if (name.empty()) name = "i" + std::to_string(id.index);
  formula_.variables.push_back({std::move(name), extent});
  return {id, std::move(extent)};
}

Axes Builder::axes(const Shape& shape) {
  Axes made;
  for (const Dim& dim : shape) made.push_back(axis(dim));
  return made;
}

Buffer Builder::map(std::string name, const Axes& axes, Expr body) {
  Buffer target = temporary(std::move(name), body.dtype(), extents_of(axes));
  write(target, axes, std::move(body));
  return target;
}

Buffer Builder::reduce(std::string name, const Axes& axes, Reducer reducer, const Axes& reduction, Expr body,
                       const Finish& finish) {
  DType dtype = finish ? finish(Expr::accumulator(body.dtype())).dtype() : body.dtype();
  Buffer target = temporary(std::move(name), dtype, extents_of(axes));
  write_reduced(target, axes, reducer, reduction, std::move(body), finish);
  return target;
}

void Builder::write(const Buffer& target, const Axes& axes, Expr body) {
  write_at(target, axes, to_index(axes), std::move(body));
}

void Builder::write_at(const Buffer& target, const Axes& axes, Index store, Expr body) {
  write_reduced_at(target, axes, std::move(store), Reducer::None, {}, std::move(body));
}

void Builder::write_reduced(const Buffer& target, const Axes& axes, Reducer reducer, const Axes& reduction,
                            Expr body, const Finish& finish) {
  write_reduced_at(target, axes, to_index(axes), reducer, reduction, std::move(body), finish);
}

void Builder::write_reduced_at(const Buffer& target, const Axes& axes, Index store, Reducer reducer,
                               const Axes& reduction, Expr body, const Finish& finish) {
  Stage stage;
  stage.target = target.id();
  stage.axes = ids_of(axes);
  stage.store = std::move(store);
  stage.reducer = reducer;
  stage.reduction = ids_of(reduction);
  if (finish) stage.finish = finish(Expr::accumulator(body.dtype()));
  if (stage.finish.defined() && stage.finish->op == ExprOp::Accumulator) stage.finish = {};  // nothing to do
  stage.body = std::move(body);
  add_stage(std::move(stage));
}

void Builder::scatter(const Buffer& target, const Axes& axes, Index store, Combiner combiner, Expr body,
                      Expr guard) {
  Stage stage;
  stage.kind = Stage::Kind::Scatter;
  stage.target = target.id();
  stage.axes = ids_of(axes);
  stage.store = std::move(store);
  stage.combiner = combiner;
  stage.body = std::move(body);
  stage.guard = std::move(guard);
  add_stage(std::move(stage));
}

Buffer Builder::carry(const std::string& name, DType dtype, const Axes& axes, Expr initial) {
  Buffer state = temporary(name, dtype, extents_of(axes));
  Buffer next_state = temporary(name + "'", dtype, extents_of(axes));
  next_buffers_.emplace_back(state.id(), next_state);
  write(state, axes, std::move(initial));
  return state;
}

Axis Builder::begin_scan(Dim steps, const std::vector<Buffer>& states, std::string name) {
  require(!in_scan_, "te: scans do not nest");
  Axis step = axis(std::move(steps), std::move(name));
  scan_ = Stage();
  scan_.kind = Stage::Kind::Scan;
  scan_.step = step.id;
  for (const Buffer& state : states) scan_.carried.push_back({state.id(), next_of(state).id()});
  in_scan_ = true;
  return step;
}

Buffer Builder::next_of(const Buffer& state) const {
  auto found = std::find_if(next_buffers_.begin(), next_buffers_.end(),
                            [&state](const auto& pair) { return pair.first == state.id(); });
  require(found != next_buffers_.end(), "te: next of a buffer that is not carried");
  return found->second;
}

void Builder::next(const Buffer& state, const Axes& axes, Expr body) {
  write(next_of(state), axes, std::move(body));
}

void Builder::end_scan() {
  require(in_scan_, "te: end of a scan that was not begun");
  in_scan_ = false;
  formula_.stages.push_back(std::move(scan_));
}

Formula Builder::finish() && {
  require(!in_scan_, "te: a scan was not ended");
  return std::move(formula_);
}

}  // namespace xyntra::te
