#include "api/session.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "api/memory_in_use.h"
#include "backends/make_runner.h"
#include "compiler/lower_plan.h"
#include "package/artifact.h"
#include "passes/declared_sizes.h"
#include "report/explain/explain.h"
#include "support/copy_bytes.h"
#include "support/memory.h"
#include "support/text/json.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

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

// A file, or the content of one in memory.
struct ModelSource {
  std::string path;
  std::span<const std::byte> content = {};
  std::shared_ptr<const void> owner = nullptr;  // of the content; null: it is a file

  bool compiled() const { return owner ? is_artifact(content) : is_artifact(path); }
  Result<Module> module(const LoadOptions& options) const {
    return owner ? load_model(content, owner, options) : load_model(path, options);
  }
  Result<LoadedArtifact> artifact(int threads) const {
    if (!owner) return load_artifact(path, threads);
    XYNTRA_TRY(auto file, Artifact::read(content, owner));
    return load_artifact(std::move(file), threads);
  }
};

Result<ModelSource> copied(std::span<const std::byte> content) {
  const std::shared_ptr<std::byte> copy = allocate_zeroed(content.size());
  if (!copy) return limit_error("there is no memory for a copy of the model");
  const std::span<std::byte> bytes(copy.get(), content.size());
  copy_bytes(content, bytes);
  return ModelSource{"", bytes, copy};
}

Result<LoadOptions> loading_options(const SessionOptions& options, std::shared_ptr<Budget> budget) {
  LoadOptions loading;
  loading.budget = std::move(budget);
  for (const std::string& input : options.inputs)
    XYNTRA_CHECK_OK(add_input(loading.inputs, input, "inputs: "));
  return loading;
}

CompileOptions compile_options(const Target& target, const SymbolBindings& nominal, Precision precision,
                               const std::vector<std::string>& donated) {
  CompileOptions options;
  options.donated = donated;
  options.precision = precision;
  options.target = &target;
  options.fusion.choose.nominal = nominal;
  return options;
}

}  // namespace

class ModelSession::State {
 public:
  Status load(const ModelSource& source, const SessionOptions& options) {
    if (!source.compiled())
      return load([&](const LoadOptions& loading) { return source.module(loading); }, options);
    XYNTRA_TRY(EvaluatorOptions running, prepare(options));
    return load_compiled(source, options, std::move(running));
  }

  Status load(const ReadModule& read, const SessionOptions& options) {
    XYNTRA_TRY(EvaluatorOptions running, prepare(options));
    std::future<void> begun;  // beside reading the model
    if (backend_->begin != nullptr) begun = backend_->begin({});
    XYNTRA_TRY(const LoadOptions loading, loading_options(options, running.budget));
    XYNTRA_TRY(module_, read(loading));
    const Graph& graph = module_.graph;
    XYNTRA_CHECK_OK(describe_values());
    donated_ = options.donated;
    for (const std::string& size : options.dims) XYNTRA_CHECK_OK(parse_size(size, "dims: "));  // no ranges
    XYNTRA_TRY(DeclaredSizes declared, declared_sizes(graph, options.dims, "dims: "));
    nominal_ = std::move(declared.sizes);
    // Where there can be no cache there is none: a library has nobody to warn.
    const ObjectCache cache = backend_->keeps_objects ? ObjectCache::standard() : ObjectCache::off();
    XYNTRA_TRY(auto first, make_runner(graph, backend_->name, std::move(running), nominal_, cache, precision_,
                                       {}, donated_));
    take_in(std::move(first));
    return {};
  }

