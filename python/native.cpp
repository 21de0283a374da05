// xyntra._native: the C ABI for Python. What is said here is wrapped by xyntra/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <xyntra/xyntra.h>

#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace nb = nanobind;

namespace {

// Dense, row-major, in main memory; anything else is copied to be so. Only read.
using InputArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
// The same, as it is: memory that is donated.
using DonatedArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

struct DTypeRow {
  xyntra_dtype dtype;
  nb::dlpack::dtype_code code;
  std::uint8_t bits;
};
constexpr std::array kDTypes{
    DTypeRow{XYNTRA_F64, nb::dlpack::dtype_code::Float, 64},
    DTypeRow{XYNTRA_F32, nb::dlpack::dtype_code::Float, 32},
    DTypeRow{XYNTRA_F16, nb::dlpack::dtype_code::Float, 16},
    DTypeRow{XYNTRA_BF16, nb::dlpack::dtype_code::Bfloat, 16},
    DTypeRow{XYNTRA_I64, nb::dlpack::dtype_code::Int, 64},
    DTypeRow{XYNTRA_I32, nb::dlpack::dtype_code::Int, 32},
    DTypeRow{XYNTRA_I16, nb::dlpack::dtype_code::Int, 16},
    DTypeRow{XYNTRA_I8, nb::dlpack::dtype_code::Int, 8},
    DTypeRow{XYNTRA_U64, nb::dlpack::dtype_code::UInt, 64},
    DTypeRow{XYNTRA_U32, nb::dlpack::dtype_code::UInt, 32},
    DTypeRow{XYNTRA_U16, nb::dlpack::dtype_code::UInt, 16},
    DTypeRow{XYNTRA_U8, nb::dlpack::dtype_code::UInt, 8},
    DTypeRow{XYNTRA_BOOL, nb::dlpack::dtype_code::Bool, 8},
};

// Raises the exception of xyntra/__init__.py that belongs to the status.
[[noreturn]] void raise(xyntra_status status, const std::string& message) {
  static constexpr std::array kNames{"Error",      "UsageError",  "BadModelError", "UnsupportedError",
                                     "LimitError", "DeviceError", "InternalError"};
  const char* name = static_cast<std::size_t>(status) < kNames.size() ? kNames[status] : "InternalError";
  PyErr_SetString(nb::object(nb::module_::import_("xyntra.errors").attr(name)).ptr(), message.c_str());
  throw nb::python_error();
}

void check(xyntra_status status) {
  if (status != XYNTRA_OK) raise(status, xyntra_last_message());
}

struct ReleaseModel {
  void operator()(xyntra_model* model) const {
    const nb::gil_scoped_release
        other_threads_go_on;  // one of them may hold what is waited for, and need the lock
    xyntra_release(model);
  }
};
struct ReleaseResult {
  void operator()(xyntra_result* result) const { xyntra_release_result(result); }
};

xyntra_dtype dtype_of(nb::dlpack::dtype given, const std::string& name, int number) {
  if (number != 0) return static_cast<xyntra_dtype>(number);
  for (const DTypeRow& row : kDTypes) {
    if (given.code == static_cast<std::uint8_t>(row.code) && given.bits == row.bits && given.lanes == 1)
      return row.dtype;
  }
  raise(XYNTRA_USAGE, "input '" + name + "' has elements of a type that models do not have");
}

// What NumPy has no dtype for is given as bits; xyntra/dtypes.py has the dtypes of others for it.
constexpr std::array kBits{
    DTypeRow{XYNTRA_BF16, nb::dlpack::dtype_code::UInt, 16},
    DTypeRow{XYNTRA_F8E4M3FN, nb::dlpack::dtype_code::UInt, 8},
    DTypeRow{XYNTRA_F8E4M3FNUZ, nb::dlpack::dtype_code::UInt, 8},
    DTypeRow{XYNTRA_F8E5M2, nb::dlpack::dtype_code::UInt, 8},
    DTypeRow{XYNTRA_F8E5M2FNUZ, nb::dlpack::dtype_code::UInt, 8},
    DTypeRow{XYNTRA_F8E8M0, nb::dlpack::dtype_code::UInt, 8},
};

std::vector<DTypeRow> numpy_dtypes() {
  std::vector<DTypeRow> rows(kBits.begin(), kBits.end());
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype != XYNTRA_BF16) rows.push_back(row);
  }
  return rows;
}

