// Rows of memory that a device has and the host wants: those of several buffers are brought together on the device first, as
// each copy of a few bytes waits for the one before it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/drivers/device_memory.h"
#include "runtime/drivers/webgpu.h"

namespace xyntra {

using DeviceRows = RowsOf<webgpu::Buffer>;  // in words on the device

class GatheredRows {
 public:
  explicit GatheredRows(std::shared_ptr<webgpu::Device> device) : device_(std::move(device)) {}

  // Whether that many rows are worth a dispatch, and fit one; large ones gain nothing. `others` come along.
  bool takes(const DeviceRows& rows, std::span<const DeviceRows> others = {}) const;
  // The dispatches that bring them together, in place of those of the last call.
  Status record(std::vector<DeviceRows> rows, webgpu::Recording& recording);
  // After its submission: what is to be read, and then put where it belongs.
  webgpu::Device::Read read();
  void put() const;

 private:
  Status record_some(std::span<const DeviceRows> rows, std::int64_t first, webgpu::Recording& recording);

  std::shared_ptr<webgpu::Device> device_;
  webgpu::Pipeline pipeline_;
  webgpu::Buffer buffer_;
  std::vector<DeviceRows> rows_;
  std::vector<std::byte> read_;
};

}  // namespace xyntra
