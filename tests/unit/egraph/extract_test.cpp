// Extraction against all choices tried, and what it promises about sharing, cycles, ties and size.
#include "egraph/extract/extract.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/egraph/language.h"

namespace xyntra::egraph {
namespace {

// Classes of one to three nodes with random children, mostly of lower classes, and random costs.
struct Puzzle {
  EGraph graph;
  std::vector<Cost> costs;  // by payload: every node has one of its own, so nothing is congruent
  std::vector<TermId> classes;

  explicit Puzzle(std::uint32_t seed, std::size_t size) : graph(nullptr, seed) {
    std::mt19937 random(seed);
    const auto node = [&](std::size_t from, std::size_t count) {
      std::vector<TermId> children;
      const std::size_t arity = 1 + random() % 3;
      for (std::size_t i = 0; i < arity; ++i) children.push_back(classes[from + random() % count]);
      costs.push_back(random() % 10);
      return graph.add(2, static_cast<Payload>(costs.size() - 1), children);
    };
    for (int i = 0; i < 2; ++i) {
      costs.push_back(random() % 5);
      classes.push_back(graph.add(1, static_cast<Payload>(costs.size() - 1), {}));
    }
    while (classes.size() < size) {
      const std::size_t reach = std::min<std::size_t>(classes.size(), 5);
      const TermId first = node(classes.size() - reach, reach);
      for (std::size_t more = random() % 3; more > 0; --more) {
        graph.unite(first, node(classes.size() - reach, reach), graph.reason("given"));
      }
      classes.push_back(first);
    }
    for (std::size_t i = 0; i < size / 4; ++i) {  // upwards: cycles
      const std::size_t at = random() % size;
      graph.unite(classes[at], node(at, size - at), graph.reason("given"));
    }
    graph.rebuild();
  }
  ClassId root() const { return graph.class_of(classes.back()); }
  Cost cost_of(const ENode& node) const { return costs[node.payload]; }
  CostModel model() const {
    return {[this](ClassId, const ENode& node) { return cost_of(node); },
            [](Head head, Payload payload) { return (std::uint64_t{head} << 32) | payload; }};
  }
};

// Tries every choice of nodes for the classes that a root comes to need.
class BruteForce {
 public:
  explicit BruteForce(const Puzzle& puzzle)
      : puzzle_(puzzle), graph_(puzzle.graph), chosen_(graph_.class_limit(), nullptr) {
    todo_.push_back(puzzle.root());
    search(0);
  }
  Cost best() const { return best_; }

 private:
  void search(Cost cost) {
    if (cost >= best_) return;
    while (!todo_.empty() && chosen_[todo_.back().index] != nullptr) todo_.pop_back();
    if (todo_.empty()) {
      if (acyclic()) best_ = cost;
      return;
    }
    const ClassId id = todo_.back();
    const std::vector<ClassId> saved = todo_;
    for (const ENode& node : graph_.nodes(id)) {
      chosen_[id.index] = &node;
      todo_ = saved;
      todo_.insert(todo_.begin(), node.children.begin(), node.children.end());
      search(cost + puzzle_.cost_of(node));
    }
    chosen_[id.index] = nullptr;
    todo_ = saved;
  }

  bool acyclic() const {
    std::vector<int> state(chosen_.size(), 0);
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i] != nullptr && !acyclic(ClassId(i), state)) return false;
    }
    return true;
  }
  bool acyclic(ClassId id, std::vector<int>& state) const {
    if (state[id.index] != 0) return state[id.index] == 2;
    state[id.index] = 1;
    for (const ClassId child : chosen_[id.index]->children) {
      if (!acyclic(child, state)) return false;
    }
    state[id.index] = 2;
    return true;
  }

  const Puzzle& puzzle_;
  const EGraph& graph_;
  std::vector<const ENode*> chosen_;
  std::vector<ClassId> todo_;
  Cost best_ = kImpossible;
};

void expect_well_formed(const Puzzle& puzzle, const Extraction& found) {
  std::vector<bool> ready(puzzle.graph.class_limit(), false);
  Cost total = 0;
  for (const ClassId id : found.order()) {
    for (const ClassId child : found.choice(id).children) EXPECT_TRUE(ready[child.index]);
    ready[id.index] = true;
    total += puzzle.cost_of(found.choice(id));
  }
  EXPECT_TRUE(ready[puzzle.root().index]);
  EXPECT_EQ(total, found.cost());
}

