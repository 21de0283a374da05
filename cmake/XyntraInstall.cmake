# libxyntra: all folders up to api in one shared library that shows the C ABI and nothing else; and what is installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The number of the C ABI, counted apart from the version: it rises when a program made for an earlier library would no
# longer work, which fields and functions that are added do not do (include/xyntra/xyntra.h). tests/library keeps it true.
set(xyntra_abi 1)

function(xyntra_add_library)
  add_library(xyntra_library SHARED "${PROJECT_SOURCE_DIR}/include/xyntra/xyntra.h")
  add_library(xyntra::xyntra ALIAS xyntra_library)
  set_target_properties(xyntra_library PROPERTIES EXPORT_NAME xyntra)
  xyntra_link_library(xyntra_library)
endfunction()

function(xyntra_link_library target)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME xyntra LINKER_LANGUAGE CXX
    VERSION ${xyntra_abi}.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} SOVERSION ${xyntra_abi}
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/src/api/exports.map")
  target_link_libraries(${target} PRIVATE xyntra_options ${ARGN} "$<LINK_LIBRARY:WHOLE_ARCHIVE,xyntra_api>")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/api/exports.map"
    "LINKER:--no-undefined" "LINKER:--gc-sections")
  target_include_directories(${target} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endfunction()

# cmake --install: the command, the library, its headers, and how CMake and pkg-config find them.
function(xyntra_add_install)
  set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/xyntra")
  install(TARGETS xyntra RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
  if(TARGET xyntra_llvm)  # found by command and library alike: src/codegen/llvm/library/code_generator.cpp
    install(TARGETS xyntra_llvm LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/xyntra" COMPONENT library)
  endif()
  install(TARGETS xyntra_library EXPORT xyntra_targets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    COMPONENT library NAMELINK_COMPONENT library)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/xyntra" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    COMPONENT library FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
  install(EXPORT xyntra_targets NAMESPACE xyntra:: DESTINATION "${package_folder}" COMPONENT library)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/xyntraConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/xyntraConfig.cmake" INSTALL_DESTINATION "${package_folder}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/xyntraConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/xyntra.pc.in" "${PROJECT_BINARY_DIR}/xyntra.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/xyntraConfig.cmake" "${PROJECT_BINARY_DIR}/xyntraConfigVersion.cmake"
    DESTINATION "${package_folder}" COMPONENT library)
  install(FILES "${PROJECT_BINARY_DIR}/xyntra.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)
endfunction()
