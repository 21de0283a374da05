// Bytes decide how a graph is made; what fusion and rewriting make of it gives what the reference gives.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "graphs/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace xyntra::graphs;
  Decisions decisions(std::span<const std::uint8_t>(data, size));
  auto subject = random_graph(decisions);
  if (!subject) return 0;
  Outcome outcome = check(*subject, {false, size});
  if (outcome.kind == Outcome::Kind::Agree) return 0;
  std::fprintf(stderr, "%s\n%s\n", outcome.failure.c_str(), described(*subject).c_str());
  std::abort();
}
