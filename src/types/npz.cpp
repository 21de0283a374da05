#include <utility>

#include "support/file.h"
#include "support/stored_zip.h"
#include "support/text.h"
#include "support/zip_archive.h"
#include "types/npy.h"
#include "types/npy_header.h"
#include "types/npy_strings.h"

namespace xyntra {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kAlignment = 64;  // of NumPy's headers, too: arrays can be mapped

Status check_names(std::span<const ZipMember> members) {
  for (const ZipMember& member : members) {
    if (!member.name.ends_with(kSuffix))
      return bad_model("entry '" + member.name + "' of the .npz archive is not a .npy file");
    if (member.size > static_cast<std::uint64_t>(INT64_MAX))
      return limit_error("entry '" + member.name + "' is too large");
  }
  return {};
}

Status check_sizes(std::span<const ZipMember> members, std::int64_t archive_size, const NpzLimits& limits) {
  std::int64_t total = 0;
  for (const ZipMember& member : members) {
    if (std::cmp_greater(member.size, limits.total_bytes - total)) {
      return limit_error("the .npz archive unpacks to more than " + human_bytes(limits.total_bytes));
    }
    total += static_cast<std::int64_t>(member.size);
  }
  if (total > limits.ratio_free_bytes && total / limits.ratio > archive_size) {
    return limit_error("the .npz archive of " + human_bytes(archive_size) + " unpacks to " +
                       human_bytes(total) + ", more than " + std::to_string(limits.ratio) +
                       " times its size");
  }
  return {};
}

// The memory is lazy, so a declared size costs nothing until that many bytes have really come.
Result<Tensor> read_array(const ZipMember& member, const NpyOptions& options) {
  XYNTRA_TRY(Tensor file,
             Tensor::allocate(DType::U8, {static_cast<std::int64_t>(member.size)}, options.budget));
  XYNTRA_CHECK_OK(unpack(member, file.mutable_bytes()));
  const auto owner = std::make_shared<Tensor>(file);
  return read_npy(owner->bytes(), owner, options);
}

}  // namespace

Result<std::map<std::string, Tensor>> read_npz(std::span<const std::byte> bytes,
                                               const std::map<std::string, DType>& expected,
                                               const std::shared_ptr<Budget>& budget,
                                               const NpzLimits& limits) {
  XYNTRA_TRY(const std::vector<ZipMember> members, read_zip(bytes));
  if (std::cmp_greater(members.size(), limits.entries)) {
    return limit_error("the .npz archive has " + std::to_string(members.size()) + " entries; at most " +
                       std::to_string(limits.entries) + " are read");
  }
  XYNTRA_CHECK_OK(check_names(members));
  XYNTRA_CHECK_OK(check_sizes(members, static_cast<std::int64_t>(bytes.size()), limits));

  std::map<std::string, Tensor> tensors;
  for (const ZipMember& member : members) {
    if (budget) XYNTRA_CHECK_OK(budget->check_time());
    const std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    NpyOptions options;
    options.budget = budget;
    if (const auto known = expected.find(name); known != expected.end()) options.expected = known->second;
    auto tensor = read_array(member, options);
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

Result<std::string> npz_bytes(const std::map<std::string, Tensor>& tensors) {
  if (tensors.size() > kMostZipEntries) {
    return limit_error("a .npz archive has at most " + std::to_string(kMostZipEntries) + " entries");
  }
  std::vector<std::string> contents;
  std::vector<ZipPart> parts;
  contents.reserve(tensors.size());  // parts refer to them
  for (const auto& [name, tensor] : tensors) {
    if (is_string(tensor.dtype())) {
      XYNTRA_TRY(std::string file, npy_bytes_of_strings(tensor));
      contents.push_back(std::move(file));
    } else {
      contents.push_back(npy_bytes(tensor));
    }
    const std::size_t length = name.size() + kSuffix.size();
    if (length > kLongestZipName) {
      return usage_error("the name of an entry of a .npz archive has at most " +
                         std::to_string(kLongestZipName) + " bytes; one has " + std::to_string(length));
    }
    parts.push_back({name + std::string(kSuffix), {std::as_bytes(std::span(contents.back()))}});
  }
  return stored_zip_bytes(parts, kAlignment);
}

Status write_npz_file(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  XYNTRA_TRY(const std::string bytes, npz_bytes(tensors));
  return write_file_atomically(path, bytes);
}

}  // namespace xyntra
