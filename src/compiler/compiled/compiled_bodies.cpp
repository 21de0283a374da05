#include "compiler/compiled/compiled_bodies.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "compiler/compiled/host_calls.h"
#include "ops/infer.h"
#include "schedule/schedule_rows.h"

namespace xyntra {
namespace {

constexpr std::int64_t kLeastBytes =
    2048;  // that the kernels of a body move: with fewer, a call takes as long as the evaluator
constexpr int kMostNested = 4;

// One body; each call takes a context that no other call has.
class Body {
 public:
  Body(CompiledModel model, int threads) : model_(std::move(model)), threads_(threads) {}

  std::optional<Result<std::vector<Datum>>> call(std::span<const Datum> arguments,
                                                 const std::shared_ptr<Budget>& budget) const {
    std::unique_ptr<Context> context = taken(budget);
    if (!context->run.takes(arguments)) return std::nullopt;
    std::optional<Result<std::vector<Datum>>> results = context->run.run(arguments);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(context));
    return results;
  }

 private:
  struct Context {
    std::shared_ptr<Budget> budget;
    RunContext run;
  };

  std::unique_ptr<Context> taken(const std::shared_ptr<Budget>& budget) const {
    {
      const std::lock_guard lock(mutex_);
      while (!free_.empty()) {
        std::unique_ptr<Context> found = std::move(free_.back());
        free_.pop_back();
        if (found->budget == budget) return found;
      }
    }
    RunOptions options;
    options.threads = threads_;
    options.budget = budget;
    return std::unique_ptr<Context>(
        new Context{budget, RunContext(model_.program, model_.host, options, model_.driver)});
  }

  CompiledModel model_;
  int threads_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> free_;
};

class CompiledBodies : public SubgraphCalls {
 public:
  std::size_t count() const { return bodies_.size(); }
  void add(std::shared_ptr<const Graph> body, CompiledModel model, int threads) {
    bodies_.emplace(body.get(), std::make_unique<Body>(std::move(model), threads));
    kept_.push_back(std::move(body));
  }
  std::optional<Result<std::vector<Datum>>> call(const Graph& subgraph, std::span<const Datum> arguments,
                                                 const std::shared_ptr<Budget>& budget) const override {
    const auto found = bodies_.find(&subgraph);
    return found == bodies_.end() ? std::nullopt : found->second->call(arguments, budget);
  }

 private:
  std::map<const Graph*, std::unique_ptr<Body>> bodies_;
  std::vector<std::shared_ptr<const Graph>> kept_;  // whose addresses these are
};

// Inputs as they are given, sizes that no input of the body tells by itself as new symbols; nothing where a rank is not known.
std::optional<Graph> with_inputs(const Graph& body, std::span<const ValueFacts> given) {
  if (given.size() != body.inputs.size()) return std::nullopt;
  Graph made = body;
  std::set<ValueId> seen;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Type& type = given[i].type;
    if (!type.is_tensor() || !type.is_of_numbers() || !type.shape || !seen.insert(made.inputs[i]).second)
      return std::nullopt;
    Shape shape = *type.shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!shape[d].is_constant() && !shape[d].is_symbol())
        shape[d] = Dim::symbol("body" + std::to_string(i) + "_" + std::to_string(d));
    }
    made.value(made.inputs[i]).type = Type::tensor(type.dtype, std::move(shape));
  }
  return made;
}

// Free sizes may be any: what has some is compiled.
bool pays(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const Group& group : plan.groups) {
    if (!is_kernel(group)) continue;
    const Dim moved = group.bytes_in + group.bytes_out;
    bytes += moved.is_constant() ? std::clamp<std::int64_t>(moved.constant(), 0, kLeastBytes) : kLeastBytes;
  }
  return bytes >= kLeastBytes;
}

Result<std::optional<CompiledModel>> compiled(const Graph& body, std::span<const ValueFacts> given,
                                              const CompileOptions& compiling, const CpuOptions& cpu,
                                              int depth);

Result<std::size_t> add_bodies(CompiledModel& model, const Plan& plan, const CompileOptions& compiling,
                               const CpuOptions& cpu, int depth) {
  const auto* host = dynamic_cast<const NodesOnHost*>(model.host.get());
  if (host == nullptr || depth == kMostNested) return 0;
  auto bodies = std::make_shared<CompiledBodies>();
  for (const Group& group : plan.groups) {
    if (group.hero != Hero::Host) continue;
    const Node& node = plan.graph.node(group.nodes.front());
    const OpDef* def = find_op(node.op);
    if (def == nullptr || !def->has(kControlFlow)) continue;
    std::vector<ValueFacts> inputs;
    for (ValueId input : node.inputs)
      inputs.push_back(input.valid() ? facts_of(plan.graph, input) : ValueFacts{{}, {}, {}, false});
    std::map<const Graph*, std::vector<ValueFacts>> given;
    InferenceWork work;
    work.budget = cpu.budget.get();
    work.given = &given;
    if (!infer_node(*def, node, inputs, "u", &work)) continue;
    for (const auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attribute);
      if (body == nullptr || *body == nullptr || !given.count(body->get())) continue;
      XYNTRA_TRY(std::optional<CompiledModel> made,
                 compiled(**body, given.at(body->get()), compiling, cpu, depth));
      if (made) bodies->add(*body, std::move(*made), cpu.threads);
    }
  }
  const std::size_t count = bodies->count();
  if (count == 0) return count;
  auto own = std::make_shared<NodesOnHost>(*host);
  own->use(std::move(bodies));
  model.host = std::move(own);
  return count;
}

// What only a limit may stop; else the evaluator serves.
template <class T>
std::optional<Error> limit_of(const Result<T>& result) {
  if (result || result.error().error_class != ErrorClass::Limit) return std::nullopt;
  return result.error();
}

Result<std::optional<CompiledModel>> compiled(const Graph& body, std::span<const ValueFacts> given,
                                              const CompileOptions& compiling, const CpuOptions& cpu,
                                              int depth) {
  const std::optional<Graph> graph = with_inputs(body, given);
  if (!graph) return std::nullopt;
  const Result<Plan> plan = make_plan(*graph, compiling);
  if (const auto limit = limit_of(plan)) return failure(*limit);
  if (!plan || !pays(*plan)) return std::nullopt;
  Result<CompiledModel> model = compile_for_cpu(*plan, cpu);
  if (const auto limit = limit_of(model)) return failure(*limit);
  if (!model) return std::nullopt;
  XYNTRA_CHECK_OK(add_bodies(*model, *plan, compiling, cpu, depth + 1));
  return std::optional(std::move(*model));
}

}  // namespace

Result<std::size_t> compile_bodies(CompiledModel& model, const Plan& plan, const CompileOptions& compiling,
                                   const CpuOptions& cpu) {
  return add_bodies(model, plan, compiling, cpu, 0);
}

}  // namespace xyntra