  Result<std::string> explain() const {
    if (artifact_) {
      const std::string entry = entry_of_level(*artifact_->level, "explain");
      if (!artifact_->file->has(entry)) return unsupported("the artifact was written without this text");
      XYNTRA_TRY(const auto bytes, artifact_->file->entry(entry));
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    XYNTRA_TRY(const CompileOptions options, explained_options());
    XYNTRA_TRY(const Plan plan, make_plan(module_.graph, options));
    XYNTRA_TRY(auto notes, explain_notes(module_.graph, plan, options));
    return std::move(notes.at("explain"));
  }

  Result<std::string> explain_json() const {
    if (artifact_) return unsupported("an artifact keeps its explanation as text only");
    XYNTRA_TRY(const CompileOptions options, explained_options());
    XYNTRA_TRY(const Plan plan, make_plan(module_.graph, options));
    XYNTRA_TRY(const PlanFigures figures, figures_of(module_.graph, plan, options));
    XYNTRA_TRY(const LoweredPlan lowered, lower_plan(plan, {0, options.budget}));
    Json json{{"backend", backend_->name}};
    json.update(plan_json(plan, figures));
    json["fallbacks"] = fallbacks_json(fallbacks_of(plan, lowered));
    return json.dump(1);
  }

  const std::vector<SessionValue>& inputs() const { return inputs_; }
  const std::vector<SessionValue>& outputs() const { return outputs_; }
  const RunCounts& counts() const { return *counts_; }

  const std::vector<ModelSession::Extension>& extensions() const { return extensions_; }

  Result<std::vector<Tensor>> run(std::vector<NamedTensor> given, std::span<Donation> donations) {
    for (Donation& one : donations) {
      one.in_place = false;
      XYNTRA_TRY(Tensor rows, rows_in_use(one));
      given.push_back({one.name, std::move(rows)});
    }
    XYNTRA_TRY(const std::vector<Datum> data, in_order(std::move(given)));
    std::vector<DonatedInput> donated;
    for (const Donation& one : donations) {
      const std::size_t axis = extension_of(one.name)->axis;
      donated.push_back({position_of(one.name), axis, one.dims[axis], one.bytes, one.unchanged});
    }
    XYNTRA_TRY(const MemoryInUse::Loan memory, in_use_.use(pieces_of(data, donated)));
    ++counts_->runs;
    Loan loan(*this);
    XYNTRA_TRY(std::vector<Datum> results, loan.runner->run_donating(data, donated));
    const SymbolBindings sizes = sizes_of(data);
    for (std::size_t i = 0; i < donations.size(); ++i) {
      if (!donated[i].in_place) continue;
      const ModelSession::Extension& extension = *extension_of(donations[i].name);
      const auto output = std::ranges::find(outputs_, extension.output, &SessionValue::name);
      XYNTRA_TRY(donations[i].length, output->shape[extension.axis].evaluate(sizes));
      donations[i].in_place = true;
    }
    return tensors_of(results, data, donated);
  }

  Result<std::vector<Tensor>> run(std::vector<NamedTensor> given) {
    XYNTRA_TRY(const std::vector<Datum> data, in_order(std::move(given)));
    XYNTRA_TRY(const MemoryInUse::Loan memory, in_use_.use(pieces_of(data, {})));
    ++counts_->runs;
    Loan loan(*this);
    XYNTRA_TRY(std::vector<Datum> results, loan.runner->run(data));
    return tensors_of(results, data, {});
  }

  Status run_into(std::vector<NamedTensor> given, std::span<const Destination> destinations,
                  const ModelSession::OnDevice* on_device = nullptr) {
    BoundMemory there;
    if (on_device != nullptr) {
      XYNTRA_TRY(there, bound_memory(*on_device));
    }
    XYNTRA_TRY(const std::vector<Datum> data, in_order(std::move(given)));
    std::vector<std::span<std::byte>> memory(outputs_.size());
    std::vector<const Destination*> wanted(outputs_.size(), nullptr);
    XYNTRA_TRY(const MemoryInUse::Loan in_use, in_use_.use(pieces_of(data, {})));
    const SymbolBindings sizes = sizes_of(data);
    for (const Destination& one : destinations) {
      const auto known = std::ranges::find(outputs_, one.name, &SessionValue::name);
      if (known == outputs_.end()) return usage_error("the model has no output '" + one.name + "'");
      const auto index = static_cast<std::size_t>(known - outputs_.begin());
      if (wanted[index] != nullptr) return usage_error("output '" + one.name + "' was given twice");
      wanted[index] = &one;
      if (is_string(known->dtype))
        return unsupported("output '" + one.name +
                           "' holds strings, which take no memory whose size is known before the run");
      memory[index] = one.bytes;
      Dims dims;
      bool sized = known->has_shape;
      for (const Dim& dim : known->shape) {
        const Dim bound = dim.substitute(sizes);
        sized = sized && bound.is_constant();
        dims.push_back(bound.is_constant() ? bound.constant() : -1);
      }
      if (sized && backend_->keeps_dtypes) XYNTRA_CHECK_OK(fits(one, known->dtype, dims));
    }
    ++counts_->runs;
    Loan loan(*this);
    XYNTRA_TRY(const std::vector<Datum> results, on_device != nullptr
                                                     ? loan.runner->run_bound(data, memory, there)
                                                     : loan.runner->run_into(data, memory));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == nullptr) continue;
      if (on_device != nullptr && wanted[i]->bytes.empty())
        continue;  // nothing was brought, and nothing is in it
      XYNTRA_CHECK_OK(fits(*wanted[i], results[i].tensor.dtype(), results[i].tensor.dims()));
    }
    return {};
  }

 private:
  // What the options ask of the backend, checked; how models run on it.
  Result<EvaluatorOptions> prepare(const SessionOptions& options) {
    XYNTRA_TRY(backend_, backend_named(options.backend));
    XYNTRA_TRY(precision_, precision_named(options.precision));
    if (precision_ != Precision::F32 && !backend_->runs_plans())
      return usage_error("the backend " + options.backend +
                         " runs a model as it is written, whatever the precision");
    if (!options.donated.empty() && !backend_->takes_donations)
      return usage_error("the backend " + options.backend + " does not work in donated memory");
    const std::int64_t memory = options.max_memory > 0 ? options.max_memory : default_memory_limit();
    EvaluatorOptions running;
    running.threads = options.threads;
    running.budget = std::make_shared<Budget>(memory, std::nullopt, nullptr);
    running.counts = counts_;
    return running;
  }

  Result<CompileOptions> explained_options() const {
    if (!backend_->runs_plans())
      return unsupported("the backend " + std::string(backend_->name) +
                         " runs a model as it is written: there is no plan to explain");
    XYNTRA_TRY(const Target* target, backend_->target());
    return compile_options(*target, nominal_, precision_, donated_);
  }

  Status load_compiled(const ModelSource& source, const SessionOptions& options, EvaluatorOptions running) {
    if (backend_->package != Package::Artifact)
      return usage_error("an artifact holds machine code: it runs on the backend " +
                         backends_where([](const Backend& one) { return one.package == Package::Artifact; }) +
                         ", not on " + options.backend);
    if (!options.inputs.empty()) return usage_error("an artifact says what its inputs are");
    if (!options.donated.empty())
      return usage_error("which inputs of an artifact may be donated was decided when it was compiled");
    XYNTRA_TRY(artifact_, source.artifact(options.threads));
    module_ = signature_of(*artifact_->model.program);
    XYNTRA_CHECK_OK(describe_values());
    take_in(make_runner(*artifact_, std::move(running)));
    return {};
  }

  // Memory of the caller's own, whatever becomes of inputs and model: an output may be an input as it is, and where the model is
  // interpreted, a constant.
  Result<std::vector<Tensor>> tensors_of(std::vector<Datum>& results, const std::vector<Datum>& inputs,
                                         std::span<const DonatedInput> donated) const {
    std::vector<Tensor> tensors;
    for (Datum& result : results) {
      const bool in_place = std::ranges::any_of(
          donated, [&](const DonatedInput& one) { return overlap(one.memory, result.tensor.bytes()); });
      const bool lent = std::ranges::any_of(
          inputs, [&](const Datum& input) { return overlap(input.tensor.bytes(), result.tensor.bytes()); });
      if (!in_place && (lent || backend_->lends_memory)) {
        XYNTRA_TRY(result.tensor, result.tensor.copied());
      }
      tensors.push_back(std::move(result.tensor));
    }
    return tensors;
  }

  Result<BoundMemory> bound_memory(const ModelSession::OnDevice& on_device) const {
    BoundMemory bound{std::vector<bool>(inputs_.size()), std::vector<bool>(outputs_.size()),
                      on_device.stream};
    for (const std::string& name : on_device.names) {
      const auto input = std::ranges::find(inputs_, name, &SessionValue::name);
      const auto output = std::ranges::find(outputs_, name, &SessionValue::name);
      if (input == inputs_.end() && output == outputs_.end())
        return usage_error("the model has no input or output '" + name + "' to lie in a device's memory");
      if (input != inputs_.end()) bound.inputs[static_cast<std::size_t>(input - inputs_.begin())] = true;
      if (output != outputs_.end()) bound.outputs[static_cast<std::size_t>(output - outputs_.begin())] = true;
    }
    return bound;
  }

  void take_in(std::unique_ptr<ModelRunner> runner) {
    for (const ExtendedInput& one : runner->extended_inputs())
      extensions_.push_back({inputs_.at(one.input).name, outputs_.at(one.output).name, one.axis});
    idle_.push_back(std::move(runner));
  }

  const ModelSession::Extension* extension_of(const std::string& input) const {
    const auto found = std::ranges::find(extensions_, input, &ModelSession::Extension::input);
    return found == extensions_.end() ? nullptr : &*found;
  }

  std::size_t position_of(const std::string& input) const {
    return static_cast<std::size_t>(std::ranges::find(inputs_, input, &SessionValue::name) - inputs_.begin());
  }

  // Stands for the input: what counts of it are dtype and dims.
  Result<Tensor> rows_in_use(const Donation& given) const {
    const ModelSession::Extension* extension = extension_of(given.name);
    if (extension == nullptr) {
      return usage_error("input '" + given.name + "' cannot be donated: " +
                         (position_of(given.name) == inputs_.size()
                              ? "the model has no such input"
                              : "the model was not compiled so that a result extends it in place"));
    }
    Dims dims = given.dims;
    if (extension->axis >= dims.size() || given.length < 0 || given.length > dims[extension->axis]) {
      return usage_error("input '" + given.name + "' is donated with " + std::to_string(given.length) +
                         " rows in use of " + to_string(shape_of(dims)));
    }
    XYNTRA_TRY(const std::int64_t whole, byte_size(given.dtype, dims));
    if (given.bytes.size() != static_cast<std::size_t>(whole)) {
      return usage_error("input '" + given.name + "' is donated with " + std::to_string(given.bytes.size()) +
                         " bytes; " + Type::tensor(given.dtype, shape_of(dims)).to_string() + " takes " +
                         std::to_string(whole));
    }
    dims[extension->axis] = given.length;
    XYNTRA_TRY(const std::int64_t used, byte_size(given.dtype, dims));
    return Tensor::borrow(given.dtype, std::move(dims), given.bytes.first(static_cast<std::size_t>(used)),
                          nullptr);
  }

  std::vector<MemoryInUse::Piece> pieces_of(const std::vector<Datum>& data,
                                            std::span<const DonatedInput> donated) const {
    std::vector<MemoryInUse::Piece> pieces;
    for (std::size_t i = 0; i < data.size(); ++i) pieces.push_back({inputs_[i].name, data[i].tensor.bytes()});
    for (const DonatedInput& one : donated) {
      pieces[one.input].bytes = one.memory;
      pieces[one.input].donated = true;
    }
    return pieces;
  }

  Status describe_values() {
    XYNTRA_TRY(inputs_, describe(module_.graph, module_.graph.inputs, "input"));
    XYNTRA_TRY(outputs_, describe(module_.graph, module_.graph.outputs, "output"));
    return {};
  }

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

  std::shared_ptr<RunCounts> counts_ = std::make_shared<RunCounts>();
  const Backend* backend_ = nullptr;
  Module module_;
  std::optional<LoadedArtifact> artifact_;
  SymbolBindings nominal_;
  Precision precision_ = Precision::F32;
  std::vector<std::string> donated_;
  std::vector<ModelSession::Extension> extensions_;
  MemoryInUse in_use_;
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
  Status loaded = state->load({path}, options);
  if (!loaded) return failure(std::move(loaded).error().in_file(path));
  return std::unique_ptr<ModelSession>(new ModelSession(std::move(state)));
}

