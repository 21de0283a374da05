// The C ABI: pointers become spans here, errors and exceptions become a status and a message.
#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <span>

#include "api/c_structs.h"
#include "api/session.h"
#include "frontends/aten/overloads.h"
#include "frontends/pt2/import.h"
#include "support/error.h"
#include "support/limits/current_budget.h"
#include "support/limits/interrupt.h"
#include "xyntra/xyntra.h"

using xyntra::Error;
using xyntra::ErrorClass;
using xyntra::failure;
using xyntra::give;
using xyntra::give_all;
using xyntra::ModelSession;
using xyntra::not_null;
using xyntra::Result;
using xyntra::SessionValue;
using xyntra::Status;
using xyntra::taken;
using xyntra::taken_all;
using xyntra::Tensor;
using xyntra::usage_error;

namespace {

// What xyntra_value points to.
struct DescribedValue {
  explicit DescribedValue(const SessionValue& value) : name(value.name) {
    for (const xyntra::Dim& dim : value.shape) {
      dims.push_back(dim.is_constant() ? dim.constant() : -1);
      texts.push_back(dim.to_string());
    }
    for (const std::string& text : texts) symbols.push_back(text.c_str());
    dtype = static_cast<xyntra_dtype>(xyntra::onnx_code_of(value.dtype));
    has_shape = value.has_shape;
  }
  DescribedValue(const DescribedValue&) = delete;
  DescribedValue& operator=(const DescribedValue&) = delete;

  std::string name;
  xyntra_dtype dtype = XYNTRA_F32;
  bool has_shape = false;
  std::vector<std::int64_t> dims;
  std::vector<std::string> texts;
  std::vector<const char*> symbols;
};

using DescribedValues = std::vector<std::shared_ptr<const DescribedValue>>;

DescribedValues describe(const std::vector<SessionValue>& values) {
  DescribedValues described;
  for (const SessionValue& value : values) described.push_back(std::make_shared<const DescribedValue>(value));
  return described;
}

struct NamedResult {
  std::shared_ptr<const DescribedValue> value;  // the model may be released before the result is
  Tensor tensor;
};

}  // namespace

struct xyntra_model {
  std::unique_ptr<ModelSession> session;
  DescribedValues inputs, outputs;
  std::mutex explaining;
  std::string explanation, explanation_json;  // made when first asked for
};

struct xyntra_result {
  std::vector<NamedResult> tensors;
};

