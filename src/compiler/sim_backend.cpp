#include "compiler/sim_backend.h"

#include "kir/sim.h"

namespace xyntra {
namespace {

class Simulator : public KernelDriver {
 public:
  explicit Simulator(std::vector<kir::Kernel> kernels) : kernels_(std::move(kernels)) {}

  Status launch(std::uint32_t number, std::span<std::byte* const> arguments,
                const SymbolBindings& sizes) const override {
    const kir::Kernel& kernel = kernels_.at(number);
    std::vector<std::span<std::byte>> buffers;
    for (const kir::Buffer& buffer : kernel.buffers) {
      if (buffer.scope != kir::Scope::Global) continue;
      Dims dims;
      for (const Dim& dim : buffer.shape) {
        XYNTRA_TRY(std::int64_t size, dim.evaluate(sizes));
        dims.push_back(size);
      }
      XYNTRA_TRY(std::int64_t bytes, byte_size(buffer.dtype, dims));
      buffers.emplace_back(arguments[buffers.size()], static_cast<std::size_t>(bytes));
    }
    XYNTRA_TRY(auto report, kir::simulate(kernel, buffers, sizes));
    static_cast<void>(report);
    return {};
  }

 private:
  std::vector<kir::Kernel> kernels_;
};

}  // namespace

std::shared_ptr<const KernelDriver> simulate_kernels(std::vector<kir::Kernel> kernels) {
  return std::make_shared<Simulator>(std::move(kernels));
}

}  // namespace xyntra
