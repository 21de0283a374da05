#include "cli/inputs/inputs.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/inputs/random_inputs.h"
#include "frontends/onnx/tensor.h"
#include "passes/declared_sizes.h"
#include "passes/index_bound.h"
#include "support/text/text.h"
#include "types/npy/npy.h"

namespace xyntra {
namespace {

class InputBinder {
 public:
  InputBinder(const Module& module, const InputRequest& request, std::shared_ptr<Budget> budget)
      : graph_(module.graph), ranges_(module.symbols), request_(request), budget_(std::move(budget)) {}

  Result<BoundInputs> bind() {
    bound_.sizes = request_.sizes;
    for (const std::string& shape : request_.shapes) XYNTRA_CHECK_OK(read_shape(shape));
    for (const std::string& file : request_.files) XYNTRA_CHECK_OK(read_file(file));
    XYNTRA_CHECK_OK(choose_defaults());
    for (const auto& [name, value] : bound_.sizes) {
      const auto range = ranges_.find(name);
      if (range != ranges_.end()) XYNTRA_CHECK_OK(check_range(name, value, range->second));
    }
    for (ValueId id : graph_.inputs) XYNTRA_CHECK_OK(add_input(id));
    return std::move(bound_);
  }

 private:
  // "name=value", where the name itself may hold '='.
  Result<std::pair<ValueId, std::string>> named_input(const std::string& text, const char* flag) const {
    for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
      const ValueId id = graph_.find(text.substr(0, at));
      if (id.valid() && is_input(id)) return std::pair(id, text.substr(at + 1));
    }
    std::vector<std::string> names;
    for (ValueId id : graph_.inputs) names.push_back(graph_.value(id).name);
    return usage_error(std::string(flag) + " " + text + ": the model has no such input; it has " +
                       (names.empty() ? "none" : joined(names, ", ")));
  }

  bool is_input(ValueId id) const { return std::ranges::find(graph_.inputs, id) != graph_.inputs.end(); }

  Status bind_size(const std::string& name, std::int64_t value, const std::string& source) {
    const auto [place, fresh] = bound_.sizes.emplace(name, value);
    if (fresh || place->second == value) return {};
    return usage_error(source + ": the size '" + name + "' would be " + std::to_string(value) + ", but is " +
                       std::to_string(place->second) + " already");
  }

  // Sizes that a shape gives to the symbols of a type.
  Status unify(ValueId id, const Dims& dims, const std::string& source) {
    const Value& input = graph_.value(id);
    const auto fail = [&] {
      return usage_error(source + ": the input '" + input.name + "' is " + input.type.to_string() + ", not " +
                         to_string(shape_of(dims)));
    };
    if (!input.type.is_tensor()) return usage_error(source + ": the input '" + input.name + "' is no tensor");
    if (!input.type.shape) return {};
    if (input.type.shape->size() != dims.size()) return fail();
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const Dim& dim = input.type.shape->at(axis);
      if (dim.is_constant() && dim.constant() != dims[axis]) return fail();
      if (!dim.is_symbol()) continue;
      std::vector<std::string> name;
      dim.collect_symbols(name);
      XYNTRA_CHECK_OK(bind_size(name.front(), dims[axis], source));
    }
    return {};
  }

  Status read_shape(const std::string& text) {
    XYNTRA_TRY(const auto named, named_input(text, "--shape"));
    Dims dims;
    if (!named.second.empty()) {
      for (std::string_view piece : split(named.second, 'x')) {
        const auto size = parse_i64(piece);
        if (!size || *size < 0)
          return usage_error("--shape " + text + ": expected INPUT=SIZES, such as x=1x128");
        dims.push_back(*size);
      }
    }
    XYNTRA_CHECK_OK(unify(named.first, dims, "--shape " + text));
    shapes_[named.first] = std::move(dims);
    return {};
  }

  // ---- Files
  Status read_file(const std::string& text) {
    if (text.ends_with(".npz")) return read_archive(text);
    if (text.find('=') != std::string::npos) {
      XYNTRA_TRY(const auto named, named_input(text, "--input"));
      return read_one(named.first, named.second);
    }
    const auto next = std::ranges::find_if(graph_.inputs, [&](ValueId id) { return !given_.contains(id); });
    if (next == graph_.inputs.end()) return usage_error("--input " + text + ": all inputs are given already");
    return read_one(*next, text);
  }

