// Every mutant of the hand-written kernels is caught: by the verifier, by a report of the simulator, or by its result.
#include "unit/kir/mutants.h"

#include <set>

#include "unit/kir/cases.h"

namespace xyntra::kir {
namespace {

TEST(KirMutants, AllAreCaught) {
  std::set<std::string> files;
  for (const Case& one : cases()) files.insert(one.file);
  int total = 0, by_verifier = 0, by_report = 0, by_result = 0;
  for (const std::string& file : files) {
    for (const Mutant& mutant : mutants_of(parsed(kernel_text(file)))) {
      ++total;
      if (!verify(mutant.kernel)) {
        ++by_verifier;
        continue;
      }
      bool reported = false, wrong = false;
      for (const Case& one : cases()) {
        if (one.file != file || reported || wrong) continue;
        Arguments arguments = one.arguments();
        reported = !run(mutant.kernel, arguments, one.sizes).empty();
        wrong = !reported && !one.wrong(arguments).empty();
      }
      by_report += reported ? 1 : 0;
      by_result += wrong ? 1 : 0;
      EXPECT_TRUE(reported || wrong) << file << ", " << mutant.what;
    }
  }
  EXPECT_GE(total, 200);
  RecordProperty("mutants", total);
  std::cout << total << " mutants: " << by_verifier << " refused by the verifier, " << by_report
            << " reported by the simulator, " << by_result << " with wrong results\n";
}

}  // namespace
}  // namespace xyntra::kir