// A NumPy array over the memory of a result, which lives as long as any of its arrays. Strings are their bytes and their shape:
// xyntra/strings.py makes an array of them.
nb::object array_of(const xyntra_tensor& tensor, const std::shared_ptr<xyntra_result>& owner) {
  if (tensor.dtype == XYNTRA_STRING) {
    nb::list shape;
    for (std::size_t d = 0; d < tensor.rank; ++d) shape.append(tensor.dims[d]);
    return nb::make_tuple(nb::bytes(static_cast<const char*>(tensor.data), tensor.bytes), nb::tuple(shape));
  }
  static const std::vector<DTypeRow> kRows = numpy_dtypes();
  for (const DTypeRow& row : kRows) {
    if (row.dtype != tensor.dtype) continue;
    std::vector<std::size_t> shape(tensor.dims, tensor.dims + tensor.rank);
    nb::capsule keep(new std::shared_ptr<xyntra_result>(owner),
                     [](void* held) noexcept { delete static_cast<std::shared_ptr<xyntra_result>*>(held); });
    const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(row.code), row.bits, 1};
    return nb::cast(nb::ndarray<nb::numpy>(tensor.data, shape.size(), shape.data(), keep, nullptr, dtype));
  }
  raise(XYNTRA_UNSUPPORTED,
        "output '" + std::string(tensor.name) + "' has elements of a type that NumPy does not have");
}

// Signals are handled by Python's main thread. While that is in a call, the call asks whether there are any: their handlers run, and where one
// raises, as KeyboardInterrupt is, the call ends.
int handle_signals(void*) {
  const nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals();
}

class SignalScope {
 public:
  SignalScope() {
    const nb::module_ threading = nb::module_::import_("threading");
    is_main_ = threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
    if (is_main_) xyntra_set_interrupt(handle_signals, nullptr);
  }
  ~SignalScope() {
    if (is_main_) xyntra_set_interrupt(nullptr, nullptr);
  }
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;

 private:
  bool is_main_ = false;
};

