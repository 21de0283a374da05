#include "frontends/pt2/import.h"

#include <map>

#include "frontends/pt2/exported_program.h"
#include "frontends/pt2/json_reader.h"
#include "frontends/strided_tensor.h"
#include "support/files/file.h"
#include "support/files/stored_zip.h"

namespace xyntra {
namespace {

using Entries = std::map<std::string, std::span<const std::byte>, std::less<>>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// By their names beneath the folder that all of them are in.
Result<Entries> entries_of(std::span<const std::byte> bytes) {
  XYNTRA_TRY(const std::vector<ZipEntry> listed, read_stored_zip(bytes));
  Entries entries;
  std::string root;
  for (const ZipEntry& entry : listed) {
    const std::size_t slash = entry.name.find('/');
    const std::string folder = slash == std::string::npos ? "" : entry.name.substr(0, slash + 1);
    if (entries.empty()) root = folder;
    if (folder != root || entry.name.find("..") != std::string::npos)
      return bad_model("the archive is no .pt2: entry '" + entry.name.substr(0, 120) +
                       "' is not in its one folder");
    if (!entries.emplace(entry.name.substr(folder.size()), entry.bytes).second)
      return bad_model("the archive has two entries '" + entry.name.substr(0, 120) + "'");
  }
  return entries;
}

Result<std::string> model_name(const Entries& entries) {
  constexpr std::string_view kFolder = "models/", kEnding = ".json";
  std::vector<std::string> names;
  for (const auto& [path, bytes] : entries) {
    if (path.starts_with(kFolder) && path.ends_with(kEnding))
      names.push_back(path.substr(kFolder.size(), path.size() - kFolder.size() - kEnding.size()));
  }
  if (names.size() == 1) return names[0];
  for (const std::string& name : names) {
    if (name == "model") return name;
  }
  if (!names.empty())
    return unsupported("an archive of " + std::to_string(names.size()) +
                       " models, none of which is called 'model'");
  if (entries.contains("serialized_exported_program.json") || entries.contains("serialized_state_dict.pt")) {
    return failure(unsupported("an archive of torch 2.8 or older, whose weights are pickled")
                       .value()
                       .with_hint("load it with torch.export.load and save it again with a newer torch"));
  }
  for (const auto& [path, bytes] : entries) {
    if (path.starts_with("data/aotinductor/"))
      return unsupported("an archive of AOTInductor, which holds machine code and no graph");
  }
  return bad_model("the archive holds no models/*.json: it was not written by torch.export.save");
}

struct Payload {
  std::string path;
  bool pickled = false;
  std::int64_t scalar_type = 0;
  StridedView view;
  bool has_meta = false;
  bool strided = true;
};
using Payloads = std::map<std::string, Payload, std::less<>>;

std::int64_t read_size(pt2::JsonReader& reader) {
  std::int64_t size = -1;
  reader.object([&](std::string_view key) {
    if (key == "as_int")
      size = reader.integer();
    else
      reader.fail("a weight with an open size");
  });
  return size;
}

void read_meta(pt2::JsonReader& reader, Payload& payload) {
  payload.has_meta = true;
  reader.object([&](std::string_view key) {
    if (key == "dtype")
      payload.scalar_type = reader.integer();
    else if (key == "sizes")
      reader.array([&] { payload.view.sizes.push_back(read_size(reader)); });
    else if (key == "strides")
      reader.array([&] { payload.view.strides.push_back(read_size(reader)); });
    else if (key == "storage_offset")
      payload.view.offset = read_size(reader);
    else if (key == "layout")
      payload.strided = reader.integer() == 7;
    else
      reader.skip();
  });
}

// data/weights/model_weights_config.json and its like: where each tensor lies.
Status read_payloads(std::string_view text, const std::string& folder, Payloads& payloads) {
  pt2::JsonReader reader(text);
  reader.object([&](std::string_view key) {
    if (key != "config") return reader.skip();
    reader.object([&](std::string_view name) {
      Payload payload;
      reader.object([&](std::string_view part) {
        if (part == "path_name")
          payload.path = folder + reader.text();
        else if (part == "use_pickle")
          payload.pickled = reader.truth();
        else if (part == "tensor_meta" && !reader.null())
          read_meta(reader, payload);
        else if (part != "tensor_meta")
          reader.skip();
      });
      if (!payloads.emplace(std::string(name), std::move(payload)).second)
        reader.fail("two tensors of one name");
    });
  });
  return reader.at_end();
}

Result<Tensor> read_payload(const Payload& payload, const Entries& entries,
                            const std::shared_ptr<const void>& owner) {
  if (payload.pickled || !payload.has_meta)
    return unsupported(
        "it is pickled, and nothing pickled is read: tensor subclasses and custom objects are stored this "
        "way");
  if (!payload.strided) return unsupported("a tensor that is not strided");
  const auto entry = entries.find(payload.path);
  if (entry == entries.end())
    return bad_model("the archive has no entry '" + payload.path.substr(0, 120) + "'");
  StridedView view = payload.view;
  XYNTRA_TRY(view.dtype, pt2::dtype_of_scalar_type(payload.scalar_type));
  return strided_tensor(view, entry->second, owner);
}

Result<Module> import_archive(std::span<const std::byte> bytes, const aten::ImportOptions& options,
                              const std::shared_ptr<const void>& owner) {
  XYNTRA_TRY(const Entries entries, entries_of(bytes));
  XYNTRA_TRY(const std::string name, model_name(entries));
  if (const auto order = entries.find("byteorder");
      order != entries.end() && text_of(order->second) != "little")
    return unsupported("an archive of a big-endian machine");
  Payloads payloads;
  for (const char* kind : {"weights", "constants"}) {
    const std::string folder = std::string("data/") + kind + "/";
    const auto config = entries.find(folder + name + "_" + kind + "_config.json");
    if (config == entries.end()) continue;
    Status read = read_payloads(text_of(config->second), folder, payloads);
    if (!read) {
      read.error().message = config->first + ": " + read.error().message;
      return failure(std::move(read).error());
    }
  }
  const TensorLookup lookup = [&](const std::string& wanted) -> Result<Tensor> {
    const auto payload = payloads.find(wanted);
    if (payload == payloads.end()) return bad_model("the archive has no tensor of this name");
    return read_payload(payload->second, entries, owner);
  };
  return import_exported_json(text_of(entries.find("models/" + name + ".json")->second), lookup, options);
}

}  // namespace

Result<Module> import_exported_json(std::string_view text, const TensorLookup& lookup,
                                    const aten::ImportOptions& options) {
  XYNTRA_TRY(const aten::Program program, pt2::read_exported_program(text, lookup));
  return aten::import_program(program, options);
}

Result<Module> import_pt2(const std::string& path, const aten::ImportOptions& options) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  auto module = import_archive(file->bytes(), options, file);
  if (!module) return failure(std::move(module).error().in_file(path));
  return module;
}

Result<Module> import_pt2(std::span<const std::byte> bytes, const aten::ImportOptions& options,
                          std::shared_ptr<const void> owner) {
  return import_archive(bytes, options, owner);
}

}  // namespace xyntra
