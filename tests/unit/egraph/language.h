// A little language to write terms, patterns and rules of tests in.
//
//   (+ x (* y 2))            names of one letter are inputs, numbers are numbers, the rest are operations
//   (proj:1 (pair ?a ?b))    an operation with a payload, variables
//   (proj:$0 ?t)             a payload variable; (proj:* ?t) any payload
//   (~+ ?a ?b)               both orders of the children match
#pragma once

#include <cctype>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "egraph/egraph.h"
#include "egraph/extract/extract.h"
#include "egraph/match/rule.h"

namespace xyntra::egraph {

class Language {
 public:
  static constexpr Head kInput = 0;
  static constexpr Head kNumber = 1;

  Head head(std::string_view name) {
    return heads_.try_emplace(std::string(name), static_cast<Head>(heads_.size() + 2)).first->second;
  }

  TermId term(EGraph& graph, std::string_view text) {
    const Pattern pattern = parse(text);
    return instantiate(graph, pattern, {}, {});
  }

  Pattern pattern(std::string_view text) { return parse(text); }

  Rule rule(std::string name, std::string_view left, std::string_view right) {
    Rule rule;
    rule.name = std::move(name);
    variables_.clear();
    rule.left = parse_side(left);
    rule.right = parse_side(right);
    return rule;
  }

  std::string text(const EGraph& graph, TermId term) const {
    const std::string name = name_of(graph.head(term), graph.payload(term));
    if (graph.children(term).empty()) return name;
    std::string result = "(" + name;
    for (const TermId child : graph.children(term)) result += " " + text(graph, child);
    return result + ")";
  }

  std::string name_of(Head head, Payload payload) const {
    if (head == kInput) return std::string(1, static_cast<char>('a' + payload));
    if (head == kNumber) return std::to_string(payload);
    for (const auto& [name, value] : heads_) {
      if (value == head) return payload == 0 ? name : name + ":" + std::to_string(payload);
    }
    return "?";
  }

  // Depends on the spelling only.
  std::uint64_t key(Head head, Payload payload) const {
    std::uint64_t key = 0;
    for (const char c : name_of(head, payload)) key = key * 257 + static_cast<unsigned char>(c);
    return key;
  }

  CostModel costs(std::function<Cost(ClassId, const ENode&)> cost) const {
    return {std::move(cost), [this](Head head, Payload payload) { return key(head, payload); }};
  }
  CostModel one_per_operation() const {
    return costs([](ClassId, const ENode& node) { return node.children.empty() ? Cost{0} : Cost{1}; });
  }

 private:
  Pattern parse(std::string_view text) {
    variables_.clear();
    return parse_side(text);
  }

  Pattern parse_side(std::string_view text) {
    Pattern pattern;
    rest_ = text;
    part(pattern);
    return pattern;
  }

  std::string_view word() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    std::size_t size = 0;
    while (size < rest_.size() && rest_[size] != ' ' && rest_[size] != '(' && rest_[size] != ')') ++size;
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }

  PartId part(Pattern& pattern) {
    const std::string_view first = word();
    if (!first.empty()) return leaf(pattern, first);
    rest_.remove_prefix(1);  // (
    std::string_view name = word();
    const Order order = name.front() == '~' ? Order::Either : Order::Given;
    if (order == Order::Either) name.remove_prefix(1);
    PayloadMatch payload = PayloadMatch::fixed(0);
    if (const auto colon = name.find(':'); colon != std::string_view::npos) {
      const std::string value(name.substr(colon + 1));
      payload = value == "*"           ? PayloadMatch::any()
                : value.front() == '$' ? PayloadMatch::variable(number(value.substr(1)))
                                       : PayloadMatch::fixed(number(value));
      name = name.substr(0, colon);
    }
    std::vector<PartId> children;
    while (true) {
      while (rest_.front() == ' ') rest_.remove_prefix(1);
      if (rest_.front() == ')') break;
      children.push_back(part(pattern));
    }
    rest_.remove_prefix(1);  // )
    return pattern.node(head(name), payload, children, order);
  }

  PartId leaf(Pattern& pattern, std::string_view name) {
    if (name.front() == '?') {
      const auto count = static_cast<std::uint32_t>(variables_.size());
      return pattern.variable(variables_.try_emplace(std::string(name), count).first->second);
    }
    if (std::isdigit(static_cast<unsigned char>(name.front())) != 0) {
      return pattern.node(kNumber, PayloadMatch::fixed(number(std::string(name))), {});
    }
    return pattern.node(kInput, PayloadMatch::fixed(static_cast<Payload>(name.front() - 'a')), {});
  }

  static Payload number(const std::string& text) { return static_cast<Payload>(std::stoul(text)); }

  std::map<std::string, Head> heads_;
  std::map<std::string, std::uint32_t> variables_;
  std::string_view rest_;
};

// A graph of random terms, some of which were united at random.
struct RandomGraph {
  std::vector<TermId> terms;
  std::vector<std::pair<TermId, TermId>> united;

  RandomGraph(EGraph& graph, std::mt19937& random, std::size_t size, std::size_t unions) {
    const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
    for (std::uint32_t i = 0; i < 4; ++i) terms.push_back(graph.add(Language::kInput, i, {}));
    while (terms.size() < size) {
      const Head head = 2 + below(3);
      std::vector<TermId> children;
      for (std::uint32_t i = 0; i < 1 + head % 2; ++i) children.push_back(terms[below(terms.size())]);
      terms.push_back(graph.add(head, below(2), children));
    }
    for (std::size_t i = 0; i < unions; ++i) {
      united.emplace_back(terms[below(terms.size())], terms[below(terms.size())]);
      graph.unite(united.back().first, united.back().second, graph.reason("given"));
      if (below(4) == 0) graph.rebuild();
    }
    graph.rebuild();
  }
};

}  // namespace xyntra::egraph
