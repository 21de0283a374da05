#include "frontends/pt2/exported_program.h"

#include <algorithm>
#include <array>
#include <set>

#include "frontends/pt2/json_reader.h"
#include "frontends/pt2/size_expression.h"
#include "frontends/pt2/tree_spec.h"
#include "support/text/text.h"

namespace xyntra::pt2 {

using aten::Argument;
using aten::CallResult;
using aten::Graph;
using aten::NamedArgument;
using aten::Node;
using aten::Program;
using aten::ValueIndex;

Result<DType> dtype_of_scalar_type(std::int64_t code) {
  struct Code {
    std::int64_t code;
    DType dtype;
  };
  constexpr std::array kCodes = std::to_array<Code>({
      {1, DType::U8},
      {2, DType::I8},
      {3, DType::I16},
      {4, DType::I32},
      {5, DType::I64},
      {6, DType::F16},
      {7, DType::F32},
      {8, DType::F64},
      {12, DType::Bool},
      {13, DType::BF16},
      {28, DType::U16},
      {29, DType::F8E4M3FN},
      {30, DType::F8E5M2},
      {31, DType::F8E4M3FNUZ},
      {32, DType::F8E5M2FNUZ},
      {33, DType::F8E8M0},
      {34, DType::U32},
      {35, DType::U64},
  });
  const auto* found = std::ranges::find(kCodes, code, &Code::code);
  if (found != kCodes.end()) return found->dtype;
  if (code >= 9 && code <= 11) return unsupported("tensors of complex numbers");
  return bad_model("scalar type " + std::to_string(code) + " is not known");
}

namespace {

std::string shown(std::string_view name) {
  constexpr std::size_t kShown = 120;
  return name.size() <= kShown ? std::string(name) : std::string(cut_at_character(name, kShown)) + "…";
}

// What "tensor_values" and its like say about a value: enough for the inputs of a program, and for how they lie in memory.
struct Meta {
  std::int64_t scalar_type = 0;
  std::vector<std::string> sizes, strides;  // numbers, or size expressions
  std::string offset = "0";  // of the first element in its storage
  bool strided = true;
};

// An input or output as the signature has it.
struct Spec {
  std::string kind;  // "parameter", "user_input", "buffer_mutation", …
  std::string value;  // name of the value in the graph
  std::string state;  // parameter_name, buffer_name, tensor_constant_name, user_input_name
  Argument constant;  // constant_input
};

// Names mean one value within one graph; graphs of higher-order operators are closed.
using Names = std::map<std::string, ValueIndex, std::less<>>;

class ProgramReader {
 public:
  ProgramReader(std::string_view text, const ReadLimits& limits) : json_(text), limits_(limits) {}

  Result<Program> read(const TensorLookup& lookup);

 private:
  // The fields, in the order of the schema.
  void exported_program();
  void graph_module();
  Graph graph(Names& names, std::map<std::string, Meta>* metas);
  Node node(Names& names);
  std::string origin_of(std::string_view stack, std::string_view name) const;
  Argument argument(Names& names);
  Argument one_argument(std::string_view kind, Names& names);
  Argument sym_argument(Names& names);
  Argument optional_tensor(Names& names);
  Argument list_of(const std::function<Argument()>& element);
  CallResult result(Names& names);
  std::string name_in_object();
  ValueIndex value(const std::string& name, Names& names);
  void meta(Meta& into);
  std::string size();
  Spec input_spec();
  Spec output_spec();
  Argument constant_value();
  void range_constraints();
  void call_signature();

  Status assemble(const TensorLookup& lookup);
  Status assemble_input(const Spec& spec, const TensorLookup& lookup, const std::set<std::string>& bound);
  Result<Type> input_type(const std::string& name, const std::set<std::string>& bound);
  void assemble_outputs();
  void resolve_strides();
  std::optional<std::vector<std::size_t>> dense_order(const Meta& meta) const;
  const Meta* meta_of(const Argument& argument) const;
  bool has_the_elements_of(const Node& node) const;

