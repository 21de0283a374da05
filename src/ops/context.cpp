#include <algorithm>

#include "ops/formula_context.h"
#include "ops/op.h"
#include "ops/tracked_elements.h"

namespace xyntra {
namespace {

template <class T>
const T& attribute_as(const OpContext& context, const Attribute* attribute, std::string_view name) {
  if (attribute == nullptr) {
    internal_error(context.def().name + ": attribute '" + std::string(name) +
                   "' has neither value nor default");
  }
  const T* typed = std::get_if<T>(attribute);
  if (typed == nullptr) {
    internal_error(context.def().name + ": attribute '" + std::string(name) + "' is of kind " +
                   attribute_kind(*attribute));
  }
  return *typed;
}

}  // namespace

const Tensor* OpContext::constant(std::size_t i) const {
  if (has_input(i)) inputs_[i].contents_used = true;
  return has_input(i) && inputs_[i].constant.defined() ? &inputs_[i].constant : nullptr;
}

std::optional<std::vector<Dim>> OpContext::elements(std::size_t i) const {
  if (!has_input(i)) return std::nullopt;
  inputs_[i].contents_used = true;
  if (inputs_[i].elements) return inputs_[i].elements;
  const Tensor* tensor = constant(i);
  if (tensor == nullptr || is_float(tensor->dtype()) || is_string(tensor->dtype()) ||
      tensor->count() > kMaxTrackedElements)
    return std::nullopt;
  auto numbers = tensor->to_integers();
  return std::vector<Dim>(numbers.begin(), numbers.end());
}

std::optional<std::vector<std::int64_t>> OpContext::integers_of(std::size_t i) const {
  auto known = elements(i);
  return known ? static_dims(*known) : std::nullopt;
}

const Attribute* OpContext::find_attribute(std::string_view name) const {
  auto given = node_->attributes.find(name);
  if (given != node_->attributes.end()) return &given->second;
  const AttributeSpec* spec = def_->attribute(name);
  return spec != nullptr && spec->default_value ? &*spec->default_value : nullptr;
}

bool OpContext::has_attribute(std::string_view name) const { return find_attribute(name) != nullptr; }
std::int64_t OpContext::integer(std::string_view name) const {
  return attribute_as<std::int64_t>(*this, find_attribute(name), name);
}
float OpContext::real(std::string_view name) const {
  return attribute_as<float>(*this, find_attribute(name), name);
}
const std::string& OpContext::text(std::string_view name) const {
  return attribute_as<std::string>(*this, find_attribute(name), name);
}
std::vector<std::int64_t> OpContext::integers(std::string_view name) const {
  const Attribute* found = find_attribute(name);
  return found == nullptr ? std::vector<std::int64_t>{}
                          : attribute_as<std::vector<std::int64_t>>(*this, found, name);
}
std::vector<float> OpContext::reals(std::string_view name) const {
  const Attribute* found = find_attribute(name);
  return found == nullptr ? std::vector<float>{} : attribute_as<std::vector<float>>(*this, found, name);
}
std::vector<std::string> OpContext::texts(std::string_view name) const {
  const Attribute* found = find_attribute(name);
  return found == nullptr ? std::vector<std::string>{}
                          : attribute_as<std::vector<std::string>>(*this, found, name);
}
const Tensor& OpContext::tensor(std::string_view name) const {
  return attribute_as<Tensor>(*this, find_attribute(name), name);
}
const Graph& OpContext::graph(std::string_view name) const {
  return *attribute_as<std::shared_ptr<const Graph>>(*this, find_attribute(name), name);
}

Result<std::size_t> OpContext::normalized_axis(std::int64_t axis, std::size_t rank) const {
  auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    return fail("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

Result<std::vector<std::size_t>> OpContext::normalized_axes(std::span<const std::int64_t> axes,
                                                            std::size_t rank) const {
  std::vector<std::size_t> normal;
  for (std::int64_t axis : axes) {
    XYNTRA_TRY(std::size_t one, normalized_axis(axis, rank));
    if (std::find(normal.begin(), normal.end(), one) != normal.end()) {
      return fail("axis " + std::to_string(axis) + " is given twice");
    }
    normal.push_back(one);
  }
  return normal;
}

tl::unexpected<Error> OpContext::fail(std::string message) const {
  Error error;
  error.error_class = ErrorClass::BadModel;
  error.message = std::move(message);
  return failure(std::move(error).at_node(node_->origin, node_->op));
}

tl::unexpected<Error> OpContext::unsupported(std::string message) const {
  Error error;
  error.error_class = ErrorClass::Unsupported;
  error.message = std::move(message);
  return failure(std::move(error).at_node(node_->origin, node_->op));
}

FormulaContext::FormulaContext(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs,
                               std::span<const ValueFacts> outputs)
    : OpContext(def, node, inputs),
      te::Builder(def.name),
      outputs_(outputs),
      input_buffers_(inputs.size()),
      output_buffers_(outputs.size()) {}

namespace {

std::string parameter_name(const std::vector<Parameter>& parameters, std::size_t i) {
  if (i < parameters.size() && !parameters[i].variadic) return parameters[i].name;
  return parameters.back().name + std::to_string(i - (parameters.size() - 1));
}

}  // namespace

te::Buffer FormulaContext::in(std::size_t i) {
  require(has_input(i), "formula reads an operand that is not there");
  if (!input_buffers_[i].defined()) {
    input_buffers_[i] = input(static_cast<int>(i), parameter_name(def_->inputs, i), dtype(i), shape(i));
  }
  return input_buffers_[i];
}

te::Buffer FormulaContext::out(std::size_t i) {
  if (!output_buffers_.at(i).defined()) {
    output_buffers_[i] =
        output(static_cast<int>(i), parameter_name(def_->outputs, i), out_dtype(i), out_shape(i));
  }
  return output_buffers_[i];
}

Result<te::Formula> formula_of(const OpDef& def, const Node& node, std::span<const ValueFacts> inputs,
                               std::span<const ValueFacts> outputs) {
  require(def.formula != nullptr, "formula_of: a host op has no formula");
  FormulaContext context(def, node, inputs, outputs);
  XYNTRA_CHECK_OK(def.formula(context));
  te::Formula formula = std::move(static_cast<te::Builder&>(context)).finish();
  XYNTRA_CHECK_OK(te::verify(formula));
  return formula;
}

te::Expr broadcast_index(const Dim& size, const te::Expr& i, const Dim& extent) {
  if (size.is(1)) return te::Expr::index(0);
  if (size.is_constant() || size == extent || i.is_integer_constant(0)) return i;
  return te::select(te::equal(te::Expr::size(size), 1), te::Expr::index(0), i);
}

te::Expr broadcast(const te::Buffer& x, const te::Axes& axes) {
  Shape shape;
  for (const te::Axis& axis : axes) shape.push_back(axis.extent);
  return broadcast(x, te::to_index(axes), shape);
}

te::Expr broadcast(const te::Buffer& x, const te::Index& index, const Shape& shape) {
  require(x.rank() <= index.size(), "broadcast to a lower rank");
  std::size_t skipped = index.size() - x.rank();
  te::Index own;
  for (std::size_t d = 0; d < x.rank(); ++d) {
    own.push_back(broadcast_index(x.dim(d), index[skipped + d], shape[skipped + d]));
  }
  return x(own);
}

}  // namespace xyntra