// Calls without the lock of the interpreter, so that other threads go on, and raises what it says, or what a signal's handler raised.
template <class Call>
void call(const Call& body) {
  xyntra_status status = XYNTRA_OK;
  std::string message;
  {
    const SignalScope signals;
    const nb::gil_scoped_release other_threads_go_on;
    status = body();
    if (status != XYNTRA_OK) message = xyntra_last_message();
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  if (status != XYNTRA_OK) raise(status, message);
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> made;
  for (const std::string& text : texts) made.push_back(text.c_str());
  return made;
}

// Paths are the system's bytes, not text. A NUL would end them early: Python's part refuses it.
std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

void compile(const nb::bytes& path, const nb::bytes& output, const std::vector<std::string>& cpus,
             int threads, const std::vector<std::string>& dims, std::size_t max_memory,
             const std::string& precision, const std::vector<std::string>& donated) {
  const std::vector<const char*> names = pointers(cpus), texts = pointers(dims), given = pointers(donated);
  const xyntra_options options{sizeof(xyntra_options), "cpu",        threads,
                               texts.data(),           texts.size(), max_memory,
                               precision.c_str(),      given.data(), given.size()};
  const std::string from = text_of(path), to = text_of(output);
  call([&] { return xyntra_compile(from.c_str(), to.c_str(), &options, names.data(), names.size()); });
}

class Session {
 public:
  // A path, or where `is_content` says so the content of a file.
  Session(const nb::bytes& source, bool is_content, const std::string& backend, int threads,
          const std::vector<std::string>& dims, std::size_t max_memory, const std::string& precision,
          const std::vector<std::string>& donated) {
    const std::vector<const char*> texts = pointers(dims), given = pointers(donated);
    const xyntra_options options{sizeof(xyntra_options), backend.c_str(), threads,
                                 texts.data(),           texts.size(),    max_memory,
                                 precision.c_str(),      given.data(),    given.size()};
    const std::string path = is_content ? std::string() : text_of(source);
    const void* content = source.c_str();  // `source` holds it while other threads go on
    const std::size_t size = source.size();
    call([&] {
      xyntra_model* model = nullptr;
      const xyntra_status status = is_content ? xyntra_load_bytes(content, size, &options, &model)
                                              : xyntra_load(path.c_str(), &options, &model);
      model_.reset(model);
      return status;
    });
  }

  std::string explain() const {
    const char* text = nullptr;
    call([&] { return xyntra_explain(model_.get(), &text); });
    return text;
  }

  nb::list inputs() const { return describe(xyntra_input_count(model_.get()), xyntra_input); }
  nb::list outputs() const { return describe(xyntra_output_count(model_.get()), xyntra_output); }

  // (input, output, axis) of every result that extends an input in place
  nb::list extensions() const {
    nb::list made;
    for (std::size_t i = 0; i < xyntra_extension_count(model_.get()); ++i) {
      xyntra_extension one = XYNTRA_INIT(xyntra_extension);
      check(xyntra_extension_at(model_.get(), i, &one));
      made.append(nb::make_tuple(one.input, one.output, one.axis));
    }
    return made;
  }

  nb::dict counts() const {
    xyntra_counts made = XYNTRA_INIT(xyntra_counts);
    check(xyntra_count(model_.get(), &made));
    nb::dict named;
    named["compiles"] = made.compiles;
    named["runs"] = made.runs;
    named["bindings"] = made.bindings;
    named["copies"] = made.copies;
    return named;
  }

  // Inputs are (name, array, ONNX's number of the dtype that the array holds the bits of, 0 where it says so itself; of strings,
  // their bytes and shape in place of the array), donated
  // ones (name, memory, number, rows in use, unchanged). Outputs are (array, number); with them, for each donated input, come
  // the rows in use now, None where it was not in place.
  nb::tuple run(const nb::list& feed, const nb::list& donated) const {
    std::vector<InputArray> arrays(feed.size());  // keep what was converted until the end of the call
    std::vector<std::string> names(feed.size());
    std::vector<std::vector<std::int64_t>> shapes(feed.size());  // of strings
    std::vector<xyntra_tensor> inputs;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      auto [name, value, number] = nb::cast<std::tuple<std::string, nb::object, int>>(feed[i]);
      names[i] = name;
      if (number == XYNTRA_STRING) {
        auto [bytes, shape] = nb::cast<std::tuple<nb::object, std::vector<std::int64_t>>>(value);
        value = bytes;
        shapes[i] = std::move(shape);
      }
      if (!nb::try_cast(value, arrays[i]))
        raise(XYNTRA_USAGE, "input '" + name + "' is no array in main memory");
      if (number == XYNTRA_STRING) {
        inputs.push_back({sizeof(xyntra_tensor), names[i].c_str(), XYNTRA_STRING, shapes[i].size(),
                          shapes[i].data(), const_cast<void*>(arrays[i].data()), arrays[i].nbytes()});
        continue;
      }
      inputs.push_back({sizeof(xyntra_tensor), names[i].c_str(), dtype_of(arrays[i].dtype(), name, number),
                        arrays[i].ndim(), arrays[i].shape_ptr(), const_cast<void*>(arrays[i].data()),
                        arrays[i].nbytes()});
    }
    std::vector<DonatedArray> memory(donated.size());
    std::vector<std::string> donated_names(donated.size());
    std::vector<xyntra_tensor> tensors(donated.size());
    std::vector<xyntra_donation> donations;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto [name, array, number, length, unchanged] =
          nb::cast<std::tuple<std::string, nb::object, int, std::int64_t, bool>>(donated[i]);
      donated_names[i] = name;
      if (!nb::try_cast(array, memory[i], false))
        raise(XYNTRA_USAGE,
              "input '" + name + "' is donated, but is no dense, writable array in main memory");
      tensors[i] = {
          sizeof(xyntra_tensor), donated_names[i].c_str(), dtype_of(memory[i].dtype(), name, number),
          memory[i].ndim(),      memory[i].shape_ptr(),    memory[i].data(),
          memory[i].nbytes()};
      donations.push_back({sizeof(xyntra_donation), &tensors[i], length, 0, unchanged ? 1 : 0});
    }
    std::shared_ptr<xyntra_result> result;
    call([&] {
      xyntra_result* made = nullptr;
      const xyntra_status status = donations.empty()
                                       ? xyntra_run(model_.get(), inputs.data(), inputs.size(), &made)
                                       : xyntra_run_donating(model_.get(), inputs.data(), inputs.size(),
                                                             donations.data(), donations.size(), &made);
      result.reset(made, ReleaseResult());
      return status;
    });
    nb::list outputs;
    for (std::size_t i = 0; i < xyntra_result_count(result.get()); ++i) {
      xyntra_tensor tensor = XYNTRA_INIT(xyntra_tensor);
      check(xyntra_result_tensor(result.get(), i, &tensor));
      outputs.append(nb::make_tuple(array_of(tensor, result), static_cast<int>(tensor.dtype)));
    }
    nb::list lengths;
    for (const xyntra_donation& one : donations)
      lengths.append(one.in_place != 0 ? nb::cast(one.length) : nb::none());
    return nb::make_tuple(outputs, lengths);
  }

 private:
  // (name, ONNX's number of the dtype, sizes: numbers, or names where they are not fixed; None where the rank is open)
  nb::list describe(std::size_t count,
                    xyntra_status (*ask)(const xyntra_model*, std::size_t, xyntra_value*)) const {
    nb::list values;
    for (std::size_t i = 0; i < count; ++i) {
      xyntra_value value = XYNTRA_INIT(xyntra_value);
      check(ask(model_.get(), i, &value));
      nb::list sizes;
      for (std::size_t d = 0; d < value.rank; ++d) {
        if (value.dims[d] >= 0) {
          sizes.append(value.dims[d]);
        } else {
          sizes.append(value.symbols[d]);
        }
      }
      values.append(nb::make_tuple(value.name, static_cast<int>(value.dtype),
                                   value.has_shape != 0 ? nb::object(sizes) : nb::object(nb::none())));
    }
    return values;
  }

  std::unique_ptr<xyntra_model, ReleaseModel> model_;
};

}  // namespace

NB_MODULE(_native, module) {
  module.def("version", [] { return std::string(xyntra_version()); });
  module.def("compile", &compile);
  nb::class_<Session>(module, "Session")
      .def(nb::init<const nb::bytes&, bool, const std::string&, int, const std::vector<std::string>&,
                    std::size_t, const std::string&, const std::vector<std::string>&>())
      .def("extensions", &Session::extensions)
      .def("counts", &Session::counts)
      .def("explain", &Session::explain)
      .def("inputs", &Session::inputs)
      .def("outputs", &Session::outputs)
      .def("run", &Session::run);
}
