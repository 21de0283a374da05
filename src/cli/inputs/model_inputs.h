// Models as verbs read them: with what the command line says of inputs where the file does not. TorchScript says neither shapes nor dtypes, and has
// parameters that are numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flags/flags.h"
#include "ir/graph.h"
#include "support/limits/limits.h"

namespace xyntra {

struct ModelInputFlags {
  std::vector<std::string> shapes;  // "x=1x128"
  std::vector<std::string> dtypes;  // "x=i64"
  std::vector<std::string> values;  // "rate=16000"
};

// --dtype and --value; `with_shape`: --shape, too, for verbs that have none of their own.
void declare_model_inputs(Flags& syntax, ModelInputFlags& flags, bool with_shape = true);

struct ModelReading {
  bool strict = false;
  bool keep_undefined_ops = false;
  std::vector<std::string> files = {};  // inputs of a run: "x=x.npy", whose headers say a shape and a dtype
  bool shapes_of_run = false;  // --shape means something for models of every kind
};
Result<Module> read_model(const std::string& path, const ModelInputFlags& flags,
                          const std::shared_ptr<Budget>& budget, const ModelReading& reading = {});

}  // namespace xyntra
