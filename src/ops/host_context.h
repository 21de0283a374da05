// Given to host ops: operands and results as data, memory under a budget, and a way to run subgraphs.
#pragma once

#include <memory>
#include <mutex>

#include "ops/op.h"

namespace xyntra {

// What a host op made of a node's attributes, kept from run to run. One belongs to one node. Several threads may ask.
class HostMemo {
 public:
  // `make` gives a Result<T>; what it made is kept, an error is not.
  template <class T, class Make>
  Result<std::shared_ptr<const T>> get(Make make) {
    const std::lock_guard lock(mutex_);
    if (!made_) {
      XYNTRA_TRY(T fresh, make());
      made_ = std::make_shared<const T>(std::move(fresh));
    }
    return std::static_pointer_cast<const T>(made_);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const void> made_;
};

class HostContext : public OpContext {
 public:
  // Runs a closed subgraph; supplied by whoever evaluates the graph.
  using SubgraphRunner = std::function<Result<std::vector<Datum>>(const Graph&, std::vector<Datum>)>;

  HostContext(const OpDef& def, const Node& node, std::span<const ValueFacts> facts,
              std::span<const Datum> inputs, std::shared_ptr<Budget> budget, const SubgraphRunner* runner,
              HostMemo* memo = nullptr)
      : OpContext(def, node, facts),
        data_(inputs),
        budget_(std::move(budget)),
        runner_(runner),
        memo_(memo),
        results_(node.outputs.size()) {}

  const Datum& datum(std::size_t i) const { return data_[i]; }
  const Tensor& input(std::size_t i) const { return data_[i].tensor; }
  Result<Tensor> allocate(DType dtype, Dims dims) const {
    return Tensor::allocate(dtype, std::move(dims), budget_);
  }
  Status check_time() const { return budget_ ? budget_->check_time() : Status(); }
  // Counts elements looked at or copied, and checks the time about every millisecond of that.
  Status worked(std::int64_t elements) const {
    work_ += elements;
    if (work_ < kWorkPerTimeCheck) return {};
    work_ = 0;
    return check_time();
  }
  Result<std::vector<Datum>> run_subgraph(const Graph& graph, std::vector<Datum> arguments) const {
    return (*runner_)(graph, std::move(arguments));
  }
  const std::shared_ptr<Budget>& budget() const { return budget_; }
  // What depends on the attributes alone, made once where somebody keeps it. Always the same T for one operator.
  template <class T, class Make>
  Result<std::shared_ptr<const T>> prepared(Make make) const {
    HostMemo forgotten;
    return (memo_ != nullptr ? *memo_ : forgotten).get<T>(std::move(make));
  }

  void set_result(std::size_t i, Tensor tensor) { results_.at(i) = Datum::of(std::move(tensor)); }
  void set_result(std::size_t i, Datum datum) { results_.at(i) = std::move(datum); }
  std::vector<Datum>& results() { return results_; }

 private:
  static constexpr std::int64_t kWorkPerTimeCheck = 1 << 16;

  std::span<const Datum> data_;
  std::shared_ptr<Budget> budget_;
  const SubgraphRunner* runner_;
  HostMemo* memo_;
  std::vector<Datum> results_;
  mutable std::int64_t work_ = 0;
};

}  // namespace xyntra
