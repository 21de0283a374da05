// xyntra._native: the C ABI for Python. What is said here is wrapped by xyntra/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <xyntra/xyntra.h>

#include <algorithm>
#include <array>
#include <cstring>
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
             const std::string& precision, const std::vector<std::string>& donated,
             const std::vector<std::string>& inputs) {
  const std::vector<const char*> names = pointers(cpus), texts = pointers(dims), given = pointers(donated),
                                 known = pointers(inputs);
  const xyntra_options options{sizeof(xyntra_options), "cpu",        threads,           texts.data(),
                               texts.size(),           max_memory,   precision.c_str(), given.data(),
                               given.size(),           known.data(), known.size()};
  const std::string from = text_of(path), to = text_of(output);
  call([&] { return xyntra_compile(from.c_str(), to.c_str(), &options, names.data(), names.size()); });
}

class Session {
 public:
  // A path, or where `is_content` says so the content of a file.
  Session(const nb::bytes& source, bool is_content, const std::string& backend, int threads,
          const std::vector<std::string>& dims, std::size_t max_memory, const std::string& precision,
          const std::vector<std::string>& donated, const std::vector<std::string>& inputs) {
    const std::vector<const char*> texts = pointers(dims), given = pointers(donated),
                                   known = pointers(inputs);
    const xyntra_options options{sizeof(xyntra_options), backend.c_str(), threads,           texts.data(),
                                 texts.size(),           max_memory,      precision.c_str(), given.data(),
                                 given.size(),           known.data(),    known.size()};
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

  // A graph as archives of torch.export hold it, with its constants: name, ONNX's number of the dtype, dims and address of each. Whoever calls
  // keeps their memory.
  using Constant = std::tuple<std::string, int, std::vector<std::int64_t>, std::size_t>;
  Session(const nb::bytes& json, const std::vector<Constant>& constants, const std::string& backend,
          int threads, const std::vector<std::string>& dims, std::size_t max_memory,
          const std::string& precision) {
    const std::vector<const char*> texts = pointers(dims);
    const xyntra_options options{sizeof(xyntra_options),
                                 backend.c_str(),
                                 threads,
                                 texts.data(),
                                 texts.size(),
                                 max_memory,
                                 precision.c_str(),
                                 nullptr,
                                 0,
                                 nullptr,
                                 0};
    const std::vector<xyntra_tensor> tensors = tensors_of(constants);
    const char* text = json.c_str();
    const std::size_t size = json.size();
    call([&] {
      xyntra_model* model = nullptr;
      const xyntra_status status =
          xyntra_load_graph(text, size, tensors.data(), tensors.size(), &options, &model);
      model_.reset(model);
      return status;
    });
  }

  static std::vector<xyntra_tensor> tensors_of(const std::vector<Constant>& constants) {
    std::vector<xyntra_tensor> tensors;
    for (const auto& [name, dtype, dims, address] : constants) {
      tensors.push_back({sizeof(xyntra_tensor), name.c_str(), static_cast<xyntra_dtype>(dtype), dims.size(),
                         dims.data(), memory_at(address), bytes_of(dtype, dims)});
    }
    return tensors;
  }

  std::string explain() const { return explained(xyntra_explain); }
  std::string explain_json() const { return explained(xyntra_explain_json); }

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
    const Inputs inputs(feed);
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
      const xyntra_status status =
          donations.empty() ? xyntra_run(model_.get(), inputs.tensors.data(), inputs.tensors.size(), &made)
                            : xyntra_run_donating(model_.get(), inputs.tensors.data(), inputs.tensors.size(),
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

  // The same with results written to arrays: (name, array, number) as for inputs.
  void run_into_arrays(const nb::list& feed, const nb::list& results) const {
    const Inputs inputs(feed);
    std::vector<DonatedArray> memory(results.size());
    std::vector<std::string> names(results.size());
    std::vector<xyntra_tensor> tensors;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto [name, array, number] = nb::cast<std::tuple<std::string, nb::object, int>>(results[i]);
      names[i] = name;
      if (!nb::try_cast(array, memory[i], false))
        raise(XYNTRA_USAGE, "output '" + name + "' is bound to no dense, writable array in main memory");
      tensors.push_back({sizeof(xyntra_tensor), names[i].c_str(), dtype_of(memory[i].dtype(), name, number),
                         memory[i].ndim(), memory[i].shape_ptr(), memory[i].data(), memory[i].nbytes()});
    }
    call([&] {
      return xyntra_run_into(model_.get(), inputs.tensors.data(), inputs.tensors.size(), tensors.data(),
                             tensors.size());
    });
  }

  // Tensors by name, dtype, address and dims; those that are named lie on the device.
  using Located = std::tuple<std::string, int, std::size_t, std::vector<std::int64_t>>;
  void run_on_device(const std::vector<Located>& inputs, const std::vector<Located>& outputs,
                     const std::vector<std::string>& names, std::size_t stream) const {
    const auto tensors_at = [](const std::vector<Located>& all) {
      std::vector<xyntra_tensor> tensors;
      for (const auto& [name, number, address, dims] : all) {
        const auto dtype = static_cast<xyntra_dtype>(number);
        tensors.push_back({sizeof(xyntra_tensor), name.c_str(), dtype, dims.size(), dims.data(),
                           memory_at(address), bytes_of(dtype, dims)});
      }
      return tensors;
    };
    const std::vector<xyntra_tensor> given = tensors_at(inputs), made = tensors_at(outputs);
    const std::vector<const char*> texts = pointers(names);
    const xyntra_on_device there{sizeof(xyntra_on_device), texts.data(), texts.size(), memory_at(stream)};
    call([&] {
      return xyntra_run_on_device(model_.get(), given.data(), given.size(), made.data(), made.size(), &there);
    });
  }

  // Runs on memory by address, inputs and outputs in the order and of the dtypes that a Runner knows; nothing is copied or allocated here. Those that are
  // named lie on the device, and the run is in order with the stream.
  struct Place {
    std::string name;
    xyntra_dtype dtype;
  };
  void run_into(const std::vector<Place>& inputs, const std::vector<Place>& outputs,
                const std::vector<std::size_t>& input_addresses, const nb::list& input_dims,
                const std::vector<std::size_t>& output_addresses, const nb::list& output_dims,
                const std::vector<const char*>& on_device, std::size_t stream) const {
    Tensors given(inputs, input_addresses, input_dims), made(outputs, output_addresses, output_dims);
    const xyntra_on_device there{sizeof(xyntra_on_device), on_device.data(), on_device.size(),
                                 memory_at(stream)};
    call([&] {
      if (!on_device.empty()) {
        return xyntra_run_on_device(model_.get(), given.tensors.data(), given.tensors.size(),
                                    made.tensors.data(), made.tensors.size(), &there);
      }
      return xyntra_run_into(model_.get(), given.tensors.data(), given.tensors.size(), made.tensors.data(),
                             made.tensors.size());
    });
  }

 private:
  // What run() is given, as tensors over the memory of arrays.
  struct Inputs {
    explicit Inputs(const nb::list& feed) : arrays(feed.size()), names(feed.size()), shapes(feed.size()) {
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
          tensors.push_back({sizeof(xyntra_tensor), names[i].c_str(), XYNTRA_STRING, shapes[i].size(),
                             shapes[i].data(), const_cast<void*>(arrays[i].data()), arrays[i].nbytes()});
          continue;
        }
        tensors.push_back({sizeof(xyntra_tensor), names[i].c_str(), dtype_of(arrays[i].dtype(), name, number),
                           arrays[i].ndim(), arrays[i].shape_ptr(), const_cast<void*>(arrays[i].data()),
                           arrays[i].nbytes()});
      }
    }
    std::vector<InputArray> arrays;  // keep what was converted until the end of the call
    std::vector<std::string> names;
    std::vector<std::vector<std::int64_t>> shapes;  // of strings
    std::vector<xyntra_tensor> tensors;
  };

  // Tensors at addresses, with their dims one behind the other.
  struct Tensors {
    Tensors(const std::vector<Place>& places, const std::vector<std::size_t>& addresses,
            const nb::list& shapes) {
      if (addresses.size() != places.size() || shapes.size() != places.size())
        raise(XYNTRA_USAGE, "there are " + std::to_string(places.size()) + " tensors, not " +
                                std::to_string(addresses.size()));
      std::vector<std::size_t> begins;
      for (const nb::handle shape : shapes) {
        begins.push_back(dims.size());
        for (const nb::handle size : shape) dims.push_back(nb::cast<std::int64_t>(size));
      }
      begins.push_back(dims.size());
      for (std::size_t i = 0; i < places.size(); ++i) {
        const std::size_t rank = begins[i + 1] - begins[i];
        const std::int64_t* first = dims.data() + begins[i];
        tensors.push_back({sizeof(xyntra_tensor), places[i].name.c_str(), places[i].dtype, rank, first,
                           memory_at(addresses[i]), bytes_of(places[i].dtype, {first, first + rank})});
      }
    }
    std::vector<std::int64_t> dims;
    std::vector<xyntra_tensor> tensors;
  };

  static void* memory_at(std::size_t address) { return reinterpret_cast<void*>(address); }

  static std::size_t bytes_of(int dtype, const std::vector<std::int64_t>& dims) {
    const auto* row =
        std::ranges::find(kDTypes, dtype, [](const DTypeRow& one) { return static_cast<int>(one.dtype); });
    std::size_t bytes = row == kDTypes.end() ? 1 : row->bits / 8;  // what is missing there has one byte
    for (const std::int64_t size : dims) bytes *= static_cast<std::size_t>(size);
    return bytes;
  }

  template <class Explain>
  std::string explained(Explain function) const {
    const char* text = nullptr;
    call([&] { return function(model_.get(), &text); });
    return text;
  }

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

