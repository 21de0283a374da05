#include "compiler/lock.h"

#include <set>

#include "compiler/background_hashing.h"
#include "fusion/check.h"
#include "interp/evaluator.h"
#include "ops/infer.h"
#include "plan/check.h"
#include "support/files/file.h"
#include "support/hash/sha256.h"
#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

using WeightsByHash = std::map<std::string, Tensor>;

WeightsByHash weights_of(const Graph& graph, HashCache* cache = nullptr) {
  WeightsByHash weights;
  for (const auto& [id, hash] : hashes_of_weights(graph, cache))
    weights.emplace(hash, graph.value(id).constant);
  return weights;
}

// A long constant that neither the model nor a recipe gives is written with all its elements.
void keep_what_can_be_found(WeightHashes& hashes, const WeightsByHash& model, const std::set<ValueId>& made) {
  std::erase_if(hashes, [&](const auto& entry) {
    return !model.contains(entry.second) && !made.contains(entry.first);
  });
}

class Loader {
 public:
  Loader(Lock lock, const Module& model, const LockOptions& options)
      : lock_(std::move(lock)), plan_(lock_.plan), model_(model), options_(options) {}

  Result<Plan> run() {
    XYNTRA_CHECK_OK(made_for_this());
    XYNTRA_CHECK_OK(keeps_the_digits());
    XYNTRA_CHECK_OK(supply_weights());
    XYNTRA_CHECK_OK(settle_types());
    XYNTRA_CHECK_OK(has_the_interface());
    XYNTRA_CHECK_OK(check_plan(plan_));
    XYNTRA_CHECK_OK(check_groups(plan_, *target_, options_.budget.get()));
    return std::move(plan_);
  }

 private:
  Status made_for_this() {
    auto known = find_target(plan_.target);
    if (!known)
      return failure(
          with_hint(ErrorClass::Usage,
                    "the lock was made for the target '" + printable(plan_.target) + "', which there is not",
                    "xyntra devices lists the targets; xyntra lock makes a lock for one of them"));
    target_ = *known;
    if (options_.target != nullptr && options_.target->name != target_->name) {
      return failure(with_hint(ErrorClass::Usage,
                               "the lock was made for the target '" + plan_.target + "', not for '" +
                                   std::string(options_.target->name) + "'",
                               how_to_replay(*target_)));
    }
    if (plan_.target_hash != target_->hash()) {
      return failure(with_hint(
          ErrorClass::Usage,
          "the lock was made for another state of the target '" + plan_.target + "': its table has changed",
          "make it again with xyntra lock"));
    }
    given_ = weights_of(model_.graph, &hashes_);
    const auto hash_of = [this](const Tensor& tensor) { return hashes_.of(tensor); };
    if (plan_.model_hash != content_hash(model_, hash_of)) {
      return failure(with_hint(ErrorClass::Usage, "the lock was made for another model",
                               "make it again with xyntra lock"));
    }
    return {};
  }

  // The flags of xyntra run by which a lock for this target runs here.
  static std::string how_to_replay(const Target& target) {
    const std::string name(target.name);
    if (target.kind == TargetKind::WebGpu) return "replay it with --backend wgsl --target " + name;
    if (target.kind == TargetKind::Gpu) return "replay it with --backend ptx --target " + name;
    if (target.kind == TargetKind::Cpu && runs_on_host(target)) return "replay it with --target " + name;
    return "no backend of this machine runs code for it; replay it interpreted, with --backend sim "
           "--target " +
           name;
  }

  static Error with_hint(ErrorClass error_class, std::string message, std::string hint) {
    Error error;
    error.error_class = error_class;
    error.message = std::move(message);
    error.hint = std::move(hint);
    return error;
  }

