// Xyntra's C++ API: the C ABI of xyntra.h with owners, spans of strings and exceptions. Header-only, so that programs
// made by one compiler work with a library made by another.
//
//   xyntra::Model model("model.onnx", {.threads = 2});
//   xyntra::Result result = model.run({xyntra::input<float>("x", {2, 3}, values)});
//   std::span<const float> y = result["y"].values<float>();
#pragma once

#include <xyntra/xyntra.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace xyntra {

// What every failure throws; `status()` says of which kind it is.
class Failure : public std::runtime_error {
 public:
  Failure(xyntra_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  xyntra_status status() const { return status_; }

 private:
  xyntra_status status_;
};

namespace detail {

inline void check(xyntra_status status) {
  if (status != XYNTRA_OK) throw Failure(status, xyntra_last_message());
}

template <class T>
constexpr xyntra_dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return XYNTRA_F32;
  if constexpr (std::is_same_v<U, double>) return XYNTRA_F64;
  if constexpr (std::is_same_v<U, std::int8_t>) return XYNTRA_I8;
  if constexpr (std::is_same_v<U, std::int16_t>) return XYNTRA_I16;
  if constexpr (std::is_same_v<U, std::int32_t>) return XYNTRA_I32;
  if constexpr (std::is_same_v<U, std::int64_t>) return XYNTRA_I64;
  if constexpr (std::is_same_v<U, std::uint8_t>) return XYNTRA_U8;
  if constexpr (std::is_same_v<U, std::uint16_t>) return XYNTRA_U16;
  if constexpr (std::is_same_v<U, std::uint32_t>) return XYNTRA_U32;
  if constexpr (std::is_same_v<U, std::uint64_t>) return XYNTRA_U64;
  if constexpr (std::is_same_v<U, bool>) return XYNTRA_BOOL;
}

}  // namespace detail

// A tensor in memory of the caller's; of an input only read.
struct Argument {
  std::string name;
  xyntra_dtype dtype = XYNTRA_F32;
  std::vector<std::int64_t> dims;
  void* data = nullptr;
  std::size_t bytes = 0;
};

template <class T>
Argument input(std::string name, std::vector<std::int64_t> dims, std::span<const T> values) {
  return {std::move(name), detail::dtype_of<T>(), std::move(dims), const_cast<T*>(values.data()),
          values.size_bytes()};
}
template <class T>
Argument output(std::string name, std::vector<std::int64_t> dims, std::span<T> values) {
  return {std::move(name), detail::dtype_of<T>(), std::move(dims), values.data(), values.size_bytes()};
}

// An input that is donated with capacity for the result that extends it; dims count every row that there is capacity for.
struct Donation {
  Argument memory;
  std::int64_t length = 0;  // rows in use; after a run that was in place, those of the result
  bool in_place = false;  // set by a run: see xyntra_donation
  bool unchanged = false;  // since the last run of the model that it was donated to: see xyntra_donation
};

// A tensor of a Result, which owns its memory.
class Tensor {
 public:
  explicit Tensor(const xyntra_tensor& tensor) : tensor_(tensor) {}
  std::string_view name() const { return tensor_.name; }
  xyntra_dtype dtype() const { return tensor_.dtype; }
  std::span<const std::int64_t> dims() const { return {tensor_.dims, tensor_.rank}; }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(tensor_.data), tensor_.bytes};
  }

  // The elements, which must be of this type.
  template <class T>
  std::span<const T> values() const {
    if (tensor_.dtype != detail::dtype_of<T>())
      throw Failure(XYNTRA_USAGE, "'" + std::string(name()) + "' has elements of another type");
    return {static_cast<const T*>(tensor_.data), tensor_.bytes / sizeof(T)};
  }

 private:
  xyntra_tensor tensor_;
};

