// Values of the archive's pickles, made when the code first asks for them: a module of which nothing is used costs nothing.
#include "frontends/torchscript/evaluator.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

std::string joined_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

}  // namespace

Result<Value> Evaluator::stored(const Pickle& pickle, PickleId id, const std::string& path, int depth) {
  if (depth > kMostNestedValues)
    return limit_error("values of the archive are nested more than " + std::to_string(kMostNestedValues) +
                       " deep");
  auto& known = &pickle == &library_.data() ? stored_data_ : stored_constants_;
  if (const auto found = known.find(id); found != known.end()) return found->second;
  XYNTRA_TRY(Value made, make_stored(pickle, id, path, depth));
  known.emplace(id, made);
  return made;
}

Result<Value> Evaluator::make_stored(const Pickle& pickle, PickleId id, const std::string& path, int depth) {
  using Kind = PickleValue::Kind;
  const PickleValue& value = pickle[id];
  switch (value.kind) {
    case Kind::None: return Value();
    case Kind::Bool: return Value::of(value.integer != 0);
    case Kind::Integer: return Value::of(value.integer);
    case Kind::Real: return Value::of(value.real);
    case Kind::Text: return Value(std::string(value.text));
    case Kind::Device: return placement_value();
    case Kind::Tuple:
    case Kind::List: {
      Values items;
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        XYNTRA_TRY(Value item,
                   stored(pickle, value.items[i], joined_path(path, std::to_string(i)), depth + 1));
        items.push_back(std::move(item));
      }
      auto sequence = new_sequence(value.kind == Kind::Tuple, std::move(items));
      sequence->birth = 0;  // older than anything that runs
      return Value(std::move(sequence));
    }
    case Kind::Dict: {
      auto mapping = std::make_shared<Mapping>();
      for (std::size_t i = 0; i < value.items.size(); i += 2) {
        XYNTRA_TRY(Value key, stored(pickle, value.items[i], path, depth + 1));
        XYNTRA_TRY(Value item,
                   stored(pickle, value.items[i + 1], joined_path(path, std::to_string(i / 2)), depth + 1));
        mapping->entries.emplace_back(std::move(key), std::move(item));
      }
      return Value(std::move(mapping));
    }
    case Kind::Tensor: {
      XYNTRA_TRY(Tensor tensor, library_.tensors_of(pickle).read(id));
      return new_constant(std::move(tensor), path);
    }
    case Kind::Object: return stored_object(pickle, id, path);
    case Kind::Global:
    case Kind::Storage: return unsupported(std::string(name_of(value.kind)) + " as a value of the archive");
  }
  internal_error("make_stored: no such kind of value");
}

Result<Value> Evaluator::stored_object(const Pickle& pickle, PickleId id, const std::string& path) {
  const PickleValue& value = pickle[id];
  auto instance = std::make_shared<Instance>();
  instance->type_name = std::string(value.text) + "." + std::string(value.name);
  instance->path = path;
  instance->from_file = true;
  instance->stored_in = &pickle;
  XYNTRA_TRY(const Library::Definition found, library_.find(instance->type_name));
  if (found.type == nullptr) {
    return unsupported(
        "class " + instance->type_name + " has no code in the archive" +
        (instance->type_name.starts_with("__torch__.torch.classes.") ? ": it is one of C++'s" : ""));
  }
  instance->file = found.file;
  instance->type = found.type;
  if (value.items.empty()) return Value(std::move(instance));
  const PickleValue& state = pickle[value.items[0]];
  if (found.type->method("__setstate__") != nullptr)
    return unsupported("class " + instance->type_name +
                       " makes its state by a method of its own (__setstate__)");
  if (state.kind != PickleValue::Kind::Dict)
    return bad_model("byte " + std::to_string(state.offset) + ": the state of an object is " +
                     name_of(state.kind));
  for (std::size_t i = 0; i < state.items.size(); i += 2) {
    const PickleValue& key = pickle[state.items[i]];
    if (key.kind != PickleValue::Kind::Text) return bad_model("an attribute whose name is no string");
    instance->stored.emplace(key.text, state.items[i + 1]);
  }
  return Value(std::move(instance));
}

Result<Value> Evaluator::attribute(const std::shared_ptr<Instance>& instance, std::string_view name) {
  if (const auto found = instance->attributes.find(name); found != instance->attributes.end()) {
    if (const aten::Unreadable* why = found->second.why_unreadable(); why != nullptr && !keeps_missing())
      return unsupported("attribute '" + std::string(name) + "' is " + why->what);
    return found->second;
  }
  if (const auto found = instance->stored.find(name); found != instance->stored.end()) {
    auto value = stored(*instance->stored_in, found->second, joined_path(instance->path, name));
    if (!value) return value;
    instance->attributes.emplace(std::string(name), *value);
    return value;
  }
  if (const Field* field = instance->type->field(name); field != nullptr && field->value.valid()) {
    Frame nothing;
    nothing.file = instance->file;
    return evaluate(field->value, nothing);
  }
  if (const FunctionDef* method = instance->type->method(name)) {
    Callable callable;
    callable.file = instance->file;
    callable.function = method;
    callable.self = instance;
    return Value(std::move(callable));
  }
  return bad_model("an object of " + instance->type_name + " has no attribute '" + std::string(name) + "'");
}

}  // namespace xyntra::torchscript