  Status keeps_the_digits() const {
    const auto forbidden = [this](Exactness exactness) {
      return (exactness == Exactness::Reassociating && !options_.allow_reassociating) ||
             (exactness == Exactness::PrecisionChanging && !options_.allow_precision_changing);
    };
    const auto refuse = [](const std::string& what, Exactness exactness) {
      return usage_error("the lock " + what + " is " + name_of(exactness) + ", which is forbidden here");
    };
    for (const CertificateLine& line : plan_.certificate) {
      if (forbidden(line.exactness))
        return refuse("uses the rule '" + printable(line.rule) + "', which", line.exactness);
    }
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      const Exactness exactness = plan_.groups[g].schedule.exactness;
      if (forbidden(exactness))
        return refuse("has a schedule, that of group " + std::to_string(g) + ", which", exactness);
    }
    return {};
  }

  // ---- Weights
  Status give(Graph& graph, ValueId id, const Tensor& tensor) const {
    Value& value = graph.value(id);
    const Type type = Type::tensor(tensor.dtype(), shape_of(tensor.dims()));
    if (!(value.type == type)) {
      return bad_model("the lock says that %" + printable(value.name) + " is " + value.type.to_string() +
                       ", but this weight is " + type.to_string());
    }
    value.constant = tensor;
    return {};
  }

  Status supply_weights() {
    XYNTRA_TRY(const WeightsByHash made, follow_recipes(given_));
    for (const auto& [id, hash] : lock_.weights) {
      const bool in_model = given_.contains(hash);
      const auto found = in_model ? given_.find(hash) : made.find(hash);
      if (!in_model && found == made.end()) {
        return bad_model("the weight %" + printable(plan_.graph.value(id).name) +
                         " is neither in the model nor a derived constant of the lock");
      }
      XYNTRA_CHECK_OK(give(plan_.graph, id, found->second));
    }
    return {};
  }

  Result<WeightsByHash> follow_recipes(const WeightsByHash& given) {
    WeightsByHash made;
    Graph& recipes = plan_.derived_constants;
    if (recipes.outputs.empty()) return made;
    if (!recipes.inputs.empty()) return bad_model("the derived constants of the lock have inputs");
    for (const auto& [id, hash] : lock_.derived_weights) {
      auto found = given.find(hash);
      if (found == given.end())
        return bad_model("a derived constant needs the weight %" + printable(recipes.value(id).name) +
                         ", which the model does not have");
      XYNTRA_CHECK_OK(give(recipes, id, found->second));
    }
    XYNTRA_CHECK_OK(verify(recipes));
    XYNTRA_CHECK_OK(infer_types(recipes, options_.budget.get()));
    EvaluatorOptions evaluating;
    evaluating.threads = options_.threads;
    evaluating.budget = options_.budget;
    XYNTRA_TRY(Evaluator evaluator, Evaluator::create(recipes, evaluating));
    XYNTRA_TRY(const std::vector<Datum> results, evaluator.run({}));
    for (const Datum& result : results) {
      if (result.kind != Datum::Kind::Tensor) return bad_model("a derived constant of the lock is no tensor");
      made.emplace(result.tensor.content_hash(), result.tensor);
    }
    return made;
  }

  // ---- Types
  Status settle_types() {
    Graph& graph = plan_.graph;
    XYNTRA_CHECK_OK(verify(graph));
    std::vector<Type> written;
    for (std::size_t i = 0; i < graph.value_count(); ++i) written.push_back(graph.value(ValueId(i)).type);
    XYNTRA_CHECK_OK(infer_types(graph, options_.budget.get()));
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const Value& value = graph.value(ValueId(i));
      if (value.type == written[i]) continue;
      return bad_model("the lock says that %" + printable(value.name) + " is " + written[i].to_string() +
                       ", but it is " + value.type.to_string());
    }
    return {};
  }

  // The model's type of an input, with sizes that the lock takes for one.
  Type assumed(Type type) const {
    if (!type.is_tensor() || !type.shape) return type;
    for (Dim& dim : *type.shape) {
      for (const Assumption& assumption : plan_.assumptions) {
        if (dim.is_symbol() && dim.to_string() == assumption.symbol) dim = assumption.equals;
      }
    }
    return type;
  }

  Status has_the_interface() const {
    const auto same = [this](const std::vector<ValueId>& ours, const std::vector<ValueId>& theirs,
                             bool types) {
      if (ours.size() != theirs.size()) return false;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const Value &own = plan_.graph.value(ours[i]), &other = model_.graph.value(theirs[i]);
        if (own.name != other.name || (types && !(own.type == assumed(other.type)))) return false;
        if (own.type.kind != other.type.kind || own.type.dtype != other.type.dtype) return false;
      }
      return true;
    };
    if (!same(plan_.graph.inputs, model_.graph.inputs, true))
      return bad_model("the lock has other inputs than the model");
    if (!same(plan_.graph.outputs, model_.graph.outputs, false))
      return bad_model("the lock has other outputs than the model");
    return {};
  }

  Lock lock_;
  Plan& plan_;
  const Module& model_;
  const LockOptions& options_;
  HashCache hashes_;  // of tensors of the model
  WeightsByHash given_;
  const Target* target_ = nullptr;
};

// A lock ends with "end": one that does not was cut off, and says so before what is wrong at its last line.
Result<Lock> parse_whole_lock(std::string_view text) {
  auto lock = parse_lock(text);
  if (lock) return lock;
  Error& error = lock.error();
  const std::string_view body = trimmed(text);
  if (body.empty()) {
    error.message = "the lock is empty";
  } else if (body.starts_with("xlock ") && !body.ends_with("\nend")) {
    error.message = "the lock is truncated: " + error.message;
  } else {
    return lock;
  }
  error.hint = "make it again with xyntra lock";
  return lock;
}

}  // namespace

