// Regular expressions in the syntax of RE2, matched against a whole text in time that grows with the text and the pattern only,
// whatever they are: all places of the pattern that the text may have reached are followed together, character by character.
//
//   a(b|c)*d     characters, groups, alternatives, repetition: * + ? {2} {2,} {2,5}, each with ? behind it as well
//   [a-z0-9_.]   classes, [^…], [[:alpha:]], \d \w \s \D \W \S; . is any character but a new line
//   ^ $ \b \B    places: beginning, end, edge of a word; (?i) (?s) (?m) change what follows
//
// What needs more than that (backreferences, looking ahead or behind) is refused, as are \p{…} and \C.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace xyntra {

class Regex {
 public:
  // BadModel error that says what is wrong and where; Limit error when it is too long once its repetitions are written out.
  static Result<Regex> compile(std::string_view pattern);

  struct Range {
    char32_t first = 0, last = 0;
  };
  struct Step {
    enum class Kind : std::uint8_t { Character, Fork, Place, Match };
    enum class Place : std::uint8_t { TextBegin, TextEnd, LineBegin, LineEnd, WordEdge, NoWordEdge };
    Kind kind = Kind::Match;
    bool negated = false, any_case = false;  // Character
    Place place = Place::TextBegin;
    std::vector<Range> ranges;  // Character: one of them has it
    std::uint32_t next = 0, other = 0;  // Fork: both
  };

  // Holds what matching needs beside the pattern; for one thread.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // `worked` is told how many steps were taken, now and then; what it fails with ends the matching.
    Result<bool> full_match(std::string_view text, const std::function<Status(std::int64_t)>& worked);

   private:
    struct Around {
      char32_t before, after;  // kNone at an end
    };
    void reach(std::uint32_t step, const Around& around);
    const std::vector<Step>& steps_;
    std::vector<std::uint32_t> reached_, pending_;
    std::vector<std::uint64_t> seen_;  // by step: the number of the character it was reached before
    std::uint64_t character_ = 0;
    bool matched_ = false;
  };

 private:
  std::vector<Step> steps_;  // the first is where matching begins
};

}  // namespace xyntra