  Status read_archive(const std::string& path) {
    std::map<std::string, DType> expected;
    for (ValueId id : graph_.inputs) expected[graph_.value(id).name] = graph_.value(id).type.dtype;
    XYNTRA_TRY(auto tensors, read_npz_file(path, expected, budget_));
    for (auto& [name, tensor] : tensors) {
      const ValueId id = graph_.find(name);
      if (!id.valid() || !is_input(id)) return usage_error(path + ": the model has no input '" + name + "'");
      XYNTRA_CHECK_OK(give(id, Datum::of(std::move(tensor)), path));
    }
    return {};
  }

  Status read_one(ValueId id, const std::string& path) {
    const Type& type = graph_.value(id).type;
    if (path.ends_with(".pb")) {
      using Kind = onnx::DatumProto::Kind;
      const Kind kind = type.kind == Type::Kind::Sequence   ? Kind::Sequence
                        : type.kind == Type::Kind::Optional ? Kind::Optional
                                                            : Kind::Tensor;
      XYNTRA_TRY(Datum datum, onnx::read_datum_file(path, kind));
      return give(id, std::move(datum), path);
    }
    if (!path.ends_with(".npy"))
      return usage_error("--input " + path + ": expected a .npy, .npz or .pb file");
    XYNTRA_TRY(Tensor tensor, read_npy_file(path, {.expected = type.dtype, .budget = budget_}));
    return give(id, Datum::of(std::move(tensor)), path);
  }

  Status give(ValueId id, Datum datum, const std::string& source) {
    const Value& input = graph_.value(id);
    if (datum.kind == Datum::Kind::Tensor && input.type.is_tensor()) {
      if (datum.tensor.dtype() != input.type.dtype) {
        return usage_error(source + ": the input '" + input.name + "' is " + input.type.to_string() +
                           ", but the file holds " + std::string(name_of(datum.tensor.dtype())));
      }
      XYNTRA_CHECK_OK(unify(id, datum.tensor.dims(), source));
    }
    if (!given_.emplace(id, BoundInput{input.name, source, std::move(datum)}).second) {
      return usage_error(source + ": the input '" + input.name + "' is given twice");
    }
    return {};
  }

  // ---- What nobody gave
  Status choose_defaults() {
    XYNTRA_TRY(SymbolBindings sizes, with_default_sizes(graph_, ranges_, bound_.sizes, budget_.get()));
    for (const auto& [name, size] : sizes) {
      if (!bound_.sizes.contains(name)) bound_.defaults.push_back(name);
    }
    bound_.sizes = std::move(sizes);
    return {};
  }

  Status add_input(ValueId id) {
    if (auto given = given_.find(id); given != given_.end()) {
      bound_.inputs.push_back(std::move(given->second));
      return {};
    }
    const Value& input = graph_.value(id);
    if (input.is_constant()) {
      bound_.inputs.push_back({input.name, "default", Datum::of(input.constant)});
      return {};
    }
    if (!input.type.is_tensor()) {
      return usage_error("the input '" + input.name + "' is " + input.type.to_string() +
                         ": give it with --input " + input.name + "=FILE.pb");
    }
    Dims dims;
    if (const auto shape = shapes_.find(id); shape != shapes_.end()) {
      dims = shape->second;
    } else if (!input.type.shape) {
      return usage_error("the shape of the input '" + input.name + "' is not known: give it with --shape");
    } else {
      for (const Dim& dim : *input.type.shape) {
        XYNTRA_TRY(const std::int64_t size, dim.evaluate(bound_.sizes));
        dims.push_back(size);
      }
    }
    std::optional<std::int64_t> below = index_bound(graph_, id, bound_.sizes);
    if (const auto known = request_.bounds.find(input.name); known != request_.bounds.end())
      below = known->second;
    XYNTRA_TRY(Tensor tensor,
               random_tensor(input.type.dtype, dims, request_.seed, input.name, below, budget_));
    bound_.inputs.push_back({input.name, "random", Datum::of(std::move(tensor))});
    return {};
  }

  const Graph& graph_;
  const SymbolRanges& ranges_;
  const InputRequest& request_;
  std::shared_ptr<Budget> budget_;
  std::map<ValueId, Dims> shapes_;
  std::map<ValueId, BoundInput> given_;
  BoundInputs bound_;
};

}  // namespace

Result<BoundInputs> bind_inputs(const Module& module, const InputRequest& request,
                                const std::shared_ptr<Budget>& budget) {
  return InputBinder(module, request, budget).bind();
}

}  // namespace xyntra
