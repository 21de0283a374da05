#include "frontends/torchscript/evaluator.h"

#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

aten::ImportOptions importer_options(const ImportOptions& options) {
  aten::ImportOptions made;
  made.budget = options.budget;
  return made;
}

}  // namespace

Evaluator::Nested::Nested(Evaluator& evaluator) : evaluator_(evaluator) { ++evaluator_.depth_; }
Evaluator::Nested::~Nested() { --evaluator_.depth_; }
Status Evaluator::Nested::check() const {
  constexpr int kMostNesting = 600;  // of calls, statements and expressions within one another
  if (evaluator_.depth_ <= kMostNesting) return {};
  return limit_error("calls, statements and expressions are nested more than " +
                     std::to_string(kMostNesting) + " deep");
}

Evaluator::Evaluator(Library& library, const ImportOptions& options)
    : library_(library),
      options_(options),
      importer_options_(importer_options(options)),
      importer_(program_, importer_options_),
      steps_left_(options.max_steps) {
  program_.values.resize(1);  // whose name the values of a call get
  main_scope_ = importer_.new_main_scope();
  scope_ = main_scope_.get();
}

Result<Module> Evaluator::run() {
  const Pickle& data = library_.data();
  if (data[data.root].kind != PickleValue::Kind::Object)
    return bad_model("data.pkl holds " + std::string(name_of(data[data.root].kind)) + ", no module");
  XYNTRA_TRY(const Value root, stored(data, data.root, ""));
  const auto& module = std::get<std::shared_ptr<Instance>>(root.held);
  const FunctionDef* forward = module->type->method("forward");
  if (forward == nullptr) {
    return unsupported("module " + module->type_name + " has no method 'forward'" +
                       (module->type->method("forward__0") != nullptr ? ", but several of them" : ""));
  }
  XYNTRA_TRY(Values arguments, bind_parameters(*module->file, *forward));
  Callable callable;
  callable.file = module->file;
  callable.function = forward;
  callable.self = module;
  auto returned = invoke(callable, std::move(arguments), {});
  if (!returned) return failure(with_guesses(std::move(returned).error()));
  if (keeps_missing() && !missing_.empty()) return missing_module();
  XYNTRA_CHECK_OK(define_outputs(*returned));
  return finished();
}

// A dtype that nobody said may be what is wrong.
Error Evaluator::with_guesses(Error error) const {
  if (!error.hint.empty() || guessed_.empty() || error.op.empty()) return error;
  error.hint = "the dtypes of inputs are not in the file: f32 is taken for " + joined(guessed_, ", ") +
               "; --dtype " + guessed_[0] + "=i64 says another";
  return error;
}

// A change of one tensor would be one of every tensor that lies in the same memory.
Status Evaluator::check_shared_memory() {
  std::ranges::sort(stored_memory_, std::less(), [](const auto& stored) { return &stored.first.front(); });
  const std::byte* last = nullptr;  // of those that overlap so far
  std::string first, changed;       // of them
  for (const auto& [bytes, variable] : stored_memory_) {
    const bool shares = last != nullptr && std::less_equal()(&bytes.front(), last);
    if (!shares) first = variable->state, changed.clear();
    if (variable->changes != 0) changed = variable->state;
    if (shares && !changed.empty())
      return unsupported("tensor '" + changed + "' is changed, and shares its memory with '" +
                         (changed == first ? variable->state : first) + "'");
    last = shares ? std::max(last, &bytes.back(), std::less()) : &bytes.back();
  }
  return {};
}

Result<Module> Evaluator::finished() {
  XYNTRA_CHECK_OK(check_shared_memory());
  Module module;
  module.graph = std::move(main_scope_->builder.graph());
  for (const auto& [name, variable] : inputs_) {
    if (variable->changes != 0)
      warnings_.insert("input '" + name + "' is changed by the model; the change is not seen outside");
  }
  for (const auto* values : {&stored_data_, &stored_constants_}) {
    for (const auto& [id, value] : *values) {
      if (value.tensor() != nullptr && (*value.tensor())->changes != 0)
        warnings_.insert("tensor '" + (*value.tensor())->state +
                         "' is changed by the model; every run starts with the value in the file");
    }
  }
  module.warnings.assign(warnings_.begin(), warnings_.end());
  module.metadata.emplace("producer_name", "torch.jit");
  module.metadata.emplace("format_version", std::to_string(library_.version()));
  return module;
}

// A graph of nothing but the calls that have no definition, for `xyntra check` to list.
Module Evaluator::missing_module() const {
  Module module;
  for (const auto& [target, origins] : missing_) {
    for (const std::string& origin : origins)
      module.graph.add_node(target, {}, {module.graph.unique_name("missing")}, {}, origin);
  }
  return module;
}

}  // namespace xyntra::torchscript