std::string configuration_text(const CompileOptions& options) {
  const auto line = [](const char* name, std::int64_t value) {
    return std::string(name) + " = " + std::to_string(value) + "\n";
  };
  const RewriteOptions& rewrite = options.rewrite;
  std::string text = line("rewrite.enabled", is_on(options, "rewrite")) +
                     line("rewrite.reassociating", rewrite.allow_reassociating) +
                     line("rewrite.precision_changing", rewrite.allow_precision_changing) +
                     line("rewrite.iterations", rewrite.limits.iterations) +
                     line("rewrite.nodes", rewrite.limits.nodes) +
                     line("rewrite.nodes_per_node", rewrite.limits.nodes_per_node) +
                     line("rewrite.matches_per_rule", rewrite.limits.matches_per_rule) +
                     line("rewrite.fold_limit", rewrite.fold_limit);
  for (const UserRule& rule : rewrite.user_rules) {
    text += "rule " + quote(rule.name) + " " + quote(rule.left) + " => " + quote(rule.right) + " if " +
            quote(rule.guard) + " " + std::to_string(static_cast<int>(rule.rule_class)) + "\n";
  }
  for (const std::string& name : options.donated) text += "donate " + quote(name) + "\n";
  for (const Form form : options.barred_forms) text += std::string("bar ") + name_of(form) + "\n";
  for (const std::string& step : options.left_out) {
    if (step != "rewrite" && step != "fuse") text += "without " + step + "\n";
  }
  return text + line("fusion.enabled", is_on(options, "fuse")) +
         line("fusion.max_nodes", static_cast<std::int64_t>(options.fusion.max_nodes)) +
         line("fusion.reassociating", options.fusion.choose.allow_reassociating) +
         (options.precision == Precision::F32
              ? ""
              : "precision = " + std::string(name_of(options.precision)) + "\n");
}

namespace {

// Groups of the plan whose own form failed when they were lowered.
void bar_broken_forms(const Plan& plan, const LoweredPlan& lowered, KeptApart& plain) {
  for (const RefusedForm& form : lowered.refused) {
    if (!form.broken) continue;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {  // a step for each group
      const ProgramStep& step = lowered.program.steps.at(g);
      if (step.kind == ProgramStep::Kind::Launch && lowered.kernels.at(step.callee).name == form.kernel)
        plain.emplace(names_of_nodes(plan.graph, plan.groups[g]), "its own form failed: " + form.reason);
    }
  }
}

// A lock says only what works as it stands: what fails when it is lowered is planned again, in plain loops.
Status plan_what_lowers(const Graph& graph, const CompileOptions& options, MadeLock& made) {
  CompileOptions left = options;
  while (true) {
    XYNTRA_TRY(made.plan, make_plan(graph, left));
    XYNTRA_TRY(made.lowered, lower_plan(made.plan, {.budget = options.budget, .pack_weights = false}));
    const std::size_t before = left.plain.size();
    bar_broken_forms(made.plan, made.lowered, left.plain);
    if (left.plain.size() == before) return {};
  }
}

}  // namespace

Result<MadeLock> make_lock(const Module& model, const CompileOptions& options) {
  MadeLock made;
  BackgroundHashing hashing(model.graph);
  XYNTRA_CHECK_OK(plan_what_lowers(model.graph, options, made));
  const BudgetScope scope("hashing weights");
  HashCache cache = hashing.finish();  // both graphs stay alive
  const WeightsByHash weights = weights_of(model.graph, &cache);
  made.plan.model_hash = content_hash(model, [&cache](const Tensor& tensor) { return cache.of(tensor); });
  made.plan.target_hash = options.target->hash();
  made.plan.configuration_hash = sha256_hex(std::string_view(configuration_text(options)));
  Lock lock = lock_of(made.plan, &cache);
  std::set<ValueId> made_by_recipe;
  for (ValueId output : lock.plan.derived_constants.outputs)
    made_by_recipe.insert(lock.plan.graph.find(lock.plan.derived_constants.value(output).name));
  keep_what_can_be_found(lock.weights, weights, made_by_recipe);
  keep_what_can_be_found(lock.derived_weights, weights, {});
  made.text = print_lock(lock);
  return made;
}

Result<Plan> load_lock(std::string_view text, const Module& model, const LockOptions& options) {
  XYNTRA_TRY(Lock lock, parse_whole_lock(text));
  XYNTRA_TRY(Plan plan, Loader(std::move(lock), model, options).run());
  plan.replayed = true;
  return plan;
}

Result<Plan> load_lock_file(const std::string& path, const Module& model, const LockOptions& options) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  auto plan = load_lock(file->text(), model, options);
  if (!plan) return failure(std::move(plan).error().in_file(path));
  return plan;
}

Result<Lock> read_lock_file(const std::string& path) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  auto lock = parse_whole_lock(file->text());
  if (!lock) return failure(std::move(lock).error().in_file(path));
  return lock;
}

}  // namespace xyntra
