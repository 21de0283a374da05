// NumPy's array files, .npy and .npz.
//
// Types that NumPy knows are written as it writes them. The others follow what np.save makes of ml_dtypes arrays:
// bf16 is '|V2', the 8-bit floats and everything narrower than a byte '|V1' with one element per byte (value in the
// low bits). Such a file does not say which type it holds: Python gets it back with
// np.load(path).view(ml_dtypes.bfloat16), and our reader is told by `expected`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "support/limits/limits.h"
#include "support/result.h"
#include "types/tensor.h"

namespace xyntra {

struct NpyOptions {
  std::optional<DType> expected;  // the type of raw void data; V2 without it is bf16, V1 an error
  std::shared_ptr<Budget> budget;  // charged for what has to be copied or unpacked; may be null
};

// Versions 1 to 3, C and Fortran order, either byte order. The tensor shares `bytes`, kept alive by `owner`, where
// they are as we need them. Text of a fixed width (U, S) is read as strings. Python objects (pickles), dates and complex numbers
// are refused.
Result<Tensor> read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                        const NpyOptions& options = {});
Result<Tensor> read_npy_file(const std::string& path, const NpyOptions& options = {});

// The whole file, for small tensors and tests; write_npy_file does not copy.
std::string npy_bytes(const Tensor& tensor);  // of numbers; of strings: types/npy/npy_strings.h
Status write_npy_file(const std::string& path, const Tensor& tensor);

// What an archive may hold. A deflated bomb is refused by its declared sizes, and by what really comes out of it.
struct NpzLimits {
  std::int64_t entries = 10'000;
  std::int64_t total_bytes = std::int64_t{4} << 30;  // unpacked
  std::int64_t ratio = 100;  // unpacked : packed, once the archive unpacks to …
  std::int64_t ratio_free_bytes = 64 << 20;  // … more than this: small arrays of zeros pack 1000 : 1
};

// Name (without .npy) to tensor. Entries are unpacked into memory only. `expected` is asked for the type of an
// entry that holds raw void data.
Result<std::map<std::string, Tensor>> read_npz(std::span<const std::byte> bytes,
                                               const std::map<std::string, DType>& expected = {},
                                               const std::shared_ptr<Budget>& budget = nullptr,
                                               const NpzLimits& limits = {});
Result<std::map<std::string, Tensor>> read_npz_file(const std::string& path,
                                                    const std::map<std::string, DType>& expected = {},
                                                    const std::shared_ptr<Budget>& budget = nullptr,
                                                    const NpzLimits& limits = {});

// Stored, not deflated, with a fixed date: same tensors, same bytes.
Status write_npz_file(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace xyntra
