// The files of web/ that every compiled folder gets a copy of; the build puts them into the program.
#pragma once

#include <string_view>

namespace xyntra {

std::string_view web_module();  // xyntra.js
std::string_view web_module_types();  // xyntra.d.ts

}  // namespace xyntra