namespace {

thread_local std::string last_message;

struct Asked {
  xyntra_interrupt function = nullptr;
  void* context = nullptr;
};
thread_local Asked asked;  // whether calls of this thread are to end

xyntra_status status_of(ErrorClass error_class) {
  switch (error_class) {
    case ErrorClass::Usage: return XYNTRA_USAGE;
    case ErrorClass::BadModel: return XYNTRA_BAD_MODEL;
    case ErrorClass::Unsupported: return XYNTRA_UNSUPPORTED;
    case ErrorClass::Limit: return XYNTRA_LIMIT;
    case ErrorClass::Device: return XYNTRA_DEVICE;
    case ErrorClass::Internal: return XYNTRA_INTERNAL;
  }
  return XYNTRA_INTERNAL;
}

// The edge that nothing is thrown over.
template <class Body>
xyntra_status guarded(Body body) noexcept {
  try {
    last_message.clear();
    xyntra::Interrupt interrupt(asked.function, asked.context);
    const xyntra::InterruptScope scope(asked.function == nullptr ? nullptr : &interrupt);
    Status done = body();
    if (done) return XYNTRA_OK;
    last_message = done.error().to_string();
    return status_of(done.error().error_class);
  } catch (const xyntra::InternalError& error) {
    last_message = "internal: " + error.message();
    return XYNTRA_INTERNAL;
  } catch (const xyntra::LimitReached& reached) {
    last_message = reached.error().to_string();
    return XYNTRA_LIMIT;
  } catch (const std::bad_alloc&) {
    last_message = "out of memory";  // short enough to need no memory
    return XYNTRA_LIMIT;
  } catch (const std::exception& error) {
    last_message = error.what();
    return XYNTRA_INTERNAL;
  } catch (...) {
    last_message = "unknown";
    return XYNTRA_INTERNAL;
  }
}

template <class T>
Result<std::span<const T>> span_of(const T* pointer, std::size_t count, const char* what) {
  if (count > 0) XYNTRA_CHECK_OK(not_null(pointer, what));
  return std::span(pointer, count);
}

Result<std::vector<std::string>> texts_of(const char* const* texts, std::size_t count, const char* what) {
  XYNTRA_TRY(const auto given, span_of(texts, count, what));
  std::vector<std::string> made;
  for (const char* text : given) {
    XYNTRA_CHECK_OK(not_null(text, what));
    made.emplace_back(text);
  }
  return made;
}

Result<xyntra::SessionOptions> options_of(const xyntra_options* given) {
  xyntra::SessionOptions options;
  if (given == nullptr) return options;
  XYNTRA_TRY(const xyntra_options fields, taken<xyntra_options>(given));
  if (fields.backend != nullptr) options.backend = fields.backend;
  if (fields.precision != nullptr) options.precision = fields.precision;
  if (fields.threads < 0) return usage_error("threads is negative");
  options.threads = fields.threads;
  options.max_memory = static_cast<std::int64_t>(std::min<std::size_t>(fields.max_memory, INT64_MAX));
  XYNTRA_TRY(options.dims, texts_of(fields.dims, fields.dim_count, "an element of dims"));
  XYNTRA_TRY(options.donated, texts_of(fields.donated, fields.donated_count, "an element of donated"));
  XYNTRA_TRY(options.inputs, texts_of(fields.inputs, fields.input_count, "an element of inputs"));
  return options;
}

// A call that fails leaves no model behind.
Status clear(xyntra_model** model) {
  XYNTRA_CHECK_OK(not_null(model, "model"));
  *model = nullptr;
  return {};
}

// `from` is a path, the content of a file, or what reads a model.
template <class From>
Status load(const From& from, const xyntra_options* given, xyntra_model** model) {
  XYNTRA_TRY(const xyntra::SessionOptions options, options_of(given));
  XYNTRA_TRY(auto session, ModelSession::load(from, options));
  auto made = std::make_unique<xyntra_model>();
  made->inputs = describe(session->inputs());
  made->outputs = describe(session->outputs());
  made->session = std::move(session);
  *model = made.release();
  return {};
}

// `explained` is kept in the model; `make` says it when first asked.
Status explain(xyntra_model* model, const char** text, std::string xyntra_model::* explained,
               Result<std::string> (ModelSession::*make)() const) {
  XYNTRA_CHECK_OK(not_null(text, "text"));
  *text = nullptr;
  XYNTRA_CHECK_OK(not_null(model, "model"));
  const std::lock_guard lock(model->explaining);
  std::string& kept = model->*explained;
  if (kept.empty()) {
    XYNTRA_TRY(kept, ((*model->session).*make)());
  }
  *text = kept.c_str();
  return {};
}

Status value_at(const DescribedValues& values, std::size_t index, xyntra_value* into) {
  if (index >= values.size()) {
    return usage_error("there are " + std::to_string(values.size()) + ", asked for number " +
                       std::to_string(index));
  }
  const DescribedValue& value = *values[index];
  return give<xyntra_value>({0, value.name.c_str(), value.dtype, value.has_shape ? 1 : 0, value.dims.size(),
                             value.dims.data(), value.symbols.data()},
                            into, "value");
}

Result<xyntra::NamedTensor> borrowed(const xyntra_tensor& given) {
  XYNTRA_CHECK_OK(not_null(given.name, "the name of an input"));
  const std::string name = given.name;
  const auto dtype = xyntra::dtype_of_onnx_code(static_cast<int>(given.dtype));
  if (!dtype) return usage_error("input '" + name + "': there is no dtype " + std::to_string(given.dtype));
  XYNTRA_TRY(const auto dims, span_of(given.dims, given.rank, "dims of an input"));
  XYNTRA_TRY(const auto bytes,
             span_of(static_cast<const std::byte*>(given.data), given.bytes, "data of an input"));
  auto tensor = Tensor::borrow(*dtype, xyntra::Dims(dims.begin(), dims.end()), bytes, nullptr);
  if (!tensor) {
    Error error = std::move(tensor).error();
    error.error_class = ErrorClass::Usage;
    error.message = "input '" + name + "': " + error.message;
    return failure(std::move(error));
  }
  return xyntra::NamedTensor{name, std::move(*tensor)};
}

Result<std::vector<xyntra::NamedTensor>> borrowed(const xyntra_tensor* inputs, std::size_t input_count) {
  XYNTRA_TRY(const auto given, taken_all(inputs, input_count, "inputs"));
  std::vector<xyntra::NamedTensor> named;
  for (const xyntra_tensor& input : given) {
    XYNTRA_TRY(auto tensor, borrowed(input));
    named.push_back(std::move(tensor));
  }
  return named;
}

Result<ModelSession::Destination> destination(const xyntra_tensor& given) {
  XYNTRA_CHECK_OK(not_null(given.name, "the name of an output"));
  const std::string name = given.name;
  const auto dtype = xyntra::dtype_of_onnx_code(static_cast<int>(given.dtype));
  if (!dtype) return usage_error("output '" + name + "': there is no dtype " + std::to_string(given.dtype));
  XYNTRA_TRY(const auto dims, span_of(given.dims, given.rank, "dims of an output"));
  if (given.bytes > 0) XYNTRA_CHECK_OK(not_null(given.data, "data of an output"));
  return ModelSession::Destination{name, *dtype, xyntra::Dims(dims.begin(), dims.end()),
                                   std::span(static_cast<std::byte*>(given.data), given.bytes)};
}

Result<ModelSession::Donation> donation(const xyntra_donation& given) {
  XYNTRA_CHECK_OK(not_null(given.memory, "the memory of a donation"));
  XYNTRA_TRY(const xyntra_tensor memory, taken<xyntra_tensor>(given.memory));
  XYNTRA_CHECK_OK(not_null(memory.name, "the name of an input"));
  const std::string name = memory.name;
  const auto dtype = xyntra::dtype_of_onnx_code(static_cast<int>(memory.dtype));
  if (!dtype) return usage_error("input '" + name + "': there is no dtype " + std::to_string(memory.dtype));
  XYNTRA_TRY(const auto dims, span_of(memory.dims, memory.rank, "dims of an input"));
  if (memory.bytes > 0) XYNTRA_CHECK_OK(not_null(memory.data, "data of an input"));
  ModelSession::Donation made;
  made.name = name;
  made.dtype = *dtype;
  made.dims.assign(dims.begin(), dims.end());
  made.bytes = std::span(static_cast<std::byte*>(memory.data), memory.bytes);
  made.length = given.length;
  made.unchanged = given.unchanged != 0;
  return made;
}

Result<std::map<std::string, Tensor>> constants_of(const xyntra_tensor* tensors, std::size_t count) {
  XYNTRA_TRY(auto given, borrowed(tensors, count));
  std::map<std::string, Tensor> made;
  for (xyntra::NamedTensor& one : given) {
    if (!made.emplace(one.name, std::move(one.tensor)).second)
      return usage_error("the tensor '" + one.name + "' was given twice");
  }
  return made;
}

Result<xyntra::Module> import_graph(std::string_view json, const std::map<std::string, Tensor>& constants,
                                    std::shared_ptr<xyntra::Budget> budget) {
  const auto lookup = [&](const std::string& name) -> Result<Tensor> {
    const auto found = constants.find(name);
    if (found == constants.end()) return usage_error("the tensor '" + name + "' is missing");
    return found->second;
  };
  xyntra::aten::ImportOptions options;
  options.budget = std::move(budget);
  return xyntra::import_exported_json(json, lookup, options);
}

Result<std::string_view> text_of(const char* text, std::size_t size) {
  XYNTRA_TRY(const auto letters, span_of(text, size, "json"));
  return std::string_view(letters.data(), letters.size());
}

xyntra_result* result_of(const xyntra_model& model, std::vector<Tensor> tensors) {
  auto made = std::make_unique<xyntra_result>();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    made->tensors.push_back({model.outputs.at(i), std::move(tensors[i])});
  return made.release();
}

}  // namespace

