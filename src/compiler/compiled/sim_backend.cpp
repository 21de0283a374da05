#include "compiler/compiled/sim_backend.h"

#include "kir/sim/sim.h"

namespace xyntra {
namespace {

class Simulator : public KernelDriver {
 public:
  using Kernels = std::shared_ptr<const std::vector<kir::Kernel>>;
  explicit Simulator(Kernels kernels) : kernels_(std::move(kernels)) {}

  std::unique_ptr<KernelDriver> another() const override { return std::make_unique<Simulator>(kernels_); }

  Status launch(const ProgramStep& step, std::span<const KernelArgument> arguments,
                const SymbolBindings& sizes) override {
    const kir::Kernel& kernel = kernels_->at(step.callee);
    std::vector<std::span<std::byte>> buffers;
    for (const kir::Buffer& buffer : kernel.buffers) {
      if (buffer.scope != kir::Scope::Global) continue;
      const KernelArgument& argument = arguments[buffers.size()];
      buffers.emplace_back(argument.memory, static_cast<std::size_t>(argument.bytes));
    }
    XYNTRA_TRY(auto report, kir::simulate(kernel, buffers, sizes));
    static_cast<void>(report);
    return {};
  }

 private:
  Kernels kernels_;
};

}  // namespace

std::shared_ptr<const KernelDriver> simulate_kernels(std::vector<kir::Kernel> kernels) {
  return std::make_shared<Simulator>(std::make_shared<const std::vector<kir::Kernel>>(std::move(kernels)));
}

}  // namespace xyntra
