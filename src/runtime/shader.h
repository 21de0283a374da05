// A kernel as a shader: what a code generator hands to a driver, and what an artifact holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "types/dim.h"

namespace xyntra {

// How shaders are made and run.
struct ShaderOptions {
  bool portable = false;  // with nothing but what every browser has, whatever the adapter has besides
  // With the driver's checks of every index and loop, though kernels are proved to need none.
  bool checked = false;
  std::string device = {};  // as for webgpu::Device::open
  // Less than what the device binds, where not 0: for tests of what is done about it.
  std::int64_t binding_bytes = 0, storage_buffers = 0;
};

struct ShaderPhase {
  std::string entry;
  Dim items;
  std::int64_t items_per_group = 1;
  Dim iterations = 0;  // of all loops of an invocation, at most
  std::vector<std::uint32_t> bindings = {};  // numbers of the storage bindings that it uses
};

// What a storage binding holds: an argument, some bytes of one, or several one behind another.
struct ShaderBinding {
  struct Part {
    std::uint32_t argument = 0;
    std::int64_t first = 0;  // byte of the argument
    std::int64_t bytes = -1;  // -1: all of it
    std::int64_t at = 0;  // byte of the binding
  };
  std::vector<Part> parts;
  bool is_pack() const { return parts.size() > 1; }
};

// Bindings of group 0, in this order: `bindings`, for the kernel's arguments, its workspace buffers, the fault record where it looks at an
// index (4 words: whether, which buffer, which dimension, which index), the sizes as 32-bit integers in a uniform buffer
// where there are any. All but the last are read_write: they may be ranges of one buffer.
struct ShaderKernel {
  std::string text;
  std::vector<ShaderPhase> phases;
  std::vector<Dim> sizes;
  std::vector<Dim> argument_elements;
  std::vector<ShaderBinding> bindings;
  std::vector<Dim> workspace_bytes;
  bool has_faults = false;
};

}  // namespace xyntra