extern "C" {

const char* xyntra_version(void) { return XYNTRA_VERSION; }
const char* xyntra_last_message(void) { return last_message.c_str(); }
void xyntra_set_interrupt(xyntra_interrupt function, void* context) { asked = {function, context}; }

xyntra_status xyntra_load(const char* path, const xyntra_options* options, xyntra_model** model) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(clear(model));
    XYNTRA_CHECK_OK(not_null(path, "path"));
    return load(std::string(path), options, model);
  });
}

xyntra_status xyntra_load_graph(const char* json, size_t size, const xyntra_tensor* tensors,
                                size_t tensor_count, const xyntra_options* options, xyntra_model** model) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(clear(model));
    XYNTRA_TRY(const std::string_view text, text_of(json, size));
    XYNTRA_TRY(const auto constants, constants_of(tensors, tensor_count));
    const auto read = [&](const xyntra::LoadOptions& loading) {
      return import_graph(text, constants, loading.budget);
    };
    return load(read, options, model);
  });
}

xyntra_status xyntra_check_graph(const char* json, size_t size, const xyntra_tensor* tensors,
                                 size_t tensor_count) {
  return guarded([&]() -> Status {
    XYNTRA_TRY(const std::string_view text, text_of(json, size));
    XYNTRA_TRY(const auto constants, constants_of(tensors, tensor_count));
    XYNTRA_TRY(const xyntra::Module module, import_graph(text, constants, nullptr));
    static_cast<void>(module);
    return {};
  });
}

