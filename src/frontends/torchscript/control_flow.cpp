// Conditions and trip counts that only running tells: both branches, or the body of a loop, become graphs of their own.
//
//   if bool(torch.any(x)):      then: { y = x + 1 }    else: { y = x, z = 2 }
//     y = x + 1
//   else:                       If(any) → (y); both branches give it
//     y = x
//     z = 2                     z is set on one path alone: reading it afterwards is an error
//
// What the branches do to names, lists, dicts and attributes is noted, undone, and merged value by value: equal values stay,
// tensors and numbers become results of the If, and what cannot be merged must not be read any more.
#include <algorithm>

#include "frontends/torchscript/branches.h"
#include "frontends/torchscript/evaluator.h"

namespace xyntra::torchscript {

namespace {

void names_assigned(const SourceFile& file, const Block& block, std::set<std::string_view>& names) {
  std::vector<const Block*> open{&block};
  while (!open.empty()) {
    const Block& here = *open.back();
    open.pop_back();
    for (const StatementId id : here) {
      const Statement& statement = file[id];
      for (const ExpressionId target : statement.targets) {
        if (file[target].kind == Expression::Kind::Name) names.insert(file[target].name);
      }
      open.push_back(&statement.body);
      open.push_back(&statement.otherwise);
    }
  }
}

// The input of a body by which it has a value from around; invalid where it has none, or has it as a constant of its own.
ValueId input_of(aten::Scope& scope, ValueId outside) {
  for (const auto& capture : scope.captures) {
    if (capture.outside != outside) continue;
    const xyntra::Value& value = scope.builder.graph().value(capture.inside);
    return value.is_constant() ? ValueId() : capture.inside;
  }
  return {};
}

}  // namespace

// ---- what a branch changes

template <class T>
void Evaluator::note(const std::shared_ptr<T>& object) {
  for (Journal* journal : journals_) {
    if (object->birth <= journal->start) journal->remember(object);
  }
}
void Evaluator::before_change(const std::shared_ptr<Sequence>& sequence) { note(sequence); }
void Evaluator::before_change(const std::shared_ptr<Mapping>& mapping) { note(mapping); }
void Evaluator::before_change(const std::shared_ptr<Instance>& instance) { note(instance); }

Result<Branch> Evaluator::run_branch(const Block& block, const Frame& frame) {
  Branch branch;
  branch.scope = importer_.new_scope(*scope_);
  aten::Scope* around = std::exchange(scope_, branch.scope.get());
  Journal journal;
  journal.start = births_;
  journals_.push_back(&journal);
  Frame inner = frame;
  auto outcome = execute(block, inner);
  journals_.pop_back();
  scope_ = around;
  journal.swap();  // what the branch made of things is in the journal, they are what they were
  branch.journal = std::move(journal);
  branch.names = std::move(inner.names);
  if (outcome) {
    if (outcome->returned)
      return unsupported("a function that returns in a branch that only running chooses");
    return branch;
  }
  if (!raised_) return failure(std::move(outcome).error());
  raised_ = false;
  placed_ = false;
  branch.raises = true;
  branch.message = outcome.error().message;
  return branch;
}

Result<Evaluator::Outcome> Evaluator::execute_if(const Statement& statement, Frame& frame) {
  XYNTRA_TRY(const Value condition, evaluate(statement.value, frame));
  if (condition.why_unreadable() != nullptr && keeps_missing()) {  // both, to see what is missing there
    XYNTRA_CHECK_OK(execute(statement.otherwise, frame));
    return execute(statement.body, frame);
  }
  XYNTRA_TRY(const std::optional<bool> known, truth(condition));
  if (known) return execute(*known ? statement.body : statement.otherwise, frame);
  const SourceFile* file = file_;
  const std::uint32_t line = line_;
  XYNTRA_TRY(Branch yes, run_branch(statement.body, frame));
  XYNTRA_TRY(Branch no, run_branch(statement.otherwise, frame));
  file_ = file;
  line_ = line;
  if (yes.raises && no.raises) return raise(yes.message);
  if (yes.raises || no.raises) {
    // The model says that this does not happen; that cannot be looked at, and a graph has no way to raise.
    warnings_.insert(frame.file->place(line) +
                     ": a check that only running decides is left out: " + (yes.raises ? yes : no).message);
    return execute(yes.raises ? statement.otherwise : statement.body, frame);
  }
  XYNTRA_CHECK_OK(merge_branches(condition, yes, no, frame));
  return Outcome{};
}

Status Evaluator::merge_branches(const Value& condition, Branch& yes, Branch& no, Frame& frame) {
  Merge merge(*scope_);
  std::set<std::string_view> names;
  for (const Branch* branch : {&yes, &no}) {
    for (const auto& [name, value] : branch->names) names.insert(name);
  }
  for (const std::string_view name : names) {
    const auto a = yes.names.find(name), b = no.names.find(name);
    frame.names[name] = a == yes.names.end() || b == no.names.end()
                            ? Value::unreadable("set on one side of a branch alone")
                            : merge.merged(a->second, b->second);
  }
  XYNTRA_CHECK_OK(merge.merge_objects(yes.journal, no.journal, [&](const auto& object) { note(object); }));
  return merge.pairs().empty() ? Status() : make_if(condition, yes, no, merge);
}

// Both bodies get the same inputs: what either of them takes from around.
Status Evaluator::make_if(const Value& condition, Branch& yes, Branch& no, Merge& merge) {
  for (Branch* branch : {&yes, &no}) {
    aten::Scope* around = std::exchange(scope_, branch->scope.get());
    Status made = in_call([&](aten::Call& c) {
      for (const Merge::Pair& pair : merge.pairs()) {
        const aten::Item& item = branch == &yes ? pair.yes : pair.no;
        ValueId value =
            item.tensor() != nullptr ? c.read(*item.tensor()) : c.as_value(*item.number(), pair.dtype);
        xyntra::Graph& graph = branch->scope->builder.graph();
        // An output must be made in its body, and be there once.
        value = c.op("Identity", {value});
        graph.outputs.push_back(value);
      }
    });
    scope_ = around;
    XYNTRA_CHECK_OK(std::move(made));
  }
  std::vector<ValueId> captured;
  for (Branch* branch : {&yes, &no}) {
    for (const auto& capture : branch->scope->captures) {
      const bool known = std::ranges::find(captured, capture.outside) != captured.end();
      if (!known && input_of(*branch->scope, capture.outside).valid()) captured.push_back(capture.outside);
    }
  }
  const xyntra::Graph& outer = scope_->builder.graph();
  Attributes attributes;
  for (Branch* branch : {&yes, &no}) {
    xyntra::Graph& graph = branch->scope->builder.graph();
    std::vector<ValueId> inputs;
    for (const ValueId outside : captured) {
      ValueId inside = input_of(*branch->scope, outside);
      if (!inside.valid())
        inside = graph.add_input(branch->scope->builder.fresh_name(outer.value(outside).name),
                                 outer.value(outside).type);
      inputs.push_back(inside);
    }
    graph.inputs = std::move(inputs);
    attributes[branch == &yes ? "then_branch" : "else_branch"] =
        std::make_shared<const xyntra::Graph>(std::move(graph));
  }
  return in_call([&](aten::Call& c) {
    std::vector<ValueId> inputs{condition.tensor() != nullptr
                                    ? c.cast(c.read(*condition.tensor()), DType::Bool)
                                    : c.as_value(*condition.number(), DType::Bool)};
    inputs[0] = c.reshape(inputs[0], {});
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    const auto results = c.op(merge.pairs().size(), "If", std::move(inputs), std::move(attributes));
    for (std::size_t i = 0; i < results.size(); ++i) merge.pairs()[i].result->value = results[i];
  });
}

// ---- loops

// States are the names that the body sets and that are set before: tensors and numbers that keep dtype and shape. What else the body sets is
// its own.
Status Evaluator::run_loop(const Statement& statement, std::optional<aten::Number> trips, Frame& frame) {
  std::set<std::string_view> assigned;
  names_assigned(*frame.file, statement.body, assigned);
  const SourceFile* file = file_;
  const std::uint32_t line = line_;
  const bool counts = statement.kind == Statement::Kind::For;
  std::string_view counter;
  if (counts) {
    const Expression& target = (*frame.file)[statement.targets[0]];
    if (target.kind != Expression::Kind::Name) return unsupported("a loop whose variable is no name");
    counter = target.name;
  }
  struct State {
    std::string_view name;
    DType dtype;
    bool is_number;
    aten::NumberKind kind = aten::NumberKind::Int;
  };
  std::vector<State> states;
  Frame inner = frame;
  auto scope = importer_.new_scope(*scope_);
  std::vector<ValueId> initial;
  Status prepared = in_call([&](aten::Call& c) {
    for (const std::string_view name : assigned) {
      const auto found = frame.names.find(name);
      if (found == frame.names.end() || name == counter) continue;
      const Value& value = found->second;
      if (value.tensor() != nullptr) {
        initial.push_back(c.read(*value.tensor()));
        states.push_back({name, c.dtype_of(initial.back()), false});
      } else if (value.number() != nullptr) {
        const DType dtype = dtype_of_kind(value.number()->kind);
        initial.push_back(c.as_value(*value.number(), dtype));
        states.push_back({name, dtype, true, value.number()->kind});
      } else if (value.why_unreadable() == nullptr) {
        c.unsupported("'" + std::string(name) + "', " + kind_of(value) +
                      ", changes in a loop whose end only running tells");
      }
    }
  });
  XYNTRA_CHECK_OK(std::move(prepared));
  std::vector<Type> types;
  for (const ValueId id : initial) types.push_back(scope_->builder.type(id));
  xyntra::Graph& graph = scope->builder.graph();
  const ValueId iteration =
      graph.add_input(scope->builder.fresh_name("iteration"), Type::tensor(DType::I64, Shape{}));
  const ValueId going =
      graph.add_input(scope->builder.fresh_name("going"), Type::tensor(DType::Bool, Shape{}));
  std::vector<ValueId> state_inputs;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const ValueId input = graph.add_input(scope->builder.fresh_name(std::string(states[i].name)), types[i]);
    state_inputs.push_back(input);
    auto variable = std::make_shared<aten::Variable>(aten::Variable{input, scope.get()});
    inner.names[states[i].name] = states[i].is_number
                                      ? Value(aten::Number{states[i].kind, std::move(variable)})
                                      : Value(std::move(variable));
  }
  aten::Scope* around = std::exchange(scope_, scope.get());
  Journal journal;
  journal.start = births_;
  journals_.push_back(&journal);
  const auto run = [&]() -> Status {
    if (counts)
      inner.names[counter] = Value(aten::Number{
          aten::NumberKind::Int, std::make_shared<aten::Variable>(aten::Variable{iteration, scope.get()})});
    XYNTRA_TRY(const Outcome outcome, execute(statement.body, inner));
    if (outcome.returned)
      return unsupported("a function that returns in a loop whose end only running tells");
    Value again = Value::of(true);
    if (!counts) {
      XYNTRA_TRY(again, evaluate(statement.value, inner));
    }
    return in_call([&](aten::Call& c) {
      const auto as_value = [&](const Value& value, DType dtype) -> ValueId {
        if (value.tensor() != nullptr) return c.cast(c.read(*value.tensor()), dtype);
        if (value.number() != nullptr) return c.as_value(*value.number(), dtype);
        return c.unsupported(kind_of(value) + " as what a loop whose end only running tells hands on");
      };
      graph.outputs.push_back(c.op("Identity", {c.reshape(as_value(again, DType::Bool), {})}));
      for (std::size_t i = 0; i < states.size() && !c.failed(); ++i) {
        const Value& value = inner.names[states[i].name];
        if (value.tensor() != nullptr && c.dtype_of(c.read(*value.tensor())) != states[i].dtype) {
          c.unsupported("'" + std::string(states[i].name) +
                        "' changes its dtype in a loop whose end only running tells");
          return;
        }
        const ValueId made = c.op("Identity", {as_value(value, states[i].dtype)});
        if (!c.failed() && c.type(made) != types[i]) {
          c.unsupported("'" + std::string(states[i].name) + "' changes its shape, from " +
                        types[i].to_string() + " to " + c.type(made).to_string() +
                        ", in a loop whose end only running tells");
        }
        graph.outputs.push_back(made);
      }
    });
  };
  Status ran = run();
  journals_.pop_back();
  scope_ = around;
  file_ = ran ? file : file_;
  line_ = ran ? line : line_;
  XYNTRA_CHECK_OK(std::move(ran));
  if (!journal.empty())
    return unsupported("a list, dict or attribute changes in a loop whose end only running tells");
  std::vector<ValueId> inputs{iteration, going};
  inputs.insert(inputs.end(), state_inputs.begin(), state_inputs.end());
  std::vector<ValueId> captured;
  for (const auto& capture : scope->captures) {
    if (!input_of(*scope, capture.outside).valid()) continue;
    inputs.push_back(capture.inside);
    captured.push_back(capture.outside);
  }
  graph.inputs = std::move(inputs);
  Attributes attributes{{"states", static_cast<std::int64_t>(states.size())}};
  Value condition = Value::of(true);
  if (!counts) {
    XYNTRA_TRY(condition, evaluate(statement.value, frame));
  }
  attributes["body"] = std::make_shared<const xyntra::Graph>(std::move(graph));
  return in_call([&](aten::Call& c) {
    std::vector<ValueId> operands(2);
    if (trips) operands[0] = c.as_value(*trips, DType::I64);
    if (!counts) {
      const ValueId first = condition.tensor() != nullptr ? c.cast(c.read(*condition.tensor()), DType::Bool)
                                                          : c.as_value(*condition.number(), DType::Bool);
      operands[1] = c.reshape(first, {});
    }
    operands.insert(operands.end(), initial.begin(), initial.end());
    operands.insert(operands.end(), captured.begin(), captured.end());
    const auto results = c.op(states.size(), "Loop", std::move(operands), std::move(attributes));
    for (std::size_t i = 0; i < states.size(); ++i) {
      auto variable = std::make_shared<aten::Variable>(aten::Variable{results[i], scope_});
      frame.names[states[i].name] = states[i].is_number
                                        ? Value(aten::Number{states[i].kind, std::move(variable)})
                                        : Value(std::move(variable));
    }
    for (const std::string_view name : assigned) {
      if (std::ranges::find(states, name, &State::name) == states.end())
        frame.names[name] = Value::unreadable("set in a loop that may have no iteration");
    }
  });
}

}  // namespace xyntra::torchscript
