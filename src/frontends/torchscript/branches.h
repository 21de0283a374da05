// What the two sides of a branch do to things that live longer than the branch, and how that becomes one again.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontends/aten/importer.h"
#include "frontends/torchscript/value.h"

namespace xyntra::torchscript {

// The contents that objects had before they were changed, in the order in which they were.
class Journal {
 public:
  template <class T>
  struct Entry {
    std::shared_ptr<T> object;
    T contents;
  };

  std::uint64_t start = 0;  // objects that are younger are the branch's own

  template <class T>
  void remember(const std::shared_ptr<T>& object) {
    if (seen_.insert(object.get()).second) entries<T>().push_back({object, *object});
  }
  // Objects get what is noted of them, and what they have is noted.
  void swap();
  bool empty() const { return seen_.empty(); }

  template <class T>
  std::vector<Entry<T>>& entries();
  template <class T>
  const T* contents(const std::shared_ptr<T>& object) {
    for (const Entry<T>& entry : entries<T>()) {
      if (entry.object == object) return &entry.contents;
    }
    return nullptr;
  }

 private:
  std::set<const void*> seen_;
  std::vector<Entry<Sequence>> sequences_;
  std::vector<Entry<Mapping>> mappings_;
  std::vector<Entry<Instance>> instances_;
};

struct Branch {
  std::unique_ptr<aten::Scope> scope;
  std::map<std::string_view, Value> names;
  Journal journal;  // with what the branch has made of things
  bool raises = false;
  std::string message;
};

// Two values of one name as one: equal ones stay, tensors and numbers become results of the If.
class Merge {
 public:
  struct Pair {
    aten::Item yes, no;
    DType dtype = DType::F32;  // of numbers
    aten::VariableRef result;
  };

  explicit Merge(aten::Scope& around) : around_(around) {}

  Value merged(const Value& yes, const Value& no, int depth = 0);
  // Every object that either journal names gets its merged contents; `note` is told of each before. An Unsupported error where lists differ in length.
  template <class Note>
  Status merge_objects(Journal& yes, Journal& no, Note note);
  std::vector<Pair>& pairs() { return pairs_; }

 private:
  template <class T, class Note>
  Status merge_kind(Journal& yes, Journal& no, Note note);
  Result<Sequence> contents(const Sequence& yes, const Sequence& no);
  Result<Mapping> contents(const Mapping& yes, const Mapping& no);
  Result<Instance> contents(const Instance& yes, const Instance& no);
  aten::VariableRef pair(const aten::Item& yes, const aten::Item& no, DType dtype);

  aten::Scope& around_;
  std::vector<Pair> pairs_;
};

DType dtype_of_kind(aten::NumberKind kind);  // that numbers have in the graph

template <class T, class Note>
Status Merge::merge_kind(Journal& yes, Journal& no, Note note) {
  std::vector<std::shared_ptr<T>> objects;
  for (Journal* journal : {&yes, &no}) {
    for (const auto& entry : journal->template entries<T>()) {
      if (std::find(objects.begin(), objects.end(), entry.object) == objects.end())
        objects.push_back(entry.object);
    }
  }
  for (const std::shared_ptr<T>& object : objects) {
    const T* one = yes.contents(object);
    const T* other = no.contents(object);
    XYNTRA_TRY(T made, contents(one != nullptr ? *one : *object, other != nullptr ? *other : *object));
    note(object);
    *object = std::move(made);
  }
  return {};
}

template <class Note>
Status Merge::merge_objects(Journal& yes, Journal& no, Note note) {
  XYNTRA_CHECK_OK(merge_kind<Sequence>(yes, no, note));
  XYNTRA_CHECK_OK(merge_kind<Mapping>(yes, no, note));
  return merge_kind<Instance>(yes, no, note);
}

}  // namespace xyntra::torchscript
