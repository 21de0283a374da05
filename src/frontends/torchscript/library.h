// What a TorchScript archive holds, opened: its two pickles, its tensors, and its code, of which a file is parsed when something
// in it is first needed.
//
//   net/data.pkl          the module: objects with their attributes
//   net/constants.pkl     a tuple, CONSTANTS.c0 and so on in the code
//   net/data/0 …          storages of the former; net/constants/0 … of the latter
//   net/code/__torch__/torch/nn/modules/conv.py    the classes and functions `__torch__.torch.nn.modules.conv.…`
//   net/version           of the format
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "frontends/torchscript/archive/pickle.h"
#include "frontends/torchscript/archive/torch_archive.h"
#include "frontends/torchscript/syntax/syntax.h"
#include "frontends/torchscript/tensors.h"

namespace xyntra::torchscript {

class Library {
 public:
  explicit Library(TorchArchive archive) : archive_(std::move(archive)) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Status open();

  const Pickle& data() const { return data_; }
  const Pickle& constants() const { return constants_; }
  TensorReader& tensors_of(const Pickle& pickle) {
    return &pickle == &data_ ? *data_tensors_ : *constant_tensors_;
  }
  std::int64_t version() const { return version_; }

  // What a qualified name stands for: "__torch__.torch.nn.modules.conv.Conv2d". Nothing where the archive has no such thing.
  struct Definition {
    const SourceFile* file = nullptr;
    const ClassDef* type = nullptr;
    const FunctionDef* function = nullptr;
  };
  Result<Definition> find(std::string_view qualified);

 private:
  Result<const SourceFile*> file(std::string_view module);  // null: there is none

  TorchArchive archive_;
  std::string data_bytes_,
      constants_bytes_;  // where they are compressed: texts of the pickles are views into them
  Pickle data_, constants_;
  std::unique_ptr<TensorReader> data_tensors_, constant_tensors_;
  std::int64_t copied_bytes_ = 0;
  std::int64_t version_ = 0;
  std::map<std::string, std::unique_ptr<const SourceFile>, std::less<>> files_;
};

}  // namespace xyntra::torchscript
