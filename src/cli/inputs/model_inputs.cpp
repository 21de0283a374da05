#include "cli/inputs/model_inputs.h"

#include <algorithm>

#include "compiler/model_file.h"
#include "support/text/text.h"
#include "types/npy/npy.h"

namespace xyntra {
namespace {

void add_tensor(std::vector<InputHint>& hints, const std::string& name, const Tensor& tensor) {
  InputHint& hint = name.empty() ? hints.emplace_back() : hint_of(hints, name);
  hint.shape = shape_of(tensor.dims());
  if (!hint.dtype) hint.dtype = tensor.dtype();
}

Status add_file(std::vector<InputHint>& hints, const std::string& text) {
  if (text.ends_with(".npz")) {
    XYNTRA_TRY(const auto tensors, read_npz_file(text));
    for (const auto& [name, tensor] : tensors) add_tensor(hints, name, tensor);
    return {};
  }
  const std::size_t at = text.find('=');
  const std::string name = at == std::string::npos ? "" : text.substr(0, at);
  const std::string path = at == std::string::npos ? text : text.substr(at + 1);
  if (!path.ends_with(".npy")) return {};  // a .pb, or what is no input file: said when it is read
  NpyOptions options;
  const auto known = std::ranges::find(hints, name, &InputHint::name);
  if (!name.empty() && known != hints.end()) options.expected = known->dtype;
  XYNTRA_TRY(const Tensor tensor, read_npy_file(path, options));
  add_tensor(hints, name, tensor);
  return {};
}

}  // namespace

void declare_model_inputs(Flags& syntax, ModelInputFlags& flags, bool with_shape) {
  if (with_shape) {
    syntax.push_back(
        {"--shape", &flags.shapes,
         "INPUT=SIZES of an input of a TorchScript file, which says none, such as x=1x128; repeatable",
         "SHAPE"});
  }
  syntax.push_back({"--dtype", &flags.dtypes,
                    "INPUT=DTYPE of an input of a TorchScript file, such as ids=i64; else f32, or that of "
                    "its file; repeatable",
                    "DTYPE"});
  syntax.push_back(
      {"--value", &flags.values,
       "INPUT=VALUE of a parameter of a TorchScript file that is no tensor, such as rate=16000; repeatable",
       "VALUE"});
}

Result<Module> read_model(const std::string& path, const ModelInputFlags& flags,
                          const std::shared_ptr<Budget>& budget, const ModelReading& reading) {
  LoadOptions options;
  options.strict = reading.strict;
  options.keep_undefined_ops = reading.keep_undefined_ops;
  options.budget = budget;
  if (!is_torchscript(path)) {
    const char* flag = !flags.dtypes.empty()                             ? "--dtype"
                       : !flags.values.empty()                           ? "--value"
                       : !flags.shapes.empty() && !reading.shapes_of_run ? "--shape"
                                                                         : nullptr;
    if (flag != nullptr)
      return usage_error(std::string(flag) +
                         " is for TorchScript files, which do not say what their inputs are; this one does");
    return load_model(path, options);
  }
  for (const std::string& text : flags.shapes) XYNTRA_CHECK_OK(add_shape(options.inputs, text, "--shape "));
  for (const std::string& text : flags.dtypes) XYNTRA_CHECK_OK(add_dtype(options.inputs, text, "--dtype "));
  for (const std::string& text : flags.values) XYNTRA_CHECK_OK(add_value(options.inputs, text, "--value "));
  for (const std::string& text : reading.files) XYNTRA_CHECK_OK(add_file(options.inputs, text));
  return load_model(path, options);
}

}  // namespace xyntra
