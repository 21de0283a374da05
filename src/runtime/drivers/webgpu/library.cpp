#include "runtime/drivers/webgpu/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "runtime/drivers/webgpu.h"
#include "support/files/own_folders.h"

namespace xyntra::webgpu {
namespace {

// The structs of api.def are those of this version: a library of another one cannot be called.
constexpr std::uint32_t kMajorVersion = 29;
constexpr const char* kLibraryFiles[] = {"libwgpu_native-release.so", "libwgpu_native.so"};
constexpr const char* kInstallHint =
    "type scripts/setup wgpu in the source tree; or pip install wgpu==0.32.0, and set XYNTRA_WGPU to its "
    "folder "
    "wgpu/resources";

std::string version_text(std::uint32_t version) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += (text.empty() ? "" : ".") + std::to_string((version >> shift) & 0xffU);
  }
  return text;
}

tl::unexpected<Error> no_library(std::string message, std::string hint) {
  return failure(
      Error{ErrorClass::Device, "no WebGPU: " + std::move(message), {}, {}, {}, std::move(hint), false});
}

// The environment's word alone where there is one; then the test environment that lies beside a build's folder, then
// what the loader knows.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* named = ::secure_getenv("XYNTRA_WGPU"); named != nullptr && *named != '\0') {
    const std::string name = named;
    for (const char* file : kLibraryFiles) paths.push_back(name + "/" + file);
    paths.push_back(name);
    return paths;
  }
  for (const std::string& folder : own_folders()) {
    for (const char* up : {"", "../", "../../"}) {
      const std::string pattern =
          folder + "/" + up + "venv/lib/python3*/site-packages/wgpu/resources/" + kLibraryFiles[0];
      glob_t found = {};
      if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
      }
      ::globfree(&found);
    }
  }
  paths.insert(paths.end(), std::begin(kLibraryFiles), std::end(kLibraryFiles));
  return paths;
}

Result<const Library*> open_library() {
  void* handle = nullptr;
  std::string path, problem = "wgpu-native is not installed";
  for (const std::string& candidate : candidates()) {
    const bool absolute = candidate.find('/') != std::string::npos;
    if (absolute && ::access(candidate.c_str(), R_OK) != 0) continue;
    handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    path = candidate;
    if (handle != nullptr) break;
    const char* said = ::dlerror();
    if (absolute) problem = said == nullptr ? candidate + " cannot be opened" : said;
  }
  if (handle == nullptr) return no_library(problem, kInstallHint);

  static Library opened;
#define FUNCTION(result, name, ...)                                                     \
  opened.name = reinterpret_cast<decltype(opened.name)>(::dlsym(handle, "wgpu" #name)); \
  if (opened.name == nullptr) return no_library(path + " has no function wgpu" #name, kInstallHint);
#include "runtime/drivers/webgpu/api.def"
  const std::uint32_t version = opened.GetVersion();
  if (version >> 24 != kMajorVersion) {
    return no_library(path + " is wgpu-native " + version_text(version) +
                          "; this program is made for version " + std::to_string(kMajorVersion),
                      kInstallHint);
  }

  WGPUInstanceExtras extras = {};
  extras.chain.sType = static_cast<WGPUSType>(WGPUSType_InstanceExtras);
  extras.backends =
      WGPUInstanceBackend_Primary;  // OpenGL would list every adapter a second time, with less in it
  extras.flags = WGPUInstanceFlag_Empty;  // no validation layers of the driver's API
  WGPUInstanceDescriptor descriptor = {};
  descriptor.nextInChain = &extras.chain;
  opened.instance = opened.CreateInstance(&descriptor);
  if (opened.instance == nullptr) return no_library(path + " gives no instance", "");
  return &opened;
}

}  // namespace

Result<const Library*> library() {
  static const Result<const Library*> opened = open_library();
  return opened;
}

const Library& opened_library() {
  const Result<const Library*> opened = library();
  require(opened.has_value(), "an object of wgpu-native without its library");
  return **opened;
}

std::string text_of(WGPUStringView view) {
  return view.data == nullptr ? std::string() : std::string(view.data, view.length);
}

Result<std::string> library_version() {
  XYNTRA_TRY(const Library* opened, library());
  return version_text(opened->GetVersion());
}

}  // namespace xyntra::webgpu
