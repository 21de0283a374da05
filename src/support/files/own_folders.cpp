#include "support/files/own_folders.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "support/files/file.h"

namespace xyntra {
namespace {

// The file that is mapped where `address` is, as the kernel names it. A line of the list:
// 7f2c1000-7f2c9000 r-xp 00001000 08:01 123456   /usr/lib/libxyntra.so.1
std::string mapped_file(std::uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    fields >> std::hex >> begin >> dash >> end;
    const std::size_t path = line.find('/');
    if (fields && begin <= address && address < end && path != line.npos) return line.substr(path);
  }
  return {};
}

// The loader knows a library by the path that it was opened by, which may be relative to a folder that is no longer the
// working folder; and a program by argv[0], which is anything.
std::string own_file() {
  const auto address = reinterpret_cast<const void*>(&own_folders);
  Dl_info ours = {};
  if (::dladdr(address, &ours) != 0 && ours.dli_fname != nullptr && ours.dli_fname[0] == '/')
    return ours.dli_fname;
  return mapped_file(reinterpret_cast<std::uintptr_t>(address));
}

std::string program_file() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) == path.size()) return {};
  return std::string(path.data(), static_cast<std::size_t>(length));
}

}  // namespace

std::vector<std::string> own_folders() {
  std::vector<std::string> folders;
  for (const std::string& file : {own_file(), program_file()}) {
    if (!file.starts_with('/')) continue;
    std::string folder = folder_of(file);
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  }
  return folders;
}

}  // namespace xyntra