TEST(Extract, IsNearlyAlwaysAsGoodAsTryingEverything) {
  std::size_t best = 0;
  Cost found_cost = 0;
  Cost least_cost = 0;
  const std::uint32_t puzzles = 1000;
  for (std::uint32_t seed = 0; seed < puzzles; ++seed) {
    const Puzzle puzzle(seed, 8 + seed % 12);
    const ClassId root = puzzle.root();
    const Result<Extraction> found = extract(puzzle.graph, puzzle.model(), std::span(&root, 1));
    ASSERT_TRUE(found.has_value());
    expect_well_formed(puzzle, *found);
    const Cost least = BruteForce(puzzle).best();
    ASSERT_GE(found->cost(), least) << "seed " << seed;
    best += found->cost() == least ? 1 : 0;
    found_cost += found->cost();
    least_cost += least;
  }
  RecordProperty("optimal", static_cast<int>(best));
  EXPECT_GE(best * 100, puzzles * 95);
  EXPECT_LE(found_cost * 200, least_cost * 201);
}

TEST(Extract, SharedPartsArePaidOnce) {
  Language language;
  EGraph graph;
  // (g a) is dear, but needed anyway; (k a) is cheaper alone.
  const TermId either = language.term(graph, "(f (g a))");
  graph.unite(either, language.term(graph, "(f (k a))"), graph.reason("given"));
  const TermId root_term = language.term(graph, "(+ (f (g a)) (h (g a)))");
  graph.rebuild();
  const ClassId root = graph.class_of(root_term);
  const CostModel model = language.costs([&](ClassId, const ENode& node) {
    return node.head == language.head("g") ? Cost{10} : node.head == language.head("k") ? Cost{8} : Cost{1};
  });
  const Extraction found = extract(graph, model, std::span(&root, 1)).value();
  EXPECT_EQ(language.text(graph, found.term(graph, root)), "(+ (f (g a)) (h (g a)))");
  EXPECT_EQ(found.cost(), 14u);
  const ClassId alone = graph.class_of(either);
  EXPECT_EQ(extract(graph, model, std::span(&alone, 1))->cost(), 10u);
}

TEST(Extract, CyclesAndImpossibleNodesAreLeftOut) {
  Language language;
  EGraph graph;
  const TermId a = language.term(graph, "(g b)");
  graph.unite(a, language.term(graph, "(f (f (g b)))"), graph.reason("given"));
  graph.rebuild();
  const ClassId root = graph.class_of(language.term(graph, "(f (g b))"));
  const CostModel free = language.costs([](ClassId, const ENode&) { return Cost{0}; });
  const Extraction found = extract(graph, free, std::span(&root, 1)).value();
  EXPECT_EQ(language.text(graph, found.term(graph, root)), "(f (g b))");
  const CostModel without = language.costs(
      [&](ClassId, const ENode& node) { return node.head == language.head("g") ? kImpossible : Cost{1}; });
  EXPECT_FALSE(extract(graph, without, std::span(&root, 1)).has_value());
}

TEST(Extract, TiesAreSettledByTheCanonicalOrderOfTerms) {
  const std::vector<std::string> equal{"(f c)", "(f (g a))", "(f b)", "(h a b)", "(h b a)", "(k z)"};
  std::vector<std::string> order = equal;
  std::sort(order.begin(), order.end());
  do {
    Language language;
    EGraph graph;
    const TermId first = language.term(graph, order[0]);
    for (const std::string& text : order) {
      graph.unite(first, language.term(graph, text), graph.reason("given"));
    }
    graph.rebuild();
    const ClassId root = graph.class_of(first);
    const CostModel model = language.costs([](ClassId, const ENode&) { return Cost{0}; });
    const Extraction found = extract(graph, model, std::span(&root, 1)).value();
    ASSERT_EQ(language.text(graph, found.term(graph, root)), "(f b)");
  } while (std::next_permutation(order.begin(), order.end()));
}

