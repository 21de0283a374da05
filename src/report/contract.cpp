#include "report/contract.h"

#include <algorithm>

#include "support/text/text.h"

namespace xyntra {
namespace {

class ContractChecker {
 public:
  ContractChecker(const Plan& plan, const PlanFigures& figures) : plan_(plan), figures_(figures) {}

  std::vector<std::string> check(const ContractSettings& contract) {
    const auto kernels = static_cast<std::int64_t>(figures_.kernels);
    if (contract.max_kernels && kernels > *contract.max_kernels) {
      const std::int64_t over = kernels - *contract.max_kernels;
      broken_.push_back("max_kernels: " + std::to_string(kernels) + " kernels, " + std::to_string(over) +
                        " more than the " + std::to_string(*contract.max_kernels) +
                        " allowed; the shortest is " +
                        group_text(kernel_with_least(&GroupFigures::predicted_ns)));
    }
    if (contract.max_bytes && figures_.bytes > *contract.max_bytes) {
      const std::size_t most = kernel_with_most_bytes();
      broken_.push_back("max_bytes: " + human_bytes(figures_.bytes) + " moved, " +
                        human_bytes(figures_.bytes - *contract.max_bytes) + " more than the " +
                        human_bytes(*contract.max_bytes) + " allowed; most by " + group_text(most) +
                        " with " + human_bytes(bytes_of_group(most)));
    }
    if (contract.no_fallback) {
      for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
        if (plan_.groups[g].hero != Hero::Host) continue;
        broken_.push_back("no_fallback: " + group_text(g) +
                          " runs on the host: " + printable(plan_.groups[g].reason));
      }
    }
    return std::move(broken_);
  }

 private:
  std::string group_text(std::size_t g) const {
    return "group " + std::to_string(g) + " (" + printable(compressed(figures_.groups[g].ops, kOpsInLabel)) +
           ")";
  }

  std::int64_t bytes_of_group(std::size_t g) const {
    return figures_.groups[g].bytes_in + figures_.groups[g].bytes_out;
  }

  std::size_t kernel_with_least(std::int64_t GroupFigures::* figure) const {
    std::size_t best = plan_.groups.size();
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
      if (!is_kernel(plan_.groups[g])) continue;
      if (best == plan_.groups.size() || figures_.groups[g].*figure < figures_.groups[best].*figure) best = g;
    }
    return best;
  }

  std::size_t kernel_with_most_bytes() const {
    std::size_t best = 0;
    for (std::size_t g = 1; g < plan_.groups.size(); ++g) {
      if (bytes_of_group(g) > bytes_of_group(best)) best = g;
    }
    return best;
  }

  const Plan& plan_;
  const PlanFigures& figures_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> broken_parts(const ContractSettings& contract, const Plan& plan,
                                      const PlanFigures& figures) {
  return ContractChecker(plan, figures).check(contract);
}

}  // namespace xyntra