class Result {
 public:
  explicit Result(xyntra_result* result) : result_(result) {}
  std::size_t size() const { return xyntra_result_count(result_.get()); }
  Tensor operator[](std::size_t index) const {
    xyntra_tensor tensor = XYNTRA_INIT(xyntra_tensor);
    detail::check(xyntra_result_tensor(result_.get(), index, &tensor));
    return Tensor(tensor);
  }
  Tensor operator[](std::string_view name) const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (Tensor tensor = (*this)[i]; tensor.name() == name) return tensor;
    }
    throw Failure(XYNTRA_USAGE, "the model has no output '" + std::string(name) + "'");
  }

 private:
  struct Release {
    void operator()(xyntra_result* result) const { xyntra_release_result(result); }
  };
  std::unique_ptr<xyntra_result, Release> result_;
};

struct Options {
  std::string backend = "cpu";
  int threads = 0;  // as many as this process may use
  std::vector<std::string> dims = {};  // "seq=128": sizes that costs are counted with
  std::size_t max_memory = 0;  // bytes for tensors; 0: three quarters of what there is
  std::string precision = "f32";  // or "bf16", "f16", "winograd": see xyntra_options
  std::vector<std::string> donated = {};  // inputs that may be donated; "*": all that a result extends
  std::vector<std::string> inputs = {};  // of TorchScript: "x=f32[1, 128]", "rate=16000": see xyntra_options
};

namespace detail {

inline std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> made;
  for (const std::string& text : texts) made.push_back(text.c_str());
  return made;
}

// Options as the C interface takes them, valid as long as both live.
struct OptionFields {
  explicit OptionFields(const Options& options)
      : dims(pointers(options.dims)),
        donated(pointers(options.donated)),
        inputs(pointers(options.inputs)),
        fields{
            sizeof(xyntra_options), options.backend.c_str(),   options.threads, dims.data(),    dims.size(),
            options.max_memory,     options.precision.c_str(), donated.data(),  donated.size(), inputs.data(),
            inputs.size()} {}
  OptionFields(const OptionFields&) = delete;
  OptionFields& operator=(const OptionFields&) = delete;

  std::vector<const char*> dims, donated, inputs;
  xyntra_options fields;
};

}  // namespace detail

// Writes a model as an artifact, a .xyn file, which a Model is made of without the compiler. See xyntra_compile.
inline void compile(const std::string& path, const std::string& output,
                    const std::vector<std::string>& cpus = {}, const Options& options = {}) {
  const std::vector<const char*> names = detail::pointers(cpus);
  const detail::OptionFields given(options);
  detail::check(xyntra_compile(path.c_str(), output.c_str(), &given.fields, names.data(), names.size()));
}

// A tensor that the model takes or gives.
struct ValueInfo {
  std::string name;
  xyntra_dtype dtype = XYNTRA_F32;
  bool has_shape = false;
  std::vector<std::int64_t> dims;  // -1 for a size that is not fixed
  std::vector<std::string> symbols;
};

// A model ready to run; run() may be called by several threads at a time.
class Model {
 public:
  explicit Model(const std::string& path, const Options& options = {}) {
    const detail::OptionFields given(options);
    xyntra_model* model = nullptr;
    detail::check(xyntra_load(path.c_str(), &given.fields, &model));
    model_.reset(model);
  }

  // The content of a file in memory, which is copied. See xyntra_load_bytes.
  explicit Model(std::span<const std::byte> content, const Options& options = {}) {
    const detail::OptionFields given(options);
    xyntra_model* model = nullptr;
    detail::check(xyntra_load_bytes(content.data(), content.size(), &given.fields, &model));
    model_.reset(model);
  }

  // How the model is cut into kernels.
  std::string explain() const {
    const char* text = nullptr;
    detail::check(xyntra_explain(model_.get(), &text));
    return text;
  }

  xyntra_counts counts() const {
    xyntra_counts made = XYNTRA_INIT(xyntra_counts);
    detail::check(xyntra_count(model_.get(), &made));
    return made;
  }

  std::vector<ValueInfo> inputs() const { return describe(xyntra_input_count(model_.get()), xyntra_input); }
  std::vector<ValueInfo> outputs() const {
    return describe(xyntra_output_count(model_.get()), xyntra_output);
  }

