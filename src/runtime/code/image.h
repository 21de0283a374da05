// Machine code in memory: a relocatable ELF object, loaded by us.
//
// Fresh code, code from the cache and code from an artifact all come through here. Memory is written first and sealed
// then: code becomes readable and executable, constants readable; nothing is ever writable and executable at once.
// The object may come from a damaged file: every number in it is checked against the bytes that are there.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/kernel_call.h"
#include "support/result.h"

namespace xyntra {

class CodeImage {
 public:
  // Code and constants only: an undefined symbol, writable data or an unknown relocation is refused (BadModel), so is
  // code of another architecture. Device error where the system lets nobody make code.
  static Result<CodeImage> load(std::span<const std::byte> object);

  PhaseFunction phase_function(std::string_view symbol) const;  // null where there is none
  std::size_t bytes() const { return size_; }  // of memory that it takes
  std::span<const std::byte> memory() const { return {memory_.get(), size_}; }

 private:
  CodeImage() = default;

  std::shared_ptr<const std::byte> memory_;
  std::size_t size_ = 0;
  std::map<std::string, const void*, std::less<>> functions_;
};

}  // namespace xyntra
