#include <algorithm>

#include "frontends/torchscript/evaluator.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

Status Evaluator::step(std::size_t items) {
  constexpr std::size_t kItemsPerStep = 64;
  steps_left_ -= 1 + static_cast<std::int64_t>(items / kItemsPerStep);
  if (steps_left_ < 0)
    return limit_error("more than " + std::to_string(options_.max_steps) +
                       " statements and calls are evaluated");
  if (options_.budget) XYNTRA_CHECK_OK(options_.budget->check_time());
  return {};
}

Result<Evaluator::Outcome> Evaluator::execute(const Block& block, Frame& frame) {
  for (const StatementId id : block) {
    const Statement& statement = (*frame.file)[id];
    XYNTRA_CHECK_OK(step());
    file_ = frame.file;
    line_ = statement.line;
    const Nested nested(*this);
    XYNTRA_CHECK_OK(nested.check());
    auto outcome = execute(statement, frame);
    if (!outcome) {
      if (!placed_ && !raised_) {
        outcome.error().message = frame.file->place(statement.line) + ": " + outcome.error().message;
        placed_ = true;
      }
      return outcome;
    }
    if (outcome->returned) return outcome;
  }
  return Outcome{};
}

Result<Evaluator::Outcome> Evaluator::execute(const Statement& statement, Frame& frame) {
  switch (statement.kind) {
    case Statement::Kind::Pass: return Outcome{};
    case Statement::Kind::Assign: {
      XYNTRA_CHECK_OK(assign(statement, frame));
      return Outcome{};
    }
    case Statement::Kind::Expression: {
      XYNTRA_CHECK_OK(evaluate(statement.value, frame));
      return Outcome{};
    }
    case Statement::Kind::Return: {
      Outcome outcome;
      outcome.returned = true;
      if (statement.value.valid()) {
        XYNTRA_TRY(outcome.value, evaluate(statement.value, frame));
      }
      return outcome;
    }
    case Statement::Kind::If: return execute_if(statement, frame);
    case Statement::Kind::For: return execute_for(statement, frame);
    case Statement::Kind::While: return execute_while(statement, frame);
    case Statement::Kind::With: return execute_with(statement, frame);
  }
  internal_error("execute: no such kind of statement");
}

Status Evaluator::assign(const Statement& statement, Frame& frame) {
  XYNTRA_TRY(Value value, evaluate(statement.value, frame));
  if (!statement.unpacks) return assign_to(statement.targets[0], std::move(value), frame);
  if (value.why_unreadable() != nullptr) {
    for (const ExpressionId target : statement.targets) XYNTRA_CHECK_OK(assign_to(target, value, frame));
    return {};
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr) return bad_model(kind_of(value) + " is unpacked");
  if (sequence->items.size() != statement.targets.size()) {
    return bad_model(std::to_string(sequence->items.size()) + " values for " +
                     std::to_string(statement.targets.size()) + " names");
  }
  const Values items = sequence->items;
  for (std::size_t i = 0; i < items.size(); ++i)
    XYNTRA_CHECK_OK(assign_to(statement.targets[i], items[i], frame));
  return {};
}

Status Evaluator::assign_to(ExpressionId target, Value value, Frame& frame) {
  const Expression& expression = (*frame.file)[target];
  if (expression.kind == Expression::Kind::Name) {
    frame.names[expression.name] = std::move(value);
    return {};
  }
  if (expression.kind != Expression::Kind::Attribute) return bad_model("an assignment to what is no name");
  XYNTRA_TRY(const Value base, evaluate(expression.operands[0], frame));
  const auto* instance = std::get_if<std::shared_ptr<Instance>>(&base.held);
  if (instance == nullptr)
    return bad_model("attribute '" + std::string(expression.name) + "' of " + kind_of(base) + " is assigned");
  before_change(*instance);
  Instance& object = **instance;
  if (object.from_file) {
    const std::string name =
        object.path.empty() ? std::string(expression.name) : object.path + "." + std::string(expression.name);
    warnings_.insert("attribute '" + name +
                     "' is changed by the model; every run starts with the value in the file");
  }
  object.attributes.insert_or_assign(std::string(expression.name), std::move(value));
  return {};
}

