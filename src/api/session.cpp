#include "api/session.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "compiler/model_file.h"
#include "compiler/model_runner.h"
#include "compiler/nominal_sizes.h"
#include "support/text.h"

namespace xyntra {
namespace {

constexpr std::string_view kBackends[] = {"cpu", "sim", "reference", "float64", "fused"};

Result<std::vector<SessionValue>> describe(const Graph& graph, const std::vector<ValueId>& ids,
                                           const char* what) {
  std::vector<SessionValue> values;
  for (ValueId id : ids) {
    const Value& value = graph.value(id);
    if (!value.type.is_tensor()) {
      return unsupported(std::string(what) + " '" + value.name + "' is " + value.type.to_string() +
                         ": only tensors are passed through this interface");
    }
    values.push_back(
        {value.name, value.type.dtype, value.type.shape.has_value(), value.type.shape.value_or(Shape())});
  }
  return values;
}

}  // namespace

class ModelSession::State {
 public:
  Status load(const std::string& path, const SessionOptions& options) {
    const auto known = std::ranges::find(kBackends, options.backend);
    if (known == std::end(kBackends)) {
      return usage_error("there is no backend '" + options.backend + "'; there are " +
                         joined(std::vector<std::string>(std::begin(kBackends), std::end(kBackends)), ", "));
    }
    if (options.precision != "f32" && options.precision != "bf16")
      return usage_error("there is no precision '" + options.precision + "'; there are f32, bf16");
    const DType products = options.precision == "bf16" ? DType::BF16 : DType::F32;
    const bool has_plan = options.backend == "cpu" || options.backend == "sim" || options.backend == "fused";
    if (products != DType::F32 && !has_plan)
      return usage_error("the backend " + options.backend +
                         " runs a model as it is written, whatever the precision");
    exact_dtypes_ = options.backend != "float64";
    const std::int64_t memory = options.max_memory > 0 ? options.max_memory : default_memory_limit();
    EvaluatorOptions running;
    running.threads = options.threads;
    running.budget = std::make_shared<Budget>(memory, std::nullopt, nullptr);
    LoadOptions loading;
    loading.budget = running.budget;
    XYNTRA_TRY(module_, load_model(path, loading));
    const Graph& graph = module_.graph;
    XYNTRA_TRY(inputs_, describe(graph, graph.inputs, "input"));
    XYNTRA_TRY(outputs_, describe(graph, graph.outputs, "output"));
    XYNTRA_TRY(const SymbolBindings nominal, nominal_sizes(graph, options.dims, "dims: "));
    XYNTRA_TRY(auto first, make_runner(graph, options.backend, std::move(running), nominal,
                                       ObjectCache::off(), products));
    idle_.push_back(std::move(first));
    return {};
  }

  const std::vector<SessionValue>& inputs() const { return inputs_; }
  const std::vector<SessionValue>& outputs() const { return outputs_; }

  Result<std::vector<Tensor>> run(std::vector<NamedTensor> given) {
    XYNTRA_TRY(const std::vector<Datum> data, in_order(std::move(given)));
    Loan loan(*this);
    XYNTRA_TRY(std::vector<Datum> results, loan.runner->run(data));
    std::vector<Tensor> tensors;
    for (Datum& result : results) tensors.push_back(std::move(result.tensor));
    return tensors;
  }

