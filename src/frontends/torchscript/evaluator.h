// Runs the code of a TorchScript module before the model runs: what is known at import is computed, the rest becomes a graph.
//
//   y = torch.size(x, 0)             3, for the caller has given the shape of x
//   if torch.eq(y, 1): …             not taken, and leaves no trace
//   for i in range(y): …             three times, one after another
//   z = (self.conv).forward(x, )     the calls of that method's body
//   if bool(torch.any(z)): …         only running tells: both branches, as the bodies of an If
//
// Modules, lists, strings and numbers live here (value.h); tensors live in the graph that the importer of ATen calls makes
// (frontends/aten), which also keeps track of views and of what changes in place.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontends/aten/importer.h"
#include "frontends/torchscript/branches.h"
#include "frontends/torchscript/import.h"
#include "frontends/torchscript/library.h"
#include "frontends/torchscript/value.h"

namespace xyntra::torchscript {

class Evaluator {
 public:
  Evaluator(Library& library, const ImportOptions& options);
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Result<Module> run();

 private:
  using Keywords = std::vector<std::pair<std::string_view, Value>>;

  struct Arguments {
    std::string_view name;  // of the function: "append"
    Values values;
    Keywords keywords;
    const Value& at(std::size_t i) const { return values.at(i); }
    std::size_t size() const { return values.size(); }
  };
  using Builtin = Result<Value> (Evaluator::*)(Arguments& arguments);
  enum class Operands : std::uint8_t { Any, Numbers, Tensor, List, Dict, Text, NoTensor };

  // The variables of one call of a function.
  struct Frame {
    const SourceFile* file = nullptr;
    std::map<std::string_view, Value> names;
    std::string path;  // of the module whose method it is
  };
  struct Outcome {
    bool returned = false;
    Value value;
  };

  // Counts how deep the evaluator is within itself.
  class Nested {
   public:
    explicit Nested(Evaluator& evaluator);
    ~Nested();
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    Status check() const;

   private:
    Evaluator& evaluator_;
  };

  // ---- evaluator.cpp
  Result<Module> finished();
  Status check_shared_memory();
  Module missing_module() const;
  Error with_guesses(Error error) const;
  // Operators without definition are noted, and evaluation goes on without their results.
  bool keeps_missing() const { return options_.undefined_ops == UndefinedOps::Keep; }

  // ---- evaluate_statements.cpp
  // A list may be within itself a million times over; whoever walks one pays for every item.
  bool pay() { return --steps_left_ >= 0; }
  Status step(std::size_t items = 0);  // counts work: of a statement or call, and of so many items or bytes
  Result<Outcome> execute(const Block& block, Frame& frame);
  Result<Outcome> execute(const Statement& statement, Frame& frame);
  Result<Outcome> execute_for(const Statement& statement, Frame& frame);
  Result<Outcome> execute_while(const Statement& statement, Frame& frame);
  Result<Outcome> execute_with(const Statement& statement, Frame& frame);
  Status assign(const Statement& statement, Frame& frame);
  Status assign_to(ExpressionId target, Value value, Frame& frame);
  Result<Value> invoke(const Callable& callable, Values positional, const Keywords& keywords);

  // ---- evaluate_expressions.cpp
  Result<Value> evaluate(ExpressionId id, Frame& frame);
  Result<Value> evaluate_any(const Expression& expression, Frame& frame);
  Result<Value> name_value(const Expression& expression, Frame& frame);
  Result<Value> attribute_value(const Expression& expression, Frame& frame);
  Result<Value> subscript(const Value& base, const Value& index);
  Result<Value> call(const Expression& expression, Frame& frame);
  Result<Value> call_with_type(std::string_view name, const Expression& expression, Frame& frame);
  Result<Value> call_function(const Callable& callable, Values values, Keywords keywords);
  std::optional<std::string> dotted_name(const SourceFile& file, ExpressionId id, const Frame& frame) const;
  Result<Value> qualified(const std::string& name);
  Result<Value> make_object(const Callable& type, Values values, const Keywords& keywords);

  // ---- stored_values.cpp
  Result<Value> stored(const Pickle& pickle, PickleId id, const std::string& path, int depth = 0);
  Result<Value> make_stored(const Pickle& pickle, PickleId id, const std::string& path, int depth);
  Result<Value> stored_object(const Pickle& pickle, PickleId id, const std::string& path);
  Result<Value> attribute(const std::shared_ptr<Instance>& instance, std::string_view name);