size_t xyntra_operator_count(void) { return xyntra::aten::all_overloads().size(); }

const char* xyntra_operator(size_t index) {
  const auto overloads = xyntra::aten::all_overloads();
  return index < overloads.size() ? overloads[index].text.c_str() : nullptr;
}

xyntra_status xyntra_load_bytes(const void* content, size_t size, const xyntra_options* options,
                                xyntra_model** model) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(clear(model));
    XYNTRA_TRY(const auto bytes, span_of(static_cast<const std::byte*>(content), size, "content"));
    return load(bytes, options, model);
  });
}

void xyntra_release(xyntra_model* model) { delete model; }

xyntra_status xyntra_compile(const char* path, const char* output, const xyntra_options* options,
                             const char* const* cpus, size_t cpu_count) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(path, "path"));
    XYNTRA_CHECK_OK(not_null(output, "output"));
    XYNTRA_TRY(const xyntra::SessionOptions given, options_of(options));
    XYNTRA_TRY(const auto names, texts_of(cpus, cpu_count, "an element of cpus"));
    return ModelSession::compile(path, output, given, names);
  });
}

xyntra_status xyntra_explain(xyntra_model* model, const char** text) {
  return guarded([&] { return explain(model, text, &xyntra_model::explanation, &ModelSession::explain); });
}

xyntra_status xyntra_explain_json(xyntra_model* model, const char** text) {
  return guarded(
      [&] { return explain(model, text, &xyntra_model::explanation_json, &ModelSession::explain_json); });
}

size_t xyntra_input_count(const xyntra_model* model) { return model == nullptr ? 0 : model->inputs.size(); }
size_t xyntra_output_count(const xyntra_model* model) { return model == nullptr ? 0 : model->outputs.size(); }

xyntra_status xyntra_input(const xyntra_model* model, size_t index, xyntra_value* value) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(model, "model"));
    return value_at(model->inputs, index, value);
  });
}

xyntra_status xyntra_output(const xyntra_model* model, size_t index, xyntra_value* value) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(model, "model"));
    return value_at(model->outputs, index, value);
  });
}

xyntra_status xyntra_run(xyntra_model* model, const xyntra_tensor* inputs, size_t input_count,
                         xyntra_result** result) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(result, "result"));
    *result = nullptr;
    XYNTRA_CHECK_OK(not_null(model, "model"));
    XYNTRA_TRY(auto given, borrowed(inputs, input_count));
    XYNTRA_TRY(std::vector<Tensor> tensors, model->session->run(std::move(given)));
    *result = result_of(*model, std::move(tensors));
    return {};
  });
}

size_t xyntra_extension_count(const xyntra_model* model) {
  return model == nullptr ? 0 : model->session->extensions().size();
}

xyntra_status xyntra_extension_at(const xyntra_model* model, size_t index, xyntra_extension* extension) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(model, "model"));
    const auto& known = model->session->extensions();
    if (index >= known.size()) {
      return usage_error("there are " + std::to_string(known.size()) + ", asked for number " +
                         std::to_string(index));
    }
    return give<xyntra_extension>(
        {0, known[index].input.c_str(), known[index].output.c_str(), known[index].axis}, extension,
        "extension");
  });
}

