// A model ready to run from several threads: what every language's binding stands on.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/model_file.h"
#include "support/counts.h"
#include "types/dim.h"
#include "types/tensor.h"

namespace xyntra {

struct SessionOptions {
  std::string backend = "cpu";
  int threads = 0;
  std::vector<std::string> dims;  // "seq=128", to count costs with
  std::string precision = "f32";  // a name of passes/precision.h
  std::int64_t max_memory = 0;  // 0: three quarters of what there is
  std::vector<std::string> donated;  // inputs that the caller may donate; "*": all that a result extends
  std::vector<std::string> inputs;  // of TorchScript: "x=f32[1, 128]", "rate=16000"
};

// An input or output that is a tensor.
struct SessionValue {
  std::string name;
  DType dtype = DType::F32;
  bool has_shape = false;
  Shape shape;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class ModelSession {
 public:
  // A model, which is compiled, or an artifact.
  static Result<std::unique_ptr<ModelSession>> load(const std::string& path, const SessionOptions& options);
  // The content of such a file, which is copied; an ONNX model has no external data then.
  static Result<std::unique_ptr<ModelSession>> load(std::span<const std::byte> content,
                                                    const SessionOptions& options);
  // A model that somebody else reads, within the budget of the options it is given.
  using ReadModule = std::function<Result<Module>(const LoadOptions&)>;
  static Result<std::unique_ptr<ModelSession>> load(const ReadModule& read, const SessionOptions& options);
  // Writes an artifact of a model. `cpus` as in ArtifactOptions; `dims` also as ranges, "seq=1..512".
  static Status compile(const std::string& path, const std::string& output, const SessionOptions& options,
                        const std::vector<std::string>& cpus);
  ~ModelSession();

  const std::vector<SessionValue>& inputs() const;
  const std::vector<SessionValue>& outputs() const;

  // How the model is cut into kernels, as `xyntra explain` prints it.
  Result<std::string> explain() const;
  // The same as one object, as `xyntra explain --json` prints it.
  Result<std::string> explain_json() const;

  // Inputs by name. Calls at the same time work in memory of their own, kept for the next call.
  Result<std::vector<Tensor>> run(std::vector<NamedTensor> inputs);

  // Results go to memory of the caller's: dtype, dims and bytes of some outputs, by name. What does not fit is an error,
  // before anything is run where the sizes follow from those of the inputs.
  struct Destination {
    std::string name;
    DType dtype = DType::F32;
    Dims dims;
    std::span<std::byte> bytes;
  };
  Status run_into(std::vector<NamedTensor> inputs, std::span<const Destination> outputs);

  // The same on a GPU's own memory: bytes of the inputs and outputs that are named are addresses of the device, and are neither read nor
  // written by the host. The run is in order with `stream`, a stream of the device's driver, and may still be on when the call returns. Unsupported
  // error on backends without a device's memory.
  struct OnDevice {
    std::vector<std::string> names;
    std::uint64_t stream = 0;
  };
  Status run_on_device(std::vector<NamedTensor> inputs, std::span<const Destination> outputs,
                       const OnDevice& on_device);

  // Results that append rows to an input, of inputs that may be donated.
  struct Extension {
    std::string input, output;
    std::size_t axis = 0;
  };
  const std::vector<Extension>& extensions() const;

  // Some inputs are donated for the time of the call: dense memory of theirs, its dims counting all rows that there is
  // room for, of which the first `length` are in use. The result that extends one is written there and comes back as a tensor of
  // all that memory; where there is no room it has memory of its own, and the donation is as it was.
  struct Donation {
    std::string name;
    DType dtype = DType::F32;
    Dims dims;
    std::span<std::byte> bytes;
    std::int64_t length = 0;  // set by the call, where it was in place: rows in use now
    bool unchanged = false;  // since the last run of this model that was given it: a device keeps its copy
    bool in_place = false;  // set by the call
  };
  Result<std::vector<Tensor>> run(std::vector<NamedTensor> inputs, std::span<Donation> donations);

  const RunCounts& counts() const;

 private:
  class State;
  explicit ModelSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xyntra