Result<std::unique_ptr<ModelSession>> ModelSession::load(std::span<const std::byte> content,
                                                         const SessionOptions& options) {
  XYNTRA_TRY(const ModelSource source, copied(content));
  auto state = std::make_unique<State>();
  XYNTRA_CHECK_OK(state->load(source, options));
  return std::unique_ptr<ModelSession>(new ModelSession(std::move(state)));
}

Result<std::unique_ptr<ModelSession>> ModelSession::load(const ReadModule& read,
                                                         const SessionOptions& options) {
  auto state = std::make_unique<State>();
  XYNTRA_CHECK_OK(state->load(read, options));
  return std::unique_ptr<ModelSession>(new ModelSession(std::move(state)));
}

Status ModelSession::compile(const std::string& path, const std::string& output,
                             const SessionOptions& options, const std::vector<std::string>& cpus) {
  auto compile = [&]() -> Status {
    const std::int64_t memory = options.max_memory > 0 ? options.max_memory : default_memory_limit();
    XYNTRA_TRY(const Precision precision, precision_named(options.precision));
    XYNTRA_TRY(const LoadOptions loading,
               loading_options(options, std::make_shared<Budget>(memory, std::nullopt, nullptr)));
    XYNTRA_TRY(const Module module, load_model(path, loading));
    ArtifactOptions writing;
    XYNTRA_TRY(DeclaredSizes declared, declared_sizes(module.graph, options.dims, "dims: "));
    writing.ranges = std::move(declared.ranges);
    writing.compile = compile_options(host_target(), declared.sizes, precision, options.donated);
    writing.compile.budget = loading.budget;
    if (!cpus.empty()) writing.cpus = cpus;
    writing.threads = options.threads;
    writing.cache = ObjectCache::standard();
    writing.notes = [&module](const Plan& plan, const CompileOptions& made_with) {
      return explain_notes(module.graph, plan, made_with);
    };
    XYNTRA_TRY(const ArtifactFigures figures, write_artifact(module, output, writing));
    static_cast<void>(figures);
    return {};
  };
  Status done = compile();
  if (!done) return failure(std::move(done).error().in_file(path));
  return {};
}

Result<std::string> ModelSession::explain() const { return state_->explain(); }
Result<std::string> ModelSession::explain_json() const { return state_->explain_json(); }
const std::vector<SessionValue>& ModelSession::inputs() const { return state_->inputs(); }
const std::vector<SessionValue>& ModelSession::outputs() const { return state_->outputs(); }
const std::vector<ModelSession::Extension>& ModelSession::extensions() const { return state_->extensions(); }
const RunCounts& ModelSession::counts() const { return state_->counts(); }
Result<std::vector<Tensor>> ModelSession::run(std::vector<NamedTensor> inputs,
                                              std::span<Donation> donations) {
  return state_->run(std::move(inputs), donations);
}
Result<std::vector<Tensor>> ModelSession::run(std::vector<NamedTensor> inputs) {
  return state_->run(std::move(inputs));
}
Status ModelSession::run_into(std::vector<NamedTensor> inputs, std::span<const Destination> outputs) {
  return state_->run_into(std::move(inputs), outputs);
}

Status ModelSession::run_on_device(std::vector<NamedTensor> inputs, std::span<const Destination> outputs,
                                   const OnDevice& on_device) {
  return state_->run_into(std::move(inputs), outputs, &on_device);
}

}  // namespace xyntra
