// Where the files that belong to this program or library lie.
#pragma once

#include <string>
#include <vector>

namespace xyntra {

// Absolute folders, of the library that this code is part of and of the program that runs; one where they are the same. A
// library that was opened by a relative path is found all the same, whatever the working folder is by then. Never the
// working folder itself, and nothing that the environment names.
std::vector<std::string> own_folders();

}  // namespace xyntra