// Neither user gains by switching alone; together they do.
TEST(Extract, UsersSwitchTogetherToShare) {
  Language language;
  EGraph graph;
  const TermId one = language.term(graph, "(f (g a))");
  const TermId two = language.term(graph, "(h (g b))");
  graph.unite(one, language.term(graph, "(f (k c))"), graph.reason("given"));
  graph.unite(two, language.term(graph, "(h (k c))"), graph.reason("given"));
  const TermId root_term = language.term(graph, "(+ (f (g a)) (h (g b)))");
  graph.rebuild();
  const ClassId root = graph.class_of(root_term);
  const CostModel model = language.costs([&](ClassId, const ENode& node) {
    return node.head == language.head("g") ? Cost{6} : node.head == language.head("k") ? Cost{10} : Cost{1};
  });
  const Extraction found = extract(graph, model, std::span(&root, 1)).value();
  EXPECT_EQ(language.text(graph, found.term(graph, root)), "(+ (f (k c)) (h (k c)))");
}

// The same classes and nodes inserted in another order, through holes that can never be chosen.
std::vector<Payload> chosen_when_shuffled(const Puzzle& puzzle, std::uint32_t seed) {
  constexpr Head kHole = 9;
  std::mt19937 random(seed);
  EGraph graph(nullptr, seed);
  std::vector<ClassId> classes = puzzle.graph.classes();
  std::shuffle(classes.begin(), classes.end(), random);
  std::vector<std::pair<ClassId, ENode>> nodes;
  const auto hole = [&](ClassId id) { return graph.add(kHole, id.index, {}); };
  for (const ClassId id : classes) {
    hole(id);
    for (const ENode& node : puzzle.graph.nodes(id)) nodes.emplace_back(id, node);
  }
  std::shuffle(nodes.begin(), nodes.end(), random);
  for (const auto& [id, node] : nodes) {
    std::vector<TermId> children;
    for (const ClassId child : node.children) children.push_back(hole(child));
    graph.unite(graph.add(node.head, node.payload, children), hole(id), graph.reason("given"));
  }
  graph.rebuild();
  CostModel model = puzzle.model();
  model.cost = [&](ClassId, const ENode& node) {
    return node.head == kHole ? kImpossible : puzzle.cost_of(node) / 4;  // rough costs: many ties
  };
  const ClassId root = graph.class_of(hole(puzzle.root()));
  const Extraction found = extract(graph, model, std::span(&root, 1)).value();
  std::vector<Payload> chosen;
  for (const ClassId id : found.order()) chosen.push_back(found.choice(id).payload);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

TEST(Extract, TheOrderOfInsertionDoesNotShow) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const Puzzle puzzle(seed, 30);
    const std::vector<Payload> expected = chosen_when_shuffled(puzzle, 0);
    for (std::uint32_t shuffle = 1; shuffle < 6; ++shuffle) {
      ASSERT_EQ(chosen_when_shuffled(puzzle, shuffle), expected) << "seed " << seed;
    }
  }
}

TEST(Extract, SeveralRootsShare) {
  Language language;
  EGraph graph;
  const ClassId roots[] = {graph.class_of(language.term(graph, "(f (g a))")),
                           graph.class_of(language.term(graph, "(h (g a))"))};
  const Extraction found = extract(graph, language.one_per_operation(), roots).value();
  EXPECT_EQ(found.cost(), 3u);
  EXPECT_EQ(found.order().size(), 4u);
}

TEST(Extract, CostsSaturate) {
  Language language;
  EGraph graph;
  const ClassId root = graph.class_of(language.term(graph, "(f (f (f a)))"));
  const CostModel dear = language.costs([](ClassId, const ENode&) { return kImpossible - 1; });
  EXPECT_EQ(extract(graph, dear, std::span(&root, 1))->cost(), kImpossible);
}

// Residual layers, each with a cheaper form: 2^2000 paths, and one minute would not do for anything quadratic
// with a large constant.
TEST(Extract, LongChainsWithSharing) {
  Language language;
  EGraph graph;
  TermId x = language.term(graph, "a");
  for (int layer = 0; layer < 2000; ++layer) {
    const TermId inner = graph.add(language.head("mul"), 0, {x, graph.add(language.head("erf"), 0, {x})});
    graph.unite(inner, graph.add(language.head("gelu"), 0, {x}), graph.reason("given"));
    x = graph.add(language.head("+"), 0, {x, inner});
  }
  graph.rebuild();
  const ClassId root = graph.class_of(x);
  const Extraction found = extract(graph, language.one_per_operation(), std::span(&root, 1)).value();
  EXPECT_EQ(found.cost(), 4000u);
}

}  // namespace
}  // namespace xyntra::egraph