// What a session is called with, in order: dtypes, names and which of them lie on a device said once, and not at every call.
class Runner {
 public:
  using Given = std::vector<std::tuple<std::string, int>>;
  Runner(const Session& session, const Given& inputs, const Given& outputs,
         const std::vector<std::string>& on_device)
      : session_(session),
        inputs_(places(inputs)),
        outputs_(places(outputs)),
        on_device_(on_device),
        names_(pointers(on_device_)) {}

  void run(const std::vector<std::size_t>& input_addresses, const nb::list& input_dims,
           const std::vector<std::size_t>& output_addresses, const nb::list& output_dims,
           std::size_t stream) const {
    session_.run_into(inputs_, outputs_, input_addresses, input_dims, output_addresses, output_dims, names_,
                      stream);
  }

 private:
  static std::vector<Session::Place> places(const Given& given) {
    std::vector<Session::Place> made;
    for (const auto& [name, dtype] : given) made.push_back({name, static_cast<xyntra_dtype>(dtype)});
    return made;
  }

  const Session& session_;
  std::vector<Session::Place> inputs_, outputs_;
  std::vector<std::string> on_device_;
  std::vector<const char*> names_;  // of those
};

// Elements of tensors that are constants elsewhere, remembered so that a change of one shows. Whoever makes it keeps the memory.
class Samples {
 public:
  // Of each tensor: addresses of elements, and the size of one.
  explicit Samples(const std::vector<std::tuple<std::vector<std::size_t>, std::size_t>>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (const std::size_t address : std::get<0>(tensors[i])) {
        Element element{i, address, std::min(std::get<1>(tensors[i]), sizeof(std::uint64_t)), 0};
        element.seen = element.now();
        elements_.push_back(element);
      }
    }
  }
  bool changed() const {
    return std::ranges::any_of(elements_, [](const Element& one) { return one.now() != one.seen; });
  }
  std::vector<std::size_t> changed_tensors() const {
    std::vector<std::size_t> found;
    for (const Element& one : elements_) {
      if (one.now() != one.seen && (found.empty() || found.back() != one.tensor)) found.push_back(one.tensor);
    }
    return found;
  }

 private:
  struct Element {
    std::size_t tensor, address, bytes;
    std::uint64_t seen;
    std::uint64_t now() const {
      std::uint64_t bits = 0;
      std::memcpy(&bits, reinterpret_cast<const void*>(address), bytes);
      return bits;
    }
  };
  std::vector<Element> elements_;
};