  Status run_into(std::vector<NamedTensor> given, std::span<const Destination> destinations) {
    XYNTRA_TRY(const std::vector<Datum> data, in_order(std::move(given)));
    std::vector<std::span<std::byte>> memory(outputs_.size());
    std::vector<const Destination*> wanted(outputs_.size(), nullptr);
    const SymbolBindings sizes = sizes_of(data);
    for (const Destination& one : destinations) {
      const auto known = std::ranges::find(outputs_, one.name, &SessionValue::name);
      if (known == outputs_.end()) return usage_error("the model has no output '" + one.name + "'");
      const auto index = static_cast<std::size_t>(known - outputs_.begin());
      if (wanted[index] != nullptr) return usage_error("output '" + one.name + "' was given twice");
      wanted[index] = &one;
      memory[index] = one.bytes;
      Dims dims;
      bool sized = known->has_shape;
      for (const Dim& dim : known->shape) {
        const Dim bound = dim.substitute(sizes);
        sized = sized && bound.is_constant();
        dims.push_back(bound.is_constant() ? bound.constant() : -1);
      }
      if (sized && exact_dtypes_) XYNTRA_CHECK_OK(fits(one, known->dtype, dims));
    }
    Loan loan(*this);
    XYNTRA_TRY(const std::vector<Datum> results, loan.runner->run_into(data, memory));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != nullptr)
        XYNTRA_CHECK_OK(fits(*wanted[i], results[i].tensor.dtype(), results[i].tensor.dims()));
    }
    return {};
  }

 private:
  static Status fits(const Destination& given, DType dtype, const Dims& dims) {
    XYNTRA_TRY(const std::int64_t bytes, byte_size(dtype, dims));
    if (given.dtype == dtype && given.dims == dims && given.bytes.size() == static_cast<std::size_t>(bytes))
      return {};
    return usage_error("output '" + given.name + "' is " + Type::tensor(dtype, shape_of(dims)).to_string() +
                       " of " + std::to_string(bytes) + " bytes; the memory given is for " +
                       Type::tensor(given.dtype, shape_of(given.dims)).to_string() + " of " +
                       std::to_string(given.bytes.size()));
  }

  SymbolBindings sizes_of(const std::vector<Datum>& data) const {
    SymbolBindings sizes;
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Dims& dims = data[i].tensor.dims();
      for (std::size_t d = 0; d < dims.size() && d < inputs_[i].shape.size(); ++d) {
        const Dim& dim = inputs_[i].shape[d];
        if (dim.is_symbol()) sizes.try_emplace(dim.to_string(), dims[d]);
      }
    }
    return sizes;
  }

  // A runner for the time of a call. The last idle one stays in reserve as the pattern for more of them, unless it
  // cannot be repeated: then calls wait for one another.
  struct Loan {
    explicit Loan(State& state) : owner(state) {
      std::unique_lock lock(owner.mutex_);
      if (owner.idle_.empty()) {
        owner.returned_.wait(lock, [this] { return !owner.idle_.empty(); });
      }
      runner = std::move(owner.idle_.back());
      owner.idle_.pop_back();
      if (!owner.idle_.empty()) return;
      if (auto more = runner->another()) owner.idle_.push_back(std::move(more));
    }
    ~Loan() {
      {
        const std::lock_guard lock(owner.mutex_);
        owner.idle_.push_back(std::move(runner));
      }
      owner.returned_.notify_one();
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    State& owner;
    std::unique_ptr<ModelRunner> runner;
  };

  Result<std::vector<Datum>> in_order(std::vector<NamedTensor> given) const {
    std::vector<Datum> data(inputs_.size());
    for (NamedTensor& one : given) {
      const auto known = std::ranges::find(inputs_, one.name, &SessionValue::name);
      if (known == inputs_.end()) {
        std::vector<std::string> names;
        for (const SessionValue& input : inputs_) names.push_back(input.name);
        return usage_error("the model has no input '" + one.name + "'; it has " + joined(names, ", "));
      }
      Datum& datum = data[static_cast<std::size_t>(known - inputs_.begin())];
      if (datum.kind != Datum::Kind::Absent) return usage_error("input '" + one.name + "' was given twice");
      datum = Datum::of(std::move(one.tensor));
    }
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (data[i].kind == Datum::Kind::Absent)
        return usage_error("input '" + inputs_[i].name + "' is missing");
    }
    return data;
  }

  Module module_;
  bool exact_dtypes_ = true;  // not where floats are held wider than the model says
  std::vector<SessionValue> inputs_, outputs_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<ModelRunner>> idle_;
};

ModelSession::ModelSession(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelSession::~ModelSession() = default;

Result<std::unique_ptr<ModelSession>> ModelSession::load(const std::string& path,
                                                         const SessionOptions& options) {
  auto state = std::make_unique<State>();
  Status loaded = state->load(path, options);
  if (!loaded) return failure(std::move(loaded).error().in_file(path));
  return std::unique_ptr<ModelSession>(new ModelSession(std::move(state)));
}

const std::vector<SessionValue>& ModelSession::inputs() const { return state_->inputs(); }
const std::vector<SessionValue>& ModelSession::outputs() const { return state_->outputs(); }
Result<std::vector<Tensor>> ModelSession::run(std::vector<NamedTensor> inputs) {
  return state_->run(std::move(inputs));
}
Status ModelSession::run_into(std::vector<NamedTensor> inputs, std::span<const Destination> outputs) {
  return state_->run_into(std::move(inputs), outputs);
}

}  // namespace xyntra
