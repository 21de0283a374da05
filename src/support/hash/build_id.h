// Which build of Xyntra this is: what a cache of its decisions goes by, for a version says too little while it is worked on.
#pragma once

#include <string>

namespace xyntra {

// The linker's hash of the program or library that this code is a part of, in hexadecimal; empty where the linker wrote none.
const std::string& build_id();

}  // namespace xyntra