void check_graph(const nb::bytes& json, const std::vector<Session::Constant>& constants) {
  const std::vector<xyntra_tensor> tensors = Session::tensors_of(constants);
  check(xyntra_check_graph(json.c_str(), json.size(), tensors.data(), tensors.size()));
}

}  // namespace

NB_MODULE(_native, module) {
  nb::set_leak_warnings(false);  // compiled functions of torch live until the interpreter is gone
  module.def("version", [] { return std::string(xyntra_version()); });
  module.def("compile", &compile);
  nb::class_<Session>(module, "Session")
      .def(nb::init<const nb::bytes&, bool, const std::string&, int, const std::vector<std::string>&,
                    std::size_t, const std::string&, const std::vector<std::string>&,
                    const std::vector<std::string>&>())
      .def(nb::init<const nb::bytes&, const std::vector<Session::Constant>&, const std::string&, int,
                    const std::vector<std::string>&, std::size_t, const std::string&>())
      .def("extensions", &Session::extensions)
      .def("counts", &Session::counts)
      .def("explain", &Session::explain)
      .def("explain_json", &Session::explain_json)
      .def("inputs", &Session::inputs)
      .def("outputs", &Session::outputs)
      .def("run", &Session::run)
      .def("run_into_arrays", &Session::run_into_arrays)
      .def("run_on_device", &Session::run_on_device);
  nb::class_<Runner>(module, "Runner")
      .def(nb::init<const Session&, const Runner::Given&, const Runner::Given&,
                    const std::vector<std::string>&>(),
           nb::keep_alive<1, 2>())
      .def("__call__", &Runner::run);
  nb::class_<Samples>(module, "Samples")
      .def(nb::init<const std::vector<std::tuple<std::vector<std::size_t>, std::size_t>>&>())
      .def("changed", &Samples::changed)
      .def("changed_tensors", &Samples::changed_tensors);
  module.def("check_graph", &check_graph);
  module.def("operators", [] {
    std::vector<std::string> schemas;
    for (std::size_t i = 0; i < xyntra_operator_count(); ++i) schemas.emplace_back(xyntra_operator(i));
    return schemas;
  });
}
