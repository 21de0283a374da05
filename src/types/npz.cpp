#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "support/file.h"
#include "support/text.h"
#include "types/npy.h"
#include "types/npy_header.h"
#include "types/npy_strings.h"

namespace xyntra {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kEmptyArchive("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);

// Written into every entry, so that the bytes of an archive depend on its content alone: 1980-01-01, 12:00.
constexpr zip_uint16_t kDosTime = 12 << 11;
constexpr zip_uint16_t kDosDate = 1 << 5 | 1;

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

std::string take_message(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Result<Archive> open_archive(std::span<const std::byte> bytes) {
  // libzip takes nothing at all for an archive without entries.
  if (bytes.size() < kEmptyArchive.size()) return bad_model("not a .npz archive: it is too short");
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) return bad_model("cannot read the .npz archive: " + take_message(error));
  Archive archive(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (!archive) {
    zip_source_free(source);
    return bad_model("cannot read the .npz archive: " + take_message(error));
  }
  zip_error_fini(&error);
  return archive;
}

// Fills `target` from the entry as far as it goes.
std::size_t read_entry(zip_file_t* entry, std::span<std::byte> target) {
  std::size_t filled = 0;
  while (filled < target.size()) {
    const std::span<std::byte> rest = target.subspan(filled);
    const zip_int64_t count = zip_fread(entry, rest.data(), rest.size());
    if (count <= 0) break;
    filled += static_cast<std::size_t>(count);
  }
  return filled;
}

struct EntryInfo {
  zip_uint64_t index;
  std::string name;
  std::int64_t size;
};

Result<EntryInfo> describe(zip_t* archive, zip_uint64_t index) {
  zip_stat_t status;
  zip_stat_init(&status);
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive, index, 0, &status) != 0 || (status.valid & kNeeded) != kNeeded) {
    return bad_model("entry " + std::to_string(index) + " of the .npz archive cannot be read");
  }
  const std::string name = status.name;
  if (status.encryption_method != ZIP_EM_NONE) return unsupported("entry '" + name + "' is encrypted");
  if (!name.ends_with(kSuffix))
    return bad_model("entry '" + name + "' of the .npz archive is not a .npy file");
  if (status.size > static_cast<zip_uint64_t>(INT64_MAX))
    return limit_error("entry '" + name + "' is too large");
  return EntryInfo{index, name.substr(0, name.size() - kSuffix.size()),
                   static_cast<std::int64_t>(status.size)};
}

Status check_sizes(std::span<const EntryInfo> entries, std::int64_t archive_size, const NpzLimits& limits) {
  std::int64_t total = 0;
  for (const EntryInfo& entry : entries) {
    if (entry.size > limits.total_bytes - total) {
      return limit_error("the .npz archive unpacks to more than " + human_bytes(limits.total_bytes));
    }
    total += entry.size;
  }
  if (total > limits.ratio_free_bytes && total / limits.ratio > archive_size) {
    return limit_error("the .npz archive of " + human_bytes(archive_size) + " unpacks to " +
                       human_bytes(total) + ", more than " + std::to_string(limits.ratio) +
                       " times its size");
  }
  return {};
}

// The memory is lazy, so a declared size costs nothing until that many bytes have really come.
Result<Tensor> read_array(zip_t* archive, const EntryInfo& info, const NpyOptions& options) {
  const Entry entry(zip_fopen_index(archive, info.index, 0));
  if (!entry) return bad_model("cannot be opened: " + std::string(zip_strerror(archive)));
  XYNTRA_TRY(Tensor file, Tensor::allocate(DType::U8, {info.size}, options.budget));
  const std::size_t size = read_entry(entry.get(), file.mutable_bytes());
  std::byte more{};
  if (std::cmp_not_equal(size, info.size) || zip_fread(entry.get(), &more, 1) != 0) {
    return bad_model("its size or checksum is not what the archive says");
  }
  const auto owner = std::make_shared<Tensor>(file);
  return read_npy(owner->bytes(), owner, options);
}

Status add_entry(zip_t* archive, const std::string& name, const std::string& content) {
  zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
  if (source == nullptr)
    return limit_error("cannot write the .npz archive: " + std::string(zip_strerror(archive)));
  const zip_int64_t index =
      zip_file_add(archive, (name + std::string(kSuffix)).c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    return usage_error("cannot add '" + name + "' to the .npz archive: " + zip_strerror(archive));
  }
  const auto at = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, at, kDosTime, kDosDate, 0) != 0) {
    return usage_error("cannot add '" + name + "' to the .npz archive: " + zip_strerror(archive));
  }
  return {};
}

}  // namespace

