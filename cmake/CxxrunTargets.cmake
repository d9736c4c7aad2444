# SPDX-License-Identifier: Apache-2.0
# Targets and helpers that every folder uses.

option(CXXRUN_WERROR "warnings are errors (the presets turn it on)" OFF)
option(CXXRUN_CCACHE "use ccache when it is installed" OFF)
set(CXXRUN_SANITIZE "" CACHE STRING "value of -fsanitize=, empty for none")

if(CXXRUN_CCACHE)
  find_program(CXXRUN_CCACHE_PROGRAM ccache)
  if(CXXRUN_CCACHE_PROGRAM)
    set(CMAKE_C_COMPILER_LAUNCHER ${CXXRUN_CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CXXRUN_CCACHE_PROGRAM})
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(cxxrun_warnings INTERFACE)
target_compile_options(cxxrun_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  # gcc 12 reports false positives for std::optional and std::variant.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<BOOL:${CXXRUN_WERROR}>:-Werror>)
if(CXXRUN_SANITIZE)
  add_compile_options(-fsanitize=${CXXRUN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CXXRUN_SANITIZE})
endif()

# cxxrun_library(launcher SOURCES ... [DEPS cxxrun::base] [PRIVATE_DEPS ...])
function(cxxrun_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;PRIVATE_DEPS")
  add_library(cxxrun_${name} STATIC ${arg_SOURCES})
  add_library(cxxrun::${name} ALIAS cxxrun_${name})
  set_target_properties(cxxrun_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(cxxrun_${name} PUBLIC cxx_std_20)
  target_include_directories(cxxrun_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/cxxrun>)
  target_link_libraries(cxxrun_${name}
    PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS} $<BUILD_INTERFACE:cxxrun_warnings>)
endfunction()

# A static program starts in half the time of a dynamic one (docs/adr/0006), and runs on any Linux of its architecture.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LINK_OPTIONS -static-pie)
check_cxx_source_compiles("int main() { return 0; }" CXXRUN_CAN_LINK_STATIC)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(CXXRUN_CAN_LINK_STATIC AND NOT CXXRUN_SANITIZE)
  set(static_default ON)
else()
  set(static_default OFF)
endif()
option(CXXRUN_STATIC "link the programs statically (Fedora: glibc-static)" ${static_default})

# cxxrun_program(cxxrun SOURCES ... DEPS ...): an executable in bin/ that needs no C++ runtime on the machine it runs on.
function(cxxrun_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} cxxrun_warnings)
  if(CXXRUN_STATIC)
    # The linker warns that getaddrinfo loads modules of the machine's C library for names beyond files and DNS: known. Not
    # silenced, as --no-warnings would let a program with missing functions pass too.
    target_link_options(${name} PRIVATE -static-pie -Wl,--gc-sections)
  elseif(NOT CXXRUN_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  endif()
endfunction()
