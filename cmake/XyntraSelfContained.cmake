# What a wheel holds: library, command and code generator with LLVM and the C++ library inside, which need nothing of a system
# but a C library that may be years older than the one here. Made of the same objects as the ordinary ones, on demand:
# the target xyntra_self_contained, in the folder self_contained.
set(XYNTRA_GLIBC_FLOOR 2.27 CACHE STRING "The oldest glibc that a wheel runs with")
set(xyntra_llvm_parts core support mc target object passes ipo instcombine scalaropts
  x86codegen x86desc x86info aarch64codegen aarch64desc aarch64info)  # the machines of src/codegen/llvm/object/machine.cpp

# LLVM's archives, and those that they need; left empty where they are not installed.
function(xyntra_find_static_llvm)
  find_program(XYNTRA_LLVM_CONFIG NAMES llvm-config-19 llvm-config HINTS /usr/lib/llvm-19/bin NO_CACHE)
  find_library(XYNTRA_ZLIB_ARCHIVE NAMES libz.a NO_CACHE)
  find_library(XYNTRA_ZSTD_ARCHIVE NAMES libzstd.a NO_CACHE)
  if(XYNTRA_LLVM_CONFIG AND XYNTRA_ZLIB_ARCHIVE AND XYNTRA_ZSTD_ARCHIVE)
    execute_process(COMMAND "${XYNTRA_LLVM_CONFIG}" --link-static --libfiles ${xyntra_llvm_parts}
      OUTPUT_VARIABLE files OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_VARIABLE problem RESULT_VARIABLE status)
    if(status EQUAL 0)
      separate_arguments(files)
      set(XYNTRA_STATIC_LLVM ${files} "${XYNTRA_ZLIB_ARCHIVE}" "${XYNTRA_ZSTD_ARCHIVE}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

# An interface target: the C library as of the floor, the C++ library inside, nothing shown and nothing kept that is not used.
function(xyntra_add_old_glibc)
  set(folder "${PROJECT_BINARY_DIR}/old_glibc")
  set(script "${PROJECT_SOURCE_DIR}/cmake/old_glibc.py")
  foreach(name libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2)
    list(APPEND stubs "${folder}/${name}")
  endforeach()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_custom_command(OUTPUT ${stubs} DEPENDS "${script}" VERBATIM
    COMMAND "${Python3_EXECUTABLE}" "${script}" --floor ${XYNTRA_GLIBC_FLOOR} --compiler "${CMAKE_CXX_COMPILER}"
      --readelf "${CMAKE_READELF}" --output "${folder}")
  add_custom_target(xyntra_old_glibc_stubs DEPENDS ${stubs})
  add_library(xyntra_old_glibc_functions OBJECT EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/cmake/old_glibc.cpp")
  set_target_properties(xyntra_old_glibc_functions PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_compile_options(xyntra_old_glibc_functions PRIVATE -fno-exceptions
    $<TARGET_PROPERTY:xyntra_options,INTERFACE_COMPILE_OPTIONS>)
  add_library(xyntra::xyntra_old_glibc_functions ALIAS xyntra_old_glibc_functions)
  add_library(xyntra_self_contained_options INTERFACE)
  add_dependencies(xyntra_self_contained_options xyntra_old_glibc_stubs)
  # Said to the linker alone: a path to a library of the system's name may become -lc otherwise, which is the system's own.
  list(TRANSFORM stubs PREPEND "-Wl,")
  # All of them are there for what the C++ library needs, which comes last; compilers may say --as-needed.
  target_link_libraries(xyntra_self_contained_options INTERFACE $<TARGET_OBJECTS:xyntra::xyntra_old_glibc_functions>
    "-Wl,--push-state,--no-as-needed" ${stubs} "-Wl,--pop-state")
  target_link_options(xyntra_self_contained_options INTERFACE -static-libstdc++ LINKER:--strip-all LINKER:--gc-sections
    LINKER:--allow-shlib-undefined LINKER:-z,now LINKER:-z,relro)
endfunction()

function(xyntra_add_self_contained)
  xyntra_find_static_llvm()
  if(NOT xyntra_has_llvm OR NOT XYNTRA_STATIC_LLVM)
    return()
  endif()
  xyntra_add_old_glibc()
  add_library(xyntra_llvm_inside MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:xyntra_llvm_objects>)
  xyntra_link_code_generator(xyntra_llvm_inside ${XYNTRA_STATIC_LLVM} xyntra_self_contained_options)
  target_link_options(xyntra_llvm_inside PRIVATE LINKER:--no-undefined)
  set_target_properties(xyntra_llvm_inside PROPERTIES OUTPUT_NAME xyntra_llvm)

  # The command is in the library, and what is started does nothing but call it: on a glibc below 2.34 a program that is linked
  # here could not have constructors of its own, and the two would hold most things twice.
  add_library(xyntra_library_inside SHARED EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/include/xyntra/xyntra.h")
  xyntra_link_library(xyntra_library_inside "$<TARGET_FILE:xyntra_cli>")  # all else that it links is under api, too
  add_dependencies(xyntra_library_inside xyntra_cli)
  target_link_libraries(xyntra_library_inside PRIVATE xyntra_self_contained_options)
  target_link_options(xyntra_library_inside PRIVATE LINKER:--undefined=xyntra_command)
  add_executable(xyntra_command_inside EXCLUDE_FROM_ALL "${xyntra_source_root}/cli/main.cpp")
  target_link_libraries(xyntra_command_inside PRIVATE xyntra_options xyntra_library_inside xyntra_self_contained_options)
  set_target_properties(xyntra_command_inside PROPERTIES OUTPUT_NAME xyntra)

  set(parts xyntra_llvm_inside xyntra_library_inside xyntra_command_inside)
  set(folder "${PROJECT_BINARY_DIR}/self_contained")
  set_target_properties(${parts} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN"
    LIBRARY_OUTPUT_DIRECTORY "${folder}" RUNTIME_OUTPUT_DIRECTORY "${folder}")
  add_custom_target(xyntra_self_contained DEPENDS ${parts})
  export(TARGETS ${parts} xyntra_self_contained_options xyntra_old_glibc_functions NAMESPACE xyntra::
    FILE "${folder}/targets.cmake")  # for python/CMakeLists.txt
endfunction()
