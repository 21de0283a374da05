// Tables and text of a given width.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xyntra {

// At most so many columns: what is left out is in the middle, where names of one model differ least, and whole parts of
// a path where it is one: "encoder/layer.0/…/MatMul".
std::string cut_in_middle(std::string_view text, std::size_t columns);
// Lines of at most so many columns, broken at spaces, those after the first indented; a longer word stays whole.
std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent = 0);

// Rows of cells, aligned: columns two spaces apart, no trailing spaces.
class Table {
 public:
  // Names and prose are to the left, too, and give way where the table is wider than it may be: prose is wrapped within its
  // column, names are cut in the middle. Neither becomes narrower than can be read.
  enum class Align : std::uint8_t { Left, Right, Name, Prose };
  static constexpr std::size_t kAnyWidth = SIZE_MAX;
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void header(std::vector<std::string> cells);  // printed first, with a rule under it
  void row(std::vector<std::string> cells);  // shorter rows are filled up with empty cells
  std::string to_string(std::size_t width = kAnyWidth) const;

 private:
  std::vector<std::size_t> widths(std::size_t width) const;

  std::vector<Align> columns_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace xyntra
