# Flags for our own code. They hang on one interface target, so nothing leaks into what includes us.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")  # lines are all a sanitizer's report needs; a third of the size
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(XYNTRA_CCACHE ccache)
if(XYNTRA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${XYNTRA_CCACHE}")
endif()

set(werror "")
if(XYNTRA_WERROR)
  set(werror -Werror -Werror=switch)
endif()

add_library(xyntra_options INTERFACE)
target_compile_definitions(xyntra_options INTERFACE _GLIBCXX_ASSERTIONS XYNTRA_VERSION="${PROJECT_VERSION}")
target_compile_options(xyntra_options INTERFACE
  -ffp-contract=off            # fma only where a kernel says so: same digits on every machine
  -Wall -Wextra -Wpedantic ${werror}
  -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wimplicit-fallthrough -Wcast-qual
  -Wunused -Wformat=2)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Only locals: a struct with a member called name must not forbid a local of that name.
  target_compile_options(xyntra_options INTERFACE -Wshadow=local)
  # Known false alarms of g++ 12 and 13 inside std::string, std::optional and std::variant when optimising.
  target_compile_options(xyntra_options INTERFACE
    -Wduplicated-cond -Wlogical-op
    -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
    -Wno-free-nonheap-object -Wno-dangling-pointer)
else()
  # The standard library's own use of std::get_temporary_buffer in std::stable_sort.
  target_compile_options(xyntra_options INTERFACE -Wno-deprecated-declarations)
endif()
if(XYNTRA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ takes every file but the one it was given for a header, where a type of an unnamed namespace may not show.
  target_compile_options(xyntra_options INTERFACE -Wno-subobject-linkage)
endif()
if(XYNTRA_SANITIZE)
  target_compile_options(xyntra_options INTERFACE
    -fsanitize=${XYNTRA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(xyntra_options INTERFACE -fsanitize=${XYNTRA_SANITIZE})
endif()