Result<Evaluator::Outcome> Evaluator::execute_for(const Statement& statement, Frame& frame) {
  const ExpressionId target = statement.targets[0];
  const Expression& over = (*frame.file)[statement.value];
  const bool is_range = over.kind == Expression::Kind::Call &&
                        (*frame.file)[over.operands[0]].kind == Expression::Kind::Name &&
                        (*frame.file)[over.operands[0]].name == "range";
  if (!is_range) {
    XYNTRA_TRY(const Value list, evaluate(statement.value, frame));
    if (list.why_unreadable() != nullptr && keeps_missing()) return Outcome{};
    if (list.sequence() == nullptr) return unsupported("a loop over " + kind_of(list));
    const Values items = list.sequence()->items;  // torch loops over the list as it was
    for (const Value& item : items) {
      XYNTRA_CHECK_OK(step());
      XYNTRA_CHECK_OK(assign_to(target, item, frame));
      XYNTRA_TRY(Outcome outcome, execute(statement.body, frame));
      if (outcome.returned) return outcome;
    }
    return Outcome{};
  }
  if (over.operands.size() != 2) return unsupported("range() with other than one argument");
  XYNTRA_TRY(const Value count, evaluate(over.operands[1], frame));
  if (count.why_unreadable() != nullptr && keeps_missing()) return Outcome{};
  const aten::Number* trips = count.number();
  if (trips == nullptr) return bad_model("range() of " + kind_of(count));
  if (!trips->is_whole()) {
    XYNTRA_CHECK_OK(run_loop(statement, *trips, frame));
    return Outcome{};
  }
  for (std::int64_t i = 0; i < trips->whole(); ++i) {
    XYNTRA_CHECK_OK(step());
    XYNTRA_CHECK_OK(assign_to(target, Value::of(i), frame));
    XYNTRA_TRY(Outcome outcome, execute(statement.body, frame));
    if (outcome.returned) return outcome;
  }
  return Outcome{};
}

Result<Evaluator::Outcome> Evaluator::execute_while(const Statement& statement, Frame& frame) {
  while (true) {
    XYNTRA_CHECK_OK(step());
    XYNTRA_TRY(const Value condition, evaluate(statement.value, frame));
    if (condition.why_unreadable() != nullptr && keeps_missing()) return Outcome{};
    XYNTRA_TRY(const std::optional<bool> known, truth(condition));
    if (!known) {
      XYNTRA_CHECK_OK(run_loop(statement, std::nullopt, frame));
      return Outcome{};
    }
    if (!*known) return Outcome{};
    XYNTRA_TRY(Outcome outcome, execute(statement.body, frame));
    if (outcome.returned) return outcome;
  }
}

// What torch has of these in models switches gradients off and on again, which has no meaning here.
Result<Evaluator::Outcome> Evaluator::execute_with(const Statement& statement, Frame& frame) {
  XYNTRA_TRY(const Value context, evaluate(statement.value, frame));
  const Instance* instance = context.instance();
  if (instance == nullptr || !std::string_view(instance->type_name).starts_with("__torch__.torch.autograd."))
    return unsupported("'with' of " + kind_of(context));
  if (!statement.targets.empty()) XYNTRA_CHECK_OK(assign_to(statement.targets[0], Value(), frame));
  return execute(statement.body, frame);
}

Result<Value> Evaluator::invoke(const Callable& callable, Values positional, const Keywords& keywords) {
  const FunctionDef& function = *callable.function;
  const std::string name(function.name);
  XYNTRA_CHECK_OK(step());
  const Nested nested(*this);
  XYNTRA_CHECK_OK(nested.check());
  Frame frame;
  frame.file = callable.file;
  frame.path = path_;
  if (callable.self) {
    positional.insert(positional.begin(), Value(callable.self));
    if (!callable.self->path.empty()) frame.path = callable.self->path;
  }
  if (positional.size() > function.parameters.size())
    return bad_model(name + "() is given too many arguments");
  for (std::size_t i = 0; i < positional.size(); ++i)
    frame.names[function.parameters[i].name] = std::move(positional[i]);
  for (const auto& [keyword, value] : keywords) {
    const bool known =
        std::ranges::find(function.parameters, keyword, &Parameter::name) != function.parameters.end();
    if (!known || !frame.names.emplace(keyword, value).second)
      return bad_model(name + "() has no argument '" + std::string(keyword) + "', or is given it twice");
  }
  for (const Parameter& parameter : function.parameters) {
    if (frame.names.contains(parameter.name)) continue;
    if (!parameter.initial.valid())
      return bad_model(name + "() lacks its argument '" + std::string(parameter.name) + "'");
    Frame nothing;
    nothing.file = callable.file;
    XYNTRA_TRY(Value value, evaluate(parameter.initial, nothing));
    frame.names.emplace(parameter.name, std::move(value));
  }
  const SourceFile* file_before = file_;
  const std::uint32_t line_before = line_;
  std::string path_before = std::exchange(path_, frame.path);
  auto outcome = execute(function.body, frame);
  file_ = file_before;
  line_ = line_before;
  path_ = std::move(path_before);
  if (!outcome) return failure(std::move(outcome).error());
  return std::move(outcome->value);
}

}  // namespace xyntra::torchscript