Result<std::map<std::string, Tensor>> read_npz(std::span<const std::byte> bytes,
                                               const std::map<std::string, DType>& expected,
                                               const std::shared_ptr<Budget>& budget,
                                               const NpzLimits& limits) {
  XYNTRA_TRY(const Archive archive, open_archive(bytes));
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > limits.entries) {
    return limit_error("the .npz archive has " + std::to_string(count) + " entries; at most " +
                       std::to_string(limits.entries) + " are read");
  }
  std::vector<EntryInfo> entries;
  for (zip_int64_t index = 0; index < count; ++index) {
    XYNTRA_TRY(EntryInfo info, describe(archive.get(), static_cast<zip_uint64_t>(index)));
    entries.push_back(std::move(info));
  }
  XYNTRA_CHECK_OK(check_sizes(entries, static_cast<std::int64_t>(bytes.size()), limits));

  std::map<std::string, Tensor> tensors;
  for (const EntryInfo& info : entries) {
    if (budget) XYNTRA_CHECK_OK(budget->check_time());
    NpyOptions options;
    options.budget = budget;
    if (const auto known = expected.find(info.name); known != expected.end())
      options.expected = known->second;
    auto tensor = read_array(archive.get(), info, options);
    if (!tensor) {
      tensor.error().message = "entry '" + info.name + "': " + tensor.error().message;
      return failure(std::move(tensor).error());
    }
    if (!tensors.emplace(info.name, std::move(*tensor)).second) {
      return bad_model("the .npz archive has two entries '" + info.name + "'");
    }
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

Result<std::string> npz_bytes(const std::map<std::string, Tensor>& tensors) {
  if (tensors.empty()) return std::string(kEmptyArchive);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(nullptr, 0, 0, &error);
  if (source == nullptr) return limit_error("cannot write the .npz archive: " + take_message(error));
  const std::unique_ptr<zip_source_t, decltype(&zip_source_free)> kept(source, zip_source_free);
  Archive archive(zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) return limit_error("cannot write the .npz archive: " + take_message(error));
  zip_error_fini(&error);
  zip_source_keep(source);  // closing the archive gives its reference back, ours is for reading the result

  std::vector<std::string> contents;  // must outlive zip_close
  contents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    if (is_string(tensor.dtype())) {
      XYNTRA_TRY(std::string file, npy_bytes_of_strings(tensor));
      contents.push_back(std::move(file));
    } else {
      contents.push_back(npy_bytes(tensor));
    }
    XYNTRA_CHECK_OK(add_entry(archive.get(), name, contents.back()));
  }
  if (zip_close(archive.get()) != 0) {
    return limit_error("cannot write the .npz archive: " + std::string(zip_strerror(archive.get())));
  }
  static_cast<void>(archive.release());  // NOLINT(bugprone-unused-return-value): zip_close has freed it

  zip_stat_t status;
  zip_stat_init(&status);
  if (zip_source_stat(source, &status) != 0 || zip_source_open(source) != 0) {
    return limit_error("cannot write the .npz archive");
  }
  std::string bytes(static_cast<std::size_t>(status.size), '\0');
  const zip_int64_t read = zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  require(std::cmp_equal(read, bytes.size()), "npz_bytes: the archive could not be read back");
  return bytes;
}

Status write_npz_file(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  XYNTRA_TRY(const std::string bytes, npz_bytes(tensors));
  return write_file_atomically(path, bytes);
}

}  // namespace xyntra