  // ---- control_flow.cpp
  Result<Outcome> execute_if(const Statement& statement, Frame& frame);
  Result<Branch> run_branch(const Block& block, const Frame& frame);
  Status merge_branches(const Value& condition, Branch& yes, Branch& no, Frame& frame);
  Status make_if(const Value& condition, Branch& yes, Branch& no, Merge& merge);
  Status run_loop(const Statement& statement, std::optional<aten::Number> trips, Frame& frame);
  template <class T>
  void note(const std::shared_ptr<T>& object);
  // To be called before an object gets other contents.
  void before_change(const std::shared_ptr<Sequence>& sequence);
  void before_change(const std::shared_ptr<Mapping>& mapping);
  void before_change(const std::shared_ptr<Instance>& instance);

  // ---- calls.cpp
  Result<aten::Item> item_of(const Value& value, int depth = 0);
  Value value_of(const aten::Item& item);
  Result<Value> aten_call(const std::string& target, const Arguments& arguments);
  aten::Node node_here(std::string target) const;
  Status in_call(const std::function<void(aten::Call&)>& make);  // operations that no overload stands for
  Value new_tensor(ValueId id);
  Result<Type> type_of(const aten::VariableRef& tensor);
  Result<std::optional<bool>> truth(const Value& value);  // nothing: only running tells
  Result<aten::Number> number_of(const aten::VariableRef& tensor, aten::NumberKind kind);

  // ---- builtins: numbers.cpp, tensor_facts.cpp, objects.cpp
  // The function for these values; for any, where there are none yet. Null: there is none.
  Builtin builtin_named(std::string_view name, const Values* values = nullptr);
  bool fits(Operands operands, const Values& values);
  bool holds_tensor(const Values& values, int depth);
  bool holds_unreadable(const Value& value, int depth = 0);
  Result<Value> number(Arguments& arguments);
  Result<Value> logical_not(Arguments& arguments);
  Result<Value> extreme_of_list(Arguments& arguments);
  Result<Value> sum_of_list(Arguments& arguments);
  Result<Value> range_length(Arguments& arguments);
  Result<Value> derive_index(Arguments& arguments);
  Result<Value> to_int(Arguments& arguments);
  Result<Value> to_float(Arguments& arguments);
  Result<Value> to_bool(Arguments& arguments);
  Result<Value> to_number(Arguments& arguments);
  Result<Value> first(Arguments& arguments);
  Result<Value> size(Arguments& arguments);
  Result<Value> dim(Arguments& arguments);
  Result<Value> numel(Arguments& arguments);
  Result<Value> tensor_length(Arguments& arguments);
  Result<Value> dtype(Arguments& arguments);
  Result<Value> is_floating_point(Arguments& arguments);
  Result<Value> placement(Arguments& arguments);
  Result<Value> device_type(Arguments& arguments);
  Result<Value> get_device(Arguments& arguments);
  Result<Value> no(Arguments& arguments);
  Result<Value> yes(Arguments& arguments);
  Result<Value> to_list(Arguments& arguments);
  Result<Value> number_to_tensor(Arguments& arguments);
  Result<Value> make_tensor(Arguments& arguments);
  Result<Value> is(Arguments& arguments);
  Result<Value> is_not(Arguments& arguments);
  Result<Value> equals(Arguments& arguments);
  Result<Value> differs(Arguments& arguments);
  Result<Value> get_attribute(Arguments& arguments);
  Result<Value> has_attribute(Arguments& arguments);
  Result<Value> nothing(Arguments& arguments);
  Result<Value> raise_exception(Arguments& arguments);
  Result<Value> range(Arguments& arguments);
  Result<Value> length(Arguments& arguments);
  Result<Value> append(Arguments& arguments);
  Result<Value> extend(Arguments& arguments);
  Result<Value> insert(Arguments& arguments);
  Result<Value> pop(Arguments& arguments);
  Result<Value> clear(Arguments& arguments);
  Result<Value> reverse(Arguments& arguments);
  Result<Value> copied_list(Arguments& arguments);
  Result<Value> joined_lists(Arguments& arguments);
  Result<Value> repeated_list(Arguments& arguments);
  Result<Value> slice(Arguments& arguments);
  Result<Value> contains(Arguments& arguments);
  Result<Value> contains_text(Arguments& arguments);
  Result<Value> get_item(Arguments& arguments);
  Result<Value> set_list_item(Arguments& arguments);
  Result<Value> set_dict_item(Arguments& arguments);
  Result<Value> any_of_list(Arguments& arguments);
  Result<Value> all_of_list(Arguments& arguments);
  Result<Value> keys(Arguments& arguments);
  Result<Value> values(Arguments& arguments);
  Result<Value> items(Arguments& arguments);
  Result<Value> get(Arguments& arguments);
  Result<Value> update(Arguments& arguments);
  Result<Value> copied_dict(Arguments& arguments);
  Result<Value> to_text(Arguments& arguments);
  Result<Value> format(Arguments& arguments);
  Result<Value> joined_texts(Arguments& arguments);
  Result<Value> join(Arguments& arguments);
  Result<Value> starts_with(Arguments& arguments);
  Result<Value> ends_with(Arguments& arguments);
  Result<Value> lower(Arguments& arguments);
  Result<Value> upper(Arguments& arguments);
  Result<Value> converted(const aten::Number& number, aten::NumberKind kind);
  Result<Value> compared(Arguments& arguments, bool wanted);
  Result<Value> truth_of_items(Arguments& arguments, bool decides);
  Value new_constant(Tensor tensor, const std::string& path);
  Result<std::optional<bool>> equal(const Value& a, const Value& b, int depth = 0);
  Result<bool> is_instance(const Value& value, const SourceFile& file, ExpressionId type);
  tl::unexpected<Error> raise(const std::string& message);
  std::shared_ptr<Sequence> new_sequence(bool is_tuple, Values items);
  Value new_list(Values items) { return new_sequence(false, std::move(items)); }
  Value new_tuple(Values items) { return new_sequence(true, std::move(items)); }
  Status grow(const std::shared_ptr<Sequence>& list, const Values& items);
  Result<std::size_t> position(const Value& index, std::size_t size, bool end_too);
  Result<const Value*> find_entry(const Mapping& mapping, const Value& key);
  Status set_entry(const std::shared_ptr<Mapping>& mapping, const Value& key, Value value);
  Result<std::string> formatted(const Value& value, int depth = 0);
  Result<Value> text_value(std::string text);

