#include <utility>

#include "support/copy_bytes.h"
#include "support/files/file.h"
#include "support/files/inflate.h"
#include "support/files/stored_zip.h"
#include "support/text/text.h"
#include "types/npy/npy.h"
#include "types/npy/npy_header.h"
#include "types/npy/npy_strings.h"

namespace xyntra {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kAlignment = 64;  // of NumPy's headers, too: arrays can be mapped
constexpr std::size_t kMostEntries = 10'000, kLongestName = 1024;  // of archives that are written

std::uint64_t size_of(const ZipEntry& entry) { return entry.unpacked.value_or(entry.bytes.size()); }

Status check_sizes(std::span<const ZipEntry> entries, std::int64_t archive_size, const NpzLimits& limits) {
  std::int64_t total = 0;
  for (const ZipEntry& entry : entries) {
    if (std::cmp_greater(size_of(entry), limits.total_bytes - total)) {
      return limit_error("the .npz archive unpacks to more than " + human_bytes(limits.total_bytes));
    }
    total += static_cast<std::int64_t>(size_of(entry));
  }
  if (total > limits.ratio_free_bytes && total / limits.ratio > archive_size) {
    return limit_error("the .npz archive of " + human_bytes(archive_size) + " unpacks to " +
                       human_bytes(total) + ", more than " + std::to_string(limits.ratio) +
                       " times its size");
  }
  return {};
}

// The memory is lazy, so a declared size costs nothing until that many bytes have really come.
Result<Tensor> read_array(const ZipEntry& entry, const NpyOptions& options) {
  XYNTRA_TRY(Tensor file,
             Tensor::allocate(DType::U8, {static_cast<std::int64_t>(size_of(entry))}, options.budget));
  if (entry.unpacked) {
    XYNTRA_TRY(const std::string unpacked, inflate(entry.bytes, static_cast<std::size_t>(*entry.unpacked)));
    copy_bytes(std::as_bytes(std::span(unpacked)), file.mutable_bytes());
  } else {
    copy_bytes(entry.bytes, file.mutable_bytes());
  }
  if (crc32(file.bytes()) != entry.checksum) return bad_model("its checksum is not what the archive says");
  const auto owner = std::make_shared<Tensor>(file);
  return read_npy(owner->bytes(), owner, options);
}

}  // namespace

Result<std::map<std::string, Tensor>> read_npz(std::span<const std::byte> bytes,
                                               const std::map<std::string, DType>& expected,
                                               const std::shared_ptr<Budget>& budget,
                                               const NpzLimits& limits) {
  XYNTRA_TRY(const std::vector<ZipEntry> entries, read_stored_zip(bytes, ZipMethods::StoredAndDeflated));
  if (std::cmp_greater(entries.size(), limits.entries)) {
    return limit_error("the .npz archive has " + std::to_string(entries.size()) + " entries; at most " +
                       std::to_string(limits.entries) + " are read");
  }
  XYNTRA_CHECK_OK(check_sizes(entries, static_cast<std::int64_t>(bytes.size()), limits));

  std::map<std::string, Tensor> tensors;
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(kSuffix))
      return bad_model("entry '" + entry.name + "' of the .npz archive is not a .npy file");
    if (budget) XYNTRA_CHECK_OK(budget->check_time());
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    NpyOptions options;
    options.budget = budget;
    if (const auto known = expected.find(name); known != expected.end()) options.expected = known->second;
    auto tensor = read_array(entry, options);
    if (!tensor) {
      tensor.error().message = "entry '" + name + "': " + tensor.error().message;
      return failure(std::move(tensor).error());
    }
    tensors.emplace(name, std::move(*tensor));
  }
  return tensors;
}

Result<std::map<std::string, Tensor>> read_npz_file(const std::string& path,
                                                    const std::map<std::string, DType>& expected,
                                                    const std::shared_ptr<Budget>& budget,
                                                    const NpzLimits& limits) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  auto tensors = read_npz(file->bytes(), expected, budget, limits);
  if (!tensors) return failure(std::move(tensors).error().in_file(path));
  return tensors;
}

Status write_npz_file(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  if (tensors.size() > kMostEntries)
    return limit_error("a .npz archive has at most " + std::to_string(kMostEntries) + " entries");
  std::vector<std::string> contents;
  std::vector<ZipPart> parts;
  contents.reserve(tensors.size());  // parts refer to them
  for (const auto& [name, tensor] : tensors) {
    const std::string entry = name + std::string(kSuffix);
    if (entry.size() > kLongestName) {
      return usage_error("the name of an entry of a .npz archive has at most " +
                         std::to_string(kLongestName) + " bytes; one has " + std::to_string(entry.size()));
    }
    if (is_string(tensor.dtype())) {
      XYNTRA_TRY(std::string file, npy_bytes_of_strings(tensor));
      contents.push_back(std::move(file));
    } else {
      contents.push_back(npy_bytes(tensor));
    }
    parts.push_back({entry, {std::as_bytes(std::span(contents.back()))}});
  }
  return write_stored_zip(path, parts, kAlignment);
}

}  // namespace xyntra
