// Random graphs, fused and unfused: xyntra_graphs [--cases N] [--seed S] [--case I] [--threads T] [--backend wgsl]
// Ends with one line: N passed, M failed, K skipped. The smallest graph that fails like each failure is printed.
#include <CLI/CLI.hpp>
#include <atomic>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

#include "graphs/check.h"

namespace {

using namespace xyntra;
using namespace xyntra::graphs;

constexpr int kMostShown = 10;

struct Totals {
  std::atomic<std::int64_t> next{0}, passed{0}, failed{0}, skipped{0};
  std::atomic<std::int64_t> nodes{0}, groups{0};
  std::mutex printing;
};

std::optional<Subject> case_of(std::int64_t seed, std::int64_t index) {
  Decisions decisions(static_cast<std::uint64_t>(seed) * 1'000'003 + static_cast<std::uint64_t>(index));
  return random_graph(decisions);
}

void run_case(std::int64_t seed, std::int64_t index, Effort effort, Totals& totals) {
  auto subject = case_of(seed, index);
  if (!subject) {
    ++totals.skipped;
    return;
  }
  effort.turn = static_cast<std::size_t>(index);
  Outcome outcome = check(*subject, effort);
  totals.nodes += static_cast<std::int64_t>(outcome.nodes);
  totals.groups += static_cast<std::int64_t>(outcome.groups);
  if (outcome.kind == Outcome::Kind::Agree) {
    ++(outcome.refused ? totals.skipped : totals.passed);
    return;
  }
  if (++totals.failed > kMostShown) return;
  const Effort again{true, effort.turn, effort.backend, effort.random_plans};
  Subject smallest = reduced(*subject, again);
  std::lock_guard lock(totals.printing);
  std::cout << "FAILED --seed " << seed << " --case " << index << ": " << outcome.failure << "\n";
  std::cout << "reduced: " << check(smallest, again).failure << "\n" << described(smallest) << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t cases = 2000, seed = 1, only = -1;
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  bool print = false;
  Effort effort{false};
  CLI::App app("Random graphs: what is fused gives what the reference gives");
  app.add_option("--cases", cases, "how many graphs");
  app.add_option("--seed", seed, "another seed, other graphs");
  app.add_option("--case", only, "this one alone");
  app.add_option("--threads", threads, "checked at the same time");
  app.add_option("--backend", effort.backend, "run them on this one alone")
      ->check(CLI::IsMember({"fused", "cpu", "sim", "wgsl", "ptx"}));
  app.add_flag("--random-plans", effort.random_plans, "with --backend: some forms barred, knobs turned");
  app.add_flag("--all-targets", effort.all_targets, "plans for every target, not for one in turn");
  app.add_flag("--print", print, "show the graphs instead of checking them");
  CLI11_PARSE(app, argc, argv);

  Totals totals;
  std::int64_t end = cases;
  if (only >= 0) totals.next = only, end = only + 1;
  if (print) {
    for (std::int64_t i = totals.next; i < end; ++i) {
      if (auto subject = case_of(seed, i))
        std::cout << "// case " << i << "\n" << described(*subject) << "\n";
    }
    return 0;
  }
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&] {
      for (std::int64_t i = totals.next++; i < end; i = totals.next++) run_case(seed, i, effort, totals);
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::cout << totals.nodes << " nodes in " << totals.groups << " groups\n";
  std::cout << totals.passed << " passed, " << totals.failed << " failed, " << totals.skipped << " skipped"
            << std::endl;
  return totals.failed == 0 ? 0 : 1;
}
