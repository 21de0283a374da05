#include "runtime/drivers/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "runtime/drivers/cuda.h"

namespace xyntra::cuda {
namespace {

constexpr int kOldestVersion = 11080;  // the first that knows the PTX we write
constexpr const char* kDriverHint =
    "install NVIDIA's driver, version 520 or newer; the CUDA toolkit is not needed";

tl::unexpected<Error> no_cuda(std::string message, std::string hint = kDriverHint) {
  return failure(
      Error{ErrorClass::Device, "no CUDA: " + std::move(message), {}, {}, {}, std::move(hint), false});
}

Result<const Library*> open_library() {
  const char* named = ::secure_getenv("XYNTRA_CUDA");
  const std::string path = named != nullptr && *named != '\0' ? named : "libcuda.so.1";
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* said = ::dlerror();
    const bool absent =
        said == nullptr || std::string_view(said).find("No such file") != std::string_view::npos;
    return no_cuda(absent ? path + " is not on this machine" : std::string(said));
  }
  static Library opened;
#define FUNCTION(name, symbol, ...)                                               \
  opened.name = reinterpret_cast<decltype(opened.name)>(::dlsym(handle, symbol)); \
  if (opened.name == nullptr) return no_cuda("the driver is too old, " + path + " has no function " symbol);
#define OPTIONAL(name, symbol, ...) \
  opened.name = reinterpret_cast<decltype(opened.name)>(::dlsym(handle, symbol));
#include "runtime/drivers/cuda/api.def"
  int version = 0;
  if (opened.DriverGetVersion(&version) == kSuccess && version < kOldestVersion)
    return no_cuda("the driver is too old, for CUDA " + version_text(version) + "; " +
                   version_text(kOldestVersion) + " is needed");
  const CUresult started = opened.Init(0);
  if (started == kNoDevice) return no_cuda("this machine has no NVIDIA GPU", "");
  if (started != kSuccess) {
    const char* said = nullptr;
    opened.GetErrorString(started, &said);
    return no_cuda("the driver does not start: " + std::string(said == nullptr ? "unknown error" : said), "");
  }
  return &opened;
}

}  // namespace

Result<const Library*> library() {
  static const Result<const Library*> opened = open_library();
  return opened;
}

const Library& opened_library() {
  const Result<const Library*> opened = library();
  require(opened.has_value(), "an object of CUDA without its library");
  return **opened;
}

std::string words_of(CUresult result) {
  const Library& cuda = opened_library();
  const char *name = nullptr, *said = nullptr;
  cuda.GetErrorName(result, &name);
  cuda.GetErrorString(result, &said);
  if (name == nullptr || said == nullptr) return "error " + std::to_string(result);
  return std::string(said) + " (" + name + ")";
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<std::string> driver_version() {
  XYNTRA_TRY(const Library* cuda, library());
  int version = 0;
  cuda->DriverGetVersion(&version);
  return version_text(version);
}

}  // namespace xyntra::cuda
