// A CUDA driver without a GPU, for tests of what stands above it: XYNTRA_CUDA names it. Memory is the host's, launches compute nothing and leave their
// parameters behind, and what it links is the text itself behind a mark. tests/fake_cuda/fake_cuda.h says what tests may ask of it.
#include "fake_cuda/fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/drivers/cuda/api.h"

using namespace xyntra::cuda;

namespace {

constexpr const char* kMark = "FAKE CUBIN\n";
constexpr int kUnknownSymbol = 500;

struct Module {
  std::string text;
  std::set<std::string> functions;
};
struct Linking {
  std::string made;
};

std::mutex mutex;
FakeCounts counts;
std::map<CUdeviceptr, size_t> blocks;
std::vector<std::uint64_t> last_parameters;
std::vector<FakeTensorMap> tensor_maps;
int context = 0;

CUresult copied(void* to, const void* from, size_t bytes, std::uint64_t& counter) {
  std::memcpy(to, from, bytes);
  const std::lock_guard lock(mutex);
  counter += bytes;
  return kSuccess;
}
void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE FakeCounts fake_cuda_counts() {
  const std::lock_guard lock(mutex);
  return counts;
}
FAKE FakeTensorMap fake_cuda_tensor_map(unsigned number) {
  const std::lock_guard lock(mutex);
  return number < tensor_maps.size() ? tensor_maps[number] : FakeTensorMap{};
}
FAKE bool fake_cuda_last_launch_has(std::uint64_t parameter) {
  const std::lock_guard lock(mutex);
  for (const std::uint64_t one : last_parameters) {
    if (one == parameter) return true;
  }
  return false;
}

FAKE CUresult cuInit(unsigned) { return kSuccess; }
FAKE CUresult cuDriverGetVersion(int* version) {
  *version = 12040;
  return kSuccess;
}
FAKE CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "FAKE_ERROR";
  return kSuccess;
}
FAKE CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the fake driver";
  return kSuccess;
}
FAKE CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
FAKE CUresult cuDeviceGet(CUdevice* device, int) {
  *device = 0;
  return kSuccess;
}
FAKE CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "Fake H100", static_cast<size_t>(size));
  return kSuccess;
}
FAKE CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = size_t{1} << 34;
  return kSuccess;
}
FAKE CUresult cuDeviceGetAttribute(int* value, CUdeviceAttribute which, CUdevice) {
  switch (which) {
    case kMaxThreadsPerBlock: *value = 1024; break;
    case kMultiprocessorCount: *value = 132; break;
    case kMaxThreadsPerMultiprocessor: *value = 2048; break;
    case kComputeCapabilityMajor: *value = 9; break;
    case kComputeCapabilityMinor: *value = 0; break;
    case kMaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
  }
  return kSuccess;
}
FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* made, CUdevice) {
  *made = reinterpret_cast<CUcontext>(&context);
  return kSuccess;
}
FAKE CUresult cuDevicePrimaryCtxReset_v2(CUdevice) { return kSuccess; }
FAKE CUresult cuCtxPushCurrent_v2(CUcontext) { return kSuccess; }
FAKE CUresult cuCtxPopCurrent_v2(CUcontext*) { return kSuccess; }
FAKE CUresult cuModuleLoadDataEx(CUmodule* made, const void* image, unsigned, CUjitOption*, void**) {
  const std::string text(static_cast<const char*>(image));
  const std::lock_guard lock(mutex);
  ++(text.starts_with(kMark) ? counts.loaded_code : counts.loaded_text);
  *made = reinterpret_cast<CUmodule>(new Module{text, {}});
  return kSuccess;
}
FAKE CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<Module*>(module);
  return kSuccess;
}
FAKE CUresult cuModuleGetFunction(CUfunction* found, CUmodule from, const char* name) {
  auto* module = reinterpret_cast<Module*>(from);
  if (module->text.find(".entry " + std::string(name)) == std::string::npos)
    return static_cast<CUresult>(kUnknownSymbol);
  *found = reinterpret_cast<CUfunction>(const_cast<std::string*>(&*module->functions.insert(name).first));
  return kSuccess;
}
FAKE CUresult cuFuncSetAttribute(CUfunction, CUfunctionAttribute, int) { return kSuccess; }
FAKE CUresult cuFuncGetAttribute(int* value, CUfunctionAttribute which, CUfunction) {
  *value = which == kFunctionRegisters ? 40 : 0;
  return kSuccess;
}
FAKE CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks_there, CUfunction, int threads,
                                                          size_t) {
  *blocks_there = 2048 / threads;
  return kSuccess;
}
FAKE CUresult cuLinkCreate_v2(unsigned, CUjitOption*, void**, CUlinkState* made) {
  *made = reinterpret_cast<CUlinkState>(new Linking);
  return kSuccess;
}
FAKE CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType, void* data, size_t bytes, const char*,
                               unsigned, CUjitOption*, void**) {
  reinterpret_cast<Linking*>(state)->made = kMark + std::string(static_cast<const char*>(data), bytes);
  return kSuccess;
}
FAKE CUresult cuLinkComplete(CUlinkState state, void** made, size_t* bytes) {
  auto* linking = reinterpret_cast<Linking*>(state);
  *made = linking->made.data();
  *bytes = linking->made.size();
  const std::lock_guard lock(mutex);
  ++counts.linked;
  return kSuccess;
}
FAKE CUresult cuLinkDestroy(CUlinkState state) {
  delete reinterpret_cast<Linking*>(state);
  return kSuccess;
}
FAKE CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction, void** parameters, void**) {
  const std::lock_guard lock(mutex);
  ++counts.launches;
  last_parameters.clear();
  for (int i = 0; i < 2; ++i)
    last_parameters.push_back(*static_cast<std::uint64_t*>(parameters[i]));  // an input, an output
  return kSuccess;
}
FAKE CUresult cuMemAlloc_v2(CUdeviceptr* made, size_t bytes) {
  constexpr size_t kAligned = 256;
  void* memory = std::aligned_alloc(kAligned, (bytes + kAligned - 1) / kAligned * kAligned);
  std::memset(memory, 0, bytes);
  *made = reinterpret_cast<CUdeviceptr>(memory);
  const std::lock_guard lock(mutex);
  blocks[*made] = bytes;
  return kSuccess;
}
FAKE CUresult cuMemFree_v2(CUdeviceptr address) {
  {
    const std::lock_guard lock(mutex);
    blocks.erase(address);
  }
  std::free(at(address));
  return kSuccess;
}
FAKE CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 34;
  return kSuccess;
}
FAKE CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream) {
  return copied(at(to), from, bytes, counts.written);
}
FAKE CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  return copied(to, at(from), bytes, counts.read);
}
FAKE CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  return copied(at(to), at(from), bytes, counts.moved);
}
FAKE CUresult cuMemcpy2DAsync_v2(const CUmemcpy2D*, CUstream) { return kSuccess; }
FAKE CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream) {
  std::memset(at(to), value, bytes);
  return kSuccess;
}
FAKE CUresult cuTensorMapEncodeTiled(CUtensorMap* made, CUtensorMapDataType type, unsigned rank,
                                     void* address, const std::uint64_t* extents,
                                     const std::uint64_t* strides, const std::uint32_t* box,
                                     const std::uint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion, CUtensorMapOOBfill) {
  FakeTensorMap map{reinterpret_cast<std::uint64_t>(address), rank, type, swizzle};
  for (unsigned d = 0; d < rank && d < 5; ++d) {
    map.extents[d] = extents[d];
    map.box[d] = box[d];
    if (d + 1 < rank) map.strides[d] = strides[d];
  }
  made->opaque[0] = map.address;
  const std::lock_guard lock(mutex);
  ++counts.tensor_maps;
  tensor_maps.push_back(map);
  return kSuccess;
}
FAKE CUresult cuStreamCreate(CUstream* made, unsigned) {
  *made = reinterpret_cast<CUstream>(new int);
  return kSuccess;
}
FAKE CUresult cuStreamDestroy_v2(CUstream stream) {
  delete reinterpret_cast<int*>(stream);
  return kSuccess;
}
FAKE CUresult cuStreamQuery(CUstream) { return kSuccess; }
FAKE CUresult cuStreamSynchronize(CUstream) { return kSuccess; }
FAKE CUresult cuStreamBeginCapture_v2(CUstream, CUcaptureMode) { return kSuccess; }
FAKE CUresult cuStreamEndCapture(CUstream, CUgraph* made) {
  *made = reinterpret_cast<CUgraph>(new int);
  return kSuccess;
}
FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph, unsigned long long) {
  *made = reinterpret_cast<CUgraphExec>(new int);
  return kSuccess;
}
FAKE CUresult cuGraphLaunch(CUgraphExec, CUstream) { return kSuccess; }
FAKE CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<int*>(graph);
  return kSuccess;
}
FAKE CUresult cuGraphExecDestroy(CUgraphExec graph) {
  delete reinterpret_cast<int*>(graph);
  return kSuccess;
}
FAKE CUresult cuEventCreate(CUevent* made, unsigned) {
  *made = reinterpret_cast<CUevent>(new int);
  return kSuccess;
}
FAKE CUresult cuEventDestroy_v2(CUevent event) {
  delete reinterpret_cast<int*>(event);
  return kSuccess;
}
FAKE CUresult cuEventRecord(CUevent, CUstream) { return kSuccess; }
FAKE CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 1;
  return kSuccess;
}
FAKE CUresult cuPointerGetAttribute(void* value, CUpointerAttribute, CUdeviceptr address) {
  const std::lock_guard lock(mutex);
  for (const auto& [begin, bytes] : blocks) {
    if (address >= begin && address < begin + bytes) {
      *static_cast<unsigned*>(value) = kMemoryDevice;
      return kSuccess;
    }
  }
  return static_cast<CUresult>(1);
}
FAKE CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  const std::lock_guard lock(mutex);
  ++counts.waits;
  return kSuccess;
}
