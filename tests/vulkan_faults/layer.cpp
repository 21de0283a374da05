// A Vulkan layer that makes a driver fail when a test says so: a device that is lost in the middle of its work, memory
// that runs out. It stands between WebGPU's library and any driver; nothing but tests names it to the Vulkan loader.
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <cstring>

// What fails now; set by the test, which finds it by name.
enum Fault : int { None = 0, DeviceLost = 1, NoMemory = 2, LostInSubmission = 3 };
extern "C" {
__attribute__((visibility("default"))) std::atomic<int> xyntra_vulkan_fault{None};
}

namespace {

// Of the layer or driver below; one instance at a time, and devices of one driver.
VkInstance instance = nullptr;
PFN_vkGetInstanceProcAddr next_instance_function = nullptr;
PFN_vkGetDeviceProcAddr next_device_function = nullptr;
PFN_vkGetSemaphoreCounterValue next_counter = nullptr;
PFN_vkGetFenceStatus next_fence_status = nullptr;
PFN_vkAllocateMemory next_allocate = nullptr;
PFN_vkQueueSubmit next_submit = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL counter(VkDevice device, VkSemaphore semaphore, uint64_t* value) {
  if (xyntra_vulkan_fault == DeviceLost) return VK_ERROR_DEVICE_LOST;
  return next_counter(device, semaphore, value);
}

VKAPI_ATTR VkResult VKAPI_CALL fence_status(VkDevice device, VkFence fence) {
  if (xyntra_vulkan_fault == DeviceLost) return VK_ERROR_DEVICE_LOST;
  return next_fence_status(device, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  if (xyntra_vulkan_fault == NoMemory) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  return next_allocate(device, info, callbacks, memory);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* infos,
                                      VkFence fence) {
  if (xyntra_vulkan_fault == LostInSubmission) return VK_ERROR_DEVICE_LOST;
  return next_submit(queue, count, infos, fence);
}

// The part of a creation's chain in which the loader says who comes next.
template <class Link>
Link* link_of(const void* chain, VkStructureType type) {
  auto* link = static_cast<Link*>(const_cast<void*>(chain));
  while (link != nullptr && (link->sType != type || link->function != VK_LAYER_LINK_INFO)) {
    link = static_cast<Link*>(const_cast<void*>(link->pNext));
  }
  return link;
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* callbacks, VkInstance* made) {
  auto* link = link_of<VkLayerInstanceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  next_instance_function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create =
      reinterpret_cast<PFN_vkCreateInstance>(next_instance_function(nullptr, "vkCreateInstance"));
  const VkResult result = create(info, callbacks, made);
  instance = *made;
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkDevice* made) {
  auto* link = link_of<VkLayerDeviceCreateInfo>(info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  if (link == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetInstanceProcAddr function = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  next_device_function = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(function(instance, "vkCreateDevice"));
  const VkResult result = create(physical, info, callbacks, made);
  if (result != VK_SUCCESS) return result;
  auto find = [made](const char* name) { return next_device_function(*made, name); };
  next_counter = reinterpret_cast<PFN_vkGetSemaphoreCounterValue>(find("vkGetSemaphoreCounterValue"));
  if (next_counter == nullptr) {
    next_counter = reinterpret_cast<PFN_vkGetSemaphoreCounterValue>(find("vkGetSemaphoreCounterValueKHR"));
  }
  next_fence_status = reinterpret_cast<PFN_vkGetFenceStatus>(find("vkGetFenceStatus"));
  next_allocate = reinterpret_cast<PFN_vkAllocateMemory>(find("vkAllocateMemory"));
  next_submit = reinterpret_cast<PFN_vkQueueSubmit>(find("vkQueueSubmit"));
  return result;
}

PFN_vkVoidFunction device_function(VkDevice device, const char* name);
PFN_vkVoidFunction instance_function(VkInstance of, const char* name);

PFN_vkVoidFunction ours(const char* name) {
  const struct {
    const char* name;
    PFN_vkVoidFunction function;
  } table[] = {
      {"vkCreateInstance", reinterpret_cast<PFN_vkVoidFunction>(create_instance)},
      {"vkCreateDevice", reinterpret_cast<PFN_vkVoidFunction>(create_device)},
      {"vkGetInstanceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(instance_function)},
      {"vkGetDeviceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(device_function)},
      {"vkGetSemaphoreCounterValue", reinterpret_cast<PFN_vkVoidFunction>(counter)},
      {"vkGetSemaphoreCounterValueKHR", reinterpret_cast<PFN_vkVoidFunction>(counter)},
      {"vkGetFenceStatus", reinterpret_cast<PFN_vkVoidFunction>(fence_status)},
      {"vkAllocateMemory", reinterpret_cast<PFN_vkVoidFunction>(allocate)},
      {"vkQueueSubmit", reinterpret_cast<PFN_vkVoidFunction>(submit)},
  };
  for (const auto& row : table) {
    if (std::strcmp(row.name, name) == 0) return row.function;
  }
  return nullptr;
}

PFN_vkVoidFunction device_function(VkDevice device, const char* name) {
  const PFN_vkVoidFunction own = ours(name);
  return own != nullptr || next_device_function == nullptr ? own : next_device_function(device, name);
}

PFN_vkVoidFunction instance_function(VkInstance of, const char* name) {
  const PFN_vkVoidFunction own = ours(name);
  return own != nullptr || next_instance_function == nullptr ? own : next_instance_function(of, name);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) VkResult
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* answer) {
  answer->loaderLayerInterfaceVersion = 2;
  answer->pfnGetInstanceProcAddr = instance_function;
  answer->pfnGetDeviceProcAddr = device_function;
  answer->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