  // ---- inputs_outputs.cpp
  Result<Values> bind_parameters(const SourceFile& file, const FunctionDef& function);
  Result<Value> input_value(const SourceFile& file, ExpressionId type, const std::string& name, int depth);
  Result<Value> tensor_input(const std::string& name, const InputHint& hint);
  const InputHint* hint_for(const std::string& name);
  bool is_hinted(const std::string& name) const;
  Status check_hints(const FunctionDef& function);
  Status collect_outputs(const Value& value, const std::string& name, int depth);
  Status define_outputs(const Value& returned);

  Library& library_;
  const ImportOptions& options_;
  aten::ImportOptions importer_options_;
  aten::Program program_;  // without nodes: they are made one by one
  aten::Importer importer_;
  std::unique_ptr<aten::Scope> main_scope_;
  aten::Scope* scope_ = nullptr;

  std::map<PickleId, Value> stored_data_, stored_constants_;
  std::vector<std::pair<std::span<const std::byte>, aten::VariableRef>> stored_memory_;  // of the file
  std::vector<Journal*> journals_;
  std::uint64_t births_ = 0;
  std::int64_t steps_left_;
  int depth_ = 0;
  std::set<std::string> warnings_;
  std::map<std::string, std::vector<std::string>> missing_;  // overloads, where they are kept: places

  std::map<std::string, const InputHint*> hints_;  // by the input that took them
  std::size_t unnamed_taken_ = 0;
  std::vector<std::string> shapeless_, valueless_, guessed_;
  std::vector<std::pair<std::string, aten::VariableRef>> inputs_;
  std::vector<std::pair<std::string, Value>> outputs_;

  // Where we are, for messages and the origins of nodes.
  const SourceFile* file_ = nullptr;
  std::uint32_t line_ = 0;
  std::string path_;
  bool placed_ = false;  // the error on its way has its line
  bool raised_ = false;  // it is an exception of the model's
};

}  // namespace xyntra::torchscript
