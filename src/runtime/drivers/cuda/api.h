// The types of the CUDA driver's C interface, as far as api.def uses them, in our namespace.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xyntra::cuda {

using std::size_t;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUarray = struct CUarray_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUlinkState = struct CUlinkState_st*;

enum CUresult : int {
  kSuccess = 0,
  kOutOfMemory = 2,
  kDeinitialized = 4,
  kNoDevice = 100,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kContained = 226,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidProgramCounter = 718,
  kLaunchFailed = 719,
  kUnknown = 999
};

enum CUdeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMultiprocessorCount = 16,
  kMaxThreadsPerMultiprocessor = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97
};

enum CUfunctionAttribute : int {
  kFunctionSharedBytes = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicSharedBytes = 8
};

enum CUjitOption : int { kJitErrorLogBuffer = 5, kJitErrorLogBufferBytes = 6, kJitTarget = 9 };
enum CUjitInputType : int { kJitInputPtx = 1 };
inline constexpr std::uintptr_t kJitTarget90a = 0x10000 + 90;  // with what Hopper alone has

enum CUcaptureMode : int { kCaptureOfThread = 1 };  // calls of other threads do not disturb it

enum CUpointerAttribute : int { kPointerMemoryType = 2 };

enum CUmemorytype : int { kMemoryHost = 1, kMemoryDevice = 2 };

struct CUmemcpy2D {
  size_t source_x = 0, source_y = 0;
  CUmemorytype source_type = kMemoryDevice;
  const void* source_host = nullptr;
  CUdeviceptr source_device = 0;
  CUarray source_array = nullptr;
  size_t source_pitch = 0;
  size_t to_x = 0, to_y = 0;
  CUmemorytype to_type = kMemoryHost;
  void* to_host = nullptr;
  CUdeviceptr to_device = 0;
  CUarray to_array = nullptr;
  size_t to_pitch = 0;
  size_t width = 0, height = 0;
};

enum CUlaunchAttributeID : unsigned { kProgrammaticStreamSerialization = 6 };

struct CUlaunchAttribute {
  CUlaunchAttributeID id = kProgrammaticStreamSerialization;
  char pad[8 - sizeof(CUlaunchAttributeID)] = {};
  union Value {
    char pad[64] = {};
    int programmatic;
  } value = {};
};

struct CUlaunchConfig {
  unsigned blocks_x = 1, blocks_y = 1, blocks_z = 1;
  unsigned threads_x = 1, threads_y = 1, threads_z = 1;
  unsigned shared_bytes = 0;
  CUstream stream = nullptr;
  CUlaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

struct alignas(64) CUtensorMap {
  std::uint64_t opaque[16] = {};
};
enum CUtensorMapDataType : int { kMap8 = 0, kMap16 = 1, kMap32 = 2, kMap64 = 4 };  // unsigned ones
enum CUtensorMapInterleave : int { kMapNotInterleaved = 0 };
enum CUtensorMapSwizzle : int { kMapNotSwizzled = 0, kMapSwizzle128 = 3 };
enum CUtensorMapL2promotion : int { kMapPromote128 = 2 };
enum CUtensorMapOOBfill : int { kMapZeros = 0 };

inline constexpr unsigned kStreamNonBlocking = 1;

}  // namespace xyntra::cuda