xyntra_status xyntra_run_donating(xyntra_model* model, const xyntra_tensor* inputs, size_t input_count,
                                  xyntra_donation* donations, size_t donation_count, xyntra_result** result) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(result, "result"));
    *result = nullptr;
    XYNTRA_CHECK_OK(not_null(model, "model"));
    XYNTRA_TRY(auto given, borrowed(inputs, input_count));
    XYNTRA_TRY(std::vector<xyntra_donation> donated, taken_all(donations, donation_count, "donations"));
    std::vector<ModelSession::Donation> made;
    for (xyntra_donation& one : donated) {
      one.in_place = 0;
      XYNTRA_TRY(ModelSession::Donation checked, donation(one));
      made.push_back(std::move(checked));
    }
    give_all(donated, donations);
    XYNTRA_TRY(std::vector<Tensor> tensors, model->session->run(std::move(given), made));
    *result = result_of(*model, std::move(tensors));
    for (std::size_t i = 0; i < made.size(); ++i) {
      donated[i].in_place = made[i].in_place ? 1 : 0;
      donated[i].length = made[i].length;
    }
    give_all(donated, donations);
    return {};
  });
}

xyntra_status xyntra_run_into(xyntra_model* model, const xyntra_tensor* inputs, size_t input_count,
                              const xyntra_tensor* outputs, size_t output_count) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(model, "model"));
    XYNTRA_TRY(auto given, borrowed(inputs, input_count));
    XYNTRA_TRY(const auto wanted, taken_all(outputs, output_count, "outputs"));
    std::vector<ModelSession::Destination> destinations;
    for (const xyntra_tensor& output : wanted) {
      XYNTRA_TRY(auto made, destination(output));
      destinations.push_back(std::move(made));
    }
    XYNTRA_CHECK_OK(model->session->run_into(std::move(given), destinations));
    return {};
  });
}

xyntra_status xyntra_run_on_device(xyntra_model* model, const xyntra_tensor* inputs, size_t input_count,
                                   const xyntra_tensor* outputs, size_t output_count,
                                   const xyntra_on_device* on_device) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(model, "model"));
    XYNTRA_CHECK_OK(not_null(on_device, "on_device"));
    XYNTRA_TRY(const xyntra_on_device there, taken<xyntra_on_device>(on_device));
    XYNTRA_TRY(const auto names, span_of(there.names, there.name_count, "names"));
    ModelSession::OnDevice asked{{}, reinterpret_cast<std::uint64_t>(there.stream)};
    for (const char* name : names) {
      XYNTRA_CHECK_OK(not_null(name, "a name"));
      asked.names.emplace_back(name);
    }
    XYNTRA_TRY(auto given, borrowed(inputs, input_count));
    XYNTRA_TRY(const auto wanted, taken_all(outputs, output_count, "outputs"));
    std::vector<ModelSession::Destination> destinations;
    for (const xyntra_tensor& output : wanted) {
      XYNTRA_TRY(auto made, destination(output));
      destinations.push_back(std::move(made));
    }
    return model->session->run_on_device(std::move(given), destinations, asked);
  });
}

xyntra_status xyntra_count(const xyntra_model* model, xyntra_counts* counts) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(model, "model"));
    const xyntra::RunCounts& made = model->session->counts();
    return give<xyntra_counts>({0, made.compiles, made.runs, made.bindings, made.copies}, counts, "counts");
  });
}

size_t xyntra_result_count(const xyntra_result* result) {
  return result == nullptr ? 0 : result->tensors.size();
}

xyntra_status xyntra_result_tensor(const xyntra_result* result, size_t index, xyntra_tensor* tensor) {
  return guarded([&]() -> Status {
    XYNTRA_CHECK_OK(not_null(result, "result"));
    if (index >= result->tensors.size()) {
      return usage_error("there are " + std::to_string(result->tensors.size()) +
                         " results, asked for number " + std::to_string(index));
    }
    const NamedResult& named = result->tensors[index];
    const Tensor& made = named.tensor;
    return give<xyntra_tensor>(
        {0, named.value->name.c_str(), static_cast<xyntra_dtype>(xyntra::onnx_code_of(made.dtype())),
         made.dims().size(), made.dims().data(), const_cast<std::byte*>(made.bytes().data()),
         made.bytes().size()},
        tensor, "tensor");
  });
}

void xyntra_release_result(xyntra_result* result) { delete result; }

}  // extern "C"
