#include "package/known_hashes.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "support/files/byte_stream.h"
#include "support/files/file.h"

namespace xyntra {
namespace {

std::string key_of(const FileVersion& version) {
  std::string key = "xyntra hashes of weights 1\n";
  for (const std::uint64_t number :
       {version.device, version.inode, version.bytes, static_cast<std::uint64_t>(version.modified_ns),
        static_cast<std::uint64_t>(version.changed_ns)})
    key += std::to_string(number) + "\n";
  return key;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A tensor within its file: where it begins and what it is.
std::string name_of(const MappedFile::Place& place, const Tensor& tensor) {
  std::string name = std::to_string(place.offset) + " " + std::string(xyntra::name_of(tensor.dtype()));
  for (const std::int64_t size : tensor.dims()) name += " " + std::to_string(size);
  return name;
}

struct InFile {
  MappedFile::Place place;
  const Tensor* tensor = nullptr;
};
// The weights of a graph that lie in files, by the key of these.
std::map<std::string, std::vector<InFile>> by_file(const Graph& graph) {
  std::map<std::string, std::vector<InFile>> files;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor& constant = graph.value(ValueId(i)).constant;
    if (!constant.defined() || constant.count() <= kInlineElements) continue;
    if (auto place = MappedFile::place_of(constant.bytes())) {
      std::string key = key_of(place->version);
      files[std::move(key)].push_back({std::move(*place), &constant});
    }
  }
  return files;
}

Result<std::map<std::string, std::string>> read(std::span<const std::byte> entry) {
  ByteReader reader(entry, "hashes of weights");
  XYNTRA_TRY(const std::size_t count, reader.count());
  std::map<std::string, std::string> hashes;
  for (std::size_t i = 0; i < count; ++i) {
    XYNTRA_TRY(std::string name, reader.text());
    XYNTRA_TRY(hashes[std::move(name)], reader.text());
  }
  XYNTRA_CHECK_OK(reader.end());
  return hashes;
}

}  // namespace

void KnownHashes::give(const Graph& graph, HashCache& hashes) {
  began_ns_ = now_ns();
  for (const auto& [key, weights] : by_file(graph)) {
    const auto entry = cache_.find(key);
    const auto known = entry ? read(*entry) : Result<std::map<std::string, std::string>>();
    for (const InFile& weight : weights) {
      const auto found = known ? known->find(name_of(weight.place, *weight.tensor))
                               : std::map<std::string, std::string>::const_iterator();
      if (known && found != known->end()) {
        hashes.add(*weight.tensor, found->second);
      } else {
        all_known_ = false;
      }
    }
  }
}

void KnownHashes::keep(const Graph& graph, HashCache& hashes) const {
  if (all_known_) return;
  for (const auto& [key, weights] : by_file(graph)) {
    const MappedFile::Place& place = weights.front().place;
    const std::int64_t changed = std::max(place.version.modified_ns, place.version.changed_ns);
    if (began_ns_ - changed <= settled_ns_ || version_of(place.path) != place.version) continue;
    ByteWriter writer;
    writer.number(weights.size());
    for (const InFile& weight : weights) {
      writer.text(name_of(weight.place, *weight.tensor));
      writer.text(hashes.of(*weight.tensor));
    }
    cache_.put(key, writer.bytes);
  }
}

}  // namespace xyntra