  Result run(std::span<const Argument> inputs) const {
    const std::vector<xyntra_tensor> given = fields_of(inputs);
    xyntra_result* result = nullptr;
    detail::check(xyntra_run(model_.get(), given.data(), given.size(), &result));
    return Result(result);
  }
  Result run(std::initializer_list<Argument> inputs) const {
    return run(std::span(inputs.begin(), inputs.size()));
  }

  // Some inputs are donated: results that extend them are written in their memory. See xyntra_run_donating.
  Result run(std::span<const Argument> inputs, std::span<Donation> donations) const {
    const std::vector<xyntra_tensor> given = fields_of(inputs);
    std::vector<xyntra_tensor> memory;
    for (const Donation& one : donations) memory.push_back(fields_of(one.memory));
    std::vector<xyntra_donation> donated;
    for (std::size_t i = 0; i < memory.size(); ++i)
      donated.push_back(
          {sizeof(xyntra_donation), &memory[i], donations[i].length, 0, donations[i].unchanged ? 1 : 0});
    xyntra_result* result = nullptr;
    detail::check(xyntra_run_donating(model_.get(), given.data(), given.size(), donated.data(),
                                      donated.size(), &result));
    for (std::size_t i = 0; i < donated.size(); ++i) {
      donations[i].length = donated[i].length;
      donations[i].in_place = donated[i].in_place != 0;
    }
    return Result(result);
  }

  // Which inputs may be donated, and to which results.
  std::vector<xyntra_extension> extensions() const {
    std::vector<xyntra_extension> made(xyntra_extension_count(model_.get()), XYNTRA_INIT(xyntra_extension));
    for (std::size_t i = 0; i < made.size(); ++i)
      detail::check(xyntra_extension_at(model_.get(), i, &made[i]));
    return made;
  }

  // Results are written to memory of the caller's; outputs that are not named are not given.
  void run_into(std::span<const Argument> inputs, std::span<const Argument> outputs) const {
    const std::vector<xyntra_tensor> given = fields_of(inputs), wanted = fields_of(outputs);
    detail::check(xyntra_run_into(model_.get(), given.data(), given.size(), wanted.data(), wanted.size()));
  }

  // The same on tensors in the memory of the GPU, those that are named: xyntra_run_on_device.
  void run_on_device(std::span<const Argument> inputs, std::span<const Argument> outputs,
                     std::span<const std::string> names, void* stream) const {
    const std::vector<xyntra_tensor> given = fields_of(inputs), wanted = fields_of(outputs);
    std::vector<const char*> texts;
    for (const std::string& name : names) texts.push_back(name.c_str());
    const xyntra_on_device there{sizeof(xyntra_on_device), texts.data(), texts.size(), stream};
    detail::check(
        xyntra_run_on_device(model_.get(), given.data(), given.size(), wanted.data(), wanted.size(), &there));
  }

 private:
  struct Release {
    void operator()(xyntra_model* model) const { xyntra_release(model); }
  };

  static xyntra_tensor fields_of(const Argument& one) {
    return {sizeof(xyntra_tensor), one.name.c_str(), one.dtype, one.dims.size(),
            one.dims.data(),       one.data,         one.bytes};
  }
  static std::vector<xyntra_tensor> fields_of(std::span<const Argument> arguments) {
    std::vector<xyntra_tensor> tensors;
    for (const Argument& one : arguments) tensors.push_back(fields_of(one));
    return tensors;
  }

  std::vector<ValueInfo> describe(std::size_t count, xyntra_status (*ask)(const xyntra_model*, std::size_t,
                                                                          xyntra_value*)) const {
    std::vector<ValueInfo> values;
    for (std::size_t i = 0; i < count; ++i) {
      xyntra_value value = XYNTRA_INIT(xyntra_value);
      detail::check(ask(model_.get(), i, &value));
      const std::span dims(value.dims, value.rank);
      const std::span symbols(value.symbols, value.rank);
      values.push_back({value.name,
                        value.dtype,
                        value.has_shape != 0,
                        {dims.begin(), dims.end()},
                        {symbols.begin(), symbols.end()}});
    }
    return values;
  }

  std::unique_ptr<xyntra_model, Release> model_;
};

}  // namespace xyntra