  JsonReader json_;
  ReadLimits limits_;
  Program program_;
  Names names_;
  std::map<std::string, Meta> metas_;
  std::vector<Spec> inputs_, outputs_;
  std::string in_spec_, out_spec_;
  std::int64_t nodes_ = 0;
  int nesting_ = 0;
  std::int64_t major_ = 0, minor_ = 0;
  bool has_graph_ = false;
};

// ---- the fields

void ProgramReader::exported_program() {
  json_.object([&](std::string_view key) {
    if (key == "graph_module") {
      graph_module();
    } else if (key == "range_constraints") {
      range_constraints();
    } else if (key == "schema_version") {
      json_.object([&](std::string_view part) {
        if (part == "major")
          major_ = json_.integer();
        else if (part == "minor")
          minor_ = json_.integer();
        else
          json_.skip();
      });
    } else if (key == "torch_version") {
      program_.metadata["producer_version"] = json_.text();
    } else {
      json_.skip();
    }
  });
}

void ProgramReader::graph_module() {
  json_.object([&](std::string_view key) {
    if (key == "graph") {
      program_.graph = graph(names_, &metas_);
      has_graph_ = true;
    } else if (key == "signature") {
      json_.object([&](std::string_view part) {
        if (part == "input_specs")
          json_.array([&] { inputs_.push_back(input_spec()); });
        else if (part == "output_specs")
          json_.array([&] { outputs_.push_back(output_spec()); });
        else
          json_.skip();
      });
    } else if (key == "module_call_graph") {
      json_.array([&] { call_signature(); });
    } else {
      json_.skip();
    }
  });
}

// The entry of the root module has the trees of inputs and outputs.
void ProgramReader::call_signature() {
  std::string fqn, in_spec, out_spec;
  json_.object([&](std::string_view key) {
    if (key == "fqn") {
      fqn = json_.text();
    } else if (key == "signature" && !json_.null()) {
      json_.object([&](std::string_view part) {
        if (part == "in_spec")
          in_spec = json_.text();
        else if (part == "out_spec")
          out_spec = json_.text();
        else
          json_.skip();
      });
    } else if (key != "signature") {
      json_.skip();
    }
  });
  if (!fqn.empty()) return;
  in_spec_ = std::move(in_spec);
  out_spec_ = std::move(out_spec);
}

Graph ProgramReader::graph(Names& names, std::map<std::string, Meta>* metas) {
  Graph made;
  if (++nesting_ > limits_.max_nesting)
    json_.fail("graphs are nested more than " + std::to_string(limits_.max_nesting) + " deep");
  json_.object([&](std::string_view key) {
    if (key == "inputs") {
      json_.array([&] {
        const Argument input = argument(names);
        if (const auto* index = std::get_if<ValueIndex>(&input.value))
          made.inputs.push_back(*index);
        else
          made.inputs.push_back(value("", names));  // a constant or nothing: the signature says which
      });
    } else if (key == "outputs") {
      json_.array([&] { made.outputs.push_back(argument(names)); });
    } else if (key == "nodes") {
      json_.array([&] { made.nodes.push_back(node(names)); });
    } else if (key == "tensor_values" && metas != nullptr) {
      json_.object([&](std::string_view name) { meta((*metas)[std::string(name)]); });
    } else {
      json_.skip();
    }
  });
  --nesting_;
  return made;
}

// "torch.ops.aten.add.Tensor" is aten::add.Tensor, "_operator.mul" is _operator::mul, and an overload "default" has no name.
std::string target_of(std::string_view text) {
  constexpr std::string_view kOps = "torch.ops.", kDefault = ".default";
  if (text.starts_with(kOps)) text.remove_prefix(kOps.size());
  if (text.ends_with(kDefault)) text.remove_suffix(kDefault.size());
  std::string target(text);
  if (const std::size_t dot = target.find('.'); dot != std::string::npos) target.replace(dot, 1, "::");
  return target;
}

// "L__self__,,Model;L__self___layer,layer.0.conv,torch.nn.Conv2d": the second part of the last entry, and the value's name.
std::string ProgramReader::origin_of(std::string_view stack, std::string_view name) const {
  const std::string_view last =
      stack.substr(stack.rfind(';') == std::string_view::npos ? 0 : stack.rfind(';') + 1);
  const std::size_t first = last.find(','),
                    second = first == std::string_view::npos ? first : last.find(',', first + 1);
  std::string origin;
  if (second != std::string_view::npos) origin = shown(last.substr(first + 1, second - first - 1));
  return origin.empty() ? shown(name) : origin + "/" + shown(name);
}

Node ProgramReader::node(Names& names) {
  Node made;
  std::string stack, name;
  if (++nodes_ > limits_.max_nodes) json_.fail("more than " + std::to_string(limits_.max_nodes) + " nodes");
  json_.object([&](std::string_view key) {
    if (key == "target") {
      made.target = target_of(json_.text());
    } else if (key == "inputs") {
      json_.array([&] {
        NamedArgument input;
        json_.object([&](std::string_view part) {
          if (part == "name")
            input.name = json_.text();
          else if (part == "arg")
            input.argument = argument(names);
          else
            json_.skip();
        });
        made.arguments.push_back(std::move(input));
      });
    } else if (key == "outputs") {
      json_.array([&] { made.results.push_back(result(names)); });
    } else if (key == "metadata") {
      json_.object([&](std::string_view part) {
        if (part == "nn_module_stack")
          stack = json_.text();
        else
          json_.skip();
      });
    } else if (key == "name" && !json_.null()) {
      name = json_.text();
    } else if (key != "name") {
      json_.skip();
    }
  });
  if (made.target.empty() && !json_.failed()) json_.fail("a node without a target");
  // Archives before schema 8.10 do not name nodes; their first result has a name.
  for (const CallResult& each : made.results) {
    if (name.empty() && !each.values.empty() && each.values[0].valid())
      name = program_.values[each.values[0].index];
  }
  made.origin = origin_of(stack, name.empty() ? made.target : name);
  return made;
}

ValueIndex ProgramReader::value(const std::string& name, Names& names) {
  if (const auto known = names.find(name); known != names.end() && !name.empty()) return known->second;
  if (static_cast<std::int64_t>(program_.values.size()) >= limits_.max_values)
    json_.fail("more than " + std::to_string(limits_.max_values) + " values");
  const ValueIndex index(program_.values.size());
  program_.values.push_back(name);
  if (!name.empty()) names.emplace(name, index);
  return index;
}

// {"name": "x"}, perhaps with more
std::string ProgramReader::name_in_object() {
  std::string name;
  json_.object([&](std::string_view key) {
    if (key == "name")
      name = json_.text();
    else
      json_.skip();
  });
  return name;
}

Argument ProgramReader::list_of(const std::function<Argument()>& element) {
  Argument::List list;
  json_.array([&] { list.push_back(element()); });
  return {std::move(list)};
}

// {"as_name": "s"} or a number
Argument ProgramReader::sym_argument(Names& names) {
  Argument made;
  json_.object([&](std::string_view key) {
    if (key == "as_name")
      made.value = value(json_.text(), names);
    else if (key == "as_int")
      made.value = json_.integer();
    else if (key == "as_float")
      made.value = json_.real();
    else if (key == "as_bool")
      made.value = json_.truth();
    else
      json_.fail("'" + shown(key) + "' of a symbolic number is not known");
  });
  return made;
}

Argument ProgramReader::optional_tensor(Names& names) {
  Argument made;
  json_.object([&](std::string_view key) {
    if (key == "as_tensor")
      made.value = value(name_in_object(), names);
    else
      json_.skip();  // as_none
  });
  return made;
}

Argument ProgramReader::one_argument(std::string_view kind, Names& names) {
  const auto tensor = [&] { return Argument{value(name_in_object(), names)}; };
  const auto integer = [&] { return Argument{json_.integer()}; };
  const auto real = [&] { return Argument{json_.real()}; };
  const auto symbolic = [&] { return sym_argument(names); };
  if (kind == "as_none") {
    json_.skip();
    return {};
  }
  if (kind == "as_tensor") return tensor();
  if (kind == "as_tensors") return list_of(tensor);
  if (kind == "as_int") return integer();
  if (kind == "as_ints") return list_of(integer);
  if (kind == "as_float") return real();
  if (kind == "as_floats") return list_of(real);
  if (kind == "as_string") return {json_.text()};
  if (kind == "as_strings") return list_of([&] { return Argument{json_.text()}; });
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbolic();
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") return list_of(symbolic);
  if (kind == "as_bool") return {json_.truth()};
  if (kind == "as_bools") return list_of([&] { return Argument{json_.truth()}; });
  if (kind == "as_optional_tensor") return optional_tensor(names);
  if (kind == "as_optional_tensors") return list_of([&] { return optional_tensor(names); });
  if (kind == "as_nested_tensors") return list_of([&] { return list_of(tensor); });
  if (kind == "as_int_lists") return list_of([&] { return list_of(integer); });
  if (kind == "as_float_lists") return list_of([&] { return list_of(real); });
  if (kind == "as_scalar_type") {
    const auto dtype = dtype_of_scalar_type(json_.integer());
    if (!dtype) return {aten::Unreadable{dtype.error().message}};
    return {*dtype};
  }
  if (kind == "as_memory_format" || kind == "as_device") {
    json_.skip();
    return {aten::Placement{}};
  }
  if (kind == "as_layout") {
    constexpr std::int64_t kStrided = 7;
    if (json_.integer() == kStrided) return {aten::Placement{}};
    return {aten::Unreadable{"a layout other than strided"}};
  }
  if (kind == "as_graph") {
    auto made = std::make_shared<Graph>();
    json_.object([&](std::string_view key) {
      if (key == "graph") {
        Names inner;
        *made = graph(inner, nullptr);
      } else {
        json_.skip();
      }
    });
    return {std::shared_ptr<const Graph>(std::move(made))};
  }
  json_.skip();
  const std::string what = kind == "as_custom_obj" ? "a custom object"
                           : kind == "as_complex"  ? "a complex number"
                                                   : "an argument of the kind '" + shown(kind) + "'";
  return {aten::Unreadable{what}};
}

Argument ProgramReader::argument(Names& names) {
  Argument made;
  bool given = false;
  json_.object([&](std::string_view kind) {
    if (given) json_.fail("an argument of two kinds");
    given = true;
    made = one_argument(kind, names);
  });
  return made;
}

CallResult ProgramReader::result(Names& names) {
  const Argument made = argument(names);
  CallResult results;
  const auto add = [&](const Argument& each) {
    const auto* index = std::get_if<ValueIndex>(&each.value);
    results.values.push_back(index != nullptr ? *index : ValueIndex());
  };
  if (const auto* list = std::get_if<Argument::List>(&made.value)) {
    results.is_list = true;
    for (const Argument& each : *list) add(each);
  } else {
    add(made);
  }
  return results;
}

std::string ProgramReader::size() {
  std::string text;
  json_.object([&](std::string_view key) {
    if (key == "as_int") {
      text = std::to_string(json_.integer());
    } else if (key == "as_expr") {
      json_.object([&](std::string_view part) {
        if (part == "expr_str")
          text = json_.text();
        else
          json_.skip();
      });
    } else {
      json_.skip();
    }
  });
  return text;
}

void ProgramReader::meta(Meta& into) {
  json_.object([&](std::string_view key) {
    if (key == "dtype")
      into.scalar_type = json_.integer();
    else if (key == "sizes")
      json_.array([&] { into.sizes.push_back(size()); });
    else if (key == "strides")
      json_.array([&] { into.strides.push_back(size()); });
    else if (key == "storage_offset")
      into.offset = size();
    else if (key == "layout")
      into.strided = json_.integer() == 7;
    else
      json_.skip();
  });
}

Argument ProgramReader::constant_value() {
  Argument made;
  Names none;
  json_.object([&](std::string_view kind) { made = one_argument(kind, none); });
  return made;
}

Spec ProgramReader::input_spec() {
  Spec spec;
  json_.object([&](std::string_view kind) {
    spec.kind = std::string(kind);
    json_.object([&](std::string_view key) {
      if (key == "arg" && kind == "user_input") {
        const Argument made = argument(names_);
        if (const auto* index = std::get_if<ValueIndex>(&made.value))
          spec.value = program_.values[index->index];
        else
          spec.constant = made;
      } else if (key == "arg") {
        spec.value = name_in_object();
      } else if (key == "name") {
        spec.value = json_.text();
      } else if (key.ends_with("_name")) {
        spec.state = json_.text();
      } else if (key == "value") {
        spec.constant = constant_value();
      } else {
        json_.skip();
      }
    });
  });
  return spec;
}

Spec ProgramReader::output_spec() {
  Spec spec;
  json_.object([&](std::string_view kind) {
    spec.kind = std::string(kind);
    json_.object([&](std::string_view key) {
      if (key.ends_with("_name"))
        spec.state = json_.text();
      else
        json_.skip();
    });
  });
  return spec;
}

void ProgramReader::range_constraints() {
  json_.object([&](std::string_view symbol) {
    Range range;
    json_.object([&](std::string_view key) {
      const bool low = key == "min_val", high = key == "max_val";
      if ((!low && !high) || json_.null()) {
        if (!low && !high) json_.skip();
        return;
      }
      (low ? range.low : range.high) = json_.integer();
    });
    // Infinity is written as one of several large numbers.
    constexpr std::int64_t kInfinite = std::int64_t{1} << 60;
    range.low = std::max<std::int64_t>(range.low, 0);
    if (range.high >= kInfinite) range.high = INT64_MAX;
    if (range.high >= range.low && parse_size_expression(symbol))
      program_.symbols[std::string(symbol)] = range;
  });
}

// ---- what the fields mean together

Result<Program> ProgramReader::read(const TensorLookup& lookup) {
  exported_program();
  XYNTRA_CHECK_OK(json_.at_end());
  if (!has_graph_) return bad_model("no graph_module: this is no exported program");
  constexpr std::int64_t kMajor = 8;
  if (major_ != kMajor) {
    return failure(unsupported("schema version " + std::to_string(major_) + "." + std::to_string(minor_) +
                               " of torch.export; " + std::to_string(kMajor) + " is the one that is read")
                       .value()
                       .with_hint("torch 2.7 and newer write version 8: export the model again"));
  }
  program_.metadata["producer_name"] = "torch.export";
  resolve_strides();
  XYNTRA_CHECK_OK(assemble(lookup));
  return std::move(program_);
}

// as_strided looks at a storage, which a program of calls does not have; what the file says of strides tells which elements are meant:
//
//   x: f32[4, 6], strides 1, 4                       flat = x.permute(1, 0).reshape(-1)
//   y = as_strided(x, [2, 3], [3, 1], 2)      →      y = as_strided(flat, [2, 3], [3, 1], 2, flat=True)
//
// Decompositions of pooling and convolutions end with one that changes strides of axes of size 1 alone: it is left out. What has gaps
// stays as it is, and is refused.
void ProgramReader::resolve_strides() {
  std::vector<Node> nodes;
  const auto added = [&](std::string target, const Argument& self, const char* name, Argument::List numbers,
                         const std::string& origin) {
    const ValueIndex made(program_.values.size());
    program_.values.emplace_back();
    nodes.push_back({std::move(target), {{"self", self}, {name, {std::move(numbers)}}}, {{{made}}}, origin});
    return Argument{made};
  };
  for (Node& node : program_.graph.nodes) {
    if (node.target == "aten::as_strided" && has_the_elements_of(node)) {
      node.target = "aten::alias";
      node.arguments.resize(1);
    } else if (node.target == "aten::as_strided" && node.arguments.size() >= 3 &&
               node.arguments[0].name == "self") {
      const Meta* meta = meta_of(node.arguments[0].argument);
      const auto order = meta == nullptr ? std::nullopt : dense_order(*meta);
      const auto begin = order ? parse_size_expression(meta->offset) : std::nullopt;
      const bool has_offset = node.arguments.size() == 4 && node.arguments[3].name == "storage_offset";
      auto* offset = has_offset ? std::get_if<std::int64_t>(&node.arguments[3].argument.value) : nullptr;
      // Of a part of a storage with another beginning only a known offset says where it is within that part.
      if (order && begin && (!has_offset || begin->is(0) || (offset != nullptr && begin->is_constant()))) {
        Argument::List axes;
        for (const std::size_t axis : *order) axes.push_back({static_cast<std::int64_t>(axis)});
        const Argument stored =
            added("aten::permute", node.arguments[0].argument, "dims", std::move(axes), node.origin);
        node.arguments[0].argument =
            added("aten::reshape", stored, "shape", {{std::int64_t{-1}}}, node.origin);
        if (offset != nullptr) *offset -= begin->constant();
        node.arguments.push_back({"flat", {true}});
      }
    }
    nodes.push_back(std::move(node));
  }
  program_.graph.nodes = std::move(nodes);
}

const Meta* ProgramReader::meta_of(const Argument& argument) const {
  const auto* value = std::get_if<ValueIndex>(&argument.value);
  if (value == nullptr || !value->valid()) return nullptr;
  const auto found = metas_.find(program_.values[value->index]);
  return found == metas_.end() ? nullptr : &found->second;
}

// The order of axes, outermost first, in which elements fill a stretch of memory; none where they leave gaps or overlap, or where sizes
// do not tell.
std::optional<std::vector<std::size_t>> ProgramReader::dense_order(const Meta& meta) const {
  constexpr std::size_t kMostAxes = 64;
  if (!meta.strided || meta.sizes.size() != meta.strides.size() || meta.sizes.size() > kMostAxes)
    return std::nullopt;
  std::vector<std::size_t> order, left;
  Shape sizes, strides;
  for (std::size_t i = 0; i < meta.sizes.size(); ++i) {
    const auto size = parse_size_expression(meta.sizes[i]), stride = parse_size_expression(meta.strides[i]);
    if (!size || !stride) return std::nullopt;
    sizes.push_back(*size);
    strides.push_back(*stride);
    (size->is(1) ? order : left).push_back(i);
  }
  Dim expected = 1;
  while (!left.empty()) {
    const auto next = std::ranges::find_if(left, [&](std::size_t axis) { return strides[axis] == expected; });
    if (next == left.end()) return std::nullopt;
    expected = expected * sizes[*next];
    order.push_back(*next);
    left.erase(next);
  }
  std::ranges::reverse(order);
  return order;
}

bool ProgramReader::has_the_elements_of(const Node& node) const {
  if (node.arguments.size() != 3 || node.arguments[0].name != "self" || node.results.size() != 1 ||
      node.results[0].values.size() != 1)
    return false;  // with an offset it may begin elsewhere
  const Meta* before = meta_of(node.arguments[0].argument);
  const Meta* after = meta_of({node.results[0].values[0]});
  if (before == nullptr || after == nullptr || before->sizes != after->sizes ||
      before->strides.size() != before->sizes.size() || after->strides.size() != after->sizes.size())
    return false;
  for (std::size_t i = 0; i < before->sizes.size(); ++i) {
    if (before->sizes[i] != "1" && before->strides[i] != after->strides[i]) return false;
  }
  return true;
}

Result<Type> ProgramReader::input_type(const std::string& name, const std::set<std::string>& bound) {
  const auto meta = metas_.find(name);
  if (meta == metas_.end()) return Type::tensor(DType::I64, Shape{});  // a number
  if (!meta->second.strided) return unsupported("a tensor that is not strided");
  XYNTRA_TRY(const DType dtype, dtype_of_scalar_type(meta->second.scalar_type));
  Shape shape;
  Dims constants;
  for (const std::string& text : meta->second.sizes) {
    auto size = parse_size_expression(text);
    std::vector<std::string> symbols;
    if (size) size->collect_symbols(symbols);
    const bool known = size && std::ranges::all_of(symbols, [&](const std::string& symbol) {
                         return bound.contains(symbol);
                       });
    if (size && size->is_constant() && size->constant() < 0) return bad_model("the negative size " + text);
    // A size made of symbols that no input has by itself cannot be told from the inputs: it gets a name of its own.
    if (!known)
      size = Dim::symbol("d_" + std::to_string(program_.inputs.size()) + "_" + std::to_string(shape.size()));
    if (size->is_constant() && size->constant() != 0) constants.push_back(size->constant());
    shape.push_back(*size);
  }
  XYNTRA_CHECK_OK(byte_size(dtype, constants));
  return Type::tensor(dtype, std::move(shape));
}

Status ProgramReader::assemble_input(const Spec& spec, const TensorLookup& lookup,
                                     const std::set<std::string>& bound) {
  const std::string what = "input '" + shown(spec.value) + "'";
  const ValueIndex index = value(spec.value, names_);
  if (spec.kind == "user_input") {
    auto type = input_type(spec.value, bound);
    if (!type) {
      type.error().message = what + ": " + type.error().message;
      return failure(std::move(type).error());
    }
    program_.inputs[index] = {spec.value, std::move(*type), !metas_.contains(spec.value)};
    return {};
  }
  if (spec.kind == "parameter" || spec.kind == "buffer" || spec.kind == "tensor_constant") {
    auto tensor = lookup(spec.state);
    if (!tensor) {
      tensor.error().message = spec.kind + " '" + shown(spec.state) + "': " + tensor.error().message;
      return failure(std::move(tensor).error());
    }
    program_.constants[index] = std::move(*tensor);
    program_.states[index] = spec.state;
    return {};
  }
  return bad_model(what + " is of the unknown kind '" + shown(spec.kind) + "'");
}

Status ProgramReader::assemble(const TensorLookup& lookup) {
  std::set<std::string> bound;  // symbols that some input has as a size
  for (const Spec& spec : inputs_) {
    const auto meta = metas_.find(spec.value);
    if (spec.kind != "user_input" || meta == metas_.end()) continue;
    for (const std::string& size : meta->second.sizes) {
      const auto dim = parse_size_expression(size);
      if (dim && dim->is_symbol()) bound.insert(dim->to_string());
    }
  }
  if (inputs_.size() != program_.graph.inputs.size()) {
    return bad_model("the signature has " + std::to_string(inputs_.size()) + " inputs, the graph " +
                     std::to_string(program_.graph.inputs.size()));
  }
  if (outputs_.size() != program_.graph.outputs.size()) {
    return bad_model("the signature has " + std::to_string(outputs_.size()) + " outputs, the graph " +
                     std::to_string(program_.graph.outputs.size()));
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Spec& spec = inputs_[i];
    const ValueIndex index = program_.graph.inputs[i];
    const bool is_constant = spec.kind == "user_input" && spec.value.empty();
    if (is_constant) {
      program_.fixed[index] = spec.constant;
      continue;
    }
    if (spec.kind == "constant_input" || spec.kind == "custom_obj" || spec.kind == "token") {
      program_.fixed[index] = spec.kind == "constant_input" ? spec.constant
                              : spec.kind == "token"        ? Argument{}
                                                            : Argument{aten::Unreadable{"a custom object"}};
      continue;
    }
    if (program_.values[index.index] != spec.value)
      return bad_model("the signature calls input " + std::to_string(i) + " '" + shown(spec.value) +
                       "', the graph '" + shown(program_.values[index.index]) + "'");
    if (program_.inputs.contains(index) || program_.constants.contains(index))
      return bad_model("input '" + shown(spec.value) + "' is listed twice");
    XYNTRA_CHECK_OK(assemble_input(spec, lookup, bound));
  }
  std::erase_if(program_.symbols, [&](const auto& entry) { return !bound.contains(entry.first); });
  assemble_outputs();
  return {};
}

// What the caller gets comes first; tensors of the caller that the program changes follow. Buffers that it changes are dropped, and
// the module says so.
void ProgramReader::assemble_outputs() {
  std::vector<std::string> names = leaf_names(out_spec_, "output");
  std::vector<Argument> outputs, changed;
  std::vector<std::string> changed_names;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Spec& spec = outputs_[i];
    Argument& output = program_.graph.outputs[i];
    if (spec.kind == "user_output" || spec.kind == "loss_output") {
      outputs.push_back(std::move(output));
    } else if (spec.kind == "user_input_mutation") {
      changed.push_back(std::move(output));
      changed_names.push_back(spec.state + "_after");
    } else if (spec.kind == "buffer_mutation" || spec.kind == "parameter_mutation") {
      program_.warnings.push_back("buffer '" + shown(spec.state) +
                                  "' is changed by the model; the change is not kept after a run");
    }
  }
  names.resize(outputs.size());
  outputs.insert(outputs.end(), changed.begin(), changed.end());
  names.insert(names.end(), changed_names.begin(), changed_names.end());
  program_.graph.outputs = std::move(outputs);
  program_.output_names = std::move(names);
}

}  // namespace

Result<Program> read_exported_program(std::string_view text, const TensorLookup& lookup,
                                      const ReadLimits& limits) {
  return ProgramReader(text, limits).read(lookup);
}

}  // namespace xyntra::pt2
